"""What is compared where entities go wrong: every method of the package, `auto`, and rivals.

Rivals run in every setting of their grids: with hindsight the best one is known, and the table
marks it as such. They get each task in its own column scales, too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from manyone import auto, tune
from manyone._types import Array
from manyone.estimators import METHODS
from manyone.experiments import rivals

_TABLE = tomllib.loads(Path(__file__).with_name("fault_methods.toml").read_text(encoding="utf-8"))
#: Setting of a method as people use it.
DEFAULT = "default"
_OWN_SCALES = ", own scales"


@dataclass(frozen=True)
class FaultMethod:
    """A method in one setting.

    Attributes
    ----------
    name, family : str
        As written in the table; what it is a variant of.
    setting : str
        `DEFAULT`, or what differs from it.
    model : estimator or str
        Not fitted; or what `auto` is told about the anomalies.
    tuned : bool
        Whether its settings are chosen by synthetic faults made of training rows.
    quick, alarms : bool
        Whether a first look has it; whether it sets thresholds that can be tried.
    package : str
        Must be installed.
    """

    name: str
    family: str
    setting: str
    model: Any
    tuned: bool = False
    quick: bool = True
    alarms: bool = True
    package: str = ""

    def fit(self, X: Array, task: NDArray[Any], kind: str = "", *, calibrate: bool = True) -> Any:
        """Fit to normal rows (n, d) of the tasks (n,); `kind` is always faults."""
        if isinstance(self.model, str):
            return auto(X, task=task, anomalies=self.model)
        if self.tuned:
            return tune(self.model, X, task=task, criterion="faults", calibrate=calibrate)
        return clone(self.model).fit(X, task=task)


def fault_methods() -> dict[tuple[str, str], FaultMethod]:
    """Every method by its name and setting; rivals whose package is missing are left out."""
    table = [FaultMethod(f"auto ({kind})", "auto", DEFAULT, kind) for kind in _TABLE["auto"]]
    for name, kind in ((n, kind) for n, kind in METHODS.items() if n not in _TABLE["without"]):
        table.append(FaultMethod(name, name, DEFAULT, kind(), quick=kind.can.quick))
        if kind.can.task_metric:
            tuned = f"{name} (tuned for faults)"
            table.append(FaultMethod(tuned, name, DEFAULT, kind(), True, kind.can.quick))
    missing = left_out()
    for name, entry in _TABLE["rivals"].items():
        table += [] if name in missing else _variants(name, **entry)
    return {(method.name, method.setting): method for method in table}


def fault_lines() -> list[str]:
    """Names of the methods, each once."""
    return list(dict.fromkeys(name for name, _ in fault_methods()))


def left_out() -> list[str]:
    """Names of the rivals whose package is not installed (extra ``experiments``)."""
    packages = {name: entry.get("package", "") for name, entry in _TABLE["rivals"].items()}
    return [name for name, package in packages.items() if package and find_spec(package) is None]


def _variants(
    name: str,
    model: str,
    fixed: dict[str, Any] | None = None,
    grid: dict[str, list[Any]] | None = None,
    own_scales: bool = True,
    **entry: Any,
) -> Iterator[FaultMethod]:
    """A rival in every setting, as ``fault_methods.toml`` has it, which says what entries mean."""
    grid = grid or {}
    for number, values in enumerate(product(*grid.values())):
        setting = dict(zip(grid, values, strict=True))
        rival = getattr(rivals, model)(**fixed or {}, **setting)
        words = ", ".join(f"{key}={value}" for key, value in setting.items())
        words = words if number else DEFAULT
        yield FaultMethod(name, name, words, rival, **entry)
        if own_scales:
            scaled = rivals.OwnScales(rival)
            yield FaultMethod(name + _OWN_SCALES, name, words, scaled, **entry)
