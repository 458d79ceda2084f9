"""Fits by passes over blocks of rows: the same few lines, wherever the blocks are."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from manyone._types import Array, Labels, Metric, Rows
from manyone.calibration.tails import Tails, seen_scores
from manyone.calibration.thresholds import Calibration
from manyone.capabilities import Capabilities
from manyone.data.checks import refuse_landmarks, warn_of_copies
from manyone.data.hashing import row_hashes
from manyone.data.rows import TrainingRows
from manyone.data.sample import Sample, TakeSample, refuse_unusable
from manyone.data.sweeps import RowsSweep, Source, Sweep, Swept
from manyone.fitting.independent import TaskPlans, TaskSums
from manyone.fitting.joint import Sums
from manyone.fitting.left_out import KnownScores
from manyone.fitting.metric import metric_of
from manyone.fitting.plan import Plan, sample_size, seed_of
from manyone.kernels.gram import Gram, KernelChoice
from manyone.kernels.kernel import Kernel
from manyone.metric.shrinkage import TaskWhitenings, Whitening
from manyone.models.guards import LeftOutGuard, Nearness, nearness_of, raw_kernel
from manyone.models.scorers import behind_metric
from manyone.models.solution import Judge, Solution
from manyone.threads import threads_for_blocks


class LandmarkMethod(KernelChoice, Protocol):
    """An estimator with landmarks, as far as fits by passes know it."""

    can: ClassVar[Capabilities]
    metric: Metric
    alpha: float
    random_state: object
    alarm_rate: float | None
    n_features_in_: int
    label_columns_: dict[str, str]
    feature_names_in_: Labels
    tasks_: Labels
    solution_: Solution
    training_: TrainingRows
    calibration_: Calibration

    @property
    def landmarks(self) -> int | None:
        """Rows that stand for all."""

    def _validate_params(self) -> None: ...

    def _solve_passes(
        self,
        plan: Plan | TaskPlans,
        source: Source,
        sample: Sample,
        nearness: Nearness | None,
    ) -> tuple[Solution, Tails | None]: ...

    def _learned_metric(
        self, rows: TrainingRows
    ) -> tuple[Whitening | TaskWhitenings, TrainingRows]: ...

    def _judged_by_folds(
        self,
        solution: Solution,
        rows: TrainingRows,
        metric: Whitening | TaskWhitenings | None,
    ) -> Solution: ...

    def _warn(self, solution: Solution, X: Rows) -> None: ...

    def _set_offsets(self, alarm_rate: float | None) -> None: ...


#: An estimator with landmarks, of whatever class.
Fitted = TypeVar("Fitted", bound=LandmarkMethod)


class Solved(NamedTuple):
    """A model of landmarks, and what follows from it.

    Attributes
    ----------
    solution : Solution
        Behind its metric, without guards.
    sample : Sample
    nearness : Nearness or None
    metric : Whitening, TaskWhitenings or None
    tails : Tails or None
        Left-out scores; None: there is no closed form.
    judge : Judge or None
        Knows the left-out score of every row; None as well.
    """

    solution: Solution
    sample: Sample
    nearness: Nearness | None
    metric: Whitening | TaskWhitenings | None
    tails: Tails | None
    judge: Judge | None


def solved(model: LandmarkMethod, sweep: Sweep, kernel: Kernel | None = None) -> Solved:
    """Sample, metric, landmarks and solution of rows, wherever they are.

    The model is not changed. Without a kernel, its width follows from the sample.
    """
    assert model.landmarks is not None
    seed = seed_of(model.random_state)
    whitened = model.metric == "whitened"
    metric: Whitening | TaskWhitenings | None = None
    grouped = None
    if isinstance(sweep, RowsSweep):
        rows = sweep.block.rows
        refuse_landmarks(rows, model.landmarks)
        if rows.group is not None:
            grouped = rows
        if model.metric == "adaptive":
            metric, trusted = model._learned_metric(replace(rows, group=None))
            sweep = RowsSweep(replace(sweep.block, rows=trusted))
    least = 1 if model.can.joint else model.landmarks + 1
    sample = sweep(TakeSample(rows_to_sample(model), seed, whitened, least))
    refuse_unusable(sample)
    source = Swept(sweep, sample.tasks)
    # Two layers are learned from the sample by BLAS; all else is blocks of rows.
    spread = nullcontext() if model.can.sample_rows else threads_for_blocks()
    with np.errstate(under="ignore"), spread:
        if whitened:
            metric = metric_of(sample, source)
        plan = _planned(model, sample, seed, metric, kernel)
        if grouped is not None and isinstance(plan, TaskPlans):
            plan = plan.grouped(grouped)
        nearness = _nearness(model, sample, plan, grouped)
        solution, tails = model._solve_passes(plan, source, sample, nearness)
    judge = solution.judge
    solution = behind_metric(replace(solution, judge=None), metric)
    return Solved(solution, sample, nearness, metric, tails, judge)


def rows_to_sample(model: LandmarkMethod) -> int:
    """Rows that landmarks, widths and, of two layers, the first are chosen from."""
    assert model.landmarks is not None
    return max(sample_size(model.landmarks), model.can.sample_rows)


def fit_judged(
    model: Fitted, sweep: Sweep, *, calibrate: bool
) -> tuple[Fitted, Judge | None]:
    """The fitted model, and what gives the left-out scores of its rows if they are wanted."""
    model._validate_params()
    solution, sample, nearness, metric, tails, judge = solved(model, sweep)
    remember_columns(model, sample)
    guard = LeftOutGuard.of(nearness, solution.scorer)
    solution = guard.around(solution)
    if calibrate:
        rows = sweep.block.rows if isinstance(sweep, RowsSweep) else None
        grouped = rows is not None and rows.group is not None
        # So few rows shape the metric much: thresholds come from folds.
        all_drawn = sample.n_rows <= rows_to_sample(model)
        shaped = metric is not None and (all_drawn or not metric.shared)
        together = judge is not None and (judge.leaves_groups or not grouped)
        if tails is None or shaped or not together:
            if rows is None:
                rows = sample.rows().by_task()
            solution, tails, judge = _by_folds(model, guard, metric, solution, rows)
        elif grouped:
            solution = replace(solution, left_out_source="leave-group-out")
        elif solution.left_out_source.startswith("leave-one-out"):
            warn_of_copies(sample.X[~sample.outlier], sample.weight[~sample.outlier])
    model._warn(solution, sample.X)
    model.training_ = no_rows(len(sample.tasks))
    model.tasks_ = sample.tasks
    model.solution_ = solution
    vars(model).pop("calibration_", None)
    if calibrate:
        assert tails is not None
        n_tasks = len(sample.tasks)
        model.calibration_ = tails.calibration(
            n_tasks, solution.left_out_source, solution.scorer.far()
        )
    model._set_offsets(model.alarm_rate if calibrate else None)
    return model, judge


def no_rows(n_tasks: int) -> TrainingRows:
    """What a model that has seen its rows in blocks keeps of them."""
    none = np.zeros(0, dtype=np.intp)
    return TrainingRows(
        np.empty((0, 0)), none, none.astype(bool), np.zeros(0), none, n_tasks
    )


def _by_folds(
    model: LandmarkMethod,
    guard: LeftOutGuard,
    metric: Whitening | TaskWhitenings | None,
    solution: Solution,
    rows: TrainingRows,
) -> tuple[Solution, Tails, KnownScores]:
    """Solution, tails and scores of rows at hand that are judged by refits without them."""
    scores = scores_by_folds(model, solution, rows, metric, guard)
    normal = np.flatnonzero(~rows.outlier)
    seen = seen_scores(scores, rows, solution.own)
    tails = Tails.known(scores, rows, rows.n_tasks, seen)
    state = solution.state
    if isinstance(state, Sums | TaskSums):
        state = replace(state, tails=tails)
    known = KnownScores.among(rows.take(normal), scores[normal])
    solution = replace(solution, left_out_source="folds", state=state)
    return solution, tails, known


def scores_by_folds(
    model: LandmarkMethod,
    solution: Solution,
    rows: TrainingRows,
    metric: Whitening | TaskWhitenings | None,
    guard: LeftOutGuard,
) -> Array:
    """Scores (n,) of the rows of an estimator by refits without them, lowered by a guard."""
    scores = model._judged_by_folds(solution, rows, metric).left_out
    assert scores is not None
    normal = np.flatnonzero(~rows.outlier)
    scores[normal] = guard.lower(scores[normal], rows.take(normal))
    return scores


def _planned(
    model: LandmarkMethod,
    sample: Sample,
    seed: int,
    metric: Whitening | TaskWhitenings | None,
    kernel: Kernel | None,
) -> Plan | TaskPlans:
    """The plan for a sample, or one for each large task, with the parameters of an estimator."""
    assert model.landmarks is not None
    rows = sample.rows()
    moved = rows
    if metric is not None:
        moved = replace(rows, X=metric.apply(rows.X, rows.codes))
    kernel = Gram.of(moved, model, kernel).points.kernel
    plan: Plan | TaskPlans
    drawn = None
    if metric is not None and sample.n_rows <= rows_to_sample(model):
        drawn = row_hashes(sample.X)  # all of them shaped the metric
    if not model.can.joint:
        plan = TaskPlans.of(kernel, rows, sample.tasks, model.landmarks, seed, metric)
        return plan if drawn is None else replace(plan, drawn=drawn)
    plan = Plan.of(kernel, rows, sample.tasks, model.landmarks, seed, metric)
    if drawn is None:
        return plan.learned(sample, model.alpha)
    return replace(plan, drawn=drawn)


def _nearness(
    model: LandmarkMethod,
    sample: Sample,
    plan: Plan | TaskPlans,
    grouped: TrainingRows | None,
) -> Nearness | None:
    """What tells rows far from everything; None where the kernel is not one of a distance.

    Rows that have groups say themselves how far from each other is usual.
    """
    assert model.landmarks is not None
    kernel = plan.kernel
    if not kernel.fading:
        return None
    # A task with nearly all rows must not make those of all others unusual.
    rows = sample.rows(own_weight=True).by_task() if grouped is None else grouped
    all_rows = model.can.joint and sample.whole and len(rows.codes) <= model.landmarks
    if plan.metric is not None:
        kernel = raw_kernel(kernel, rows.X)
    return nearness_of(kernel, rows, all_rows=all_rows)[0]


def remember_columns(model: LandmarkMethod, sample: Sample) -> None:
    """Say how many columns there are, and their names."""
    model.n_features_in_ = sample.X.shape[1]
    model.label_columns_ = dict(sample.label_columns)
    vars(model).pop("feature_names_in_", None)
    if sample.names is not None:
        model.feature_names_in_ = sample.names
