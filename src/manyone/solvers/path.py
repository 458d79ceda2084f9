r"""Kernel ridge regression for a whole grid of ridges from one eigendecomposition.

With :math:`S K S = U \Lambda U'` the solution of :mod:`manyone.solvers.ridge` for any ridge is
:math:`a = S U (\Lambda + \alpha I)^{-1} U' S R`: a further ridge costs O(n^2 T), its left-out
responses of rows O(n^2), those of whole tasks O(n^2 n_t).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from manyone.solvers.ridge import slack

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Spectrum(NamedTuple):
    """Eigendecomposition of S K S.

    Attributes
    ----------
    values : ndarray of shape (n,)
    vectors : ndarray of shape (n, n)
    squares : ndarray of shape (n, n)
        Squared entries of `vectors`: they give the diagonal of the inverse for any ridge.
    root : ndarray of shape (n,)
        Square roots of the weights.
    """

    values: Array
    vectors: Array
    squares: Array
    root: Array


def decompose(K: Array, weight: Array) -> Spectrum:
    """Eigendecomposition that serves every ridge.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Destroyed.
    weight : ndarray of shape (n,)

    Returns
    -------
    Spectrum
        Negative eigenvalues, which a kernel matrix has from rounding alone, are set to zero.
    """
    root = np.sqrt(weight)
    if not np.all(weight == 1.0):
        K *= root[:, None]
        K *= root
    values, vectors = eigh(K, driver="evd", overwrite_a=True, check_finite=False)
    return Spectrum(np.maximum(values, 0.0), vectors, vectors**2, root)


def path_coef(spectrum: Spectrum, R: Array, alpha: float) -> tuple[Array, Array]:
    r"""Minimise :math:`\sum_i w_i |f(x_i) - r_i|^2 + \alpha |f|_k^2` from the spectrum.

    Parameters
    ----------
    spectrum : Spectrum
    R : ndarray of shape (n, T)
    alpha : float

    Returns
    -------
    coef : ndarray of shape (n, T)
    slack : ndarray of shape (n,)
        See :class:`manyone.solvers.ridge.RidgeSolution`.
    """
    values, vectors, squares, root = spectrum
    damped = 1.0 / (values + alpha)
    rotated = vectors.T @ (root[:, None] * R)
    coef = root[:, None] * (vectors @ (damped[:, None] * rotated))
    return coef, slack(alpha * (squares @ damped), root**2)


def left_out_responses(
    spectrum: Spectrum, R: Array, alphas: Array, groups: list[Index] | None = None
) -> list[tuple[Array, Array]]:
    """Responses of rows under refits without them, and the mean responses of those refits.

    Parameters
    ----------
    spectrum : Spectrum
    R : ndarray of shape (n, T)
        Responses; columns are indicators of the normal rows of each task.
    alphas : ndarray of shape (k,)
    groups : list of ndarray or None
        None: each row is left out alone (one count of it). Else: each group is left out as a
        whole when its rows answer for tasks they are not in; for its own task a row is left out
        alone. Rows in no group are left out alone.

    Returns
    -------
    list of (responses, means), one pair per ridge
        Both of shape (n, T): entry (i, t) is f_t(x_i), and the mean of f_t over the rows of task t,
        under the model without row i (or without its group).
    """
    values, vectors, squares, root = spectrum
    weight = root**2
    count = np.minimum(weight, 1.0)
    rotated = vectors.T @ (root[:, None] * R)
    damped = 1.0 / (values[:, None] + alphas)
    slacks = slack((alphas * (squares @ damped)).T, weight)
    total = weight @ R
    stacks = [vectors[stack] for stack in _equal_sizes(groups or [])]
    results = []
    for k, alpha in enumerate(alphas):
        scaled = vectors @ (damped[:, k, None] * rotated)  # M^-1 S R
        residual = scaled * (alpha / root)[:, None]
        left_out = residual / slacks[k][:, None]
        lost = left_out * residual * count[:, None]
        for index, block in zip(_equal_sizes(groups or []), stacks, strict=True):
            corner = np.matmul(block * damped[:, k], block.transpose(0, 2, 1))
            inner = np.linalg.solve(corner, scaled[index])
            error = inner / root[index][:, :, None]
            # What leaving the group out takes from alpha * (sum of coefficients of task t).
            taken = alpha * np.einsum("gnt,gnt->gt", scaled[index], inner)
            own = R[index] > 0
            left_out[index] = np.where(own, left_out[index], error)
            lost[index] = np.where(own, lost[index], taken[:, None, :])
        lack = weight @ (residual * R)
        remaining = np.where(R > 0, total - count[:, None], total)
        alone = remaining <= 1e-9 * total
        means = 1.0 - np.where(alone, lack / total, (lack - lost) / np.where(alone, 1, remaining))
        results.append((R - left_out, means))
    return results


def _equal_sizes(groups: list[Index]) -> list[NDArray[np.intp]]:
    """Groups stacked by their size: arrays of shape (g, size)."""
    by_size: dict[int, list[Index]] = {}
    for group in groups:
        by_size.setdefault(len(group), []).append(group)
    return [np.stack(same) for same in by_size.values()]
