"""Rows that stand apart in their task: perhaps faults among the training rows."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaincinv

from manyone._types import Array, Codes, Mask
from manyone.covariance import task_whitenings
from manyone.rows import group_rows, row_blocks
from manyone.scales import switches

# In usual distances. Rows with a neighbour within the first shape the metric of what is far.
# Rows within the second of their task's mean are trusted; with few columns the limit is larger, so
# that this share of Gaussian rows is within.
_ALONE, _FAR, _WITHIN = 2.0, 1.75, 0.99
# How fast trust falls with the distance, and below which weight a row is left out.
_FALL, _LEAST = 4, 1e-3
# Neighbours are looked for among so many rows of a task.
_MOST_OTHERS = 500
# In place of distances that overflow.
_FARTHEST = 1e300


def trust(
    X: Array,
    codes: Codes,
    weight: Array,
    n_tasks: int,
    scale_prior: float,
    covariance_prior: float,
) -> Array:
    r"""How much of each row to learn from: 1, or less for rows that are far away and alone there.

    Let :math:`e_i` be the distance of row i to the second nearest row j of its task, and
    :math:`v_t` its median in the task, or in all if that is larger. Row i is alone if
    :math:`e_i > \max(e_j, v_t)`: row j has nearer neighbours than row i. Rows of a rare kind are
    not alone, except at its border.

    Let :math:`\delta_i` be the distance of row i from the mean of its task in the adaptive metric
    (:func:`manyone.covariance.task_whitenings`) of the other rows that have :math:`e \le 2 v_t`,
    and :math:`u_t` its median as before. A row that is alone gets the weight
    :math:`\min(1, (c u_t / \delta_i)^4)`; c is 1.75, or for few columns what 99 % of Gaussian
    rows keep. At least half of a task is thus trusted. Columns of two values that vary inside
    tasks do not count in this distance.

    Distances e sum up :math:`|x_{ic} - x_{jc}| / s_{tc}` over columns c, with s the median
    deviation from the median in the task, shrunk to the pooled one as standard deviations are.
    Columns with one value in most rows of a task do not count there: a rare value is not yet a
    mistake.

    Neighbours are looked for among at most 500 rows of a task, evenly spaced in their order, so
    that the cost is not quadratic beyond that.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row; a row counted twice has a copy as its neighbour.
    n_tasks : int
    scale_prior, covariance_prior : float
        Of the metric.

    Returns
    -------
    ndarray of shape (n,)
        0, or between 0.001 and 1.
    """
    scaled = _in_deviations(X, codes, weight, n_tasks, scale_prior)
    second, companion = _second_nearest(scaled, codes, weight, n_tasks)
    usual = _usual(second, codes, weight, n_tasks)
    # Differences of rounding are no differences.
    near = second <= (1.0 + 1e-9) * np.maximum(companion, usual)
    kept = second <= (1.0 + 1e-9) * _ALONE * usual
    if near.all():
        return np.ones(len(X))
    priors = scale_prior, covariance_prior
    X = np.where(switches(X, codes, weight, n_tasks), 0.0, X)
    metric = task_whitenings(X[kept], codes[kept], weight[kept], n_tasks, *priors)
    Z = metric.apply(X, codes)
    # Without row i its task's scatter A is A - q w z z', z its deviation, which grows by q.
    mass = np.bincount(codes[kept], weight[kept], n_tasks)[codes]
    one = np.where(kept, np.minimum(weight, 1.0), 0.0)
    grown = mass / np.where(mass > one, mass - one, 1.0)
    rows = np.maximum(mass - 1.0, 0.0) + covariance_prior
    with np.errstate(over="ignore"):
        leverage = np.minimum(np.einsum("ij,ij->i", Z, Z), _FARTHEST) / rows
    left = np.maximum(1.0 - grown * one * leverage, np.finfo(float).eps)
    far = grown * np.sqrt(leverage / left * np.maximum(rows - one, covariance_prior))
    half = max(len(metric.pooled.basis), 1) / 2.0
    cut = max(_FAR, float(np.sqrt(gammaincinv(half, _WITHIN) / gammaincinv(half, 0.5))))
    allowed = (1.0 + 1e-9) * cut * _usual(far, codes, weight, n_tasks)
    beyond = ~near & (far > allowed)
    share = np.where(beyond, allowed / np.where(beyond, far, 1.0), 1.0) ** _FALL
    return np.where(share < _LEAST, 0.0, share)


def _second_nearest(
    X: Array, codes: Codes, weight: Array, n_tasks: int
) -> tuple[Array, Array]:
    """Distance of each row (n, d) to the second nearest other of its task, and that row's own.

    Copies are others. 0 where there are no two.
    """
    order, starts = group_rows(codes, n_tasks)
    second, companion = np.zeros((2, len(X)))
    for task in np.flatnonzero(np.diff(starts) > 1):
        own = order[starts[task] : starts[task + 1]]
        few = own[
            np.linspace(0, len(own) - 1, min(len(own), _MOST_OTHERS)).astype(np.intp)
        ]
        of_few = _second(_apart(X[few], X[few]), few[:, None] == few, weight[few])
        for part in row_blocks(len(own), 5 * len(few)):
            rows = own[part]
            apart, itself = _apart(X[rows], X[few]), rows[:, None] == few
            second[rows] = found = _second(apart, itself, weight[few])
            tied = np.abs(apart - found[:, None]) <= 1e-9 * found[:, None]
            companion[rows] = np.where(tied & ~itself, of_few, 0.0).max(axis=1)
    return second, companion


def _second(apart: Array, itself: Mask, weight: Array) -> Array:
    """Second smallest distance (m,) of rows to others (m, k), each as often as it counts (k,)."""
    left, line = np.where(itself & (weight < 2.0), np.inf, apart), np.arange(len(apart))
    nearest = left.argmin(axis=1)
    found = left[line, nearest]
    once = weight[nearest] - itself[line, nearest] < 2.0
    left[line[once], nearest[once]] = np.inf
    found[once] = left[once].min(axis=1)
    return np.where(np.isfinite(found), found, 0.0)


def _apart(X: Array, Y: Array) -> Array:
    """Distances (n, m), finite."""
    with np.errstate(over="ignore"):
        return np.minimum(cdist(X, Y, "cityblock"), _FARTHEST)


def _usual(distance: Array, codes: Codes, weight: Array, n_tasks: int) -> Array:
    """Median of distances (n,) in the task of each row, or of all but 0 if that is larger."""
    usual = task_medians(distance[:, None], codes, weight, n_tasks)[:, 0]
    apart = np.flatnonzero(distance > 0.0)
    if len(apart):
        overall = task_medians(
            distance[apart, None], np.zeros_like(apart), weight[apart], 1
        )
        usual = np.maximum(usual, overall[0, 0])
    return usual[codes]


def task_medians(X: Array, codes: Codes, weight: Array, n_tasks: int) -> Array:
    """Weighted median of each column (n, d) in each task, shape (T, d); every task has a row."""
    order, starts = group_rows(codes, n_tasks)
    sizes, medians = np.diff(starts), np.empty((n_tasks, X.shape[1]))
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        for part in row_blocks(len(same), 4 * int(size) * X.shape[1]):
            rows = order[starts[same[part], None] + np.arange(size)]
            ascending = np.argsort(X[rows], axis=1)
            own = np.take_along_axis(weight[rows][:, :, None], ascending, axis=1)
            mass, around = np.cumsum(own, axis=1), (0.5 - 1e-9, 0.5 + 1e-9)
            # Two rows may share the middle.
            middle = [(mass < share * mass[:, -1:]).sum(axis=1) for share in around]
            values = np.take_along_axis(X[rows], ascending, axis=1)
            both = np.take_along_axis(values, np.stack(middle, axis=1), axis=1)
            medians[same[part]] = (0.5 * both).sum(axis=1)
    return medians


def _in_deviations(
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
    square = (freedom * own**2 + prior * pooled) / np.maximum(
        freedom + prior, np.finfo(float).tiny
    )
    scale = np.sqrt(np.where(varies & (square > 0), square, np.inf))
    return deviation / scale[codes]
