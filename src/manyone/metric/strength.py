"""How much tasks share: rows that their pooled scales and covariance count for.

Scales and covariances of a task of few rows are shrunk to those of all tasks, which
count for k rows. The more tasks resemble each other, the larger k should be. It is
estimated from the tasks: for scales by how much they vary beyond chance
(:func:`scale_strengths`), for the covariance by how well left-out rows are predicted
(:func:`covariance_strength`).
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, polygamma

from manyone._types import Array, Codes
from manyone.data.rows import group_rows, row_blocks

#: The least that estimates may be. (Fixed at 2 and 3, as they were before, AUC of
#: simulated tasks of 6, 15 and 25 rows is 77.7, 80.0 and 81.2; estimated, 81.0, 82.2
#: and 82.9: ``benchmarks/bench_regimes.py``.)
LEAST_SCALE_PRIOR = 2.0
LEAST_COVARIANCE_PRIOR = 3.0
# Estimates for the covariance: from tasks of unlike covariances to nearly one for all.
_COVARIANCE_PRIORS = LEAST_COVARIANCE_PRIOR * 10.0 ** np.arange(0.0, 3.5, 0.5)
_EPS = np.finfo(float).eps


def scale_strengths(squares: Array, freedom: Array) -> Array:
    r"""Rows that the pooled variance of each column should count for (Smyth 2004).

    If :math:`1 / \sigma_t^2` is a multiple of a chi-square with k degrees of freedom,
    and :math:`\nu_t s_t^2 / \sigma_t^2` one with :math:`\nu_t`, then :math:`\log s_t^2
    - \psi(\nu_t / 2) + \log(\nu_t / 2)` has the variance :math:`\psi'(\nu_t / 2) +
    \psi'(k / 2)` over tasks. So :math:`\psi'(k / 2)` is estimated by what the variance
    over tasks exceeds the mean of :math:`\psi'(\nu_t / 2)` by. (Smyth estimates the centre
    of the prior, too. Here it is the pooled variance.)

    Parameters
    ----------
    squares : ndarray of shape (T, d)
        Sums of squares in each task.
    freedom : ndarray of shape (T,)

    Returns
    -------
    ndarray of shape (d,)
        At least 2, and 2 where fewer than two tasks vary.
    """
    has_freedom = freedom[:, None] >= 1.0
    half = np.where(has_freedom, freedom[:, None], 1.0) / 2.0
    variance = squares / (2.0 * half)
    # A column that is constant in a task, but for rounding, has no logarithm.
    used = has_freedom & (variance > _EPS * variance.max(axis=0))
    count = used.sum(axis=0)
    n_tasks = np.maximum(count, 1)
    logs = np.log(np.where(used, variance, 1.0)) - digamma(half) + np.log(half)
    mean = np.where(used, logs, 0.0).sum(axis=0) / n_tasks
    squared_gaps = np.where(used, (logs - mean) ** 2, 0.0).sum(axis=0)
    by_chance = np.where(used, polygamma(1, half), 0.0).sum(axis=0) / n_tasks
    excess = squared_gaps / np.maximum(count - 1, 1) - by_chance
    most = polygamma(1, LEAST_SCALE_PRIOR / 2.0)
    # At least a millionth: without an excess the tasks share one scale.
    excess = np.where(count > 1, np.clip(excess, 1e-6, most), most)
    return 2.0 * _inverse_trigamma(excess)


def _inverse_trigamma(value: Array) -> Array:
    """The x with trigamma(x) = value, by Newton's method for convex 1 / trigamma."""
    x = 0.5 + 1.0 / value
    for _ in range(50):
        trigamma = polygamma(1, x)
        step = trigamma * (1.0 - trigamma / value) / polygamma(2, x)
        x += step
        if np.all(np.abs(step) <= 1e-10 * x):
            break
    return x


def covariance_strength(
    white: Array,
    codes: Codes,
    weight: Array,
    starts: Codes,
    basis: Array,
    values: Array,
) -> float:
    r"""Rows that the pooled covariance counts for, as it predicts left-out rows.

    For each strength k, the value of a task is the mean over its rows of the Gaussian
    log-density about the mean, and with the covariance :math:`(A_t + k W) / (\nu_t +
    k)`, of all other rows. Here the scatter :math:`A_t` and the pooled covariance W
    have lost the row, too: where W is the identity and z the deviation of a row, that
    is one rank-one change of :math:`A_t + k I`. The best k is taken if it is better
    than the least one by three standard errors over at least eight tasks: chance alone
    must not take their own covariances from tasks.

    Parameters
    ----------
    white : ndarray of shape (n, d)
        Deviations from the means of the tasks, in the pooled metric.
    codes, weight : ndarray of shape (n,)
        Task and count of each row.
    starts : ndarray of shape (T + 1,)
    basis : ndarray of shape (r, d)
    values : ndarray of shape (r,)
        Where each task starts among principal directions of its scatter; these; and the
        scatter along them.

    Returns
    -------
    float
        At least 3.
    """
    totals = np.bincount(codes, weight, len(starts) - 1)
    judged = np.flatnonzero(totals > 2.0)
    if len(judged) < 8:
        return LEAST_COVARIANCE_PRIOR
    freedom = float(np.maximum(totals - 1.0, 0.0).sum())
    order, first_row = group_rows(codes, len(totals))
    sizes = np.diff(first_row)
    d = white.shape[1]
    density = np.empty((len(_COVARIANCE_PRIORS), len(totals)))
    for size in np.unique(sizes[judged]):
        same_size = judged[sizes[judged] == size]
        for block in row_blocks(len(same_size), 3 * int(size) * d):
            tasks = same_size[block]
            rows = order[first_row[tasks, None] + np.arange(size)]
            places = starts[tasks, None] + np.arange(min(size, d))
            density[:, tasks] = _left_out_densities(
                white[rows], weight[rows], basis[places], values[places], freedom
            )
    gain = density[:, judged] - density[0, judged]
    mean = gain.mean(axis=1)
    error = gain.std(axis=1, ddof=1) / np.sqrt(len(judged))
    allowed = np.where(mean >= 3.0 * error, mean, -np.inf)
    return float(_COVARIANCE_PRIORS[allowed.argmax()])


def _left_out_densities(
    rows: Array, weight: Array, basis: Array, values: Array, freedom: float
) -> Array:
    """Mean log-densities (K, T) of rows (T, n, d) left out, up to a constant.

    `basis` (T, m, d) and `values` (T, m) are of the tasks; `freedom` of all tasks
    together.
    """
    d = rows.shape[-1]
    total = weight.sum(axis=1, keepdims=True)
    count = np.minimum(weight, 1.0)
    growth = total / (total - count)
    along = (rows @ np.swapaxes(basis, -1, -2)) ** 2
    across = np.einsum("tnd,tnd->tn", rows, rows) - along.sum(axis=2)
    across = np.maximum(across, 0.0)
    densities = np.empty((len(_COVARIANCE_PRIORS), len(rows)))
    for number, prior in enumerate(_COVARIANCE_PRIORS):
        ridge = prior * freedom / (freedom - count)
        shrunk = values[:, None] + ridge[:, :, None]
        leverage = (along / shrunk).sum(axis=2) + across / ridge
        lost = count * growth * (1.0 + prior / (freedom - count))
        remaining = np.maximum(1.0 - lost * leverage, _EPS)
        freedom_left = total - 1.0 - count + prior
        # A new row deviates from the mean of the rows that are left.
        spread = growth / freedom_left
        square = growth**2 * leverage / (remaining * spread)
        logdet = np.log(shrunk).sum(axis=2) + (d - values.shape[1]) * np.log(ridge)
        logdet += np.log(remaining) + d * np.log(spread)
        densities[number] = -0.5 * np.average(logdet + square, axis=1, weights=weight)
    return densities
