r"""Third pass: the score of every row under the model without it.

With the leverage :math:`\ell_i = w_i \phi_i' (G + \alpha I)^{-1} \phi_i`, the residual of
row i under the model without it is :math:`e_i / (1 - \ell_i)`. The mean response of its
task changes as well (:func:`manyone.solvers.ridge.left_out_rows`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Rows
from manyone.calibration.tails import Tails
from manyone.data.blocks import kernel_blocks
from manyone.data.rows import CodedRows, TrainingRows
from manyone.fitting.closed_form import scores_without_groups
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import Ridge
from manyone.models.nearness import LeftOutGuard
from manyone.models.solution import Judge
from manyone.solvers.leave_blocks import solve_primal_without_blocks
from manyone.solvers.ridge import left_out_rows, one_minus_leverage
from manyone.threads import on_threads, solve_lower


class JudgedRows(NamedTuple):
    """What models without them say of rows.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Left-out scores; NaN for outliers and for rows that shaped the landmarks.
    seen : ndarray of shape (n,)
        Scores under the model of all rows; infinite: not known.
    responses : ndarray of shape (n, 2)
        See :class:`~manyone.solvers.ridge.LeftOutRows`; NaN: not known.
    """

    scores: Array
    seen: Array
    responses: Array

    @classmethod
    def unknown(cls, n_rows: int) -> JudgedRows:
        """Scores of rows that are not judged yet."""
        responses = np.full((n_rows, 2), np.nan)
        return cls(np.full(n_rows, np.nan), np.full(n_rows, np.inf), responses)


#: Takes rows (b, d), their tasks and weights (b,).
Score = Callable[[Rows, Codes, Array], JudgedRows]


class LeftOutPass(Judge):
    """A pass that scores rows under models without them."""

    plan: Plan

    @abstractmethod
    def judge(self, rows: CodedRows) -> JudgedRows:
        """What models without them say of rows whose tasks are numbers."""

    def of(self, rows: CodedRows) -> Tails:
        """Tails of the left-out scores of rows whose tasks are numbers."""
        scores, seen, responses = self.judge(rows)
        return Tails.known(scores, rows, len(self.plan.tasks), seen, responses)

    def merge(self, one: Tails, other: Tails) -> Tails:
        """Tails of the rows of both."""
        return one.merged(other)

    def judged(self, rows: CodedRows) -> Array:
        """See :class:`Judge`."""
        return self.judge(rows).scores


def judged_rows(
    plan: Plan, rows: CodedRows, score: Score, guard: LeftOutGuard, width: int
) -> JudgedRows:
    """Scores of normal rows that had no part in the landmarks, block by block.

    Parameters
    ----------
    plan : Plan
    rows : CodedRows
    score : callable
        See `Score`.
    guard : LeftOutGuard
    width : int
        Floats that `score` needs for each row.

    Returns
    -------
    JudgedRows
    """
    result = JudgedRows.unknown(len(rows.codes))
    judged = np.flatnonzero(~rows.outlier & plan.unseen(rows.X))

    def judge(block: slice) -> tuple[Codes, JudgedRows]:
        taken = rows.take(judged[block])
        return judged[block], score(taken.X, taken.codes, taken.weight)

    for numbers, of_block in on_threads(judge, kernel_blocks(len(judged), width)):
        for values, block_values in zip(result, of_block, strict=True):
            values[numbers] = block_values
    # All blocks at once: one block has few rows of each of many tasks.
    guard.lower(result.scores, rows, judged)
    return result


@dataclass(frozen=True, eq=False)
class LeaveOut(LeftOutPass):
    """The pass that leaves every row out.

    Parameters
    ----------
    plan : Plan
    ridge : Ridge
    guard : LeftOutGuard
    """

    leaves_groups = True

    plan: Plan
    ridge: Ridge
    guard: LeftOutGuard

    def judge(self, rows: CodedRows) -> JudgedRows:
        """See :class:`LeftOutPass`."""
        if isinstance(rows, TrainingRows) and rows.group is not None:
            return self._without_groups(rows)
        width = len(self.plan.points)
        return judged_rows(self.plan, rows, self._scores, self.guard, width)

    def _scores(self, X: Rows, codes: Codes, weight: Array) -> JudgedRows:
        ridge = self.ridge
        K = self.plan.values(X)
        residual = 1.0 - np.einsum("ij,ij->i", K, ridge.coef.T[codes])
        half = solve_lower(ridge.factor, K)
        leverage = weight * np.einsum("ij,ij->i", half, half)
        remaining = one_minus_leverage(1.0 - leverage, weight)
        left = residual / remaining
        task = ridge.counts[codes], ridge.mean_response[codes]
        scores, responses = left_out_rows(
            residual, left, left * residual, weight, *task
        )
        seen = -np.abs(residual - (1.0 - ridge.mean_response[codes]))
        return JudgedRows(scores, seen, responses)

    def _without_groups(self, rows: TrainingRows) -> JudgedRows:
        """Scores by models without the group of a row; NaN: the group cannot leave."""
        plan = self.plan
        ridge = self.ridge
        result = JudgedRows.unknown(len(rows.codes))
        unseen = np.flatnonzero(plan.unseen(rows.X))
        rows = rows.take(unseen)
        normal = np.flatnonzero(~rows.outlier)
        if not len(normal):
            return result
        residual = np.full(len(rows.codes), np.nan)
        for block in kernel_blocks(len(normal), len(plan.points)):
            numbers = normal[block]
            K = plan.values(rows.X[numbers])
            residual[numbers] = 1.0 - np.einsum(
                "ij,ij->i", K, ridge.coef.T[rows.codes[numbers]]
            )

        def features(numbers: Codes) -> Array:
            return solve_lower(ridge.factor, plan.values(rows.X[numbers]))

        solve = partial(solve_primal_without_blocks, features, rows.weight)
        here = np.bincount(rows.codes[normal], rows.weight[normal], len(ridge.counts))
        has_earlier = ridge.counts > here * (1.0 + 1e-9)
        means = ridge.counts, ridge.mean_response
        scores = scores_without_groups(rows, residual, *means, solve, has_earlier)
        self.guard.lower(scores, rows, normal)
        result.scores[unseen] = scores
        mean = ridge.mean_response[rows.codes[normal]]
        result.seen[unseen[normal]] = -np.abs(residual[normal] - (1.0 - mean))
        return result
