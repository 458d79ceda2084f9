r"""Kernel ridge regression for a whole grid of ridges from one eigendecomposition.

With :math:`S K S = U \Lambda U'` the solution of :mod:`manyone.solvers.ridge` for any ridge is
:math:`a = S U (\Lambda + \alpha I)^{-1} U' S R`: a further ridge costs O(n^2 T), its left-out
responses of rows O(n^2), those of whole tasks O(n^2 n_t).
"""

from collections.abc import Iterator

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.linalg import eigh

from manyone._types import Array, Codes
from manyone.solvers.ridge import left_out_mean, one_minus_leverage


def left_out_gaps(
    K: Array,
    R: Array,
    alphas: Array,
    weight: Array,
    groups: list[Codes] | None = None,
    blocks: list[Codes] | None = None,
) -> Array:
    """Responses of rows under refits without them, minus the mean responses of those refits.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix, positive semi-definite but for rounding. Destroyed.
    R : ndarray of shape (n, T)
        Responses; columns are indicators of the normal rows of each task.
    alphas : ndarray of shape (k,)
        Ridges; a long grid is interpolated from fewer of them, see :func:`chebyshev`.
    weight : ndarray of shape (n,)
    groups : list of ndarray or None
        None: each row is left out alone (one count of it). Else: each group is left out as a
        whole when its rows answer for tasks they are not in; for its own task a row is left out
        alone. Rows in no group are left out alone.
    blocks : list of ndarray or None
        Rows of a task that leave together wherever else they would leave alone.

    Returns
    -------
    ndarray of shape (k, n, T)
        Entry (i, t): f_t(x_i) minus the mean of f_t over the rows of task t, under the model
        without row i (or without its group). Minus its absolute value is the score of the row.
    """
    nodes, basis = chebyshev(alphas)
    root, count, own = np.sqrt(weight), np.minimum(weight, 1.0)[:, None], R > 0
    if not np.all(weight == 1.0):
        K *= root[:, None]
        K *= root
    values, vectors = eigh(K, driver="evd", overwrite_a=True, check_finite=False)
    damped = 1.0 / (np.maximum(values, 0.0)[:, None] + nodes)
    kept = one_minus_leverage((nodes * (vectors**2 @ damped)).T, weight)
    rotated = vectors.T @ (root[:, None] * R)
    solved = vectors @ (damped[:, :, None] * rotated[:, None, :]).reshape(
        len(values), -1
    )
    solved = solved.reshape(len(values), len(nodes), -1)  # M^-1 S R for every ridge
    total, leaves = weight @ R, count.copy()
    for block in blocks or []:
        leaves[block] = weight[block].sum()
    removed = np.where(own, leaves, 0.0)
    # First blocks, for all tasks; then groups, for tasks that their rows are not in.
    stacks = [*_by_size(blocks, False), *_by_size(groups, True)]
    gaps = np.empty((len(nodes), *R.shape))
    for k, alpha in enumerate(nodes):
        residual = solved[:, k] * (alpha / root)[:, None]
        left_out = residual / kept[k][:, None]
        lost = count * left_out * residual
        for index, spared in stacks:
            part, half = solved[:, k][index], vectors[index] * np.sqrt(damped[:, k])
            mine = own[index] & spared
            inner = np.linalg.solve(np.matmul(half, half.transpose(0, 2, 1)), part)
            # What leaving the group out takes from alpha * (sum of coefficients of task t).
            taken = alpha * np.einsum("gnt,gnt->gt", part, inner)
            lost[index] = np.where(mine, lost[index], taken[:, None, :])
            inner /= root[index][:, :, None]
            left_out[index] = np.where(mine, left_out[index], inner)
        mean = left_out_mean(weight @ (residual * R), lost, total, removed)
        gaps[k] = (R - left_out) - (1.0 - mean)
    return gaps if basis is None else np.tensordot(basis, gaps, 1)


def _by_size(groups: list[Codes] | None, spared: bool) -> Iterator[tuple[Codes, bool]]:
    """Groups (g, n) of each size n, which are solved together, and whether own tasks are spared."""
    by_size: dict[int, list[Codes]] = {}
    for group in groups or []:
        by_size.setdefault(len(group), []).append(group)
    for same in by_size.values():
        yield np.stack(same), spared


def chebyshev(alphas: Array) -> tuple[Array, Array | None]:
    """Ridges (m,) that a grid is interpolated from to about 1e-5, and by which matrix (k, m).

    Every left-out response is a sum of terms c / (lambda + alpha) with lambda >= 0, so it is
    analytic in log(alpha) within pi of the real axis: polynomials through m Chebyshev nodes miss it
    by rho^-m with rho = r + sqrt(r^2 + 1), r = 2 pi / log(largest / smallest ridge). A grid that is
    no longer than that stays as it is, without a matrix.
    """
    low, high = np.log(alphas.min()), np.log(alphas.max())
    r = 2 * np.pi / max(high - low, 1e-9)
    n_nodes = int(np.ceil(np.log(1e5) / np.log(r + np.sqrt(r * r + 1)))) + 1
    if len(alphas) <= n_nodes:
        return alphas, None
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = np.cos((2 * np.arange(n_nodes) + 1) * np.pi / (2 * n_nodes))
    # Over these nodes the polynomials are orthogonal: values give coefficients by a product.
    there = chebvander(nodes, n_nodes - 1)
    here = chebvander((np.log(alphas) - middle) / half, n_nodes - 1)
    return np.exp(middle + half * nodes), here @ (
        there / np.square(there).sum(axis=0)
    ).T
