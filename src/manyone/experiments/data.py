"""The data sets of the paper and of faults, how their rows are prepared, and their protocols."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler, normalize

from manyone import datasets
from manyone._types import Array
from manyone.experiments import fault_rows
from manyone.experiments.protocols import FaultProtocol, Protocol


@dataclass(frozen=True)
class Dataset:
    """A data set, as ``datasets.toml`` says what each entry means."""

    title: str
    note: str
    loader: str = ""
    options: dict[str, str] = field(default_factory=dict)
    unit_length: bool = False
    seen: dict[str, int] | None = None
    unseen: dict[str, int] | None = None
    faults: dict[str, int] | None = None

    @property
    def protocols(self) -> dict[str, Any]:
        """Its protocols by their kind."""
        found: dict[str, Any] = {}
        for kind, sizes in (("seen", self.seen), ("unseen", self.unseen)):
            found |= {} if sizes is None else {kind: Protocol(kind, **sizes)}
        return found if self.faults is None else found | {"faults": FaultProtocol(**self.faults)}


_TEXT = Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8")
#: Under the names that ``--data`` takes.
DATASETS = {name: Dataset(**entry) for name, entry in tomllib.loads(_TEXT).items()}


def names(kind: str) -> tuple[str, ...]:
    """Data sets that have a protocol."""
    return tuple(name for name, dataset in DATASETS.items() if kind in dataset.protocols)


@lru_cache(maxsize=5)
def load(name: str, data_home: str | None = None) -> tuple[NDArray[Any], ...]:
    """Rows (n, d), the name of the class or entity of each (n,), and of faults the roles (n,).

    They are what the ``split`` of the protocols takes, and kept for the next call.
    """
    dataset = DATASETS[name]
    if dataset.faults is not None:
        return getattr(fault_rows, name)(data_home)
    bunch = getattr(datasets, dataset.loader)(data_home=data_home, **dataset.options)
    X = normalize(bunch.data) if dataset.unit_length else np.asarray(bunch.data)
    return X, np.asarray(bunch.target_names)[bunch.target]


def prepared(name: str, X: Array, train: NDArray[np.intp]) -> Array:
    """Rows as methods get them: of faults, every column standardised on the training rows."""
    if DATASETS[name].faults is None:
        return X
    return np.asarray(StandardScaler().fit(X[train]).transform(X))
