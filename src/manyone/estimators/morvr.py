"""MORVR: responses of all tasks from a few relevant rows, found by the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints, Interval
from manyone.capabilities import ITERATED, ITERATIONS, Capabilities
from manyone.data.rows import TrainingRows
from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels.gram import Expansion, Gram
from manyone.models.solution import FitReport, Solution
from manyone.solvers.morvr import solve_morvr
from manyone.threads import one_blas_thread

_POSTERIOR = ("relevance_", "intercept_", "precision_", "posterior_cov_", "noise_cov_")


@dataclass(kw_only=True, eq=False, repr=False)
class MORVR(MultiTaskOneClass):
    r"""Multi-output relevance vector regression on one-hot responses (Ha & Zhang 2017).

    All tasks are outputs of one Bayesian regression on kernel functions of the training
    rows,

    .. math::
        R = \Phi W + E, \qquad E \sim \mathcal{MN}(0, I, \Omega), \quad
        W \sim \mathcal{MN}(0, \mathrm{diag}(a)^{-1}, \Omega),

    with the responses of :class:`JointOCKSR`: 1 for a task's own normal rows, 0 for the
    rows of all other tasks and for known outliers. Precisions a and noise covariance
    :math:`\Omega` maximise the evidence; most precisions become infinite, and a few
    relevance vectors remain.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`,
        ``"rbf+laplacian"`` (the mean of both), ``"precomputed"``, or a callable of two
        rows. It need not be positive semi-definite.
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
    fit_intercept : bool, default=False
        Whether a constant is among the candidates, as in the literature. It helps a
        little where anomalies are of the kind of other tasks. But the response to a row
        unlike all training rows is then the constant, not 0, and the row may look
        normal. The constant is never a candidate where all responses are the same (a
        single task without outliers): it would explain them alone.
    shrinkage : float, default=0.03
        The share of noise in each response that is assumed beforehand. Without it
        one-hot responses, whose covariance is singular, leave the evidence not sure to
        rise.
    tol : float, default=1e-6
        Stop when the best change gains less log evidence than this per response.
    max_iter : int, default=10_000
        Bound on the number of changes (a basis is added, re-estimated or deleted).
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
        Threshold on the score of each task.
    alarm_rate_ : ndarray of shape (T,)
        Rate promised for each task (larger than `alarm_rate` only if a warning said
        so).
    calibration_ : Calibration
        The scores of folds behind thresholds and p-values.
    relevance_ : ndarray of shape (M,)
        Relevance vectors, by their position in `X_fit_`.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows, sorted by task.
    dual_coef_ : ndarray of shape (n, T)
        Posterior mean of the weights, zero but for the relevance vectors:
        ``f = K(x, X_fit) dual_coef_ + intercept_``.
    intercept_ : ndarray of shape (T,)
        Posterior mean of the constant; zero where it is not relevant.
    precision_ : ndarray of shape (M,)
        Prior precisions of the relevance vectors.
    posterior_cov_ : ndarray of shape (M, M)
        Posterior covariance of their weights over `noise_cov_`; a relevant constant
        comes last.
    noise_cov_ : ndarray of shape (T, T)
        Omega, the covariance of the responses given a row.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    objective_path_ : ndarray of shape (iterations + 1,)
        Minus the log evidence (and minus the log prior of Omega) before the first and
        after every change; it does not increase.
    n_iter_ : int
        Changes made.
    gamma_ : float
        The kernel coefficient that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    JointOCKSR : The same responses by ridge regression on all rows.

    Notes
    -----
    Left-out scores have no closed form here: which vectors are relevant depends on
    every row. Thresholds and p-values compare a row with scores from ten folds inside
    each task, everything fitted again, which makes a fit about ten times as long as its
    solution.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import MORVR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = MORVR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    >>> len(model.relevance_) < 15
    True
    """

    can = Capabilities(
        learns=(*_POSTERIOR, "dual_coef_", "mean_response_", *ITERATED),
        folds=10,
        grid={
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.3, 1.0, 3.0),
            "shrinkage": (3e-3, 0.03),
            "fit_intercept": (False, True),
        },
        slow=True,
        quick=False,
        short_grid={"kernel": ("rbf", "laplacian"), "width": (0.3, 1.0)},
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **MultiTaskOneClass._parameter_constraints,
        "fit_intercept": ["boolean"],
        "shrinkage": [Interval(Real, 0, 1, closed="neither")],
        **ITERATIONS,
    }

    fit_intercept: bool = False
    shrinkage: float = 0.03
    tol: float = 1e-6
    max_iter: int = 10_000

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        K = gram.finite_matrix()
        R = rows.responses()
        n = len(rows.codes)
        # In units of the kernel and of the weights nothing leaves the range of float64.
        size = float(np.abs(K.diagonal()).mean()) or float(np.abs(K).max()) or 1.0
        unit = float(rows.weight.mean())
        weight = rows.weight / unit * np.clip(unit, 1e-6, 1e6)
        constant = np.ones((n, int(self.fit_intercept and np.ptp(R, axis=0).any())))
        with one_blas_thread(n):
            posterior = solve_morvr(
                # The constant comes last: where all rows are alike, they win the tie.
                np.column_stack([K / size, constant]),
                R,
                shrinkage=self.shrinkage,
                weight=weight,
                tol=self.tol,
                max_iter=self.max_iter,
            )
        kernel = posterior.active < n
        relevance = posterior.active[kernel]
        intercept = posterior.mean[~kernel].sum(axis=0)
        dual = np.zeros((n, rows.n_tasks), order="F")
        dual[relevance] = posterior.mean[kernel] / size
        own_coef = dual.T[np.maximum(rows.codes, 0)]
        target = rows.mean_by_task(np.einsum("ij,ij->i", K, own_coef))
        scale = np.where(kernel, 1 / size, 1.0)
        return Solution(
            Expansion(gram.points, dual, target),
            report=FitReport(
                posterior.objective_path, posterior.n_iter, posterior.converged
            ),
            learned={
                "relevance": relevance,
                "dual_coef": dual,
                "intercept": intercept,
                "precision": posterior.alpha[kernel] * size**2,
                "posterior_cov": posterior.covariance * scale * scale[:, None],
                "noise_cov": posterior.noise,
                "mean_response": intercept + target,
            },
        )
