r"""Weighted kernel ridge regression: exact solutions and what follows in closed form.

All functions are about the problem

.. math:: \min_f \sum_i w_i \lVert f(x_i) - r_i \rVert^2 + \alpha \lVert f \rVert_k^2,
          \qquad f = \sum_i a_i k(x_i, \cdot)

with counts :math:`w_i > 0`. With :math:`S = \operatorname{diag}(\sqrt{w})` its solution
is :math:`a = S M^{-1} S R`, :math:`M = S K S + \alpha I`, the residuals are :math:`r_i
- f(x_i) = \alpha a_i / w_i`, and removing rows needs only diagonal (blocks) of
:math:`M^{-1}`.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, cho_solve, lapack

from manyone._types import Array, Mask

#: Rows, or columns, that are worked on at a time: enough to keep BLAS busy.
BLOCK = 512
#: Smallest ridge, as a share of the trace. It divides what a singular kernel matrix
#: cannot fit, and the rounding of that leaves three digits of the responses. Regular
#: matrices keep eight digits of an interpolation; with a larger ridge they would keep
#: fewer.
SMALLEST_RIDGE = 1e3 * np.finfo(float).eps


class NotPositiveDefinite(ValueError):
    """The kernel matrix plus the ridge has a negative eigenvalue, or is not finite."""

    REMEDY = (
        "Use a larger alpha, or a positive semi-definite kernel on rows of a moderate "
        "scale."
    )
    TEXT = (
        "The kernel matrix plus alpha={:g} is not positive definite (or not finite). "
        f"{REMEDY}"
    )


class RidgeSolution(NamedTuple):
    """Solution of one weighted kernel ridge problem.

    Attributes
    ----------
    coef : ndarray of shape (n, T)
        Expansion coefficients a.
    one_minus_leverage : ndarray of shape (n,)
        Of one count of each row: its left-out residual is its residual divided by it.
    factor : ndarray of shape (n, n)
        Lower Cholesky factor of S K S + alpha I (the upper triangle is not referenced).
    """

    coef: Array
    one_minus_leverage: Array
    factor: Array


def effective_alpha(alpha: Array | float, trace: Array | float) -> Array:
    """The ridge, within what double precision resolves beside this trace.

    At the lower end the solution is the minimum-norm interpolant, to eight digits, or
    to three where the kernel matrix is singular. At the upper end it is proportional to
    the kernel mean.

    Parameters
    ----------
    alpha : float or ndarray
        The ridge, or a grid of ridges.
    trace : float or ndarray
        Trace of the (weighted) kernel matrix, or one per problem.

    Returns
    -------
    float or ndarray
    """
    size = np.abs(trace)
    if not np.all(np.isfinite(size)):
        raise NotPositiveDefinite(
            "The kernel is not finite on the training rows. "
            f"{NotPositiveDefinite.REMEDY}"
        )
    with np.errstate(over="ignore"):
        clipped = np.clip(alpha, SMALLEST_RIDGE * size, 1e10 * size)
    return np.where(size > 0, clipped, np.where(np.greater(alpha, 0), alpha, 1.0))[()]


def solve_ridge(
    K: Array, R: Array, alpha: float, weight: Array, *, overwrite: bool = False
) -> RidgeSolution:
    r"""Minimise :math:`\sum_i w_i |f(x_i) - r_i|^2 + \alpha |f|_k^2` by one factor.

    Costs n^3/3 flops for the factor, n^3/3 for the leverages, 2 n^2 T for the
    coefficients.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric kernel matrix; Fortran order avoids a copy.
    R : ndarray of shape (n, T)
        Responses.
    alpha : float
        Ridge, > 0.
    weight : ndarray of shape (n,)
        Positive counts.
    overwrite : bool
        Whether K may be destroyed (its memory then holds the factor).

    Returns
    -------
    RidgeSolution

    Raises
    ------
    NotPositiveDefinite
        If K has an eigenvalue below -alpha.
    """
    root = np.sqrt(weight)
    L = factorise(K, alpha, root, overwrite=overwrite)
    coef = cho_solve((L, True), root[:, None] * R, overwrite_b=True, check_finite=False)
    coef *= root[:, None]
    complement = one_minus_leverage(alpha * inverse_diagonal(L), weight)
    return RidgeSolution(coef, complement, L)


def factorise(K: Array, alpha: float, root: Array, *, overwrite: bool = False) -> Array:
    """Lower Cholesky factor of ``root[:, None] * K * root + alpha I``, shape (n, n).

    Parameters
    ----------
    K : ndarray of shape (n, n)
    alpha : float
    root : ndarray of shape (n,)
        Square roots of the weights.
    overwrite : bool
        Whether K may be destroyed.
    """
    M = K if overwrite else K.copy(order="F")
    if not np.all(root == 1.0):
        M *= root[:, None]
        M *= root
    diagonal = np.einsum("ii->i", M)
    diagonal += alpha
    L, info = lapack.dpotrf(M, lower=1, overwrite_a=1, clean=0)
    if info or not np.all(np.isfinite(np.diagonal(L))):
        raise NotPositiveDefinite(NotPositiveDefinite.TEXT.format(alpha))
    return L


def inverse_diagonal(L: Array) -> Array:
    """Diagonal of (L L')^-1, shape (n,), in n^3/3 flops and O(n) more memory."""
    n = L.shape[0]
    diagonal = np.empty(n)
    for start in range(0, n, BLOCK):
        columns = np.eye(n - start, min(BLOCK, n - start), order="F")
        # Column j of L^-1 vanishes above row j: the trailing triangle is enough.
        columns = blas.dtrsm(1.0, L[start:, start:], columns, lower=1, overwrite_b=1)
        diagonal[start : start + BLOCK] = np.einsum("ij,ij->j", columns, columns)
    return diagonal


def one_minus_leverage(complement: Array, weight: Array) -> Array:
    """One minus the leverage of one count of each row.

    Parameters
    ----------
    complement : ndarray of shape (..., n)
        ``alpha * diag(M^-1)``, one minus the leverage of the whole row.
    weight : ndarray of shape (..., n)

    Returns
    -------
    ndarray of shape (..., n)
        A row of weight w keeps w - 1; one of weight up to 1 leaves altogether.
    """
    count = np.minimum(weight, 1.0)
    return (weight - count + count * complement) / weight


def primal_weights(Phi: Array, R: Array, alpha: float, weight: Array) -> Array:
    r"""Minimise :math:`\sum_i w_i |\phi_i' W - r_i|^2 + \alpha |W|_F^2` over W.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Feature rows.
    R : ndarray of shape (n, T)
    alpha : float
    weight : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (m, T)
    """
    scaled = np.sqrt(weight)[:, None] * Phi
    moments = scaled.T @ scaled
    sums = Phi.T @ (weight[:, None] * R)
    L = factorise(moments, alpha, np.ones(len(moments)), overwrite=True)
    return cho_solve((L, True), sums, check_finite=False)


def solve_ridge_stack(
    K: Array, r: Array, alpha: Array | float, weight: Array
) -> tuple[Array, Array]:
    r"""Minimise :math:`\sum_i w_{gi} |f_g(x_{gi}) - r_{gi}|^2 + \alpha |f_g|^2`.

    Parameters
    ----------
    K : ndarray of shape (g, n, n)
        Kernel matrices of independent problems of one size. Destroyed.
    r, weight : ndarray of shape (g, n)
    alpha : ndarray of shape (g,) or float

    Returns
    -------
    coef : ndarray of shape (g, n)
    one_minus_leverage : ndarray of shape (g, n)
    """
    g, n = r.shape
    root = np.sqrt(weight)
    alpha = np.broadcast_to(np.asarray(alpha, dtype=float), g)
    if n > 64:  # one LAPACK call for each problem pays
        coef = np.empty((g, n))
        complement = np.empty((g, n))
        for i in range(g):
            response = r[i][:, None]
            ridge = float(alpha[i])
            solution = solve_ridge(K[i].T, response, ridge, weight[i], overwrite=True)
            coef[i] = solution.coef[:, 0]
            complement[i] = solution.one_minus_leverage
        return coef, complement
    K *= root[:, :, None]
    K *= root[:, None, :]
    np.einsum("gii->gi", K)[:] += alpha[:, None]
    try:
        L = np.linalg.cholesky(K)
        finite = bool(np.all(np.isfinite(np.einsum("gii->gi", L))))
    except np.linalg.LinAlgError:
        finite = False
    if not finite:
        raise NotPositiveDefinite(NotPositiveDefinite.TEXT.format(alpha[0]))
    # Forward substitution for L^-1, one row of all problems at a time.
    inverse = np.zeros_like(L)
    for i in range(n):
        row = -np.matmul(L[:, i : i + 1, :i], inverse[:, :i, : i + 1])[:, 0]
        row[:, i] += 1.0
        inverse[:, i, : i + 1] = row / L[:, i, i][:, None]
    half = np.matmul(inverse, (root * r)[:, :, None])
    coef = root * np.matmul(inverse.transpose(0, 2, 1), half)[:, :, 0]
    complement = alpha[:, None] * np.einsum("gij,gij->gj", inverse, inverse)
    return coef, one_minus_leverage(complement, weight)


def left_out_mean(
    residual_sum: Array, lost: Array, total: Array, removed: Array
) -> Array:
    """Mean residual of the other rows of a task when a row leaves.

    Parameters
    ----------
    residual_sum, total : ndarray
        Weighted sum of the residuals of the task's rows in the full model, and their
        weight.
    lost : ndarray
        What leaving the row out takes from that sum, the row's own part included.
    removed : ndarray
        The weight that leaves: 0 for a row of another task.

    Returns
    -------
    ndarray
        Shapes are broadcast. Where no row is left, it is the mean of the full model.
    """
    remaining = total - removed
    is_singleton = remaining <= 1e-9 * total
    mean = (residual_sum - lost) / np.where(is_singleton, 1.0, remaining)
    full_mean = residual_sum / np.where(total > 0.0, total, 1.0)
    return np.where(is_singleton, full_mean, mean)


def in_terms_of_all(mean_of_others: Array, mean: Array, is_guide: Mask) -> Array:
    """Factor that makes distances under a model of fewer rows those of all rows.

    All responses of a model of fewer rows are smaller. So distances are taken in units
    of the mean response of the rows that are left, and multiplied by that of all rows
    under their model.

    Parameters
    ----------
    mean_of_others, mean : ndarray
        Mean response of the rows that are left, and of all rows under their model.
    is_guide : ndarray of bool
        Whether the mean of the rows that are left is a guide (that of a single row is
        not). Elsewhere distances get no smaller.

    Returns
    -------
    ndarray
        1 where a task has no response.
    """
    has_response = mean > 0.0
    # A mean that falls below a thousandth is rounding.
    least = np.where(has_response, 1e-3 * mean, 1.0)
    unit = np.maximum(mean_of_others, least)
    factor = np.where(has_response, mean / unit, 1.0)
    return np.where(is_guide, factor, np.maximum(factor, 1.0))


class LeftOutRows(NamedTuple):
    """What a ridge regression says of rows that leave it one by one.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Minus the distance between the response of the row and the mean response of the
        other rows of its task, under the model without one count of the row; in terms
        of all rows, see `in_terms_of_all`.
    responses : ndarray of shape (n, 2)
        q and r of :mod:`manyone.calibration.borrowing`: that response over that mean;
        and the mean response of the other rows over that of all rows, under the model
        of all rows, where another row has left already. NaN where a task has too few
        rows, or no response.
    """

    scores: Array
    responses: Array


def left_out_rows(
    residual: Array,
    left_out: Array,
    moved: Array,
    weight: Array,
    total: Array,
    mean: Array,
    *,
    structure_fixed: bool = False,
) -> LeftOutRows:
    """Each normal row under the model refitted without one count of it.

    Parameters
    ----------
    residual : ndarray of shape (n,)
        1 - f_t(x) of each normal row for its own task t.
    left_out : ndarray of shape (n,)
        The same under the model without one count of the row.
    moved : ndarray of shape (n,)
        By how much the sum of the residuals of the task falls when one count leaves;
        for one ridge regression the product of the two.
    weight : ndarray of shape (n,)
    total, mean : ndarray of shape (n,)
        What all normal rows of the row's task weigh, and their mean response.
    structure_fixed : bool
        Whether the row has shaped a part of the model without it. Then means of that
        model are no guide. (If they were used, yes/no columns would raise 13 % of 10.)

    Returns
    -------
    LeftOutRows
    """
    count = np.minimum(weight, 1.0)
    residual_sum = total * (1.0 - mean)
    others = 1.0 - left_out_mean(residual_sum, count * moved, total, count)
    is_guide = (total - count > 1.0) & (not structure_fixed)
    factor = in_terms_of_all(others, mean, is_guide)
    distance = factor * (1.0 - left_out - others)
    rest = total - 2.0 * count
    is_known = (mean > 0.0) & (rest > 1e-9 * total)
    unit = np.where(is_known, mean, np.nan)
    below_mean = (mean - (1.0 - residual)) / unit
    ratio = 1.0 + count * below_mean / np.where(is_known, rest, 1.0)
    return LeftOutRows(-np.abs(distance), np.stack([1.0 + distance / unit, ratio], 1))
