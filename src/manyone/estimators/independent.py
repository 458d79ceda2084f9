"""OCKSR: each task alone, fitted to its normal rows and its known outliers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from manyone._sklearn import Constraints
from manyone._types import Codes
from manyone.calibration.conformal import TaskRidge
from manyone.capabilities import RIDGE, Capabilities
from manyone.data.rows import TrainingRows
from manyone.estimators.task_metric import TaskMetricOneClass
from manyone.fitting.task_ridges import independent_solution
from manyone.kernels.gram import Gram
from manyone.models.guards import unguarded
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution
from manyone.models.task_expansions import TaskExpansions
from manyone.solvers.ridge import factorise


@dataclass(kw_only=True, eq=False, repr=False)
class IndependentOCKSR(TaskMetricOneClass):
    r"""One-class kernel spectral regression, each task alone (the paper's OCKSR).

    Task t is described by the function that is as close to 1 as possible on its rows,

    .. math:: \min_{f_t} \sum_{i \in t} w_i (f_t(x_i) - r_i)^2
        + \alpha \lVert f_t \rVert^2,

    :math:`r_i = 1` for normal rows and 0 for known outliers. The score of a row is
    minus the distance of its response to the mean response of the task. As `alpha` goes
    to 0, the function maps all normal rows to one point: the null-space projection.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`,
        ``"rbf+laplacian"`` (the mean of both), ``"precomputed"``, or a callable of two
        rows.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient. ``"mean"``: one over the mean distance between training rows
        (of all tasks) in the kernel's own metric; ``"median"`` likewise; ``"scale"``:
        one over (number of features x variance).
    width : float, default=1
        Stretches the kernel: gamma is divided by it.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None
        Keyword arguments of a callable kernel.
    alpha : float, default=0.1
        Ridge. 0 means the smallest one that double precision resolves.
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
        Threshold on the score of each task.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said
        so).
    calibration_ : Calibration
        The left-out scores behind thresholds and p-values.
    dual_coef_ : sparse array of shape (n, T)
        Expansion coefficients: ``f = K(x, X_fit) dual_coef_``.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    alpha_ : ndarray of shape (T,)
        The ridge of each task: `alpha`, but for extremes that double precision cannot
        resolve.
    gamma_ : float
        The kernel coefficient that was used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    JointOCKSR : Rows of other tasks serve as negatives.

    Notes
    -----
    Thresholds and p-values compare a row with the exact leave-one-out scores of its
    task, in closed form. The tasks are factorised in stacks of equal size: O(sum n_t^3)
    flops in a few array calls.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import IndependentOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "fan")[:, None]
    >>> model = IndependentOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["pump", "fan"])
    array([ 1, -1])
    """

    can = Capabilities(
        exact_pvalues=True,
        joint=False,
        learns=("alpha_", "dual_coef_", "mean_response_"),
        regression=True,
        left_out_grid="each task",
        task_metric=True,
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **TaskMetricOneClass._parameter_constraints,
        **RIDGE,
    }

    alpha: float = 0.1

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        return independent_solution(gram, rows, self.alpha)

    @property
    def dual_coef_(self) -> sparse.csc_array:
        """Expansion coefficients, shape (n, T): ``f(x) = K(x, X_fit) dual_coef_``."""
        return self._expansions.dual_coef

    @property
    def _expansions(self) -> TaskExpansions:
        scorer = unguarded(self._solution.scorer)
        if isinstance(scorer, InMetric):
            scorer = scorer.scorer
        assert isinstance(scorer, TaskExpansions)
        return scorer

    def _task_ridges(self, tasks: Codes) -> Iterator[TaskRidge]:
        rows = self.training_
        learned = self.solution_.learned
        remaining = self.solution_.one_minus_leverage
        assert remaining is not None
        points = self._expansions.points
        for task in tasks.tolist():
            which, coef = self._expansions.expansion(task)
            weight = rows.weight[which]
            alpha = float(learned["alpha"][task])
            gram = points.kernel.gram(points.X[which])
            yield TaskRidge(
                which,
                factorise(gram, alpha, np.sqrt(weight), overwrite=True),
                coef,
                remaining[which],
                weight,
                alpha,
                np.flatnonzero(~rows.outlier[which]),
            )
