"""OCKSR-L: a linear structure between the tasks, learned with their functions."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from manyone.estimators.responses import ResponseScoring
from manyone.estimators.structured import StructureMixin
from manyone.features import FeatureMap
from manyone.kernels import Array
from manyone.solvers.eigenbasis import eigenbasis, left_out_scores_of_structure
from manyone.solvers.linear import smallest_frobenius, solve_linear
from manyone.solvers.ridge import effective_alpha
from manyone.tasks import responses
from manyone.validation import TrainingRows


class LinearOCKSR(ResponseScoring, StructureMixin):
    r"""One-class kernel spectral regression with a learned linear structure (the paper's OCKSR-L).

    The responses of all tasks are mixed by a matrix B that is learned with them,

    .. math:: \min_{A, B} \lVert K A B - R \rVert_F^2 + \alpha \operatorname{tr}(A' K A)
              + \phi \lVert B \rVert_F^2 + \nu \lVert B \rVert_*,

    with one-hot responses R, :math:`\phi` = `frobenius` and :math:`\nu` = `nuclear`. Directions of
    the responses that many rows support get a weaker ridge than others. ``B = I`` would be
    :class:`JointOCKSR`.

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
    frobenius : float, default=0.1
        Strength of the squared Frobenius norm of the structure.
    nuclear : float, default=0
        Strength of its nuclear norm: removes whole directions. With 0 the problem is convex in
        ``A B`` and solved to its global optimum, with a certificate.
    metric : {"plain", "whitened"}, default="plain"
        ``"whitened"`` applies :class:`TaskWhitener` first; thresholds then come from folds.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm.
    solver : {"fista", "paper"}, default="fista"
        ``"paper"``: the paper's Algorithm 1 (with its gradients put right), which stops when the
        objective changes by less than `tol`. Else quasi-Newton steps, or accelerated proximal ones
        where ``nuclear > 0``.
    tol : float, default=1e-10
        Relative duality gap to stop at (``nuclear > 0``: squared relative stationarity).
    max_iter : int, default=1000
        Most iterations.
    landmarks : int or None, default=None
        Number of landmark rows for large n: O(n m^2) instead of O(n^3). None is exact.
    random_state : int, RandomState or None, default=None
        Of the choice of landmarks.
    warm_start : bool, default=False
        Whether the next fit starts from the structure of the last.
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
        B, symmetric and positive semi-definite: a square root of the covariance of the tasks.
    objective_path_ : ndarray of shape (iterations + 1,)
        Objective at the start and after each iteration.
    n_iter_ : int
        Number of iterations.
    duality_gap_ : float
        Bound on the relative distance of the objective from its minimum (``nuclear = 0``), or nan.
    dual_coef_ : ndarray of shape (n, T)
        Expansion coefficients of both layers in one: ``f = K(x, X_fit) dual_coef_``.
    mean_response_ : ndarray of shape (T,)
        Mean response of the normal rows of each task.
    alpha_, gamma_ : float
        The numbers that were used.
    X_fit_ : array or CSR matrix of shape (n, d)
        Training rows, or the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    JointOCKSR : No structure.
    NonlinearOCKSR : A second kernel layer instead of a matrix.

    Notes
    -----
    Thresholds and p-values compare a row with the leave-one-out scores of its task, in closed form
    with the structure held fixed: B has seen the row that is left out, its T^2 numbers from all
    rows of all tasks, and the alarm rates measured on digits are those of :class:`JointOCKSR`.
    Where the penalties leave a task nothing but zero, the model is that of :class:`JointOCKSR`;
    a single task has nothing to mix, and its model is that of :class:`IndependentOCKSR`.

    A fit costs one eigendecomposition and O(n T^2) per iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import LinearOCKSR
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["ann", "bob"], 30)
    >>> X = rng.normal(size=(60, 2)) + 3.0 * (task == "bob")[:, None]
    >>> model = LinearOCKSR(alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[0.0, 0.0], [0.0, 0.0]], task=["ann", "bob"])
    array([ 1, -1])
    >>> model.structure_.shape
    (2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StructureMixin._parameter_constraints,
        "frobenius": [Interval(Real, 0, None, closed="left")],
        "nuclear": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"fista", "paper"})],
    }
    #: What `tune` tries beside kernel, width, ridge and metric.
    _own_grid: ClassVar[dict[str, tuple[Any, ...]]] = {"frobenius": (0.1, 0.01, 1.0)}

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
        frobenius: float = 0.1,
        nuclear: float = 0.0,
        metric: str = "plain",
        alarm_rate: float = 0.05,
        solver: str = "fista",
        tol: float = 1e-10,
        max_iter: int = 1000,
        landmarks: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.width = width
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.frobenius = frobenius
        self.nuclear = nuclear
        self.metric = metric
        self.alarm_rate = alarm_rate
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.landmarks = landmarks
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def _solve(self, rows: TrainingRows) -> None:
        _, self.codes_, self.outlier_, self.weight_ = rows
        R = responses(rows.codes, rows.outlier, len(self.tasks_))
        features: FeatureMap | None = None
        if self.landmarks is None:
            self.X_fit_, basis = rows.X, self._gram(rows.X)
        else:
            basis, features = self._landmark_features(rows, self.landmarks)
        trace = self._gram_diagonal(rows.X) @ rows.weight
        self.alpha_ = float(effective_alpha(self.alpha, trace))
        if len(self.tasks_) == 1:
            coef = self._only(basis, R)
        elif (mixed := self._mixed(basis, R)) is not None:
            coef = mixed
        else:
            coef = self._unmixed(self._gram(rows.X) if features is None else basis, R)
        self.dual_coef_ = coef if features is None else features.expand(coef)

    def _only(self, basis: Array, R: Array) -> Array:
        """Coefficients of a single task: there is nothing to mix, and B stays 1."""
        coef = self._unmixed(basis, R)
        # At the minimum, what the ridge costs is f'W(r - f): misfit and ridge are r'W(r - f).
        lack = self.weight_[~self.outlier_].sum() * (1.0 - self.mean_response_)
        self.objective_path_ = lack + self.frobenius + self.nuclear
        self.n_iter_, self.duality_gap_ = 1, 0.0 if self.nuclear == 0 else np.nan
        return coef

    def _unmixed(self, basis: Array, R: Array) -> Array:
        self.structure_ = np.eye(R.shape[1])
        return self._ridge(basis, R, self.weight_)

    def _mixed(self, basis: Array, R: Array) -> Array | None:
        """Coefficients of both layers in one, or None where a task is left with nothing but 0.

        A kernel matrix in `basis` is destroyed.
        """
        # A problem in units of its mean weight: the same minimiser, and numbers of moderate size.
        unit = float(np.mean(self.weight_))
        root, alpha = np.sqrt(self.weight_ / unit), self.alpha_ / unit
        if self.landmarks is None:
            lam, U = eigenbasis(basis, alpha, root)
        else:
            scaled = root[:, None] * basis
            lam, V = eigenbasis(scaled.T @ scaled, alpha, np.ones(basis.shape[1]))
            U = scaled @ (V / np.sqrt(lam))
        target = root[:, None] * R
        found = solve_linear(
            lam,
            U,
            target,
            alpha,
            max(self.frobenius / unit, smallest_frobenius(lam, U.T @ target, alpha)),
            self.nuclear / unit,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            B=self._started("structure_", (R.shape[1],) * 2),
            report=self._progress(),
        )
        self.objective_path_ = found.objective_path * unit
        self.n_iter_, self.duality_gap_ = found.n_iter, found.duality_gap
        if found.collapsed:
            return None
        self._warn_unless(found.converged)
        self.structure_ = found.B
        # One count is one count of the weights that were given: back to their units.
        scores, residual = left_out_scores_of_structure(
            lam * unit, U, R, found.B @ found.B, self.alpha_, self.weight_, self.codes_
        )
        normal = ~self.outlier_
        self._keep_left_out(scores[normal], residual[normal])
        coef = root[:, None] * found.coef
        return coef if self.landmarks is None else basis.T @ coef
