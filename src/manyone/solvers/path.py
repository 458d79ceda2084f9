r"""Kernel ridge regression for a whole grid of ridges from one eigendecomposition.

With :math:`S K S = U \Lambda U'` the solution of :mod:`manyone.solvers.ridge` for any ridge is
:math:`a = S U (\Lambda + \alpha I)^{-1} U' S R`: a further ridge costs O(n^2 T), its left-out
responses of rows O(n^2), those of whole tasks O(n^2 n_t).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from manyone._types import Array, Codes
from manyone.solvers.ridge import left_out_mean, one_minus_leverage


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


def left_out_gaps(
    spectrum: Spectrum,
    R: Array,
    alphas: Array,
    groups: list[Codes] | None = None,
    blocks: list[Codes] | None = None,
) -> Array:
    """Responses of rows under refits without them, minus the mean responses of those refits.

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
    blocks : list of ndarray or None
        Rows of a task that leave together wherever else they would leave alone.

    Returns
    -------
    ndarray of shape (k, n, T)
        Entry (i, t): f_t(x_i) minus the mean of f_t over the rows of task t, under the model
        without row i (or without its group). Minus its absolute value is the score of the row.
    """
    values, vectors, squares, root = spectrum
    weight = root**2
    count = np.minimum(weight, 1.0)[:, None]
    own = R > 0
    total, leaves = weight @ R, count.copy()
    for block in blocks or []:
        leaves[block] = weight[block].sum()
    removed = np.where(own, leaves, 0.0)
    damped = 1.0 / (values[:, None] + alphas)
    kept = one_minus_leverage((alphas * (squares @ damped)).T, weight)
    rotated = vectors.T @ (root[:, None] * R)
    solved = vectors @ (damped[:, :, None] * rotated[:, None, :]).reshape(len(values), -1)
    solved = solved.reshape(len(values), len(alphas), -1)  # M^-1 S R for every ridge
    # First blocks, for all tasks; then groups, for tasks that their rows are not in.
    stacks = [*_by_size(blocks, False), *_by_size(groups, True)]
    gaps = np.empty((len(alphas), *R.shape))
    for k, alpha in enumerate(alphas):
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
    return gaps


def _by_size(groups: list[Codes] | None, spared: bool) -> Iterator[tuple[Codes, bool]]:
    """Groups (g, n) of each size n, which are solved together, and whether own tasks are spared."""
    by_size: dict[int, list[Codes]] = {}
    for group in groups or []:
        by_size.setdefault(len(group), []).append(group)
    for same in by_size.values():
        yield np.stack(same), spared


def interpolate_gaps(
    spectrum: Spectrum,
    R: Array,
    alphas: Array,
    groups: list[Codes] | None = None,
    blocks: list[Codes] | None = None,
) -> Array:
    """The same as :func:`left_out_gaps`, for a long grid from fewer evaluations.

    Every left-out response is a sum of terms c / (lambda + alpha) with lambda >= 0, so it is
    analytic in log(alpha) within pi of the real axis: polynomials through N Chebyshev nodes miss it
    by rho^-N with rho = r + sqrt(r^2 + 1), r = 2 pi / log(largest / smallest ridge).

    Parameters
    ----------
    spectrum, R, alphas, groups, blocks
        As in :func:`left_out_gaps`.

    Returns
    -------
    ndarray of shape (k, n, T)
        To about 1e-5; exact where the grid is no longer than the nodes.
    """
    low, high = np.log(alphas.min()), np.log(alphas.max())
    r = 2 * np.pi / max(high - low, 1e-9)
    n_nodes = int(np.ceil(np.log(1e5) / np.log(r + np.sqrt(r * r + 1)))) + 1
    if len(alphas) <= n_nodes:
        return left_out_gaps(spectrum, R, alphas, groups, blocks)
    angles = (2 * np.arange(n_nodes) + 1) * np.pi / (2 * n_nodes)
    nodes = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
    # Barycentric weights of Chebyshev nodes of the first kind.
    weights = (-1.0) ** np.arange(n_nodes) * np.sin(angles)
    distance = np.log(alphas)[:, None] - nodes
    hit = np.abs(distance) < 1e-14 * (1 + np.abs(nodes))
    basis = weights / np.where(hit, 1.0, distance)
    basis[hit.any(axis=1)] = hit[hit.any(axis=1)]
    basis /= basis.sum(axis=1, keepdims=True)
    gaps = left_out_gaps(spectrum, R, np.exp(nodes), groups, blocks)
    return (basis @ gaps.reshape(n_nodes, -1)).reshape(len(alphas), *R.shape)
