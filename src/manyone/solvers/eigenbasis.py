r"""Models :math:`f = K C L` with a kernel L over the outputs, in the eigenbasis of K.

With :math:`L = Q \operatorname{diag}(l) Q'` the outputs part into ridge regressions
along the columns of Q, with the ridge alpha / l: linear structures (L = B'B) and learnt
output kernels alike.
"""

import numpy as np
from scipy.linalg import eigh

from manyone._types import Array, Codes
from manyone.solvers.ridge import (
    LeftOutRows,
    NotPositiveDefinite,
    left_out_rows,
    one_minus_leverage,
)


def resolved_weight(weight: Array) -> Array:
    """Weights (n,), raised to a millionth of the largest where they are positive.

    In an eigendecomposition or in moments, rounding would bury lighter rows, and the
    result would depend on the order of the rows.
    """
    return np.where(weight > 0, np.maximum(weight, 1e-6 * weight.max()), 0.0)


def eigenbasis(K: Array, alpha: float, root: Array) -> tuple[Array, Array]:
    """Positive eigenvalues, eigenvectors of ``root[:, None] * K * root``; destroys K.

    Parameters
    ----------
    K : array of shape (n, n)
    alpha : float
        The ridge that has to make up for negative eigenvalues.
    root : array of shape (n,)
        Square roots of the weights.

    Returns
    -------
    eigenvalues : array of shape (m,)
        Those that double precision tells from zero.
    eigenvectors : array of shape (n, m)

    Raises
    ------
    NotPositiveDefinite
        If K has an eigenvalue below -alpha, or is not finite.
    """
    K *= root[:, None]
    K *= root
    finite = bool(np.all(np.isfinite(K)))
    if finite:
        values, vectors = eigh(K, driver="evd", overwrite_a=True, check_finite=False)
    if not finite or values[0] <= -alpha:
        raise NotPositiveDefinite(NotPositiveDefinite.TEXT.format(alpha))
    resolved = values > len(values) * np.finfo(float).eps * max(values[-1], 0.0)
    return values[resolved], vectors[:, resolved]


def left_out_scores_of_structure(
    eigenvalues: Array,
    eigenvectors: Array,
    R: Array,
    L: Array,
    alpha: float,
    weight: Array,
    codes: Codes,
) -> tuple[LeftOutRows, Array]:
    """Each normal row under the model without one count of it, L held fixed.

    Along each eigenvector of L this is a ridge regression, where leaving out a row has
    a closed form. Residuals, and by how much the sum of the task falls, are rotated
    back.

    Parameters
    ----------
    eigenvalues : array of shape (m,)
    eigenvectors : array of shape (n, m)
        Of the kernel matrix scaled by the square roots of the weights on both sides.
    R : array of shape (n, T)
        Columns are the indicators of the normal rows of each task.
    L : array of shape (T, T)
        Kernel over the outputs, positive semi-definite.
    alpha : float
    weight : array of shape (n,)
    codes : array of shape (n,)
        Task of each row; anything for rows without a response.

    Returns
    -------
    left_out : LeftOutRows
        NaN for rows without a response.
    residual : array of shape (n,)
        ``1 - f_t(x)`` of each normal row for its own task, by the model that has seen
        it; NaN else.
    """
    values, Q = eigh(L)
    shrinkage = alpha / (eigenvalues[:, None] * np.maximum(values, 0.0) + alpha)
    root = np.sqrt(weight)[:, None]
    V = eigenvectors.T @ (root * R)
    outside = R - (eigenvectors @ V) / root
    normal = np.flatnonzero(R.any(axis=1))
    task = codes[normal]
    vectors = eigenvectors[normal]
    root = root[normal]
    residuals = outside[normal] @ Q + vectors @ (shrinkage * (V @ Q)) / root
    squares = vectors**2
    missing = np.maximum(1.0 - squares.sum(axis=1), 0.0)[:, None]
    complement = missing + squares @ shrinkage
    residuals_without = residuals / one_minus_leverage(complement, weight[normal, None])
    # The part of one count of a row that its own task does not explain.
    unexplained = (vectors * V[:, task].T) @ shrinkage / root
    unexplained += outside[normal, task][:, None]
    back = Q[task]
    residual = np.full(len(R), np.nan)
    residual[normal] = np.einsum("iq,iq->i", back, residuals)
    without = np.einsum("iq,iq->i", back, residuals_without)
    moved = np.einsum("iq,iq->i", back, residuals_without * unexplained)
    total = weight @ R
    mean = 1.0 - weight[normal] @ (R[normal] * residual[normal, None]) / total
    left_out = LeftOutRows(np.full(len(R), np.nan), np.full((len(R), 2), np.nan))
    left_out.scores[normal], left_out.responses[normal] = left_out_rows(
        residual[normal],
        without,
        moved,
        weight[normal],
        total[task],
        mean[task],
        structure_fixed=True,
    )
    return left_out, residual
