"""Kernel ridge regression after rows come or go, without solving again.

Everything follows from the factor L of ``M = S K S + alpha I`` (see
:mod:`manyone.solvers.ridge`): new rows border it, rows that leave are folded back into
what remains.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from manyone._types import Array, Codes
from manyone.solvers.ridge import NotPositiveDefinite, inverse_diagonal


class RidgeState(NamedTuple):
    """A solved problem that rows can join and leave.

    Attributes
    ----------
    coef : ndarray of shape (n, T)
    complement : ndarray of shape (n,)
        ``alpha diag(M^-1)``.
    factor : ndarray of shape (n, n)
        Lower Cholesky factor of M.
    root : ndarray of shape (n,)
        Square roots of the weights.
    alpha : float
    """

    coef: Array
    complement: Array
    factor: Array
    root: Array
    alpha: float


def add_rows(
    state: RidgeState, cross: Array, corner: Array, R: Array, root: Array
) -> RidgeState:
    """Minimise ``sum_i w_i |f(x_i) - r_i|^2 + alpha |f|^2`` with k new rows, O(n^2 k).

    Parameters
    ----------
    state : RidgeState
        Of the n old rows.
    cross : ndarray of shape (k, n)
        Kernel values of the new rows against the old ones.
    corner : ndarray of shape (k, k)
        Of the new rows among themselves.
    R : ndarray of shape (k, T)
        Responses of the new rows.
    root : ndarray of shape (k,)
        Square roots of their weights.

    Returns
    -------
    RidgeState
    """
    coef, complement, L, old_root, alpha = state
    scaled = root[:, None] * cross * old_root
    corner = root[:, None] * corner * root
    corner[np.diag_indices_from(corner)] += alpha
    factor = append_rows(L, scaled, corner)
    below, corner_factor = np.split(factor[len(L) :], [len(L)], axis=1)
    # The coefficients of old rows change in proportion to M^-1 cross'.
    share = solve_triangular(L, below.T, lower=True, trans="T")
    fresh = cho_solve((corner_factor, True), root[:, None] * (R - cross @ coef))
    coef = np.vstack(
        [coef - old_root[:, None] * (share @ fresh), root[:, None] * fresh]
    )
    gain = solve_triangular(corner_factor, share.T, lower=True)
    old = complement + alpha * np.einsum("ij,ij->j", gain, gain)
    complement = np.concatenate([old, alpha * inverse_diagonal(corner_factor)])
    root = np.concatenate([old_root, root])
    return RidgeState(np.asfortranarray(coef), complement, factor, root, alpha)


def drop_rows(state: RidgeState, gone: Codes) -> RidgeState:
    """Minimise ``sum_i w_i |f(x_i) - r_i|^2 + alpha |f|^2`` without k rows, O(n^2 k).

    Parameters
    ----------
    state : RidgeState
        Of all n rows.
    gone : ndarray of shape (k,)
        Sorted numbers of the rows that leave.

    Returns
    -------
    RidgeState
    """
    coef, complement, L, root, alpha = state
    stay = np.delete(np.arange(len(L)), gone)
    unit = np.zeros((len(L), len(gone)), order="F")
    unit[gone, np.arange(len(gone))] = 1.0
    columns = cho_solve((L, True), unit)
    corner_factor = np.linalg.cholesky(columns[gone])
    gain = solve_triangular(corner_factor, columns[stay].T, lower=True)
    lost = solve_triangular(corner_factor, coef[gone] / root[gone, None], lower=True)
    coef = np.asfortranarray(coef[stay] - root[stay, None] * (gain.T @ lost))
    complement = complement[stay] - alpha * np.einsum("ij,ij->j", gain, gain)
    return RidgeState(coef, complement, remove_rows(L, gone), root[stay], alpha)


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
    n = len(L)
    k = len(corner)
    extended = np.zeros((n + k, n + k), order="F")
    extended[:n, :n] = L
    below = solve_triangular(L, cross.T, lower=True, check_finite=False).T
    extended[n:, :n] = below
    L_corner, info = lapack.dpotrf(corner - below @ below.T, lower=1, clean=1)
    if info:
        raise NotPositiveDefinite(
            "The kernel matrix with the new rows is not positive definite."
        )
    extended[n:, n:] = L_corner
    return extended


def remove_rows(L: Array, rows: Codes) -> Array:
    """Cholesky factor after rows (and the same columns) are taken out, in O(n^2 k).

    What a removed column contributed to the trailing block is folded back into it by
    orthogonal transformations (a triangular-pentagonal QR), which is stable: no
    subtraction takes place.

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
        start = run[0]
        stop = run[-1] + 1
        trailing = np.asfortranarray(L[stop:, stop:].T)
        if trailing.size:
            lost = np.asfortranarray(L[stop:, start:stop].T)
            block = max(1, min(32, trailing.shape[0]))
            factor, *_ = lapack.dtpqrt(
                0, block, trailing, lost, overwrite_a=1, overwrite_b=1
            )
            trailing = np.triu(factor)
            trailing *= np.where(np.diag(trailing) < 0, -1.0, 1.0)[:, None]
        keep = np.r_[0:start, stop : L.shape[0]]
        L = L[np.ix_(keep, keep)]
        L[start:, start:] = trailing.T
    return np.asfortranarray(L)
