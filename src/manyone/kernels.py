"""Kernels: widths resolved from data, Gram matrices evaluated in row blocks.

A :class:`Kernel` is what is left of the parameters ``kernel``, ``gamma``, ``width`` ... once they
have met data: a plain object that maps two sets of rows to a block of kernel values. It never holds
a row of the data it was resolved on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    additive_chi2_kernel,
    manhattan_distances,
    pairwise_kernels,
)

Array = NDArray[np.float64]
Rows = Any  # dense (n, d) float64 array or scipy.sparse CSR matrix

MIXTURE = "rbf+laplacian"
KERNELS = frozenset(PAIRWISE_KERNEL_FUNCTIONS) | {MIXTURE, "precomputed"}
#: Kernels that are a decreasing function of a distance, and which distance that is.
DISTANCES = {"rbf": "sqeuclidean", "laplacian": "cityblock", "chi2": "chi2"}
#: Kernels whose ``gamma`` multiplies an inner product.
PRODUCTS = frozenset({"poly", "polynomial", "sigmoid"})
# Larger blocks than this leave the cache and gain nothing.
_BLOCK_BYTES = 8 * 2**20


def is_sparse(X: Any) -> bool:
    """Whether rows are a SciPy sparse matrix or array."""
    return bool(sparse.issparse(X))


def row_blocks(n_rows: int, floats_per_row: int) -> Iterator[slice]:
    """Cut rows into slices whose temporaries stay within scikit-learn's ``working_memory``.

    Parameters
    ----------
    n_rows : int
        Number of rows to cut.
    floats_per_row : int
        Size of the temporaries of one row, in float64 numbers.

    Yields
    ------
    slice
        Consecutive slices that cover ``range(n_rows)``.
    """
    budget = min(sklearn.get_config()["working_memory"] * 2**20, _BLOCK_BYTES)
    step = max(1, int(budget // (8 * max(1, floats_per_row))))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


@dataclass(frozen=True)
class Kernel:
    """A kernel with every number it needs.

    Parameters
    ----------
    name : str or callable
        Name known to :func:`sklearn.metrics.pairwise_kernels`, ``"rbf+laplacian"``,
        ``"precomputed"`` or a callable of two rows.
    gamma : tuple of float
        Coefficient for each component, in units of the scaled rows (see `scale`).
    shift : ndarray of shape (d,) or None
        Subtracted from dense rows: distances do not change, their rounding errors shrink.
    scale : float
        Rows are divided by it before distances are squared, so that neither 1e200 nor 1e-200 leaves
        the range of float64. A power of two: the division is exact.
    degree, coef0 : float
        As in :func:`sklearn.metrics.pairwise.polynomial_kernel`.
    params : dict
        Further keyword arguments of a callable.
    """

    name: str | Callable[..., float]
    gamma: tuple[float, ...] = ()
    shift: Array | None = None
    scale: float = 1.0
    degree: float = 3
    coef0: float = 1
    params: dict[str, Any] = field(default_factory=dict)

    def __call__(self, X: Rows, Y: Rows) -> Array:
        """Kernel values between the rows of `X` and the rows of `Y`.

        Parameters
        ----------
        X : array or CSR matrix of shape (m, d)
        Y : array or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (m, n)
        """
        if self.name == "precomputed":
            raise TypeError("a precomputed kernel has no rows to evaluate")
        with np.errstate(over="ignore", under="ignore"):  # a kernel of 0 is the right answer
            return self._values(X, Y)

    def _values(self, X: Rows, Y: Rows) -> Array:
        if is_sparse(X) != is_sparse(Y):
            X = X.toarray() if is_sparse(X) else sparse.csr_array(X)
        if not isinstance(self.name, str):
            return pairwise_kernels(X, Y, metric=self.name, **self.params)
        if is_sparse(X) or self.name not in ("rbf", "laplacian", MIXTURE):
            return self._sklearn(X, Y)
        X, Y = self._scaled(X), self._scaled(Y)
        if self.name == "rbf":
            return _rbf(X, Y, self.gamma[0])
        if self.name == "laplacian":
            return _laplacian(X, Y, self.gamma[0])
        values = _rbf(X, Y, self.gamma[0])
        values += _laplacian(X, Y, self.gamma[1])
        values *= 0.5
        return values

    def gram(self, X: Rows) -> Array:
        """Symmetric Gram matrix of the rows of `X`, evaluated below the diagonal only.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n), Fortran order, exactly symmetric
        """
        n = X.shape[0]
        K = np.empty((n, n), order="F")
        step = max(64, min(512, -(-n // 8)))
        for start in range(0, n, step):
            stop = min(start + step, n)
            # Columns start:stop from the diagonal down; the mirror image goes above it.
            block = self(X[start:stop], X[start:])
            corner = block[:, : stop - start]
            corner[:] = np.tril(corner) + np.tril(corner, -1).T
            if self.unit_diagonal:
                np.fill_diagonal(corner, 1.0)
            K[start:stop, start:] = block
            K[start:, start:stop] = block.T
        return K

    def batch(self, X: Array) -> Array:
        """Gram matrices of many small sets of rows at once.

        Parameters
        ----------
        X : ndarray of shape (g, n, d)

        Returns
        -------
        ndarray of shape (g, n, n)
        """
        if self.name != "rbf":
            return np.stack([self.gram(rows) for rows in X])
        K = self.pairs(X, X)
        np.einsum("gnn->gn", K)[:] = 1.0
        return K

    def pairs(self, X: Array, Y: Array) -> Array:
        """Kernel values between many pairs of sets of rows at once.

        Parameters
        ----------
        X : ndarray of shape (g, m, d)
        Y : ndarray of shape (g, n, d)

        Returns
        -------
        ndarray of shape (g, m, n)
        """
        if self.name != "rbf":
            return np.stack([self(x, y) for x, y in zip(X, Y, strict=True)])
        with np.errstate(over="ignore", under="ignore"):
            if 1e-70 < self.scale < 1e70:  # one number instead of all rows
                return _rbf_pairs(X, Y, self.gamma[0] / self.scale**2)
            return _rbf_pairs(self._scaled(X), self._scaled(Y), self.gamma[0])

    def diagonal(self, X: Rows) -> Array:
        """Kernel value of each row with itself, shape (n,)."""
        if self.unit_diagonal:
            return np.ones(X.shape[0])
        return np.array([self(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])

    @property
    def unit_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for every row."""
        return self.name in DISTANCES or self.name == MIXTURE

    def _scaled(self, X: Array) -> Array:
        if self.shift is not None:
            X = X - self.shift
        return X / self.scale if self.scale != 1.0 else X

    def _sklearn(self, X: Rows, Y: Rows) -> Array:
        if self.name == MIXTURE:
            parts = (("rbf", self.gamma[0]), ("laplacian", self.gamma[1]))
            return 0.5 * sum(pairwise_kernels(X, Y, metric=k, gamma=g) for k, g in parts)
        if self.name == "cosine" and not is_sparse(X):
            X, Y = _unit_reach(X), _unit_reach(Y)
        params: dict[str, Any] = {}
        if self.gamma:
            params["gamma"] = self.gamma[0]
        if self.name in PRODUCTS:
            params["coef0"] = self.coef0
        if self.name in ("poly", "polynomial"):
            params["degree"] = self.degree
        try:
            values = pairwise_kernels(X, Y, metric=self.name, **params)
        except ValueError as error:
            raise ValueError(f"kernel={self.name!r} cannot be evaluated: {error}") from None
        return np.asarray(values, dtype=np.float64)


def resolve_kernel(
    kernel: str | Callable[..., float],
    X: Rows,
    *,
    gamma: str | float = "mean",
    width: float = 1.0,
    degree: float = 3,
    coef0: float = 1,
    params: dict[str, Any] | None = None,
    weight: Array | None = None,
) -> Kernel:
    """Fix the width of a kernel on data.

    Parameters
    ----------
    kernel : str or callable
        See :class:`Kernel`.
    X : array or CSR matrix of shape (n, d)
        Rows that ``"mean"``, ``"median"`` and ``"scale"`` look at.
    gamma : {"mean", "median", "scale"} or float
        ``"mean"`` and ``"median"``: one over the mean (median) distance between rows, in the
        kernel's own metric (squared Euclidean for RBF, cityblock for Laplacian, chi-squared), all
        n^2 pairs counted; for kernels of an inner product, one over the mean (median) squared norm.
        ``"scale"``: one over (number of features x variance).
    width : float
        Stretches the kernel: the resolved gamma is divided by it.
    degree, coef0, params
        See :class:`Kernel`.
    weight : ndarray of shape (n,) or None
        Counts of the rows.

    Returns
    -------
    Kernel
    """
    if not isinstance(kernel, str):
        return Kernel(kernel, params=dict(params or {}))
    if kernel in ("precomputed", "linear", "cosine", "additive_chi2"):
        return Kernel(kernel)
    weight = np.ones(X.shape[0]) if weight is None else weight
    shift, scale = None, 1.0
    names = ("rbf", "laplacian") if kernel == MIXTURE else (kernel,)
    if kernel in ("rbf", "laplacian", MIXTURE) and not is_sparse(X):
        # Half the sum of the extremes is the centre of the box; halves first, against overflow.
        low, high = X.min(axis=0), X.max(axis=0)
        shift = low / 2 + high / 2
        reach = float(np.max(high / 2 - low / 2, initial=0.0))
        if reach > 0:
            scale = float(2.0 ** np.clip(np.frexp(reach)[1], -1021, 1023))
    scaled = X if shift is None else (X - shift) / scale
    resolved = []
    for name in names:
        power = {"rbf": 2, "laplacian": 1}.get(name, 0)
        if gamma == "scale":
            # The variance is taken over all entries, as scikit-learn does: about one common mean.
            spread = X.shape[1] * _variance(X if shift is None else X / scale, weight)
            value = _times_power(_reciprocal(spread) / width, scale, power - 2)
        elif isinstance(gamma, str):
            value = _data_gamma(name, scaled, gamma, weight) / width
        else:
            value = _times_power(gamma / width, scale, power)
        resolved.append(value)
    return Kernel(kernel, tuple(resolved), shift, scale, degree, coef0)


def reported_gamma(kernel: Kernel) -> float | tuple[float, ...] | None:
    """The coefficient(s) in the units of the data, as the user would write them."""
    if not kernel.gamma:
        return None
    powers = {"rbf": (-2,), "laplacian": (-1,), MIXTURE: (-2, -1)}
    exponents = powers.get(kernel.name, (0,)) if isinstance(kernel.name, str) else (0,)
    values = tuple(
        _times_power(g, kernel.scale, p) for g, p in zip(kernel.gamma, exponents, strict=True)
    )
    return values if len(values) > 1 else values[0]


def _times_power(value: float, scale: float, power: int) -> float:
    # Factor by factor, saturating: scale**2 alone may overflow where the product does not.
    for _ in range(abs(power)):
        value = value * scale if power > 0 else value / scale
    return float(np.clip(value, np.finfo(float).tiny, np.finfo(float).max))


# Rounding of |x|^2 + |y|^2 - 2 x'y that is felt in the kernel, times this, is 1e-10.
_FAR = 1e-10 / np.finfo(float).eps


def _rbf(X: Array, Y: Array, gamma: float) -> Array:
    # One product gives -gamma |x - y|^2: rows are extended by their squared norm and by one.
    left = np.empty((X.shape[0], X.shape[1] + 2))
    left[:, :-2], left[:, -2], left[:, -1] = X, np.einsum("ij,ij->i", X, X), 1.0
    right = np.empty((Y.shape[0], Y.shape[1] + 2))
    right[:, :-2], right[:, -2], right[:, -1] = -2.0 * Y, 1.0, np.einsum("ij,ij->i", Y, Y)
    reach = np.max(left[:, -2], initial=0.0) + np.max(right[:, -1], initial=0.0)
    if not gamma * reach < _FAR:
        # Rows far apart beside the width: differences first, squares after.
        values = cdist(X, Y, "sqeuclidean")
        values *= -gamma
        return np.exp(values, out=values)
    right *= -gamma
    values = left @ right.T
    np.minimum(values, 0.0, out=values)
    return np.exp(values, out=values)


def _rbf_pairs(X: Array, Y: Array, gamma: float) -> Array:
    # Rows of one set are close together: about their own mean little cancels.
    centre = Y.mean(axis=1, keepdims=True)
    X, Y = X - centre, Y - centre
    x_norms, y_norms = np.einsum("gnd,gnd->gn", X, X), np.einsum("gnd,gnd->gn", Y, Y)
    reach = np.max(x_norms, initial=0.0) + np.max(y_norms, initial=0.0)
    if not gamma * reach < _FAR:
        far = [cdist(x, y, "sqeuclidean") for x, y in zip(X, Y, strict=True)]
        return np.exp(-gamma * np.stack(far))
    values = np.matmul(X, 2.0 * gamma * Y.transpose(0, 2, 1))
    values -= gamma * x_norms[:, :, None]
    values -= gamma * y_norms[:, None, :]
    np.minimum(values, 0.0, out=values)
    return np.exp(values, out=values)


def _unit_reach(X: Array) -> Array:
    # Squares of tiny or huge entries leave the range of float64; the cosine does not.
    reach = np.abs(X).max(axis=1, keepdims=True)
    return X / np.where(reach > 0, reach, 1.0)


def _laplacian(X: Array, Y: Array, gamma: float) -> Array:
    values = cdist(X, Y, "cityblock")
    values *= -gamma
    return np.exp(values, out=values)


def _data_gamma(name: str, X: Rows, rule: str, weight: Array) -> float:
    if name in PRODUCTS:
        norms = (
            np.asarray(X.multiply(X).sum(axis=1)).ravel()
            if is_sparse(X)
            else (np.einsum("ij,ij->i", X, X))
        )
        typical = _centre(norms, weight, rule)
    elif rule == "median":
        typical = _median_distance(DISTANCES[name], X, weight)
        if typical == 0.0:  # most rows are duplicates: the mean still sees the others
            typical = _mean_distance(DISTANCES[name], X, weight)
    else:
        typical = _mean_distance(DISTANCES[name], X, weight)
    return _reciprocal(typical)


def _reciprocal(typical: float) -> float:
    # All rows alike: every width gives the same answer on them, take the neutral one.
    return 1.0 / typical if typical > np.finfo(float).tiny else 1.0


def _centre(values: Array, weight: Array, rule: str) -> float:
    if rule == "mean":
        return float(np.average(values, weights=weight))
    return weighted_median(values, weight)


def weighted_median(values: Array, weight: Array) -> float:
    """Median of values repeated by their weights, the mean of the two middle ones if they tie.

    Parameters
    ----------
    values, weight : ndarray of shape (n,)

    Returns
    -------
    float
    """
    order = np.argsort(values)
    ordered, heap = values[order], np.cumsum(weight[order])
    half = heap[-1] / 2
    low = ordered[np.searchsorted(heap, half * (1 - 1e-12), side="left")]
    high = ordered[min(np.searchsorted(heap, half * (1 + 1e-12), side="right"), len(ordered) - 1)]
    return float((low + high) / 2)


def _variance(X: Rows, weight: Array) -> float:
    share = weight / (weight.sum() * X.shape[1])
    if is_sparse(X):
        mean = float(share @ np.asarray(X.sum(axis=1)).ravel())
        return float(share @ np.asarray(X.multiply(X).sum(axis=1)).ravel()) - mean**2
    mean = float(share @ X.sum(axis=1))
    return float(share @ ((X - mean) ** 2).sum(axis=1))


def _mean_distance(metric: str, X: Rows, weight: Array) -> float:
    share = weight / weight.sum()
    if metric == "sqeuclidean":
        # mean |x - y|^2 = 2 (mean |x|^2 - |mean x|^2): no pair is visited.
        if is_sparse(X):
            centre = np.asarray(X.T @ share).ravel()
            return 2.0 * (
                float(share @ np.asarray(X.multiply(X).sum(axis=1)).ravel())
                - float(centre @ centre)
            )
        centred = X - share @ X
        return 2.0 * float(share @ np.einsum("ij,ij->i", centred, centred))
    if metric == "cityblock":
        # Sorted, a value is added once for every row below it and subtracted for every row above.
        total = 0.0
        for columns in row_blocks(X.shape[1], 4 * X.shape[0]):
            values = X[:, columns].toarray() if is_sparse(X) else X[:, columns]
            order = np.argsort(values, axis=0)
            mass = share[order]
            below = np.cumsum(mass, axis=0) - mass
            ordered = np.take_along_axis(values, order, axis=0)
            total += 2.0 * float(np.sum(ordered * mass * (2 * below + mass - 1.0)))
        return total
    return sum(
        float(share[rows] @ _distances(metric, X[rows], X) @ share)
        for rows in row_blocks(X.shape[0], X.shape[0])
    )


def _median_distance(metric: str, X: Rows, weight: Array) -> float:
    n = X.shape[0]
    distances = np.concatenate([_distances(metric, X[i : i + 1], X[i:]).ravel() for i in range(n)])
    # Each unordered pair stands for two ordered ones, a row with itself for one.
    counts = np.concatenate(
        [weight[i] * weight[i:] * np.r_[1.0, np.full(n - i - 1, 2.0)] for i in range(n)]
    )
    return weighted_median(distances, counts)


def _distances(metric: str, X: Rows, Y: Rows) -> Array:
    if metric == "chi2":
        try:
            return -additive_chi2_kernel(X, Y)
        except ValueError as error:
            raise ValueError(f'kernel="chi2" cannot be evaluated: {error}') from None
    if metric == "cityblock" and is_sparse(X):
        return manhattan_distances(X, Y)
    if is_sparse(X):
        return sklearn.metrics.euclidean_distances(X, Y, squared=True)
    return cdist(X, Y, "cityblock") if metric == "cityblock" else cdist(X, Y, "sqeuclidean")
