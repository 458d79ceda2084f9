"""The data sets of the paper, how their rows are prepared, and their protocols."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from manyone import datasets
from manyone._types import Array
from manyone.experiments.protocols import Protocol


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper, as ``datasets.toml`` says what each entry means."""

    title: str
    note: str
    loader: str
    seen: dict[str, int]
    unseen: dict[str, int]
    options: dict[str, str] = field(default_factory=dict)
    unit_length: bool = False

    @property
    def protocols(self) -> dict[str, Protocol]:
        """Both protocols by their kind."""
        return {"seen": Protocol("seen", **self.seen), "unseen": Protocol("unseen", **self.unseen)}


_TEXT = Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8")
#: Under the names that ``--data`` takes.
DATASETS = {name: Dataset(**entry) for name, entry in tomllib.loads(_TEXT).items()}


@lru_cache(maxsize=4)
def load(name: str, data_home: str | None = None) -> tuple[Array, NDArray[Any]]:
    """Prepared rows (n, d) and the name of the class of each (n,); kept for the next call."""
    dataset = DATASETS[name]
    bunch = getattr(datasets, dataset.loader)(data_home=data_home, **dataset.options)
    X = normalize(bunch.data) if dataset.unit_length else np.asarray(bunch.data)
    return X, np.asarray(bunch.target_names)[bunch.target]
