"""Landmarks: rows that represent all rows in the feature space of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from manyone._types import Array, Codes, Rows
from manyone.data.rows import row_blocks
from manyone.kernels.kernel import Kernel
from manyone.threads import on_threads, solve_lower


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """phi(x) = L^-1 k(pivots, x): reproduces the kernel exactly between the pivots.

    Parameters
    ----------
    pivots : ndarray of shape (m,)
        Row numbers of the pivots among the training rows.
    factor : ndarray of shape (m, m)
        Lower Cholesky factor L of the kernel matrix of the pivots.
    """

    pivots: Codes
    factor: Array


def expanded(factor: Array, W: Array) -> Array:
    """Coefficients c (m, T) with k(x, pivots) c = phi(x) W for weights W (m, T)."""
    return solve_triangular(factor, W, lower=True, trans="T", check_finite=False)


def landmark_features(
    kernel: Kernel,
    X: Rows,
    n_landmarks: int,
    rng: np.random.RandomState,
    tol: float = 1e-12,
) -> tuple[Array, FeatureMap]:
    """Feature rows of a random low-rank approximation Phi Phi' <= K.

    Randomly pivoted Cholesky: rows become landmarks with probability proportional to
    what is not yet explained of them, so that small clusters are found and outliers do
    not take all places (Chen, Epperly, Tropp & Webber 2022). Candidates are drawn in
    blocks and accepted by rejection (Epperly, Tropp & Webber 2024), which has the law
    of one-by-one sampling at the speed of matrix products. O(n m) kernel values, O(n
    m^2) flops.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    n_landmarks : int
        Number of landmarks wanted; fewer are taken where the kernel has a lower rank.
    rng : RandomState
    tol : float
        Stop when this share of the trace is left unexplained.

    Returns
    -------
    Phi : ndarray of shape (n, m)
    FeatureMap
    """
    n = X.shape[0]
    residual = kernel.diagonal(X)
    trace = residual.sum()
    Phi = np.zeros((n, min(n_landmarks, n)), order="F")
    pivots: list[int] = []
    block = max(1, -(-Phi.shape[1] // 10))
    while len(pivots) < Phi.shape[1] and residual.sum() > tol * trace:
        m = len(pivots)
        size = min(block, Phi.shape[1] - m)
        drawn = rng.choice(n, size=size, p=residual / residual.sum())
        rows = kernel(X[drawn], X[drawn]) - Phi[drawn, :m] @ Phi[drawn, :m].T
        accepted, L = _accept(rows, residual[drawn] * rng.uniform(size=len(drawn)))
        if not accepted:  # what is left of these rows is rounding
            residual[drawn] = 0.0
            continue
        chosen = drawn[accepted]
        residual = np.maximum(residual - _explained(kernel, X, chosen, L, Phi, m), 0.0)
        residual[chosen] = 0.0
        pivots.extend(chosen.tolist())
    if not pivots:  # a kernel that is zero everywhere: any row will do
        pivots.append(0)
        Phi[0, 0] = np.finfo(float).tiny
    index = np.array(pivots, dtype=np.intp)
    Phi = Phi[:, : len(pivots)]
    return Phi, FeatureMap(index, np.tril(Phi[index]))


def _explained(
    kernel: Kernel, X: Rows, chosen: Codes, L: Array, Phi: Array, m: int
) -> Array:
    """What new landmarks explain of each row (n,) beyond the first m, into Phi too."""
    side = kernel.side(X[chosen])
    chosen_features = Phi[chosen, :m].T

    def explain(part: slice) -> Array:
        values = kernel.against(X[part], side) - Phi[part, :m] @ chosen_features
        columns = solve_lower(L, values)
        Phi[part, m : m + len(chosen)] = columns
        return np.einsum("ij,ij->i", columns, columns)

    parts = row_blocks(len(Phi), m + 3 * len(chosen))
    return np.concatenate(list(on_threads(explain, parts)))


def _accept(H: Array, bar: Array) -> tuple[list[int], Array]:
    """Candidates whose residual still exceeds their bar, and their Cholesky factor.

    A candidate lowers the residuals of those after it.
    """
    H = H.copy()
    accepted: list[int] = []
    columns = []
    for i in range(len(bar)):
        if H[i, i] > bar[i]:
            column = H[:, i] / np.sqrt(H[i, i])
            H -= np.outer(column, column)
            accepted.append(i)
            columns.append(column)
    L = np.array([column[accepted] for column in columns]).T
    return accepted, np.tril(L)
