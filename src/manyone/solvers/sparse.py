"""Sparse non-linear structure learning (OCKSR-NS): the second layer by a sparse group lasso.

As in `nonlinear`, the first layer is held as feature weights W and the second layer is eliminated:
for every W the lasso is solved to a small duality gap, warm-started from the last one, and the
envelope theorem gives the slope of the remaining function of W.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyone.solvers.nonlinear import descend, gradient_steps, gram, pull_back
from manyone.solvers.sparse_group_lasso import SparseGroupResult, sparse_group_lasso
from manyone.solvers.running import blas_for
from manyone.solvers.running import Report

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_FINAL_GAP = 1e-10  # of the second layer that is returned


class SparseResult(NamedTuple):
    """What `sparse` returns; ``structure[s, t]`` is the norm of the block of source s, output t."""

    W: Array
    B: Array
    theta: float
    structure: Array
    objective_path: Array
    n_iter: int
    n_evaluations: int
    converged: bool
    duality_gap: float


class _Lasso(NamedTuple):
    """The second-layer problem for a given J; a row of weight k acts as k copies of the row."""

    R: Array
    groups: Index
    l1: float
    group: float
    weights: Array | None
    exempt_diagonal: bool
    rows: bool
    weight: Array | None
    tol: float

    def solve(self, J: Array, B: Array | None) -> SparseGroupResult:
        """Solve it, from the start B."""
        root = None if self.weight is None else np.sqrt(self.weight)
        # Copies of a row share its coefficient evenly, so its part in a block norm is b^2 / k:
        # with b = sqrt(k) c the block norm is plain again and the l1 strength carries sqrt(k).
        found = sparse_group_lasso(
            J if root is None else J * root[:, None] * root,
            self.R if root is None else self.R * root[:, None],
            self.groups,
            self.l1 if root is None else self.l1 * root,
            self.group,
            weights=self.weights,
            exempt_diagonal=self.exempt_diagonal,
            rows=self.rows,
            B=B if root is None or B is None else B / root[:, None],
            tol=self.tol,
        )
        return found if root is None else found._replace(B=found.B * root[:, None])

    def take(self, rows: Index) -> "_Lasso":
        """The same problem on some of the rows."""
        groups = np.unique(self.groups[rows], return_inverse=True)[1]
        weight = None if self.weight is None else self.weight[rows]
        return self._replace(R=self.R[rows], groups=groups, weight=weight)


class _Projected:
    """Objective and gradient with B eliminated."""

    def __init__(self, Phi: Array, alpha: float, lasso: _Lasso) -> None:
        self.Phi, self.alpha, self.lasso = Phi, alpha, lasso
        self.B: Array | None = None
        self.n_evaluations = 0

    def __call__(self, W: Array, theta: float) -> tuple[float, Array, float]:
        """Objective, its gradient in W, and its derivative in log theta."""
        self.n_evaluations += 1
        Y = self.Phi @ W
        J = gram(Y, Y, theta)
        second = self.lasso.solve(J, self.B)
        self.B = B = second.B
        outer = 2.0 * (J @ B - self.lasso.R)
        if self.lasso.weight is not None:
            outer *= self.lasso.weight[:, None]
        slope = pull_back(J, np.hstack([outer, B]), np.hstack([B, outer]), Y, theta)
        gradient = self.Phi.T @ slope
        by_log_theta = 0.5 * float(np.vdot(W, gradient))
        value = second.objective_path[-1] + self.alpha * float(np.vdot(W, W))
        return value, gradient + (2.0 * self.alpha) * W, by_log_theta


def sparse(
    Phi: Array,
    R: Array,
    groups: Index,
    alpha: float,
    l1: float,
    group: float,
    theta: float,
    *,
    W: Array,
    weights: Array | None = None,
    exempt_diagonal: bool = False,
    rows: bool = False,
    weight: Array | None = None,
    learn_theta: bool = False,
    solver: str = "lbfgs",
    step_weights: float = 1e-3,
    step_theta: float = 1e-3,
    tol: float = 1e-6,
    inner_tol: float = 1e-8,
    max_iter: int = 200,
    report: Report | None = None,
) -> SparseResult:
    """Minimise ``|JB-R|^2 + alpha |W|_F^2 + l1 |B|_1 + group sum_{s,t} w_s |B_{G_s,t}|_2``.

    Over W and B, with ``J_ij = exp(-theta |y_i - y_j|^2)`` and ``Y = Phi W``. As in `nonlinear`
    only ``alpha / theta`` matters, and learning theta leaves no minimiser.

    Parameters
    ----------
    Phi : array of shape (n, m)
        Feature rows, ``K = Phi Phi'``.
    R : array of shape (n, T)
        Responses; rows of known outliers are zero.
    groups : int array of shape (n,)
        Source task 0, ..., S - 1 of every training row.
    alpha, l1, group, theta : float
        Strengths and the second-layer kernel coefficient.
    W : array of shape (m, T)
        Where to start: the solution of the joint ridge problem.
    weights, exempt_diagonal, rows
        As in `sparse_group_lasso`.
    weight : array of shape (n,), optional
        Positive row weights; integers act as repetitions (``rows=False``).
    learn_theta, solver, step_weights, step_theta, tol, max_iter
        As in `nonlinear`; "paper" is Algorithm 3, whose first slope here uses the lasso solution
        at the initial J.
    inner_tol : float
        Relative duality gap of the lasso inside; the last one is solved to 1e-10.
    report : callable, optional
        Called with the number of every accepted iterate and its objective.

    Returns
    -------
    SparseResult
        ``duality_gap`` is that of the final lasso.
    """
    lasso = _Lasso(R, groups, l1, group, weights, exempt_diagonal, rows, weight, inner_tol)
    projected = _Projected(Phi, alpha, lasso)
    with blas_for(len(Phi)):
        if solver == "paper":
            metric = Phi.T @ (Phi if weight is None else weight[:, None] * Phi)
            steps = step_weights, step_theta if learn_theta else 0.0
            first = projected(W, theta)
            found = gradient_steps(projected, first, W, theta, metric, steps, tol, max_iter, report)
        else:
            found = descend(projected, W, theta, learn_theta, tol, max_iter, report)
        W, theta, path, converged = found
        Y = Phi @ W
        final = lasso._replace(tol=min(inner_tol, _FINAL_GAP))
        second = final.solve(gram(Y, Y, theta), projected.B)
    n_iter = len(path) - (solver != "paper")
    return SparseResult(
        W,
        second.B,
        theta,
        second.structure,
        path,
        n_iter,
        projected.n_evaluations,
        converged,
        second.duality_gap,
    )
