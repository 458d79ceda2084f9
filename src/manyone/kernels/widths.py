"""Distances between rows, and what is typical of them: kernel widths come from there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from manyone._types import Array, Rows

#: Kernels that are a decreasing function of a distance, and which distance that is.
DISTANCES = {"rbf": "sqeuclidean", "laplacian": "cityblock", "chi2": "chi2"}
#: Kernels whose ``gamma`` multiplies an inner product.
PRODUCTS = frozenset({"poly", "polynomial", "sigmoid"})
# Bins that one pass over all distances fills, and distances that are few enough to be sorted.
_BINS, _FEW = 4096, 2**21


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
    """Median of values (n,) repeated by their weights, the mean of the middle two if they tie."""
    order = np.argsort(values)
    ordered, cumulative = values[order], np.cumsum(weight[order] / weight.sum())
    low = int(np.searchsorted(cumulative, 0.5 - 1e-12))
    high = int(np.searchsorted(cumulative, 0.5 + 1e-12))
    return float((ordered[low] + ordered[min(high, len(ordered) - 1)]) / 2)


def median_distance(metric: str, X: Rows, weight: Array) -> float:
    """Median over all n^2 pairs of rows, counted by their weights, without holding them."""
    share = weight / weight.sum()
    if X.shape[0] ** 2 <= 2 * _FEW:
        distance, mass = (
            np.concatenate(part) for part in zip(*pairs(metric, X, share), strict=True)
        )
        return weighted_median(distance, mass)
    low, high = (
        _quantile(metric, X, share, target) for target in (0.5 - 1e-12, 0.5 + 1e-12)
    )
    return (low + high) / 2


def _quantile(metric: str, X: Rows, share: Array, target: float) -> float:
    """The smallest distance that at least a share `target` of all pairs does not exceed.

    One pass counts the distances in bins; the bin that holds the target is cut again until its
    distances are few enough to be sorted.
    """
    low, high, below = (
        -np.inf,
        np.inf,
        0.0,
    )  # it lies in (low, high]; `below`: the share up to low
    while True:
        count, least, most = 0, np.inf, -np.inf
        for distance, _ in _between(metric, X, share, low, high):
            count += len(distance)
            least, most = distance.min(initial=least), distance.max(initial=most)
        if count <= _FEW or least == most:
            break
        edges = np.linspace(least, most, _BINS)
        mass = np.zeros(_BINS)
        for distance, part in _between(metric, X, share, low, high):
            mass += np.bincount(np.searchsorted(edges, distance), part, _BINS)
        bin_ = min(int(np.searchsorted(below + np.cumsum(mass), target)), _BINS - 1)
        below += float(mass[:bin_].sum())
        low, high = (float(edges[bin_ - 1]) if bin_ else low), float(edges[bin_])
    parts = list(_between(metric, X, share, low, high))
    distance, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(distance)
    place = int(np.searchsorted(below + np.cumsum(mass[order]), target))
    return float(distance[order][min(place, len(order) - 1)])


def _between(
    metric: str, X: Rows, share: Array, low: float, high: float
) -> Iterator[tuple[Array, Array]]:
    for distance, mass in pairs(metric, X, share):
        inside = (distance > low) & (distance <= high)
        yield distance[inside], mass[inside]


def pairs(metric: str, X: Rows, share: Array) -> Iterator[tuple[Array, Array]]:
    """Distances of all unordered pairs, in blocks, and the share of ordered pairs of each."""
    n = X.shape[0]
    step = max(1, 2**20 // n)
    for start in range(0, n, step):
        stop = min(start + step, n)
        distance = distances(metric, X[start:stop], X[start:])
        # Each unordered pair stands for two ordered ones, a row with itself for one.
        mass = np.triu(2.0 * np.outer(share[start:stop], share[start:]))
        np.einsum("ii->i", mass[:, : stop - start])[:] /= 2.0
        upper = np.triu_indices(stop - start, 0, n - start)
        yield distance[upper], mass[upper]


def distances(metric: str, X: Rows, Y: Rows) -> Array:
    """Distances (m, n) between rows, one of `DISTANCES`; of sparse rows where `Y` is sparse."""
    if not (sparse.issparse(Y) or metric == "chi2"):
        return cdist(X.toarray() if sparse.issparse(X) else X, Y, metric)  # type: ignore[call-overload]
    from sklearn.metrics import pairwise  # slow to import, and rarely needed

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
