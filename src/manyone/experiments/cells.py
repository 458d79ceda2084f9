"""Compute one cell: fit, score, and keep parts of the model for figures."""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypedDict

import numpy as np
from threadpoolctl import threadpool_limits

from manyone._types import Array
from manyone.estimators import METHODS
from manyone.experiments import data
from manyone.experiments.methods import Fitted, Method, compared, package_method
from manyone.experiments.plan import RIDGES, Cell
from manyone.experiments.protocols import Split
from manyone.solvers.two_layers import respond

#: False-alarm rates at which thresholds are set and measured.
ALARM_RATES = (0.05, 0.1, 0.2, 0.3)
#: Parts of a model that figures show.
Shown = Literal["structure", "second_kernel", "objective_path"]
# Digits to which they are rounded.
_DIGITS: dict[Shown, int] = {
    "structure": 6,
    "objective_path": 15,
    "second_kernel": 3,
}


class CellResult(TypedDict, total=False):
    """Results of a cell.

    Attributes
    ----------
    auc : list of float
        Of each task.
    alarms : list of float
        Measured rates of tuned models in the first repetitions, for each of
        `ALARM_RATES`.
    sse : float
        Sum of squared errors of a regression with a fixed ridge.
    tasks : list
        In the first repetition, as all that follows.
    structure, second_kernel : list of lists of float
    objective_path : list of float
    """

    auc: list[float]
    alarms: list[float]
    sse: float
    tasks: list[object]
    structure: list[list[float]]
    second_kernel: list[list[float]]
    objective_path: list[float]


def compute(cell: Cell, data_home: str | None = None) -> CellResult:
    """Compute one cell.

    Parameters
    ----------
    cell : Cell
    data_home : str or None

    Returns
    -------
    CellResult
    """
    X, split = data.draw(
        cell.dataset, cell.sizes, (cell.seed, cell.repetition), data_home
    )
    method = _method(cell)
    if not method.past:
        X = data.levels(X)
    result: CellResult = {}
    with threadpool_limits(1), warnings.catch_warnings():
        # With few rows per task many estimators warn; figures show the consequences.
        warnings.simplefilter("ignore")
        model = method.fit(
            X[split.train], split.task, cell.protocol, calibrate=cell.measures_alarms
        )
        result["auc"] = split.aucs(split.scores(model, X)).tolist()
        if cell.measures_alarms and method.alarms:
            result["alarms"] = _measured_alarms(model, X, split)
        if cell.family in METHODS and cell.protocol in ("seen", "unseen"):
            result |= _learned(model, cell)
    if cell.repetition == 0:
        result["tasks"] = split.tasks.tolist()
    return result


def _method(cell: Cell) -> Method:
    """The method of a cell, not fitted."""
    if cell.protocol in ("seen", "unseen") and cell.family in METHODS:
        return package_method(cell.family, cell.setting)
    table = {(m.name, m.setting): m for m in compared(cell.protocol)}
    return table[cell.method, cell.setting]


def _learned(model: Fitted, cell: Cell) -> CellResult:
    """Results that only models of the package have."""
    can = METHODS[cell.family].can
    result: CellResult = {}
    if cell.setting in RIDGES and can.regression:
        result["sse"] = sum_of_squared_errors(model)
    if cell.repetition == 0 and cell.setting in ("tuned", RIDGES[0]):
        for key, digits in _DIGITS.items():
            if f"{key}_" in can.learns:
                values = np.asarray(getattr(model, f"{key}_"), dtype=float)
                result[key] = values.round(digits).tolist()
    return result


def sum_of_squared_errors(model: Any) -> float:
    """Sum of squared differences between fitted responses and their targets.

    Parameters
    ----------
    model : fitted estimator
        A regression (see its ``can``), fitted to normal rows only.

    Returns
    -------
    float
        Over training rows and all tasks. If each task is learned alone, over rows and
        their own task.
    """
    targets = np.eye(len(model.tasks_))[model.training_.codes]
    if "second_kernel_" in model.can.learns:
        fitted = respond(
            model.responses_, model.centres_, model.second_coef_, model.theta_
        )
    else:
        fitted = model.kernel_(model.X_fit_, model.X_fit_) @ model.dual_coef_
    errors = fitted - targets
    if not model.can.joint:
        errors = errors[targets == 1.0]
    return float(np.vdot(errors, errors))


def _measured_alarms(model: Fitted, X: Array, split: Split) -> list[float]:
    """Share of normal test rows with an alarm, mean over tasks, for `ALARM_RATES`."""
    normal = ~split.anomalous
    rows = X[split.test[normal]]
    task = split.judged[normal]
    codes = split.codes[normal]
    shares = []
    for rate in ALARM_RATES:
        model.recalibrate(rate)
        alarm = model.decision_function(rows, task=task) < 0
        by_task = np.bincount(codes, alarm) / np.bincount(codes)
        shares.append(float(by_task.mean()))
    return shares
