r"""Alarm thresholds and p-values from scores of normal rows unseen by the model.

Notation: c is the left-out score of a training row, n the number of rows of its task, s
the score of a new row. Lower is worse. Everything is monotone in s, so that one number
for each task is its threshold.

**Own ranks.** A task with rows enough for the rate (a threshold at the fifth lowest own
score or higher) is judged by them alone, :math:`p_{own} = (1 + \#\{c \le s\}) / (n+1)`.
No rule without assumptions about other tasks has power below 1/(n + 1): average a test
of level a over which of n + 1 exchangeable rows is the new one, and it alarms on a
given row with probability at most a (n + 1).

**Borrowing.** Other tasks are compared with tasks of like size. Tasks are the units
(hierarchical conformal prediction: Dunn, Wasserman & Ramdas 2018; Lee, Barber & Willett
2023). With S tasks, V a stretched score (:mod:`manyone.models.scale`) in units
of its task (:mod:`.borrowing`),

.. math:: p^* = \frac{1}{S} \Bigl( p_{own} + \sum_{other\ tasks\ s}
              \text{share of rows of } s \text{ with } V_i \le V \text{ and } g_i \Bigr)
              .

A single task may raise L times the rate a, whatever the others are like; L is
`task_rate_limit` over `alarm_rate`. So a row raises an alarm if :math:`p^* \le a` and
g: its own rank is at most :math:`\max(L a (n+1), 1)`. Left-out rows are judged by their
rank in their own task in the same way; those without g raise no alarm wherever the
threshold is, and use up no rate. (Counted nevertheless, they waste a tenth to a fifth
of 5 % with 8 rows: ``benchmarks/bench_promises.py "spreads 8" --methods IndA Joint``,
3.2 and 3.5 instead of 3.8 and 4.2.) All other rows come after those that raise an
alarm,

.. math:: p = \max(p^*, a) + \frac{1}{S} \sum_{other\ tasks\ s}
              \text{share of rows of } s \text{ with } V_i \le V \text{ and not } g_i .

Where :math:`p_{own} > 1/(n+1)`, p is at least :math:`p_{own} / L`.

**What is proven.** Rows of a task exchangeable, all scores by models that saw neither
row: a task raises at most max(L a, 1/(n + 1)) at the rate a. Tasks exchangeable, too,
and units fixed: :math:`P(p \le a) \le a` on average over tasks. **What is measured**
(``benchmarks/bench_promises.py``): left-out scores in place of such scores
(:mod:`.equal_terms` brings those of folds to the terms of new ones), units estimated
from the same rows, tasks of sizes within a factor of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.calibration.borrowing import (
    Ordered,
    Pool,
    Units,
    by_task,
    like_sizes,
    shifts,
)
from manyone.calibration.copies import seen_scores, tied_scores
from manyone.calibration.dependence import calibration_weight
from manyone.calibration.equal_terms import with_a_row_more
from manyone.calibration.ranks import ROUNDING
from manyone.data.checks import warn_of_copies
from manyone.data.rows import TrainingRows
from manyone.messages import shortlist
from manyone.models.scale import (
    Scale,
    bend_of,
    sizes_of,
    stretched,
    unstretched,
)
from manyone.models.solution import Solution

#: What a single task may raise, as a multiple of the promised rate, unless users say
#: so.
LIMIT_RATIO = 3.0
#: A task is judged by its own rows if its threshold is their so-and-so lowest score or
#: higher. At the lowest score itself, 20 rows catch 76 % of what an oracle does at 5 %,
#: by borrowing 90.
OWN_RANKS = 5
# Least mean depth beside the far score, and where that is not known: less is rounding.
_LEAST_DEPTH = 1e-6
_LEAST_SCORE = 1e-9
_NEGATIVE = np.iinfo(np.int64).min
# Of so many tasks thresholds are searched for in quarters.
_FEW = 1000
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
    far : ndarray of shape (T,) or None
        Scores of rows far away, where known.
    lends : ndarray of bool of shape (T,)
        Whether a task has scores that others may be compared with.
    source : str
        How rows were left out: ``"leave-one-out"`` (and what stayed fixed),
        ``"leave-group-out"``, ``"folds"``, ``"rows not drawn"``; or ``"held-out"``.
    shift : ndarray of shape (n,)
        By how much the mean root depth of the other rows of its task is larger without
        the row, see :mod:`.borrowing`.
    place : ndarray of shape (n,)
        Of the row among those of its task, in the order of time; -1 where that is not
        known.
    """

    scores: Array
    weight: Array
    starts: Codes
    far: Array | None
    lends: Mask
    source: str
    shift: Array
    place: Codes

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
        responses: Array | None = None,
        shift: Array | None = None,
        place: Codes | None = None,
    ) -> Calibration:
        """Arrange scores by task.

        Parameters
        ----------
        scores, codes, weight : ndarray of shape (n,)
            Score, task and count of each row; rows without a score (NaN) are left out.
        n_tasks : int
        source : str
        far : ndarray of shape (T,) or None
            Scores of rows far away, where known: the unit that tasks have in common.
        seen : ndarray of shape (n,) or None
            Scores of the same rows under the model of all rows: copies score
            at most that, see :mod:`.copies`.
        responses : ndarray of shape (n, 2) or None
            What a closed form knows of the rows beyond that, see :mod:`.borrowing`.
        shift : ndarray of shape (n,) or None
            The shift, where it was measured instead.
        place : ndarray of shape (n,) or None
            Of each row in the order of time, where that is known.

        Returns
        -------
        Calibration
        """
        if seen is not None:
            tied = tied_scores(scores, codes, weight)
            scores = np.where(tied, np.minimum(scores, seen), scores)
        left_out = scores
        size = sizes_of(far, n_tasks)
        if responses is not None and far is not None:
            scores = with_a_row_more(left_out, responses, codes, weight, size)
        order = np.lexsort((scores, codes))
        order = order[~np.isnan(scores[order])]
        scores = scores[order]
        codes = codes[order]
        weight = weight[order]
        rows = np.bincount(codes, minlength=n_tasks)
        starts = np.concatenate([[0], np.cumsum(rows)])
        # Equal scores may differ by rounding: slightly lower, a tie stays a tie.
        scores = scores - 1e-12 * (1.0 + np.abs(scores))
        counts = np.bincount(codes, weight, n_tasks)
        lends = counts > 0.0
        if source != "held-out":
            # The only row of a task has no proper left-out score.
            lends &= (rows > 1) | (counts > 1.0)
        shift = np.zeros(len(scores)) if shift is None else shift[order]
        if responses is not None and far is not None:
            depth = -left_out[order] / size[codes]
            shift = shifts(depth, responses[order], weight, starts, _LEAST_DEPTH)
        in_time = np.full(len(scores), -1) if place is None else place[order]
        return cls(scores, weight, starts, far, lends, source, shift, in_time)

    @classmethod
    def from_left_out(cls, solution: Solution, rows: TrainingRows) -> Calibration:
        """Left-out scores of training rows; alike rows of a group count as fewer."""
        scores = solution.left_out
        weight = rows.weight
        assert scores is not None
        if rows.group is not None:
            if np.isnan(scores).all():
                raise ValueError(
                    "groups has one group in every task: no row can be left out, and "
                    "no threshold set. Give two groups or more per task, or "
                    "groups=None where rows are independent."
                )
            weight = calibration_weight(scores, rows)
        source = solution.left_out_source
        if source.startswith("leave-one-out") and rows.columns is None:
            distinct = rows.take(np.flatnonzero(~rows.outlier)).merged()[0]
            warn_of_copies(distinct.X, distinct.weight)
        return cls.from_scores(
            scores,
            rows.codes,
            weight,
            rows.n_tasks,
            source,
            solution.scorer.far(),
            seen_scores(scores, rows, solution.own),
            solution.responses,
            solution.shift,
            rows.moment,
        )

    @property
    def codes(self) -> Codes:
        """Task of each score, shape (n,)."""
        return np.repeat(np.arange(len(self.lends)), np.diff(self.starts))

    @property
    def counts(self) -> Array:
        """Calibration rows of each task, shape (T,)."""
        counts = np.bincount(self.codes, self.weight, len(self.lends))
        return counts.astype(np.float64)

    @cached_property
    def sizes(self) -> Array:
        """Size of each task's scores, shape (T,): that of rows far away, or 1."""
        return sizes_of(self.far, len(self.lends))

    @cached_property
    def bend(self) -> float:
        """The scale that scores of tasks are stretched to before comparisons."""
        if self.far is None:
            return 0.0
        return bend_of(self.scores / self.sizes[self.codes], self.weight)

    def __getstate__(self) -> dict[str, Any]:
        """State without what follows from it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def _units(self) -> Units:
        """Units of all tasks that lend, or of all if none does."""
        codes = self.codes
        lent = np.flatnonzero(self.lends[codes] | ~np.any(self.lends))
        values = self.scores[lent] / self.sizes[codes[lent]]
        rows = values, self.weight[lent], codes[lent]
        return Units.of(*rows, len(self.lends), self.least, self.bend)

    @cached_property
    def scale(self) -> Scale:
        """What makes scores of new rows of all tasks comparable."""
        bend = np.full(len(self.lends), self.bend)
        return Scale(self.sizes, bend, self._units.of_tasks)

    def scaled(
        self, scores: Array, weight: Array, codes: Codes, shift: Array | float = 0.0
    ) -> Array:
        """Left-out scores (n,) on that scale, in units of their other rows."""
        values = scores / self.sizes[codes]
        units = self._units.without(values, weight, codes, shift)
        return unstretched(stretched(values, self.bend) / units, self.bend)

    def pooled(self) -> tuple[Array, Array]:
        """Scores of all tasks that lend, or of all if none does, on one scale.

        Returns
        -------
        scores, weight : ndarray of shape (m,)
            Ascending.
        """
        values = self.scaled(self.scores, self.weight, self.codes)
        lent = np.flatnonzero(self.lends[self.codes] | ~np.any(self.lends))
        ascending = lent[np.argsort(values[lent], kind="stable")]
        return values[ascending], self.weight[ascending]

    @cached_property
    def _mass(self) -> Array:
        """Weight of a task's scores up to each, shape (n,)."""
        mass = np.empty(len(self.weight))
        # Task by task: what others weigh must not round away what one does.
        for start, stop in pairwise(self.starts):
            np.cumsum(self.weight[start:stop], out=mass[start:stop])
        return mass

    @cached_property
    def _ranks(self) -> Array:
        """Rank of each score among those of its task, (n,), the lowest of ties.

        (The two rows of a task tie: each is scored by the other.) A row that makes the
        others of its task seem deep is ranked as if it did not.
        """
        order = by_task(self.codes, self.scores)
        size = self.sizes[self.codes]
        root = np.sqrt(np.maximum(-self.scores / size, 0.0))
        deeper = np.square(root + np.maximum(-self.shift, 0.0)) * size
        below = np.where(self.scores < 0.0, -deeper, self.scores)
        below -= ROUNDING * (1.0 + np.abs(below))
        n_lower = np.searchsorted(order, by_task(self.codes, below))
        mass = np.append(0.0, self._mass)[n_lower]
        has_lower = n_lower > self.starts[self.codes]
        return 1.0 + np.where(has_lower, mass, 0.0)

    @property
    def least(self) -> float:
        """Mean depths below this are rounding."""
        return _LEAST_SCORE if self.far is None else _LEAST_DEPTH

    def too_few(self, alarm_rate: float) -> Mask:
        """Which tasks cannot resolve a rate by their own rows, shape (T,)."""
        return 1.0 / (self.counts + 1.0) > alarm_rate

    def borrows(self, alarm_rate: float) -> Mask:
        """Which tasks are compared with others at a rate, shape (T,)."""
        with np.errstate(under="ignore"):  # rates may be tiny
            ranks = np.floor(alarm_rate * (self.counts + 1.0) * (1.0 + 1e-12))
        n_others = np.count_nonzero(self.lends) - self.lends
        return (ranks < OWN_RANKS) & (n_others > 0)

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
        borrows = self.borrows(alarm_rate)
        # Weights may be tiny or huge: then sizes are what can be said of them.
        with np.errstate(under="ignore", over="ignore"):
            pool = like_sizes(counts, self.lends, borrows, alarm_rate)
            codes = self.codes
            values = self.scores / self.sizes[codes]
            most_ranks = highest_ranks(alarm_rate * limit_ratio, counts)
            pools = tuple(
                Pool.of(
                    values,
                    self.weight,
                    codes,
                    self.shift,
                    self._ranks <= most_ranks[codes],
                    self.lends & (pool == k),
                    self.least,
                    self.bend,
                )
                for k in range(pool.max() + 1)
            )
        if lowest is None:
            lowest = np.full(len(counts), -np.inf)
        return Thresholds(
            self,
            alarm_rate,
            limit_ratio,
            counts,
            borrows,
            pools,
            pool,
            self._mass,
            lowest,
        )

    def offsets(self, alarm_rate: float) -> tuple[Array, Array]:
        """See `Thresholds.offsets`."""
        return self.at(alarm_rate).offsets()

    def pvalues(self, scores: Array, codes: Codes, alarm_rate: float) -> Array:
        """See `Thresholds.pvalues`."""
        return self.at(alarm_rate).pvalues(scores, codes)


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
    pools : tuple of Pool
    pool : ndarray of shape (T,)
        Number of each task's pool; -1: none.
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
    pools: tuple[Pool, ...]
    pool: Codes
    mass: Array
    lowest: Array

    def pvalues(self, scores: Array, codes: Codes) -> Array:
        """P-values (k,) of scores (k,) against the calibration scores of tasks (k,)."""
        mass = self._mass_up_to(self._own_order, scores, codes)
        own_pvalues = (1.0 + mass) / (1.0 + self.counts[codes])
        p = own_pvalues
        borrowed = np.flatnonzero(self.borrows[codes])
        if len(borrowed):
            p = own_pvalues.copy()
            # Infinitely low in units of the task is low.
            with np.errstate(over="ignore", under="ignore"):
                p[borrowed] = self._borrowed_pvalues(
                    scores[borrowed], codes[borrowed], own_pvalues[borrowed]
                )
        alone = self.alone[codes]
        if not alone.any():
            return p
        return np.where(alone, self._alone_pvalues(scores, codes, own_pvalues), p)

    @cached_property
    def _own_order(self) -> Ordered:
        return by_task(self.calibration.codes, self.calibration.scores)

    def _mass_up_to(self, order: Ordered, scores: Array, codes: Codes) -> Array:
        """Weight (k,) of the values of each score's task that do not exceed it."""
        below = np.searchsorted(order, by_task(codes, scores), side="right")
        has_lower = below > self.calibration.starts[codes]
        return np.where(has_lower, self.mass[np.maximum(below - 1, 0)], 0.0)

    def _borrowed_pvalues(self, scores: Array, codes: Codes, own: Array) -> Array:
        """P-values with tasks as units, from ranks `own` (k,) in the task itself."""
        calibration = self.calibration
        values = stretched(scores / calibration.sizes[codes], calibration.bend)
        number = self.pool[codes]
        sums = np.empty((2, len(scores)))
        for k, pool in enumerate(self.pools):
            rows = np.flatnonzero(number == k)
            tasks = codes[rows]
            scaled = values[rows] / pool.units[tasks]
            # A task without scores of its own is one more unit, beyond all others.
            units = np.count_nonzero(pool.lenders) + ~pool.lenders[tasks]
            sums[:, rows] = pool.by_others(scaled, tasks) / units
            sums[0, rows] += own[rows] / units
        # Sums of shares must not depend on the order of tasks, not even by rounding.
        p, barred = np.round(sums, 13)
        ranks = own * (1.0 + self.counts[codes])
        raises = (ranks <= self._most_ranks[codes]) & (p <= self.alarm_rate)
        after_alarms = np.maximum(p, self.alarm_rate) + barred
        limited = np.where(ranks <= 1.0 + 1e-9, 0.0, own / self.limit_ratio)
        p = np.maximum(np.where(raises, p, after_alarms), limited)
        return np.minimum(p, 1.0)

    @cached_property
    def _most_ranks(self) -> Array:
        """Highest own rank that raises an alarm in each task, shape (T,)."""
        return highest_ranks(self.alarm_rate * self.limit_ratio, self.counts)

    def left_out_pvalues(self) -> Array:
        """P-values of the calibration scores (n,), each left out of them."""
        scores = self.calibration.scores
        codes = self.calibration.codes
        up_to = self.pvalues(scores, codes)
        below = self.pvalues(np.nextafter(scores, -np.inf), codes)
        _, value, copies = np.unique(
            self._own_order, return_inverse=True, return_counts=True
        )
        return np.asarray(up_to - (up_to - below) / copies[value])

    @cached_property
    def alone(self) -> Mask:
        """Tasks with a single row that was not held out, shape (T,)."""
        return (self.counts > 0.0) & ~self.calibration.lends

    def _alone_pvalues(self, scores: Array, codes: Codes, own: Array) -> Array:
        """P-values (k,) in tasks with a single row, which has no rank: 1/2 or more.

        Only a row as far from everything as can be told is rarer than all rows there
        are: several times farther than the left-out rows of all tasks.
        """
        farthest = scores < self._alone_offsets()[codes]
        rarest = 1.0 / (1.0 + self.counts.sum())
        return np.where(farthest, rarest, np.maximum(own, 0.5))

    def _alone_offsets(self) -> Array:
        is_known = np.isfinite(self.lowest)
        lowest = np.where(is_known, self.lowest, 0.0)
        return np.where(is_known, lowest + 1e-6 * np.abs(lowest), _NEVER)

    @cached_property
    def smallest_pvalues(self) -> Array:
        """Smallest p-value that each task can give, shape (T,)."""
        tasks = np.arange(len(self.counts))
        return self.pvalues(np.full(len(tasks), -np.inf), tasks)

    def rates(self) -> Array:
        """Alarm rate that each task really promises, shape (T,).

        It is what was asked, or the smallest p-value possible where that is larger. (Of
        the N rows of a pool and a new one, the new one is the lowest once in N + 1
        times, which may be more than that.) A task that cannot raise an alarm keeps
        what was asked.
        """
        smallest = self.smallest_pvalues
        pooled = np.array([self.counts[pool.lenders].sum() for pool in self.pools])
        lowest = np.append(1.0 / (1.0 + pooled), 0.0)[self.pool]
        smallest = np.where(self.borrows, np.maximum(smallest, lowest), smallest)
        smallest = np.minimum(smallest, 1.0 - np.finfo(float).epsneg)
        floored = np.maximum(self.alarm_rate, smallest)
        return np.where(self.alone, self.alarm_rate, floored)

    def limits(self) -> Array:
        """Largest alarm rate (T,) of each task, whatever the other tasks are like."""
        with np.errstate(under="ignore"):  # rates may be tiny
            limit = np.where(self.borrows, self.limit_ratio, 1.0) * self.alarm_rate
        return np.minimum(np.maximum(limit, 1.0 / (1.0 + self.counts)), 1.0)

    def offsets(self) -> tuple[Array, Array]:
        """Threshold of each task, and the alarm rate that it really promises.

        Returns
        -------
        offsets : ndarray of shape (T,)
            The lowest score whose p-value exceeds the rate.
        rates : ndarray of shape (T,)
            See `rates`.
        """
        rates = self.rates()
        tasks = np.arange(len(rates))
        offsets = lowest_where(
            lambda scores: (
                self.pvalues(scores.ravel(), np.tile(tasks, len(scores)))
                > np.tile(rates, len(scores))
            ).reshape(scores.shape),
            len(tasks),
        )
        never = self.smallest_pvalues > rates
        return np.where(never, _NEVER, offsets), rates

    def shortfall_message(self, tasks: NDArray[Any]) -> str:
        """What the user should know where a task cannot keep the rate alone."""
        rate = self.alarm_rate
        too_few = self.calibration.too_few(rate)
        counts = self.counts[too_few]
        needed = f"{np.ceil(1.0 / max(rate, 1e-300) - 1e-9) - 1:.9g}"
        floor = 1.0 / (max(counts.min(), 1.0) + 1.0)
        alone = self.alone
        if len(tasks) == 1:
            if alone[0]:
                return (
                    "1 normal row cannot set a threshold: only rows far from it raise "
                    f"an alarm, and no rate is promised. Give {needed} rows or more "
                    f"for alarm_rate={rate:g}."
                )
            return (
                f"{counts[0]:g} normal row(s) cannot promise alarm_rate={rate:g}: the "
                f"smallest rate possible is 1/(n+1) = {floor:.3g}. The threshold is "
                "the worst left-out score, which raises a false alarm on at most "
                f"{floor:.3g} of normal rows. Give {needed} rows or more, or set "
                f"alarm_rate to at least {floor:.3g}."
            )
        lenders = sum(np.count_nonzero(pool.lenders) for pool in self.pools)
        alone_from = f"{np.ceil(OWN_RANKS / max(rate, 1e-300) - 1e-9) - 1:.9g}"
        text = (
            f"{too_few.sum()} of {len(tasks)} tasks "
            f"({shortlist(tasks[too_few].tolist(), 3)}) have fewer than the {needed} "
            f"normal rows that alarm_rate={rate:g} needs (the smallest rate possible "
            f"for n rows is 1/(n+1), here {floor:.3g}). They borrow the scores of "
            f"{lenders} task(s), those of like size, each counted once, as all tasks "
            f"of fewer than {alone_from} rows do. The rate then holds on average over "
            "such tasks, and a single one raises at most "
            f"{self.limits()[too_few].max():.3g}. "
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
                f"In tasks with a single row ({shortlist(tasks[alone].tolist(), 3)}) "
                "only rows far from everything raise an alarm. "
            )
        if floor <= 0.25:
            return text + f"Give more rows, or set alarm_rate to at least {floor:.3g}."
        return text + "Give more rows."


def highest_ranks(limit: float, counts: Array) -> Array:
    """Highest rank (k,) among so many rows (k,) that may still raise an alarm."""
    with np.errstate(under="ignore", over="ignore"):
        return np.maximum(limit * (1.0 + counts), 1.0) * (1.0 + 1e-9)


def lowest_where(holds: Callable[[Array], Mask], number: int) -> Array:
    """The lowest floats (k,) for which an ascending condition holds, by bisection.

    Parameters
    ----------
    holds : callable
        Takes floats (m, k); true from some float on, for each of the k another.
    number : int
        k. Few are searched for in quarters: then calls take longer than what they do.
    """
    # Floats are ordered as whole numbers are, but for the sign.
    high = np.full(number, np.finfo(float).max).view(np.int64)
    low = -high
    n_parts = 4 if number <= _FEW else 2
    while np.any(low < high):
        step = high // n_parts - low // n_parts
        steps = np.vstack([low + step, *[step] * (n_parts - 2)])
        middle = np.maximum(np.minimum(np.cumsum(steps, axis=0), high - 1), low)
        n_false = np.count_nonzero(~holds(_floats(middle)), axis=0)
        bounds = np.vstack([low - 1, middle, high])
        low = np.take_along_axis(bounds, n_false[None], axis=0)[0] + 1
        high = np.take_along_axis(bounds, n_false[None] + 1, axis=0)[0]
        low = np.minimum(low, high)
    return _floats(low)


def _floats(ordered: NDArray[np.int64]) -> Array:
    """Floats in the order of whole numbers."""
    return np.where(ordered < 0, _NEGATIVE - ordered, ordered).view(np.float64)
