"""OCKSR-NS: a second kernel layer that picks few tasks and few rows."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints, Interval, StrOptions
from manyone._types import Codes
from manyone.capabilities import Capabilities
from manyone.estimators.two_layers import LEARNS, SAMPLE_ROWS, TwoLayerModel
from manyone.solvers.sparse import (
    SparseSolution,
    solve_sparse,
    sparse_problem,
    sparse_start,
    sparse_strengths,
)
from manyone.solvers.two_layers import Descent, TwoLayerProblem


@dataclass(kw_only=True, eq=False, repr=False)
class SparseOCKSR(TwoLayerModel):
    r"""Kernel spectral regression with a sparse second kernel layer (OCKSR-NS).

    As :class:`NonlinearOCKSR`, but the second layer is a sparse group lasso,

    .. math:: \min_{W, B} \lVert J B - R \rVert_F^2 + \alpha \lVert W \rVert_F^2
              + \lambda_1 \lVert B \rVert_1 + \lambda_2 \sum_{s,t} \lVert B_{s,t}
              \rVert_2,

    with :math:`\lambda_1` = `l1`, :math:`\lambda_2` = `group` and :math:`B_{s,t}` the
    coefficients of the rows of task s in the function of task t. So the function of a
    task depends on few other tasks, and on few rows of each.

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
        Ridge of the first layer. 0 means the smallest one that double precision
        resolves.
    l1, group : "auto" or float, default="auto"
        Strengths of the penalties of entries (few rows) and of blocks (few tasks).
        ``"auto"``: a hundredth of the `l1` at which a task's function would vanish.
        Numbers are clipped to between 1e-5 and 0.1 of what makes a function vanish.
        `l1_` and `group_` are what was used.
    theta : "mean" or float, default="mean"
        Coefficient of the second kernel. ``"mean"``: 10 over the mean squared length of
        the responses that the fit starts from. Only ``alpha / theta`` matters.
    learn_theta : bool, default=False
        Learn theta with W, as the paper does. The objective then has no minimiser:
        `max_iter` and `tol` decide the model.
    anchor : bool, default=True
        Fit response 0 at the origin of the feature space, where rows unlike all
        training rows lie. It weighs a tenth of a task. False is the paper's model:
        there such rows may look like one of the tasks, and a single task is mapped to
        one point.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first.
    alarm_rate : float or None, default=0.05
        Share of normal rows that may raise an alarm, on average over tasks. None: no
        thresholds are set.
    task_rate_limit : float or None
        Largest share of normal rows of a single task that may raise an alarm, on
        average; never below 1/(n + 1) for n rows. None: three times `alarm_rate`. 1.0:
        no limit.
    solver : {"fista", "paper"}, default="fista"
        ``"fista"``: the lasso, solved by a proximal method and then exactly, is
        eliminated and W found by quasi-Newton steps from the solution of
        :class:`NonlinearOCKSR`. ``"paper"``: the fixed gradient steps of the paper's
        Algorithm 3 from that of :class:`JointOCKSR`, until the objective changes by
        less than `tol`.
    tol : float, default=1e-3
        Relative decrease of the objective to stop at.
    max_iter : int, default=200
        Most iterations. With 0 the first layer stays that of :class:`JointOCKSR` and
        the second is one lasso.
    landmarks : int or None, default=None
        Number of landmark rows for large n: the first layer is expanded over them, the
        second over as many rows, five for each task at least. None is exact.
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
    structure_ : ndarray of shape (T, T)
        Entry (s, t): norm of the coefficients of task s in the function of task t. The
        graph of who helps whom, with exact zeros.
    objective_path_ : ndarray of shape (iterations + 1,)
        Objective at the start and after each iteration.
    n_iter_ : int
        Number of iterations.
    dual_coef_ : ndarray of shape (n, T)
        First layer: ``y = K(x, X_fit) dual_coef_``.
    responses_ : ndarray of shape (n, T)
        First-layer responses of the training rows.
    centres_, second_coef_ : ndarray of shape (n + 1, T)
        Second layer: ``f = exp(-theta_ |y - centres_|^2) second_coef_``. The centres
        are the responses and, if there is an anchor, the origin.
    second_kernel_ : ndarray of shape (n, n)
        The second kernel J between training rows, for plots.
    theta_ : float
        The coefficient of the second kernel that was used or learned.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    alpha_, gamma_, l1_, group_ : float
        The numbers that were used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows, or the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    NonlinearOCKSR : A ridge instead of the lasso.

    Notes
    -----
    Thresholds and p-values come from folds with the whole fit repeated, and a single
    task is scored as by :class:`IndependentOCKSR`; both as in :class:`NonlinearOCKSR`.

    With landmarks and more than 20,000 rows, both layers are learned from a sample of
    20,000, the same number of every task. Thresholds then come from rows that were not
    drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import SparseOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = SparseOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    """

    can = Capabilities(
        landmarks=True,
        sample_rows=SAMPLE_ROWS,
        learns=(*LEARNS, "l1_", "group_", "duality_gap_"),
        regression=True,
        folds=5,
        merges_copies=True,
        left_out_grid="joint",
        strengths={"l1": ("auto", 0.05), "theta": ("mean", 100.0)},
        quick=False,
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **TwoLayerModel._parameter_constraints,
        "l1": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "group": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"fista", "paper"})],
    }

    l1: str | float = "auto"
    group: str | float = "auto"
    solver: str = "fista"
    tol: float = 1e-3
    max_iter: int = 200

    def _descend(
        self, problem: TwoLayerProblem, centres: Codes | None
    ) -> tuple[SparseSolution, dict[str, object]]:
        problem = sparse_problem(problem)
        l1, group = sparse_strengths(problem, self.l1, self.group, centres)
        if self.solver == "fista" and self.max_iter:
            problem = problem._replace(W=sparse_start(problem, self.max_iter, centres))
        how = Descent(self.tol, self.max_iter, self.learn_theta, self.solver)
        layers = solve_sparse(problem, l1, group, how, centres)
        return layers, {
            "structure": layers.structure[: problem.R.shape[1]],
            "duality_gap": layers.duality_gap,
            "l1": l1 * problem.unit,
            "group": group * problem.unit * np.sqrt(problem.unit),
        }
