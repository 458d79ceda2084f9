"""Distances between rows and their typical size, from which kernel widths come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from manyone._types import Array, Rows
from manyone.data.rows import row_blocks

#: Kernels that are a decreasing function of a distance, and which distance that is.
DISTANCES = {"rbf": "sqeuclidean", "laplacian": "cityblock", "chi2": "chi2"}
#: Kernels whose ``gamma`` multiplies an inner product.
PRODUCTS = frozenset({"poly", "polynomial", "sigmoid"})
# A sample of so many rows stands for more: its median is off by a few per cent.
_MOST_ROWS = 2048


def squared_norms(X: Rows) -> Array:
    """Squared length of each row, shape (n,)."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X), dtype=np.float64)


def variance(X: Rows, weight: Array) -> float:
    """Variance of all entries about one common mean, as scikit-learn takes it."""
    share = weight / (weight.sum() * X.shape[1])
    if sparse.issparse(X):
        mean = float(share @ np.asarray(X.sum(axis=1)).ravel())
        return float(share @ np.asarray(X.multiply(X).sum(axis=1)).ravel()) - mean**2
    mean = float(share @ X.sum(axis=1))
    return float(share @ ((X - mean) ** 2).sum(axis=1))


def weighted_median(values: Array, weight: Array) -> float:
    """Median of values (n,) repeated by their weights; the mean of the middle two."""
    order = np.argsort(values)
    ordered = values[order]
    cumulative = np.cumsum(weight[order] / weight.sum())
    low = int(np.searchsorted(cumulative, 0.5 - 1e-12))
    high = int(np.searchsorted(cumulative, 0.5 + 1e-12))
    return float((ordered[low] + ordered[min(high, len(ordered) - 1)]) / 2)


def median_distance(metric: str, X: Rows, weight: Array) -> float:
    """Median over all n^2 pairs of rows, counted by their weights.

    Of many rows a sample is compared, evenly spaced. A fit sorts its rows by task and
    content, so the sample does not depend on the order in which rows were given.
    """
    n = X.shape[0]
    if n > _MOST_ROWS:
        chosen = np.linspace(0, n - 1, _MOST_ROWS).astype(np.intp)
        X = X[chosen]
        weight = weight[chosen]
    blocks = list(pairs(metric, X, weight / weight.sum()))
    distance = np.concatenate([distance for distance, _ in blocks])
    mass = np.concatenate([mass for _, mass in blocks])
    return weighted_median(distance, mass)


def pairs(metric: str, X: Rows, share: Array) -> Iterator[tuple[Array, Array]]:
    """Distances of all unordered pairs of rows, and their shares of all, in blocks."""
    n = X.shape[0]
    for block in row_blocks(n, n):
        start = block.start
        stop = block.stop
        distance = distances(metric, X[block], X[start:])
        # An unordered pair counts twice, a row with itself once.
        mass = np.triu(2.0 * np.outer(share[start:stop], share[start:]))
        np.einsum("ii->i", mass[:, : stop - start])[:] /= 2.0
        upper = np.triu_indices(stop - start, 0, n - start)
        yield distance[upper], mass[upper]


def distances(metric: str, X: Rows, Y: Rows) -> Array:
    """Distances (m, n) between rows, one of `DISTANCES`; sparse where `Y` is sparse."""
    if not (sparse.issparse(Y) or metric == "chi2"):
        dense = X.toarray() if sparse.issparse(X) else X
        return cdist(dense, Y, metric)  # type: ignore[call-overload]
    # Slow to import, and rarely needed.
    from sklearn.metrics import pairwise

    if sparse.issparse(X) != sparse.issparse(Y):
        X = sparse.csr_array(X) if sparse.issparse(Y) else X.toarray()
    if metric == "sqeuclidean":
        return np.asarray(pairwise.euclidean_distances(X, Y, squared=True))
    if metric == "cityblock":
        return np.asarray(pairwise.manhattan_distances(X, Y))
    try:
        return -np.asarray(pairwise.additive_chi2_kernel(X, Y))
    except ValueError as error:
        raise ValueError(f'kernel="chi2" cannot be evaluated: {error}') from None
