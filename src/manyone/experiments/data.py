"""The data sets of the paper and of faults, prepared, with their protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils import Bunch

from manyone import datasets
from manyone._types import Array, Labels, Mask
from manyone.experiments.protocols import (
    FAULT,
    LEARN,
    NORMAL,
    AnyProtocol,
    FaultProtocol,
    Protocol,
    Split,
    TimeProtocol,
)
from manyone.files import toml_beside
from manyone.history.transformer import TaskHistory


@dataclass(frozen=True)
class Dataset:
    """A data set; ``datasets.toml`` says what each entry means."""

    title: str
    note: str
    protocols: dict[str, AnyProtocol]
    loader: str = ""
    options: dict[str, str] = field(default_factory=dict)
    unit_length: bool = False


#: Protocols by the names that ``--protocol`` takes.
PROTOCOLS: dict[str, Callable[..., AnyProtocol]] = {
    "seen": partial(Protocol, "seen"),
    "unseen": partial(Protocol, "unseen"),
    "faults": FaultProtocol,
    "time": TimeProtocol,
}


def _datasets() -> dict[str, Dataset]:
    sets = {}
    for name, entry in toml_beside(__file__, "datasets.toml").items():
        sizes = entry.pop("protocols")
        protocols = {kind: PROTOCOLS[kind](**sizes[kind]) for kind in sizes}
        sets[name] = Dataset(protocols=protocols, **entry)
    return sets


#: Under the names that ``--data`` takes.
DATASETS = _datasets()


def names(kind: str) -> tuple[str, ...]:
    """Data sets that have a protocol."""
    return tuple(name for name, d in DATASETS.items() if kind in d.protocols)


class Rows(NamedTuple):
    """Rows of a data set, as the ``split`` of a protocol takes them.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    task : ndarray of shape (n,)
        Name of the class or entity of each row.
    roles : ndarray of shape (n,)
        Roles that a row may be drawn for, a sum of `LEARN`, `NORMAL` and `FAULT`.
    """

    X: Array
    task: Labels
    roles: NDArray[np.uint8]


def draw(
    name: str,
    protocol: AnyProtocol,
    seed: int | Sequence[int],
    data_home: str | None = None,
) -> tuple[Array, Split]:
    """Rows (n, d) of a data set as methods get them, and the split of one repetition.

    For faults, columns are standardised on the training rows. In time each column has
    two more beside it, which say how a row differs from the past of its entity.
    """
    rows = load(name, data_home)
    if isinstance(protocol, TimeProtocol):
        rows = in_time(name, data_home)
    split = protocol.split(*rows, seed=seed)
    if isinstance(protocol, Protocol):
        return rows.X, split
    scaler = StandardScaler().fit(rows.X[split.train])
    return np.asarray(scaler.transform(rows.X)), split


@lru_cache(maxsize=5)
def load(name: str, data_home: str | None = None) -> Rows:
    """Rows of a data set, with a cache of a few sets."""
    dataset = DATASETS[name]
    if name in FAULT_ROWS:
        return FAULT_ROWS[name](data_home)
    load = getattr(datasets, f"load_{dataset.loader}")
    bunch = load(data_home=data_home, **dataset.options)
    X = normalize(bunch.data) if dataset.unit_length else np.asarray(bunch.data)
    anything = np.ones(len(X), dtype=bool)
    return Rows(X, _entities(bunch), _roles(anything, anything, ~anything))


@lru_cache(maxsize=2)
def in_time(name: str, data_home: str | None = None) -> Rows:
    """Rows of a data set in time, with columns of their past."""
    rows = _engines_in_time(data_home) if name == "turbofan" else load(name, data_home)
    return rows._replace(X=TaskHistory().fit_transform(rows.X, task=rows.task))


def levels(X: Array) -> Array:
    """Columns of rows in time (n, 3 d) without those of their past, (n, d)."""
    return X[:, : X.shape[1] // 3]


def _servers(data_home: str | None) -> Rows:
    """Learn from the first half of the time, test with the second."""
    early = datasets.load_servers(data_home=data_home)
    late = datasets.load_servers(data_home=data_home, split="test")
    return _joined(early, late, late.label, ~late.label)


def _spacecraft(data_home: str | None) -> Rows:
    """Windows of telemetry; a fault lasts for at least half of its window."""
    load = partial(
        datasets.load_telemetry,
        data_home=data_home,
        window=50,
        step=25,
        features="values",
    )
    early = load()
    late = load(split="test")
    return _joined(early, late, late.anomalous >= 0.5, late.anomalous == 0.0)


def _turbofan(data_home: str | None) -> Rows:
    """Early and last cycles of engines, without sensors that do not vary."""
    engines = datasets.load_turbofan(data_home=data_home)
    early = engines.cycle <= 80
    varies = np.ptp(engines.data, axis=0) > 0
    roles = _roles(early, early, engines.rul < 20)
    return Rows(engines.data[:, varies], _entities(engines), roles)


def _engines_in_time(data_home: str | None) -> Rows:
    """Learn from 50 cycles; an engine is normal until 100 cycles before its end."""
    engines = datasets.load_turbofan(data_home=data_home)
    early = engines.cycle <= 50
    rows = _turbofan(data_home)
    roles = _roles(early, ~early & (engines.rul >= 100), ~early & (engines.rul < 20))
    return rows._replace(roles=roles)


def _products(data_home: str | None) -> Rows:
    """Intact products and defective ones."""
    images = datasets.load_products(data_home=data_home)
    roles = _roles(~images.label, ~images.label, images.label)
    return Rows(images.data, _entities(images), roles)


def _valves(data_home: str | None) -> Rows:
    """Learn from normal rows of the beginning of each run, test with all later ones."""
    runs = datasets.load_valves(data_home=data_home)
    first = np.searchsorted(runs.target, runs.target)
    begin = np.arange(len(runs.target)) - first < 300
    roles = _roles(begin & ~runs.label, ~begin & ~runs.label, ~begin & runs.label)
    return Rows(runs.data, _entities(runs), roles)


#: Functions that load the sets of faults.
FAULT_ROWS = {
    "servers": _servers,
    "spacecraft": _spacecraft,
    "turbofan": _turbofan,
    "products": _products,
    "valves": _valves,
}


def _joined(early: Bunch, late: Bunch, fault: Mask, normal: Mask) -> Rows:
    """Two series of the same entities: learn from the early, test with the late one."""
    neither = np.zeros(len(early.data), dtype=bool)
    learn = np.append(~neither, np.zeros(len(late.data), dtype=bool))
    roles = _roles(learn, np.append(neither, normal), np.append(neither, fault))
    entities = np.append(_entities(early), _entities(late))
    return Rows(np.concatenate([early.data, late.data]), entities, roles)


def _entities(bunch: Bunch) -> Labels:
    """Name of the entity of each row."""
    return np.asarray(bunch.target_names)[bunch.target]


def _roles(learn: Mask, normal: Mask, fault: Mask) -> NDArray[np.uint8]:
    return (LEARN * learn + NORMAL * normal + FAULT * fault).astype(np.uint8)
