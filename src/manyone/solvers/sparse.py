"""Sparse non-linear structure learning (OCKSR-NS): the second layer by a sparse group lasso.

As in `nonlinear`, the first layer is held as feature weights W and the second layer is eliminated:
for every W the lasso is solved exactly, warm-started from the last one, and the envelope theorem
gives the slope of the remaining function of W.
"""

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.solvers.gradient_steps import gradient_steps
from manyone.solvers.nonlinear import (
    TwoLayerProblem,
    descend,
    gram,
    pull_back,
    respond,
    solve_nonlinear,
)
from manyone.solvers.running import Report, blas_for
from manyone.solvers.sparse_group_lasso import SparseGroupLassoSolution, solve_sparse_group_lasso

_GAP = 1e-5  # relative duality gap at which the support of a lasso is worth a try
_ROUGH = 1e-4  # relative decrease at which the ridge's solution is near enough to start from


class SparseSolution(NamedTuple):
    """What `solve_sparse` returns; ``structure[s, t]`` is the norm of block s of output t."""

    W: Array
    B: Array
    theta: float
    structure: Array
    objective_path: Array
    n_iter: int
    converged: bool
    duality_gap: float


class _Lasso(NamedTuple):
    """The second-layer problem for a given J; a row of weight k acts as k copies of the row."""

    R: Array
    groups: Codes
    l1: float
    group: float
    weight: Array

    def solve(self, J: Array, B: Array | None) -> SparseGroupLassoSolution:
        """Solve it, from the start B."""
        # Copies of a row share its coefficient evenly, so its part in a block norm is b^2 / k:
        # with b = sqrt(k) c the block norm is plain again and the l1 strength carries sqrt(k).
        root = np.sqrt(self.weight)
        found = solve_sparse_group_lasso(
            J * root[:, None] * root,
            self.R * root[:, None],
            self.groups,
            self.l1 * root,
            self.group,
            B=None if B is None else B / root[:, None],
            tol=_GAP,
        )
        return found._replace(B=found.B * root[:, None])


class _Projected:
    """Objective and gradient with B eliminated."""

    def __init__(self, Phi: Array, alpha: float, lasso: _Lasso) -> None:
        self.Phi, self.alpha, self.lasso = Phi, alpha, lasso
        self.B: Array | None = None

    def __call__(self, W: Array, theta: float) -> tuple[float, Array, float]:
        """Objective, its gradient in W, and its derivative in log theta."""
        Y = self.Phi @ W
        J = gram(Y, Y, theta)
        second = self.lasso.solve(J, self.B)
        self.B = B = second.B
        outer = 2.0 * self.lasso.weight[:, None] * (J @ B - self.lasso.R)
        slope = pull_back(J, np.hstack([outer, B]), np.hstack([B, outer]), Y, theta)
        gradient = self.Phi.T @ slope
        by_log_theta = 0.5 * float(np.vdot(W, gradient))
        value = second.objective_path[-1] + self.alpha * float(np.vdot(W, W))
        return value, gradient + (2.0 * self.alpha) * W, by_log_theta


def sparse_problem(problem: TwoLayerProblem) -> TwoLayerProblem:
    """The problem as a lasso can solve it: it resolves fewer orders of magnitude than a ridge."""
    weight = np.minimum(problem.weight, 1e8 * problem.weight.min())
    return problem._replace(
        weight=weight, groups=np.unique(problem.groups, return_inverse=True)[1].astype(np.intp)
    )


def sparse_strengths(
    problem: TwoLayerProblem, l1: str | float, group: str | float
) -> tuple[float, float]:
    """`l1` and `group` in units of the problem, where the second layer is neither 0 nor R.

    "auto" is a hundredth of the `l1` at which a task's function would vanish; numbers are kept
    between 1e-5 and 0.1 of what makes one vanish.
    """
    Y = problem.Phi @ problem.W  # wherever it starts, the same problem
    weighted = problem.weight[:, None] * problem.R
    slope = 2.0 * respond(Y, Y, weighted, problem.theta)
    largest = float(np.abs(slope).max(axis=0).min())
    # A block norm counts b^2 / w for a row of weight w: its strength has units of its own.
    longest = float(np.sqrt(np.einsum("it,it->t", weighted, slope**2).min()))
    auto = 0.01 * largest
    entries = auto if isinstance(l1, str) else l1 / problem.unit
    blocks = auto if isinstance(group, str) else min(group / problem.unit, 1e100)
    blocks /= np.sqrt(problem.unit)
    return (
        float(np.clip(entries, 1e-5 * largest, 0.1 * largest)),
        float(np.clip(blocks, 1e-5 * longest, 0.1 * longest)),
    )


def sparse_start(problem: TwoLayerProblem, max_iter: int) -> Array:
    """First layer (m, T) of the ridge, which is cheap: near it the lasso needs few iterations."""
    Phi, R, weight, _, alpha, W, theta, _ = problem
    beta = min(1.0, float(np.mean(weight @ R)))
    return solve_nonlinear(
        Phi, R, alpha, beta, theta, W=W, weight=weight, tol=_ROUGH, max_iter=max_iter
    ).W


def solve_sparse(
    Phi: Array,
    R: Array,
    groups: Codes,
    alpha: float,
    l1: float,
    group: float,
    theta: float,
    *,
    W: Array,
    weight: Array | None = None,
    learn_theta: bool = False,
    solver: str = "lbfgs",
    steps: tuple[float, float] = (1e-3, 1e-3),
    tol: float = 1e-6,
    max_iter: int = 200,
    report: Report | None = None,
) -> SparseSolution:
    """Minimise ``|JB-R|^2 + alpha |W|_F^2 + l1 |B|_1 + group sum_{s,t} |B_{G_s,t}|_2``.

    Over W and B, with ``J_ij = exp(-theta |y_i - y_j|^2)`` and ``Y = Phi W``. As in
    `solve_nonlinear` only ``alpha / theta`` matters, and learning theta leaves no minimiser.

    Parameters
    ----------
    Phi, R : arrays of shape (n, m) and (n, T)
        Feature rows, ``K = Phi Phi'``, and responses; those of known outliers are zero.
    groups : int array of shape (n,)
        Source task 0, ..., S - 1 of every training row.
    alpha, l1, group, theta : float
        Strengths and the second-layer kernel coefficient.
    W, weight, learn_theta, solver, steps, tol, max_iter, report
        As in `solve_nonlinear`; "paper" is Algorithm 3, whose first slope here uses the lasso
        solution at the initial J.

    Returns
    -------
    SparseSolution
        ``duality_gap`` is that of the final lasso.
    """
    weight = np.ones(len(R)) if weight is None else weight
    lasso = _Lasso(R, groups, l1, group, weight)
    projected = _Projected(Phi, alpha, lasso)
    with blas_for(len(Phi)):
        if solver == "paper":
            first, metric = projected(W, theta), Phi.T @ (weight[:, None] * Phi)
            steps = steps[0], steps[1] * learn_theta
            found = gradient_steps(projected, first, W, theta, metric, steps, tol, max_iter, report)
        else:
            found = descend(projected, W, theta, learn_theta, tol, max_iter, report)
        W, theta, path, converged = found
        Y = Phi @ W
        second = lasso.solve(gram(Y, Y, theta), projected.B)
    n_iter = len(path) - (solver != "paper")
    return SparseSolution(
        W, second.B, theta, second.structure, path, n_iter, converged, second.duality_gap
    )
