r"""Weighted kernel ridge regression: exact solutions, and everything that follows in closed form.

All functions speak of the problem

.. math:: \min_f \sum_i w_i \lVert f(x_i) - r_i \rVert^2 + \alpha \lVert f \rVert_k^2,
          \qquad f = \sum_i a_i k(x_i, \cdot)

with counts :math:`w_i > 0`. With :math:`S = \operatorname{diag}(\sqrt{w})` its solution is
:math:`a = S M^{-1} S R`, :math:`M = S K S + \alpha I`, the residuals are
:math:`r_i - f(x_i) = \alpha a_i / w_i`, and removing rows needs only diagonal (blocks) of
:math:`M^{-1}`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve, lapack, solve_triangular

Array = NDArray[np.float64]
Index = NDArray[np.intp]
_BLOCK = 512
# Below this size a set of problems is solved as one stack, above it one LAPACK call each pays.
_SMALL = 64
#: Smallest ridge beside the trace. What a singular kernel matrix cannot fit is divided by it, and
#: drowns the rest in rounding: three digits of the responses are left. A larger ridge would cost
#: regular matrices their interpolation, of which eight digits are left.
SMALLEST_RIDGE = 1e3 * np.finfo(float).eps


class NotPositiveDefinite(ValueError):
    """The kernel matrix plus the ridge has a negative eigenvalue."""


class RidgeSolution(NamedTuple):
    """Solution of one weighted kernel ridge problem.

    Attributes
    ----------
    coef : ndarray of shape (n, T)
        Expansion coefficients a.
    slack : ndarray of shape (n,)
        Share of the residual's weight that survives when one count of the row is left out:
        the left-out residual is the residual divided by it.
    factor : ndarray of shape (n, n)
        Lower Cholesky factor of S K S + alpha I (the upper triangle is not referenced).
    """

    coef: Array
    slack: Array
    factor: Array


def effective_alpha(alpha: Any, trace: Any) -> Any:
    """The ridge that double precision can tell from zero and from infinity beside this trace.

    At the lower end the solution is the minimum-norm interpolant, to eight digits, or three where
    the kernel matrix is singular; at the upper end it is proportional to the kernel mean.

    Parameters
    ----------
    alpha : float or ndarray
        The ridge asked for, or a grid of them.
    trace : float or ndarray
        Trace of the (weighted) kernel matrix, or one per problem.

    Returns
    -------
    float or ndarray
    """
    size = np.abs(trace)
    if not np.all(np.isfinite(size)):
        raise NotPositiveDefinite(
            "The kernel is not finite on the training rows. Use another kernel, or rescale the "
            "rows."
        )
    with np.errstate(over="ignore"):
        clipped = np.clip(alpha, SMALLEST_RIDGE * size, 1e10 * size)
    return np.where(size > 0, clipped, np.where(np.greater(alpha, 0), alpha, 1.0))[()]


def ridge(
    K: Array, R: Array, alpha: float, weight: Array, *, overwrite: bool = False
) -> RidgeSolution:
    r"""Minimise :math:`\sum_i w_i |f(x_i) - r_i|^2 + \alpha |f|_k^2` with one Cholesky factor.

    Costs n^3/3 flops for the factor, n^3/3 for `slack`, 2 n^2 T for the coefficients.

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
    return RidgeSolution(coef, slack(alpha * inverse_diagonal(L), weight), L)


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
    M.ravel(order="K")[:: M.shape[0] + 1] += alpha
    L, info = lapack.dpotrf(M, lower=1, overwrite_a=1, clean=0)
    if info or not np.all(np.isfinite(np.diagonal(L))):
        raise NotPositiveDefinite(
            f"The kernel matrix plus alpha={alpha:g} is not positive definite (or not finite). "
            "Use a larger alpha, or a positive semi-definite kernel."
        )
    return L


def inverse_diagonal(L: Array) -> Array:
    """Diagonal of (L L')^-1, shape (n,), in n^3/3 flops and O(n) extra columns of memory."""
    n = L.shape[0]
    diagonal = np.empty(n)
    for start in range(0, n, _BLOCK):
        columns = np.eye(n - start, min(_BLOCK, n - start), order="F")
        # Column j of L^-1 vanishes above row j: only the trailing triangle is solved with.
        columns = blas.dtrsm(1.0, L[start:, start:], columns, lower=1, overwrite_b=1)
        diagonal[start : start + _BLOCK] = np.einsum("ij,ij->j", columns, columns)
    return diagonal


def slack(complement: Array, weight: Array) -> Array:
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


def primal_ridge(Phi: Array, R: Array, alpha: float, weight: Array) -> tuple[Array, Array]:
    r"""Minimise :math:`\sum_i w_i |\phi_i' W - r_i|^2 + \alpha |W|_F^2` over feature weights W.

    Parameters
    ----------
    Phi : ndarray of shape (n, m)
        Feature rows.
    R : ndarray of shape (n, T)
    alpha : float
    weight : ndarray of shape (n,)

    Returns
    -------
    W : ndarray of shape (m, T)
    slack : ndarray of shape (n,)
    """
    scaled = np.sqrt(weight)[:, None] * Phi
    L = factorise(scaled.T @ scaled, alpha, np.ones(Phi.shape[1]), overwrite=True)
    W = cho_solve((L, True), Phi.T @ (weight[:, None] * R), check_finite=False)
    half = solve_triangular(L, scaled.T, lower=True, check_finite=False)
    return W, slack(1.0 - np.einsum("ij,ij->j", half, half), weight)


def batched_ridge(K: Array, r: Array, alpha: Array | float, weight: Array) -> tuple[Array, Array]:
    r"""Minimise :math:`\sum_i w_{gi} |f_g(x_{gi}) - r_{gi}|^2 + \alpha |f_g|^2` for each g.

    Parameters
    ----------
    K : ndarray of shape (g, n, n)
        Kernel matrices of independent problems of one size. Destroyed.
    r, weight : ndarray of shape (g, n)
    alpha : ndarray of shape (g,) or float

    Returns
    -------
    coef : ndarray of shape (g, n)
    slack : ndarray of shape (g, n)
    """
    g, n = r.shape
    root = np.sqrt(weight)
    alpha = np.broadcast_to(np.asarray(alpha, dtype=float), g)
    if n > _SMALL:
        solved = [
            ridge(K[i].T, r[i][:, None], float(alpha[i]), weight[i], overwrite=True)
            for i in range(g)
        ]
        return np.stack([s.coef[:, 0] for s in solved]), np.stack([s.slack for s in solved])
    K *= root[:, :, None]
    K *= root[:, None, :]
    np.einsum("gii->gi", K)[:] += alpha[:, None]
    try:
        L = np.linalg.cholesky(K)
        finite = bool(np.all(np.isfinite(np.einsum("gii->gi", L))))
    except np.linalg.LinAlgError:
        finite = False
    if not finite:
        raise NotPositiveDefinite(
            f"A kernel matrix plus alpha={alpha[0]:g} is not positive definite (or not finite). "
            "Use a larger alpha, or a positive semi-definite kernel."
        )
    # Forward substitution for L^-1, one row of all problems at a time.
    inverse = np.zeros_like(L)
    for i in range(n):
        row = -np.matmul(L[:, i : i + 1, :i], inverse[:, :i, : i + 1])[:, 0]
        row[:, i] += 1.0
        inverse[:, i, : i + 1] = row / L[:, i, i][:, None]
    half = np.matmul(inverse, (root * r)[:, :, None])
    coef = root * np.matmul(inverse.transpose(0, 2, 1), half)[:, :, 0]
    return coef, slack(alpha[:, None] * np.einsum("gij,gij->gj", inverse, inverse), weight)


def leave_one_out_scores(
    residual: Array, slack: Array, weight: Array, codes: Index, n_tasks: int
) -> Array:
    """Score of each normal row under the model refitted without one count of it.

    The score is minus the distance between the row's response and the mean response of the rows of
    its task that are left. With residual rho, left-out residual e = rho / slack and c = min(w, 1)
    counts removed, both follow from sums over the task: the mean loses c e rho / (N - c).

    Parameters
    ----------
    residual : ndarray of shape (n,)
        1 - f_t(x) of each normal row for its own task t.
    slack : ndarray of shape (n,)
        See :func:`slack`.
    weight : ndarray of shape (n,)
    codes : ndarray of shape (n,)
        Task of each row.
    n_tasks : int

    Returns
    -------
    ndarray of shape (n,)
        For the only row of a task nothing is left to take a mean of: the mean of the full model
        stands in.
    """
    left_out = residual / slack
    return left_out_scores(residual, left_out, left_out * residual, weight, codes, n_tasks)


def left_out_scores(
    residual: Array, left_out: Array, moved: Array, weight: Array, codes: Index, n_tasks: int
) -> Array:
    """Minus the distance between a left-out response and the mean of the rows that are left.

    Parameters
    ----------
    residual : ndarray of shape (n,)
        1 - f_t(x) of each normal row for its own task t, by the model that has seen it.
    left_out : ndarray of shape (n,)
        The same by the model without one count of the row.
    moved : ndarray of shape (n,)
        What leaving one count of the row out takes from the residual sum of its task, per count.
    weight : ndarray of shape (n,)
    codes : ndarray of shape (n,)
        Task of each row.
    n_tasks : int

    Returns
    -------
    ndarray of shape (n,)
        For the only row of a task nothing is left to take a mean of: the mean of the full model
        stands in.
    """
    count = np.minimum(weight, 1.0)
    total = np.bincount(codes, weight, n_tasks)[codes]
    residual_sum = np.bincount(codes, weight * residual, n_tasks)[codes]
    remaining = total - count
    is_singleton = remaining <= 1e-9 * total
    shift = np.where(
        is_singleton,
        residual_sum / total,
        (residual_sum - count * moved) / np.where(is_singleton, 1.0, remaining),
    )
    return -np.abs(left_out - shift)


def leave_group_out(L: Array, coef: Array, root: Array, groups: list[Index]) -> Array:
    """Residuals of each group of rows under the model refitted without the whole group.

    Parameters
    ----------
    L : ndarray of shape (n, n)
        Factor of S K S + alpha I.
    coef : ndarray of shape (n, T)
    root : ndarray of shape (n,)
        Square roots of the weights.
    groups : list of ndarray
        Row numbers of each group; groups need not cover all rows (others stay NaN).

    Returns
    -------
    ndarray of shape (n, T)
        R - f_{-S}(x) for the rows of each group S: [(G^-1)_SS]^-1 a_S with G = K + alpha W^-1.
    """
    n = L.shape[0]
    residuals = np.full_like(coef, np.nan)
    for rows in groups:
        unit = np.zeros((n, len(rows)), order="F")
        unit[rows, np.arange(len(rows))] = root[rows]
        columns = blas.dtrsm(1.0, L, unit, lower=1, overwrite_b=1)
        block = columns.T @ columns
        residuals[rows] = np.linalg.solve(block, coef[rows])
    return residuals


def append_rows(L: Array, cross: Array, corner: Array) -> Array:
    """Cholesky factor after rows are added at the end, in O(n^2 k).

    Parameters
    ----------
    L : ndarray of shape (n, n)
        Lower factor of the old matrix.
    cross : ndarray of shape (k, n)
        New rows against old ones.
    corner : ndarray of shape (k, k)
        New rows against new ones, ridge included.

    Returns
    -------
    ndarray of shape (n + k, n + k)
    """
    n, k = L.shape[0], corner.shape[0]
    extended = np.zeros((n + k, n + k), order="F")
    extended[:n, :n] = L
    below = solve_triangular(L, cross.T, lower=True, check_finite=False).T
    extended[n:, :n] = below
    L_corner, info = lapack.dpotrf(corner - below @ below.T, lower=1, clean=1)
    if info:
        raise NotPositiveDefinite("The kernel matrix with the new rows is not positive definite.")
    extended[n:, n:] = L_corner
    return extended


def remove_rows(L: Array, rows: Index) -> Array:
    """Cholesky factor after rows (and the same columns) are taken out, in O(n^2 k).

    What a removed column contributed to the trailing block is folded back into it by orthogonal
    transformations (a triangular-pentagonal QR), which is stable: no subtraction takes place.

    Parameters
    ----------
    L : ndarray of shape (n, n)
        Lower factor.
    rows : ndarray of shape (k,)
        Sorted row numbers to remove.

    Returns
    -------
    ndarray of shape (n - k, n - k)
    """
    L = np.tril(L)
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    for run in reversed([r for r in runs if len(r)]):
        start, stop = run[0], run[-1] + 1
        trailing = np.asfortranarray(L[stop:, stop:].T)
        if trailing.size:
            lost = np.asfortranarray(L[stop:, start:stop].T)
            block = max(1, min(32, trailing.shape[0]))
            trailing, _, _, _ = lapack.dtpqrt(
                0, block, trailing, lost, overwrite_a=1, overwrite_b=1
            )
            trailing = np.triu(trailing)
            trailing *= np.where(np.diag(trailing) < 0, -1.0, 1.0)[:, None]
        keep = np.r_[0:start, stop : L.shape[0]]
        L = L[np.ix_(keep, keep)]
        L[start:, start:] = trailing.T
    return np.asfortranarray(L)
