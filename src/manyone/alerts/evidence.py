"""How likely alarms are by chance, if every row of a table is normal.

A *law* is the distribution of a number of alarms: an array of the probabilities of
0, 1, 2, ...

If the n left-out rows and the m new rows of a task come from one distribution, all
orders of their n + m scores are equally likely. The number of new rows below the k-th
lowest left-out score is then beta-binomial, BetaBin(m, k, n + 1 - k). This needs no
assumption about the scores, only that they are exchangeable. New rows score higher
than left-out rows, whose models had fewer rows: that makes alarms rarer. The number of
alarms of a whole table is judged by this law alone.

Incidents need more. The lowest of n + m scores is a new one with probability m / (n +
m). So the ranks of one task of thirty rows say hardly anything. Incidents therefore go
by the p-values of the model, for which tasks with few rows borrow (see
`manyone.calibration.thresholds`). The same law is used with k = p (n + 1): all tasks
say how many rows to expect below a level, and the n rows of a task how far it may be
from that. Where rows have times, runs of rows take the place of rows, see `Runs`. A row
farther out than all left-out rows counts by its distance, too, see `depth_pvalues`. All
are measured, not proven: ``benchmarks/bench_incidents.py``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import betaln

from manyone._types import Array, Codes

#: An incident stands out if fewer tasks than this would show one like it by chance. A
#: table has more alarms than chance explains if the probability of so many is less than
#: this. So at most 1 % of all tables of normal rows show either.
STANDS_OUT = 0.005
#: Training rows from which on the distances of a task's rows are compared. (From 20
#: on, p-values of distances are at most as often below 0.01 to 0.00001 as they say,
#: for laws with and without heavy tails: ``tests/alerts/test_evidence.py``.)
ENOUGH_FOR_DEPTH = 20
# The tail of distances is fitted to this share of the left-out rows, or to so many. A
# larger share says less about the tail: before tasks had tails of their own, 5, 10 and
# 20 % let 68, 57 and 25 % of single far rows stand out (`bench_incidents.py`).
_TAIL = 0.05
_TAIL_ROWS = 5
# A row makes a run stronger if its p-value is below exp(-2) = 0.14.
_RUN = 2.0


# --------------------------------------------------------------- numbers of alarms


def highest_rate(rate: float, counted: float) -> float:
    """The largest share of a task's normal rows that raises an alarm, on average.

    It is the promised rate, or the probability that a row is below the lowest left-out
    one where that is more. A task without left-out rows may raise any number.

    Parameters
    ----------
    rate : float
        Promised share of alarms among normal rows.
    counted : float
        Left-out rows n of the task.

    Returns
    -------
    float
    """
    return float(min(1.0, max(rate, 1.0 / (counted + 1.0))))


def alarm_law(rows: int, counted: float, rate: float) -> Array:
    """Probability of 0, 1, ..., `rows` rows below a level.

    Parameters
    ----------
    rows : int
        New rows m.
    counted : float
        Left-out rows n of the task.
    rate : float
        Share of normal rows below the level, k / (n + 1) for the k-th lowest score.

    Returns
    -------
    ndarray of shape (rows + 1,)
    """
    law = np.exp(_log_law(np.arange(rows + 1.0), rows, counted, rate))
    return np.asarray(law / law.sum())


def _log_law(number: Array, rows: int, counted: float, rate: float) -> Array:
    """Logarithm of the probability of so many rows below a level."""
    below = rate * (counted + 1.0)
    above = (1.0 - rate) * (counted + 1.0)
    if below <= 0.0:
        return np.where(number == 0, 0.0, -np.inf)
    if above <= 0.0:
        return np.where(number == rows, 0.0, -np.inf)
    draws = betaln(number + below, rows - number + above) - betaln(below, above)
    orders = np.log(rows + 1.0) + betaln(rows - number + 1.0, number + 1.0)
    return np.asarray(draws - orders)


@lru_cache(2**16)
def chance_of_rows(number: int, rows: int, counted: float, rate: float) -> float:
    """Probability that at least `number` of `rows` new rows lie below a level."""
    wanted = np.arange(number, rows + 1.0)
    return float(min(1.0, np.exp(_log_law(wanted, rows, counted, rate)).sum()))


def chance_of(alarms: int, law: Array) -> float:
    """Probability of at least so many alarms."""
    return float(min(1.0, law[alarms:].sum()))


def most_by_chance(law: Array, level: float = STANDS_OUT) -> int:
    """The largest number of alarms that is not exceeded with more probability."""
    exceeded = np.cumsum(law[::-1])
    return len(law) - 1 - int(np.searchsorted(exceeded, level, side="right"))


def total_law(laws: Iterable[Array], long: int = 256) -> Array:
    """Law of a sum of independent counts, the shortest added first.

    From the length `long` on a convolution by FFT is faster.
    """
    heap = [(len(law), number, law) for number, law in enumerate(laws)]
    if not heap:
        return np.ones(1)
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        shorter_length, _, shorter = heapq.heappop(heap)
        _, _, longer = heapq.heappop(heap)
        if shorter_length < long:
            both = np.convolve(shorter, longer)
        else:
            both = np.maximum(fftconvolve(shorter, longer), 0.0)
        heapq.heappush(heap, (len(both), number, both))
        number += 1
    law: Array = heap[0][2] / heap[0][2].sum()
    return law


# ------------------------------------------------------------------- p-values of rows


def depth_pvalues(
    depth: Array, task: Codes, reference: Array, reference_task: Codes
) -> Array:
    """P-values of distances, which go on falling beyond the largest left-out one.

    Parameters
    ----------
    depth, task : ndarray of shape (m,)
        Distance of each new row from its task, and the number of the task.
    reference, reference_task : ndarray of shape (n,)
        Distances of training rows from their task without them, and these tasks.

    Returns
    -------
    ndarray of shape (m,)
        1 up to the largest distance of all, where ranks tell as much. Beyond it the
        `_Tail` of the logarithms of the task's distances: they fall off as a power,
        which is heavier than the tail of a normal distribution. All T tasks together
        count for the power of one as much as T rows of its own. 1 throughout where
        there are no rows.
    """
    p = np.ones(len(depth))
    if not len(reference):
        return p
    names = np.unique(reference_task).tolist()
    tails = {}
    with np.errstate(divide="ignore"):  # copies have no distance
        logarithms = np.log(reference)
    for name in names:
        of_task = logarithms[reference_task == name]
        number = max(_TAIL_ROWS, int(_TAIL * len(of_task)))
        tails[name] = _Tail.of(of_task, number, len(of_task))
    total = sum(tail.total for tail in tails.values())
    prior_rows = len(names) if len(names) > 1 else 0
    prior = prior_rows * total / sum(tail.number for tail in tails.values())
    beyond = depth > reference.max()
    for name in np.unique(task[beyond]).tolist():
        if name in tails:
            rows = beyond & (task == name)
            tail = tails[name]
            rarest = 1.0 / (tail.size + 1.0)
            rare = tail.pvalues(np.log(depth[rows]), prior_rows, prior)
            p[rows] = np.where(rare < 1.0, np.minimum(rare, rarest), 1.0)
    return p


class _Tail(NamedTuple):
    """The largest of some values, which fall off exponentially above a level.

    Attributes
    ----------
    size : int
        Rows among which they were found.
    number : int
        Values above the level.
    level : float
        The largest value below them.
    total : float
        Sum of what they have above it.
    """

    size: int
    number: int
    level: float
    total: float

    @classmethod
    def of(cls, values: Array, number: int, size: int) -> _Tail:
        """So many of the largest values (n,), one less than there are at most."""
        descending = np.sort(values)[::-1]
        number = min(number, len(values) - 1)
        level = float(descending[number])
        if not np.isfinite(level):
            return cls(size, number, level, 0.0)
        total = float(np.sum(descending[:number] - level))
        return cls(size, number, level, total)

    def pvalues(
        self, values: Array, prior_number: int = 0, prior: float = 0.0
    ) -> Array:
        """Values above the level (m,): how many as large there are in a row.

        (k + 1) / (n + 1) (1 + x / S)^(-k) for a value x above the level, where k values
        have the sum S above it. For exponential tails of any scale this is exact,
        although the scale is estimated. A prior adds to k and S.
        """
        total = self.total + prior
        if not np.isfinite(self.level) or not total > 0.0:
            return np.ones(len(values))
        beyond = (values - self.level) / total
        tail = (1.0 + beyond) ** -(self.number + prior_number)
        tail *= (self.number + 1.0) / (self.size + 1.0)
        return np.clip(tail, 1e-300, 1.0)


# ------------------------------------------------------------------------------- runs


class Runs:
    r"""Runs of low p-values in normal rows, in the order of time.

    Where rows resemble the row before, or are compared with it, an alarm is seldom
    alone, and the rows of a run are no evidence of their own. So runs are counted
    instead of rows. The strength of a run is the largest sum of :math:`-\log p - 2`
    over rows that follow each other: length counts, and so does depth. (It is the
    evidence for rows with p-values of density :math:`0.2 p^{-0.8}`.) A run ends where
    the sum from its first row on is negative. In sequences that do not drift the number
    of strong runs is a Poisson number that falls exponentially with the strength. Its
    scale depends on how rows are related (Karlin & Dembo 1992; Altschul et al. 2001).
    Left-out rows tell it: the p-value of a run is the number of runs as strong in a
    normal row.

    It assumes that stretches of time are exchangeable: earlier and later ones, those of
    one task and of another. The tail of strengths is fitted to the stronger half of the
    runs, which is measured (``bench_incidents.py --in-time``): fewer say less.

    Parameters
    ----------
    sequences : iterable of ndarray
        P-values of the left-out rows of each task, in the order of time; none where
        that is not known.
    """

    def __init__(self, sequences: Iterable[Array]) -> None:
        strengths = [np.empty(0)]
        size = 0
        for p in sequences:
            strengths.append(_runs(p))
            size += len(p)
        self._ascending = np.sort(np.concatenate(strengths))
        self._size = size

    def are_comparable(
        self,
        trained: float,
        counted: float,
        enough_trained: float = 150,
        enough_counted: float = 40,
    ) -> bool:
        """Whether a task with so many training and left-out rows has runs like them.

        A task of fewer rows may stay at another level than in training for as long as a
        table lasts: 24 tasks of 40 to 100 related rows showed 0.08 to 0.65 incidents
        that stand out by runs, and 0 to 0.06 by rows.
        """
        is_known = trained >= enough_trained or counted >= enough_counted
        return is_known and len(self._ascending) > 1

    @cached_property
    def _tail(self) -> _Tail:
        return _Tail.of(self._ascending, (len(self._ascending) + 1) // 2, self._size)

    def pvalues(self, p: Array) -> Array:
        """P-value of each run in the p-values (m,) of rows in the order of time."""
        strengths = _runs(p)
        stronger = len(self._ascending) - np.searchsorted(self._ascending, strengths)
        ranks = (1.0 + stronger) / (self._size + 1.0)
        is_strong = strengths > self._tail.level
        return np.where(is_strong, self._tail.pvalues(strengths), ranks)


def _runs(p: Array) -> Array:
    """How strong each run of p-values (m,) is."""
    total = np.cumsum(-np.log(p) - _RUN)
    height = total - np.minimum.accumulate(np.minimum(total, 0.0))
    starts = np.flatnonzero((height > 0.0) & (np.append(0.0, height[:-1]) == 0.0))
    return np.maximum.reduceat(height, starts) if len(starts) else np.empty(0)


# --------------------------------------------------------------------------- evidence


def evidence(p: Array, rows: int, counted: float) -> float:
    """How likely such low p-values are among the rows of a task if all are normal.

    Parameters
    ----------
    p : ndarray of shape (a,)
        P-values of the rows in question, a subset of the task's.
    rows : int
        All rows of the task m, or of a window in time that was fixed beforehand.
    counted : float
        Left-out rows n of the task. The fewer there are, the more the rows of the task
        may differ from them without a fault.

    Returns
    -------
    float
        The smallest, over j = 1, 2, 3, 4, 6, 8, 11, ..., of the probability that at
        least j rows have a p-value as low as the j-th lowest of `p`, times the number
        of possible j. So many alarms count, and a few deep ones. No choice of rows
        makes it smaller than choosing the lowest p-values of the task.
    """
    ascending = np.sort(p)
    looks = powers_of_root_two(rows)
    chances = [1.0]
    for number in looks:
        if number <= len(ascending):
            level = float(ascending[number - 1])
            chances.append(chance_of_rows(number, rows, counted, level))
    return min(1.0, len(looks) * min(chances))


@lru_cache(2**12)
def powers_of_root_two(most: int) -> tuple[int, ...]:
    """1, 2, 3, 4, 6, 8, 11, ...: powers of the square root of 2 up to a number."""
    steps = np.arange(2 * max(most, 1).bit_length() + 1)
    numbers = np.unique(np.rint(2.0 ** (steps / 2)).astype(int))
    return tuple(numbers[numbers <= max(most, 1)].tolist())


def lowest_evidence(p: Array, rows: int, counted: float) -> float:
    """How likely a p-value as low as the lowest is among the rows of a task."""
    return chance_of_rows(1, rows, counted, float(p.min(initial=1.0)))
