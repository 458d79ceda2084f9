"""What the support vector methods share: kernel matrices, and distances to centres."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, eigh, pinvh

from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels import MIXTURE, Array, Kernel, Rows, is_sparse, row_blocks
from manyone.tasks import Codes, group_rows

#: Kernels that are positive semi-definite whatever the rows.
_DEFINITE = frozenset({"rbf", "laplacian", "chi2", "linear", "cosine", MIXTURE})


def semidefinite(K: Array, kernel: Kernel) -> Array:
    """The kernel matrix, without its negative eigenvalues if it has any.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    kernel : Kernel
        Where it is known to be positive semi-definite, nothing is computed.

    Returns
    -------
    ndarray of shape (n, n)

    Raises
    ------
    ValueError
        If K is not finite.
    """
    if not np.all(np.isfinite(K)):
        raise ValueError(
            f"kernel={kernel.name!r} is not finite on the training rows. Use another kernel, "
            "or rescale the rows."
        )
    if kernel.name in _DEFINITE or (kernel.name in ("poly", "polynomial") and kernel.coef0 >= 0):
        return K
    scale = float(np.abs(K).max())
    try:
        cholesky(K + 1e-10 * max(scale, np.finfo(float).tiny) * np.eye(len(K)), lower=True)
    except LinAlgError:
        values, vectors = eigh(K)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T
    return K


def kernel_rows(kernel: Kernel, X: Rows) -> Callable[[Codes], Array]:
    """Function that maps row numbers (m,) to rows of the kernel matrix (m, n).

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)

    Returns
    -------
    callable
    """
    if kernel.name != "rbf" or is_sparse(X):
        return lambda rows: kernel(X[rows], X)
    gamma, scaled = kernel.gamma[0], kernel._scaled(X)
    norms = gamma * np.einsum("ij,ij->i", scaled, scaled)
    # Where squares cancel too much, the kernel knows better.
    if not norms.max() < 1e4:
        return lambda rows: kernel(X[rows], X)

    def rbf(rows: Codes) -> Array:
        block = (2 * gamma * scaled[rows]) @ scaled.T
        block -= norms
        block -= norms[rows, None]
        np.minimum(block, 0.0, out=block)
        np.exp(block, out=block)
        block[np.arange(len(rows)), rows] = 1.0
        return block

    return rbf


class CentreScoring(MultiTaskOneClass):
    """Score: minus the squared distance to ``c_t = sum_i dual_coef_[i, t] phi(X_fit_[i])``.

    A subclass sets `X_fit_` and `centre_norm2_` (T,), the support vectors of all tasks one after
    the other (`support_rows_`, `coef_`, and where each task starts, `starts_`), and calls
    `_learn_self_similarity`.
    """

    centre_norm2_: Array
    support_rows_: Codes
    coef_: Array
    starts_: Codes

    @property
    def dual_coef_(self) -> sparse.csc_array:
        """Centres as combinations of training rows, shape (n, T)."""
        return sparse.csc_array(
            (self.coef_, self.support_rows_, self.starts_),
            shape=(len(self.codes_), len(self.tasks_)),
        )

    def _learn_self_similarity(self, X: Rows) -> None:
        """What k(x, x) of a new row will be taken for when only k(x, X_fit) is given."""
        if self.kernel == "precomputed":
            K = self._gram(X)
            diagonal = np.diagonal(K)
            self.self_similarity_: Any = float(diagonal.mean())
            if np.ptp(diagonal) > 1e-9 * np.abs(diagonal).max():
                self.self_similarity_ = pinvh(K, rtol=1e-10)

    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        scores = -self._self_similarities(X)
        order, starts = group_rows(codes, len(self.tasks_))
        for task in np.flatnonzero(np.diff(starts)):
            rows = order[starts[task] : starts[task + 1]]
            own = slice(self.starts_[task], self.starts_[task + 1])
            support = self.support_rows_[own]
            for part in row_blocks(len(rows), 2 * (len(support) + X.shape[1])):
                if self.kernel == "precomputed":
                    K = self._kernel_values(X[rows[part]][:, support])
                else:
                    K = self.kernel_(X[rows[part]], self.X_fit_[support])
                scores[rows[part]] += 2 * (K @ self.coef_[own]) - self.centre_norm2_[task]
        return np.minimum(scores, 0.0)

    def _all_scores(self, X: Rows) -> Array:
        scores = np.empty((X.shape[0], len(self.tasks_)))
        dual = self.dual_coef_
        for rows, K in self._kernel_blocks(X):
            scores[rows] = 2 * (K @ dual) - self.centre_norm2_
        return np.minimum(scores - self._self_similarities(X)[:, None], 0.0)

    def _self_similarities(self, X: Rows) -> Array:
        """k(x, x) of each row, shape (n,)."""
        if self.kernel != "precomputed":
            if self.kernel_.unit_diagonal or callable(self.kernel):
                return self.kernel_.diagonal(X)
            parts = [X[start : start + 32] for start in range(0, X.shape[0], 32)]
            return np.concatenate([np.diagonal(self.kernel_(part, part)) for part in parts])
        if isinstance(self.self_similarity_, float):
            return np.full(X.shape[0], self.self_similarity_)
        K = self._kernel_values(X)
        explained: NDArray[np.float64] = np.einsum("ij,ij->i", K @ self.self_similarity_, K)
        return explained
