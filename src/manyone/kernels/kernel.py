"""Kernels: values between rows, and widths from data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from manyone._types import Array, Codes, Rows
from manyone.data.hashing import row_hashes
from manyone.data.memory import refuse_without_memory
from manyone.data.rows import row_blocks
from manyone.kernels import widths
from manyone.kernels.widths import DISTANCES, PRODUCTS, squared_norms

MIXTURE = "rbf+laplacian"
#: Names of kernels whose values come in the place of rows.
VALUES_ONLY = ("precomputed",)
#: Every name: those of :func:`sklearn.metrics.pairwise_kernels`, and ours.
KERNELS = frozenset(
    {
        "additive_chi2",
        "chi2",
        "cosine",
        "laplacian",
        "linear",
        "poly",
        "polynomial",
        "rbf",
        "sigmoid",
        MIXTURE,
        *VALUES_ONLY,
    }
)
#: Kernels that are a decreasing function of a distance.
OF_DISTANCE = frozenset({*DISTANCES, MIXTURE})
#: Kernels that are evaluated here, on shifted and scaled rows: the powers of the scale
#: that their distances are divided by.
_POWERS = {"rbf": (2,), "laplacian": (1,), MIXTURE: (2, 1)}
# Smaller kernel matrices fit into any memory.
_LARGE = 8192
# Below this limit of gamma (|x|^2 + |y|^2), distances may be computed by one product:
# rounding of |x|^2 + |y|^2 - 2 x'y changes the kernel by less than 1e-10.
_PRODUCT_LIMIT = 1e-10 / np.finfo(float).eps


#: A selection of rows.
Choice = slice | Codes


class Side(NamedTuple):
    """Rows made ready to be compared with many others.

    Attributes
    ----------
    rows : array or CSR matrix of shape (n, d)
        Shifted and scaled, where the kernel does that.
    extended : ndarray of shape (n, d + 2) or None
        (2 g y, -g, -g |y|^2) of each row y: its product with (x, |x|^2, 1) is -g |x -
        y|^2.
    largest : float
        Largest |y|^2.
    """

    rows: Rows
    extended: Array | None = None
    largest: float = 0.0


class NewRows(NamedTuple):
    """Rows made ready to be compared with a side, some of them at a time.

    Attributes
    ----------
    rows : array or CSR matrix of shape (m, d)
        Shifted and scaled, where the kernel does that.
    extended : ndarray of shape (m, d + 2) or None
        (x, |x|^2, 1) of each row x, see `Side`.
    """

    rows: Rows
    extended: Array | None = None

    def take(self, chosen: Choice) -> NewRows:
        """A selection of the rows."""
        if self.extended is None:
            return NewRows(self.rows[chosen])
        return NewRows(self.rows[chosen], self.extended[chosen])


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel with every number it needs, and no row of the data it was resolved on.

    Parameters
    ----------
    name : str or callable
        Name known to :func:`sklearn.metrics.pairwise_kernels`, ``"rbf+laplacian"``,
        ``"precomputed"`` or a callable of two rows.
    gamma : tuple of float
        Coefficient for each component, in units of the scaled rows (see `scale`).
    shift : ndarray of shape (d,) or None
        Subtracted from dense rows: distances stay, their rounding errors shrink.
    scale : float
        Rows are divided by it before distances are squared, so that neither 1e200 nor
        1e-200 leaves the range of float64. A power of two: the division is exact.
    degree, coef0 : float
        As in :func:`sklearn.metrics.pairwise.polynomial_kernel`.
    params : dict
        Further keyword arguments of a callable.
    fades : bool
        Of a precomputed kernel or a callable: whether its values fall from 1 to 0.
    """

    name: str | Callable[..., float]
    gamma: tuple[float, ...] = ()
    shift: Array | None = None
    scale: float = 1.0
    degree: float = 3
    coef0: float = 1
    params: dict[str, Any] = field(default_factory=dict)
    fades: bool = False

    def __call__(self, X: Rows, Y: Rows) -> Array:
        """Kernel values (m, n) between rows `X` (m, d) and `Y` (n, d)."""
        return self.against(X, self.side(Y))

    def side(self, Y: Rows) -> Side:
        """Rows (n, d) made ready for `against`."""
        if sparse.issparse(Y) or self.name not in _POWERS:
            return Side(Y)
        Y = self.scaled(Y)
        if self.name == "laplacian":
            return Side(Y)
        with np.errstate(over="ignore", under="ignore"):
            extended = np.empty((len(Y), Y.shape[1] + 2))
            norms = np.einsum("ij,ij->i", Y, Y)
            extended[:, :-2] = -2.0 * Y
            extended[:, -2] = 1.0
            extended[:, -1] = norms
            extended *= -self.gamma[0]
            return Side(Y, extended, float(np.max(norms, initial=0.0)))

    def new_rows(self, X: Rows, side: Side) -> NewRows:
        """Rows (m, d) prepared once for `against` and `exponents`."""
        if not sparse.issparse(X):
            X = np.asarray(X, dtype=np.float64)
        elif self.name in OF_DISTANCE and not sparse.issparse(side.rows):
            X = X.toarray()
        if self.name not in OF_DISTANCE:
            return NewRows(X)
        with np.errstate(over="ignore", under="ignore"):
            X = self.scaled(X)
            if side.extended is None:
                return NewRows(X)
            extended = np.empty((X.shape[0], X.shape[1] + 2))
            extended[:, :-2] = X
            extended[:, -2] = np.einsum("ij,ij->i", X, X)
            extended[:, -1] = 1.0
            return NewRows(X, extended)

    def against(
        self, X: Rows | NewRows, side: Side, chosen: Choice = slice(None)
    ) -> Array:
        """Kernel values (m, n) between rows (m, d) and chosen rows of a side."""
        # A kernel value that underflows to 0 is right.
        with np.errstate(over="ignore", under="ignore"):
            new = X if isinstance(X, NewRows) else self.new_rows(X, side)
            if self.name not in OF_DISTANCE:
                return self._by_sklearn(new.rows, side.rows[chosen])
            first, *second = self.exponents(new, side, chosen)
            values = np.exp(first, out=first)
            for exponents in second:
                values += np.exp(exponents)
                values *= 0.5
            return values

    def exponents(self, new: NewRows, side: Side, chosen: Choice) -> list[Array]:
        """Logarithms (m, n) of `against`; of a mixture those of both kernels."""
        exponents = []
        for name, gamma in zip(str(self.name).split("+"), self.gamma, strict=True):
            if name == "rbf" and new.extended is not None and side.extended is not None:
                largest = new.extended[:, -2].max(initial=0.0) + side.largest
                if gamma * largest < _PRODUCT_LIMIT:
                    product = new.extended @ side.extended[chosen].T
                    exponents.append(np.minimum(product, 0.0, out=product))
                    continue
            # Rows are far apart beside the width: differences first, then squares.
            apart = widths.distances(DISTANCES[name], new.rows, side.rows[chosen])
            exponents.append(-gamma * apart)
        return exponents

    def gram(self, X: Rows) -> Array:
        """Gram matrix (n, n) of rows (n, d), in Fortran order and exactly symmetric."""
        n = X.shape[0]
        if n > _LARGE:
            refuse_without_memory(n)
        K = np.empty((n, n), order="F")
        side = self.side(X)
        step = max(64, min(512, -(-n // 8)))
        for start in range(0, n, step):
            stop = min(start + step, n)
            # Columns start:stop from the diagonal down; the mirror image goes above it.
            block = self.against(X[start:stop], side, slice(start, None))
            corner = block[:, : stop - start]
            corner[:] = np.tril(corner) + np.tril(corner, -1).T
            if self.fading:
                np.fill_diagonal(corner, 1.0)
            K[start:stop, start:] = block
            K[start:, start:stop] = block.T
        return K

    def diagonal(self, X: Rows) -> Array:
        """Kernel value of each row with itself, shape (n,)."""
        if self.fading:
            return np.ones(X.shape[0])
        if not isinstance(self.name, str):
            pairs = (self(X[i : i + 1], X[i : i + 1]) for i in range(X.shape[0]))
            return np.array([value.item() for value in pairs])
        if self.name == "additive_chi2":
            return np.zeros(X.shape[0])
        if self.name == "cosine":
            norms = squared_norms(_with_largest_entry_one(X))
            return (norms > 0).astype(np.float64)
        norms = squared_norms(X)
        if self.name == "linear":
            return norms
        with np.errstate(over="ignore"):
            product = self.gamma[0] * norms + self.coef0
            return np.tanh(product) if self.name == "sigmoid" else product**self.degree

    @property
    def fading(self) -> bool:
        """Whether values fall with the distance between rows, from k(x, x) = 1 to 0."""
        return self.fades or self.name in OF_DISTANCE

    @property
    def semidefinite(self) -> bool:
        """Whether every kernel matrix is known to be positive semi-definite."""
        if self.name in ("poly", "polynomial"):
            return self.coef0 >= 0
        return self.name in (*DISTANCES, MIXTURE, "linear", "cosine")

    @property
    def reported_gamma(self) -> float | tuple[float, ...] | None:
        """The coefficient(s) in the units of the data, as the user would write them."""
        powers = _POWERS.get(self.name, (0,)) if isinstance(self.name, str) else ()
        values = [
            times_power(gamma, self.scale, -power)
            for gamma, power in zip(self.gamma, powers, strict=False)
        ]
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)

    def scaled(self, X: Array) -> Array:
        """Rows shifted and divided by the scale."""
        if self.shift is not None:
            X = X - self.shift
        return X / self.scale if self.scale != 1.0 else X

    def _by_sklearn(self, X: Rows, Y: Rows) -> Array:
        # Slow to import, and rarely needed.
        from sklearn.metrics.pairwise import pairwise_kernels

        if sparse.issparse(X) != sparse.issparse(Y):
            X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
        if not isinstance(self.name, str):
            return pairwise_kernels(X, Y, metric=self.name, **self.params)
        if self.name == "cosine":
            X = _with_largest_entry_one(X)
            Y = _with_largest_entry_one(Y)
        params = {"gamma": self.gamma[0]} if self.gamma else {}
        if self.name in PRODUCTS:
            params["coef0"] = self.coef0
        if self.name in ("poly", "polynomial"):
            params["degree"] = self.degree
        try:
            values = pairwise_kernels(X, Y, metric=self.name, **params)
        except ValueError as error:
            raise ValueError(
                f"kernel={self.name!r} cannot be evaluated: {error}"
            ) from None
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
    kernel, degree, coef0, params
        See :class:`Kernel`.
    X : array or CSR matrix of shape (n, d)
        Rows that ``"mean"``, ``"median"`` and ``"scale"`` look at.
    gamma : {"mean", "median", "scale"} or float
        ``"mean"`` and ``"median"``: one over the mean (median) distance between rows,
        in the kernel's own metric (squared Euclidean for RBF, cityblock for Laplacian,
        chi-squared), all n^2 pairs counted; for kernels of an inner product, one over
        the mean (median) squared norm. ``"scale"``: one over (number of features x
        variance).
    width : float
        Stretches the kernel: the resolved gamma is divided by it.
    weight : ndarray of shape (n,) or None
        Counts of the rows.

    Returns
    -------
    Kernel
    """
    if not isinstance(kernel, str):
        called = Kernel(kernel, params=dict(params or {}))
        # Kernel values of 64 rows tell whether they fall from 1 to 0.
        sample = X[np.sort(np.argsort(row_hashes(X))[:64])]
        return replace(called, fades=falls_from_one(called(sample, sample)))
    if kernel.endswith("chi2") and sparse.issparse(X):
        raise ValueError(
            f"kernel={kernel!r} takes no sparse rows. Give them by X.toarray()."
        )
    if kernel in ("precomputed", "linear", "cosine", "additive_chi2"):
        return Kernel(kernel)
    weight = np.ones(X.shape[0]) if weight is None else weight
    shift = None
    scale = 1.0
    scaled = X
    if kernel in _POWERS and not sparse.issparse(X):
        # The centre of the box of all rows; halves first, against overflow.
        low = X.min(axis=0)
        high = X.max(axis=0)
        shift = low / 2 + high / 2
        half_range = float(np.max(high / 2 - low / 2, initial=0.0))
        if half_range > 0:
            scale = float(2.0 ** np.clip(np.frexp(half_range)[1], -1021, 1023))
        scaled = (X - shift) / scale
    gammas = []
    for name, power in zip(kernel.split("+"), _POWERS.get(kernel, (0,)), strict=True):
        if not isinstance(gamma, str):
            gammas.append(times_power(gamma / width, scale, power))
            continue
        if gamma == "scale":
            divided = X if shift is None else X / scale
            typical = widths.variance(divided, weight) * X.shape[1]
        elif name in PRODUCTS:
            norms = squared_norms(X)
            mean = float(np.average(norms, weights=weight))
            typical = mean if gamma == "mean" else widths.weighted_median(norms, weight)
        else:
            metric = DISTANCES[name]
            typical = 0.0
            if gamma == "median":
                typical = widths.median_distance(metric, scaled, weight)
            if typical <= 0.0:  # most rows are copies: the mean still sees the others
                typical = mean_distance(metric, scaled, weight)
        # If all rows are alike, every width gives the same answer: take a neutral one.
        typical = typical if typical > np.finfo(float).tiny else 1.0
        value = 1.0 / (typical * width)
        gammas.append(
            times_power(value, scale, power - 2) if gamma == "scale" else value
        )
    return Kernel(kernel, tuple(gammas), shift, scale, degree, coef0)


def falls_from_one(K: Array) -> bool:
    """Whether a kernel matrix is 1 on the diagonal and between 0 and 1 elsewhere."""
    ones = np.all(np.abs(np.diagonal(K) - 1.0) <= 1e-9)
    return bool(ones and K.min(initial=1.0) >= 0.0 and K.max(initial=1.0) <= 1.0 + 1e-9)


def mean_distance(metric: str, X: Rows, weight: Array) -> float:
    """Mean over all n^2 pairs of rows, counted by their weights."""
    share = weight / weight.sum()
    if metric == "sqeuclidean":
        # mean |x - y|^2 = 2 (mean |x|^2 - |mean x|^2): no pair is visited.
        centre = X.T @ share
        if sparse.issparse(X):
            return 2.0 * (float(share @ squared_norms(X)) - float(centre @ centre))
        X = X - centre
        return 2.0 * float(share @ np.einsum("ij,ij->i", X, X))
    if metric == "chi2":
        return sum(
            float(distance @ mass) for distance, mass in widths.pairs(metric, X, share)
        )
    # In ascending order, a value is added once for every row below it, and subtracted
    # for every row above.
    total = 0.0
    for columns in row_blocks(X.shape[1], 4 * X.shape[0]):
        values = X[:, columns].toarray() if sparse.issparse(X) else X[:, columns]
        order = np.argsort(values, axis=0)
        mass = share[order]
        below = np.cumsum(mass, axis=0) - mass
        ordered = np.take_along_axis(values, order, axis=0)
        total += 2.0 * float(np.sum(ordered * mass * (2 * below + mass - 1.0)))
    return total


def times_power(value: float, scale: float, power: int) -> float:
    """``value * scale**power`` without overflow: ``scale**2`` alone may overflow."""
    for _ in range(abs(power)):
        value = value * scale if power > 0 else value / scale
    return float(np.clip(value, np.finfo(float).tiny, np.finfo(float).max))


def _with_largest_entry_one(X: Rows) -> Rows:
    """Rows (n, d) divided by their largest entry; sparse ones as they are."""
    # Squares of tiny and huge entries would leave the range of float64.
    if sparse.issparse(X):
        return X
    largest = np.abs(X).max(axis=1, keepdims=True)
    return X / np.where(largest > 0, largest, 1.0)


def kernel_grams(kernel: Kernel, X: Array) -> Array:
    """Gram matrices (g, n, n) of g sets of rows (g, n, d)."""
    # Beyond 64 rows, a call for each set costs no more than one for all sets.
    if kernel.name == "rbf" and X.shape[1] <= 64:
        gamma = kernel.gamma[0]
        with np.errstate(over="ignore", under="ignore"):
            if 1e-70 < kernel.scale < 1e70:  # one number instead of all rows
                gamma /= kernel.scale**2
                scaled = X
            else:
                scaled = kernel.scaled(X)
            # Rows of one set are close together: about their own mean little cancels.
            Y = scaled - scaled.mean(axis=1, keepdims=True)
            norms = np.einsum("gnd,gnd->gn", Y, Y)
            if 2.0 * gamma * np.max(norms, initial=0.0) < _PRODUCT_LIMIT:
                values = np.matmul(Y, 2.0 * gamma * Y.transpose(0, 2, 1))
                values -= gamma * norms[:, :, None]
                values -= gamma * norms[:, None, :]
                np.exp(np.minimum(values, 0.0, out=values), out=values)
                np.einsum("gnn->gn", values)[:] = 1.0
                return values
    K = np.empty((len(X), X.shape[1], X.shape[1]))
    for matrix, rows in zip(K, X, strict=True):
        matrix[:] = kernel.gram(rows)
    return K
