"""The data sets of the paper and of faults, how their rows are prepared, and their protocols."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler, normalize

from manyone import datasets
from manyone._types import Array, Mask
from manyone.experiments.protocols import FAULT, LEARN, NORMAL, FaultProtocol, Protocol
from manyone.files import toml_beside


@dataclass(frozen=True)
class Dataset:
    """A data set; ``datasets.toml`` says what each entry means."""

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
        if self.faults is not None:
            return {"faults": FaultProtocol(**self.faults)}
        sizes = {"seen": self.seen, "unseen": self.unseen}
        return {kind: Protocol(kind, **given) for kind, given in sizes.items() if given}


#: Under the names that ``--data`` takes.
DATASETS = {
    name: Dataset(**entry) for name, entry in toml_beside(__file__, "datasets.toml").items()
}


def names(kind: str) -> tuple[str, ...]:
    """Data sets that have a protocol."""
    return tuple(name for name, dataset in DATASETS.items() if kind in dataset.protocols)


@lru_cache(maxsize=5)
def load(name: str, data_home: str | None = None) -> tuple[NDArray[Any], ...]:
    """Rows (n, d) and the name of the class or entity of each (n,); for faults also roles (n,).

    A role is a sum of `LEARN`, `NORMAL` and `FAULT`. The ``split`` of a protocol takes all of
    this. The last few sets are kept for the next call.
    """
    dataset = DATASETS[name]
    if dataset.faults is not None:
        return FAULT_ROWS[name](data_home)
    bunch = _load(dataset.loader, data_home, **dataset.options)
    X = normalize(bunch.data) if dataset.unit_length else np.asarray(bunch.data)
    return X, _entities(bunch)


def prepared(name: str, X: Array, train: NDArray[np.intp]) -> Array:
    """Rows as methods get them: for faults, columns are standardised on the training rows."""
    if DATASETS[name].faults is None:
        return X
    return np.asarray(StandardScaler().fit(X[train]).transform(X))


def _servers(data_home: str | None) -> tuple[NDArray[Any], ...]:
    """Learn from the first half of the time, test with the second."""
    early, late = (_load("servers", data_home, split=split) for split in ("train", "test"))
    return _joined(early, late, late.label, ~late.label)


def _spacecraft(data_home: str | None) -> tuple[NDArray[Any], ...]:
    """Windows of telemetry; a fault lasts for half of the steps of its window or more."""
    options: dict[str, Any] = {"window": 50, "step": 25, "features": "values"}
    early, late = (_load("telemetry", data_home, split=s, **options) for s in ("train", "test"))
    return _joined(early, late, late.anomalous >= 0.5, late.anomalous == 0.0)


def _turbofan(data_home: str | None) -> tuple[NDArray[Any], ...]:
    """Early cycles of engines, and their last ones; sensors that do not vary are left out."""
    engines = _load("turbofan", data_home)
    early, varies = engines.cycle <= 80, np.ptp(engines.data, axis=0) > 0
    return engines.data[:, varies], _entities(engines), _roles(early, early, engines.rul < 20)


def _products(data_home: str | None) -> tuple[NDArray[Any], ...]:
    """Intact products and defective ones."""
    images = _load("products", data_home)
    return images.data, _entities(images), _roles(~images.label, ~images.label, images.label)


def _valves(data_home: str | None) -> tuple[NDArray[Any], ...]:
    """Learn from normal rows of the beginning of each run, test with all that comes later."""
    runs = _load("valves", data_home)
    begin = np.arange(len(runs.target)) - np.searchsorted(runs.target, runs.target) < 300
    roles = _roles(begin & ~runs.label, ~begin & ~runs.label, ~begin & runs.label)
    return runs.data, _entities(runs), roles


#: Functions that load the sets of faults.
FAULT_ROWS = {
    "servers": _servers,
    "spacecraft": _spacecraft,
    "turbofan": _turbofan,
    "products": _products,
    "valves": _valves,
}


def _load(name: str, data_home: str | None, **options: Any) -> Any:
    return getattr(datasets, f"load_{name}")(data_home=data_home, **options)


def _joined(early: Any, late: Any, fault: Mask, normal: Mask) -> tuple[NDArray[Any], ...]:
    """Two series of the same entities: learn from the early one, test with the late one."""
    learn = np.arange(len(early.data) + len(late.data)) < len(early.data)
    normal, fault = (np.append(np.zeros(len(early.data), bool), part) for part in (normal, fault))
    entities = np.append(_entities(early), _entities(late))
    return np.concatenate([early.data, late.data]), entities, _roles(learn, normal, fault)


def _entities(bunch: Any) -> NDArray[Any]:
    """Name of the entity of each row."""
    return np.asarray(bunch.target_names)[bunch.target]


def _roles(learn: Mask, normal: Mask, fault: Mask) -> NDArray[np.uint8]:
    return (LEARN * learn + NORMAL * normal + FAULT * fault).astype(np.uint8)
