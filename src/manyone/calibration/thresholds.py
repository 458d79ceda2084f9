r"""Alarm thresholds and p-values from scores of normal rows that the model has not seen.

A normal row's p-value is :math:`(1 + \#\{c : c \le s\}) / (n + 1)` where s is its score and c runs
over the calibration scores. The threshold of a task is the calibration score at which the p-value
first exceeds the promised alarm rate, so ``score < offset`` exactly when ``p <= alarm_rate``.

Where the calibration scores come from is a strategy: closed forms (a solution brings them along),
:func:`~manyone.calibration.folds.solve_with_folds`, or held-out rows (``calibrate``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.groups import calibration_weight
from manyone.messages import shortlist
from manyone.models.solution import Solution
from manyone.rows import TrainingRows, group_rows
from manyone.validation import warn_of_copies

# Rows that the pooled spread counts for when the spread of one small task is estimated.
_PRIOR_ROWS = 8.0
# Least spread beside the scores of rows far away: what is less is rounding.
_LEAST_SPREAD = 1e-6
# Most that one row may add to the spread of a task that has no other, see `spreads`.
_STEEPEST = 4.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of normal rows under models that were fitted without them.

    Parameters
    ----------
    scores, weight : ndarray of shape (n,)
        Scores and counts, sorted by task and ascending within a task.
    starts : ndarray of shape (T + 1,)
        Where each task starts.
    pool_scores, pool_weight : ndarray of shape (m,)
        Scores of all tasks in units of their task's spread, ascending.
    spread : ndarray of shape (T,)
        Unit of each task's scores, shrunk towards the typical one.
    source : str
        ``"leave-one-out"``, ``"folds"`` or ``"held-out"``.
    counts : ndarray of shape (T,)
        Calibration rows of each task.
    pool_count : float
        Calibration rows of all tasks that can be pooled.
    """

    scores: Array
    weight: Array
    starts: Codes
    pool_scores: Array
    pool_weight: Array
    spread: Array
    source: str
    counts: Array
    pool_count: float

    @classmethod
    def from_scores(
        cls,
        scores: Array,
        codes: Codes,
        weight: Array,
        n_tasks: int,
        source: str,
        far: Array | None = None,
    ) -> Calibration:
        """Arrange scores by task and pool them.

        Parameters
        ----------
        scores, codes, weight : ndarray of shape (n,)
            Score, task and count of each row; rows without a score (NaN) are left out.
        n_tasks : int
        source : str
        far : ndarray of shape (T,) or None
            Scores of rows far away, where known: beside them tiny spreads are rounding.

        Returns
        -------
        Calibration
        """
        order = np.lexsort((scores, codes))
        order = order[~np.isnan(scores[order])]
        scores, codes, weight = scores[order], codes[order], weight[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_tasks))])
        # Equal scores may differ by rounding: slightly lower, a tie stays a tie and p is larger.
        scores = scores - 1e-12 * (1.0 + np.abs(scores))
        unit, spread = spreads(scores, codes, weight, n_tasks, far)
        pool = scores / unit
        # The only row of a task has no proper left-out score, unless it was held out.
        is_singleton = np.bincount(codes, minlength=n_tasks)[codes] == 1
        is_singleton &= (weight <= 1.0) & (source != "held-out")
        kept = ~is_singleton | np.all(is_singleton)
        pool, pool_weight = pool[kept], weight[kept]
        ascending = np.argsort(pool, kind="stable")
        counts, total = (
            np.bincount(codes, weight, n_tasks).astype(np.float64),
            pool_weight.sum(),
        )
        pool, pool_weight = pool[ascending], pool_weight[ascending]
        return cls(
            scores,
            weight,
            starts,
            pool,
            pool_weight,
            spread,
            source,
            counts,
            float(total),
        )

    @classmethod
    def from_left_out(cls, solution: Solution, rows: TrainingRows) -> Calibration:
        """Left-out scores of training rows; rows of a group that are alike count as fewer."""
        scores, weight = solution.left_out, rows.weight
        assert scores is not None
        if rows.group is not None:
            if np.isnan(scores).all():
                raise ValueError(
                    "groups has one group in every task: no row can be left out, and no threshold "
                    "set. Give two groups or more per task, or groups=None where rows are "
                    "independent."
                )
            weight = calibration_weight(scores, rows)
        source, far = solution.left_out_source, solution.scorer.far()
        copies = len(np.unique(rows.content)) < len(rows.content)
        if copies and source.startswith("leave-one-out"):
            warn_of_copies(rows.X, rows.keys(rows))
        return cls.from_scores(scores, rows.codes, weight, rows.n_tasks, source, far)

    def pooled(self, alarm_rate: float) -> Mask:
        """Which tasks have too few rows for the rate and borrow the other tasks', shape (T,)."""
        return 1.0 / (self.counts + 1.0) > alarm_rate

    def offsets(self, alarm_rate: float) -> tuple[Array, Array]:
        """Threshold of each task, and the alarm rate that it really promises.

        Parameters
        ----------
        alarm_rate : float

        Returns
        -------
        offsets : ndarray of shape (T,)
        rates : ndarray of shape (T,)
            `alarm_rate`, or the smallest rate possible where even the pool is too small for it.
        """
        offsets = np.empty(len(self.spread))
        borrowed = 1.0 / (self.counts + 1.0) > alarm_rate
        floor = max(alarm_rate, 1.0 / (self.pool_count + 1.0))
        floor = min(floor, 1.0 - np.finfo(float).epsneg)
        if borrowed.any():
            offsets[borrowed] = _threshold(self.pool_scores, self.pool_weight, floor)
            offsets[borrowed] *= self.spread[borrowed]
            # No alarm above the worst of the task's own rows, however unlike the others it is.
            offsets = np.where(borrowed, np.minimum(offsets, self._worst()), offsets)
        for task in np.flatnonzero(~borrowed):
            own = slice(self.starts[task], self.starts[task + 1])
            offsets[task] = _threshold(self.scores[own], self.weight[own], alarm_rate)
        rates = np.where(borrowed, floor, alarm_rate)
        return offsets, rates

    def pvalues(self, scores: Array, codes: Codes, alarm_rate: float) -> Array:
        """P-value of each row against the calibration scores of its task.

        Parameters
        ----------
        scores, codes : ndarray of shape (m,)
        alarm_rate : float
            The smallest p-value that has to be told from 0: tasks whose own rows are too few for
            it are compared with the pool.

        Returns
        -------
        ndarray of shape (m,)
        """
        p = np.empty(len(scores))
        borrowed = self.pooled(alarm_rate)
        pool = _p_steps(self.pool_weight)
        worst = self._worst()
        order, starts = group_rows(codes, len(self.spread))
        for task in np.flatnonzero(np.diff(starts)):
            rows = order[starts[task] : starts[task + 1]]
            own = slice(self.starts[task], self.starts[task + 1])
            below = np.searchsorted(self.scores[own], scores[rows], side="right")
            p[rows] = alone = _p_steps(self.weight[own])[below]
            if borrowed[task]:
                p[rows] = pool[
                    _number_below(self.pool_scores, self.spread[task], scores[rows])
                ]
                p[rows] = np.where(
                    scores[rows] < worst[task], p[rows], np.maximum(p[rows], alone)
                )
        return p

    def _worst(self) -> Array:
        """Lowest left-out score of each task, shape (T,); infinite where no row was left out."""
        rows = np.diff(self.starts)
        first = np.minimum(self.starts[:-1], len(self.scores) - 1)
        left_out = (rows > 1) | ((rows == 1) & (self.weight[first] > 1.0))
        left_out |= (rows == 1) & (self.source == "held-out")
        return np.where(left_out, self.scores[first], np.inf)

    def smallest_pvalues(self, alarm_rate: float) -> Array:
        """Smallest p-value that each task can give, shape (T,)."""
        counts = np.where(self.pooled(alarm_rate), self.pool_count, self.counts)
        return 1.0 / (counts + 1.0)

    def shortfall_message(self, alarm_rate: float, tasks: NDArray[Any]) -> str:
        """What the user should know about this rate where a task cannot keep it alone."""
        borrowed = self.pooled(alarm_rate)
        counts = self.counts[borrowed]
        needed = f"{np.ceil(1.0 / max(alarm_rate, 1e-300) - 1e-9) - 1:.9g}"
        floor = 1.0 / (max(counts.min(), 1.0) + 1.0)
        pool_floor = 1.0 / (self.pool_count + 1.0)
        if len(tasks) == 1:
            return (
                f"{counts[0]:g} normal row(s) cannot promise alarm_rate={alarm_rate:g}: the "
                f"smallest rate possible is 1/(n+1) = {floor:.3g}. The threshold is the worst "
                f"left-out score, which raises a false alarm on at most {floor:.3g} of normal "
                f"rows. Give {needed} rows or more, or set alarm_rate to at least {floor:.3g}."
            )
        text = (
            f"{borrowed.sum()} of {len(tasks)} tasks ({shortlist(tasks[borrowed].tolist(), 3)}) "
            f"have fewer than the {needed} normal rows that alarm_rate={alarm_rate:g} needs (the "
            f"smallest rate possible for n rows is 1/(n+1), here {floor:.3g}). Their thresholds "
            f"come from {self.pool_count:g} scores pooled over all tasks: the rate then holds on "
            "average over tasks; each one raises at most 1/(n+1), on average over fits. "
        )
        if pool_floor > alarm_rate:
            text += (
                f"Even the pool allows no rate below {pool_floor:.3g}, which is used. "
            )
        if floor <= 0.25:
            return text + f"Give more rows, or set alarm_rate to at least {floor:.3g}."
        return text + "Give more rows."


def _number_below(pool: Array, unit: float, scores: Array) -> Codes:
    """How many of ``pool * unit`` (ascending) are no larger than each score.

    The product is not formed: there may be many tasks, and many scores in the pool.
    """
    place = np.searchsorted(pool, scores / unit, side="right")
    # The neighbours are multiplied as the offset is: both agree to the last bit.
    above, below = (
        pool[np.minimum(place, len(pool) - 1)],
        pool[np.maximum(place - 1, 0)],
    )
    further = (place < len(pool)) & (scores >= above * unit)
    place = np.where(further, np.searchsorted(pool, above, side="right"), place)
    back = (place > 0) & ~further & (scores < below * unit)
    return np.where(back, np.searchsorted(pool, below, side="left"), place)


def _p_steps(weight: Array) -> Array:
    """P-value by the number of (ascending) calibration scores that are no larger."""
    mass = np.concatenate([[0.0], np.cumsum(weight)])
    return (1.0 + mass) / (1.0 + mass[-1])


def _threshold(ascending: Array, weight: Array, rate: float) -> float:
    """The calibration score at which the p-value first exceeds the rate."""
    mass = np.concatenate([[0.0], np.cumsum(weight)])
    above = (1.0 + mass) / (1.0 + mass[-1]) > rate
    # Weights so small that not even the worst score is rare: no alarm can be justified.
    return -1e300 if above[0] else float(ascending[np.argmax(above) - 1])


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
