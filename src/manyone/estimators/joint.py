"""C-OCKSR: one kernel machine for all tasks, the rows of the others are negatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from manyone._types import Codes
from manyone.calibration.conformal import TaskRidge
from manyone.calibration.tails import Tails
from manyone.capabilities import Capabilities
from manyone.data.rows import TrainingRows
from manyone.estimators.landmarks import LandmarkOneClass
from manyone.fitting.closed_form import closed_form
from manyone.fitting.joint import joint_passes
from manyone.fitting.plan import Passes
from manyone.kernels.gram import Expansion, Gram
from manyone.models.solution import Solution
from manyone.solvers.leave_blocks import solve_without_blocks
from manyone.solvers.ridge import (
    effective_alpha,
    factorise,
    solve_ridge,
)


@dataclass(kw_only=True, eq=False, repr=False)
class JointOCKSR(LandmarkOneClass):
    r"""Kernel spectral regression of all tasks together (C-OCKSR).

    Each task has a function that should be 1 on its own normal rows and 0 on those of
    all other tasks and on known outliers,

    .. math:: \min_{f} \sum_i w_i \lVert f(x_i) - r_i \rVert^2
        + \alpha \sum_t \lVert f_t \rVert^2,

    with one-hot responses :math:`r_i`. One Cholesky factor serves all tasks.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`,
        ``"rbf+laplacian"`` (the mean of both), ``"precomputed"``, or a callable of two
        rows.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient. ``"mean"``: one over the mean distance between training rows
        in the kernel's own metric; ``"median"`` likewise; ``"scale"``: one over (number
        of features x variance).
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
    landmarks : int or None, default=None
        Number of landmark rows for large n: O(n m^2) instead of O(n^3). None is exact.
    random_state : int, RandomState or None, default=None
        Of the choice of landmarks.

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
    dual_coef_ : ndarray of shape (n, T)
        Expansion coefficients: ``f = K(x, X_fit) dual_coef_``.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    structure_ : ndarray of shape (T, T)
        Entry (s, t): mean left-out response of task t's function to rows of task s. Off
        the diagonal, which tasks look alike. (With landmarks, rows are not left out.)
    alpha_, gamma_ : float
        The numbers that were used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows, or the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    IndependentOCKSR : Each task alone.

    Notes
    -----
    Thresholds and p-values compare a row with the exact leave-one-out scores of its
    task, in closed form. A fit costs 2/3 n^3 + 2 n^2 T flops.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import JointOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = JointOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    >>> model.predict_task([[0.0, 0.0], [3.0, 3.0], [20.0, -20.0]])
    array(['ann', 'bob', None], dtype=object)
    """

    can = Capabilities(
        exact_pvalues=True,
        landmarks=True,
        learns=("alpha_", "dual_coef_", "mean_response_", "structure_"),
        regression=True,
        left_out_grid="joint",
    )

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        K = gram.matrix()
        alpha = float(effective_alpha(self.alpha, np.diagonal(K) @ rows.weight))
        coef, remaining, lower = solve_ridge(
            K, rows.responses(), alpha, rows.weight, overwrite=True
        )
        residuals = coef * (alpha / rows.weight)[:, None]
        normal = np.flatnonzero(~rows.outlier)
        codes = rows.codes[normal]
        own_residuals = np.full(len(rows.codes), np.nan)
        own_residuals[normal] = residuals[normal, codes]
        without = partial(solve_without_blocks, lower, alpha)
        judged = closed_form(rows, own_residuals, remaining, without)
        left = residuals[normal] / remaining[normal, None]
        sums = np.zeros((rows.n_tasks, rows.n_tasks))
        np.add.at(sums, codes, rows.weight[normal, None] * left)
        return Solution(
            Expansion(gram.points, coef, judged.mean),
            judged.scores,
            judged.source,
            learned={
                "alpha": alpha,
                "dual_coef": coef,
                "mean_response": judged.mean,
                "structure": np.eye(rows.n_tasks) - sums / judged.total[:, None],
            },
            responses=judged.responses,
            one_minus_leverage=remaining,
        )

    def _solve_passes(self, passes: Passes) -> tuple[Solution, Tails | None]:
        return joint_passes(passes, self.alpha)

    def _task_ridges(self, tasks: Codes) -> Iterator[TaskRidge]:
        rows = self.training_
        learned = self.solution_.learned
        remaining = self.solution_.one_minus_leverage
        assert remaining is not None
        # The model does not hold the factor, which is as large as the kernel matrix.
        points = self.solution_.scorer.points
        K = points.kernel.gram(points.X)
        root = np.sqrt(rows.weight)
        factor = factorise(K, learned["alpha"], root, overwrite=True)
        for task in tasks:
            yield TaskRidge(
                slice(None),
                factor,
                learned["dual_coef"][:, task],
                remaining,
                rows.weight,
                learned["alpha"],
                np.flatnonzero((rows.codes == task) & ~rows.outlier),
            )
