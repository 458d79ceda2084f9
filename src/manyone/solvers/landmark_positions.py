"""Landmarks moved from rows to where a ridge regression fits best."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import blas, cho_solve
from scipy.optimize import minimize

from manyone._types import Array, Codes
from manyone.data.rows import row_blocks
from manyone.solvers.ridge import factorise
from manyone.solvers.two_layer_landmarks import add_rounding
from manyone.solvers.two_layers import gram


def solve_landmark_positions(
    Z: Array, X: Array, codes: Codes, weight: Array, n_tasks: int, alpha: float
) -> Array:
    """Minimise ``sum_i w_i |C' k(Z, x_i) - r_i|^2 + alpha tr(C' k(Z, Z) C)``, Z and C.

    The kernel is ``exp(-|x - z|^2)``, responses r are one-hot. A few steps of L-BFGS,
    each of O(n m (m + d)) flops; n x m numbers are held.

    Parameters
    ----------
    Z : ndarray of shape (m, d)
        Landmarks where the descent starts.
    X : ndarray of shape (n, d)
    codes : ndarray of shape (n,)
        Task of each row, negative where all responses are 0.
    weight : ndarray of shape (n,)
    n_tasks : int
    alpha : float

    Returns
    -------
    ndarray of shape (m, d)
    """
    total = weight.sum()
    root = np.sqrt(weight / total)
    normal = np.flatnonzero(codes >= 0)
    entries = (root[normal], (normal, codes[normal]))
    responses = sparse.csr_array(entries, shape=(len(codes), n_tasks))
    minimum = minimize(
        position_objective,
        Z.ravel(),
        (X, root, responses, alpha / total),
        jac=True,
        method="L-BFGS-B",
        # The first evaluations give most of the gain (`benchmarks/bench_landmarks.py`).
        options={"maxfun": 8, "maxcor": 5},
    )
    return np.asarray(minimum.x.reshape(Z.shape))


def position_objective(
    flat: Array, X: Array, root: Array, responses: sparse.csr_array, alpha: float
) -> tuple[float, Array]:
    """The objective with C eliminated, and its slope in Z, that with C held fixed.

    Parameters
    ----------
    flat : ndarray of shape (m * d,)
        Z.
    X : ndarray of shape (n, d)
    root : ndarray of shape (n,)
        Square roots of the weights, whose sum is 1.
    responses : sparse array of shape (n, T)
        Times these roots.
    alpha : float
    """
    Z = flat.reshape(-1, X.shape[1])
    K = gram(X, Z, 1.0)
    inner = gram(Z, Z, 1.0)
    K *= root[:, None]
    moments = add_rounding(blas.dsyrk(1.0, K.T, lower=1), 1.0)
    moments += alpha * inner
    sums = (responses.T @ K).T
    factor = factorise(moments, 0.0, np.ones(len(Z)), overwrite=True)
    C = cho_solve((factor, True), sums)
    value = responses.power(2).sum() - float(np.vdot(sums, C))
    products = C @ C.T
    pull = 4.0 * alpha * products * inner
    slope = pull @ Z - pull.sum(axis=1)[:, None] * Z
    for part in row_blocks(len(X), 2 * len(Z)):
        fitted = (K[part] @ C) @ C.T if 2 * C.shape[1] < len(Z) else K[part] @ products
        push = 4.0 * K[part] * (fitted - responses[part] @ C.T)
        slope += push.T @ X[part] - push.sum(axis=0)[:, None] * Z
    return float(value), slope.ravel()
