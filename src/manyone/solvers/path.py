r"""Kernel ridge regression for a grid of ridges from one eigendecomposition.

With :math:`S K S = U \Lambda U'` the solution of :mod:`manyone.solvers.ridge` for any
ridge is :math:`a = S U (\Lambda + \alpha I)^{-1} U' S R`. A further ridge costs O(n^2
T), its left-out responses of rows O(n^2), those of whole tasks O(n^2 n_t).
"""

import numpy as np
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
    """Responses of rows under refits without them, minus the refits' mean responses.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix, positive semi-definite but for rounding. Destroyed.
    R : ndarray of shape (n, T)
        Responses; columns are indicators of the normal rows of each task.
    alphas : ndarray of shape (k,)
        Ridges.
    weight : ndarray of shape (n,)
    groups : list of ndarray or None
        Rows that are left out together when they are scored against other tasks.
        Against its own task, or without a group, a row (one count of it) leaves alone.
    blocks : list of ndarray or None
        Rows of a task that are left out together; None: each is left out alone.

    Returns
    -------
    ndarray of shape (k, n, T)
        Entry (i, t): f_t(x_i) minus the mean of f_t over the rows of task t, under the
        model without row i, or without its group. The score of the row is minus its
        absolute value.
    """
    root = np.sqrt(weight)
    count = np.minimum(weight, 1.0)[:, None]
    in_task = R > 0
    if not np.all(weight == 1.0):
        K *= root[:, None]
        K *= root
    values, vectors = eigh(K, driver="evd", overwrite_a=True, check_finite=False)
    damped = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    complement = one_minus_leverage((alphas * (vectors**2 @ damped)).T, weight)
    rotated = vectors.T @ (root[:, None] * R)
    products = damped[:, :, None] * rotated[:, None, :]
    # M^-1 S R for every ridge.
    solved = (vectors @ products.reshape(len(values), -1)).reshape(products.shape)
    total = weight @ R
    leaves = count.copy()
    for block in blocks or []:
        leaves[block] = weight[block].sum()
    removed = np.where(in_task, leaves, 0.0)
    # First blocks, for all tasks; then groups, for tasks that their rows are not in.
    stacks = [(stack, False) for stack in _by_size(blocks)]
    stacks += [(stack, True) for stack in _by_size(groups)]
    gaps = np.empty((len(alphas), *R.shape))
    for k, alpha in enumerate(alphas):
        residual = solved[:, k] * (alpha / root)[:, None]
        left_out = residual / complement[k][:, None]
        lost = count * left_out * residual
        for index, spare_own_task in stacks:
            part = solved[:, k][index]
            half = vectors[index] * np.sqrt(damped[:, k])
            spared = in_task[index] & spare_own_task
            inner = np.linalg.solve(np.matmul(half, half.transpose(0, 2, 1)), part)
            # By how much the sum of residuals of each task falls when a group leaves.
            taken = alpha * np.einsum("gnt,gnt->gt", part, inner)
            lost[index] = np.where(spared, lost[index], taken[:, None, :])
            inner /= root[index][:, :, None]
            left_out[index] = np.where(spared, left_out[index], inner)
        mean = left_out_mean(weight @ (residual * R), lost, total, removed)
        gaps[k] = (R - left_out) - (1.0 - mean)
    return gaps


def _by_size(groups: list[Codes] | None) -> list[Codes]:
    """Groups of each size n as one array (g, n): they are solved together."""
    by_size: dict[int, list[Codes]] = {}
    for group in groups or []:
        by_size.setdefault(len(group), []).append(group)
    return [np.stack(same_size) for same_size in by_size.values()]
