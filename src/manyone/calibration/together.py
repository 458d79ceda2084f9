r"""P-values of all new rows of a task at once: a rank-sum test among its own rows.

If the n known and the m new rows of a task are exchangeable, every choice of m places
in the order of all n + m scores is equally likely, whatever their law. The sum of the
new rows' ranks is compared with its law over these choices. So the p-value may fall to
:math:`1/\binom{n+m}{m}`, where a single row stops at :math:`1/(n+1)`.

Tied scores share the mean of their ranks, and the law is that of the ranks as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import mannwhitneyu

from manyone._types import Array, Codes
from manyone.calibration.ranks import doubled_ranks
from manyone.calibration.thresholds import Calibration

# Without ties the law is exact up to so many pairs of a known and a new row. Beyond, it
# is taken as normal; its tails are lighter than that, so p can only be too large there.
_PAIRS = 50_000
# Additions that the exact law of tied ranks may cost; beyond, a bound is used.
_ADDITIONS = 3e7
# New rows share one model, and left-out rows have one each. So m new rows of a task
# with n rows vary as fewer would, m / (1 + m / (2 n)). (Measured, bench_together.py.)
_SHARED = 0.5
# Where the bound of Hoeffding is evaluated, in standard deviations of a rank.
_TILTS = np.geomspace(1e-4, 1e3, 141)


def rank_sum_pvalue(known: Array, new: Array) -> float:
    """P-value of "the new scores are no lower than the known ones".

    Parameters
    ----------
    known : ndarray of shape (n,)
    new : ndarray of shape (m,)
        Both of rows that are exchangeable if all are normal.

    Returns
    -------
    float
        Valid for every n and m, ties included: P(p <= a) <= a. Exact, but for large
        samples (see the constants above): a normal law without ties, with ties a bound
        that is never too small.
    """
    if len(known) == 0 or len(new) == 0:
        return 1.0
    ranks, tied = doubled_ranks(np.concatenate([known, new]))
    if not tied:
        exact = len(known) * len(new) <= _PAIRS
        law = mannwhitneyu(
            ranks[len(known) :].astype(np.float64),
            ranks[: len(known)].astype(np.float64),
            alternative="less",
            method="exact" if exact else "asymptotic",
        )
        return float(law.pvalue)
    # The smaller part decides the cost: if it is the known one, it has to rank high.
    if len(new) <= len(known):
        return _chance_of_low_sum(ranks, ranks[len(known) :])
    mirrored = ranks.max() - ranks
    return _chance_of_low_sum(mirrored, mirrored[: len(known)])


def _chance_of_low_sum(values: NDArray[np.int64], part: NDArray[np.int64]) -> float:
    """Probability that a random subset of the size of `part` sums to no more.

    The exact law draws one value after the other (the shift algorithm of Streitberg &
    Roehmel 1986): entry (k, s) is the probability of k drawn so far with sum s.
    """
    steps = values - values.min()
    unit = int(np.gcd.reduce(steps))
    if unit == 0:
        return 1.0
    steps = steps // unit
    most = int((part - values.min()).sum()) // unit
    size = len(part)
    if len(values) * size * (most + 1.0) > _ADDITIONS:
        return _bound_of_low_sum(steps, size, most)
    law = np.zeros((size + 1, most + 1))
    law[0, 0] = 1.0
    wanted = np.arange(size, -1.0, -1.0)[:, None]
    for number, step in enumerate(steps.tolist()):
        drawn = law * np.clip(wanted / (len(steps) - number), 0.0, 1.0)
        law -= drawn
        if step <= most:
            law[1:, step:] += drawn[:-1, : most + 1 - step]
    return float(min(1.0, law[size].sum()))


def _bound_of_low_sum(steps: NDArray[np.int64], size: int, most: int) -> float:
    """Bound of the same probability by Hoeffding (1963, theorem 4).

    Sums drawn without replacement vary less than with it, in the sense of all convex
    functions. So the exponential bound of independent draws holds for every tilt.
    """
    tilts = _TILTS / np.std(steps)
    values, counts = np.unique(steps, return_counts=True)
    log_mean = logsumexp(-np.outer(tilts, values), axis=1, b=counts / len(steps))
    return float(np.exp(min(0.0, np.min(tilts * most + size * log_mean))))


def calibration_rows(calibration: Calibration, task: int) -> Array:
    """Scores of the rows of a task, one for each that they count for.

    Where rows count for fractions, because those of a group resemble each other, as
    many scores as they count for in all stand for them.
    """
    rows = slice(calibration.starts[task], calibration.starts[task + 1])
    scores = calibration.scores[rows]
    weight = calibration.weight[rows]
    if calibration.source != "held-out" and len(scores) == 1 and weight[0] < 2.0:
        return np.empty(0)  # the only row of a task has no proper left-out score
    counts = np.rint(weight)
    if np.allclose(weight, counts, rtol=0.0, atol=1e-9):
        return np.repeat(scores, counts.astype(np.intp))
    return _evenly_spaced(scores, weight, int(weight.sum()))


def _evenly_spaced(ascending: Array, weight: Array, count: int) -> Array:
    """So many of the weighted scores (n,), evenly spaced."""
    mass = np.cumsum(weight)
    places = (np.arange(count) + 0.5) / max(count, 1) * mass[-1]
    return ascending[np.minimum(np.searchsorted(mass, places), len(ascending) - 1)]


def left_out_pvalues(
    calibration: Calibration, scores: Array, codes: Codes, tasks: Codes
) -> Array:
    """P-value of all new rows of each task among its calibration rows.

    Parameters
    ----------
    calibration : Calibration
    scores, codes : ndarray of shape (k,)
        Of the new rows.
    tasks : ndarray of shape (S,)
        The tasks in question.

    Returns
    -------
    ndarray of shape (S,)
    """
    p = np.ones(len(tasks))
    for place, task in enumerate(tasks.tolist()):
        known_scores = calibration_rows(calibration, task)
        new = np.sort(scores[codes == task])
        if calibration.source != "held-out" and len(known_scores):
            count = len(new) / (1.0 + _SHARED * len(new) / len(known_scores))
            new = _evenly_spaced(new, np.ones(len(new)), max(1, round(count)))
        p[place] = rank_sum_pvalue(known_scores, new)
    return p
