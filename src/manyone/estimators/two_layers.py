"""What both methods with a second kernel layer have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from manyone._sklearn import Interval, StrOptions
from manyone._types import Array, Codes
from manyone.calibration.tails import Tails
from manyone.data.hashing import row_hashes
from manyone.data.memory import refuse_beyond_memory
from manyone.data.rows import TrainingRows
from manyone.data.sample import Sample
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.structured import ITERATED, STRUCTURED, progress, warm_start
from manyone.fitting.joint import joint_passes
from manyone.fitting.left_out import scores_by_folds
from manyone.fitting.passes import Sweep
from manyone.fitting.plan import Plan, seed_of
from manyone.fitting.two_layers import centres_of, most_centres, mostly_drawn
from manyone.kernels.gram import Gram, Points
from manyone.models.guards import unguarded
from manyone.models.scorers import TwoLayers
from manyone.models.solution import FitReport, Solution
from manyone.solvers.nonlinear import (
    Descent,
    TwoLayerProblem,
    respond,
    two_layer_problem,
)
from manyone.solvers.nonlinear import gram as second_gram
from manyone.solvers.ridge import factorise

#: Rows that the first layer is learned from where there are landmarks and more rows.
SAMPLE_ROWS = 20_000
#: Constraints of the parameters of both methods with a second kernel layer.
TWO_LAYERS: dict[str, list[Any]] = {
    **STRUCTURED,
    "theta": [StrOptions({"mean"}), Interval(Real, 0, None, closed="neither")],
    "learn_theta": ["boolean"],
    "anchor": ["boolean"],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
}
#: Fitted attributes of both.
_FIRST = ("alpha_", "dual_coef_", "first_layer_", "responses_", "structure_")
_SECOND = ("theta_", "centres_", "second_coef_", "second_kernel_", "mean_response_")
LEARNS = (*_FIRST, *_SECOND, *ITERATED)


class TwoLayerModel(MultiTaskOneClass):
    """A first layer on rows, a second one on its responses.

    A subclass says how both layers of a problem are found (`_descend`), and the second one of a
    first that was learned from a sample, by sums over all rows (`_sum_up`).
    """

    @property
    def responses_(self) -> Array:
        """First-layer responses of the training rows (n, T); of the centres if they are fewer."""
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
    ) -> tuple[Any, dict[str, Any]]:
        """Both layers, the second on centres (None: on all rows), and what else was learned."""

    @abstractmethod
    def _sum_up(self, plan: Plan, part: Solution, sweep: Sweep) -> tuple[Solution, Any]:
        """The model with a second layer of all rows, and the pass that judges rows not drawn.

        `part` is the model of the drawn rows.
        """

    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        if rows.n_tasks == 1:
            return single_task(self, gram, rows)
        Phi, features = gram.features()
        given = (
            rows.responses(),
            rows.weight,
            rows.codes,
            self.alpha,
            self.theta,
            self.anchor,
        )
        problem = two_layer_problem(Phi, gram.diagonal(), *given)
        if not gram.points.kernel.semidefinite:
            # Features drop what is negative: where that is more than rounding, refuse.
            alpha = problem.alpha
            weight = problem.weight[: len(rows.codes)]
            factorise(gram.matrix(), alpha, np.sqrt(weight), overwrite=True)
        found, learned = self._descend(problem, None)
        dual = np.zeros((len(rows.codes), rows.n_tasks), order="F")
        dual[features.pivots] = features.expand(found.W)
        return two_layers(self, gram.points, dual, problem, found, rows, None, learned)

    # ----------------------------------------------------------------------------------- landmarks

    def _of_sample(self, plan: Plan, rows: TrainingRows, seed: int) -> Solution:
        """The model of rows that are few enough to be held."""
        assert self.landmarks is not None
        n = len(rows.codes)
        m = self.landmarks
        T = rows.n_tasks
        refuse_beyond_memory(
            n * (m + 4 * T + 2 * min(n, most_centres(m, T))),
            f"Two layers of {n} rows, {m} landmarks and {T} tasks",
            "Give fewer landmarks, or use JointOCKSR, whose memory does not grow with the square "
            "of the number of tasks.",
        )
        given = (
            rows.responses(),
            rows.weight,
            rows.codes,
            self.alpha,
            self.theta,
            self.anchor,
        )
        problem = two_layer_problem(
            plan.features(rows.X), plan.diagonal(rows.X), *given
        )
        centres = centres_of(problem, rows.content, m, seed)
        found, learned = self._descend(problem, centres)
        dual = np.asfortranarray(plan.expand(found.W))
        return two_layers(
            self, plan.points, dual, problem, found, rows, centres, learned
        )

    def _solve_passes(
        self, plan: Plan, sweep: Sweep, sample: Sample
    ) -> tuple[Solution, Tails | None]:
        if len(plan.tasks) == 1:
            solution, tails = joint_passes(plan, sweep, self.alpha)
            return as_single_task(solution, sample.counts), tails
        rows = sample.rows(own_weight=True)
        seed = seed_of(self.random_state)
        part = self._of_sample(plan, rows, seed)
        if sample.whole:
            return part, None
        plan = replace(plan, drawn=row_hashes(sample.X))
        solution, judge = self._sum_up(plan, part, sweep)
        tails = sweep(judge)
        solution = replace(solution, judge=judge)
        few = np.append(mostly_drawn(sample), False)[rows.codes] & ~rows.outlier
        if few.any():
            scores = scores_by_folds(self, solution, rows, plan)[few]
            tails = tails.merged(
                Tails.of(scores, rows.codes[few], rows.weight[few], tails.kept)
            )
        return solution, tails


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
    model: Any,
    points: Points,
    dual: Array,
    problem: TwoLayerProblem,
    found: Any,
    rows: TrainingRows,
    at: Codes | None,
    learned: dict[str, Any],
) -> Solution:
    """The model of two layers that were found for a problem.

    Parameters
    ----------
    model : estimator
    points : Points
    dual : ndarray of shape (m, T)
        First layer over the points.
    problem : TwoLayerProblem
    found : NonlinearSolution or SparseSolution
    rows : TrainingRows
    at : ndarray of shape (q,) or None
        Numbers of the centres of the second layer; None: all rows of the problem.
    learned : dict
        What else was learned.

    Returns
    -------
    Solution
    """
    n = len(rows.codes)
    Y = problem.Phi @ found.W
    centres = Y if at is None else Y[at]
    second = np.asfortranarray(found.B)
    fitted = respond(Y[:n], centres, second, found.theta)
    # What each row counts for in the mean of its task.
    share = rows.weight[:, None] * problem.R[:n]
    share /= share.sum(axis=0)
    mean = np.einsum("it,it->t", share, fitted)
    converged = found.converged or model.max_iter == 0
    return Solution(
        TwoLayers(points, dual, centres, second, found.theta, mean),
        report=FitReport(found.objective_path * problem.unit, found.n_iter, converged),
        learned={
            "alpha": problem.alpha * problem.unit,
            "theta": found.theta,
            "dual_coef": dual,
            "first_layer": found.W,
            "centres": centres,
            "second_coef": second,
            "mean_response": mean,
            "structure": share.T @ respond(Y[:n], Y[:n], share, found.theta),
            **learned,
        },
    )


def with_second(
    part: Solution, centres: Array, second: Array, mean: Array, source: str
) -> Solution:
    """The model with another second layer, judged by rows that were not drawn.

    Centres and coefficients are of shape (q, T), mean responses of shape (T,).
    """
    scorer = replace(layers_of(part), centres=centres, second_coef=second, target=mean)
    learned = {"centres": centres, "second_coef": second, "mean_response": mean}
    source = f"{source} of rows not drawn"
    return replace(
        part, scorer=scorer, learned={**part.learned, **learned}, left_out_source=source
    )


def layers_of(solution: Solution) -> TwoLayers:
    """Both layers of a model of several tasks."""
    layers = unguarded(solution.scorer)
    assert isinstance(layers, TwoLayers)
    return layers


def single_task(model: Any, gram: Gram, rows: TrainingRows) -> Solution:
    """One task has no pattern of responses to recognise: its model is the first layer alone."""
    ridge = JointOCKSR(alpha=model.alpha)
    found = ridge._solve(gram, rows, left_out=True)
    return as_single_task(found, rows.weight[~rows.outlier].sum(keepdims=True))


def as_single_task(found: Solution, total: Array) -> Solution:
    """The model of the first layer alone, where the rows of the task weigh `total` (1,)."""
    cost = total.sum() * (1.0 - found.learned["mean_response"])
    return replace(found, report=FitReport(np.asarray(cost)), state=None)
