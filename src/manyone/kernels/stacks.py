"""Kernel values of many small sets of rows at once."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from manyone._types import Array
from manyone.kernels.kernel import FAR, Kernel

# Beyond this size one call for each set of rows costs no more than one for all.
_SMALL = 64


def kernel_pairs(kernel: Kernel, X: Array, Y: Array) -> Array:
    """Kernel values (g, m, n) between g pairs of sets of rows, (g, m, d) and (g, n, d)."""
    if kernel.name != "rbf":
        return np.stack([kernel(x, y) for x, y in zip(X, Y, strict=True)])
    with np.errstate(over="ignore", under="ignore"):
        gamma = kernel.gamma[0]
        if 1e-70 < kernel.scale < 1e70:  # one number instead of all rows
            gamma /= kernel.scale**2
        else:
            X, Y = kernel.scaled(X), kernel.scaled(Y)
        # Rows of one set are close together: about their own mean little cancels.
        centre = Y.mean(axis=1, keepdims=True)
        X, Y = X - centre, Y - centre
        x_norms, y_norms = (
            np.einsum("gnd,gnd->gn", X, X),
            np.einsum("gnd,gnd->gn", Y, Y),
        )
        reach = np.max(x_norms, initial=0.0) + np.max(y_norms, initial=0.0)
        if not gamma * reach < FAR:
            far = [cdist(x, y, "sqeuclidean") for x, y in zip(X, Y, strict=True)]
            return np.exp(-gamma * np.stack(far))
        values = np.matmul(X, 2.0 * gamma * Y.transpose(0, 2, 1))
        values -= gamma * x_norms[:, :, None]
        values -= gamma * y_norms[:, None, :]
        np.minimum(values, 0.0, out=values)
        return np.exp(values, out=values)


def kernel_grams(kernel: Kernel, X: Array) -> Array:
    """Gram matrices (g, n, n) of g sets of rows (g, n, d)."""
    if kernel.name != "rbf" or X.shape[1] > _SMALL:
        K = np.empty((len(X), X.shape[1], X.shape[1]))
        for matrix, rows in zip(K, X, strict=True):
            matrix[:] = kernel.gram(rows)
        return K
    K = kernel_pairs(kernel, X, X)
    np.einsum("gnn->gn", K)[:] = 1.0
    return K
