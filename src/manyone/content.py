"""Which rows are equal, whatever their order."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from manyone._types import Codes, Rows


def row_numbers(X: Rows) -> Codes:
    """A number for each distinct row: equal rows, and only these, share one, shape (n,)."""
    if sparse.issparse(X):
        return _sparse_row_numbers(X)
    # Bytes have an order of their own, whatever the number of columns; -0.0 is 0.0.
    plain = np.ascontiguousarray(X, dtype=np.float64) + 0.0
    content = plain.view(np.dtype((np.void, 8 * plain.shape[1]))).ravel()
    return np.unique(content, return_inverse=True)[1]


def _sparse_row_numbers(X: Rows) -> Codes:
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    cuts = X.indptr[1:-1]
    content = zip(np.split(X.indices, cuts), np.split(X.data, cuts), strict=True)
    keys = [(indices.tobytes(), data.tobytes()) for indices, data in content]
    rank = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([rank[key] for key in keys], dtype=np.intp)
