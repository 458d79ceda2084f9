r"""How many independent rows dependent rows are worth.

**Rows in time.** A share that is counted in n rows of a stationary series has the
variance of that in :math:`n / \tau` independent rows, with

.. math:: \tau = 1 + 2 \sum_{k \ge 1} \rho_k

and :math:`\rho_k` the autocorrelation of what is counted, at lag k. Thresholds are
about the lower tail of scores. So what is counted here is whether a row is among the
lowest quarter of its task, after a linear trend is taken out: drift alone does not make
rows dependent.

**Groups.** The m rows of a group without an order count as :math:`m / (1 + (m - 1)
\rho)` rows, with :math:`\rho` the correlation of their ranks inside the task.
"""

from __future__ import annotations

import numpy as np

from manyone._types import Array, Codes
from manyone.calibration.ranks import levels_of
from manyone.data.rows import TrainingRows, rows_by_task

# Share of a task's scores that counts as its lower tail. A smaller one has too few rows
# to correlate.
_TAIL = 0.25


def calibration_weight(scores: Array, rows: TrainingRows) -> Array:
    """Weight of each left-out score: dependent rows weigh less.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        NaN where a row was not left out.
    rows : TrainingRows
        With groups.

    Returns
    -------
    ndarray of shape (n,)
    """
    assert rows.group is not None
    judged = np.flatnonzero(~np.isnan(scores))
    counted = rows.weight.copy()
    if rows.moment is not None:
        ordered = judged[np.lexsort((rows.moment[judged], rows.codes[judged]))]
        counted[judged] /= correlation_time(scores[ordered], rows.codes[ordered])
        return counted
    group = np.unique(rows.group[judged], return_inverse=True)[1]
    others_in_group = np.bincount(group, rows.weight[judged])[group] - 1.0
    counted[judged] /= 1.0 + np.maximum(others_in_group, 0.0) * likeness(scores, rows)
    return counted


def correlation_time(scores: Array, codes: Codes) -> float:
    """The tau of the module, 1 or more, the same for all tasks.

    Autocorrelations are pooled over the tasks. They are summed in pairs of lags, as
    long as pairs are positive (Geyer 1992).

    Parameters
    ----------
    scores, codes : ndarray of shape (n,)
        Scores and tasks of rows, sorted by task and then in the order of time.

    Returns
    -------
    float
        At most the number of rows of the largest task.
    """
    if not len(scores):
        return 1.0
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    sizes = np.diff(starts, append=len(codes))
    values = np.concatenate(
        [_about_trend(task_scores) for task_scores in np.split(scores, starts[1:])]
    )
    longest = int(sizes.max())
    # Long lags have few pairs of rows: half of the longest task is enough, and 500.
    lags = np.arange(min(longest // 2, 500) + 1)
    ends = (len(values) - lags).tolist()
    sums = np.array(
        [
            np.sum(values[:end] * values[-end:] * (codes[:end] == codes[-end:]))
            for end in ends
        ]
    )
    pairs = np.maximum(sizes[:, None] - lags, 0).sum(axis=0)
    covariances = sums / pairs
    if not covariances[0] > 0.0:
        return 1.0
    # Trends were fitted to the same rows: each autocovariance lacks their variance,
    # which depends on tau. Five rounds are enough for both.
    typical = float(sizes @ sizes / sizes.sum())
    time = 1.0
    for _ in range(5):
        lacking = covariances[0] * time / max(typical - time, 1.0)
        correlations = (covariances + lacking) / (covariances[0] + lacking)
        time = _summed(correlations)
        time = float(np.clip(time, 1.0, max(typical / 2.0, 1.0)))
    return time


def _about_trend(scores: Array) -> Array:
    """Mask of scores in the lower tail of a task, about a line in time."""
    in_tail = scores <= np.quantile(scores, _TAIL, method="lower")
    values = in_tail - in_tail.mean()
    place = np.arange(len(values)) - (len(values) - 1) / 2.0
    slope = place @ values / max(place @ place, 1.0)
    return values - place * slope


def _summed(correlations: Array) -> float:
    """1 + 2 (sum of autocorrelations), up to the first pair that is not positive."""
    even = correlations[: len(correlations) // 2 * 2]
    couples = even[0::2] + even[1::2]
    positive = couples > 0.0
    number = len(couples) if positive.all() else int(np.argmin(positive))
    return 2.0 * float(couples[:number].sum()) - 1.0


def likeness(scores: Array, rows: TrainingRows) -> float:
    """Correlation of ranks inside groups, by an analysis of variance over all tasks.

    Ranks are those of left-out scores (n,), NaN: none. It is 1 where each task has one
    group only.
    """
    assert rows.group is not None
    judged = np.flatnonzero(~np.isnan(scores))
    group = np.unique(rows.group[judged], return_inverse=True)[1]
    codes = rows.codes[judged]
    weight = rows.weight[judged]
    rank = np.empty(len(judged))
    for _, task_rows in rows_by_task(codes):
        level = levels_of(scores[judged[task_rows]])
        mass = np.bincount(level, weight[task_rows])
        rank[task_rows] = ((np.cumsum(mass) - mass / 2.0) / mass.sum())[level]
    size = np.bincount(group, weight)
    total = np.bincount(codes, weight)
    of_group = np.bincount(group, weight * rank) / size
    task_mean = np.bincount(codes, weight * rank) / np.where(total > 0, total, 1.0)
    of_task = task_mean[codes]
    between = weight @ np.square(of_group[group] - of_task)
    within = weight @ np.square(rank - of_group[group])
    freedom = len(size) - np.count_nonzero(total)
    rest = weight.sum() - len(size)
    if not freedom:
        return 1.0
    typical = (weight.sum() - (weight * size[group] / total[codes]).sum()) / freedom
    if rest <= 0 or typical <= 1:
        return 0.0
    between = between / freedom
    within = within / rest
    total_variance = between + (typical - 1) * within
    correlation = (between - within) / max(total_variance, np.finfo(float).tiny)
    return float(np.clip(correlation, 0.0, 1.0))
