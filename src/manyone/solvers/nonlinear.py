"""Non-linear structure learning (OCKSR-N): a Gaussian kernel over responses.

As in `two_layers`, with a ridge as second layer: its B has a closed form and is
eliminated. One evaluation is one Cholesky factorisation, one solve and four n x n x T
products; symmetric matrices are formed one block triangle at a time, in two n x n
buffers. Over few centres see :mod:`manyone.solvers.two_layer_landmarks`.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg.lapack import dposv

from manyone._types import Array, Codes
from manyone.solvers.ridge import BLOCK
from manyone.solvers.two_layer_landmarks import landmark_objective, second_layer_on
from manyone.solvers.two_layers import (
    Descent,
    FirstLayerMinimum,
    TwoLayerProblem,
    descend,
    gradient_steps,
    gram,
    in_units,
)
from manyone.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class NonlinearSolution(FirstLayerMinimum):
    """What `solve_nonlinear` returns: with the best B (n, T) and the beta used."""

    B: Array
    beta: float


def solve_nonlinear(
    problem: TwoLayerProblem, beta: float, how: Descent, centres: Codes | None = None
) -> NonlinearSolution:
    """Minimise ``sum_i w_i |(JB - R)_i|^2 + alpha |W|_F^2 + beta tr(B'JB)``, W and B.

    ``J_ij = exp(-theta |y_i - y_j|^2)`` with ``Y = Phi W``. B is eliminated, which
    leaves ``beta tr(R'(J + beta diag(1/w))^-1 R) + alpha |W|_F^2``. Only ``alpha /
    theta`` matters: ``(cW, theta / c^2)`` gives the same J, so with ``learn_theta`` the
    penalty can be made arbitrarily small, no minimiser exists, and ``max_iter`` decides
    the model.

    Parameters
    ----------
    problem : TwoLayerProblem
        Integer weights act as repetitions; 1e10 beta is the largest that is resolved.
    beta : float
        Before it is divided by the unit of the problem. A ridge beyond what a task
        weighs would leave nothing for the first layer to learn from: it is brought back
        to that.
    how : Descent
        "paper" starts with B for tasks that do not interact; over centres, with the
        best B.
    centres : ndarray of shape (q,) or None
        Rows Z that the second layer is expanded over: ``J_Z B`` instead of ``JB``, with
        the penalty ``beta tr(B' J_ZZ B)``. None: all rows.

    Returns
    -------
    NonlinearSolution
        With B of shape (n, T), or (q, T).
    """
    problem, beta, least = in_units(problem, beta)
    with one_blas_thread(len(problem.R)):
        if centres is not None:
            over_centres = partial(landmark_objective, problem, beta, centres)
            minimum = descend(over_centres, problem, how, least)
            Y = problem.Phi @ minimum.W
            J = gram(Y, Y[centres], minimum.theta)
            B, _, _ = second_layer_on(problem, beta, centres, J)
        else:
            buffers = np.empty((2, len(problem.R), len(problem.R)))
            evaluate = partial(reduced_objective, problem, beta, buffers)
            if how.solver == "paper":
                first = _first_slope(problem, beta)
                minimum = gradient_steps(evaluate, first, problem, how)
            else:
                minimum = descend(evaluate, problem, how, least)
            Y = problem.Phi @ minimum.W
            ridge = beta / problem.weight
            B = second_layer(Y, problem.R, ridge, minimum.theta, buffers)
    return NonlinearSolution(**vars(minimum), B=B, beta=beta * problem.unit)


def reduced_objective(
    problem: TwoLayerProblem, beta: float, buffers: Array, W: Array, theta: float
) -> tuple[float, Array, float]:
    """``beta tr(R'(J + beta diag(1/w))^-1 R) + alpha |W|_F^2``, with its two slopes.

    For W (m, T) and theta: the value, its gradient (m, T) and its derivative in log
    theta; `buffers` (2, n, n) are overwritten.
    """
    Y = problem.Phi @ W
    ridge = beta / problem.weight
    B = second_layer(Y, problem.R, ridge, theta, buffers)
    J = buffers[0]
    fit = beta * float(np.einsum("it,it->", B, problem.R))
    size = problem.alpha * float(np.einsum("mt,mt->", W, W))
    slope = (-2.0 * beta) * B
    return fit + size, *pull_back(problem, W, theta, Y, J, slope, B)


def second_layer(
    Y: Array, R: Array, ridge: Array | float, theta: float, buffers: Array | None = None
) -> Array:
    """Minimise ``sum_i w_i |(JB - R)_i|^2 + beta tr(B'JB)`` over B (n, T), Y fixed.

    It solves ``(J + diag(ridge)) B = R`` with ``ridge = beta / w``: a row of weight k
    acts as k copies. The upper block triangle of J and its factor are left in `buffers`
    (2, n, n).
    """
    J, factor = np.empty((2, len(Y), len(Y))) if buffers is None else buffers
    gram(Y, Y, theta, out=J)
    for start in range(0, len(Y), BLOCK):
        factor[start : start + BLOCK, start:] = J[start : start + BLOCK, start:]
    np.fill_diagonal(factor, 1.0 + ridge)
    _, B, info = dposv(factor.T, R, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(
            "the second-layer kernel plus ridge is not positive definite"
        )
    return B


def pull_back(
    problem: TwoLayerProblem,
    W: Array,
    theta: float,
    Y: Array,
    J: Array,
    left: Array,
    right: Array,
) -> tuple[Array, float]:
    """Gradient in W of ``g(J) + alpha |W|_F^2``, and the derivative of g in log theta.

    ``left right'`` (symmetric), with both of shape (n, k), is the symmetrised slope of
    g in J. With ``H = -theta J * (left right')`` its gradient in ``Y = Phi W`` (n, T)
    is twice the graph Laplacian of H applied to Y. Only the upper block triangle of J
    (n, n) is read.
    """
    n_rows, n_tasks = Y.shape
    # The last column collects the row sums of H.
    points = np.hstack([Y, np.ones((n_rows, 1))])
    product = np.zeros_like(points)
    for start in range(0, n_rows, BLOCK):
        stop = min(start + BLOCK, n_rows)
        H = left[start:stop] @ right[start:].T
        H *= J[start:stop, start:]
        product[start:stop] += H @ points[start:]
        product[stop:] += H[:, stop - start :].T @ points[start:stop]
    product *= -2.0 * theta
    gradient = problem.Phi.T @ (product[:, n_tasks:] * Y - product[:, :n_tasks])
    # J depends on theta and Y through sqrt(theta) Y only.
    by_log_theta = 0.5 * float(np.einsum("mt,mt->", W, gradient))
    return gradient + (2.0 * problem.alpha) * W, by_log_theta


def _first_slope(problem: TwoLayerProblem, beta: float) -> tuple[float, Array, float]:
    """Slope of the paper's first step, with B for tasks that do not interact."""
    R = problem.R
    weight = problem.weight
    Y = problem.Phi @ problem.W
    J = gram(Y, Y, problem.theta)
    B = weight[:, None] * R / (weight @ R + beta)
    outer = 2.0 * weight[:, None] * (J @ B - R) + beta * B
    left = np.hstack([outer, B])
    right = np.hstack([B, outer])
    return 0.0, *pull_back(problem, problem.W, problem.theta, Y, J, left, right)
