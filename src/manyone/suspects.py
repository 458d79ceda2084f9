"""Rows that stand alone in their task: perhaps faults among the training rows."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Mask
from manyone.groups import group_rows
from manyone.memory import row_blocks

# In usual distances to the nearest row.
_ALONE = 2.0
# Rows of a task that others are looked for among.
_MOST_OTHERS = 2000


def standing_alone(X: Array, codes: Codes, weight: Array, n_tasks: int, scale_prior: float) -> Mask:
    r"""Rows of which no other row of their task is near.

    Row i of task t stands alone if :math:`\min_j \sum_c |x_{ic} - x_{jc}| / s_{tc} > 2 u_t`, j the
    other rows of the task: twice what is usual, :math:`u_t` being the median of these minima in
    the task, or of all that are above 0 if that is larger. Never is it more than half of a task.

    :math:`s_{tc}` is the median deviation of column c from its median in the task, shrunk to the
    pooled one as standard deviations are in :func:`manyone.covariance.task_scales`. Columns of one
    value in most rows of a task do not count there: rare values are no mistake yet.

    Others are at most 2,000 rows, evenly over the order they come in: no cost is quadratic beyond.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row; two equal rows are near each other.
    n_tasks : int
    scale_prior : float
        Rows that the pooled scale of a column counts for.

    Returns
    -------
    ndarray of bool of shape (n,)
    """
    scaled = _in_median_deviations(X, codes, weight, n_tasks, scale_prior)
    nearest = np.full(len(X), np.inf)
    order, starts = group_rows(codes, n_tasks)
    for task in np.flatnonzero(np.diff(starts) > 1):
        own = order[starts[task] : starts[task + 1]]
        few = np.linspace(0, len(own) - 1, min(len(own), _MOST_OTHERS)).astype(np.intp)
        for part in row_blocks(len(own), len(few)):
            between = cdist(scaled[own[part]], scaled[own[few]], "cityblock")
            between[own[part, None] == own[few]] = np.inf
            nearest[own[part]] = between.min(axis=1)
    nearest[weight >= 2.0] = 0.0
    usual = task_medians(nearest[:, None], codes, weight, n_tasks)[:, 0]
    # But for copies, and for the only row of a task.
    apart = np.flatnonzero((nearest > 0.0) & np.isfinite(nearest))
    if len(apart):
        overall = task_medians(nearest[apart, None], np.zeros_like(apart), weight[apart], 1)
        usual = np.maximum(usual, overall[0, 0])
    # What differs by rounding does not differ.
    return nearest > (1.0 + 1e-9) * _ALONE * usual[codes]


def task_medians(X: Array, codes: Codes, weight: Array, n_tasks: int) -> Array:
    """Weighted median of each column (n, d) in each task, shape (T, d); every task has a row."""
    order, starts = group_rows(codes, n_tasks)
    sizes, medians = np.diff(starts), np.empty((n_tasks, X.shape[1]))
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        for part in row_blocks(len(same), 4 * int(size) * X.shape[1]):
            rows = order[starts[same[part], None] + np.arange(size)]
            ascending = np.argsort(X[rows], axis=1)
            mass = np.cumsum(
                np.take_along_axis(weight[rows][:, :, None], ascending, axis=1), axis=1
            )
            # Two rows may share the middle.
            middle = [
                (mass < share * mass[:, -1:]).sum(axis=1) for share in (0.5 - 1e-9, 0.5 + 1e-9)
            ]
            values = np.take_along_axis(X[rows], ascending, axis=1)
            both = np.take_along_axis(values, np.stack(middle, axis=1), axis=1)
            medians[same[part]] = (0.5 * both).sum(axis=1)
    return medians


def _in_median_deviations(
    X: Array, codes: Codes, weight: Array, n_tasks: int, prior: float
) -> Array:
    """Rows (n, d) about the medians of their task, in units of its median deviations."""
    with np.errstate(over="ignore"):
        deviation = X - task_medians(X, codes, weight, n_tasks)[codes]
    deviation = np.nan_to_num(deviation)  # those that overflow are as large as can be
    # In units of the largest, so that squares neither overflow nor vanish.
    largest = np.abs(deviation).max(axis=0)
    deviation /= np.where(largest > 0, largest, 1.0)
    own = task_medians(np.abs(deviation), codes, weight, n_tasks)
    varies = own * largest > 1e-12 * np.abs(X).max(axis=0)
    freedom = np.maximum(np.bincount(codes, weight, n_tasks) - 1.0, 0.0)[:, None]
    pooled = (freedom * own**2).sum(axis=0) / max(freedom.sum(), np.finfo(float).tiny)
    square = (freedom * own**2 + prior * pooled) / np.maximum(freedom + prior, np.finfo(float).tiny)
    scale = np.sqrt(np.where(varies & (square > 0), square, np.inf))
    return deviation / scale[codes]
