"""OCKSR-N: a second kernel layer over the responses of all tasks."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from manyone._sklearn import Constraints, Interval, StrOptions
from manyone._types import Codes
from manyone.capabilities import Capabilities
from manyone.estimators.two_layers import LEARNS, SAMPLE_ROWS, TwoLayerModel
from manyone.solvers.nonlinear import NonlinearSolution, solve_nonlinear
from manyone.solvers.two_layers import Descent, TwoLayerProblem


@dataclass(kw_only=True, eq=False, repr=False)
class NonlinearOCKSR(TwoLayerModel):
    r"""Kernel spectral regression with a second kernel layer (OCKSR-N).

    A first layer maps rows to one response per task, :math:`y = W' \phi(x)`; a second
    one is a Gaussian kernel machine on these responses,

    .. math:: \min_{W, B} \lVert J B - R \rVert_F^2 + \alpha \lVert W \rVert_F^2
              + \beta \operatorname{tr}(B' J B), \qquad
              J_{ij} = \exp(-\theta \lVert y_i - y_j \rVert^2),

    with one-hot responses R. A task is then recognised by the pattern of responses of
    *all* tasks.

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
    beta : float, default=1
        Ridge of the second layer. At most the mean weight of a task is used: `beta_`.
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
    solver : {"lbfgs", "paper"}, default="lbfgs"
        ``"lbfgs"``: B is eliminated and W found by quasi-Newton steps. ``"paper"``: the
        fixed gradient steps of the paper's Algorithm 2, until the objective changes by
        less than `tol`.
    tol : float, default=1e-4
        Decrease of the objective to stop at, relative to what can be gained from where
        it starts.
    max_iter : int, default=500
        Most iterations. With 0 the first layer stays that of :class:`JointOCKSR` and
        the second is one more solve.
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
        Entry (s, t): mean of the second kernel over the rows of tasks s and t, near 1
        on the diagonal. Off it, which tasks look alike and share what they know.
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
    alpha_, beta_, gamma_ : float
        The numbers that were used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows, or the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    JointOCKSR : The first layer alone.
    SparseOCKSR : A second layer that picks few tasks and rows.

    Notes
    -----
    Thresholds and p-values compare a row with the scores of training rows of its task
    under models that have not seen them. Folds are cut inside each task, and the whole
    fit is repeated without each. (To leave rows out of the second layer only is not
    enough, because the first has seen them.)

    A single task has no pattern of responses: its rows are scored by the first layer
    alone, and scores and thresholds are those of :class:`IndependentOCKSR`.

    With landmarks and more than 20,000 rows, both layers are learned from a sample of
    20,000, the same number of every task. Thresholds then come from rows that were not
    drawn.

    The objective is not convex; the fit starts from the solution of
    :class:`JointOCKSR`. An iteration costs one Cholesky factorisation of size n and
    four n x n x T products.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import NonlinearOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = NonlinearOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    """

    can = Capabilities(
        landmarks=True,
        sample_rows=SAMPLE_ROWS,
        learns=(*LEARNS, "beta_"),
        regression=True,
        folds=5,
        merges_copies=True,
        left_out_grid="joint",
        strengths={"beta": (1.0, 0.1), "theta": ("mean", 100.0)},
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **TwoLayerModel._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"lbfgs", "paper"})],
    }

    beta: float = 1.0
    tol: float = 1e-4
    max_iter: int = 500

    def _descend(
        self, problem: TwoLayerProblem, centres: Codes | None
    ) -> tuple[NonlinearSolution, dict[str, object]]:
        how = Descent(self.tol, self.max_iter, self.learn_theta, self.solver)
        layers = solve_nonlinear(problem, self.beta, how, centres)
        return layers, {"beta": layers.beta}
