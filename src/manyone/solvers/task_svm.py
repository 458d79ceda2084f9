"""Multi-task one-class support vector machine: task models close to a common one."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import OneClassSVM

from manyone.solvers.box_qp import box_qp, multipliers

Floats = NDArray[np.float64]


class TaskSVM(NamedTuple):
    """Solution of :func:`task_svm`.

    Attributes
    ----------
    coef : array of shape (n,)
        a; task t scores a new row by sum_i (1 / mu + [t_i = t]) a_i k(x_i, x) - offset_t.
    offset : array of shape (n_tasks,)
        rho, from unbounded support vectors, or else the middle of what optimality allows.
    support : array of shape (n,)
        Rows with a > 0.
    gap : float
        Largest violation of the optimality conditions.
    """

    coef: Floats
    offset: Floats
    support: NDArray[np.bool_]
    objective: float
    gap: float
    n_iter: int
    converged: bool


def smallest_feasible_upper(
    weight: Floats, task: NDArray[np.integer], shared_offset: bool = False
) -> float:
    """Return the factor of ``weight`` below which the bounds cannot sum to one everywhere."""
    return float(1.0 / (weight.sum() if shared_offset else np.bincount(task, weight).min()))


def task_kernel(
    K: Floats, row_task: NDArray[np.integer], column_task: NDArray[np.integer], mu: float
) -> Floats:
    """Return (1 / mu + [s = t]) k for rows of tasks s and columns of tasks t, (n, m)."""
    return K * (1.0 / mu + (row_task[:, None] == column_task))


def by_libsvm(G: Floats, weight: Floats, nu: float) -> tuple[Floats, float, float, int]:
    """Minimise a'Ga / 2 over 0 <= a <= weight / (nu sum(weight)), sum(a) = 1, through libsvm.

    Parameters
    ----------
    G : array of shape (n, n)
        Positive semi-definite; with a task kernel, the machine of all tasks with a single offset.
    weight : array of shape (n,)
    nu : float

    Returns
    -------
    coef : array of shape (n,)
    offset : float
    objective : float
    n_iter : int
    """
    size = max(float(np.abs(G.diagonal()).max()), np.finfo(float).tiny)
    svm = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-9)
    svm.fit(G / size, sample_weight=weight / weight.mean())
    coef = np.zeros(len(G))
    coef[svm.support_] = svm.dual_coef_[0] / (nu * len(G))
    offset = size * float(svm.offset_[0]) / (nu * len(G))
    return coef, offset, 0.5 * float(coef @ G @ coef), int(svm.n_iter_)


def task_svm(
    K: Floats,
    task: NDArray[np.integer],
    mu: float,
    upper: Floats,
    shared_offset: bool = False,
    tol: float = 1e-8,
    max_iter: int = 100_000,
) -> TaskSVM:
    r"""Minimise a'Ga / 2 with G = (1 / mu + [s = t]) k, 0 <= a <= upper, sum(a) = 1 in every task.

    This is the dual of task functions w_t = w_0 + v_t with offsets rho_t,

        min  mu/2 |w_0|^2 + sum_t [ |v_t|^2 / 2 - rho_t + sum_i u_it xi_it ],
             <w_t, phi(x_it)> >= rho_t - xi_it,  xi >= 0.

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
        u, for example weight / (nu * total weight of the row's task). A task whose bounds sum to
        less than one is infeasible: ``converged=False`` with an infinite objective.
    shared_offset : bool, default=False
        One rho, and a single constraint: sum(a) = 1 over all rows. This is the ordinary one-class
        support vector machine with kernel G.
    tol : float, default=1e-8
        Largest violation of the optimality conditions, relative to the largest entry of G.
    max_iter : int, default=100_000

    Returns
    -------
    TaskSVM
    """
    n_tasks = int(task.max()) + 1
    order = np.argsort(task, kind="stable")
    ordered, bound = task[order], upper[order]
    G = task_kernel(K[np.ix_(order, order)], ordered, ordered, mu)
    starts = [0] if shared_offset else np.searchsorted(ordered, np.arange(n_tasks))
    zero = np.zeros(len(G))
    qp = box_qp(G, zero, zero, bound, starts, tol, max_iter)
    coef = np.empty_like(zero)
    coef[order] = qp.coef
    offset = np.broadcast_to(multipliers(qp, zero, bound, starts), n_tasks).copy()
    gap = float(qp.gap.max())
    return TaskSVM(coef, offset, coef > 0, qp.objective, gap, qp.n_iter, qp.converged)
