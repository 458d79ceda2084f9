"""The result of one cell: fit, score, and what figures need of the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from manyone._types import Array
from manyone.estimators import METHODS
from manyone.experiments import data
from manyone.experiments.corruption import corrupt
from manyone.experiments.fault_methods import fault_methods
from manyone.experiments.methods import Method, methods, own
from manyone.experiments.plan import RIDGES, Cell
from manyone.experiments.protocols import FaultSplit, Split
from manyone.solvers.nonlinear import respond

#: False-alarm rates that models are asked for.
ALARM_RATES = (0.05, 0.1, 0.2, 0.3)
# What figures show of what models learn, and to how many digits.
_SHOWN = {"structure_": 6, "objective_path_": 15, "second_kernel_": 3}


def compute(cell: Cell, data_home: str | None = None) -> dict[str, Any]:
    """Result of one cell.

    Parameters
    ----------
    cell : Cell
    data_home : str or None

    Returns
    -------
    dict
        ``auc`` per task; what was ``chosen``; measured ``alarms`` of tuned models in the first
        repetitions; of the package's methods what `_learned` finds; in the first repetition the
        ``tasks``; ``seconds``.
    """
    loaded, sizes = data.load(cell.dataset, data_home), cell.sizes
    split: Split | FaultSplit = sizes.split(*loaded, (cell.seed, cell.repetition))
    X, method = data.prepared(cell.dataset, loaded[0], split.train), _method(cell)
    parts = [(X[split.train], split.task)]
    if cell.corruption:
        rng = np.random.default_rng((cell.seed, cell.repetition, 1))
        parts = corrupt(*parts[0], cell.corruption, rng)
    start = time.process_time()  # of one thread: the same on a busy machine
    with threadpool_limits(1), warnings.catch_warnings():
        # Few rows per task make many estimators complain; the figures show what it comes to.
        warnings.simplefilter("ignore")
        models = [
            method.fit(rows, task, cell.protocol, calibrate=cell.measures_alarms)
            for rows, task in parts
        ]
        model, result = models[-1], {"auc": _aucs(models, X, split).tolist()}
        if cell.measures_alarms and method.alarms:
            result["alarms"] = _measured_alarms(model, X, split)
    chosen = model.get_params().items()
    result["chosen"] = {k: value for k, value in chosen if isinstance(value, str | int | float)}
    if cell.family in METHODS and cell.protocol != "faults" and not cell.corruption:
        result |= _learned(model, cell)
    if cell.repetition == 0:
        result["tasks"] = split.tasks.tolist()
    return result | {"seconds": time.process_time() - start}


def _method(cell: Cell) -> Method:
    """The method of a cell, not fitted."""
    if cell.protocol == "faults":
        return fault_methods()[cell.method, cell.setting]
    return own(cell.family, cell.setting) if cell.family in METHODS else methods()[cell.method]


def _aucs(models: Sequence[Any], X: Array, split: Split | FaultSplit) -> Array:
    """AUC of each task, from models that have some of the tasks each."""
    if isinstance(split, FaultSplit):
        (model,) = models
        return split.aucs(model.score_samples(X[split.test], task=split.owner))
    scores = np.empty(split.member.shape)
    for model in models:
        scores[:, np.isin(split.tasks, model.tasks_)] = model.score_tasks(X[split.test])
    return split.aucs(scores)


def _learned(model: Any, cell: Cell) -> dict[str, Any]:
    """What figures show of a model: the sum of squared errors ``sse`` of regressions with a fixed
    ridge; in the first repetition, tuned or as in the paper, what else the method has learned.
    """
    found: dict[str, Any] = {}
    if cell.setting in RIDGES and model.can.regression:
        found["sse"] = sum_of_squared_errors(model)
    if cell.repetition == 0 and cell.setting in ("tuned", RIDGES[0]):
        for attribute in model.can.learns:
            if attribute in _SHOWN:
                values = np.asarray(getattr(model, attribute), dtype=float)
                found[attribute.removesuffix("_")] = values.round(_SHOWN[attribute]).tolist()
    return found


def sum_of_squared_errors(model: Any) -> float:
    """Squared distance of the fitted responses of a regression from those it was asked for.

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
    asked = np.eye(len(model.tasks_))[model.training_.codes]
    if "second_kernel_" in model.can.learns:
        errors = respond(model.responses_, model.centres_, model.second_coef_, model.theta_) - asked
    else:
        errors = model.kernel_(model.X_fit_, model.X_fit_) @ model.dual_coef_ - asked
    if not model.can.joint:
        errors = errors[asked == 1.0]
    return float(np.vdot(errors, errors))


def _measured_alarms(model: Any, X: Array, split: Split | FaultSplit) -> list[float]:
    """Share of the normal test rows that raise an alarm, for each of `ALARM_RATES`."""
    rows, task = split.normal()
    shares = []
    for rate in ALARM_RATES:
        model.recalibrate(rate)
        margins = model.decision_function(X[rows], task=task)
        shares.append(float(np.mean(margins < 0)))
    return shares
