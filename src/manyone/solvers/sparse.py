"""Sparse non-linear structure learning (OCKSR-NS): the second layer by a sparse group lasso.

As in `nonlinear`, the first layer is held as feature weights W and the second layer is eliminated:
for every W the lasso is solved exactly, warm-started from the last one, and the envelope theorem
gives the slope of the remaining function of W.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from manyone._types import Array
from manyone.solvers.nonlinear import (
    Descent,
    TwoLayerProblem,
    descend,
    gradient_steps,
    gram,
    pull_back,
    respond,
    solve_nonlinear,
)
from manyone.solvers.running import blas_for
from manyone.solvers.sparse_group_lasso import SparseGroupLassoSolution, solve_sparse_group_lasso

_GAP = 1e-5  # relative duality gap at which the support of a lasso is worth a try
_ROUGH = 1e-4  # relative decrease at which the ridge's solution is near enough to start from


class SparseSolution(NamedTuple):
    """What `solve_sparse` returns; ``structure[s, t]`` is the norm of block s of output t."""

    W: Array
    theta: float
    objective_path: Array
    n_iter: int
    converged: bool
    B: Array
    structure: Array
    duality_gap: float


@dataclass
class SparseObjective:
    """The objective with the second layer eliminated; `B` (n, T) is the last one found."""

    problem: TwoLayerProblem
    l1: float
    group: float
    B: Array | None = None

    def second_layer(self, J: Array) -> SparseGroupLassoSolution:
        """Minimise over B for this J (n, n); a row of weight k acts as k copies of the row."""
        # Copies of a row share its coefficient evenly, so its part in a block norm is b^2 / k:
        # with b = sqrt(k) c the block norm is plain again and the l1 strength carries sqrt(k).
        R, groups, root = self.problem.R, self.problem.groups, np.sqrt(self.problem.weight)[:, None]
        J, l1, start = J * root * root.T, self.l1 * root[:, 0], self.B
        start = None if start is None else start / root
        found = solve_sparse_group_lasso(J, R * root, groups, l1, self.group, B=start, tol=_GAP)
        self.B = found.B * root
        return found._replace(B=self.B)

    def __call__(self, W: Array, theta: float) -> tuple[float, Array, float]:
        """Objective, its gradient in W (m, T), and its derivative in log theta."""
        problem = self.problem
        Y = problem.Phi @ W
        J = gram(Y, Y, theta)
        second = self.second_layer(J)
        value = second.objective_path[-1] + problem.alpha * float(np.vdot(W, W))
        outer = 2.0 * problem.weight[:, None] * (J @ second.B - problem.R)
        left, right = np.hstack([outer, second.B]), np.hstack([second.B, outer])
        return value, *pull_back(problem, W, theta, Y, J, left, right)


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
    entries = np.clip(entries, 1e-5 * largest, 0.1 * largest)
    return float(entries), float(np.clip(blocks, 1e-5 * longest, 0.1 * longest))


def sparse_start(problem: TwoLayerProblem, max_iter: int) -> Array:
    """First layer (m, T) of the ridge, which is cheap: near it the lasso needs few iterations."""
    return solve_nonlinear(problem, problem.unit, Descent(_ROUGH, max_iter)).W


def solve_sparse(problem: TwoLayerProblem, l1: float, group: float, how: Descent) -> SparseSolution:
    """Minimise ``|JB-R|^2 + alpha |W|_F^2 + l1 |B|_1 + group sum_{s,t} |B_{G_s,t}|_2``.

    Over W and B, with ``J_ij = exp(-theta |y_i - y_j|^2)`` and ``Y = Phi W``. As in
    `solve_nonlinear` only ``alpha / theta`` matters, and learning theta leaves no minimiser.

    Parameters
    ----------
    problem : TwoLayerProblem
        ``G_s`` are the rows whose `groups` are s.
    l1, group : float
        In units of the problem.
    how : Descent
        "paper" is Algorithm 3, whose first slope here uses the lasso solution at the initial J.

    Returns
    -------
    SparseSolution
        ``duality_gap`` is that of the final lasso.
    """
    evaluate = SparseObjective(problem, l1, group)
    with blas_for(len(problem.R)):
        if how.solver == "paper":
            found = gradient_steps(evaluate, evaluate(problem.W, problem.theta), problem, how)
        else:
            found = descend(evaluate, problem, how)
        Y = problem.Phi @ found[0]
        last = evaluate.second_layer(gram(Y, Y, found[1]))
    return SparseSolution(*found, last.B, last.structure, last.duality_gap)
