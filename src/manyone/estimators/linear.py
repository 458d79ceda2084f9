"""OCKSR-L: a linear structure between the tasks, learned with their functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints, Interval, StrOptions
from manyone._types import Array
from manyone.calibration.tails import Tails
from manyone.capabilities import ITERATED, Capabilities
from manyone.data.rows import TrainingRows
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.landmarks import LandmarkOneClass
from manyone.fitting.joint import joint_passes
from manyone.fitting.linear import (
    LeaveOutOfStructure,
    linear_problem,
    weights_of,
)
from manyone.fitting.plan import Passes
from manyone.fitting.statistics import AddUp
from manyone.kernels.gram import Expansion, Gram
from manyone.models.nearness import LeftOutGuard
from manyone.models.solution import FitReport, Solution
from manyone.solvers.eigenbasis import eigenbasis, left_out_scores_of_structure
from manyone.solvers.linear import LinearSolution, smallest_frobenius, solve_linear
from manyone.solvers.ridge import effective_alpha


@dataclass(kw_only=True, eq=False, repr=False)
class LinearOCKSR(LandmarkOneClass):
    r"""Kernel spectral regression with a learned linear structure (OCKSR-L).

    A matrix B mixes the responses of all tasks, and is learned with them,

    .. math:: \min_{A, B} \lVert K A B - R \rVert_F^2 + \alpha \operatorname{tr}(A' K A)
              + \phi \lVert B \rVert_F^2 + \nu \lVert B \rVert_*,

    with one-hot responses R, :math:`\phi` = `frobenius` and :math:`\nu` = `nuclear`.
    Directions of the responses that many rows share get a weaker ridge than others.
    With ``B = I`` it is :class:`JointOCKSR`.

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
    frobenius : float, default=0.1
        Strength of the squared Frobenius norm of the structure.
    nuclear : float, default=0
        Strength of its nuclear norm: removes whole directions. With 0 the problem is
        convex in ``A B`` and solved to its global optimum, with a certificate.
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
    solver : {"fista", "paper"}, default="fista"
        ``"paper"``: the paper's Algorithm 1 (with its gradients put right), which stops
        when the objective changes by less than `tol`. Else quasi-Newton steps, or
        accelerated proximal ones where ``nuclear > 0``.
    tol : float, default=1e-10
        Relative duality gap to stop at (``nuclear > 0``: squared relative
        stationarity).
    max_iter : int, default=1000
        Most iterations.
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
    structure_ : ndarray of shape (T, T)
        B, symmetric and positive semi-definite: a square root of the covariance of the
        tasks.
    objective_path_ : ndarray of shape (iterations + 1,)
        Objective at the start and after each iteration.
    n_iter_ : int
        Number of iterations.
    duality_gap_ : float
        Bound on the relative distance of the objective from its minimum
        (``nuclear = 0``), or nan.
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
    Thresholds and p-values compare a row with the leave-one-out scores of its task, in
    closed form. These hold the structure fixed, so B was fitted to the row that is left
    out, too. B has only T^2 numbers from all rows, and on digits the alarm rates are
    those of :class:`JointOCKSR`. Where the penalties make the function of a task zero,
    the model is that of :class:`JointOCKSR`. With a single task it is that of
    :class:`IndependentOCKSR`.

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

    can = Capabilities(
        landmarks=True,
        learns=(
            "alpha_",
            "structure_",
            "dual_coef_",
            "mean_response_",
            "duality_gap_",
            *ITERATED,
        ),
        regression=True,
        left_out_grid="joint",
        strengths={"frobenius": (0.1, 0.01, 1.0)},
    )
    _parameter_constraints: ClassVar[Constraints] = {
        **LandmarkOneClass._parameter_constraints,
        "frobenius": [Interval(Real, 0, None, closed="left")],
        "nuclear": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"fista", "paper"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    frobenius: float = 0.1
    nuclear: float = 0.0
    solver: str = "fista"
    tol: float = 1e-10
    max_iter: int = 1000

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        structured = self._structured(gram, rows) if rows.n_tasks > 1 else None
        return self._unstructured(gram, rows) if structured is None else structured

    def _solve_passes(self, passes: Passes) -> tuple[Solution, Tails | None]:
        plan = replace(passes.plan, raw_moments=False)
        statistics = passes.source.reduce(AddUp(plan))
        if len(plan.tasks) > 1:
            problem = linear_problem(statistics, self.alpha)
            basis = problem.eigenvalues, np.eye(len(problem.M)), problem.M
            structure = self._structure(
                *basis, problem.alpha, problem.unit, problem.outside
            )
            if not structure.collapsed:
                W, coef = weights_of(plan, problem, structure.coef)
                mean = np.einsum("tm,mt->t", statistics.sums, W) / statistics.counts
                scorer = Expansion(plan.points, coef, mean)
                guard = LeftOutGuard.of(passes.nearness, scorer)
                step = LeaveOutOfStructure.by(
                    plan, problem, structure.B, statistics.counts, mean, guard
                )
                solution = self._of_structure(
                    scorer, structure, problem.alpha, problem.unit
                )
                tails = passes.source.reduce(step) if passes.left_out else None
                return replace(solution, judge=step), tails
        passes = passes._replace(plan=plan)
        solution, tails = joint_passes(passes, self.alpha, statistics)
        return self._as_unstructured(solution, statistics.counts), tails

    def _unstructured(self, gram: Gram, rows: TrainingRows) -> Solution:
        """The model with B = I: for a single task, or where B would be 0 for a task."""
        ridge = JointOCKSR(alpha=self.alpha)._solve(gram, rows, left_out=True)
        total = np.bincount(
            rows.codes[~rows.outlier], rows.weight[~rows.outlier], rows.n_tasks
        )
        return self._as_unstructured(ridge, total.astype(np.float64))

    def _as_unstructured(self, ridge: Solution, total: Array) -> Solution:
        # At the minimum the ridge costs f'W(r - f). With the misfit that is r'W(r - f).
        cost = float(total @ (1.0 - ridge.learned["mean_response"]))
        penalty = len(total) * (self.frobenius + self.nuclear)
        gap = 0.0 if self.nuclear == 0 else np.nan
        learned = {**ridge.learned, "structure": np.eye(len(total)), "duality_gap": gap}
        report = FitReport(np.array([cost + penalty]))
        return replace(ridge, report=report, learned=learned)

    def _structured(self, gram: Gram, rows: TrainingRows) -> Solution | None:
        """The model with a learned B; None where B is 0 for a task."""
        # Weights in units of their mean: the same minimiser, numbers of moderate size.
        unit = float(np.mean(rows.weight))
        R = rows.responses()
        ridge = float(effective_alpha(self.alpha, gram.diagonal() @ rows.weight))
        root = np.sqrt(rows.weight / unit)
        alpha = ridge / unit
        lam, U = eigenbasis(gram.matrix(), alpha, root)
        target = root[:, None] * R
        structure = self._structure(lam, U, target, alpha, unit)
        if structure.collapsed:
            return None
        # Left-out scores are those without one count of the weights as they were given.
        left_out, residual = left_out_scores_of_structure(
            lam * unit, U, R, structure.B @ structure.B, ridge, rows.weight, rows.codes
        )
        coef = root[:, None] * structure.coef
        mean = 1.0 - rows.mean_by_task(residual)
        scorer = Expansion(gram.points, np.asfortranarray(coef), mean)
        solution = self._of_structure(scorer, structure, alpha, unit)
        scores, responses = left_out
        return replace(solution, left_out=scores, responses=responses)

    def _structure(
        self,
        lam: Array,
        U: Array,
        R: Array,
        alpha: float,
        unit: float,
        outside: float = 0.0,
    ) -> LinearSolution:
        return solve_linear(
            *(lam, U, R, alpha),
            # Below the smallest Frobenius penalty B grows without bound.
            max(self.frobenius / unit, smallest_frobenius(lam, U.T @ R, alpha)),
            self.nuclear / unit,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            outside=outside,
        )

    def _of_structure(
        self,
        scorer: Expansion,
        optimum: LinearSolution,
        alpha: float,
        unit: float,
    ) -> Solution:
        learned = {
            "alpha": alpha * unit,
            "structure": optimum.B,
            "duality_gap": optimum.duality_gap,
        }
        learned |= {"dual_coef": scorer.coef, "mean_response": scorer.target}
        report = FitReport(
            optimum.objective_path * unit, optimum.n_iter, optimum.converged
        )
        return Solution(scorer, report=report, learned=learned, fixed="structure")
