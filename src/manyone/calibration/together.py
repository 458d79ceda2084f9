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

# Where the bound of Hoeffding is evaluated, in standard deviations of a rank.
_TILTS = np.geomspace(1e-4, 1e3, 141)


def rank_sum_pvalue(known: Array, new: Array, most_additions: float = 3e7) -> float:
    """P-value of "the new scores are no lower than the known ones".

    Parameters
    ----------
    known : ndarray of shape (n,)
    new : ndarray of shape (m,)
        Both of rows that are exchangeable if all are normal.
    most_additions : float
        What the exact law of tied ranks may cost.

    Returns
    -------
    float
        Valid for every n and m, ties included: P(p <= a) <= a. It is exact but for
        large samples: there without ties by a normal law, with ties by a bound that is
        never too small.
    """
    if len(known) == 0 or len(new) == 0:
        return 1.0
    ranks, tied = doubled_ranks(np.concatenate([known, new]))
    if not tied:
        # Tails of the law are lighter than normal ones: p can only be too large.
        exact = len(known) * len(new) <= 50_000
        law = mannwhitneyu(
            ranks[len(known) :].astype(np.float64),
            ranks[: len(known)].astype(np.float64),
            alternative="less",
            method="exact" if exact else "asymptotic",
        )
        return float(law.pvalue)
    # The cost depends on the part that is drawn. If the known rows are fewer, they are
    # drawn instead, and have to rank high.
    if len(new) <= len(known):
        return _chance_of_low_sum(ranks, ranks[len(known) :], most_additions)
    mirrored = ranks.max() - ranks
    return _chance_of_low_sum(mirrored, mirrored[: len(known)], most_additions)


def _chance_of_low_sum(
    values: NDArray[np.int64], part: NDArray[np.int64], most_additions: float
) -> float:
    """Probability that a random subset of the size of `part` sums to no more.

    The exact law draws one value after the other (the shift algorithm of Streitberg &
    Roehmel 1986): entry (k, s) is the probability that k are drawn so far, with the sum
    s. Where that takes too many additions, it is a bound.
    """
    steps = values - values.min()
    unit = int(np.gcd.reduce(steps))
    if unit == 0:
        return 1.0
    steps = steps // unit
    most = int((part - values.min()).sum()) // unit
    size = len(part)
    if len(values) * size * (most + 1.0) > most_additions:
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

    Any convex function of a sum drawn without replacement has at most the mean that it
    has with replacement. So the exponential bound of independent draws holds for every
    tilt.
    """
    tilts = _TILTS / np.std(steps)
    values, counts = np.unique(steps, return_counts=True)
    log_mean = logsumexp(-np.outer(tilts, values), axis=1, b=counts / len(steps))
    return float(np.exp(min(0.0, np.min(tilts * most + size * log_mean))))


def calibration_rows(calibration: Calibration, task: int) -> Array:
    """Scores of the rows of a task, one for each that they count for.

    Rows of a group that resemble each other count for fractions. Then as many scores
    stand for all rows as these count for together.
    """
    rows = slice(calibration.starts[task], calibration.starts[task + 1])
    scores = calibration.scores[rows]
    weight = calibration.weight[rows]
    if not calibration.is_held_out and len(scores) == 1 and weight[0] < 2.0:
        return np.empty(0)  # the only row of a task has no proper left-out score
    counts = np.rint(weight)
    if np.allclose(weight, counts, rtol=0.0, atol=1e-9):
        return np.repeat(scores, counts.astype(np.intp))
    return _evenly_spaced(scores, weight, int(weight.sum()))


def _evenly_spaced(ascending: Array, weight: Array, count: int) -> Array:
    """`count` of the weighted scores (n,), evenly spaced."""
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
        Tasks to judge, by number.

    Returns
    -------
    ndarray of shape (S,)
    """
    p = np.ones(len(tasks))
    for place, task in enumerate(tasks.tolist()):
        known_scores = calibration_rows(calibration, task)
        new = np.sort(scores[codes == task])
        if not calibration.is_held_out and len(known_scores):
            # New rows share one model, and left-out rows have one each. So m new rows
            # vary as m / (1 + m / (2 n)) independent ones would (measured by
            # ``benchmarks/bench_together.py``).
            count = len(new) / (1.0 + 0.5 * len(new) / len(known_scores))
            new = _evenly_spaced(new, np.ones(len(new)), max(1, round(count)))
        p[place] = rank_sum_pvalue(known_scores, new)
    return p
