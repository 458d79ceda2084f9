r"""Third pass: the score of every row under the model without it, and its place in its task's tail.

With leverage :math:`\ell_i = w_i \phi_i' (G + \alpha I)^{-1} \phi_i` the residual of a row under
the model without it is :math:`e_i / (1 - \ell_i)`, and the mean response of its task moves with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from manyone._types import Array, Codes, Labels, Rows
from manyone.calibration.tails import IntoTails, Tails
from manyone.data.blocks import kernel_blocks
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.rows import CodedRows, TrainingRows
from manyone.fitting.closed_form import scores_without_groups
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import Ridge
from manyone.models.guards import LeftOutGuard
from manyone.models.solution import Judge
from manyone.solvers.leave_blocks import solve_primal_without_blocks
from manyone.solvers.ridge import left_out_mean, one_minus_leverage
from manyone.threads import on_threads, solve_lower

#: Takes rows (b, d), their tasks and weights (b,), and returns left-out scores (b,) and
#: those of the model of all rows.
Score = Callable[[Rows, Codes, Array], tuple[Array, Array]]


class WithTasks(Protocol):
    """A plan, as far as every pass knows it."""

    @property
    def tasks(self) -> Labels:
        """Labels, sorted, shape (T,)."""


class LeftOutPass(IntoTails, Judge):
    """A pass that scores rows under models without them."""

    plan: WithTasks

    @abstractmethod
    def scores(self, rows: CodedRows) -> tuple[Array, Array]:
        """Left-out scores (n,), NaN for outliers and for rows that shaped the landmarks.

        And scores (n,) under the model of all rows, infinite where they are not known.
        """

    def of(self, rows: CodedRows) -> Tails:
        """Tails of the left-out scores of rows whose tasks are numbers."""
        scores, seen = self.scores(rows)
        return Tails.known(scores, rows, len(self.plan.tasks), seen)

    def judged(self, rows: CodedRows) -> Array:
        """See :class:`Judge`."""
        return self.scores(rows)[0]


def judged_rows(
    plan: Plan, rows: CodedRows, score: Score, guard: LeftOutGuard, width: int
) -> tuple[Array, Array]:
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
    scores, seen
        See `LeftOutPass`.
    """
    scores = np.full(len(rows.codes), np.nan)
    seen = np.full(len(rows.codes), np.inf)
    judged = np.flatnonzero(~rows.outlier & plan.unseen(rows.X))

    def judge(part: slice) -> tuple[Codes, tuple[Array, Array]]:
        block = rows.take(judged[part])
        return judged[part], score(block.X, block.codes, block.weight)

    for numbers, parts in on_threads(judge, kernel_blocks(len(judged), width)):
        scores[numbers], seen[numbers] = parts
    # All rows of a task at once: blocks have few of each where there are many tasks.
    scores[judged] = guard.lower(scores[judged], rows.take(judged))
    return scores, seen


@dataclass(frozen=True, eq=False)
class KnownScores(Judge):
    """Left-out scores (k,) of rows, found by their content and task: `keys` (k,), ascending."""

    keys: Hashes
    scores: Array

    @classmethod
    def among(cls, rows: CodedRows, scores: Array) -> KnownScores:
        """Scores (k,) of rows whose tasks are numbers."""
        keys = _keys(rows)
        order = np.argsort(keys)
        return cls(keys[order], scores[order])

    def judged(self, rows: CodedRows) -> Array:
        """Scores (n,) of rows whose tasks are numbers; NaN where there is none."""
        keys = _keys(rows)
        place = np.searchsorted(self.keys, keys)
        has_score = np.append(self.keys, np.uint64(0))[place] == keys
        return np.where(has_score, np.append(self.scores, np.nan)[place], np.nan)


def _keys(rows: CodedRows) -> Hashes:
    """A number for the content and the task of each row, shape (b,)."""
    return row_hashes(rows.X) + np.asarray(rows.codes, dtype=np.uint64) * np.uint64(
        2**32 + 1
    )


@dataclass(frozen=True, eq=False)
class LeaveOut(LeftOutPass):
    """The pass that leaves every row out.

    Parameters
    ----------
    plan : Plan
    ridge : Ridge
    guard : LeftOutGuard
    leaves_groups : bool
    """

    plan: Plan
    ridge: Ridge
    guard: LeftOutGuard
    leaves_groups: bool = True

    def scores(self, rows: CodedRows) -> tuple[Array, Array]:
        """See :class:`LeftOutPass`."""
        if isinstance(rows, TrainingRows) and rows.group is not None:
            return self._without_groups(rows)
        width = len(self.plan.points)
        return judged_rows(self.plan, rows, self._scores, self.guard, width)

    def _scores(self, X: Rows, codes: Codes, weight: Array) -> tuple[Array, Array]:
        ridge = self.ridge
        K = self.plan.values(X)
        residual = 1.0 - np.einsum("ij,ij->i", K, ridge.coef.T[codes])
        half = solve_lower(ridge.factor, K)
        leverage = weight * np.einsum("ij,ij->i", half, half)
        remaining = one_minus_leverage(1.0 - leverage, weight)
        left = residual / remaining
        # The mean response of the task without one count of the row: residuals are 1 - response.
        count = np.minimum(weight, 1.0)
        total = ridge.counts[codes]
        residual_sum = (ridge.counts * (1.0 - ridge.mean_response))[codes]
        mean = left_out_mean(residual_sum, count * left * residual, total, count)
        return -np.abs(left - mean), self._of_all_rows(residual, codes)

    def _of_all_rows(self, residual: Array, codes: Codes) -> Array:
        """Scores (n,) of rows under the model of all of them."""
        return -np.abs(residual - (1.0 - self.ridge.mean_response[codes]))

    def _without_groups(self, rows: TrainingRows) -> tuple[Array, Array]:
        """The same under models without those that leave with a row; NaN: none do."""
        plan = self.plan
        ridge = self.ridge
        all_scores = np.full(len(rows.codes), np.nan)
        seen = np.full(len(rows.codes), np.inf)
        unseen = np.flatnonzero(plan.unseen(rows.X))
        rows = rows.take(unseen)
        normal = np.flatnonzero(~rows.outlier)
        if not len(normal):
            return all_scores, seen
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
        scores[normal] = self.guard.lower(scores[normal], rows.take(normal))
        all_scores[unseen] = scores
        seen[unseen[normal]] = self._of_all_rows(residual[normal], rows.codes[normal])
        return all_scores, seen
