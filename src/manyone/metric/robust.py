"""Robust weights: training rows that stand apart in their task may be faults."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaincinv

from manyone._types import Array, Codes, Mask
from manyone.data.rows import group_rows, row_blocks
from manyone.metric.shrinkage import (
    binary_columns,
    degrees_of_freedom,
    shrunk,
    task_whitenings,
)
from manyone.metric.strength import LEAST_COVARIANCE_PRIOR, LEAST_SCALE_PRIOR

# Neighbours are looked for among so many rows of a task.
_MOST_NEIGHBOURS = 500
# Stands for distances that overflow.
_LARGEST_DISTANCE = 1e300
# Relative differences up to this are rounding.
_ROUNDING = 1e-9


def robust_weights(X: Array, codes: Codes, weight: Array, n_tasks: int) -> Array:
    r"""Weight of each training row: 1, or less for rows that are far away and isolated.

    **Isolated rows.** Let :math:`e_i` be the distance of row i to the second nearest
    row j of its task. Its median in the task is :math:`v_t`, or that in all tasks if it
    is larger. Row i is isolated if :math:`e_i > \max(e_j, v_t)`: its neighbour has
    nearer neighbours than it has. Rows of a rare kind are not isolated, except at the
    border of their kind.

    **Far rows.** Let :math:`\delta_i` be the distance of row i from the mean of its task
    in the adaptive metric (:func:`manyone.metric.shrinkage.task_whitenings`). That
    metric is learned from the other rows with :math:`e \le 2 v_t`. Its median is
    :math:`u_t`, as before. An isolated row gets the weight

    .. math:: \min\bigl(1, (c\, u_t / \delta_i)^4\bigr),

    and 0 below a thousandth. c is 1.75, or with few columns the ratio that 99 % of
    Gaussian rows stay within. So at least half of a task has weight 1. Binary columns
    do not count in this distance.

    **Distances to neighbours** sum :math:`|x_{ic} - x_{jc}| / s_{tc}` over columns c. s
    is the median deviation from the median in the task, shrunk to the pooled one as
    standard deviations are. Columns with one value in most rows of a task do not count
    there: a rare value is not yet a mistake. Neighbours are looked for among at most
    500 rows of a task, evenly spaced in their order, so that the cost stays linear.

    What the weights buy: 5 % faults among the normal rows of real sets cost 1.3 points
    of AUC, and 8.4 without (three cuts of ``benchmarks/bench_faults.py
    contamination``).

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row; a row counted twice has a copy as its neighbour.
    n_tasks : int

    Returns
    -------
    ndarray of shape (n,)
        0, or between 0.001 and 1.
    """
    scaled = _in_median_deviations(X, codes, weight, n_tasks)
    second, neighbour_second = _second_nearest(scaled, codes, weight, n_tasks)
    usual = _usual_distance(second, codes, weight, n_tasks)
    isolated = second > (1.0 + _ROUNDING) * np.maximum(neighbour_second, usual)
    if not isolated.any():
        return np.ones(len(X))
    close = second <= (1.0 + _ROUNDING) * 2.0 * usual
    X = np.where(binary_columns(X, codes, weight, n_tasks), 0.0, X)
    priors = LEAST_SCALE_PRIOR, LEAST_COVARIANCE_PRIOR
    metric = task_whitenings(X[close], codes[close], weight[close], n_tasks, *priors)
    Z = metric.apply(X, codes)
    close_weight = np.where(close, weight, 0.0)
    distance = _left_out_distance(Z, codes, close_weight, n_tasks)
    half = max(len(metric.pooled.basis), 1) / 2.0
    gaussian = np.sqrt(gammaincinv(half, 0.99) / gammaincinv(half, 0.5))
    limit = max(1.75, float(gaussian))
    allowed = _usual_distance(distance, codes, weight, n_tasks)
    allowed *= (1.0 + _ROUNDING) * limit
    beyond = isolated & (distance > allowed)
    ratio = np.where(beyond, allowed / np.where(beyond, distance, 1.0), 1.0)
    weights = ratio**4
    return np.where(weights < 1e-3, 0.0, weights)


def _left_out_distance(Z: Array, codes: Codes, weight: Array, n_tasks: int) -> Array:
    """Distance of white rows (n, d) from their task's mean without one count of each.

    `weight` is 0 for rows that the metric was learned without. Let z be the deviation
    of row i from the mean. When the row leaves, z grows by a factor q, and the scatter
    A of its task becomes A - q w z z'.
    """
    total = np.bincount(codes, weight, n_tasks)[codes]
    count = np.minimum(weight, 1.0)
    growth = total / np.where(total > count, total - count, 1.0)
    freedom = np.maximum(total - 1.0, 0.0) + LEAST_COVARIANCE_PRIOR
    with np.errstate(over="ignore"):
        squares = np.minimum(np.einsum("ij,ij->i", Z, Z), _LARGEST_DISTANCE)
    leverage = squares / freedom
    remaining = np.maximum(1.0 - growth * count * leverage, np.finfo(float).eps)
    freedom_left = np.maximum(freedom - count, LEAST_COVARIANCE_PRIOR)
    return growth * np.sqrt(leverage / remaining * freedom_left)


def _second_nearest(
    X: Array, codes: Codes, weight: Array, n_tasks: int
) -> tuple[Array, Array]:
    """Distance of each row (n, d) to the second nearest other row of its task.

    The second array (n,) is the same distance of that neighbour. Copies count as other
    rows. Both are 0 in tasks of a single row.
    """
    order, starts = group_rows(codes, n_tasks)
    second = np.zeros(len(X))
    neighbour_second = np.zeros(len(X))
    for task in np.flatnonzero(np.diff(starts) > 1):
        task_rows = order[starts[task] : starts[task + 1]]
        number = min(len(task_rows), _MOST_NEIGHBOURS)
        spaced = np.linspace(0, len(task_rows) - 1, number).astype(np.intp)
        candidates = task_rows[spaced]
        candidate_weight = weight[candidates]
        between = _distances(X[candidates], X[candidates])
        is_self = candidates[:, None] == candidates
        candidate_second = _second_smallest(between, is_self, candidate_weight)
        for block in row_blocks(len(task_rows), 5 * len(candidates)):
            rows = task_rows[block]
            distance = _distances(X[rows], X[candidates])
            is_self = rows[:, None] == candidates
            second[rows] = _second_smallest(distance, is_self, candidate_weight)
            nearest = second[rows, None]
            tied = np.abs(distance - nearest) <= _ROUNDING * nearest
            of_nearest = np.where(tied & ~is_self, candidate_second, 0.0)
            neighbour_second[rows] = of_nearest.max(axis=1)
    return second, neighbour_second


def _second_smallest(distance: Array, is_self: Mask, weight: Array) -> Array:
    """Second smallest distance (m,) of (m, k), each repeated by its weight (k,)."""
    remaining = np.where(is_self & (weight < 2.0), np.inf, distance)
    line = np.arange(len(distance))
    nearest = remaining.argmin(axis=1)
    result = remaining[line, nearest]
    counts_once = weight[nearest] - is_self[line, nearest] < 2.0
    remaining[line[counts_once], nearest[counts_once]] = np.inf
    result[counts_once] = remaining[counts_once].min(axis=1)
    return np.where(np.isfinite(result), result, 0.0)


def _distances(X: Array, Y: Array) -> Array:
    """Distances (n, m), finite."""
    with np.errstate(over="ignore"):
        return np.minimum(cdist(X, Y, "cityblock"), _LARGEST_DISTANCE)


def _usual_distance(
    distance: Array, codes: Codes, weight: Array, n_tasks: int
) -> Array:
    """Median of distances (n,) in the task of each row, or of all positive if larger."""
    usual = task_medians(distance[:, None], codes, weight, n_tasks)[:, 0]
    positive = np.flatnonzero(distance > 0.0)
    if len(positive):
        one_task = np.zeros_like(positive)
        overall = task_medians(distance[positive, None], one_task, weight[positive], 1)
        usual = np.maximum(usual, overall[0, 0])
    return usual[codes]


def task_medians(X: Array, codes: Codes, weight: Array, n_tasks: int) -> Array:
    """Weighted median of each column (n, d) in each task (T, d), none of them empty."""
    order, starts = group_rows(codes, n_tasks)
    sizes = np.diff(starts)
    medians = np.empty((n_tasks, X.shape[1]))
    for size in np.unique(sizes):
        same_size = np.flatnonzero(sizes == size)
        for block in row_blocks(len(same_size), 4 * int(size) * X.shape[1]):
            tasks = same_size[block]
            rows = order[starts[tasks, None] + np.arange(size)]
            values = X[rows]
            counts = weight[rows][:, :, None]
            ascending = np.argsort(values, axis=1)
            values = np.take_along_axis(values, ascending, axis=1)
            mass = np.cumsum(np.take_along_axis(counts, ascending, axis=1), axis=1)
            total = mass[:, -1:]
            # Two rows may share the middle.
            low = (mass < (0.5 - _ROUNDING) * total).sum(axis=1)
            high = (mass < (0.5 + _ROUNDING) * total).sum(axis=1)
            places = np.stack([low, high], axis=1)
            middle = np.take_along_axis(values, places, axis=1)
            medians[tasks] = (0.5 * middle).sum(axis=1)
    return medians


def _in_median_deviations(X: Array, codes: Codes, weight: Array, n_tasks: int) -> Array:
    """Rows (n, d) about their task's medians, in units of its median deviations."""
    medians = task_medians(X, codes, weight, n_tasks)
    with np.errstate(over="ignore"):
        deviation = X - medians[codes]
    deviation = np.nan_to_num(deviation)  # overflow becomes the largest number
    # In units of the largest, so that squares neither overflow nor vanish.
    largest = np.abs(deviation).max(axis=0)
    deviation /= np.where(largest > 0, largest, 1.0)
    median = task_medians(np.abs(deviation), codes, weight, n_tasks)
    varies = median * largest > 1e-12 * np.abs(X).max(axis=0)
    freedom = degrees_of_freedom(codes, weight, n_tasks)
    squares = freedom[:, None] * median**2
    pooled = squares.sum(axis=0) / max(freedom.sum(), np.finfo(float).tiny)
    variance = shrunk(squares, freedom, pooled, LEAST_SCALE_PRIOR)
    scale = np.sqrt(np.where(varies & (variance > 0), variance, np.inf))
    return deviation / scale[codes]
