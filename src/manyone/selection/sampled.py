"""Choosing for rows that are not in memory: settings on a sample, then a fit by passes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from manyone.engines.sample import TakeSample, refuse_unusable
from manyone.engines.sources import sweep_over
from manyone.estimators.combined import CombinedOneClass
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.joint import JointOCKSR
from manyone.rows import TrainingRows
from manyone.selection.auto import View, as_columns, light_views, strangers_view, tuned
from manyone.selection.faults import fault_grid

# Rows that settings are chosen on; landmarks of all rows, and at most of each task.
_SAMPLE, _LANDMARKS, _TASK_LANDMARKS = 5000, 1000, 100


def auto_by_passes(
    X: Any,
    given: dict[str, Any],
    anomalies: str,
    alarm_rate: float,
    landmarks: int | None,
    budget: float | None,
    random_state: Any,
) -> Any:
    """The fitted model of rows in files, in Dask, or in blocks that a function yields.

    Parameters
    ----------
    X : memory-mapped array, path, function, or Dask array or data frame
    given : dict
        ``task``, ``outlier``, ``sample_weight`` and ``groups`` as in `fit`.
    anomalies, alarm_rate, landmarks, budget, random_state
        As in :func:`manyone.auto`; the budget is that of choosing.

    Returns
    -------
    estimator
    """
    sweep = sweep_over(
        JointOCKSR(landmarks=landmarks or _LANDMARKS), X, *given.values()
    )
    assert sweep is not None
    sample = sweep(TakeSample(_SAMPLE))
    refuse_unusable(sample)
    wanted = anomalies, alarm_rate, landmarks, random_state
    until = np.inf if budget is None else time.monotonic() + budget / 2
    rows = sample.rows(own_weight=True).by_task()
    return choose_by_sample(sweep, rows, sample.n_rows, *wanted, until)


def choose_by_sample(
    sweep: Any,
    rows: TrainingRows,
    n_rows: int,
    anomalies: str,
    alarm_rate: float,
    landmarks: int | None,
    random_state: Any,
    until: float = np.inf,
) -> Any:
    """Choose settings on some of the rows, and fit to all by passes.

    Parameters
    ----------
    sweep : callable
        Runs a pass, see :func:`manyone.engines.fit`.
    rows : TrainingRows
        Some of them.
    n_rows : int
        How many there are.
    anomalies, alarm_rate, landmarks, random_state
        As in :func:`manyone.auto`.
    until : float
        When to stop choosing.

    Returns
    -------
    estimator
    """
    several, plan = rows.n_tasks > 1, []
    if several and anomalies != "faults":
        plan.append((strangers_view(JointOCKSR()), landmarks or _LANDMARKS))
    if not several or anomalies != "strangers":
        alone = IndependentOCKSR()
        grid = {**fault_grid(alone), "metric": ("whitened", "plain")}
        most = min(landmarks or _TASK_LANDMARKS, _TASK_LANDMARKS)
        plan.append((View("faults", alone, "faults", grid), most))
    tried = [tuned(view, rows, random_state, until) for view, _ in plan]
    views = [
        (
            view.name,
            choice.model.set_params(landmarks=number, random_state=random_state or 0),
        )
        for choice, (view, number) in zip(tried, plan, strict=True)
    ]
    best: Any = views[0][1] if len(views) == 1 else CombinedOneClass(estimators=views)
    best.set_params(alarm_rate=alarm_rate)._fit_passes(sweep)
    words = f"{len(rows.codes):,} of {n_rows:,} rows were looked at"
    remarks = [(view.name, f"{words}; {number} landmarks") for view, number in plan]
    best.choice_ = as_columns(tried, remarks + light_views(best))
    return best
