r"""Third pass: the score of every row under the model without it, and its place in its task's tail.

With leverage :math:`\ell_i = w_i \phi_i' (G + \alpha I)^{-1} \phi_i` the residual of a row under
the model without it is :math:`e_i / (1 - \ell_i)`, and the mean response of its task moves with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.linalg import blas

from manyone._types import Array, Codes, Rows
from manyone.calibration.tails import Tails
from manyone.data.blocks import added, by_task, kernel_blocks
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


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What the pass gathers.

    Attributes
    ----------
    tails : Tails or None
        Left-out scores, where they are wanted.
    tasks : ndarray of shape (t,)
        Codes of the tasks that occur.
    values : ndarray of shape (t, m)
        Sums of ``w_i k_i / (1 - leverage)`` over the normal rows of each, k_i being kernel values
        against the landmarks (until the pass is over, of ``Q^-1 k_i``).
    mass : ndarray of shape (t,)
        Sums of ``w_i / (1 - leverage)``.
    """

    tails: Tails | None
    tasks: Codes
    values: Array
    mass: Array


def tails_of(
    plan: Plan, rows: CodedRows, score: Score, guard: LeftOutGuard, width: int
) -> Tails:
    """Tails of the left-out scores of normal rows that had no part in the landmarks.

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
    Tails
    """
    scores, seen = judged_rows(plan, rows, score, guard, width)
    return Tails.known(scores, rows, len(plan.tasks), seen)


def judged_rows(
    plan: Plan, rows: CodedRows, score: Score, guard: LeftOutGuard, width: int
) -> tuple[Array, Array]:
    """Left-out scores (n,), and those of the model of all rows; see `tails_of`.

    NaN for outliers, and for rows that had a part in the landmarks.
    """
    scores = np.full(len(rows.codes), np.nan)
    seen = np.full(len(rows.codes), np.inf)

    def judge(part: slice) -> tuple[Codes, Array, Array]:
        judged = ~rows.outlier[part] & plan.unseen(rows.X[part])
        numbers = np.flatnonzero(judged) + part.start
        block = rows.take(numbers)
        left_out, of_all = score(block.X, block.codes, block.weight)
        return numbers, guard.lower(left_out, block), of_all

    blocks = kernel_blocks(len(rows.codes), width)
    for numbers, left_out, of_all in on_threads(judge, blocks):
        scores[numbers] = left_out
        seen[numbers] = of_all
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
class LeaveOut(Judge):
    """The pass that leaves every row out.

    Parameters
    ----------
    plan : Plan
    ridge : Ridge
    guard : LeftOutGuard
    scored : bool
        Whether left-out scores are wanted, beside sums that the structure needs.
    """

    plan: Plan
    ridge: Ridge
    guard: LeftOutGuard
    scored: bool = True

    leaves_groups: ClassVar[bool] = True

    def of(self, rows: CodedRows) -> LeftOut:
        """Tails of the left-out scores of rows whose tasks are numbers, and sums over them."""
        return self.gathered(rows)[0]

    def judged(self, rows: CodedRows) -> Array:
        """Left-out scores (n,); NaN for outliers, and for rows that shaped the landmarks."""
        return self.gathered(rows)[1]

    def gathered(self, rows: CodedRows) -> tuple[LeftOut, Array]:
        """What `of` and `judged` give."""
        normal = np.flatnonzero(~rows.outlier)
        tasks = np.unique(rows.codes[normal])
        scores = np.full(len(rows.codes), np.nan)
        seen = np.full(len(rows.codes), np.inf)
        values = np.zeros((len(tasks), len(self.plan.points)))
        mass = np.zeros(len(tasks))

        def judge(part: slice) -> tuple[Codes, Array, Array]:
            numbers = normal[part]
            block = rows.take(numbers)
            scores[numbers], half, shares, seen[numbers] = self.without_guard(
                block.X, block.codes, block.weight
            )
            present, summing = by_task(block.codes, shares)
            return present, summing.sum(axis=1), summing @ half

        blocks = kernel_blocks(len(normal), len(self.plan.points))
        for present, shares, sums in on_threads(judge, blocks):
            place = np.searchsorted(tasks, present)
            values[place] += sums
            mass[place] += shares
        if not self.scored:
            return LeftOut(None, tasks, values, mass), scores
        unseen = self.plan.unseen(rows.X)
        scores[~unseen] = np.nan
        if isinstance(rows, TrainingRows) and rows.group is not None:
            scores[unseen] = self._without_groups(rows.take(np.flatnonzero(unseen)))
        else:
            # All rows of a task at once: blocks have few of each where there are many tasks.
            normal_rows = rows.take(normal) if len(normal) < len(rows.codes) else rows
            scores[normal] = self.guard.lower(scores[normal], normal_rows)
        tails = Tails.known(scores, rows, len(self.plan.tasks), seen)
        return LeftOut(tails, tasks, values, mass), scores

    def _without_groups(self, rows: TrainingRows) -> Array:
        """Scores (n,) of rows under models without those that leave with them; NaN: none do."""
        plan = self.plan
        ridge = self.ridge
        normal = np.flatnonzero(~rows.outlier)
        residual = np.full(len(rows.codes), np.nan)
        if not len(normal):
            return residual
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
        return scores

    def merge(self, one: LeftOut, other: LeftOut) -> LeftOut:
        """What both gathered."""
        tails = None
        if one.tails is not None and other.tails is not None:
            tails = one.tails.merged(other.tails)
        pairs = (one.values, other.values), (one.mass, other.mass)
        return LeftOut(tails, *added(one.tasks, other.tasks, *pairs))

    def finished(self, gathered: LeftOut) -> LeftOut:
        """What all blocks gathered, with sums of kernel values: ``k_i = Q (Q^-1 k_i)``."""
        values = blas.dtrmm(1.0, self.ridge.factor, gathered.values.T, lower=1).T
        return replace(gathered, values=values)

    def without_guard(
        self, X: Rows, codes: Codes, weight: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Left-out scores (b,), ``Q^-1 k`` of each row (b, m), ``w / (1 - leverage)`` (b,).

        Last, the scores of the rows under the model of all, shape (b,).
        """
        ridge = self.ridge
        K = self.plan.values(X)
        residual = 1.0 - np.einsum("ij,ij->i", K, ridge.coef.T[codes])
        half = solve_lower(ridge.factor, K)
        leverage = weight * np.einsum("ij,ij->i", half, half)
        remaining = one_minus_leverage(1.0 - leverage, weight)
        left = residual / remaining
        count = np.minimum(weight, 1.0)
        total = ridge.counts[codes]
        residual_sum = (ridge.counts * (1.0 - ridge.mean_response))[codes]
        mean = left_out_mean(residual_sum, count * left * residual, total, count)
        seen = -np.abs(residual - (1.0 - ridge.mean_response[codes]))
        return -np.abs(left - mean), half, weight / remaining, seen
