"""Two layers for many rows: the second layer is expanded over few of them, the centres.

With Z the rows of the centres the second layer is ``f = J_Z B``, ``J_Z`` (n, q) being
those columns of the second kernel J, instead of all n of them. Centres are rows: their
responses move with the first layer. One evaluation is one n x q^2 product, a Cholesky
factor of size q and six n x q x T products.
"""

import numpy as np
from scipy.linalg import blas
from scipy.linalg.lapack import dposv

from manyone._types import Array, Codes
from manyone.solvers.ridge import BLOCK
from manyone.solvers.two_layers import TwoLayerProblem, gram


def landmark_objective(
    problem: TwoLayerProblem, beta: float, centres: Codes, W: Array, theta: float
) -> tuple[float, Array, float]:
    """The objective with B eliminated, with its slopes in W (m, T) and log theta."""
    Y = problem.Phi @ W
    J = gram(Y, Y[centres], theta)
    B, value, inner = second_layer_on(problem, beta, centres, J)
    outer = 2.0 * problem.weight[:, None] * (J @ B - problem.R)
    inner *= beta * (B @ B.T)
    value += problem.alpha * float(np.vdot(W, W))
    slopes = pull_back_on(problem, centres, W, theta, Y, J, outer, B, inner)
    return value, *slopes


def second_layer_on(
    problem: TwoLayerProblem, beta: float, centres: Codes, J: Array
) -> tuple[Array, float, Array]:
    """Minimise over B for ``J_Z`` (n, q): B (q, T), the value, and ``J_ZZ`` (q, q)."""
    inner = J[centres]
    inner += inner.T.copy()
    inner *= 0.5
    weighted = problem.weight[:, None] * problem.R
    moments = J.T @ weighted
    M = moments_of(J, problem.weight)
    M += beta * inner
    _, B, info = dposv(M, moments, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(
            "the second-layer kernel plus ridge is not positive definite"
        )
    value = float(np.vdot(weighted, problem.R)) - float(np.vdot(moments, B))
    return B, value, inner


def moments_of(J: Array, weight: Array) -> Array:
    """``J' diag(w) J`` (q, q), lower triangle, made definite beside rounding."""
    scaled = np.sqrt(weight)[:, None] * J
    return add_rounding(blas.dsyrk(1.0, scaled.T, lower=1), float(weight.sum()))


def add_rounding(moments: Array, total: float) -> Array:
    """Moments of rows that weigh `total`, made definite beside rounding, in place.

    The responses of a task are nearly equal, and so are columns of J.
    """
    moments.flat[:: len(moments) + 1] += 1e-13 * len(moments) * total
    return moments


def pull_back_on(
    problem: TwoLayerProblem,
    centres: Codes,
    W: Array,
    theta: float,
    Y: Array,
    J: Array,
    left: Array,
    right: Array,
    inner: Array | None = None,
) -> tuple[Array, float]:
    """Gradient in W of ``g(J_Z, J_ZZ) + alpha |W|_F^2``, slope of g in log theta.

    Parameters
    ----------
    problem : TwoLayerProblem
    centres : ndarray of shape (q,)
    W : ndarray of shape (m, T)
    theta : float
    Y : ndarray of shape (n, T)
        Responses.
    J : ndarray of shape (n, q)
        ``J_Z``.
    left, right : ndarray of shape (n, k) and (q, k)
        ``left right'`` is the slope of g in ``J_Z``.
    inner : ndarray of shape (q, q) or None
        ``J_ZZ`` times the slope of g in it, entry by entry; symmetric.
    """
    points = np.hstack([Y, np.ones((len(Y), 1))])
    ends = points[centres]
    by_response = np.empty_like(Y)
    by_centre = np.zeros_like(ends)
    for start in range(0, len(Y), BLOCK):
        rows = slice(start, start + BLOCK)
        H = left[rows] @ right.T
        H *= J[rows]
        product = H @ ends  # the last column collects the row sums of H
        by_response[rows] = product[:, -1:] * Y[rows] - product[:, :-1]
        by_centre += H.T @ points[rows]
    if inner is not None:
        by_centre += 2.0 * (inner @ ends)
    by_response[centres] += by_centre[:, -1:] * Y[centres] - by_centre[:, :-1]
    gradient = (-2.0 * theta) * (problem.Phi.T @ by_response)
    # J depends on theta and Y through sqrt(theta) Y only.
    by_log_theta = 0.5 * float(np.vdot(W, gradient))
    return gradient + (2.0 * problem.alpha) * W, by_log_theta
