"""Kernels and training rows as one object: matrices, features, points.

A :class:`Gram` is what a method is fitted to, whatever the kernel (named, callable,
precomputed) and however it is held (rows, matrix, landmarks). :class:`Points` are what
is left of it in a fitted model: the rows that its functions are expanded over. An
:class:`Expansion` has one for every task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, lapack

from manyone._types import Array, Codes, Rows
from manyone.data.rows import TrainingRows, row_blocks
from manyone.kernels.kernel import (
    OF_DISTANCE,
    Choice,
    Kernel,
    NewRows,
    Side,
    falls_from_one,
    kernel_grams,
    resolve_kernel,
)
from manyone.kernels.landmarks import FeatureMap

# Mean number of rows of a task from which it pays to score them by one product. (0.70
# and 0.73 of the bare rate, 0.67 and 0.70 without: `bench_scale.py scoring`.)
_RUNS = 4


class KernelChoice(Protocol):
    """The parameters of an estimator that choose its kernel: :func:`resolve_kernel`."""

    kernel: str | Callable[..., float]
    gamma: str | float
    width: float
    degree: int
    coef0: float
    kernel_params: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class Points:
    """The rows that functions are expanded over, with their kernel.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
        Of a precomputed kernel, of shape (n, 0): new rows bring their kernel values.
    columns : ndarray of shape (n,) or None
        Where each point stands among the kernel values that new rows bring.
    """

    kernel: Kernel
    X: Rows
    columns: Codes | None = None

    def __len__(self) -> int:
        """Return the number of points."""
        return int(self.X.shape[0])

    def take(self, rows: Choice) -> Points:
        """A selection of the points."""
        columns = None if self.columns is None else self.columns[rows]
        return Points(self.kernel, self.X[rows], columns)

    @cached_property
    def side(self) -> Side:
        """The points as the kernel wants them."""
        return self.kernel.side(self.X)

    def __getstate__(self) -> dict[str, object]:
        """State without cached values."""
        return {"kernel": self.kernel, "X": self.X, "columns": self.columns}

    def new_rows(self, X: Rows) -> NewRows:
        """New rows (m, d), or the kernel values that they bring, ready for `values`."""
        if self.columns is not None:
            return NewRows(X)
        return self.kernel.new_rows(X, self.side)

    def values(self, X: Rows | NewRows, points: Choice | None = None) -> Array:
        """Kernel values (m, n) of new rows against all points, or chosen ones."""
        new = X if isinstance(X, NewRows) else self.new_rows(X)
        chosen = slice(None) if points is None else points
        if self.columns is not None:
            values = new.rows[:, self.columns[chosen]]
            values = values.toarray() if sparse.issparse(values) else values
            return np.asarray(values, dtype=np.float64)
        return self.kernel.against(new, self.side, chosen)

    def log_values(self, new: NewRows, points: Choice) -> Array:
        """Logarithms (m, k) of kernel values; finite where the values round to 0."""
        with np.errstate(all="ignore"):
            if self.kernel.name not in OF_DISTANCE:
                return np.log(np.maximum(self.values(new, points), 0.0))
            logarithms, *second = self.kernel.exponents(new, self.side, points)
            for exponents in second:  # of a mixture the mean of two kernels
                logarithms = np.logaddexp(logarithms, exponents) - np.log(2.0)
            return logarithms

    def blocks(self, X: Rows) -> Iterator[tuple[slice, Array]]:
        """Kernel values of new rows against all points, block by block."""
        if X.shape[0] == 1:  # the size of a block takes time to ask for
            yield slice(0, 1), self.values(X)
            return
        for rows in row_blocks(X.shape[0], 2 * (self.X.shape[0] + X.shape[1])):
            yield rows, self.values(X[rows])

    def diagonal(self, X: Rows) -> Array:
        """k(x, x) of new rows, shape (m,); unknown for a precomputed kernel."""
        return self.kernel.diagonal(X)


class PointScorer:
    """A scorer by kernel values against points, which also gives the largest of them."""

    points: Points

    @abstractmethod
    def own_and_largest(self, X: Rows, codes: Codes) -> tuple[Array, Array]:
        """Scores (n,) of rows for their tasks (n,), and their largest kernel values."""

    @abstractmethod
    def all_of(self, K: Array) -> Array:
        """Scores (b, T) of rows for all tasks from their kernel values (b, n)."""

    def all_and_largest(self, X: Rows) -> tuple[Array, Array]:
        """Scores (n, T) for all tasks, and the largest value of each row (n,)."""
        blocks = [(self.all_of(K), K.max(axis=1)) for _, K in self.points.blocks(X)]
        scores, largest = zip(*blocks, strict=True)
        return np.concatenate(scores), np.concatenate(largest)

    def own(self, X: Rows, codes: Codes) -> Array:
        """See :class:`manyone.models.scorers.Scorer`."""
        return self.own_and_largest(X, codes)[0]

    def all(self, X: Rows) -> Array:
        """See :class:`manyone.models.scorers.Scorer`."""
        return self.all_and_largest(X)[0]


class KernelScorer(PointScorer):
    """A scorer whose scores follow from the kernel values against all its points."""

    @abstractmethod
    def own_of(self, K: Array, codes: Codes) -> Array:
        """Scores (b,) of rows for their tasks (b,) from their kernel values (b, n)."""

    def own_and_largest(self, X: Rows, codes: Codes) -> tuple[Array, Array]:
        """See :class:`PointScorer`."""
        scores = np.empty(X.shape[0])
        largest = np.empty(X.shape[0])
        for rows, K in self.points.blocks(X):
            scores[rows] = self.own_of(K, codes[rows])
            largest[rows] = K.max(axis=1)
        return scores, largest


@dataclass(frozen=True, eq=False)
class Expansion(KernelScorer):
    """Score ``-|f_t(x) - target_t|``, or without the bars if one-sided; ``f = K coef``.

    Parameters
    ----------
    points : Points
    coef : ndarray of shape (n, T)
    target : ndarray of shape (T,)
    one_sided : bool
    """

    points: Points
    coef: Array
    target: Array
    one_sided: bool = False

    def own_of(self, K: Array, codes: Codes) -> Array:
        """See :class:`KernelScorer`."""
        gap = -self.target[codes]
        order = np.argsort(codes, kind="stable")
        cuts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        if len(codes) < _RUNS * len(cuts):
            gap += np.einsum("ij,ij->i", K, self.coef.T[codes])
            return gap if self.one_sided else -np.abs(gap)
        # Many rows of each task: one product for each run of them.
        if np.any(np.diff(order) != 1):
            K = K[order]
        for start, stop in zip(cuts, [*cuts[1:], len(codes)], strict=True):
            run = order[start:stop]
            gap[run] += K[start:stop] @ self.coef[:, codes[run[0]]]
        return gap if self.one_sided else -np.abs(gap)

    def all_of(self, K: Array) -> Array:
        """See :class:`KernelScorer`."""
        gap = K @ self.coef - self.target
        return gap if self.one_sided else -np.abs(gap)

    def far(self) -> Array | None:
        """See :class:`manyone.models.scorers.Scorer`."""
        if not self.points.kernel.fading:
            return None
        return -self.target if self.one_sided else -np.abs(self.target)


@dataclass(frozen=True, eq=False)
class Gram:
    """Training rows seen through a kernel.

    Parameters
    ----------
    points : Points
        The rows, and how new ones are compared with them.
    computed : ndarray of shape (n, n) or None
        The kernel matrix where it is at hand: precomputed, or shared by folds.
    """

    points: Points
    computed: Array | None = None

    @classmethod
    def of(
        cls, rows: TrainingRows, model: KernelChoice, kernel: Kernel | None = None
    ) -> Gram:
        """Training rows (or their kernel matrix) through the kernel of a model.

        Parameters
        ----------
        rows : TrainingRows
        model : estimator
            Its parameters are those of :func:`resolve_kernel`.
        kernel : Kernel or None
            One that has its width already; None: it follows from the rows.

        Returns
        -------
        Gram
        """
        if rows.columns is not None:
            kernel = Kernel(model.kernel, fades=falls_from_one(rows.X))
            no_values = np.empty((len(rows.codes), 0))
            return cls(Points(kernel, no_values, rows.columns), rows.X)
        if kernel is None:
            kernel = resolve_kernel(
                model.kernel,
                rows.X,
                gamma=model.gamma,
                width=model.width,
                degree=model.degree,
                coef0=model.coef0,
                params=model.kernel_params,
                weight=rows.weight,
            )
        return cls(Points(kernel, rows.X))

    def matrix(self) -> Array:
        """Kernel matrix (n, n), in Fortran order; the caller may overwrite it."""
        if self.computed is None:
            return self.points.kernel.gram(self.points.X)
        return self.computed.copy(order="F")

    def finite_matrix(self) -> Array:
        """`matrix`, refused where it is not finite."""
        K = self.matrix()
        if not np.isfinite(K).all():
            raise ValueError(
                f"kernel={self.points.kernel.name!r} is not finite on the training "
                "rows. Use another kernel, or rescale the rows."
            )
        return K

    def semidefinite_matrix(self) -> Array:
        """`finite_matrix` in C order, without negative eigenvalues."""
        K = np.ascontiguousarray(self.finite_matrix())
        if self.points.kernel.semidefinite:
            return K
        shifted = K.copy()
        largest = max(np.abs(K).max(), np.finfo(float).tiny)
        np.einsum("ii->i", shifted)[:] += 1e-10 * largest
        if lapack.dpotrf(shifted.T, overwrite_a=1)[1] == 0:
            return K
        values, vectors = eigh(K)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    def diagonal(self) -> Array:
        """Self-similarity of every row, shape (n,)."""
        if self.computed is None:
            return self.points.kernel.diagonal(self.points.X)
        return np.diagonal(self.computed).copy()

    def by_number(self) -> Gram:
        """The same for new rows that are lines of the matrix, which is computed once."""
        matrix = self.matrix() if self.computed is None else self.computed
        return Gram(replace(self.points, columns=np.arange(len(matrix))), matrix)

    def take(self, rows: Codes) -> Gram:
        """A selection of the rows."""
        matrix = None if self.computed is None else self.computed[np.ix_(rows, rows)]
        return Gram(self.points.take(rows), matrix)

    def stacked(self, index: Codes) -> Array:
        """Kernel matrices (g, n, n) of the rows in each line of `index` (g, n)."""
        if self.computed is not None:
            return self.computed[index[:, :, None], index[:, None, :]]
        kernel = self.points.kernel
        X = self.points.X
        if sparse.issparse(X):
            return np.stack([kernel.gram(X[rows]) for rows in index])
        return kernel_grams(kernel, X[index])

    def features(self) -> tuple[Array, FeatureMap]:
        """Feature rows Phi (n, rank) with ``K = Phi Phi'``, and their map.

        Pivoted Cholesky (LAPACK dpstrf): copies and dependent rows add no column.
        """
        K = self.matrix()
        n = len(K)
        largest = max(float(np.max(np.diag(K))), np.finfo(float).tiny)
        tol = n * np.finfo(float).eps * largest
        factor, pivots, rank, _ = lapack.dpstrf(K, tol=tol, lower=1, overwrite_a=1)
        pivots = np.asarray(pivots[:n], dtype=np.intp) - 1
        # One empty column where the kernel is zero everywhere.
        Phi = np.zeros((n, max(rank, 1)))
        Phi[pivots, :rank] = np.tril(factor[:, :rank])
        if not rank:
            return Phi, FeatureMap(np.zeros(1, dtype=np.intp), np.ones((1, 1)))
        return Phi, FeatureMap(pivots[:rank], np.tril(factor[:rank, :rank]))
