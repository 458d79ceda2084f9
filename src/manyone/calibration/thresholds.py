r"""Alarm thresholds and p-values from scores of normal rows that the model has not seen.

A task with rows enough is judged by its own: the p-value of a score s is
:math:`(1 + \#\{c : c \le s\}) / (n + 1)`, where c runs over its n calibration scores.

A task with too few rows for the promised rate borrows. Scores are divided by the
spread of their task, and tasks are the units (hierarchical conformal prediction;
Dunn, Wasserman & Ramdas 2018; Lee, Barber & Willett 2023): with S tasks that lend,

.. math:: p = \frac{1}{S} \Bigl( p_{own} + \sum_{other\ tasks}
              \text{share of their scores that are no larger} \Bigr).

If tasks are exchangeable, such a p-value is at most a with probability at most a, on
average over tasks. Where a score is not below all own scores, p is at least
:math:`p_{own} / ratio`: no single task then raises more than ratio times the rate.

The threshold of a task is the score at which the p-value first exceeds the promised
rate, so ``score < offset`` exactly when ``p <= alarm_rate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.calibration.dependence import calibration_weight
from manyone.data.checks import warn_of_copies
from manyone.data.rows import TrainingRows
from manyone.messages import shortlist
from manyone.models.solution import Solution

#: What a single task may raise, as a multiple of the promised rate.
LIMIT_RATIO = 3.0
# Rows that the pooled spread counts for when the spread of one small task is estimated.
_PRIOR_ROWS = 8.0
# Least spread beside the scores of rows far away: what is less is rounding.
_LEAST_SPREAD = 1e-6
# Most that one row may add to the spread of a task that has no other, see `spreads`.
_STEEPEST = 4.0
# Scores of copies differ by rounding only.
_ROUNDING = 1e-10
_TINY = float(np.finfo(float).tiny)
# The threshold of a task that cannot raise an alarm.
_NEVER = -1e300


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of normal rows under models that were fitted without them.

    Parameters
    ----------
    scores, weight : ndarray of shape (n,)
        Scores and counts, sorted by task and ascending within a task.
    starts : ndarray of shape (T + 1,)
        Where each task starts.
    scaled : ndarray of shape (n,)
        The scores in units of their task's spread.
    spread : ndarray of shape (T,)
        Unit of each task's scores, shrunk towards the typical one.
    far : ndarray of shape (T,) or None
        Scores of rows far away, where known.
    lends : ndarray of bool of shape (T,)
        Whether a task has scores that others may be compared with.
    source : str
        ``"leave-one-out"``, ``"folds"`` or ``"held-out"``.
    """

    scores: Array
    weight: Array
    starts: Codes
    scaled: Array
    spread: Array
    far: Array | None
    lends: Mask
    source: str

    @classmethod
    def from_scores(
        cls,
        scores: Array,
        codes: Codes,
        weight: Array,
        n_tasks: int,
        source: str,
        far: Array | None = None,
        seen: Array | None = None,
    ) -> Calibration:
        """Arrange scores by task.

        Parameters
        ----------
        scores, codes, weight : ndarray of shape (n,)
            Score, task and count of each row; rows without a score (NaN) are left out.
        n_tasks : int
        source : str
        far : ndarray of shape (T,) or None
            Scores of rows far away, where known: beside them tiny spreads are rounding.
        seen : ndarray of shape (n,) or None
            Scores of the same rows under the model of all rows, see `copies_lowered`.

        Returns
        -------
        Calibration
        """
        if seen is not None:
            scores = copies_lowered(scores, seen, codes, weight)
        order = np.lexsort((scores, codes))
        order = order[~np.isnan(scores[order])]
        scores = scores[order]
        codes = codes[order]
        weight = weight[order]
        rows = np.bincount(codes, minlength=n_tasks)
        starts = np.concatenate([[0], np.cumsum(rows)])
        # Equal scores may differ by rounding: slightly lower, a tie stays a tie.
        scores = scores - 1e-12 * (1.0 + np.abs(scores))
        unit, spread = spreads(scores, codes, weight, n_tasks, far)
        counts = np.bincount(codes, weight, n_tasks)
        lends = counts > 0.0
        if source != "held-out":
            # The only row of a task has no proper left-out score.
            lends &= (rows > 1) | (counts > 1.0)
        return cls(scores, weight, starts, scores / unit, spread, far, lends, source)

    @classmethod
    def from_left_out(cls, solution: Solution, rows: TrainingRows) -> Calibration:
        """Left-out scores of training rows; alike rows of a group count as fewer."""
        scores = solution.left_out
        weight = rows.weight
        assert scores is not None
        if rows.group is not None:
            if np.isnan(scores).all():
                raise ValueError(
                    "groups has one group in every task: no row can be left out, and no threshold "
                    "set. Give two groups or more per task, or groups=None where rows are "
                    "independent."
                )
            weight = calibration_weight(scores, rows)
        source = solution.left_out_source
        if source.startswith("leave-one-out") and rows.columns is None:
            distinct = rows.take(np.flatnonzero(~rows.outlier)).merged()[0]
            warn_of_copies(distinct.X, distinct.weight)
        seen = np.full(len(scores), np.inf)
        tied = np.flatnonzero(tied_scores(scores, rows.codes, rows.weight))
        if len(tied) and rows.X.shape[1]:  # a model of landmarks has not kept its rows
            seen[tied] = solution.own(rows.as_new(tied), rows.codes[tied])
        return cls.from_scores(
            scores,
            rows.codes,
            weight,
            rows.n_tasks,
            source,
            solution.scorer.far(),
            seen,
        )

    @property
    def codes(self) -> Codes:
        """Task of each score, shape (n,)."""
        return np.repeat(np.arange(len(self.spread)), np.diff(self.starts))

    @property
    def counts(self) -> Array:
        """Calibration rows of each task, shape (T,)."""
        counts = np.bincount(self.codes, self.weight, len(self.spread))
        return counts.astype(np.float64)

    @property
    def pool_scores(self) -> Array:
        """See `pool`."""
        return self.pool()[0]

    @property
    def pool_weight(self) -> Array:
        """See `pool`."""
        return self.pool()[1]

    def pool(self) -> tuple[Array, Array]:
        """Scores of all tasks that lend, in units of spread and ascending; their counts.

        Where no task lends, those of all tasks.
        """
        lent = self.lends[self.codes] | ~np.any(self.lends)
        values = self.scaled[lent]
        ascending = np.argsort(values, kind="stable")
        return values[ascending], self.weight[lent][ascending]

    def pooled(self, alarm_rate: float) -> Mask:
        """Which tasks have too few rows for the rate and borrow others', shape (T,)."""
        return 1.0 / (self.counts + 1.0) > alarm_rate

    def at(
        self,
        alarm_rate: float,
        limit_ratio: float = LIMIT_RATIO,
        lowest: Array | None = None,
    ) -> Thresholds:
        """Thresholds and p-values for a promised rate.

        Parameters
        ----------
        alarm_rate : float
            Tasks whose own rows are too few to resolve it borrow.
        limit_ratio : float
            A task that borrows raises at most this multiple of the rate.
        lowest : ndarray of shape (T,) or None
            Scores of rows as far from everything as guards can tell. They are all that
            raises an alarm in a task with a single row.

        Returns
        -------
        Thresholds
        """
        counts = self.counts
        borrows = self.pooled(alarm_rate)
        # Weights may be tiny or huge: then sizes are what can be said of them.
        with np.errstate(under="ignore", over="ignore"):
            lenders = _lenders(counts, self.lends, borrows, alarm_rate)
            pool = Pool.of(self, lenders, borrows | lenders)
            mass = cumulated(self.weight, self.starts)
        if lowest is None:
            lowest = np.full(len(counts), -np.inf)
        return Thresholds(
            self, alarm_rate, limit_ratio, counts, borrows, pool, mass, lowest
        )

    def offsets(self, alarm_rate: float) -> tuple[Array, Array]:
        """See `Thresholds.offsets`."""
        return self.at(alarm_rate).offsets()

    def pvalues(self, scores: Array, codes: Codes, alarm_rate: float) -> Array:
        """See `Thresholds.pvalues`."""
        return self.at(alarm_rate).pvalues(scores, codes)

    def smallest_pvalues(self, alarm_rate: float) -> Array:
        """See `Thresholds.smallest_pvalues`."""
        return self.at(alarm_rate).smallest_pvalues()


def _lenders(counts: Array, lends: Mask, borrows: Mask, rate: float) -> Mask:
    """Tasks that those that borrow are compared with, shape (T,).

    Scores of small and of large tasks have laws of other shapes. So small tasks borrow
    from each other; larger ones join, the smallest first, where they are too few for
    the rate. Tasks of one size join together: their order must not matter.
    """
    lenders = lends & borrows
    if not borrows.any():
        return lenders
    needed = np.max(1.0 / (rate * (counts[borrows] + 1.0)))
    for size in np.unique(counts[lends & ~borrows]):
        if np.count_nonzero(lenders) >= needed:
            break
        lenders = lenders | (lends & (counts == size))
    return lenders


@dataclass(frozen=True, eq=False)
class Pool:
    """Scores that tasks borrow, in units of the spread of their task.

    Parameters
    ----------
    lenders : ndarray of bool of shape (T,)
    spread : ndarray of shape (T,)
        Unit of a new row's score.
    scaled : ndarray of shape (n,)
        All calibration scores in units of spread, ascending within each task.
    values : ndarray of shape (m,)
        Those of the lenders, ascending.
    mass : ndarray of shape (m + 1,)
        Sum over the lenders of the share of their scores among the lowest k.
    """

    lenders: Mask
    spread: Array
    scaled: Array
    values: Array
    mass: Array

    @classmethod
    def of(cls, calibration: Calibration, lenders: Mask, members: Mask) -> Pool:
        """The pool of some tasks; spreads are compared among the members (T,)."""
        if not members.any():
            nothing = np.zeros(0)
            return cls(lenders, np.ones(len(members)), nothing, nothing, np.zeros(1))
        codes = calibration.codes
        weight = calibration.weight
        inside = members[codes]
        units = np.ones(len(codes))
        units[inside], spread = spreads(
            calibration.scores[inside],
            codes[inside],
            weight[inside],
            len(members),
            calibration.far,
        )
        # Already ascending where scores have one sign; each then keeps its weight.
        scaled = calibration.scores / units
        scaled = scaled[np.lexsort((scaled, codes))]
        lent = lenders[codes]
        share = weight[lent] / calibration.counts[codes[lent]]
        ascending = np.argsort(scaled[lent], kind="stable")
        mass = np.concatenate([[0.0], np.cumsum(share[ascending])])
        return cls(lenders, spread, scaled, scaled[lent][ascending], mass)

    def shares(self, values: Array) -> Array:
        """Sum over the lenders of the share of their scores up to each value, (k,)."""
        return self.mass[np.searchsorted(self.values, values, side="right")]


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds and p-values for one promised rate.

    Parameters
    ----------
    calibration : Calibration
    alarm_rate : float
    limit_ratio : float
    counts : ndarray of shape (T,)
        Calibration rows of each task.
    borrows : ndarray of bool of shape (T,)
    pool : Pool
    mass : ndarray of shape (n,)
        Weight of a task's calibration scores up to each.
    lowest : ndarray of shape (T,)
        Scores of rows as far from everything as can be told; minus infinity: unknown.
    """

    calibration: Calibration
    alarm_rate: float
    limit_ratio: float
    counts: Array
    borrows: Mask
    pool: Pool
    mass: Array
    lowest: Array

    def pvalues(self, scores: Array, codes: Codes) -> Array:
        """P-value of each score (k,) against the calibration scores of its task (k,)."""
        own = self._own_pvalues(scores, codes)
        borrowed = self.borrows[codes]
        if not borrowed.any():
            return own
        p = own.copy()
        p[borrowed] = self._borrowed_pvalues(
            scores[borrowed], codes[borrowed], own[borrowed]
        )
        return p

    def _own_pvalues(self, scores: Array, codes: Codes) -> Array:
        """Ranks among the task's own scores, shape (k,)."""
        mass = self._mass_up_to(self.calibration.scores, scores, codes)
        return (1.0 + mass) / (1.0 + self.counts[codes])

    def _mass_up_to(self, values: Array, scores: Array, codes: Codes) -> Array:
        """Weight of the values of each score's task that do not exceed it, shape (k,)."""
        starts = self.calibration.starts
        below = count_up_to(values, starts, scores, codes)
        some = below > starts[codes]
        return np.where(some, self.mass[np.maximum(below - 1, 0)], 0.0)

    def _borrowed_pvalues(self, scores: Array, codes: Codes, own: Array) -> Array:
        """P-values with tasks as units, from ranks `own` (k,) in the task itself."""
        values = scores / self.pool.spread[codes]
        lends = self.pool.lenders[codes]
        mass = self._mass_up_to(self.pool.scaled, values, codes)
        share = np.where(lends, mass / np.maximum(self.counts[codes], _TINY), 0.0)
        others = np.maximum(self.pool.shares(values) - share, 0.0)
        # A task without scores of its own is one more unit, beyond all others.
        units = np.count_nonzero(self.pool.lenders) + ~lends
        # Sums of shares must not depend on the order of tasks, not even by rounding.
        p = np.round((others + own) / units, 13)
        floor = 1.0 / (1.0 + self.counts[codes])
        limited = np.where(own > floor * (1.0 + 1e-12), own / self.limit_ratio, 0.0)
        p = np.minimum(np.maximum(p, limited), 1.0)
        alone = (self.counts[codes] > 0.0) & ~self.calibration.lends[codes]
        if not alone.any():
            return p
        return np.where(alone, self._alone_pvalues(scores, codes, own), p)

    @property
    def alone(self) -> Mask:
        """Tasks with a single row that was not held out, shape (T,)."""
        return (self.counts > 0.0) & ~self.calibration.lends

    def _alone_pvalues(self, scores: Array, codes: Codes, own: Array) -> Array:
        """P-values (k,) in tasks with a single row, which cannot be ranked: 1/2 or more.

        Only a row as far from everything as can be told is rarer than all rows there
        are: several times farther than the left-out rows of all tasks.
        """
        farthest = scores < self._alone_offsets()[codes]
        rarest = 1.0 / (1.0 + self.counts.sum())
        return np.where(farthest, rarest, np.maximum(own, 0.5))

    def _alone_offsets(self) -> Array:
        known = np.isfinite(self.lowest)
        lowest = np.where(known, self.lowest, 0.0)
        return np.where(known, lowest + 1e-6 * np.abs(lowest), _NEVER)

    def smallest_pvalues(self) -> Array:
        """Smallest p-value that each task can give, shape (T,)."""
        tasks = np.arange(len(self.counts))
        return self.pvalues(np.full(len(tasks), -np.inf), tasks)

    def rates(self) -> Array:
        """Alarm rate that each task really promises, shape (T,).

        It is what was asked, or the smallest p-value possible where that is larger. A
        task that cannot raise an alarm keeps what was asked.
        """
        smallest = self.smallest_pvalues()
        smallest = np.minimum(smallest, 1.0 - np.finfo(float).epsneg)
        floored = self.borrows & ~self.alone
        return np.where(floored, np.maximum(self.alarm_rate, smallest), self.alarm_rate)

    def offsets(self) -> tuple[Array, Array]:
        """Threshold of each task, and the alarm rate that it really promises.

        Returns
        -------
        offsets : ndarray of shape (T,)
            The lowest score whose p-value exceeds the rate.
        rates : ndarray of shape (T,)
            See `rates`.
        """
        calibration = self.calibration
        rates = self.rates()
        tasks = np.arange(len(rates))

        def own_score(task: Codes, place: Codes) -> Array:
            return calibration.scores[calibration.starts[task] + place]

        def pool_score(task: Codes, place: Codes) -> Array:
            return lowest_quotient(self.pool.values[place], self.pool.spread[task])

        offsets = np.full(len(rates), np.inf)
        rows = np.diff(calibration.starts)
        for score_at, sizes in (
            (own_score, rows),
            (pool_score, np.where(self.borrows, len(self.pool.values), 0)),
        ):
            candidates = self._first_above(score_at, tasks, sizes, rates)
            offsets = np.minimum(offsets, candidates)
        never = self.smallest_pvalues() > rates
        offsets = np.where(never | np.isinf(offsets), _NEVER, offsets)
        # Of a single row the rank comes first at one half; below, only guards count.
        ranked = np.maximum(1.0 / (1.0 + self.counts), 0.5) <= rates
        by_guards = self.borrows & self.alone & ~ranked & ~never
        return np.where(by_guards, self._alone_offsets(), offsets), rates

    def _first_above(
        self, score_at: Any, tasks: Codes, sizes: Codes, rates: Array
    ) -> Array:
        """Lowest of each task's candidates whose p-value exceeds its rate, by bisection.

        Candidate k of a task is ``score_at(task, k)``, ascending in k, k < size.
        """
        low = np.zeros(len(tasks), dtype=np.intp)
        high = sizes.astype(np.intp)
        while np.any(low < high):
            active = np.flatnonzero(low < high)
            middle = (low[active] + high[active]) // 2
            p = self.pvalues(score_at(tasks[active], middle), tasks[active])
            above = p > rates[active]
            high[active[above]] = middle[above]
            low[active[~above]] = middle[~above] + 1
        found = np.full(len(tasks), np.inf)
        inside = np.flatnonzero(low < sizes)
        found[inside] = score_at(tasks[inside], low[inside])
        return found

    def shortfall_message(self, tasks: NDArray[Any]) -> str:
        """What the user should know where a task cannot keep the rate alone."""
        rate = self.alarm_rate
        counts = self.counts[self.borrows]
        needed = f"{np.ceil(1.0 / max(rate, 1e-300) - 1e-9) - 1:.9g}"
        floor = 1.0 / (max(counts.min(), 1.0) + 1.0)
        alone = self.alone
        if len(tasks) == 1:
            if alone[0]:
                return (
                    "1 normal row cannot set a threshold: only rows far from it raise an alarm, "
                    f"and no rate is promised. Give {needed} rows or more for "
                    f"alarm_rate={rate:g}."
                )
            return (
                f"{counts[0]:g} normal row(s) cannot promise alarm_rate={rate:g}: the "
                f"smallest rate possible is 1/(n+1) = {floor:.3g}. The threshold is the worst "
                f"left-out score, which raises a false alarm on at most {floor:.3g} of normal "
                f"rows. Give {needed} rows or more, or set alarm_rate to at least {floor:.3g}."
            )
        lenders = np.count_nonzero(self.pool.lenders)
        text = (
            f"{self.borrows.sum()} of {len(tasks)} tasks "
            f"({shortlist(tasks[self.borrows].tolist(), 3)}) have fewer than the {needed} "
            f"normal rows that alarm_rate={rate:g} needs (the smallest rate possible for n rows "
            f"is 1/(n+1), here {floor:.3g}). They borrow the scores of {lenders} task(s), each "
            "counted once: the rate then holds on average over such tasks. "
        )
        if np.any(counts != np.rint(counts)):
            text += (
                "Rows of a group or a block of time that score alike count as fewer. "
            )
        worst = float(self.rates().max())
        if worst > rate:
            text += f"So few tasks allow no rate below {worst:.3g}, which is used. "
        if alone.any():
            text += (
                f"In tasks with a single row ({shortlist(tasks[alone].tolist(), 3)}) only rows "
                "far from everything raise an alarm. "
            )
        if floor <= 0.25:
            return text + f"Give more rows, or set alarm_rate to at least {floor:.3g}."
        return text + "Give more rows."


def cumulated(weight: Array, starts: Codes) -> Array:
    """Weights (n,) summed up within each task, which starts where it is told (T + 1,)."""
    mass = np.empty(len(weight))
    # Task by task: what others weigh must not round away what one does.
    for start, stop in pairwise(starts):
        np.cumsum(weight[start:stop], out=mass[start:stop])
    return mass


def count_up_to(values: Array, starts: Codes, scores: Array, codes: Codes) -> Codes:
    """Number of values before the first that exceeds a score, in the score's task.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Ascending within each task.
    starts : ndarray of shape (T + 1,)
    scores, codes : ndarray of shape (k,)

    Returns
    -------
    ndarray of shape (k,)
        Counted from the beginning of `values`: between ``starts[codes]`` and
        ``starts[codes + 1]``.
    """
    low = starts[codes]
    high = starts[codes + 1]
    while True:
        active = low < high
        if not active.any():
            return low
        middle = np.where(active, (low + high) // 2, 0)
        up = active & (values[middle] <= scores)
        low = np.where(up, middle + 1, low)
        high = np.where(active & ~up, middle, high)


def lowest_quotient(values: Array, units: Array) -> Array:
    """Lowest numbers (k,) whose quotient by a unit is at least a value, to the last bit."""
    numbers = values * units
    for _ in range(4):
        numbers = np.where(
            numbers / units < values, np.nextafter(numbers, np.inf), numbers
        )
        below = np.nextafter(numbers, -np.inf)
        numbers = np.where(below / units >= values, below, numbers)
    return numbers


def tied_scores(scores: Array, codes: Codes, weight: Array) -> Mask:
    """Rows whose left-out score another row of their task has, too: copies, shape (n,).

    A row that counts for two or more is its own copy.
    """
    order = np.lexsort((scores, codes))
    ascending = scores[order]
    gap = np.diff(ascending)
    level = gap <= _ROUNDING * (1.0 + np.abs(ascending[1:]))
    level &= np.diff(codes[order]) == 0
    tied = np.zeros(len(scores), dtype=bool)
    tied[order[1:]] |= level
    tied[order[:-1]] |= level
    return (tied | (weight >= 2.0)) & ~np.isnan(scores)


def copies_lowered(scores: Array, seen: Array, codes: Codes, weight: Array) -> Array:
    """Left-out scores, those of copies at most what the model of all rows says of them.

    A copy is left out of a model that has its other copies. If they respond above the
    mean, it lies nearer to the mean than a new copy does, and all new copies together
    would fall below the threshold.

    Parameters
    ----------
    scores, codes, weight : ndarray of shape (n,)
    seen : ndarray of shape (n,)
        Scores of the rows under the model of all rows; infinite where unknown.

    Returns
    -------
    ndarray of shape (n,)
    """
    tied = tied_scores(scores, codes, weight)
    return np.where(tied, np.minimum(scores, seen), scores)


def spreads(
    scores: Array, codes: Codes, weight: Array, n_tasks: int, far: Array | None = None
) -> tuple[Array, Array]:
    """Spread of each row's task without the row, and of each task: root mean squares, shrunk.

    A model of few rows scores new rows lower than one of many: what a task leans on beside its own
    scores is what is typical of its number n of rows, in which mean squares grow as ``1 + c / n``.
    c is fitted to those of the tasks; the squared distance of a row from the mean of n others has
    c = 1, and c = 0 where sizes tell nothing.
    """
    square = scores**2
    count = np.minimum(weight, 1.0)
    sums = np.bincount(codes, weight * square, n_tasks).astype(np.float64)
    totals = np.bincount(codes, weight, n_tasks).astype(np.float64)
    if np.count_nonzero(totals) <= 1 or not np.any(square > 0):
        return np.ones(len(scores)), np.ones(n_tasks)
    n, several, slope = np.maximum(totals, 1.0), totals > 1.0, 0.0
    # Left-out scores are those of models with one row less.
    less = 1.0 / np.maximum(n - 1.0, 1.0)
    x, share, y = less[several], totals[several], sums[several] / totals[several]
    if len(x) > 1 and np.ptp(x) > 0:
        x_mean, y_mean = np.average(x, weights=share), np.average(y, weights=share)
        b = share @ ((x - x_mean) * (y - y_mean)) / (share @ (x - x_mean) ** 2)
        a = y_mean - b * x_mean
        slope = float(np.clip(b / a, 0.0, _STEEPEST) if a > 0 else _STEEPEST * (b > 0))
    fewer, now = 1.0 + slope * less, 1.0 + slope / n
    total, mass = sums.sum(), totals @ fewer
    others = np.maximum(total - count * square, np.finfo(float).tiny)
    typical = others / (mass - count * fewer[codes]) * fewer[codes]
    own = np.maximum(sums[codes] - count * square, 0.0)
    unit = np.sqrt(
        (_PRIOR_ROWS * typical + own) / (_PRIOR_ROWS + totals[codes] - count)
    )
    spread = (_PRIOR_ROWS * total / mass + sums / fewer) / (_PRIOR_ROWS + totals)
    spread = np.sqrt(now * spread)
    # (Scores have been lowered by a thousandth of this, for ties.)
    least = np.full(n_tasks, 1e-9) if far is None else _LEAST_SPREAD * np.abs(far)
    return np.maximum(unit, least[codes]), np.maximum(spread, least)
