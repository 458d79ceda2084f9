"""What is compared where entities go wrong: every method of the package, `auto`, and rivals.

Rivals run in every setting of their grids: with hindsight the best one is known, and the table
marks it as such. They get each task in its own column scales, too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from manyone import auto, tune
from manyone._types import Array
from manyone.estimators import METHODS
from manyone.experiments import rivals
from manyone.experiments.methods import Method, not_installed

_TABLE = tomllib.loads(Path(__file__).with_name("fault_methods.toml").read_text(encoding="utf-8"))
#: Setting of a method as people use it.
DEFAULT = "default"
_OWN_SCALES = ", own scales"


class FaultMethod(Method):
    """A method in one setting, `DEFAULT` or what differs from it.

    Its model may be what `auto` is told about the anomalies; with a criterion, its settings are
    chosen by synthetic faults made of training rows.
    """

    def fit(self, X: Array, task: NDArray[Any], kind: str = "", *, calibrate: bool = True) -> Any:
        """Fit to normal rows (n, d) of the tasks (n,); `kind` is always faults."""
        if isinstance(self.model, str):
            return auto(X, task=task, anomalies=self.model)
        if self.criterion:
            return tune(self.model, X, task=task, criterion=self.criterion, calibrate=calibrate)
        return clone(self.model).fit(X, task=task)


def fault_methods() -> dict[tuple[str, str], FaultMethod]:
    """Every method by its name and setting; rivals whose package is missing are left out."""
    table = [FaultMethod(f"auto ({kind})", "auto", DEFAULT, kind) for kind in _TABLE["auto"]]
    for name, kind in ((n, kind) for n, kind in METHODS.items() if n not in _TABLE["without"]):
        table.append(FaultMethod(name, name, DEFAULT, kind(), quick=kind.can.quick))
        if kind.can.task_metric:
            tuned = f"{name} (tuned for faults)"
            method = FaultMethod(tuned, name, DEFAULT, kind(), None, kind.can.quick)
            table.append(replace(method, criterion="faults"))
    missing = left_out()
    for name, entry in _TABLE["rivals"].items():
        table += [] if name in missing else _variants(name, **entry)
    return {(method.name, method.setting): method for method in table}


def fault_lines() -> list[str]:
    """Names of the methods, each once."""
    return list(dict.fromkeys(name for name, _ in fault_methods()))


def left_out() -> list[str]:
    """Names of the rivals whose package is not installed (extra ``experiments``)."""
    return not_installed({name: e.get("package", "") for name, e in _TABLE["rivals"].items()})


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
