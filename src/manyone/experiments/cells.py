"""Compute one cell: fit, score, and keep what the figures show of the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np
from threadpoolctl import threadpool_limits

from manyone._types import Array, Labels
from manyone.estimators import METHODS
from manyone.experiments import data
from manyone.experiments.methods import Fitted, Method, compared, methods, own
from manyone.experiments.plan import RIDGES, Cell
from manyone.experiments.protocols import FaultSplit, Split
from manyone.solvers.nonlinear import respond

#: False-alarm rates that models are asked for.
ALARM_RATES = (0.05, 0.1, 0.2, 0.3)
# What the figures show of a model, and to how many digits.
_SHOWN: dict[Literal["structure", "objective_path", "second_kernel"], int] = {
    "structure": 6,
    "objective_path": 15,
    "second_kernel": 3,
}


class CellResult(TypedDict, total=False):
    """What is kept of a cell.

    Attributes
    ----------
    auc : list of float
        Of each task.
    chosen : dict
        Parameters of the model.
    seconds : float
    alarms : list of float
        Measured rates of tuned models in the first repetitions, for each of `ALARM_RATES`.
    caught : list of float
        Likewise the share of faults that raise an alarm, in time; both are means over tasks.
    sse : float
        Sum of squared errors of a regression with a fixed ridge.
    tasks : list
        In the first repetition, as all that follows.
    structure, second_kernel : list of lists of float
    objective_path : list of float
    """

    auc: list[float]
    chosen: dict[str, object]
    seconds: float
    alarms: list[float]
    caught: list[float]
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
    seed = (cell.seed, cell.repetition)
    X, split = data.draw(cell.dataset, cell.sizes, seed, data_home)
    method = _method(cell)
    parts = [(X[split.train], split.task)]
    if cell.corruption:
        rng = np.random.default_rng((*seed, 1))
        parts = corrupt(X[split.train], split.task, cell.corruption, rng)
    result: CellResult = {}
    start = time.process_time()  # of one thread: the same on a busy machine
    with threadpool_limits(1), warnings.catch_warnings():
        # With few rows per task many estimators warn; the figures show what that means.
        warnings.simplefilter("ignore")
        models = [
            method.fit(rows, task, cell.protocol, calibrate=cell.measures_alarms)
            for rows, task in parts
        ]
        model = models[-1]
        result["auc"] = _aucs(models, X, split).tolist()
        if cell.measures_alarms and method.alarms:
            if cell.protocol == "time":
                result |= _alarms_in_time(model, X, split)
            else:
                result["alarms"] = _measured_alarms(model, X, split)
    result["chosen"] = {
        name: value
        for name, value in model.get_params().items()
        if isinstance(value, str | int | float)
    }
    own_rows = isinstance(split, FaultSplit)
    if cell.family in METHODS and not own_rows and not cell.corruption:
        result |= _learned(model, cell)
    if cell.repetition == 0:
        result["tasks"] = split.tasks.tolist()
    result["seconds"] = time.process_time() - start
    return result


def _method(cell: Cell) -> Method:
    """The method of a cell, not fitted."""
    if cell.protocol in ("faults", "time"):
        table = {(m.name, m.setting): m for m in compared(cell.protocol)}
        return table[cell.method, cell.setting]
    if cell.family in METHODS:
        return own(cell.family, cell.setting)
    return methods()[cell.method]


def _aucs(models: Sequence[Fitted], X: Array, split: Split | FaultSplit) -> Array:
    """AUC of each task; each model has some of the tasks."""
    if isinstance(split, FaultSplit):
        (model,) = models
        return split.aucs(model.score_samples(X[split.test], task=split.owner))
    scores = np.empty(split.member.shape)
    for model in models:
        scores[:, np.isin(split.tasks, model.tasks_)] = model.score_tasks(X[split.test])
    return split.aucs(scores)


def _learned(model: Fitted, cell: Cell) -> CellResult:
    """What the figures show of a model of the package."""
    can = METHODS[cell.family].can
    result: CellResult = {}
    if cell.setting in RIDGES and can.regression:
        result["sse"] = sum_of_squared_errors(model)
    if cell.repetition == 0 and cell.setting in ("tuned", RIDGES[0]):
        for key, digits in _SHOWN.items():
            if f"{key}_" in can.learns:
                values = np.asarray(getattr(model, f"{key}_"), dtype=float)
                result[key] = values.round(digits).tolist()
    return result


def sum_of_squared_errors(model: Any) -> float:
    """Sum of squared differences between the fitted responses of a regression and its targets.

    Parameters
    ----------
    model : fitted estimator
        A regression (see its ``can``), to which all rows were normal.

    Returns
    -------
    float
        Over the training rows and all tasks; for tasks that are learned alone, over the rows of
        each task.
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


def _measured_alarms(model: Fitted, X: Array, split: Split | FaultSplit) -> list[float]:
    """Share of the normal test rows that raise an alarm, for each of `ALARM_RATES`."""
    rows, task = split.normal()
    shares = []
    for rate in ALARM_RATES:
        model.recalibrate(rate)
        margins = model.decision_function(X[rows], task=task)
        shares.append(float(np.mean(margins < 0)))
    return shares


def _alarms_in_time(model: Fitted, X: Array, split: Split | FaultSplit) -> CellResult:
    """Shares of normal rows and of faults that raise an alarm, means over tasks."""
    assert isinstance(split, FaultSplit)
    result: CellResult = {"alarms": [], "caught": []}
    for rate in ALARM_RATES:
        model.recalibrate(rate)
        alarm = model.decision_function(X[split.test], task=split.owner) < 0
        values = alarm.astype(np.float64)
        result["alarms"].append(split.mean_over_tasks(values, faults=False))
        result["caught"].append(split.mean_over_tasks(values, faults=True))
    return result


def corrupt(
    X: Array, task: Labels, corruption: str, rng: np.random.Generator
) -> list[tuple[Array, Labels]]:
    """Corrupt training rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    task : ndarray of shape (n,)
    corruption : str
        ``"labels=p"``: a share p of all rows, spread over the tasks, change places with rows of
        other tasks. ``"features=p"``: normal noise, p times as wide as the rows are about their
        mean. ``"relations=p"``: tasks fall into 1 / (1 - p) groups (rounded) at random, and each
        group is learned by itself: a share p of all pairs of tasks never meet in a model.
    rng : Generator

    Returns
    -------
    list of (ndarray of shape (m, d), ndarray of shape (m,))
        Rows and tasks to learn together; more than one entry where relations are missing.
    """
    kind, level = corruption.split("=")
    share = float(level)
    labels, sizes = np.unique(task, return_counts=True)
    if kind == "features":
        spread = float(np.std(X - X.mean(axis=0)))
        return [(X + share * spread * rng.normal(size=X.shape), task)]
    if kind == "relations":
        groups = np.array_split(rng.permutation(labels), round(1.0 / (1.0 - share)))
        members = [np.isin(task, group) for group in groups]
        return [(X[rows], task[rows]) for rows in members]
    # As evenly over the tasks as possible: a task of a few rows cannot give exactly a tenth.
    counts = np.floor(share * sizes + 1e-9).astype(int)
    more = round(share * len(task)) - counts.sum()
    missing = np.round(share * sizes - counts, 9)
    counts[np.lexsort((rng.random(len(labels)), -missing))[:more]] += 1
    order = rng.permutation(len(labels))
    rows = [rng.permutation(np.flatnonzero(task == labels[t])) for t in order]
    moved = np.concatenate([r[: counts[t]] for t, r in zip(order, rows, strict=True)])
    source = np.arange(len(X))
    # Shifted by as many places as any task has moved rows: no task gets its own rows back.
    source[moved] = np.roll(moved, counts.max())
    return [(X[source], task)]
