"""Output kernel learning: task similarities learned with their functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints
from manyone.capabilities import ITERATED, ITERATIONS, RIDGE, Capabilities
from manyone.data.rows import TrainingRows
from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels.gram import Expansion, Gram
from manyone.models.solution import FitReport, Solution
from manyone.solvers.eigenbasis import (
    eigenbasis,
    left_out_scores_of_structure,
    resolved_weight,
)
from manyone.solvers.output_kernel import solve_output_kernel


@dataclass(kw_only=True, eq=False, repr=False)
class OutputKernelOCKSR(MultiTaskOneClass):
    r"""Output kernel learning on one-hot responses (Dinuzzo et al. 2011).

    All tasks share a kernel over rows and a learnt positive semi-definite kernel L over
    tasks,

    .. math::
        \min_{C, L} \frac{1}{2\alpha} \sum_i w_i \lVert r_i - L C^\top k_i \rVert^2
        + \frac12 \mathrm{tr}(C^\top K C L) + \frac12 \lVert L \rVert_F^2,

    with the responses of :class:`JointOCKSR`: 1 for a task's own normal rows, 0 for the
    rows of all other tasks and for known outliers. Every local minimum is global.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`,
        ``"rbf+laplacian"`` (the mean of both), ``"precomputed"``, or a callable of two
        rows.
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
        Ridge, held between 1e-9 and 1e3 times the trace of the kernel matrix: beyond,
        rankings do not change.
    tol : float, default=1e-11
        On the norm of ``K C L + alpha C - R``, relative to that of the responses R.
    max_iter : int, default=200
        Newton steps.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first; thresholds then come from
        folds.
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
    structure_ : ndarray of shape (T, T)
        L, the learnt kernel over tasks.
    coef_ : ndarray of shape (n, T)
        C. At the optimum ``structure_ = C'KC / 2``.
    dual_coef_ : ndarray of shape (n, T)
        The expansion coefficients: ``f = K(x, X_fit) dual_coef_``. C L, but for what no
        response depends on.
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
    Thresholds and p-values compare a row with leave-one-out scores of its task, exact
    for the learnt L; a single row moves L little. ``calibration_.source`` says so.

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

    can = Capabilities(
        learns=(
            "alpha_",
            "structure_",
            "coef_",
            "dual_coef_",
            "mean_response_",
            *ITERATED,
        ),
        grid={
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.3, 1.0, 3.0),
            "alpha": (0.01, 0.1, 1.0),
        },
        slow=True,
        quick=False,
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **MultiTaskOneClass._parameter_constraints,
        **RIDGE,
        **ITERATIONS,
    }

    alpha: float = 0.1
    tol: float = 1e-11
    max_iter: int = 200

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        # Only ratios of weights to alpha matter: weights of about 1 stay in range.
        weight = resolved_weight(rows.weight)
        R = rows.responses()
        K = gram.finite_matrix()
        unit = float(weight.mean())
        root = np.sqrt(weight / unit)
        ridge = _resolved(self.alpha, unit, float(np.abs(np.diagonal(K) @ root**2)))
        values, vectors = eigenbasis(K, ridge, root)
        optimum = solve_output_kernel(
            values,
            vectors,
            root[:, None] * R,
            ridge,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        coef = root[:, None] * optimum.coef
        # The part that changes no response may be as large as 1 / ridge: it is dropped.
        seen = vectors @ (vectors.T @ optimum.coef)
        dual = np.asfortranarray(root[:, None] * (seen @ optimum.structure))
        left_out_rows, residual = left_out_scores_of_structure(
            values * unit,
            vectors,
            R,
            optimum.structure,
            ridge * unit,
            weight,
            rows.codes,
        )
        mean = 1.0 - replace(rows, weight=weight).mean_by_task(residual)
        return Solution(
            Expansion(gram.points, dual, mean),
            left_out_rows.scores,
            fixed="structure",
            report=FitReport(optimum.objective_path, optimum.n_iter, optimum.converged),
            learned={
                "alpha": ridge * unit,
                "structure": optimum.structure,
                "coef": coef,
                "dual_coef": dual,
                "mean_response": mean,
            },
            responses=left_out_rows.responses,
        )


def _resolved(alpha: float, unit: float, size: float) -> float:
    """The ridge over the unit of weights, in the range where Newton steps converge."""
    size = size if size > 0 else 1.0
    # Clip first: the division may overflow.
    return float(np.clip(alpha, 1e-9 * size * unit, 1e3 * size * unit) / unit)
