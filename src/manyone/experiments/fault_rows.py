"""Entities gone wrong: rows of real machines and products, and the part that each may play.

Every function gives rows (n, d), the entity of each (n,) and its roles (n,), a sum of `LEARN`,
`NORMAL` and `FAULT`. ``datasets.toml`` names the functions.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from manyone import datasets
from manyone._types import Array, Mask
from manyone.experiments.protocols import FAULT, LEARN, NORMAL

Roles: TypeAlias = NDArray[np.uint8]
FaultRows: TypeAlias = tuple[Array, NDArray[Any], Roles]

_EARLY, _LAST = 80, 20  # cycles of an engine
_BEGINNING = 300  # rows of a run of valves
_WINDOW, _STEP = 50, 25  # of telemetry


def servers(data_home: str | None) -> FaultRows:
    """Rows of the first half of the time to learn from, those of the second to be tested with."""
    early, late = (_load("servers", data_home, split=split) for split in ("train", "test"))
    return _joined(early, late, late.label, ~late.label)


def spacecraft(data_home: str | None) -> FaultRows:
    """Windows of telemetry; anomalous ones are so for half of their steps or more."""
    options: dict[str, Any] = {"window": _WINDOW, "step": _STEP, "features": "values"}
    early, late = (_load("telemetry", data_home, split=s, **options) for s in ("train", "test"))
    return _joined(early, late, late.anomalous >= 0.5, late.anomalous == 0.0)


def turbofan(data_home: str | None) -> FaultRows:
    """Early cycles of engines, and their last ones; sensors that do not vary left out."""
    engines = _load("turbofan", data_home)
    roles = _roles(engines.cycle <= _EARLY, engines.cycle <= _EARLY, engines.rul < _LAST)
    varies = np.ptp(engines.data, axis=0) > 0
    return engines.data[:, varies], engines.target_names[engines.target], roles


def products(data_home: str | None) -> FaultRows:
    """Intact products and defective ones."""
    images = _load("products", data_home)
    roles = _roles(~images.label, ~images.label, images.label)
    return images.data, images.target_names[images.target], roles


def valves(data_home: str | None) -> FaultRows:
    """Normal rows of the beginning of each run, and all that comes later."""
    runs = _load("valves", data_home)
    first = np.searchsorted(runs.target, runs.target)
    begin = np.arange(len(first)) - first < _BEGINNING
    roles = _roles(begin & ~runs.label, ~begin & ~runs.label, ~begin & runs.label)
    return runs.data, runs.target_names[runs.target], roles


def _load(name: str, data_home: str | None, **options: Any) -> Any:
    return getattr(datasets, f"load_{name}")(data_home=data_home, **options)


def _joined(early: Any, late: Any, fault: Mask, normal: Mask) -> FaultRows:
    """Rows of two series of the same entities: the early ones to learn from."""
    nothing = np.zeros(len(early.data), dtype=bool)
    names = [part.target_names[part.target] for part in (early, late)]
    roles = [_roles(~nothing, nothing, nothing), _roles(np.zeros_like(fault), normal, fault)]
    return np.concatenate([early.data, late.data]), np.concatenate(names), np.concatenate(roles)


def _roles(learn: Mask, normal: Mask, fault: Mask) -> Roles:
    roles = LEARN * learn + NORMAL * normal + FAULT * fault
    return roles.astype(np.uint8)
