"""The base of both methods with a second kernel layer."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints, Interval, StrOptions
from manyone._types import Array, Codes
from manyone.calibration.folds import content_order
from manyone.calibration.tails import Tails
from manyone.capabilities import ITERATED
from manyone.data.hashing import row_hashes
from manyone.data.memory import refuse_beyond_memory
from manyone.data.rows import TrainingRows
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.landmarks import LandmarkOneClass
from manyone.fitting.joint import joint_passes
from manyone.fitting.plan import Passes, Plan, seed_of
from manyone.fitting.two_layers import (
    JudgeNotDrawn,
    centres_of,
    most_centres,
    mostly_drawn,
)
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import Kernel
from manyone.kernels.landmarks import expanded
from manyone.models.nearness import LeftOutGuard
from manyone.models.scorers import InMetric, TwoLayers, behind_metric
from manyone.models.solution import FitReport, Solution
from manyone.solvers.nonlinear import NonlinearSolution
from manyone.solvers.ridge import factorise
from manyone.solvers.sparse import SparseSolution
from manyone.solvers.two_layers import (
    TwoLayerProblem,
    respond,
    two_layer_problem,
)
from manyone.solvers.two_layers import gram as second_gram

#: Most rows that both layers are learned from with landmarks.
SAMPLE_ROWS = 20_000
#: Fitted attributes of both.
_FIRST = ("alpha_", "dual_coef_", "first_layer_", "responses_", "structure_")
_SECOND = ("theta_", "centres_", "second_coef_", "second_kernel_", "mean_response_")
LEARNS = (*_FIRST, *_SECOND, *ITERATED)


@dataclass(kw_only=True, eq=False, repr=False)
class TwoLayerModel(LandmarkOneClass):
    """A first layer on rows, and a second one on the responses of the first.

    A subclass solves for both layers (`_descend`).
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **LandmarkOneClass._parameter_constraints,
        "theta": [StrOptions({"mean"}), Interval(Real, 0, None, closed="neither")],
        "learn_theta": ["boolean"],
        "anchor": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
    }

    theta: str | float = "mean"
    learn_theta: bool = False
    anchor: bool = True
    solver: str = "lbfgs"

    @property
    def responses_(self) -> Array:
        """First-layer responses of training rows (n, T), with landmarks of centres."""
        centres: Array = self._solution.fitted("centres")
        n = len(self.training_.codes)
        return (
            centres[:n] if 0 < n <= len(centres) else centres[np.any(centres, axis=1)]
        )

    @property
    def second_kernel_(self) -> Array:
        """Second-layer kernel matrix of the training rows, shape (n, n)."""
        return second_gram(
            self.responses_, self.responses_, self._solution.fitted("theta")
        )

    @abstractmethod
    def _descend(
        self, problem: TwoLayerProblem, centres: Codes | None
    ) -> tuple[NonlinearSolution | SparseSolution, dict[str, object]]:
        """Both layers of a problem, and what else a user may look at.

        The second layer is expanded over the rows with the numbers `centres`; None:
        over all rows.
        """

    def _problem(
        self, Phi: Array, diagonal: Array, rows: TrainingRows
    ) -> TwoLayerProblem:
        """The problem of rows with features (n, m) and self-similarities (n,)."""
        return two_layer_problem(
            Phi,
            diagonal,
            rows.responses(),
            rows.weight,
            rows.codes,
            self.alpha,
            self.theta,
            self.anchor,
        )

    def _learn(
        self, rows: TrainingRows, *, left_out: bool, kernel: Kernel | None = None
    ) -> Solution:
        if rows.n_tasks == 1 or self.landmarks is not None:
            return super()._learn(rows, left_out=left_out, kernel=kernel)
        # Rounding may decide which iteration is the last, and depends on the order of
        # rows and tasks. So this is that of their content, not that of their names.
        place = np.argsort(content_order(rows))
        ordered = rows.recoded(place, rows.n_tasks)
        # (Outliers of every task have a negative number, and come last.)
        last = np.where(ordered.codes < 0, rows.n_tasks, ordered.codes)
        order = np.argsort(last, kind="stable")
        solution = super()._learn(ordered.take(order), left_out=left_out, kernel=kernel)
        solution = in_other_order(solution, np.argsort(order), place)
        scorer = solution.scorer
        if isinstance(scorer, TwoLayers) and rows.columns is None:
            # The guard of far rows has to know that these are the rows themselves.
            points = replace(scorer.points, X=rows.X)
            solution = replace(solution, scorer=replace(scorer, points=points))
        return solution

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        if rows.n_tasks == 1:
            # One task has no pattern of responses: the first layer is its model.
            ridge = JointOCKSR(alpha=self.alpha)._solve(gram, rows, left_out=True)
            total = rows.weight[~rows.outlier].sum(keepdims=True)
            return as_single_task(ridge, total)
        Phi, features = gram.features()
        problem = self._problem(Phi, gram.diagonal(), rows)
        if not gram.points.kernel.semidefinite:
            # Features leave out negative eigenvalues. The factor is refused where these
            # are more than rounding.
            alpha = problem.alpha
            weight = problem.weight[: len(rows.codes)]
            factorise(gram.matrix(), alpha, np.sqrt(weight), overwrite=True)
        layers, learned = self._descend(problem, None)
        dual = np.zeros((len(rows.codes), rows.n_tasks), order="F")
        dual[features.pivots] = expanded(features.factor, layers.W)
        return self._two_layers(gram.points, dual, problem, layers, rows, None, learned)

    # ------------------------------------------------------------------------ landmarks

    def _of_sample(self, plan: Plan, rows: TrainingRows) -> Solution:
        """The model of a sample of rows."""
        assert self.landmarks is not None
        n = len(rows.codes)
        m = self.landmarks
        T = rows.n_tasks
        refuse_beyond_memory(
            n * (m + 4 * T + 2 * min(n, most_centres(m, T))),
            f"Two layers of {n} rows, {m} landmarks and {T} tasks",
            "Give fewer landmarks, or use JointOCKSR, whose memory does not grow with "
            "the square of the number of tasks.",
        )
        problem = self._problem(plan.features(rows.X), plan.diagonal(rows.X), rows)
        seed = seed_of(self.random_state)
        centres = centres_of(problem, rows.content, m, seed)
        layers, learned = self._descend(problem, centres)
        dual = np.asfortranarray(expanded(plan.factor, layers.W))
        return self._two_layers(
            plan.points, dual, problem, layers, rows, centres, learned
        )

    def _solve_passes(self, passes: Passes) -> tuple[Solution, Tails | None]:
        plan = passes.plan
        sample = passes.sample
        if len(plan.tasks) == 1:
            solution, tails = joint_passes(passes, self.alpha)
            return as_single_task(solution, sample.counts), tails
        rows = sample.rows(own_weight=True)
        place = np.argsort(content_order(rows))
        solution = self._of_sample(plan, rows.recoded(place, rows.n_tasks))
        solution = in_other_order(solution, np.arange(len(plan.points)), place)
        if sample.whole:
            return solution, None
        guard = LeftOutGuard.of(passes.nearness, solution.scorer)
        drawn_plan = replace(plan, drawn=row_hashes(sample.X))
        judge = JudgeNotDrawn(drawn_plan, solution.scorer, guard)
        solution = replace(solution, judge=judge, left_out_source="rows not drawn")
        if not passes.left_out:
            return solution, None
        tails = passes.source.reduce(judge)
        drawn = np.append(mostly_drawn(sample), False)[rows.codes] & ~rows.outlier
        if drawn.any():
            in_metric = behind_metric(solution, plan.metric)
            scores = self._scores_by_folds(in_metric, rows, guard)
            by_folds = scores[drawn], rows.codes[drawn], rows.weight[drawn]
            tails = tails.merged(Tails.of(*by_folds, tails.n_exact))
        return solution, tails

    def _two_layers(
        self,
        points: Points,
        dual: Array,
        problem: TwoLayerProblem,
        layers: NonlinearSolution | SparseSolution,
        rows: TrainingRows,
        at: Codes | None,
        learned: dict[str, object],
    ) -> Solution:
        """The solution of two layers.

        Parameters
        ----------
        points : Points
        dual : ndarray of shape (m, T)
            Coefficients of the first layer over the points.
        problem : TwoLayerProblem
        layers : NonlinearSolution or SparseSolution
        rows : TrainingRows
        at : ndarray of shape (q,) or None
            Numbers of the centres of the second layer; None: all rows of the problem.
        learned : dict
            What else a user may look at.

        Returns
        -------
        Solution
        """
        n = len(rows.codes)
        Y = problem.Phi @ layers.W
        centres = Y if at is None else Y[at]
        second = np.asfortranarray(layers.B)
        fitted = respond(Y[:n], centres, second, layers.theta)
        # The share of each row in the mean of its task.
        share = rows.weight[:, None] * problem.R[:n]
        share /= share.sum(axis=0)
        mean = np.einsum("it,it->t", share, fitted)
        converged = layers.converged or self.max_iter == 0
        path = layers.objective_path * problem.unit
        return Solution(
            TwoLayers(points, dual, centres, second, layers.theta, mean),
            report=FitReport(path, layers.n_iter, converged),
            learned={
                "alpha": problem.alpha * problem.unit,
                "theta": layers.theta,
                "dual_coef": dual,
                "first_layer": layers.W,
                "centres": centres,
                "second_coef": second,
                "mean_response": mean,
                "structure": share.T @ respond(Y[:n], Y[:n], share, layers.theta),
                **learned,
            },
        )


def in_other_order(solution: Solution, rows: Codes, tasks: Codes) -> Solution:
    """The solution for rows and tasks in another order.

    Parameters
    ----------
    solution : Solution
    rows, tasks : ndarray of shape (n,) and (T,)
        Where each point of the first layer, and each task, is in the solution.
    """
    scorer = solution.scorer
    if isinstance(scorer, InMetric):
        solution = replace(solution, scorer=scorer.scorer)
        solution = in_other_order(solution, rows, tasks)
        return replace(solution, scorer=replace(scorer, scorer=solution.scorer))
    assert isinstance(scorer, TwoLayers)
    # Centres are all points and the origin, or rows of a sample, which stay.
    centres = np.arange(len(scorer.centres))
    centres[: len(rows)] = rows[: len(centres)]
    layers = replace(
        scorer,
        points=scorer.points.take(rows),
        coef=np.asfortranarray(scorer.coef[rows][:, tasks]),
        centres=scorer.centres[centres][:, tasks],
        second_coef=np.asfortranarray(scorer.second_coef[centres][:, tasks]),
        target=scorer.target[tasks],
    )
    learned = {
        **solution.learned,
        "dual_coef": layers.coef,
        "first_layer": solution.learned["first_layer"][:, tasks],
        "centres": layers.centres,
        "second_coef": layers.second_coef,
        "mean_response": layers.target,
        "structure": solution.learned["structure"][np.ix_(tasks, tasks)],
    }
    solution = replace(solution, scorer=layers, learned=learned)
    if solution.left_out is None:
        return solution
    shift = None if solution.shift is None else solution.shift[rows]
    return replace(solution, left_out=solution.left_out[rows], shift=shift)


def as_single_task(ridge: Solution, total: Array) -> Solution:
    """The model of a single task, a ridge regression, as one of two layers.

    Parameters
    ----------
    ridge : Solution
    total : ndarray of shape (1,)
        Weight of the normal rows.
    """
    cost = total.sum() * (1.0 - ridge.learned["mean_response"])
    return replace(ridge, report=FitReport(np.asarray(cost)))
