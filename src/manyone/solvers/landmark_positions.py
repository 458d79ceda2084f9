"""Where landmarks serve a ridge regression best: their places are learned, starting from rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas, cho_solve
from scipy.optimize import minimize

from manyone._types import Array, Codes
from manyone.rows import row_blocks
from manyone.solvers.nonlinear import gram
from manyone.solvers.ridge import factorise
from manyone.solvers.two_layer_landmarks import add_rounding

# Values and slopes that are computed: the first few give most of what there is to gain.
_EVALUATIONS = 8


def solve_landmark_positions(
    Z: Array, X: Array, codes: Codes, weight: Array, n_tasks: int, alpha: float
) -> Array:
    """Minimise ``min_C sum_i w_i |C' k(Z, x_i) - r_i|^2 + alpha tr(C' k(Z, Z) C)`` over Z.

    The kernel is ``exp(-|x - z|^2)``, responses r are one-hot. A few steps of L-BFGS, each of
    O(n m (m + d)) flops; n x m numbers are held.

    Parameters
    ----------
    Z : ndarray of shape (m, d)
        Where they start.
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
    total, known = weight.sum(), np.flatnonzero(codes >= 0)
    root = np.sqrt(weight / total)
    responses = sparse.csr_array(
        (root[known], (known, codes[known])), shape=(len(codes), n_tasks)
    )
    options: Any = {"maxfun": _EVALUATIONS, "maxcor": 5}
    given = X, root, responses, alpha / total
    found = minimize(
        position_objective,
        Z.ravel(),
        given,
        jac=True,
        method="L-BFGS-B",
        options=options,
    )
    return np.asarray(found.x.reshape(Z.shape))


def position_objective(
    flat: Array, X: Array, root: Array, responses: Any, alpha: float
) -> tuple[float, Array]:
    """The objective with C eliminated, and its slope in Z: that of the sum with C held fixed.

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
    K, own = gram(X, Z, 1.0), gram(Z, Z, 1.0)
    K *= root[:, None]
    moments = add_rounding(blas.dsyrk(1.0, K.T, lower=1), 1.0)
    moments += alpha * own
    sums = (responses.T @ K).T
    C = cho_solve(
        (factorise(moments, 0.0, np.ones(len(Z)), overwrite=True), True), sums
    )
    value = responses.power(2).sum() - float(np.vdot(sums, C))
    products = C @ C.T
    pull = 4.0 * alpha * products * own
    slope = pull @ Z - pull.sum(axis=1)[:, None] * Z
    for part in row_blocks(len(X), 2 * len(Z)):
        fitted = (K[part] @ C) @ C.T if 2 * C.shape[1] < len(Z) else K[part] @ products
        push = 4.0 * K[part] * (fitted - responses[part] @ C.T)
        slope += push.T @ X[part] - push.sum(axis=0)[:, None] * Z
    return float(value), slope.ravel()
