"""SVDD: the smallest soft ball around the normal rows of each task."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import pinvh

from manyone._sklearn import Constraints, Interval
from manyone._types import Array, Codes
from manyone.capabilities import ITERATIONS, Capabilities
from manyone.data.rows import MISSING, TrainingRows
from manyone.estimators.task_metric import TaskMetricOneClass
from manyone.kernels.gram import Gram
from manyone.models.scale import sizes_of
from manyone.models.scorers import Balls
from manyone.models.solution import FitReport, Solution
from manyone.solvers.box_qp import CachedRows
from manyone.solvers.svdd import solve_svdd
from manyone.solvers.svdd_left_out import left_out_of_ball
from manyone.threads import one_blas_thread


@dataclass(kw_only=True, eq=False, repr=False)
class SVDD(TaskMetricOneClass):
    r"""Support vector data description (Tax & Duin 2004), each task alone.

    Task t is described by the smallest ball that holds most of its rows,

    .. math::
        \min_{R, c, \xi} R^2 + \frac{1}{\nu n_t} \sum_i w_i \xi_i, \qquad
        s_i \lVert \phi(x_i) - c \rVert^2 \le s_i R^2 + \xi_i, \quad \xi \ge 0,

    :math:`s_i = 1` for normal rows and -1 for known outliers, which are kept outside;
    :math:`n_t` is the total weight of the normal rows. The score of a row is minus its
    squared distance to the centre.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`,
        ``"rbf+laplacian"`` (the mean of both), ``"precomputed"``, or a callable of two
        rows. Of a kernel matrix that is not positive semi-definite, the negative
        eigenvalues are dropped.
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
        Largest violation of the optimality conditions, relative to the largest
        self-similarity.
    max_iter : int, default=100_000
        Bound on the steps of the solver.
    metric : {"plain", "whitened", "adaptive"}, default="plain"
        ``"whitened"``: :class:`TaskWhitener` first, one metric for all tasks.
        ``"adaptive"``: one for each task, its column scales and covariance shrunk to
        what the tasks have in common. It helps most against faults. Thresholds then
        come from folds.
    scale_prior, covariance_prior : float or "auto", default="auto"
        Rows that the pooled scales and covariance count for beside a task's own, with
        ``metric="adaptive"``. ``"auto"``: the more, the more alike the tasks are, see
        :class:`TaskWhitener`.
    robust : bool, default=True
        With ``metric="adaptive"``: a training row that is alone and far from the others
        of its task, as a fault is, gets almost no weight in the metric and none in the
        model. It counts in the alarm rate.
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
        Threshold on the score of each task. It keeps `alarm_rate`, and is not
        ``-radius_**2``, which bounds the share of *training* rows outside.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said
        so).
    calibration_ : Calibration
        The left-out scores behind thresholds and p-values.
    radius_ : ndarray of shape (T,)
        Radius of each ball.
    centre_norm2_ : ndarray of shape (T,)
        Squared norm of each centre.
    dual_coef_ : sparse array of shape (n, T)
        The centres: ``c_t = sum_i dual_coef_[i, t] phi(X_fit_[i])``, columns of unit
        sum.
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
    With a kernel of constant k(x, x) the ranking is that of scikit-learn's OneClassSVM
    at the same `nu`. Thresholds compare a row with leave-one-out scores. Rows inside
    the ball keep theirs; for support vectors of tasks of up to 100 rows the ball is
    solved again without them, and beyond it is moved at once by the free support
    vectors (exact while these stay free).

    A new row of a precomputed kernel comes without k(x, x). Where the training matrix
    has a constant diagonal that constant is used, else the part that the training rows
    explain.

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

    can = Capabilities(
        joint=False,
        learns=("radius_", "centre_norm2_", "support_", "dual_coef_", "n_iter_"),
        grid={
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.3, 1.0, 3.0),
            "nu": (0.02, 0.1, 0.5),
        },
        task_metric=True,
        quick=False,
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **TaskMetricOneClass._parameter_constraints,
        "nu": [Interval(Real, 0, 1, closed="right")],
        **ITERATIONS,
    }

    nu: float = 0.1
    tol: float = 1e-10
    max_iter: int = 100_000

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        T = rows.n_tasks
        radius = np.empty(T)
        norm2 = np.empty(T)
        scores = np.full(len(rows.codes), np.nan)
        growth = np.zeros(len(rows.codes))
        support = []
        coef = []
        steps = 0
        converged = True
        for task in range(T):
            members, sign = _members(rows, task)
            weight = rows.weight[members]
            K = _task_kernel(gram, members)
            n_support = int(self.nu * len(members))  # about
            with one_blas_thread(n_support):
                share = weight / weight[sign > 0].sum()
                ball = solve_svdd(K, 1 / self.nu, sign, share, self.tol, self.max_iter)
            radius[task] = np.sqrt(ball.radius2)
            norm2[task] = ball.centre_norm2
            support.append(members[ball.support])
            coef.append(ball.coef[ball.support])
            steps = max(steps, ball.n_iter)
            converged = converged and ball.converged
            if left_out and rows.group is None:
                options = self.nu, self.tol, self.max_iter
                judged = left_out_of_ball(K, ball, sign, weight, *options)
                scores[members[sign > 0]] = judged.scores[sign > 0]
                growth[members[sign > 0]] = judged.growth[sign > 0]
        rows_used = np.concatenate(support)
        is_support = np.zeros(len(rows.codes), dtype=bool)
        is_support[rows_used] = True
        starts = np.cumsum([0, *map(len, coef)])
        b = np.concatenate(coef)
        dual = sparse.csc_array((b, np.arange(len(b)), starts), shape=(len(b), T))
        similarity, training = _self_similarity(gram)
        learned = {"radius": radius, "centre_norm2": norm2, "support": is_support}
        balls = Balls(
            gram.points.take(rows_used), starts, b, norm2, similarity, training
        )
        judged_rows = left_out and rows.group is None
        return Solution(
            balls,
            scores if judged_rows else None,
            shift=growth / np.sqrt(sizes_of(balls.far(), T)[rows.codes])
            if judged_rows
            else None,
            report=FitReport(n_iter=steps, converged=converged),
            learned=learned | {"dual_coef": dual},
        )


def _members(rows: TrainingRows, task: int) -> tuple[Codes, Array]:
    """Rows of a task and outliers of all tasks; 1 for a normal row, -1 for others."""
    T = rows.n_tasks
    codes = np.where(rows.codes == MISSING, T, rows.codes)
    low, high, end = np.searchsorted(codes, [task, task + 1, T])
    members = np.r_[low:high, end : len(codes)]
    return members, np.where(rows.outlier[members], -1.0, 1.0)


def _task_kernel(gram: Gram, members: Codes) -> Any:
    """Kernel matrix of a task; that of a large task computes its rows on demand."""
    task_gram = gram.take(members)
    if (
        len(members) >= 400
        and task_gram.points.kernel.fading
        and task_gram.computed is None
    ):
        X = task_gram.points.X
        return CachedRows(
            lambda rows: task_gram.points.values(X[rows]), np.ones(len(members))
        )
    return task_gram.semidefinite_matrix()


def _self_similarity(gram: Gram) -> tuple[Any, Any]:
    """What replaces k(x, x) of new rows that bring only k(x, X_fit).

    Returns
    -------
    constant or matrix : float, ndarray of shape (n, n) or None
        None: new rows bring themselves.
    training : Points or None
        Points of the matrix.
    """
    if gram.points.columns is None:
        return None, None
    diagonal = gram.diagonal()
    if np.ptp(diagonal) <= 1e-9 * np.abs(diagonal).max():
        return float(diagonal.mean()), None
    return pinvh(gram.matrix(), rtol=1e-10), gram.points
