"""Multi-task one-class SVM: the functions of the tasks stay close to a common one."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints, Interval
from manyone._types import Codes
from manyone.capabilities import ITERATIONS, Capabilities
from manyone.data.rows import MISSING, TrainingRows
from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels.gram import Expansion, Gram
from manyone.models.solution import FitReport, Solution
from manyone.solvers.task_svm import solve_task_svm


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTaskOneClassSVM(MultiTaskOneClass):
    r"""One-class support vector machines that share a common part (He et al. 2014).

    Task t has the function :math:`f_t = \langle w_0 + v_t, \phi(x) \rangle` and the
    margin :math:`\rho_t`,

    .. math::
        \min \frac{\mu}{2} \lVert w_0 \rVert^2 + \sum_t \Bigl[ \frac12 \lVert v_t
        \rVert^2 - \rho_t + \frac{1}{\nu n_t} \sum_{i \in t} w_i \xi_i \Bigr], \qquad
        s_i f_t(x_i) \ge s_i \rho_t - \xi_i, \quad \xi \ge 0,

    :math:`s_i = 1` for normal rows and -1 for known outliers. Its dual is that of one
    machine with the kernel :math:`(1/\mu + [s = t]) k` over rows with tasks. Rows of
    other tasks help to find the common part; they are not negatives. The score of a row
    is :math:`f_t(x) - \rho_t`: unlike the other scores of this package it is positive
    for rows well inside.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`,
        ``"rbf+laplacian"`` (the mean of both), ``"precomputed"``, or a callable of two
        rows. Of a kernel matrix that is not positive semi-definite, the negative
        eigenvalues are dropped.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient, see :class:`JointOCKSR`.
    width : float, default=1
        Stretches the kernel: gamma is divided by it.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None
        Keyword arguments of a callable kernel.
    nu : float in (0, 1], default=0.1
        Upper bound on the share of a task's normal training rows below its margin.
    mu : float, default=100
        How dear the common part is: infinity separates the tasks, towards 0 one
        function is left for all. The T tasks together pull with T / mu at a task's
        function, against 1 of its own.
    tol : float, default=1e-10
        Largest violation of the optimality conditions, relative to the largest
        self-similarity.
    max_iter : int, default=100_000
        Bound on the steps of the solver.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first.
    alarm_rate : float or None, default=0.05
        Share of normal rows that may raise an alarm, on average over tasks. None: no
        thresholds are set.
    task_rate_limit : float or None
        Largest share of normal rows of a single task that may raise an alarm, on
        average; never below 1/(n + 1) for n rows. None: three times `alarm_rate`. 1.0:
        no limit.

    Attributes
    ----------
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    offset_ : ndarray of shape (T,)
        Threshold on the score of each task (not the margin, which bounds the share of
        *training* rows below it).
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said
        so).
    calibration_ : Calibration
        The scores of folds behind thresholds and p-values.
    dual_coef_ : ndarray of shape (n, T)
        Expansion coefficients: ``f = K(x, X_fit) dual_coef_``.
    margin_ : ndarray of shape (T,)
        The rho of each task: rows with f below it are outside, for the machine.
    support_ : ndarray of bool of shape (n,)
        Support vectors.
    objective_ : float
        Minimum of the dual.
    n_iter_ : int
        Steps of the solver.
    gamma_ : float
        The kernel coefficient that was used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    SVDD : Each task alone.

    Notes
    -----
    Thresholds and p-values compare a row with scores from ten folds inside each task,
    everything fitted again. As with every one-class machine, a kernel whose k(x, x) is
    not constant (linear, polynomial) separates the rows from the origin on one side
    only: a row far out on the side of the task is normal.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import MultiTaskOneClassSVM
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "fan")[:, None]
    >>> model = MultiTaskOneClassSVM(mu=10.0, alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["pump", "fan"])
    array([ 1, -1])
    """

    can = Capabilities(
        learns=("dual_coef_", "margin_", "support_", "objective_", "n_iter_"),
        folds=10,
        grid={
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.3, 1.0, 3.0),
            "nu": (0.02, 0.1, 0.5),
            "mu": (1.0, 10.0, 100.0, 1000.0),
        },
        quick=False,
        short_grid={
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.3, 1.0),
            "nu": (0.1, 0.5),
            "mu": (10.0, 100.0, 1000.0),
        },
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **MultiTaskOneClass._parameter_constraints,
        "nu": [Interval(Real, 0, 1, closed="right")],
        "mu": [Interval(Real, 0, None, closed="right")],
        **ITERATIONS,
    }

    nu: float = 0.1
    mu: float = 100.0
    tol: float = 1e-10
    max_iter: int = 100_000

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        members, task = _variables(rows)
        K = gram.semidefinite_matrix()[np.ix_(members, members)]
        T = rows.n_tasks
        sign = np.where(rows.outlier[members], -1.0, 1.0)
        weight = rows.weight[members]
        normal = sign > 0.0
        total = np.bincount(task[normal], weight[normal])
        bound = weight / total[task] / self.nu
        machine = solve_task_svm(K, task, self.mu, bound, sign, self.tol, self.max_iter)
        own_coef = np.zeros((len(rows.codes), T), order="F")
        own_coef[members, task] = machine.coef
        dual = own_coef + own_coef.sum(axis=1, keepdims=True) / self.mu
        learned = {
            "dual_coef": dual,
            "margin": machine.offset,
            "objective": machine.objective,
        }
        return Solution(
            Expansion(gram.points, dual, machine.offset, one_sided=True),
            report=FitReport(n_iter=machine.n_iter, converged=machine.converged),
            learned=learned | {"support": np.any(own_coef != 0, axis=1)},
        )


def _variables(rows: TrainingRows) -> tuple[Codes, Codes]:
    """Row and task of each dual variable; shared outliers are in every task."""
    of_tasks = np.flatnonzero(rows.codes != MISSING)
    shared = np.flatnonzero(rows.codes == MISSING)
    members = np.r_[of_tasks, np.tile(shared, rows.n_tasks)]
    task = np.r_[rows.codes[of_tasks], np.repeat(np.arange(rows.n_tasks), len(shared))]
    order = np.argsort(task, kind="stable")
    return members[order], task[order]
