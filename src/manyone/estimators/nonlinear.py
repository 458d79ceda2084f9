"""OCKSR-N: a second kernel layer over the responses of all tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from manyone import validation
from manyone._sklearn import Interval, StrOptions
from manyone._types import Array
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.capabilities import Capabilities
from manyone.estimators.joint import joint_solution
from manyone.estimators.structured import STRUCTURED, progress, warm_start
from manyone.kernels.gram import FeatureMap, Gram
from manyone.models.scorers import TwoLayers
from manyone.models.solution import FitReport, Solution
from manyone.rows import TrainingRows
from manyone.solvers.nonlinear import (
    Descent,
    TwoLayerProblem,
    capped_weight,
    respond,
    solve_nonlinear,
    two_layer_problem,
)
from manyone.solvers.nonlinear import gram as second_gram
from manyone.solvers.ridge import effective_alpha, factorise, primal_weights

#: Constraints of the parameters of both methods with a second kernel layer.
TWO_LAYERS: dict[str, list[Any]] = {
    **STRUCTURED,
    "theta": [StrOptions({"mean"}), Interval(Real, 0, None, closed="neither")],
    "learn_theta": ["boolean"],
    "anchor": ["boolean"],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
}
#: Fitted attributes of both.
LEARNS = (
    "alpha_",
    "theta_",
    "structure_",
    "dual_coef_",
    "first_layer_",
    "centres_",
    "second_coef_",
    "responses_",
    "second_kernel_",
    "mean_response_",
    "objective_path_",
    "n_iter_",
)


class TwoLayerModel(MultiTaskOneClass):
    """What both methods with a second kernel layer let the user look at."""

    @property
    def responses_(self) -> Array:
        """First-layer responses of the training rows, shape (n, T)."""
        centres: Array = self._solution.fitted("centres")
        return centres[: len(self.training_.codes)]

    @property
    def second_kernel_(self) -> Array:
        """Second-layer kernel matrix of the training rows, shape (n, n)."""
        return second_gram(self.responses_, self.responses_, self._solution.fitted("theta"))


@dataclass(kw_only=True, eq=False, repr=False)
class NonlinearOCKSR(TwoLayerModel):
    r"""One-class kernel spectral regression with a second kernel layer (the paper's OCKSR-N).

    A first layer maps rows to one response per task, :math:`y = W' \phi(x)`; a second one is a
    Gaussian kernel machine on these responses,

    .. math:: \min_{W, B} \lVert J B - R \rVert_F^2 + \alpha \lVert W \rVert_F^2
              + \beta \operatorname{tr}(B' J B), \qquad
              J_{ij} = \exp(-\theta \lVert y_i - y_j \rVert^2),

    with one-hot responses R. A task is then recognised by the pattern of responses of *all* tasks.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Any name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`, ``"rbf+laplacian"``
        (the mean of both), ``"precomputed"``, or a callable of two rows.
    gamma : {"mean", "median", "scale"} or float, default="mean"
        Kernel coefficient. ``"mean"``: one over the mean distance between training rows in the
        kernel's own metric; ``"median"`` likewise; ``"scale"``: one over (number of features x
        variance).
    width : float, default=1
        Stretches the kernel: gamma is divided by it.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict or None
        Keyword arguments of a callable kernel.
    alpha : float, default=0.1
        Ridge of the first layer. 0 means the smallest one that double precision resolves.
    beta : float, default=1
        Ridge of the second layer, at most what a task weighs on average; see `beta_`.
    theta : "mean" or float, default="mean"
        Coefficient of the second kernel. ``"mean"``: 10 over the mean squared length of the
        responses that the fit starts from. Only ``alpha / theta`` matters.
    learn_theta : bool, default=False
        Learn theta with W, as the paper does. The objective then has no minimiser: `max_iter` and
        `tol` decide the model.
    anchor : bool, default=True
        Ask for response 0 at the origin of the feature space, where rows unlike all training rows
        lie; it weighs as much as a tenth of a task. False is the paper's model, where such rows may
        look like one of the tasks, and where a single task is mapped to one point.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm.
    solver : {"lbfgs", "paper"}, default="lbfgs"
        ``"lbfgs"``: B is eliminated and W found by quasi-Newton steps. ``"paper"``: the fixed
        gradient steps of the paper's Algorithm 2, until the objective changes by less than `tol`.
    tol : float, default=1e-5
        Relative decrease of the objective to stop at.
    max_iter : int, default=500
        Most iterations. With 0 the first layer stays that of :class:`JointOCKSR` and the second is
        one more solve.
    landmarks : int or None, default=None
        Number of landmark rows of the first layer for large n. None is exact.
    random_state : int, RandomState or None, default=None
        Of the choice of landmarks.
    warm_start : bool, default=False
        Whether the next fit starts from the first layer of the last, where its shape still fits.
    verbose : int, default=0
        1 shows every tenth objective value on stderr, 2 every one.

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
        Entry (s, t): mean of the second kernel over the rows of tasks s and t, near 1 on the
        diagonal. Off it, which tasks look alike and share what they know.
    objective_path_ : ndarray of shape (iterations + 1,)
        Objective at the start and after each iteration.
    n_iter_ : int
        Number of iterations.
    dual_coef_ : ndarray of shape (n, T)
        First layer: ``y = K(x, X_fit) dual_coef_``.
    responses_ : ndarray of shape (n, T)
        First-layer responses of the training rows.
    centres_, second_coef_ : ndarray of shape (n + 1, T)
        Second layer: ``f = exp(-theta_ |y - centres_|^2) second_coef_``. The centres are the
        responses and, if there is an anchor, the origin.
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
    Thresholds and p-values compare a row with the scores of training rows of its task under models
    that have not seen them: folds are cut inside each task and the whole fit is repeated without
    each. (Leaving rows out of the second layer alone would be worthless: the first has seen them.)

    A single task has no pattern of responses: its rows are scored by the first layer alone, and
    scores and thresholds are those of :class:`IndependentOCKSR`.

    The objective is not convex; the fit starts from the solution of :class:`JointOCKSR`. An
    iteration costs one Cholesky factorisation of size n and four n x n x T products.

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
        learns=(*LEARNS, "beta_"),
        regression=True,
        folds=5,
        merges_copies=True,
        left_out_grid="joint",
        strengths={"beta": (1.0, 0.1), "theta": ("mean", 100.0)},
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TwoLayerModel._parameter_constraints,
        **TWO_LAYERS,
        "beta": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"lbfgs", "paper"})],
    }

    alpha: float = 0.1
    beta: float = 1.0
    theta: str | float = "mean"
    learn_theta: bool = False
    anchor: bool = True
    solver: str = "lbfgs"
    tol: float = 1e-5
    max_iter: int = 500
    landmarks: int | None = None
    random_state: Any = None
    warm_start: bool = False
    verbose: int = 0

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        if rows.n_tasks == 1:
            return single_task(self, gram, rows)
        problem, features = first_layer(self, gram, rows)
        begun, how = start(self, problem)
        found = solve_nonlinear(begun, self.beta, how)
        solution = two_layers(gram, rows, problem, features, found, self)
        solution.learned["beta"] = found.beta
        return solution


def first_layer(model: Any, gram: Gram, rows: TrainingRows) -> tuple[TwoLayerProblem, FeatureMap]:
    """Both layers as arrays, starting from the ridge regression of the first."""
    if model.landmarks is None:
        Phi, features = gram.features()
    else:
        validation.refuse_landmarks(rows, model.landmarks)
        rng = check_random_state(model.random_state)
        Phi, features = gram.landmark_features(model.landmarks, rng)
    diagonal, R = gram.diagonal(), rows.responses()
    weight = capped_weight(rows.weight, diagonal, model.alpha)
    alpha = float(effective_alpha(model.alpha, diagonal @ weight))
    definite = gram.kernel.unit_diagonal or gram.kernel.semidefinite
    if model.landmarks is None and not definite:
        # Features drop what is negative: where that is more than rounding, refuse.
        factorise(gram.matrix(), alpha, np.sqrt(weight), overwrite=True)
    W = primal_weights(Phi, R, alpha, weight)[0]
    problem = two_layer_problem(
        Phi, W, R, weight, rows.codes, alpha, theta=model.theta, anchor=model.anchor
    )
    return problem, features


def start(model: Any, problem: TwoLayerProblem) -> tuple[TwoLayerProblem, Descent]:
    """The problem from where to start, and how to go on."""
    how = Descent(
        model.tol,
        model.max_iter,
        model.learn_theta,
        model.solver,
        report=progress(model) if model.verbose else None,
    )
    last = None
    if model.warm_start and model.max_iter:
        last = warm_start(model, "first_layer", problem.W.shape)
    if last is not None:
        problem = problem._replace(W=last)
        if model.learn_theta:  # it belongs to the first layer it came with
            problem = problem._replace(theta=model.solution_.fitted("theta"))
    return problem, how


def two_layers(
    gram: Gram,
    rows: TrainingRows,
    problem: TwoLayerProblem,
    features: FeatureMap,
    found: Any,
    model: Any,
) -> Solution:
    """The model of two layers that were found for a problem."""
    exact, max_iter = model.landmarks is None, model.max_iter
    n = len(rows.codes)
    coef, centres = features.expand(found.W), problem.Phi @ found.W
    if exact:
        points, dual = gram.points(), np.zeros((n, rows.n_tasks), order="F")
        dual[features.pivots] = coef
    else:
        points, dual = gram.points(features.pivots), np.asfortranarray(coef)
    second = np.asfortranarray(found.B)
    fitted = respond(centres[:n], centres, second, found.theta)
    # What each row counts for in the mean of its task.
    share = rows.weight[:, None] * problem.R[:n]
    share /= share.sum(axis=0)
    mean = np.einsum("it,it->t", share, fitted)
    return Solution(
        TwoLayers(points, dual, centres, second, found.theta, mean),
        report=FitReport(
            found.objective_path * problem.unit, found.n_iter, found.converged or max_iter == 0
        ),
        learned={
            "alpha": problem.alpha * problem.unit,
            "theta": found.theta,
            "dual_coef": dual,
            "first_layer": found.W,
            "centres": centres,
            "second_coef": second,
            "mean_response": mean,
            "structure": share.T @ respond(centres[:n], centres[:n], share, found.theta),
        },
    )


def single_task(model: Any, gram: Gram, rows: TrainingRows) -> Solution:
    """One task has no pattern of responses to recognise: its model is the first layer alone."""
    found = joint_solution(gram, rows, model.alpha, model.landmarks, model.random_state)
    normal = ~rows.outlier
    cost = rows.weight[normal].sum() * (1.0 - found.learned["mean_response"])
    found.learned.pop("factor", None)
    return replace(found, report=FitReport(np.asarray(cost)))
