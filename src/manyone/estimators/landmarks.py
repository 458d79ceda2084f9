"""Methods with `landmarks`: they are fitted by passes over blocks of rows."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from manyone._sklearn import Constraints
from manyone._types import Array
from manyone.calibration.copies import seen_scores
from manyone.calibration.tails import Tails
from manyone.capabilities import LANDMARKS, RIDGE
from manyone.data.checks import warn_of_copies
from manyone.data.hashing import row_hashes
from manyone.data.rows import CodedRows, TrainingRows
from manyone.data.sample import Sample, TakeSample, refuse_unusable
from manyone.data.sweeps import (
    Source,
    Sweep,
    steady,
    training_rows_of,
)
from manyone.estimators.base import MultiTaskOneClass
from manyone.fitting.metric import metric_of
from manyone.fitting.plan import Passes, Plan, sample_size, seed_of
from manyone.kernels.gram import Gram
from manyone.kernels.kernel import VALUES_ONLY, Kernel
from manyone.metric.shrinkage import Whitening
from manyone.models.nearness import (
    LeftOutGuard,
    TrainingNearness,
    nearness_of,
    raw_kernel,
)
from manyone.models.scorers import behind_metric
from manyone.models.solution import Judge, Solution
from manyone.threads import threads_for_blocks


class Solved(NamedTuple):
    """A model of landmarks, and what calibrates it.

    Attributes
    ----------
    solution : Solution
        Behind its metric, without guards, with the judge of its rows if it has one.
    sample : Sample
    nearness : TrainingNearness or None
    tails : Tails or None
        Left-out scores; None: they are not wanted, or folds have to make them.
    """

    solution: Solution
    sample: Sample
    nearness: TrainingNearness | None
    tails: Tails | None


@dataclass(frozen=True, eq=False)
class GivenScores(Judge):
    """Left-out scores (n,) of rows in memory, in their order."""

    scores: Array

    def judged(self, rows: CodedRows) -> Array:
        """See :class:`Judge`."""
        return self.scores


@dataclass(kw_only=True, eq=False, repr=False)
class LandmarkOneClass(MultiTaskOneClass):
    """A ridge regression on all rows, or on landmarks by passes over blocks of rows."""

    _parameter_constraints: ClassVar[Constraints] = {
        **MultiTaskOneClass._parameter_constraints,
        **RIDGE,
        **LANDMARKS,
    }

    alpha: float = 0.1
    landmarks: int | None = None
    random_state: object = None

    @abstractmethod
    def _solve_passes(self, passes: Passes) -> tuple[Solution, Tails | None]:
        """The solution on landmarks, and left-out scores if they have a closed form."""

    def _why_no_passes(self, groups: object) -> str | None:
        """Why all rows are needed in memory; None where passes over blocks will do."""
        if self.landmarks is None:
            return "Without landmarks all rows are needed in memory"
        if self.kernel in VALUES_ONLY:
            return f"kernel={self.kernel!r} has no rows"
        if groups is not None:
            return "groups= needs all rows in memory, as blocks may cut groups"
        return None

    def _fit_passes(self, sweep: Sweep, groups: object = None) -> Self:
        self._validate_params()
        reason = self._why_no_passes(groups)
        if reason is not None:
            raise self._no_passes(reason)
        self._fit_sweep(steady(sweep), calibrate=self.alarm_rate is not None)
        return self

    def _learn_by_passes(
        self, rows: TrainingRows, kernel: Kernel | None, *, left_out: bool
    ) -> Solution:
        sweep = self._sweep_of_rows(rows, np.arange(rows.n_tasks))
        return self._solved(sweep, kernel, left_out=left_out).solution

    def _fit_sweep(self, sweep: Sweep, *, calibrate: bool) -> Judge | None:
        assert self.landmarks is not None
        solution, sample, nearness, tails = self._solved(sweep, left_out=calibrate)
        self._remember_columns(sample.X.shape[1], sample.names, sample.label_columns)
        judge = solution.judge
        guard = LeftOutGuard.of(nearness, solution.scorer)
        solution = guard.around(replace(solution, judge=None))
        calibration = None
        if calibrate:
            rows = training_rows_of(sweep)
            grouped = rows is not None and rows.group is not None
            together = judge is not None and (judge.leaves_groups or not grouped)
            if tails is None or not together:
                if rows is None:
                    rows = sample.rows().by_task()
                scores = self._scores_by_folds(solution, rows, guard)
                seen = seen_scores(scores, rows, solution.own)
                tails = Tails.known(scores, rows, rows.n_tasks, seen)
                judge = GivenScores(scores)
                solution = replace(solution, left_out_source="folds", fixed="")
            elif grouped:
                solution = replace(solution, left_out_source="leave-group-out")
            elif solution.left_out_source == "leave-one-out":
                is_normal = ~sample.outlier
                warn_of_copies(sample.X[is_normal], sample.weight[is_normal])
            calibration = tails.calibration(
                len(sample.tasks),
                solution.left_out_source,
                solution.scorer.far(),
                solution.fixed,
            )
        self._warn(solution, sample.X)
        training = TrainingRows.none(len(sample.tasks))
        rate = self.alarm_rate if calibrate else None
        self._become(solution, sample.tasks, training, calibration, rate)
        return judge

    def _solved(
        self, sweep: Sweep, kernel: Kernel | None = None, *, left_out: bool
    ) -> Solved:
        """The model of the rows of a sweep; the estimator is not changed.

        If no kernel is given, its width follows from a sample of the rows.
        """
        assert self.landmarks is not None
        seed = seed_of(self.random_state)
        whitened = self.metric == "whitened"
        rows = training_rows_of(sweep)
        if rows is not None and rows.columns is not None:
            raise ValueError(
                f'kernel="precomputed" has no landmarks={self.landmarks}: use '
                "landmarks=None."
            )
        # Landmarks and widths are chosen from a sample, and two layers learned from it.
        size = max(sample_size(self.landmarks), self.can.sample_rows)
        sample = sweep(TakeSample(size, seed, whitened))
        refuse_unusable(sample)
        source = Source(sweep, sample.tasks)
        # One large problem is left to the threads of BLAS, blocks of rows are not.
        threads = nullcontext() if self.can.sample_rows else threads_for_blocks()
        with np.errstate(under="ignore"), threads:
            metric = metric_of(sample, source) if whitened else None
            # So few rows shape the metric much: thresholds come from folds.
            by_folds = whitened and sample.n_rows <= size
            plan = self._planned(sample, seed, metric, kernel)
            if by_folds:
                plan = replace(plan, drawn=row_hashes(sample.X))
            else:
                plan = plan.learned(sample, self.alpha)
            # Rows that leave in groups have other distances to those that stay.
            grouped = rows is not None and rows.group is not None
            nearness = self._nearness(sample, plan, rows if grouped else None)
            passes = Passes(plan, source, sample, nearness, left_out and not by_folds)
            solution, tails = self._solve_passes(passes)
        return Solved(behind_metric(solution, metric), sample, nearness, tails)

    def _planned(
        self,
        sample: Sample,
        seed: int,
        metric: Whitening | None,
        kernel: Kernel | None,
    ) -> Plan:
        """The plan for a sample: some of its rows are the landmarks."""
        assert self.landmarks is not None
        rows = sample.rows()
        measured = rows
        if metric is not None:
            measured = replace(rows, X=metric.apply(rows.X))
        kernel = Gram.of(measured, self, kernel).points.kernel
        return Plan.of(kernel, rows, sample.tasks, self.landmarks, seed, metric)

    def _nearness(
        self, sample: Sample, plan: Plan, usual_rows: TrainingRows | None
    ) -> TrainingNearness | None:
        """The guard of far rows; None where the kernel is not one of a distance.

        Which distances are usual is learned from `usual_rows`, or from the sample.
        """
        assert self.landmarks is not None
        kernel = plan.kernel
        if not kernel.fading:
            return None
        rows = usual_rows
        if rows is None:
            # Each task weighs what its sampled rows do: a huge one does not rule.
            rows = sample.rows(own_weight=True).by_task()
        all_landmarks = sample.whole and len(rows.codes) <= self.landmarks
        if plan.metric is not None:
            kernel = raw_kernel(kernel, rows.X)
        return nearness_of(kernel, rows, all_rows=all_landmarks)[0]

    def _scores_by_folds(
        self,
        solution: Solution,
        rows: TrainingRows,
        guard: LeftOutGuard,
    ) -> Array:
        """Scores (n,) of rows by refits without them, lowered by a guard."""
        scores = self._judged_by_folds(solution, rows).left_out
        assert scores is not None
        guard.lower(scores, rows, np.flatnonzero(~rows.outlier))
        return scores
