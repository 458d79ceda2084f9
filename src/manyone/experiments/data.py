"""The data sets of the paper, how their rows are prepared, and their protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from manyone._types import Array
from manyone.datasets import load_coil100, load_faces, load_mnist
from manyone.experiments.protocols import Protocol


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper.

    Attributes
    ----------
    title : str
        As people write it.
    load : callable
        ``load(data_home=...)`` gives a Bunch.
    unit_length : bool
        Whether rows are scaled to length 1 (strokes of digits are not equally thick).
    protocols : dict of str to Protocol
    note : str
        What the reader must know about it.
    """

    title: str
    load: Callable[..., Any]
    unit_length: bool
    protocols: dict[str, Protocol]
    note: str


def _protocols(
    seen: int, unseen: int, *, rows: tuple[int, int, int], others: int
) -> dict[str, Protocol]:
    """Both protocols: numbers of tasks, rows per task (training, positive, negative), classes that
    only appear as anomalies.
    """
    unknown = Protocol("unseen", unseen, *rows, n_unseen=others)
    return {"seen": Protocol("seen", seen, *rows), "unseen": unknown}


#: Under the names that ``--data`` takes.
DATASETS: dict[str, Dataset] = {
    "mnist": Dataset(
        "MNIST",
        load_mnist,
        True,
        _protocols(10, 5, rows=(15, 150, 1350), others=5),
        "Handwritten digits, grey values of rows scaled to length 1. The subset that comes with "
        "the package has 600 images of each digit.",
    ),
    "coil100": Dataset(
        "COIL-100",
        load_coil100,
        False,
        _protocols(50, 50, rows=(7, 65, 585), others=50),
        "Objects on a turntable, grey values of 32 x 32 pixels.",
    ),
    "face": Dataset(
        "Faces",
        partial(load_faces, features="dlib"),
        False,
        _protocols(10, 6, rows=(4, 40, 160), others=6),
        "The paper uses videos of Replay-Mobile, which need a licence, and features of a network "
        "that is not public. Labeled Faces in the Wild (12 people) with the 128 numbers of dlib's "
        "face descriptor stands in for them; the figures are not comparable digit by digit.",
    ),
}


@lru_cache(maxsize=4)
def load(name: str, data_home: str | None = None) -> tuple[Array, NDArray[Any]]:
    """Prepared rows (n, d) and the name of the class of each (n,); kept for the next call."""
    dataset = DATASETS[name]
    bunch = dataset.load(data_home=data_home)
    X = normalize(bunch.data) if dataset.unit_length else np.asarray(bunch.data)
    return X, np.asarray(bunch.target_names)[bunch.target]
