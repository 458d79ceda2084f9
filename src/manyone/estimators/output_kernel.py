"""Output kernel learning: the similarity of tasks is learnt together with their functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.responses import ResponseScoring
from manyone.kernels import Array
from manyone.solvers.eigenbasis import (
    eigenbasis,
    left_out_scores_of_structure,
    resolved_weight,
)
from manyone.solvers.output_kernel import solve_output_kernel
from manyone.tasks import Codes, responses
from manyone.validation import TrainingRows


class OutputKernelOCKSR(ResponseScoring):
    r"""Output kernel learning on one-hot responses (Dinuzzo et al. 2011).

    All tasks share a kernel over rows and a learnt positive semi-definite kernel L over tasks,

    .. math::
        \min_{C, L} \frac{1}{2\alpha} \sum_i w_i \lVert r_i - L C^\top k_i \rVert^2
        + \frac12 \mathrm{tr}(C^\top K C L) + \frac12 \lVert L \rVert_F^2,

    with the responses of :class:`JointOCKSR`: 1 for a task's own normal rows, 0 for the rows of
    all other tasks and for known outliers. Every local minimum is global.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`, ``"rbf+laplacian"``
        (the mean of both), ``"precomputed"``, or a callable of two rows.
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
    alpha : float, default=0.1
        Ridge, held between 1e-9 and 1e3 times the trace of the kernel matrix: beyond, rankings do
        not change.
    tol : float, default=1e-11
        On the norm of ``K C L + alpha C - R``, relative to that of the responses R.
    max_iter : int, default=200
        Newton steps.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first; thresholds then come from folds.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm.

    Attributes
    ----------
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    offset_ : ndarray of shape (T,)
        Threshold on the score of each task.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said so).
    calibration_ : Calibration
        The left-out scores behind thresholds and p-values.
    structure_ : ndarray of shape (T, T)
        L, the learnt kernel over tasks.
    coef_ : ndarray of shape (n, T)
        C. At the optimum ``structure_ = C'KC / 2``.
    dual_coef_ : ndarray of shape (n, T)
        C L, the expansion coefficients: ``f = K(x, X_fit) dual_coef_``.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    objective_path_ : ndarray of shape (iterations + 1,)
        Objective before the first and after every step; it does not increase.
    n_iter_ : int
        Newton steps taken.
    alpha_, gamma_ : float
        The numbers that were used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    JointOCKSR : The same responses without a kernel over tasks.

    Notes
    -----
    Thresholds and p-values compare a row with leave-one-out scores of its task, exact for the
    learnt L; a single row moves L little. ``calibration_.source`` says so.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import OutputKernelOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = OutputKernelOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    >>> model.structure_.shape
    (2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultiTaskOneClass._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }
    _default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "kernel": ("rbf", "laplacian", "rbf+laplacian"),
        "width": (0.3, 1.0, 3.0),
        "alpha": (0.01, 0.1, 1.0),
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
        alpha: float = 0.1,
        tol: float = 1e-11,
        max_iter: int = 200,
        metric: str = "plain",
        alarm_rate: float = 0.05,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.width = width
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.metric = metric
        self.alarm_rate = alarm_rate

    def _solve(self, rows: TrainingRows) -> None:
        self.X_fit_, self.codes_, self.outlier_, self.weight_ = rows
        # Weights matter relative to alpha only: about 1 they stay in range.
        weight = resolved_weight(rows.weight)
        unit = float(weight.mean())
        root = np.sqrt(weight / unit)
        R = responses(rows.codes, rows.outlier, len(self.tasks_))
        K = self._finite_gram(rows.X)
        ridge = _resolved(self.alpha, unit, float(np.abs(np.diagonal(K) @ root**2)))
        self.alpha_ = ridge * unit
        values, vectors = eigenbasis(K, ridge, root)
        solution = solve_output_kernel(
            values, vectors, root[:, None] * R, ridge, tol=self.tol, max_iter=self.max_iter
        )
        if not solution.converged:
            warnings.warn(
                f"Output kernel learning stopped after max_iter={self.max_iter} steps without "
                "reaching tol: raise max_iter, tol or alpha.",
                ConvergenceWarning,
            )
        self.structure_ = solution.structure
        self.coef_ = root[:, None] * solution.coef
        self.dual_coef_ = self.coef_ @ self.structure_
        self.objective_path_, self.n_iter_ = solution.objective_path, solution.n_iter
        scores, residual = left_out_scores_of_structure(
            values * unit, vectors, R, self.structure_, self.alpha_, weight, rows.codes
        )
        normal, T = ~rows.outlier, len(self.tasks_)
        codes, weight = rows.codes[normal], weight[normal]
        self.left_out_ = scores[normal]
        residual_sum = np.bincount(codes, weight * residual[normal], T)
        self.mean_response_ = 1.0 - residual_sum / np.bincount(codes, weight, T)

    def _left_out_scores(self) -> tuple[Array, Codes, Array]:
        normal = ~self.outlier_
        return self.left_out_, self.codes_[normal], self.weight_[normal]

    def _set_calibration(self, scores: Array, codes: Codes, weight: Array, source: str) -> None:
        if source == "leave-one-out":
            source = "leave-one-out, structure fixed"
        super()._set_calibration(scores, codes, weight, source)


def _resolved(alpha: float, unit: float, size: float) -> float:
    """The ridge over the unit of weights, in the range where Newton steps converge."""
    size = size if size > 0 else 1.0
    # Clipped before the division, which may overflow.
    return float(np.clip(alpha, 1e-9 * size * unit, 1e3 * size * unit) / unit)
