r"""Alarm thresholds and p-values from scores of normal rows that the model has not seen.

**What is given.** A task has n normal rows, and c is the *left-out score* of one of
them: its score under a model without it. A new row of the task has the score s. Lower
scores are less normal. Every p-value here grows with s, so one number is the threshold
of a task: the lowest score whose p-value exceeds the promised rate a.

**1. Ranks among a task's own rows.**

.. math:: p_{own} = \frac{1 + \#\{c \le s\}}{n + 1} .

If a new row is exchangeable with the n rows, its rank is equally likely to be any of n
+ 1, and :math:`P(p_{own} \le a) \le a`. A task with many rows is judged by this alone:
where the threshold is its fifth lowest score or a higher one.

No rule can do much more without assumptions about other tasks. Take any test of level
a, and let chance decide which of n + 1 exchangeable rows is the new one. On average it
raises an alarm for at most a (n + 1) of them, so for a given row with at most that
probability. With 20 rows and 1 %, it catches nothing with more than 21 %.

**2. Borrowing.** Tasks with fewer rows are compared with tasks of like size. Let S
tasks lend, this task among them. Scores V of all of them are stretched
(:mod:`manyone.models.scale`) and in units of their task (:mod:`.borrowing`). Tasks are
the units of the argument, not rows (hierarchical conformal prediction: Dunn, Wasserman
& Ramdas 2018; Lee, Barber & Willett 2023):

.. math:: p^* = \frac{1}{S} \Bigl( \frac{\min(1 + \#\{c \le s\}, n)}{n}
              + \sum_{other\ tasks\ r}
              \text{share of the rows of } r \text{ with } V_i \le V \text{ and } g_i
              \Bigr) .

**3. A limit for every single task.** Averages hide tasks that raise many alarms. So a
task may raise at most L times the rate, whatever the others are like (L is
`task_rate_limit` over `alarm_rate`). A row passes this limit, g, if its own rank
:math:`1 + \#\{c \le s\}` is at most :math:`\max(L a (n + 1), 1)`. Only rows that pass
raise an alarm, and only if :math:`p^* \le a`. Left-out rows of other tasks are held to
the limit of their task in the same way: one that does not pass, no threshold lets raise
an alarm, and it uses up no rate. (If it did, a tenth to a fifth of 5 % would be lost
with 8 rows: 3.2 and 3.5 % instead of 3.8 and 4.2,
``benchmarks/bench_promises.py "spreads 8" --methods IndA Joint``.)

All other rows come after those that raise an alarm:

.. math:: p = \max(p^*, a) + \frac{1}{S} \sum_{other\ tasks\ r}
              \text{share of the rows of } r \text{ with } V_i \le V \text{ and not } g_i .

Where :math:`p_{own} > 1 / (n + 1)`, p is at least :math:`p_{own} / L`.

**What is proven.** Let rows of a task be exchangeable, and let all scores be by models
that saw neither row. Then a task raises at most max(L a, 1/(n + 1)) at the rate a. Let
tasks be exchangeable, too, and units fixed. Then :math:`P(p \le a) \le a` on average
over tasks. To see it, let the new row take the place of one of its task's n rows. Given
what rows each task then has, it is any row of task r with probability :math:`1 / (S
n_r)`. Sum these probabilities over the rows that pass and score no higher than it: that
is a p-value. And p* is no smaller, as no rank grows when a row goes. (With
:math:`p_{own}` as first term, 6 tasks of 3 rows without a limit raised 10.5 % of 10.)

**What is measured** (``benchmarks/bench_promises.py``). Left-out scores stand for
scores by models that saw neither row (:mod:`.equal_terms` brings them to the terms of
new rows). Units are estimated from the same rows. Tasks have sizes within a factor of
two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

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
from manyone.calibration.copies import find_copies, seen_scores
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

#: L: what a single task may raise, as a multiple of the promised rate, unless users
#: say so. (A convention, not tuned: the documentation promises it.)
LIMIT_RATIO = 3.0
#: A task is judged by its own rows if its threshold is their fifth lowest score or a
#: higher one. (With the lowest score as threshold, 20 rows catch 76 % of what an oracle
#: does at 5 %, by borrowing 90.)
OWN_RANKS = 5
# Mean depths below this are rounding: in units of the far score, and of the scores
# where that is not known.
_LEAST_DEPTH = 1e-6
_LEAST_SCORE = 1e-9
#: The threshold of a task that cannot raise an alarm.
NEVER = -1e300


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
        Scores of rows far from everything; None: not known.
    lends : ndarray of bool of shape (T,)
        Whether other tasks may be compared with the scores of a task.
    source : str
        How rows were left out, in words: ``"leave-one-out"``, ``"leave-group-out"``,
        ``"folds"`` or ``"rows not drawn"``, and what stayed fixed; or ``"held-out"``.
    shift : ndarray of shape (n,)
        How much larger the mean root depth of the other rows of its task is without the
        row, see :mod:`.borrowing`.
    place : ndarray of shape (n,)
        Place of the row among those of its task in the order of time; -1: not known.
    stands_for : ndarray of shape (n,)
        Rows that each score stands for; the weight is less where they are dependent.
    """

    scores: Array
    weight: Array
    starts: Codes
    far: Array | None
    lends: Mask
    source: str
    shift: Array
    place: Codes
    stands_for: Array

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
        fixed: str = "",
        stands_for: Array | None = None,
    ) -> Calibration:
        """Arrange scores by task.

        Parameters
        ----------
        scores, codes, weight : ndarray of shape (n,)
            Score, task and count of each row; rows whose score is NaN do not count.
        n_tasks : int
        source : str
        far : ndarray of shape (T,) or None
            Scores of rows far from everything: the unit that tasks have in common.
        seen : ndarray of shape (n,) or None
            Scores of the same rows under the model of all rows. A copy scores at most
            that, see :mod:`.copies`.
        responses : ndarray of shape (n, 2) or None
            What a closed form says of the rows beyond scores, see :mod:`.borrowing`.
        shift : ndarray of shape (n,) or None
            The shift where it was measured, instead of `responses`.
        place : ndarray of shape (n,) or None
            Place of each row in the order of time.
        fixed : str
            What stayed as all rows have shaped it, if anything.
        stands_for : ndarray of shape (n,) or None
            Rows that each stands for; None: its weight.

        Returns
        -------
        Calibration
        """
        if stands_for is None:
            stands_for = weight
        if seen is not None:
            tied = find_copies(scores, codes, stands_for).tied
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
        stands_for = stands_for[order]
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
        words = f"{source}, {fixed} fixed" if fixed else source
        return cls(
            scores, weight, starts, far, lends, words, shift, in_time, stands_for
        )

    @classmethod
    def from_left_out(cls, solution: Solution, rows: TrainingRows) -> Calibration:
        """Arrange the left-out scores of training rows by task.

        Rows of a group that score alike count as fewer (:mod:`.dependence`).
        """
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
        if solution.left_out_source == "leave-one-out" and rows.columns is None:
            distinct = rows.take(np.flatnonzero(~rows.outlier)).merged()[0]
            warn_of_copies(distinct.X, distinct.weight)
        return cls.from_scores(
            scores,
            rows.codes,
            weight,
            rows.n_tasks,
            solution.left_out_source,
            solution.scorer.far(),
            seen_scores(scores, rows, solution.own),
            solution.responses,
            solution.shift,
            rows.moment,
            solution.fixed,
            rows.weight,
        )

    @property
    def is_held_out(self) -> bool:
        """Whether the rows had no part in the fit."""
        return self.source == "held-out"

    @cached_property
    def codes(self) -> Codes:
        """Task of each score, shape (n,)."""
        return np.repeat(np.arange(len(self.lends)), np.diff(self.starts))

    @cached_property
    def counts(self) -> Array:
        """Calibration rows of each task, shape (T,)."""
        counts = np.bincount(self.codes, self.weight, len(self.lends))
        return counts.astype(np.float64)

    @property
    def of_one_row(self) -> Array:
        """What one of the rows that each score stands for counts for, shape (n,)."""
        return self.weight / np.maximum(self.stands_for, 1.0)

    @cached_property
    def sizes(self) -> Array:
        """Size of the score of a row far from everything, shape (T,), or 1."""
        return sizes_of(self.far, len(self.lends))

    @cached_property
    def bend(self) -> float:
        """How much scores are stretched before tasks are compared."""
        if self.far is None:
            return 0.0
        return bend_of(self.scores / self.sizes[self.codes], self.weight)

    def __getstate__(self) -> dict[str, Any]:
        """State without cached values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def _units(self) -> Units:
        """Units of all tasks that lend, or of all if none does."""
        lent = np.flatnonzero(self.lends[self.codes] | ~np.any(self.lends))
        codes = self.codes[lent]
        values = self.scores[lent] / self.sizes[codes]
        weight = self.weight[lent]
        n_tasks = len(self.lends)
        return Units.of(values, weight, codes, n_tasks, self.least, self.bend)

    @cached_property
    def scale(self) -> Scale:
        """What makes scores of new rows of all tasks comparable."""
        bend = np.full(len(self.lends), self.bend)
        return Scale(self.sizes, bend, self._units.of_tasks)

    def scaled(
        self, scores: Array, count: Array, codes: Codes, shift: Array | float = 0.0
    ) -> Array:
        """Left-out scores (n,) on that scale, each in the unit of its other rows.

        A row has the share `count` (n,) in the rows of its task.
        """
        values = scores / self.sizes[codes]
        units = self._units.without(values, count, codes, shift)
        return unstretched(stretched(values, self.bend) / units, self.bend)

    def pooled(self) -> tuple[Array, Array]:
        """Scores of all tasks that lend, or of all if none does, on one scale.

        Returns
        -------
        scores, weight : ndarray of shape (m,)
            Ascending.
        """
        values = self.scaled(self.scores, self.of_one_row, self.codes)
        lent = np.flatnonzero(self.lends[self.codes] | ~np.any(self.lends))
        order = np.argsort(values[lent], kind="stable")
        ascending = lent[order]
        return values[ascending], self.weight[ascending]

    @cached_property
    def ordered(self) -> tuple[Ordered, Array]:
        """Pairs of task and score (n,), and the weight of a task up to each (n + 1,)."""
        mass = np.zeros(len(self.weight) + 1)
        # Task by task: sums over many tasks would round away the weight of light rows.
        for start, stop in pairwise(self.starts):
            np.cumsum(self.weight[start:stop], out=mass[start + 1 : stop + 1])
        return by_task(self.codes, self.scores), mass

    def mass_up_to(
        self, scores: Array, codes: Codes, side: Literal["left", "right"] = "right"
    ) -> Array:
        """Weight (k,) of a task's calibration scores that do not exceed each of (k,).

        With ``side="left"`` equal scores do not count.
        """
        pairs, mass = self.ordered
        place = np.searchsorted(pairs, by_task(codes, scores), side)
        has_lower = place > self.starts[codes]
        return np.where(has_lower, mass[place], 0.0)

    @cached_property
    def _ranks(self) -> Array:
        """Rank of each score among those of its task, (n,), the lowest of ties.

        (The two rows of a task tie: each is scored by the other.) A row that makes the
        others of its task seem deep is ranked as if it did not.
        """
        size = self.sizes[self.codes]
        depth = np.maximum(-self.scores / size, 0.0)
        root = np.sqrt(depth) + np.maximum(-self.shift, 0.0)
        deeper = np.square(root) * size
        ranked = np.where(self.scores < 0.0, -deeper, self.scores)
        ranked -= ROUNDING * (1.0 + np.abs(ranked))
        return 1.0 + self.mass_up_to(ranked, self.codes, side="left")

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
            Scores of rows as far from everything as guards can tell. In a task with a
            single row, only lower scores raise an alarm.

        Returns
        -------
        Thresholds
        """
        counts = self.counts
        borrows = self.borrows(alarm_rate)
        with np.errstate(under="ignore", over="ignore"):  # of tiny and huge weights
            pool = like_sizes(counts, self.lends, borrows, alarm_rate)
            codes = self.codes
            values = self.scores / self.sizes[codes]
            limit = alarm_rate * limit_ratio
            most_ranks = np.maximum(limit * (1.0 + counts), 1.0) * (1.0 + 1e-9)
            pools = tuple(
                Pool.of(
                    values,
                    self.weight,
                    self.stands_for,
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
            self, alarm_rate, limit_ratio, borrows, pools, pool, most_ranks, lowest
        )


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds and p-values for one promised rate.

    Parameters
    ----------
    calibration : Calibration
    alarm_rate : float
    limit_ratio : float
        L of the module.
    borrows : ndarray of bool of shape (T,)
        Which tasks are compared with others.
    pools : tuple of Pool
    pool : ndarray of shape (T,)
        Number of each task's pool; -1: none.
    most_ranks : ndarray of shape (T,)
        Highest own rank that may still raise an alarm in each task.
    lowest : ndarray of shape (T,)
        Scores of rows as far from everything as can be told; minus infinity: unknown.
    """

    calibration: Calibration
    alarm_rate: float
    limit_ratio: float
    borrows: Mask
    pools: tuple[Pool, ...]
    pool: Codes
    most_ranks: Array
    lowest: Array

    def pvalues(self, scores: Array, codes: Codes) -> Array:
        """P-values (k,) of scores (k,) against the calibration scores of tasks (k,)."""
        mass = self.calibration.mass_up_to(scores, codes)
        own_pvalues = (1.0 + mass) / (1.0 + self.calibration.counts[codes])
        p = own_pvalues
        borrowed = np.flatnonzero(self.borrows[codes])
        if len(borrowed):
            p = own_pvalues.copy()
            # A score that overflows in units of its task is low all the same.
            with np.errstate(over="ignore", under="ignore"):
                p[borrowed] = self._borrowed_pvalues(
                    scores[borrowed], codes[borrowed], 1.0 + mass[borrowed]
                )
        alone = self.alone[codes]
        if not alone.any():
            return p
        return np.where(alone, self._alone_pvalues(scores, codes, own_pvalues), p)

    def _borrowed_pvalues(self, scores: Array, codes: Codes, ranks: Array) -> Array:
        """P-values (k,) of steps 2 and 3 of the module, from `ranks` (k,) of step 1."""
        calibration = self.calibration
        counts = calibration.counts[codes]
        # (A task may have no held-out rows.)
        own = np.minimum(ranks, counts) / np.where(counts > 0.0, counts, 1.0)
        own[counts == 0.0] = 1.0
        largest = np.finfo(np.float64).max
        values = np.clip(scores / calibration.sizes[codes], -largest, largest)
        values = stretched(values, calibration.bend)
        number = self.pool[codes]
        sums = np.empty((2, len(scores)))
        for k, pool in enumerate(self.pools):
            rows = np.flatnonzero(number == k)
            tasks = codes[rows]
            scaled = values[rows] / pool.units[tasks]
            # S: a task without scores of its own counts beside those that lend.
            n_tasks = np.count_nonzero(pool.lenders) + ~pool.lenders[tasks]
            sums[:, rows] = pool.by_others(scaled, tasks) / n_tasks
            sums[0, rows] += own[rows] / n_tasks
        # Sums of shares must not depend on the order of tasks, not even by rounding.
        p, barred = np.round(sums, 13)
        raises = (ranks <= self.most_ranks[codes]) & (p <= self.alarm_rate)
        after_alarms = np.maximum(p, self.alarm_rate) + barred
        own_pvalues = ranks / (1.0 + counts)
        limited = np.where(ranks <= 1.0 + 1e-9, 0.0, own_pvalues / self.limit_ratio)
        p = np.maximum(np.where(raises, p, after_alarms), limited)
        return np.minimum(p, 1.0)

    def left_out_pvalues(self) -> Array:
        """P-values of the calibration scores (n,), each left out of them."""
        scores = self.calibration.scores
        codes = self.calibration.codes
        up_to = self.pvalues(scores, codes)
        below = self.pvalues(np.nextafter(scores, -np.inf), codes)
        _, value, copies = np.unique(
            self.calibration.ordered[0], return_inverse=True, return_counts=True
        )
        return np.asarray(up_to - (up_to - below) / copies[value])

    @cached_property
    def alone(self) -> Mask:
        """Tasks with a single row that was not held out, shape (T,)."""
        return (self.calibration.counts > 0.0) & ~self.calibration.lends

    def _alone_pvalues(self, scores: Array, codes: Codes, own: Array) -> Array:
        """P-values (k,) in tasks with a single row, which has no rank: 1/2 or more.

        Only a row as far from everything as can be told is rarer than all rows there
        are: several times farther than the left-out rows of all tasks.
        """
        is_known = np.isfinite(self.lowest)
        lowest = np.where(is_known, self.lowest, 0.0)
        offsets = np.where(is_known, lowest + 1e-6 * np.abs(lowest), NEVER)
        rarest = 1.0 / (1.0 + self.calibration.counts.sum())
        return np.where(scores < offsets[codes], rarest, np.maximum(own, 0.5))

    @cached_property
    def smallest_pvalues(self) -> Array:
        """Smallest p-value that each task can give, shape (T,)."""
        tasks = np.arange(len(self.calibration.counts))
        return self.pvalues(np.full(len(tasks), -np.inf), tasks)

    def rates(self) -> Array:
        """Alarm rate that each task really promises, shape (T,).

        It is `alarm_rate`, or the smallest p-value possible where that is larger. A
        task that cannot raise an alarm keeps `alarm_rate`.
        """
        smallest = np.minimum(self.smallest_pvalues, 1.0 - np.finfo(float).epsneg)
        floored = np.maximum(self.alarm_rate, smallest)
        return np.where(self.alone, self.alarm_rate, floored)

    def limits(self) -> Array:
        """Largest alarm rate (T,) of each task, whatever the other tasks are like."""
        with np.errstate(under="ignore"):  # rates may be tiny
            limit = np.where(self.borrows, self.limit_ratio, 1.0) * self.alarm_rate
        return np.minimum(np.maximum(limit, 1.0 / (1.0 + self.calibration.counts)), 1.0)

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
        offsets = lowest_where(
            lambda scores, codes: self.pvalues(scores, codes) > rates[codes], len(rates)
        )
        never = self.smallest_pvalues > rates
        return np.where(never, NEVER, offsets), rates

    def shortfall_message(self, tasks: NDArray[Any]) -> str:
        """What the user should know where a task cannot keep the rate alone."""
        rate = self.alarm_rate
        too_few = self.calibration.too_few(rate)
        counts = self.calibration.counts[too_few]
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


def lowest_where(holds: Callable[[Array, Codes], Mask], number: int) -> Array:
    """The lowest floats (k,) for which an ascending condition holds, to the last bit.

    Floats are ordered as whole numbers are, but for the sign. So the interval of each
    is cut into equal parts, again and again. There are two parts, or more while all of
    them are no more than 600 floats: a call takes about as long for these as for a few.

    Parameters
    ----------
    holds : callable
        Takes floats (m,) and which of the k each of them is tried for, (m,). It is true
        from some float on, for each of the k another.
    number : int
        k.
    """
    high = np.full(number, np.finfo(float).max).view(np.int64)
    low = -high
    n_parts = int(np.clip(600 // max(number, 1), 2, 256))
    places = np.arange(1, n_parts)[:, None]
    columns = np.arange(number)
    tried = np.tile(columns, n_parts - 1)
    while np.any(low < high):
        step = np.maximum(high // n_parts - low // n_parts, 1)
        # (Products may leave 64 bits; sums are right again.)
        middle = np.clip(low - 1 + step * places, low, np.maximum(high - 1, low))
        is_true = holds(_floats(middle).ravel(), tried).reshape(middle.shape)
        n_false = np.count_nonzero(~is_true, axis=0)
        bounds = np.concatenate([[low - 1], middle, [high]])
        high = bounds[n_false + 1, columns]
        low = np.minimum(bounds[n_false, columns] + 1, high)
    return _floats(low)


def _floats(ordered: NDArray[np.int64]) -> Array:
    """Floats in the order of whole numbers."""
    negative = np.iinfo(np.int64).min - ordered
    return np.where(ordered < 0, negative, ordered).view(np.float64)
