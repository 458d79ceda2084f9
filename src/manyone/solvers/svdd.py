"""Support vector data description: the smallest soft ball around the normal rows."""

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Mask
from manyone.solvers.box_qp import KernelRows, solve_box_qp


class SVDDSolution(NamedTuple):
    """Solution of :func:`solve_svdd`.

    Attributes
    ----------
    coef : array of shape (n,)
        b; a new row x lies at k(x, x) - 2 k_x'b + ``centre_norm2`` from the centre,
        squared, and inside when that is below ``radius2``.
    distance2 : array of shape (n,)
        The same of the rows of K.
    support : array of shape (n,)
        Rows with b != 0.
    """

    coef: Array
    distance2: Array
    centre_norm2: float
    radius2: float
    support: Mask
    objective: float
    n_iter: int
    converged: bool


def solve_svdd(
    K: KernelRows,
    upper: float,
    sign: Array | None = None,
    weight: Array | None = None,
    tol: float = 1e-8,
    max_iter: int = 100_000,
) -> SVDDSolution:
    r"""Minimise b'Kb - diag(K)'b subject to sum(b) = 1 and 0 <= s_i b_i <= C w_i.

    This is the dual, with b = s * a, of the soft ball ::

        min  R^2 + C sum_i w_i xi_i,   s_i |phi(x_i) - c|^2 <= s_i R^2 + xi_i,  xi >= 0,

    where c = sum_i b_i phi(x_i). Any positive semi-definite kernel will do.

    Parameters
    ----------
    K : array of shape (n, n), or CachedRows
    upper : float
        C. Below 1 / (total weight of the normal rows) there is no solution.
    sign : array of shape (n,), default=None
        +1 for normal rows, -1 for known outliers, which are kept outside.
        None: all normal.
    weight : array of shape (n,), default=None
        Integer weights act as repeated rows. None: ones.
    tol : float, default=1e-8
        Largest violation of the optimality conditions, relative to the largest
        self-similarity.
    max_iter : int, default=100_000
        Bound on the number of steps.

    Returns
    -------
    SVDDSolution

    Raises
    ------
    Infeasible
        If C is too small.
    """
    diagonal = K.diagonal()
    sign = np.ones(len(diagonal)) if sign is None else sign
    bound = upper * (np.ones(len(diagonal)) if weight is None else weight)
    low = np.where(sign > 0, 0.0, -bound)
    high = np.where(sign > 0, bound, 0.0)
    # Half the objective has the plain Hessian K.
    qp = solve_box_qp(K, diagonal / 2, low, high, tol=tol, max_iter=max_iter)
    # Squared distance to the centre: |c|^2 - 2 gradient.
    centre_norm2 = float(qp.coef @ (qp.gradient + diagonal / 2))
    distance2 = centre_norm2 - 2 * qp.gradient
    radius2 = max(float(centre_norm2 - 2 * qp.multiplier[0]), 0.0)
    return SVDDSolution(
        coef=qp.coef,
        distance2=distance2,
        centre_norm2=centre_norm2,
        radius2=radius2,
        support=qp.coef != 0,
        objective=2 * qp.objective,
        n_iter=qp.n_iter,
        converged=qp.converged,
    )
