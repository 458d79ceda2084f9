"""Distances of rows to the ball of their task without them.

A row inside the ball has no coefficient: without it the ball is the same. For a support
vector the ball is solved again without it or, in large tasks, its coefficient is shared
out among the free rows in closed form.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from manyone._types import Array, Codes, Mask
from manyone.solvers.box_qp import KernelRows
from manyone.solvers.svdd import SVDDSolution, solve_svdd
from manyone.threads import one_blas_thread

# With more normal rows the ball is moved instead of solved again.
_MOST_RESOLVED = 100


class LeftOutOfBall(NamedTuple):
    """What a ball says of rows that leave it one by one.

    Attributes
    ----------
    scores : array of shape (n,)
        Minus the squared distance to the ball without one count of the row; NaN for
        known outliers.
    growth : array of shape (n,)
        How much the mean distance of the other normal rows to the centre grows when the
        row leaves; 0 where the ball was not solved again.
    """

    scores: Array
    growth: Array


def left_out_of_ball(
    K: KernelRows,
    ball: SVDDSolution,
    sign: Array,
    weight: Array,
    nu: float,
    tol: float,
    max_iter: int,
) -> LeftOutOfBall:
    """Distances of normal rows to the ball without one count of each.

    Rows inside the ball keep their distance. With up to 100 normal rows, the ball is
    solved again without each support vector; with more it is moved
    (:func:`left_out_distances2`).

    Parameters
    ----------
    K : array of shape (n, n), or CachedRows
    ball : SVDDSolution
        Solution with C = 1 / nu in units of the total weight of the normal rows.
    sign : array of shape (n,)
        +1 for normal rows, -1 for known outliers.
    weight : array of shape (n,)
    nu, tol, max_iter
        As the ball was solved.

    Returns
    -------
    LeftOutOfBall
    """
    normal = np.flatnonzero(sign > 0)
    growth = np.zeros(len(sign))
    moved2 = _moved_distances2(K, ball, sign, weight, nu)
    if len(normal) > _MOST_RESOLVED:
        return LeftOutOfBall(_scores(moved2, sign, K), growth)
    distance2 = ball.distance2.copy()
    total = weight[normal].sum()
    count = np.minimum(weight, 1.0)
    # Bounds grow as the task shrinks: no matter, unless one was active.
    excess, free = _excess_and_free(ball, sign, weight, nu)
    same = np.all(free | (ball.coef == 0)) & (excess <= 0)
    for i in normal[~same[normal] & (total - count[normal] > 1e-9 * total)]:
        reduced = _one_count_less(weight, i)
        others = np.flatnonzero(reduced)
        share = reduced[others] / reduced[sign > 0].sum()
        block = K[others][:, others]
        without = solve_svdd(block, 1 / nu, sign[others], share, tol, max_iter)
        distance2[i] = K.diagonal()[i] - 2 * without.coef @ K[i][others]
        distance2[i] += without.centre_norm2
        # Moved balls are not exact: they stand on both sides of the difference.
        other2 = _moved_distances2(block, without, sign[others], reduced[others], nu)
        change = np.sqrt(other2) - np.sqrt(moved2[others])
        growth[i] = change @ np.where(sign[others] > 0, share, 0.0)
    return LeftOutOfBall(_scores(distance2, sign, K), growth)


def _one_count_less(weight: Array, row: int) -> Array:
    """Weights (n,) of the rows when one count of a row leaves."""
    reduced = weight.copy()
    left = weight[row] - min(weight[row], 1.0)
    reduced[row] = left if left > 1e-9 * weight[row] else 0.0
    return reduced


def _excess_and_free(
    ball: SVDDSolution, sign: Array, weight: Array, nu: float
) -> tuple[Array, Mask]:
    """The coefficient freed as a count of a row leaves, and free coefficients."""
    bound = 1.0 / (nu * weight[sign > 0].sum())
    fewer = weight - np.minimum(weight, 1.0)
    fewer[fewer <= 1e-9 * weight] = 0.0
    excess = np.maximum(ball.coef - bound * fewer, 0.0)
    at_bound = np.abs(ball.coef) >= bound * weight * (1 - 1e-9)
    return excess, (ball.coef != 0) & ~at_bound


def _moved_distances2(
    K: KernelRows, ball: SVDDSolution, sign: Array, weight: Array, nu: float
) -> Array:
    """Squared distances (n,) to the ball that has lost a count of each row."""
    excess, free = _excess_and_free(ball, sign, weight, nu)
    rows = np.flatnonzero((sign > 0) & (excess > 0))
    distance2 = ball.distance2.copy()
    if len(rows):
        with one_blas_thread(int(free.sum())):
            distance2[rows] = left_out_distances2(K, ball, rows, excess[rows], free)
    return np.maximum(distance2, 0.0)


def _scores(distance2: Array, sign: Array, K: KernelRows) -> Array:
    """Scores (n,) of normal rows by their squared distances."""
    # Support vectors tie in theory: lowered by more than rounding, they tie in
    # practice.
    tie_tolerance = 1e-9 * np.abs(K.diagonal()).max()
    return np.where(sign > 0, -np.maximum(distance2, 0.0) - tie_tolerance, np.nan)


def left_out_distances2(
    K: KernelRows, ball: SVDDSolution, rows: Codes, excess: Array, free: Mask
) -> Array:
    r"""Minimise |phi_i - sum_j l_j phi_j|^2 over l, unit sum, on the other free rows.

    Take ``excess`` from b_i, and add excess * l to the free rows. That is the ball
    solved again without so much of row i, exactly if no coefficient meets a bound on
    the way (the span of Vapnik and Chapelle). One factorisation serves all rows.

    Parameters
    ----------
    K : array of shape (n, n), or CachedRows
    ball : SVDDSolution
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
    diagonal = K.diagonal()
    size = len(basis)
    towards = (diagonal + ball.centre_norm2 - ball.distance2) / 2  # <phi_j, c>
    block = K[basis]
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = block[:, basis]
    system[size, size] = 0.0
    # Twins and rank-deficient kernels leave l open, but not the distance.
    largest = float(np.abs(diagonal).max())
    system.flat[: size * (size + 2) : size + 2] += 1e-10 * (largest or 1.0)
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
    pivot = weights[column[inside], np.flatnonzero(inside)]
    weights[:, inside] /= -np.where(pivot > 0, pivot, 1.0)
    weights[column[inside], np.flatnonzero(inside)] = 0.0
    similar = block[:, rows]
    slope = diagonal[rows] - towards[rows]
    slope -= np.einsum("ij,ij->j", weights, similar - towards[basis, None])
    span2 = diagonal[rows] - 2 * np.einsum("ij,ij->j", weights, similar)
    span2 += np.einsum("ij,ij->j", weights, block[:, basis] @ weights)
    moved = ball.distance2[rows] + 2 * excess * slope
    return moved + np.square(excess) * np.maximum(span2, 0.0)
