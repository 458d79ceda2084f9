r"""Alarm thresholds and p-values from scores of normal rows that the model has not seen.

A normal row's p-value is :math:`(1 + \#\{c : c \le s\}) / (n + 1)` where s is its score and c runs
over the calibration scores. The threshold of a task is the calibration score at which the p-value
first exceeds the promised alarm rate, so ``score < offset`` exactly when ``p <= alarm_rate``.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone.tasks import Codes, group_rows, shortlist

Array = NDArray[np.float64]
# Rows that the pooled spread counts for when the spread of one small task is estimated.
_PRIOR_ROWS = 8.0


def warn_user(message: str, category: type[Warning] | None = None) -> None:
    """Warn about a call, pointing at the user's line and not into this package."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("manyone.", "sklearn.")
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category or CalibrationWarning, stacklevel=level)


class CalibrationWarning(UserWarning):
    """The promised alarm rate cannot be kept task by task with the rows at hand."""


@dataclass
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
    """

    scores: Array
    weight: Array
    starts: Codes
    pool_scores: Array
    pool_weight: Array
    spread: Array
    source: str

    @classmethod
    def from_scores(
        cls, scores: Array, codes: Codes, weight: Array, n_tasks: int, source: str
    ) -> Calibration:
        """Arrange scores by task and pool them.

        Parameters
        ----------
        scores, codes, weight : ndarray of shape (n,)
            Score, task and count of each normal row.
        n_tasks : int
        source : str

        Returns
        -------
        Calibration
        """
        order, starts = group_rows(codes, n_tasks)
        order = order[np.lexsort((scores[order], codes[order]))]
        scores, codes, weight = scores[order], codes[order], weight[order]
        # Equal scores may differ by rounding: a hair lower, a tie stays a tie and p is larger.
        scores = scores - 1e-12 * (1.0 + np.abs(scores))
        unit, spread = _spreads(scores, codes, weight, n_tasks)
        pool = scores / unit
        # The only row of a task has no proper left-out score, unless it was held out.
        alone = np.bincount(codes, minlength=n_tasks)[codes] == 1
        alone &= (weight <= 1.0) & (source != "held-out")
        if not np.all(alone):
            pool, pool_weight = pool[~alone], weight[~alone]
        else:
            pool_weight = weight
        ascending = np.argsort(pool, kind="stable")
        return cls(scores, weight, starts, pool[ascending], pool_weight[ascending], spread, source)

    @property
    def counts(self) -> Array:
        """Calibration rows of each task, shape (T,)."""
        task = np.repeat(np.arange(len(self.spread)), np.diff(self.starts))
        return np.bincount(task, self.weight, len(self.spread)).astype(np.float64)

    @property
    def pool_count(self) -> float:
        """Calibration rows of all tasks that can be pooled."""
        return float(self.pool_weight.sum())

    def pooled(self, alarm_rate: float) -> NDArray[np.bool_]:
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
        borrowed = self.pooled(alarm_rate)
        floor = max(alarm_rate, 1.0 / (self.pool_count + 1.0))
        floor = min(floor, 1.0 - np.finfo(float).epsneg)
        if borrowed.any():
            offsets[borrowed] = _threshold(self.pool_scores, self.pool_weight, floor)
            offsets[borrowed] *= self.spread[borrowed]
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
            Decides which tasks are compared with the pool.

        Returns
        -------
        ndarray of shape (m,)
        """
        p = np.empty(len(scores))
        borrowed = self.pooled(alarm_rate)
        pool = _p_steps(self.pool_weight)
        order, starts = group_rows(codes, len(self.spread))
        for task in np.flatnonzero(np.diff(starts)):
            rows = order[starts[task] : starts[task + 1]]
            if borrowed[task]:
                # Rescaled as the offset is, so that both agree to the last bit.
                reference, steps = self.pool_scores * self.spread[task], pool
            else:
                own = slice(self.starts[task], self.starts[task + 1])
                reference, steps = self.scores[own], _p_steps(self.weight[own])
            p[rows] = steps[np.searchsorted(reference, scores[rows], side="right")]
        return p

    def smallest_pvalues(self, alarm_rate: float) -> Array:
        """Smallest p-value that each task can give, shape (T,)."""
        counts = np.where(self.pooled(alarm_rate), self.pool_count, self.counts)
        return 1.0 / (counts + 1.0)

    def complaint(self, alarm_rate: float, tasks: NDArray[Any]) -> str | None:
        """What the user should know about this rate, or None if every task keeps it alone."""
        borrowed = self.pooled(alarm_rate)
        if not borrowed.any():
            return None
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
            "average over tasks, not for each one. "
        )
        if pool_floor > alarm_rate:
            text += f"Even the pool allows no rate below {pool_floor:.3g}, which is used. "
        if floor <= 0.25:
            return text + f"Give more rows, or set alarm_rate to at least {floor:.3g}."
        return text + "Give more rows."


def _p_steps(weight: Array) -> Array:
    """P-value by the number of (ascending) calibration scores that are no larger."""
    mass = np.concatenate([[0.0], np.cumsum(weight)])
    return (1.0 + mass) / (1.0 + mass[-1])


def _threshold(ascending: Array, weight: Array, rate: float) -> float:
    """The calibration score at which the p-value first exceeds the rate."""
    above = _p_steps(weight) > rate
    # Weights so small that not even the worst score is rare: no alarm can be justified.
    return -1e300 if above[0] else float(ascending[np.argmax(above) - 1])


def _spreads(scores: Array, codes: Codes, weight: Array, n_tasks: int) -> tuple[Array, Array]:
    """Spread of each row's task without the row, and of each task: root mean squares, shrunk."""
    square = scores**2
    count = np.minimum(weight, 1.0)
    sums = np.bincount(codes, weight * square, n_tasks)
    totals = np.bincount(codes, weight, n_tasks)
    if np.count_nonzero(totals) <= 1 or not np.any(square > 0):
        return np.ones(len(scores)), np.ones(n_tasks)
    others = np.maximum(sums.sum() - count * square, np.finfo(float).tiny)
    typical = others / (totals.sum() - count)
    own = np.maximum(sums[codes] - count * square, 0.0)
    unit = np.sqrt((_PRIOR_ROWS * typical + own) / (_PRIOR_ROWS + totals[codes] - count))
    overall = sums.sum() / totals.sum()
    return unit, np.sqrt((_PRIOR_ROWS * overall + sums) / (_PRIOR_ROWS + totals))


def full_conformal(
    residual: Array,
    slack: Array,
    weight: Array,
    error: Array,
    influence: Array,
    self_influence: Array,
) -> Array:
    """Exact p-values of rows of one task: each joins the task, then every row is left out.

    Nothing is refitted. Adding a row x moves the residual of row i by its influence, and leaving
    row i out of the augmented model is again the closed form of
    :func:`manyone.solvers.ridge.leave_one_out_scores`.

    Parameters
    ----------
    residual, slack, weight : ndarray of shape (n,)
        Of the normal rows of the task.
    error : ndarray of shape (m,)
        1 - f_t(x) of the new rows.
    influence : ndarray of shape (m, n)
        phi(x)' (Phi' W Phi + alpha I)^-1 phi_i: by how much a unit of weight at x pulls row i.
    self_influence : ndarray of shape (m,)
        The same for x with itself.

    Returns
    -------
    ndarray of shape (m,)
        P(p <= a) <= a exactly, for every a and n, if rows of the task are exchangeable.
    """
    grown = 1.0 + self_influence[:, None]
    count = np.minimum(weight, 1.0)
    rho = residual - influence * error[:, None] / grown
    left_out = rho / (slack + count * influence**2 / grown)
    own = error / grown[:, 0]
    total = weight.sum() + 1.0
    lack = (rho @ weight + own)[:, None]
    scores = -np.abs(left_out - (lack - count * left_out * rho) / (total - count))
    new = -np.abs(error - (lack[:, 0] - error * own) / (total - 1.0))
    # Equal scores may differ by rounding; counting them as equal can only enlarge p.
    tied = 1e-10 * (1.0 + np.abs(new))
    return (1.0 + (scores <= (new + tied)[:, None]) @ weight) / total


def benjamini_hochberg(p: Array, fdr: float) -> NDArray[np.bool_]:
    """Rows to reject so that at most a share `fdr` of them is expected to be false, shape (m,)."""
    ascending = np.sort(p)
    passing = np.flatnonzero(ascending <= fdr * (1 + 1e-12) * np.arange(1, len(p) + 1) / len(p))
    return p <= (ascending[passing[-1]] if len(passing) else -1.0)
