"""Each task alone, by passes: those with many rows on landmarks of their own, the others exactly.

A task with more distinct rows than landmarks is a fit of one task by passes, with its own plan,
statistics and left-out scores; all such tasks share the passes. Rows of the other tasks are in the
sample, all of them, and are fitted in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from manyone._types import Array, Codes, Labels
from manyone.calibration.tails import IntoTails, Tails
from manyone.data import checks
from manyone.data.blocks import Block, stacked
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.memory import refuse_beyond_memory
from manyone.data.rows import MISSING, CodedRows, TrainingRows, renumbered
from manyone.fitting.joint import Sums
from manyone.fitting.left_out import KnownScores, LeaveOut
from manyone.fitting.plan import Plan, sample_size
from manyone.fitting.statistics import AddUp, Ridge, Statistics, solve_statistics
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import Kernel
from manyone.metric.shrinkage import TaskWhitenings, Whitening
from manyone.models.guards import Nearness, lowered, unit_of
from manyone.models.solution import Solution
from manyone.models.task_expansions import TaskExpansions
from manyone.threads import on_threads

#: Statistics of tasks that have a plan, by number.
Each = dict[int, Statistics]
#: Solves tasks exactly: a kernel and rows, sorted by task, and the ridge.
Exact = Callable[[Gram, TrainingRows, float], Solution]


@dataclass(frozen=True, eq=False)
class TaskPlans:
    """What the passes go by.

    Parameters
    ----------
    tasks : ndarray of shape (T,)
        Labels, sorted.
    kernel : Kernel
        Of rows in the metric.
    few : TrainingRows
        All rows of the tasks without a plan, and outliers of every task.
    plans : dict of int to Plan
        Of the other tasks, by number.
    nearness : Nearness or None
    metric : Whitening or None
    drawn : ndarray of shape (s,)
        See :class:`~manyone.engines.Plan`.
    """

    tasks: Labels
    kernel: Kernel
    few: TrainingRows
    plans: dict[int, Plan]
    nearness: Nearness | None = None
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
        known = rows.codes != MISSING
        pairs = np.unique(np.column_stack([rows.codes, rows.content])[known], axis=0)
        large = np.flatnonzero(
            np.bincount(pairs[:, 0], minlength=len(tasks)) > landmarks
        )
        few = rows.take(np.flatnonzero(~np.isin(rows.codes, large))).by_task()
        what = f"{len(large)} tasks with landmarks={landmarks} each"
        refuse_beyond_memory(
            3.0 * len(large) * landmarks**2, what, "Give fewer landmarks."
        )

        def planned(task: int) -> tuple[int, Plan]:
            own = rows.take(np.flatnonzero((rows.codes == task) | ~known))
            if len(own.codes) > sample_size(landmarks):
                lowest = np.argsort(row_hashes(own.X, seed), kind="stable")
                own = own.take(np.sort(lowest[: sample_size(landmarks)]))
            return task, Plan.of(
                kernel, own, tasks[[task]], landmarks, seed, of_task(metric, task)
            )

        plans = dict(on_threads(planned, large.tolist()))
        return cls(tasks, kernel, few, plans, None, metric)

    def parts(self, rows: Any) -> Iterator[tuple[int, Codes, CodedRows]]:
        """Rows of each task that has a plan, with outliers of every task: numbers, and rows."""
        order = np.argsort(rows.codes, kind="stable")
        shared, *starts = np.searchsorted(rows.codes[order], [0, *self.plans])
        for task, start in zip(self.plans, starts, strict=True):
            stop = np.searchsorted(rows.codes[order], task, side="right")
            which = np.sort(np.concatenate([order[:shared], order[start:stop]]))
            if len(which):
                codes = np.where(rows.codes[which] == task, 0, MISSING)
                yield task, which, replace(rows.take(which), codes=codes)


def of_task(metric: Any, task: int) -> Any:
    """The metric of one task alone, where each has its own."""
    return metric if metric is None or metric.shared else metric.take(np.array([task]))


@dataclass(frozen=True, eq=False)
class AddUpEach:
    """The pass that sums up the statistics of every task with a plan, by number."""

    plans: TaskPlans

    def partial(self, block: Block) -> dict[int, Statistics]:
        """Statistics of one block."""
        return self.of(block.checked().coded(self.plans.tasks))

    def of(self, rows: Any) -> dict[int, Statistics]:
        """Statistics of rows whose tasks are numbers."""

        def add_up(part: tuple[int, Codes, CodedRows]) -> tuple[int, Statistics]:
            return part[0], AddUp(self.plans.plans[part[0]]).of(part[2])

        return dict(on_threads(add_up, self.plans.parts(rows)))

    def merge(self, one: Each, other: Each) -> Each:
        """Statistics of the rows of both."""
        both = {task: one[task] + other[task] for task in one.keys() & other.keys()}
        return {**one, **other, **both}


@dataclass(frozen=True, eq=False)
class LeaveOutEach(IntoTails):
    """The pass that leaves every row of every task with a plan out.

    Scores of the other rows are `known`.
    """

    plans: TaskPlans
    ridges: dict[int, Ridge]
    unit: float
    known: KnownScores | None = None

    def partial(self, block: Block) -> Tails:
        """Left-out scores of one block."""
        return self.of(block.checked().coded(self.plans.tasks))

    def of(self, rows: Any) -> Tails:
        """Tails of the left-out scores of rows whose tasks are numbers and have a plan."""
        scores = self._of_plans(rows)
        plans = self.plans
        return Tails.known(scores, rows, len(plans.tasks))

    def judged(self, rows: Any) -> Array:
        """Left-out scores (n,); NaN for outliers, and for rows that shaped the landmarks."""
        scores = self._of_plans(rows)
        if self.known is None:
            return scores
        known = self.known.judged(rows)
        return np.where(np.isnan(known), scores, known)

    def _of_plans(self, rows: Any) -> Array:
        def judge(part: tuple[int, Codes, CodedRows]) -> tuple[Codes, Array]:
            task, which, own = part
            normal = ~own.outlier  # outliers of every task are part of all
            step = LeaveOut(self._plan(task), self.ridges[task], self.unit)
            return which[normal], step.judged(own)[normal]

        scores = np.full(len(rows.codes), np.nan)
        for which, found in on_threads(judge, self.plans.parts(rows)):
            scores[which] = found
        return scores

    def _plan(self, task: int) -> Plan:
        plan = self.plans.plans[task]
        nearness = self.plans.nearness
        if nearness is not None:
            # Of the tasks that a plan of one task counts, this is the first.
            first = np.arange(len(self.plans.tasks))
            first[[0, task]] = [task, 0]
            nearness = nearness.recoded(first)
        return replace(plan, nearness=nearness, drawn=self.plans.drawn)


class Parts(NamedTuple):
    """All tasks together, the solution of those solved exactly, and the ridges of the others."""

    scorer: TaskExpansions
    learned: dict[str, Any]
    exact: Solution | None
    ridges: dict[int, Ridge]


def independent_passes(
    plans: TaskPlans, sweep: Any, alpha: float, exact: Exact
) -> tuple[Solution, Tails]:
    """Minimise ``sum_i w_i |f_t(x_i) - r_i|^2 + alpha |f_t|^2`` over the rows of each task t alone.

    Parameters
    ----------
    plans : TaskPlans
    sweep : callable
        Runs a pass, see :func:`manyone.engines.fit`.
    alpha : float
    exact : callable
        Solves small tasks.

    Returns
    -------
    solution : Solution
        Without left-out scores.
    tails : Tails
        What thresholds and p-values need of them.
    """
    statistics = sweep(AddUpEach(plans)) if plans.plans else {}
    sums = Sums(plans, statistics, alpha, Tails.none(len(plans.tasks)))
    return independent_of_sums(sums, sweep, exact)


def independent_of_sums(
    sums: Sums,
    sweep: Any,
    exact: Exact,
    judged: tuple[TrainingRows, Array] | None = None,
) -> tuple[Solution, Tails]:
    """The model that sums have, whose tails are those of other rows of tasks with a plan.

    Rows of the others that are not drawn are judged anew, or have been `judged`: rows, and scores.
    """
    plans = sums.plan
    tails = sums.tails
    found = _solved(plans, sums.statistics, sums.alpha, exact)
    unit = unit_of(found.scorer)
    judge = LeaveOutEach(plans, found.ridges, unit)
    small = Tails.none(len(plans.tasks))
    anew = judged is None
    if judged is None and found.exact is not None:
        assert found.exact.left_out is not None
        new = np.flatnonzero(~np.isin(row_hashes(plans.few.X), plans.drawn))
        judged = plans.few.take(new), found.exact.left_out[new]
    if judged is not None:
        normal = np.flatnonzero(~judged[0].outlier)
        few = judged[0].take(normal)
        scores = judged[1][normal]
        scores = lowered(scores, few, plans.nearness, unit)
        X = few.X if plans.metric is None else plans.metric.apply(few.X, few.codes)
        seen = found.scorer.own(X, few.codes)
        small = Tails.known(scores, few, len(plans.tasks), seen)
        judge = replace(judge, known=KnownScores.among(few, scores))
    if plans.plans:
        tails = tails.merged(sweep(judge))
    if not anew:
        tails = tails.merged(small)
        small = Tails.none(len(plans.tasks))
    solution = Solution(
        found.scorer,
        learned=found.learned,
        judge=judge,
        state=replace(sums, tails=tails),
    )
    return solution, tails.merged(small)


def _solved(plans: TaskPlans, statistics: Each, alpha: float, exact: Exact) -> Parts:
    """Functions of all tasks, one after the other."""
    n_tasks = len(plans.tasks)
    few = plans.few
    small = np.setdiff1d(np.arange(n_tasks), list(plans.plans))
    ridges = {
        task: solve_statistics(plan, statistics[task], alpha)
        for task, plan in plans.plans.items()
    }
    solved = None
    X = few.X if plans.metric is None else plans.metric.apply(few.X, few.codes)
    rows = {}
    coefs = {}
    shared = X[few.codes == MISSING] if len(small) else X[:0]
    used, mean = np.zeros((2, n_tasks))
    shared_coef = np.zeros((shared.shape[0], n_tasks))
    if len(small):
        own = replace(few, X=X, codes=renumbered(few.codes, small), n_tasks=len(small))
        solved = exact(Gram(Points(plans.kernel, X)), own, alpha)
        scorer: Any = solved.scorer
        used[small] = solved.learned["alpha"]
        mean[small] = scorer.target
        shared_coef[:, small] = scorer.shared_coef
        for number, task in enumerate(small.tolist()):
            part = slice(scorer.starts[number], scorer.starts[number + 1])
            rows[task] = X[part]
            coefs[task] = scorer.coef[part]
    for task, ridge in ridges.items():
        used[task] = ridge.alpha
        mean[task] = ridge.mean_response[0]
        rows[task] = plans.plans[task].points.X
        coefs[task] = ridge.coef[:, 0]
    starts = np.cumsum([0, *(len(coefs[task]) for task in range(n_tasks))])
    points = Points(
        plans.kernel, stacked([*(rows[task] for task in range(n_tasks)), shared])
    )
    coef = np.concatenate(
        [*(coefs[task] for task in range(n_tasks)), np.zeros(shared.shape[0])]
    )
    learned = {"alpha": used, "asked_alpha": alpha, "mean_response": mean}
    expansions = TaskExpansions(points, starts, coef, shared_coef, mean)
    return Parts(expansions, learned, solved, ridges)
