"""Each task alone, by passes: those with many rows on landmarks of their own, the others exactly.

A task with more distinct rows than landmarks is a fit of one task by passes, with its own plan,
statistics and left-out scores; all such tasks share the passes. Rows of the other tasks are in the
sample, all of them, and are fitted in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from manyone._types import Array, Codes, Labels, Rows
from manyone.calibration.tails import Tails
from manyone.data import checks
from manyone.data.blocks import stacked
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.memory import refuse_beyond_memory
from manyone.data.rows import MISSING, CodedRows, TrainingRows, renumbered
from manyone.data.sweeps import Source
from manyone.fitting.left_out import JudgedRows, KnownScores, LeaveOut, LeftOutPass
from manyone.fitting.plan import Plan, sample_size
from manyone.fitting.statistics import AddUp, Ridge, Statistics, solve_statistics
from manyone.fitting.task_ridges import independent_solution
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import Kernel
from manyone.metric.shrinkage import TaskWhitenings, Whitening
from manyone.models.guards import LeftOutGuard, Nearness
from manyone.models.solution import Solution
from manyone.models.task_expansions import TaskExpansions
from manyone.threads import on_threads

#: Statistics of tasks that have a plan, by number.
Each = dict[int, Statistics]


@dataclass(frozen=True, eq=False)
class TaskPlans:
    """What the passes go by.

    Parameters
    ----------
    tasks : ndarray of shape (T,)
        Labels, sorted.
    kernel : Kernel
        Of rows in the metric.
    small_rows : TrainingRows
        All rows of the tasks without a plan, and outliers of every task.
    plans : dict of int to Plan
        Of the other tasks, by number.
    metric : Whitening or None
    drawn : ndarray of shape (s,)
        See :class:`~manyone.engines.Plan`.
    """

    tasks: Labels
    kernel: Kernel
    small_rows: TrainingRows
    plans: dict[int, Plan]
    metric: Whitening | TaskWhitenings | None = None
    drawn: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        rows: TrainingRows,
        tasks: Labels,
        landmarks: int,
        seed: int,
        metric: Whitening | TaskWhitenings | None = None,
    ) -> TaskPlans:
        """Plans for rows: all of small tasks, some of large ones, more than there are landmarks."""
        checks.refuse_many_shared(rows, landmarks)
        has_task = rows.codes != MISSING
        pairs = np.unique(np.column_stack([rows.codes, rows.content])[has_task], axis=0)
        large = np.flatnonzero(
            np.bincount(pairs[:, 0], minlength=len(tasks)) > landmarks
        )
        small_rows = rows.take(np.flatnonzero(~np.isin(rows.codes, large))).by_task()
        what = f"{len(large)} tasks with landmarks={landmarks} each"
        refuse_beyond_memory(
            3.0 * len(large) * landmarks**2, what, "Give fewer landmarks."
        )

        def planned(task: int) -> tuple[int, Plan]:
            task_rows = rows.take(np.flatnonzero((rows.codes == task) | ~has_task))
            if len(task_rows.codes) > sample_size(landmarks):
                lowest = np.argsort(row_hashes(task_rows.X, seed), kind="stable")
                task_rows = task_rows.take(np.sort(lowest[: sample_size(landmarks)]))
            return task, Plan.of(
                kernel, task_rows, tasks[[task]], landmarks, seed, of_task(metric, task)
            )

        plans = dict(on_threads(planned, large.tolist()))
        return cls(tasks, kernel, small_rows, plans, metric)

    def grouped(self, rows: TrainingRows) -> TaskPlans:
        """The same with groups for the rows of small tasks, from all rows."""
        small = ~np.isin(rows.codes, list(self.plans))
        return replace(self, small_rows=rows.take(np.flatnonzero(small)))

    def in_metric(self, rows: TrainingRows) -> Rows:
        """Rows as they are compared with each other."""
        return rows.X if self.metric is None else self.metric.apply(rows.X, rows.codes)

    def parts(self, rows: CodedRows) -> Iterator[tuple[int, Codes, CodedRows]]:
        """Rows of each task that has a plan, with outliers of every task: numbers, and rows."""
        order = np.argsort(rows.codes, kind="stable")
        shared, *starts = np.searchsorted(rows.codes[order], [0, *self.plans])
        for task, start in zip(self.plans, starts, strict=True):
            stop = np.searchsorted(rows.codes[order], task, side="right")
            which = np.sort(np.concatenate([order[:shared], order[start:stop]]))
            if len(which):
                codes = np.where(rows.codes[which] == task, 0, MISSING)
                yield task, which, replace(rows.take(which), codes=codes)


def of_task(
    metric: Whitening | TaskWhitenings | None, task: int
) -> Whitening | TaskWhitenings | None:
    """The metric of one task alone, where each has its own."""
    if isinstance(metric, TaskWhitenings):
        return metric.take(np.array([task]))
    return metric


@dataclass(frozen=True, eq=False)
class AddUpEach:
    """The pass that sums up the statistics of every task with a plan, by number."""

    plans: TaskPlans

    def of(self, rows: CodedRows) -> dict[int, Statistics]:
        """Statistics of rows whose tasks are numbers."""

        def add_up(part: tuple[int, Codes, CodedRows]) -> tuple[int, Statistics]:
            return part[0], AddUp(self.plans.plans[part[0]]).of(part[2])

        return dict(on_threads(add_up, self.plans.parts(rows)))

    def merge(self, one: Each, other: Each) -> Each:
        """Statistics of the rows of both."""
        both = {task: one[task] + other[task] for task in one.keys() & other.keys()}
        return {**one, **other, **both}


@dataclass(frozen=True, eq=False)
class LeaveOutEach(LeftOutPass):
    """The pass that leaves every row of every task with a plan out.

    Scores of the rows of other tasks are `exact`.
    """

    plan: TaskPlans
    ridges: dict[int, Ridge]
    guard: LeftOutGuard
    exact: KnownScores | None = None
    leaves_groups: bool = True

    def judged(self, rows: CodedRows) -> Array:
        """See :class:`Judge`."""
        scores = self.known(rows).scores
        if self.exact is None:
            return scores
        exact_scores = self.exact.judged(rows)
        return np.where(np.isnan(exact_scores), scores, exact_scores)

    def known(self, rows: CodedRows) -> JudgedRows:
        """See :class:`LeftOutPass`; of rows whose task has a plan."""

        def judge(part: tuple[int, Codes, CodedRows]) -> tuple[Codes, JudgedRows]:
            task, which, task_rows = part
            normal = ~task_rows.outlier  # outliers of every task are part of all
            plan = replace(self.plan.plans[task], drawn=self.plan.drawn)
            step = LeaveOut(plan, self.ridges[task], LeftOutGuard(None, 0.0))
            return which[normal], step.known(task_rows).take(normal)

        known = JudgedRows.unknown(len(rows.codes))
        for which, part in on_threads(judge, self.plan.parts(rows)):
            known.put(which, part)
        judged = np.flatnonzero(~np.isnan(known.scores))
        self.guard.lower(known.scores, rows, judged)
        return known


def independent_passes(
    plans: TaskPlans,
    source: Source,
    alpha: float,
    nearness: Nearness | None,
    *,
    left_out: bool = True,
) -> tuple[Solution, Tails | None]:
    """Minimise ``sum_i w_i |f_t(x_i) - r_i|^2 + alpha |f_t|^2`` over the rows of each task t alone.

    Parameters
    ----------
    plans : TaskPlans
    source : Source
    alpha : float
    nearness : Nearness or None
        What left-out scores are lowered by.
    left_out : bool
        Whether left-out scores are wanted.

    Returns
    -------
    solution : Solution
        Without left-out scores.
    tails : Tails or None
        What thresholds and p-values need of them.
    """
    statistics = source.reduce(AddUpEach(plans)) if plans.plans else {}
    ridges = {
        task: solve_statistics(plan, statistics[task], alpha)
        for task, plan in plans.plans.items()
    }
    exact = _solve_small_tasks(plans, alpha)
    solution = _all_tasks(plans, exact, ridges)
    guard = LeftOutGuard.of(nearness, solution.scorer)
    judge = LeaveOutEach(plans, ridges, guard)
    if not left_out:
        return replace(solution, judge=judge), None
    tails = Tails.none(len(plans.tasks))
    if exact is not None:
        small_rows = plans.small_rows
        drawn = np.isin(row_hashes(small_rows.X), plans.drawn)
        judged = np.flatnonzero(~drawn & ~small_rows.outlier)
        small_rows = small_rows.take(judged)
        assert exact.left_out is not None
        scores = exact.left_out[judged]
        guard.lower(scores, small_rows, np.arange(len(scores)))
        seen = solution.scorer.own(plans.in_metric(small_rows), small_rows.codes)
        responses = None if exact.responses is None else exact.responses[judged]
        tails = Tails.known(scores, small_rows, len(plans.tasks), seen, responses)
        judge = replace(judge, exact=KnownScores.among(small_rows, scores))
    if plans.plans:
        tails = tails.merged(source.reduce(judge))
    return replace(solution, judge=judge), tails


def _solve_small_tasks(plans: TaskPlans, alpha: float) -> Solution | None:
    """Exact functions of the tasks without a plan, in their order; None: all have one."""
    small = np.setdiff1d(np.arange(len(plans.tasks)), list(plans.plans))
    if not len(small):
        return None
    X = plans.in_metric(plans.small_rows)
    codes = renumbered(plans.small_rows.codes, small)
    rows = replace(plans.small_rows, X=X, codes=codes, n_tasks=len(small))
    return independent_solution(Gram(Points(plans.kernel, X)), rows, alpha)


def _all_tasks(
    plans: TaskPlans, exact: Solution | None, ridges: dict[int, Ridge]
) -> Solution:
    """Functions of all tasks, one after the other: exact ones, and those of landmarks."""
    n_tasks = len(plans.tasks)
    used, mean = np.zeros((2, n_tasks))
    rows = {}
    coefs = {}
    shared: list[Rows] = []
    shared_coef = np.zeros((0, n_tasks))
    if exact is not None:
        scorer = exact.scorer
        assert isinstance(scorer, TaskExpansions)
        small = np.setdiff1d(np.arange(n_tasks), list(ridges))
        X = scorer.points.X
        used[small] = exact.learned["alpha"]
        mean[small] = scorer.target
        shared = [X[plans.small_rows.codes == MISSING]]
        shared_coef = np.zeros((shared[0].shape[0], n_tasks))
        shared_coef[:, small] = scorer.shared_coef
        for number, task in enumerate(small.tolist()):
            place = slice(scorer.starts[number], scorer.starts[number + 1])
            rows[task] = X[place]
            coefs[task] = scorer.coef[place]
    for task, ridge in ridges.items():
        used[task] = ridge.alpha
        mean[task] = ridge.mean_response[0]
        rows[task] = plans.plans[task].points.X
        coefs[task] = ridge.coef[:, 0]
    in_order = range(n_tasks)
    starts = np.cumsum([0, *(len(coefs[task]) for task in in_order)])
    X = stacked([*(rows[task] for task in in_order), *shared])
    no_own = np.zeros(len(shared_coef))
    coef = np.concatenate([*(coefs[task] for task in in_order), no_own])
    points = Points(plans.kernel, X)
    return Solution(
        TaskExpansions(points, starts, coef, shared_coef, mean),
        learned={"alpha": used, "mean_response": mean},
    )
