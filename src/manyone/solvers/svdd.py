"""Support vector data description: the smallest soft ball around the normal rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from manyone.solvers.box_qp import Floats, Indices, KernelRows, box_qp, multipliers


class SVDD(NamedTuple):
    """Solution of :func:`svdd`."""

    coef: Floats
    distance2: Floats
    centre_norm2: float
    radius2: float
    support: NDArray[np.bool_]
    objective: float
    n_iter: int
    converged: bool


def svdd(
    K: KernelRows,
    upper: float,
    sign: Floats | None = None,
    weight: Floats | None = None,
    tol: float = 1e-8,
    max_iter: int = 100_000,
) -> SVDD:
    r"""Minimise b'Kb - diag(K)'b subject to sum(b) = 1 and 0 <= s_i b_i <= C w_i.

    This is the dual, with b = s * a, of the soft ball

        min  R^2 + C sum_i w_i xi_i,   s_i |phi(x_i) - c|^2 <= s_i R^2 + xi_i,  xi >= 0,

    where c = sum_i b_i phi(x_i). Any positive semi-definite kernel will do.

    Parameters
    ----------
    K : array of shape (n, n), or CachedRows
    upper : float
        C. Below 1 / (total weight of the normal rows) there is no solution.
    sign : array of shape (n,), default=None
        +1 for normal rows, -1 for known outliers, which are kept outside. None: all normal.
    weight : array of shape (n,), default=None
        Integer weights act as repeated rows. None: ones.
    tol : float, default=1e-8
        Largest violation of the optimality conditions, relative to the largest self-similarity.
    max_iter : int, default=100_000
        Bound on the number of steps.

    Returns
    -------
    SVDD
        ``coef`` (n,): b; a new row x lies at k(x, x) - 2 k_x'b + ``centre_norm2`` from the centre,
        squared, and inside when that is below ``radius2``. ``distance2`` (n,): the same of the
        rows of K. ``support``: rows with b != 0.

    Raises
    ------
    Infeasible
        If C is too small.
    """
    diagonal = K.diagonal()
    sign = np.ones(len(diagonal)) if sign is None else sign
    bound = upper * (np.ones(len(diagonal)) if weight is None else weight)
    lower, upper_bound = np.where(sign > 0, 0.0, -bound), np.where(sign > 0, bound, 0.0)
    # Half the objective has the plain Hessian K.
    qp = box_qp(K, diagonal / 2, lower, upper_bound, tol=tol, max_iter=max_iter)
    threshold = multipliers(qp, lower, upper_bound)[0]
    # Squared distance to the centre: |c|^2 - 2 gradient.
    centre_norm2 = float(qp.coef @ (qp.gradient + diagonal / 2))
    return SVDD(
        coef=qp.coef,
        distance2=centre_norm2 - 2 * qp.gradient,
        centre_norm2=centre_norm2,
        radius2=max(float(centre_norm2 - 2 * threshold), 0.0),
        support=qp.coef != 0,
        objective=2 * qp.objective,
        n_iter=qp.n_iter,
        converged=qp.converged,
    )


def left_out_distances2(
    K: KernelRows, ball: SVDD, rows: Indices, excess: Floats, free: NDArray[np.bool_]
) -> Floats:
    r"""Minimise |phi_i - sum_j l_j phi_j|^2 over l with unit sum on the other free rows.

    Then b_i - ``excess``, with excess * l added to the free rows, is the ball that was solved
    again without (so much of) row i, exactly as long as no coefficient meets a bound on the way:
    the span of Vapnik and Chapelle. One factorisation serves all rows.

    Parameters
    ----------
    K : array of shape (n, n), or CachedRows
    ball : SVDD
        Solution for all rows.
    rows : array of shape (m,)
        The rows i to leave out.
    excess : array of shape (m,)
        What is taken from the coefficient of each.
    free : array of shape (n,)
        Rows with a coefficient between its bounds.

    Returns
    -------
    array of shape (m,)
        Squared distance of row i to the centre without it.
    """
    # Where too few rows are free, those next to the surface are the first to become so.
    near = np.argsort(np.abs(ball.distance2 - ball.radius2), kind="stable")[:2]
    basis = np.flatnonzero(free) if free.sum() > 1 else near
    diagonal, size = K.diagonal(), len(basis)
    towards = (diagonal + ball.centre_norm2 - ball.distance2) / 2  # <phi_j, c>
    block = K[basis]
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = block[:, basis]
    system[size, size] = 0.0
    # Twins and rank-deficient kernels leave l open, but not the distance.
    system.flat[: size * (size + 2) : size + 2] += 1e-10 * np.abs(diagonal).max()
    factor = lu_factor(system)
    place = np.full(len(diagonal), -1)
    place[basis] = np.arange(size)
    column = place[rows]
    inside = column >= 0
    right = np.ones((size + 1, len(rows)))
    right[:size] = block[:, rows]
    right[:, inside] = np.eye(size + 1)[:, column[inside]]
    weights = lu_solve(factor, right)[:size]
    # A free row is a combination of the others: its column of the inverse, scaled.
    own = weights[column[inside], np.flatnonzero(inside)]
    weights[:, inside] /= -np.where(own > 0, own, 1.0)
    weights[column[inside], np.flatnonzero(inside)] = 0.0
    similar = block[:, rows]
    slope = (
        diagonal[rows]
        - towards[rows]
        - np.einsum("ij,ij->j", weights, similar - towards[basis, None])
    )
    span2 = diagonal[rows] - 2 * np.einsum("ij,ij->j", weights, similar)
    span2 += np.einsum("ij,ij->j", weights, block[:, basis] @ weights)
    return ball.distance2[rows] + 2 * excess * slope + np.square(excess) * np.maximum(span2, 0.0)
