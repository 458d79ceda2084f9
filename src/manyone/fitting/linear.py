"""OCKSR-L by passes: the structure from sums, left-out scores row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from manyone._types import Array, Codes, Rows
from manyone.data.rows import CodedRows
from manyone.fitting.left_out import JudgedRows, LeftOutPass, judged_rows
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import Statistics, symmetric
from manyone.kernels.landmarks import expanded
from manyone.models.nearness import LeftOutGuard
from manyone.solvers.eigenbasis import eigenbasis
from manyone.solvers.ridge import effective_alpha, left_out_rows, one_minus_leverage


class LinearProblem(NamedTuple):
    """The problem of :func:`manyone.solvers.linear.solve_linear`, from sums over rows.

    Attributes
    ----------
    eigenvalues : ndarray of shape (r,)
    M : ndarray of shape (r, T)
        Responses in the eigenbasis.
    outside : float
        Squared norm of the part of the responses that is not in it.
    alpha : float
        In units of the mean weight, as all of the above.
    V : ndarray of shape (m, r)
        Eigenvectors of the moments of the feature rows.
    unit : float
        Mean weight.
    """

    eigenvalues: Array
    M: Array
    outside: float
    alpha: float
    V: Array
    unit: float


def linear_problem(statistics: Statistics, alpha: float) -> LinearProblem:
    """The problem of rows of which only the statistics are known.

    Parameters
    ----------
    statistics : Statistics
        Of feature rows, not of kernel values.
    alpha : float

    Returns
    -------
    LinearProblem
    """
    unit = float(statistics.counts.sum()) / statistics.n_rows
    ridge = float(effective_alpha(alpha, statistics.trace)) / unit
    moments = symmetric(statistics.moments) / unit
    lam, V = eigenbasis(moments, ridge, np.ones(len(moments)))
    M = (V.T @ (statistics.sums.T / unit)) / np.sqrt(lam)[:, None]
    outside = max(float(statistics.counts.sum()) / unit - float(np.vdot(M, M)), 0.0)
    return LinearProblem(lam, M, outside, ridge, V, unit)


@dataclass(frozen=True, eq=False)
class LeaveOutOfStructure(LeftOutPass):
    """The pass that leaves every row out, the structure held fixed.

    See :func:`manyone.solvers.eigenbasis.left_out_scores_of_structure`.

    Parameters
    ----------
    plan : Plan
    basis : ndarray of shape (m, r)
        Feature rows times it are rows in the eigenbasis.
    targets : ndarray of shape (r, T)
        Responses in the eigenbasis.
    shrunk : ndarray of shape (r, T)
        Share of each direction that the ridge does not fit, along every eigenvector of
        the structure.
    Q : ndarray of shape (T, T)
        These eigenvectors.
    counts, mean_response : ndarray of shape (T,)
    guard : LeftOutGuard
    """

    plan: Plan
    basis: Array
    targets: Array
    shrunk: Array
    Q: Array
    counts: Array
    mean_response: Array
    guard: LeftOutGuard

    @classmethod
    def by(
        cls,
        plan: Plan,
        problem: LinearProblem,
        B: Array,
        counts: Array,
        mean: Array,
        guard: LeftOutGuard,
    ) -> LeaveOutOfStructure:
        """The pass for a structure B (T, T)."""
        lam = problem.eigenvalues * problem.unit
        alpha = problem.alpha * problem.unit
        values, Q = eigh(B @ B)
        shrunk = alpha / (lam[:, None] * np.maximum(values, 0.0) + alpha)
        targets = problem.M * np.sqrt(problem.unit)
        return cls(
            plan, problem.V / np.sqrt(lam), targets, shrunk, Q, counts, mean, guard
        )

    def judge(self, rows: CodedRows) -> JudgedRows:
        """See :class:`LeftOutPass`."""
        width = 3 * len(self.basis) + 6 * len(self.Q)
        return judged_rows(self.plan, rows, self._scores, self.guard, width)

    def _scores(self, X: Rows, codes: Codes, weight: Array) -> JudgedRows:
        coordinates = self.plan.features(X) @ self.basis
        back = self.Q[codes]
        own_targets = coordinates * self.targets.T[codes]
        residuals = back - coordinates @ ((1.0 - self.shrunk) * (self.targets @ self.Q))
        squares = weight[:, None] * coordinates**2
        missing = np.maximum(1.0 - squares.sum(axis=1), 0.0)[:, None]
        left_out = residuals / one_minus_leverage(
            missing + squares @ self.shrunk, weight[:, None]
        )
        unexplained = 1.0 - own_targets.sum(axis=1)[:, None] + own_targets @ self.shrunk
        left = np.einsum("iq,iq->i", back, left_out)
        moved = np.einsum("iq,iq->i", back, left_out * unexplained)
        residual = np.einsum("iq,iq->i", back, residuals)
        mean = self.mean_response[codes]
        scores, responses = left_out_rows(
            residual,
            left,
            moved,
            weight,
            self.counts[codes],
            mean,
            structure_fixed=True,
        )
        return JudgedRows(scores, -np.abs(residual - (1.0 - mean)), responses)


def weights_of(plan: Plan, problem: LinearProblem, coef: Array) -> tuple[Array, Array]:
    """Weights of the feature rows (m, T), and coefficients of the landmarks (m, T)."""
    W = problem.V @ (np.sqrt(problem.eigenvalues)[:, None] * coef)
    return W, np.asfortranarray(expanded(plan.factor, W))
