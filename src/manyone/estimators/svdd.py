"""SVDD: the smallest soft ball around the normal rows of each task."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.support import CentreScoring, kernel_rows, semidefinite
from manyone.kernels import Array, Rows
from manyone.solvers.box_qp import CachedRows
from manyone.solvers.running import blas_for
from manyone.solvers.svdd import SVDDSolution, solve_svdd
from manyone.solvers.svdd_left_out import left_out_scores_of_ball
from manyone.tasks import MISSING, Codes
from manyone.validation import TrainingRows

#: From this many rows of a task, kernel rows are computed when the solver asks for them.
_MANY = 400


class SVDD(CentreScoring):
    r"""Support vector data description (Tax & Duin 2004), each task alone.

    Task t is described by the smallest ball that holds most of its rows,

    .. math::
        \min_{R, c, \xi} R^2 + \frac{1}{\nu n_t} \sum_i w_i \xi_i, \qquad
        s_i \lVert \phi(x_i) - c \rVert^2 \le s_i R^2 + \xi_i, \quad \xi \ge 0,

    :math:`s_i = 1` for normal rows and -1 for known outliers, which are kept outside;
    :math:`n_t` is the total weight of the normal rows. The score of a row is minus its squared
    distance to the centre.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`, ``"rbf+laplacian"``
        (the mean of both), ``"precomputed"``, or a callable of two rows. Of a kernel matrix that
        is not positive semi-definite, the negative eigenvalues are dropped.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient, see :class:`IndependentOCKSR`.
    width : float, default=1
        Stretches the kernel: gamma is divided by it.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None
        Keyword arguments of a callable kernel.
    nu : float in (0, 1], default=0.1
        Upper bound on the share of normal training rows outside the ball.
    tol : float, default=1e-10
        Largest violation of the optimality conditions, relative to the largest self-similarity.
    max_iter : int, default=100_000
        Bound on the steps of the solver.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first; thresholds then come from folds.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm.

    Attributes
    ----------
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    offset_ : ndarray of shape (T,)
        Threshold on the score of each task. It keeps `alarm_rate`, and is not ``-radius_**2``,
        which bounds the share of *training* rows outside.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said so).
    calibration_ : Calibration
        The left-out scores behind thresholds and p-values.
    radius_ : ndarray of shape (T,)
        Radius of each ball.
    centre_norm2_ : ndarray of shape (T,)
        Squared norm of each centre.
    dual_coef_ : sparse array of shape (n, T)
        The centres: ``c_t = sum_i dual_coef_[i, t] phi(X_fit_[i])``, columns of unit sum.
    support_ : ndarray of bool of shape (n,)
        Support vectors: rows on or outside a ball (known outliers: on or inside).
    n_iter_ : int
        Largest number of solver steps of a task.
    gamma_ : float
        The kernel coefficient that was used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    IndependentOCKSR : Each task alone, by regression.

    Notes
    -----
    With a kernel of constant k(x, x) the ranking is that of scikit-learn's OneClassSVM at the same
    `nu`. Thresholds compare a row with leave-one-out scores. Rows inside the ball keep theirs; for
    support vectors of tasks of up to 100 rows the ball is solved again without them, and beyond
    it is moved at once by the free support vectors (exact while these stay free).

    A new row of a precomputed kernel comes without k(x, x). Where the training matrix has a
    constant diagonal that constant is used, else the part that the training rows explain.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import SVDD
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "fan")[:, None]
    >>> model = SVDD(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["pump", "fan"])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultiTaskOneClass._parameter_constraints,
        "nu": [Interval(Real, 0, 1, closed="right")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }
    _default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "kernel": ("rbf", "laplacian", "rbf+laplacian"),
        "width": (0.3, 1.0, 3.0),
        "nu": (0.02, 0.1, 0.5),
    }

    def __init__(
        self,
        *,
        kernel: str | Callable[..., float] = "rbf",
        gamma: str | float = "mean",
        width: float = 1.0,
        degree: int = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        nu: float = 0.1,
        tol: float = 1e-10,
        max_iter: int = 100_000,
        metric: str = "plain",
        alarm_rate: float = 0.05,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.width = width
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.nu = nu
        self.tol = tol
        self.max_iter = max_iter
        self.metric = metric
        self.alarm_rate = alarm_rate

    # ------------------------------------------------------------------------------------- fitting

    def _solve(self, rows: TrainingRows) -> None:
        self.X_fit_, self.codes_, self.outlier_, self.weight_ = rows
        T = len(self.tasks_)
        self.radius_, self.centre_norm2_ = np.empty(T), np.empty(T)
        support, coef, sizes, steps = [], [], [0], [0]
        self._solved: list[tuple[Any, SVDDSolution]] = []
        for task in range(T):
            members, sign, weight = self._members(task)
            K = self._task_kernel(rows.X, members)
            with blas_for(int(self.nu * len(members))):  # About the number of support vectors.
                ball = self._ball(K, sign, weight)
            if not ball.converged:
                warnings.warn(
                    f"The ball of task {self.tasks_[task]!r} was not found in "
                    f"max_iter={self.max_iter} steps: raise max_iter or tol.",
                    ConvergenceWarning,
                )
            self.radius_[task], self.centre_norm2_[task] = np.sqrt(ball.radius2), ball.centre_norm2
            support.append(members[ball.support])
            coef.append(ball.coef[ball.support])
            sizes.append(len(coef[-1]))
            steps.append(ball.n_iter)
            self._solved.append((K, ball))
        self.support_rows_, self.coef_ = np.concatenate(support), np.concatenate(coef)
        self.starts_, self.n_iter_ = np.cumsum(sizes), max(steps)
        self.support_ = np.zeros(len(rows.codes), dtype=bool)
        self.support_[self.support_rows_] = True
        self._learn_self_similarity(rows.X)

    def _members(self, task: int) -> tuple[Codes, Array, Array]:
        """Rows of one task and outliers of every task, with their signs and weights."""
        codes, T = self.codes_, len(self.tasks_)
        low, high, end = np.searchsorted(np.where(codes == MISSING, T, codes), [task, task + 1, T])
        members = np.r_[low:high, end : len(codes)]
        return members, np.where(self.outlier_[members], -1.0, 1.0), self.weight_[members]

    def _ball(self, K: Any, sign: Array, weight: Array) -> SVDDSolution:
        share = weight / weight[sign > 0].sum()
        return solve_svdd(K, 1 / self.nu, sign, share, self.tol, self.max_iter)

    def _task_kernel(self, X: Rows, members: Codes) -> Any:
        X = X[members]
        if self.kernel == "precomputed":
            X = X[:, members]
        elif len(members) >= _MANY and self.kernel_.unit_diagonal:
            return CachedRows(kernel_rows(self.kernel_, X), np.ones(len(members)))
        return semidefinite(np.ascontiguousarray(self._gram(X)), self.kernel_)

    # ---------------------------------------------------------------------------------- thresholds

    def _left_out_scores(self) -> tuple[Array, Codes, Array]:
        scores = np.zeros(len(self.codes_))
        for task, (K, ball) in enumerate(self._solved):
            members, sign, weight = self._members(task)
            own = left_out_scores_of_ball(K, ball, sign, weight, self.nu, self.tol, self.max_iter)
            scores[members[sign > 0]] = own[sign > 0]
        chosen = ~self.outlier_
        return scores[chosen], self.codes_[chosen], self.weight_[chosen]

    def _fit_rows(self, rows: TrainingRows, *, calibrate: bool = True) -> None:
        super()._fit_rows(rows, calibrate=calibrate)
        del self._solved
