"""What people do today, on the same rows: one OneClassSVM for each task."""

from __future__ import annotations

import numpy as np
from sklearn.svm import OneClassSVM

from manyone._types import Array, Codes

_FOLDS = 5
_MOST_TASKS, _MOST_ROWS = 100, 500  # a share of left-out rows needs no more


def svm_false_alarms(Z: Array, codes: Codes, alarm_rate: float) -> tuple[float, int]:
    """Share of left-out normal rows on which one OneClassSVM per task raises an alarm.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        Encoded normal rows.
    codes : ndarray of shape (n,)
        Number of each row's task.
    alarm_rate : float
        What it is asked for, as ``nu``.

    Returns
    -------
    share : float
        NaN where every task has one row.
    rows : int
        Left-out rows that were judged: up to 500 of each of up to 100 tasks, spread over all.
    """
    tasks, counts = np.unique(codes, return_counts=True)
    tasks = tasks[counts > 1]
    tasks = _spread(tasks, _MOST_TASKS)
    alarms: list[bool] = []
    for task in tasks:
        mine = Z[_spread(np.flatnonzero(codes == task), _MOST_ROWS)]
        folds = min(_FOLDS, len(mine))
        fold = np.arange(len(mine)) % folds
        for k in range(folds):
            machine = OneClassSVM(nu=alarm_rate).fit(mine[fold != k])
            alarms.extend(machine.predict(mine[fold == k]) < 0)
    return (float(np.mean(alarms)) if alarms else float("nan")), len(alarms)


def _spread(values: Codes, most: int) -> Codes:
    """At most so many of some values, at even distances."""
    return values[np.linspace(0, len(values) - 1, min(len(values), most)).astype(int)]
