"""Hashes of rows by their content, the same in any block, order or process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from manyone._types import Rows
from manyone.data.rows import row_blocks

Hashes = NDArray[np.uint64]

# Odd multipliers of the finaliser of splitmix64.
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
#: Step between the states of splitmix64.
STEP = 0x9E3779B97F4A7C15


def row_hashes(X: Rows, seed: int = 0) -> Hashes:
    """64-bit hash of each row, shape (n,).

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    seed : int
        Hashes of another seed have another order.

    Returns
    -------
    ndarray of uint64 of shape (n,)
    """
    start = (seed * 0xD1342543DE82EF95 + STEP) % 2**64
    if sparse.issparse(X):
        X = sparse.csr_array(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        words = _words(X.data) + np.asarray(X.indices, dtype=np.uint64) * np.uint64(
            STEP
        )
        sums = np.concatenate(
            [[np.uint64(0)], np.cumsum(mixed(words + np.uint64(start)))]
        )
        # Sums wrap around at 2^64, and so do their differences.
        return mixed(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    states = np.array(
        [(start + j * STEP) % 2**64 for j in range(X.shape[1])], dtype=np.uint64
    )
    hashes = np.empty(X.shape[0], dtype=np.uint64)
    for rows in row_blocks(X.shape[0], 4 * X.shape[1]):
        hashes[rows] = mixed(
            mixed(_words(X[rows]) + states).sum(axis=1, dtype=np.uint64)
        )
    return hashes


def _words(values: NDArray[np.floating]) -> Hashes:
    """Bits of float64 numbers; -0.0 is 0.0."""
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def mixed(words: Hashes) -> Hashes:
    """Mix the bits of each word in place, by the finaliser of splitmix64."""
    words ^= words >> np.uint64(30)
    words *= _FIRST
    words ^= words >> np.uint64(27)
    words *= _SECOND
    words ^= words >> np.uint64(31)
    return words
