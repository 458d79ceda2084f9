"""Sparse non-linear structure learning (OCKSR-NS): a lasso as second layer.

As in `two_layers`, the first layer is held as feature weights W, and the second layer
is eliminated. For every W the lasso is solved exactly, from the last solution on. The
envelope theorem gives the slope of the remaining function of W.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from manyone._types import Array, Codes
from manyone.solvers.nonlinear import pull_back, solve_nonlinear
from manyone.solvers.sparse_group_lasso import (
    SparseGroupLassoSolution,
    solve_sparse_group_lasso,
)
from manyone.solvers.two_layer_landmarks import (
    moments_of,
    pull_back_on,
)
from manyone.solvers.two_layers import (
    Descent,
    FirstLayerMinimum,
    TwoLayerProblem,
    descend,
    gram,
    respond,
)
from manyone.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class SparseSolution(FirstLayerMinimum):
    """What `solve_sparse` returns; ``structure[s, t]``: norm of block s of output t.

    B is of shape (n, T), or (q, T) where the second layer is expanded over q centres.
    """

    B: Array
    structure: Array
    duality_gap: float


@dataclass
class SparseObjective:
    """The objective with the second layer eliminated; `B` is the last one found.

    `centres` (q,) are the rows that it is expanded over; None: all of them.
    """

    problem: TwoLayerProblem
    l1: float
    group: float
    centres: Codes | None = None
    B: Array | None = None

    def second_layer(self, J: Array) -> SparseGroupLassoSolution:
        """Minimise over B for this J (n, q); a row of weight k acts as k copies."""
        # Copies of a row share its coefficient evenly, so its part in a block norm is
        # b^2 / k: with b = sqrt(k) c the block norm is plain again and the l1 strength
        # carries sqrt(k).
        R = self.problem.R
        weight = self.problem.weight
        groups = self.problem.groups
        root = np.sqrt(weight)[:, None]
        if self.centres is None:
            scale = root
            outside = 0.0
            design = J * root * root.T
            target = R * root
        else:
            scale = root[self.centres]
            groups = groups[self.centres]
            moments = scale * (J.T @ (weight[:, None] * R))
            squares = moments_of(J, weight) * scale * scale.T
            design, target = as_lasso(squares, moments)
            outside = float(np.vdot(R * root, R * root))
            outside -= float(np.vdot(target, target))
        lasso = solve_sparse_group_lasso(
            design,
            target,
            groups,
            self.l1 * scale[:, 0],
            self.group,
            B=None if self.B is None else self.B / scale,
            tol=1e-5,
        )
        self.B = lasso.B * scale
        return lasso._replace(B=self.B, objective_path=lasso.objective_path + outside)

    def __call__(self, W: Array, theta: float) -> tuple[float, Array, float]:
        """Objective, its gradient in W (m, T), and its derivative in log theta."""
        problem = self.problem
        J, Y = self.kernel(W, theta)
        second = self.second_layer(J)
        value = second.objective_path[-1] + problem.alpha * float(np.vdot(W, W))
        outer = 2.0 * problem.weight[:, None] * (J @ second.B - problem.R)
        if self.centres is not None:
            slopes = pull_back_on(
                problem, self.centres, W, theta, Y, J, outer, second.B
            )
            return value, *slopes
        left = np.hstack([outer, second.B])
        right = np.hstack([second.B, outer])
        return value, *pull_back(problem, W, theta, Y, J, left, right)

    def kernel(self, W: Array, theta: float) -> tuple[Array, Array]:
        """Columns of the second kernel (n, q), and responses (n, T)."""
        Y = self.problem.Phi @ W
        return gram(Y, Y if self.centres is None else Y[self.centres], theta), Y


def as_lasso(moments: Array, slopes: Array) -> tuple[Array, Array]:
    """A design F (q, q) and targets (q, T) with ``F'F`` and ``F' targets`` as given.

    Of ``|JB - R|^2`` a lasso sees no more than ``J'J`` (`moments`, lower triangle) and
    ``J'R`` (`slopes`): the two objectives differ by a constant.
    """
    lower, info = dpotrf(moments, lower=1, clean=1)
    if info:
        raise np.linalg.LinAlgError(
            "the moments of the second layer are not positive definite"
        )
    return lower.T, solve_triangular(lower, slopes, lower=True, check_finite=False)


def sparse_problem(problem: TwoLayerProblem) -> TwoLayerProblem:
    """The problem with weights that a lasso resolves: fewer magnitudes than a ridge."""
    weight = np.minimum(problem.weight, 1e8 * problem.weight.min())
    _, groups = np.unique(problem.groups, return_inverse=True)
    return problem._replace(weight=weight, groups=groups.astype(np.intp))


def sparse_strengths(
    problem: TwoLayerProblem,
    l1: str | float,
    group: str | float,
    centres: Codes | None = None,
) -> tuple[float, float]:
    """`l1` and `group` in units of the problem, within what leaves a second layer.

    "auto" is a hundredth of the `l1` at which a task's function would vanish; numbers
    are kept between 1e-5 and 0.1 of what makes one vanish.
    """
    Y = problem.Phi @ problem.W  # wherever it starts, the same problem
    weighted = problem.weight[:, None] * problem.R
    if centres is None:
        moments = respond(Y, Y, weighted, problem.theta)
    else:
        moments = respond(Y[centres], Y, weighted, problem.theta)
        weighted = weighted[centres]
    slope = 2.0 * moments
    largest = float(np.abs(slope).max(axis=0).min())
    # A block norm has b^2 / w of a row of weight w: its strength has another unit.
    longest = float(np.sqrt(np.einsum("it,it->t", weighted, slope**2).min()))
    auto = 0.01 * largest
    unit = problem.unit
    entries = auto if isinstance(l1, str) else l1 / unit
    blocks = auto if isinstance(group, str) else min(group / unit, 1e100)
    blocks /= np.sqrt(unit)
    entries = np.clip(entries, 1e-5 * largest, 0.1 * largest)
    return float(entries), float(np.clip(blocks, 1e-5 * longest, 0.1 * longest))


def sparse_start(
    problem: TwoLayerProblem, max_iter: int, centres: Codes | None = None
) -> Array:
    """First layer (m, T) of the ridge: cheap, and close to that of the lasso."""
    how = Descent(1e-4, max_iter)
    return solve_nonlinear(problem, problem.unit, how, centres).W


def solve_sparse(
    problem: TwoLayerProblem,
    l1: float,
    group: float,
    how: Descent,
    centres: Codes | None = None,
) -> SparseSolution:
    """Minimise ``|JB-R|^2 + alpha |W|_F^2 + l1 |B|_1 + group sum_{s,t} |B_{G_s,t}|_2``.

    Over W and B, with ``J_ij = exp(-theta |y_i - y_j|^2)`` and ``Y = Phi W``. As in
    `solve_nonlinear` only ``alpha / theta`` matters, and learning theta leaves no
    minimiser.

    Parameters
    ----------
    problem : TwoLayerProblem
        ``G_s`` are the rows whose `groups` are s.
    l1, group : float
        In units of the problem.
    how : Descent
        "paper" is Algorithm 3, whose first slope here uses the lasso solution at the
        initial J.
    centres : ndarray of shape (q,) or None
        Rows that the second layer is expanded over, J being those columns; None: all
        rows.

    Returns
    -------
    SparseSolution
        ``duality_gap`` is that of the final lasso.
    """
    evaluate = SparseObjective(problem, l1, group, centres)
    with one_blas_thread(len(problem.R)):
        minimum = descend(evaluate, problem, how)
        J, _ = evaluate.kernel(minimum.W, minimum.theta)
        lasso = evaluate.second_layer(J)
    return SparseSolution(
        **vars(minimum),
        B=lasso.B,
        structure=lasso.structure,
        duality_gap=lasso.duality_gap,
    )
