"""How many alarms normal rows raise by chance.

A *law* is the distribution of a number of alarms: an array of the probabilities of 0, 1, 2, ...

A task's threshold is the k-th lowest of n left-out scores, k = floor(rate (n + 1)). If m new rows
come from the same distribution, the number of them below it is beta-binomial, BetaBin(m, k, n + 1 -
k): binomial with an uncertain rate, because only n rows tell about the task.

We use the same law for any other level, with k = r (n + 1) and r the share of the left-out rows of
all tasks below that level. The rows of all tasks say how many to expect, and the n rows of the task
how far it may be from that. Of a task never seen (n = 0), all rows or none may be below.

New rows score higher than left-out training rows, whose models knew fewer rows. So fewer alarms
than this are no surprise.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import betaln

from manyone._types import Array

_ROUNDING = 1e-9
# The tail is fitted to this share of the left-out scores, unless they are fewer than this. The last
# is its lightest shape: a power, because scores fall steeply far from everything, and more steeply
# for new rows than for left-out training rows.
_TAIL, _FEWEST, _HEAVY = 0.1, 5, 0.6
_OUTSIDE = 0.05  # probability of a number of alarms outside its band
_LONG = 256  # from this length on a convolution by FFT is faster


@lru_cache(2**14)
def alarm_law(rows: int, reference: float, rate: float) -> Array:
    """Probability of 0, 1, ..., `rows` alarms on normal rows.

    Parameters
    ----------
    rows : int
        New rows m.
    reference : float
        Left-out rows n of the task.
    rate : float
        Share of normal rows that raise an alarm, a multiple of 1 / (n + 1) where thresholds are
        scores of those rows (see `attained`).

    Returns
    -------
    ndarray of shape (rows + 1,)
    """
    below, above = rate * (reference + 1.0), (1.0 - rate) * (reference + 1.0)
    if below <= 0 or above <= 0:  # no row can be below the threshold, or every row is
        return np.eye(1, rows + 1, 0 if below <= 0 else rows)[0]
    x = np.arange(rows + 1.0)
    log_p = betaln(x + below, rows - x + above) - betaln(below, above)
    law: Array = np.exp(log_p - np.log(rows + 1.0) - betaln(rows - x + 1.0, x + 1.0))
    return law / law.sum()


def attained(rate: float, reference: float) -> float:
    """The rate that n left-out rows can give: the next lower multiple of 1 / (n + 1)."""
    return float(np.floor(rate * (reference + 1.0) + _ROUNDING) / (reference + 1.0))


def chance_of(alarms: int, law: Array) -> float:
    """Probability of at least so many alarms."""
    return float(min(1.0, law[alarms:].sum()))


def band_of(law: Array) -> tuple[int, int]:
    """Fewest and most alarms, either end exceeded with a probability of 2.5 % at most."""
    low = int(np.searchsorted(np.cumsum(law), _OUTSIDE / 2))
    high = len(law) - 1 - int(np.searchsorted(np.cumsum(law[::-1]), _OUTSIDE / 2))
    return low, max(low, high)


def total_law(laws: Iterable[Array]) -> Array:
    """Law of a sum of independent counts, the shortest added first."""
    heap = [(len(law), number, law) for number, law in enumerate(laws)]
    if not heap:
        return np.ones(1)
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        (m, _, a), (k, _, b) = heapq.heappop(heap), heapq.heappop(heap)
        both = (
            np.convolve(a, b)
            if min(m, k) < _LONG
            else np.maximum(fftconvolve(a, b), 0.0)
        )
        heapq.heappush(heap, (len(both), number, both))
        number += 1
    law: Array = heap[0][2] / heap[0][2].sum()
    return law


def tail_pvalues(scores: Array, reference: Array, weight: Array | None = None) -> Array:
    """P-values that keep falling below the lowest reference score.

    Parameters
    ----------
    scores : ndarray of shape (m,)
    reference : ndarray of shape (n,)
        Scores of left-out rows, ascending.
    weight : ndarray of shape (n,) or None
        Rows that each of these scores stands for; None: one.

    Returns
    -------
    ndarray of shape (m,)
        Ranks, (1 + #{c <= s}) / (n + 1), down to the lowest score; below it a generalised Pareto
        tail through the lowest tenth, its shape from probability-weighted moments made heavier by
        its uncertainty. Ranks alone cannot tell a row just below all others from one a hundred
        times as far.
    """
    weight = np.ones(len(reference)) if weight is None else weight
    below = np.append(0.0, np.cumsum(weight))
    p: Array = (1.0 + below[np.searchsorted(reference, scores, side="right")]) / (
        below[-1] + 1.0
    )
    kept = int(np.searchsorted(below, below[-1] * _TAIL, side="right")) - 1
    if kept < _FEWEST:
        return p
    excess, share = reference[kept] - reference[:kept], weight[:kept]  # excess descends
    mean = float(np.average(excess, weights=share))
    if not mean > 0:
        return p
    ranks = below[:kept] + 0.35 * share
    weighted = float(np.average(excess * ranks / below[kept], weights=share))
    shape = 2.0 - mean / max(mean - 2.0 * weighted, 1e-300) + kept**-0.5
    shape = float(np.clip(shape, _HEAVY, 0.9))
    y = np.maximum(reference[kept] - scores, 0.0) / (mean * (1.0 - shape))
    tail = (
        (below[kept] + 1.0) / (below[-1] + 1.0) * np.exp(-np.log1p(shape * y) / shape)
    )
    continued: Array = np.where(scores < reference[0], np.clip(tail, 1e-300, p), p)
    return continued


def evidence(p: Array, rows: int, reference: float) -> float:
    """How likely the lowest p-values of a task's rows are if all of its rows are normal.

    Parameters
    ----------
    p : ndarray of shape (a,)
        P-values of the rows in question, some of the task's.
    rows : int
        All rows of the task, m.
    reference : float
        Left-out rows n that say what is normal for the task: the fewer, the more its alarms may be
        alike without a fault (see `alarm_law`), wherever the p-values come from.

    Returns
    -------
    float
        The smallest, over j = 1, 2, 4, ..., a, of the probability that j rows or more have a
        p-value as low as the j-th lowest of `p`, times the number of j (Bonferroni). So both many
        alarms and a few deep ones count.
    """
    p = np.sort(p)
    looks = np.unique(np.append(2 ** np.arange(len(p).bit_length()), len(p)))
    looks = looks[looks <= len(p)]
    chances = [
        chance_of(int(j), alarm_law(rows, reference, float(p[j - 1]))) for j in looks
    ]
    return min(1.0, len(looks) * min(chances))
