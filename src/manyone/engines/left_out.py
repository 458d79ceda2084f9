r"""Third pass: the score of every row under the model without it, and its place in its task's tail.

With leverage :math:`\ell_i = w_i \phi_i' (G + \alpha I)^{-1} \phi_i` the residual of a row under
the model without it is :math:`e_i / (1 - \ell_i)`, and the mean response of its task moves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from manyone._types import Array, Codes
from manyone.calibration.tails import Tails, kept_scores
from manyone.engines.blocks import Block, added, by_task, kernel_blocks
from manyone.engines.plan import Plan
from manyone.engines.statistics import Ridge
from manyone.solvers.ridge import left_out_mean, one_minus_leverage

# Scores that wait to be sorted.
_WAITING = 2**20


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What the pass gathers.

    Attributes
    ----------
    tails : Tails
        Left-out scores.
    tasks : ndarray of shape (t,)
        Codes of the tasks that occur.
    values : ndarray of shape (t, m)
        Sums of ``w_i k_i / (1 - leverage)`` over the normal rows of each, k_i being kernel values
        against the landmarks (until the pass is over, of ``Q^-1 k_i``).
    mass : ndarray of shape (t,)
        Sums of ``w_i / (1 - leverage)``.
    """

    tails: Tails
    tasks: Codes
    values: Array
    mass: Array


@dataclass(frozen=True, eq=False)
class LeaveOut:
    """The pass that leaves every row out.

    Parameters
    ----------
    plan : Plan
    ridge : Ridge
    unit : float
        Of what lowers the scores of rows far from everything.
    """

    plan: Plan
    ridge: Ridge
    unit: float

    def partial(self, block: Block) -> LeftOut:
        """Left-out scores of one block."""
        return self.of(block.checked().coded(self.plan.tasks))

    def of(self, rows: Any, out: Array | None = None) -> LeftOut:
        """Left-out scores of rows whose tasks are numbers; all of them in `out` (n,), if given."""
        kept = kept_scores(len(self.plan.tasks))
        tasks, m = np.unique(rows.codes[~rows.outlier]), len(self.plan.points)
        values, mass = np.zeros((len(tasks), m)), np.zeros(len(tasks))
        tails, waiting, number = Tails.of(np.zeros(0), rows.codes[:0], np.zeros(0), kept), [], 0
        for part in kernel_blocks(len(rows.codes), m):
            normal = np.flatnonzero(~rows.outlier[part]) + part.start
            codes, weight = rows.codes[normal], rows.weight[normal]
            scores, half, shares = self._judged(rows.X[normal], codes, weight)
            present, summing = by_task(codes)
            place = np.searchsorted(tasks, present)
            values[place] += (summing * shares) @ half
            mass[place] += summing @ shares
            new = self.plan.unseen(rows.X[normal])
            if out is not None:
                out[normal[new]] = scores[new]
                continue
            waiting.append(Tails.of(scores[new], codes[new], weight[new], kept))
            number += len(scores)
            if number >= _WAITING:
                tails, waiting, number = tails.merged(*waiting), [], 0
        return LeftOut(tails.merged(*waiting), tasks, values, mass)

    def merge(self, one: LeftOut, other: LeftOut) -> LeftOut:
        """What both gathered."""
        tails = one.tails.merged(other.tails)
        pairs = (one.values, other.values), (one.mass, other.mass)
        return LeftOut(tails, *added(one.tasks, other.tasks, *pairs))

    def finished(self, found: LeftOut) -> LeftOut:
        """What all blocks gathered, with sums of kernel values: ``k_i = Q (Q^-1 k_i)``."""
        values = blas.dtrmm(1.0, self.ridge.factor, found.values.T, lower=1).T
        return replace(found, values=values)

    def _judged(self, X: Any, codes: Codes, weight: Array) -> tuple[Array, Array, Array]:
        """Left-out scores (b,), ``Q^-1 k`` of each row (b, m), ``w / (1 - leverage)`` (b,)."""
        ridge = self.ridge
        K = np.ascontiguousarray(self.plan.values(X))
        own = 1.0 - np.einsum("ij,ij->i", K, ridge.coef.T[codes])
        half = blas.dtrsm(1.0, ridge.factor, K.T, lower=1, overwrite_b=1).T
        leverage = weight * np.einsum("ij,ij->i", half, half)
        kept = one_minus_leverage(1.0 - leverage, weight)
        left, count = own / kept, np.minimum(weight, 1.0)
        total = ridge.counts[codes]
        residual_sum = (ridge.counts * (1.0 - ridge.mean_response))[codes]
        mean = left_out_mean(residual_sum, count * left * own, total, count)
        scores = -np.abs(left - mean)
        if self.plan.reach is not None and self.unit > 0.0:
            scores -= self.plan.reach.penalties(X, codes, weight, self.unit)
        return scores, half, weight / kept
