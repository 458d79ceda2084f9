"""Multi-task one-class support vector machine: task models close to a common one."""

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.solvers.box_qp import solve_box_qp


class TaskSVMSolution(NamedTuple):
    """Solution of :func:`solve_task_svm`.

    Attributes
    ----------
    coef : array of shape (n,)
        a; task t scores a new row by sum_i (1 / mu + [t_i = t]) a_i k(x_i, x) -
        offset_t.
    offset : array of shape (n_tasks,)
        rho, from unbounded support vectors, or else the middle of what optimality
        allows.
    support : array of shape (n,)
        Rows with a != 0.
    gap : float
        Largest violation of the optimality conditions.
    """

    coef: Array
    offset: Array
    support: Mask
    objective: float
    gap: float
    n_iter: int
    converged: bool


def task_kernel(K: Array, row_task: Codes, column_task: Codes, mu: float) -> Array:
    """(1 / mu + [s = t]) k for rows of tasks s and columns of tasks t, (n, m)."""
    return K * (1.0 / mu + (row_task[:, None] == column_task))


def solve_task_svm(
    K: Array,
    task: Codes,
    mu: float,
    upper: Array,
    sign: Array | None = None,
    tol: float = 1e-8,
    max_iter: int = 100_000,
) -> TaskSVMSolution:
    r"""Minimise a'Ga / 2 with 0 <= s_i a_i <= u_i and sum(a) = 1 in every task.

    Here G = (1 / mu + [s = t]) k for rows of tasks s and t. This is the dual of task
    functions w_t = w_0 + v_t with offsets rho_t ::

        min  mu/2 |w_0|^2 + sum_t [ |v_t|^2 / 2 - rho_t + sum_i u_it xi_it ],
             s_it <w_t, phi(x_it)> >= s_it rho_t - xi_it,  xi >= 0.

    mu = inf decouples the tasks; mu -> 0 leaves one function for all of them.

    Parameters
    ----------
    K : array of shape (n, n)
        Positive semi-definite.
    task : array of shape (n,)
        Task of every row, 0 to n_tasks - 1, each occurring.
    mu : float
        Positive; how dear the common part is.
    upper : array of shape (n,)
        u, for example weight / (nu * total weight of the row's task). Where those of a
        task sum to less than one there is no solution.
    sign : array of shape (n,), default=None
        s: 1 for normal rows, -1 for known outliers, which are kept out. None: all
        normal.
    tol, max_iter : float and int, default=1e-8 and 100_000
        Largest violation of the optimality conditions, relative to the largest entry of
        G.

    Returns
    -------
    TaskSVMSolution

    Raises
    ------
    Infeasible
        If the bounds of a task are too small.
    """
    n_tasks = int(task.max()) + 1
    order = np.argsort(task, kind="stable")
    ordered = task[order]
    G = task_kernel(K[np.ix_(order, order)], ordered, ordered, mu)
    starts = np.searchsorted(ordered, np.arange(n_tasks))
    signed = upper[order] if sign is None else (sign * upper)[order]
    low = np.minimum(signed, 0.0)
    high = np.maximum(signed, 0.0)
    qp = solve_box_qp(G, np.zeros(len(G)), low, high, starts, tol, max_iter)
    coef = np.empty_like(signed)
    coef[order] = qp.coef
    return TaskSVMSolution(
        coef=coef,
        offset=qp.multiplier,
        support=coef != 0,
        objective=qp.objective,
        gap=float(qp.gap.max()),
        n_iter=qp.n_iter,
        converged=qp.converged,
    )
