"""Rows that come and go in a model of landmarks: sums that are added to it and taken from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes
from manyone.calibration.folds import similarity_of, solve_with_folds
from manyone.calibration.tails import Tails
from manyone.engines.independent import (
    AddUpEach,
    TaskPlans,
    independent_of_rows,
    independent_of_sums,
    of_task,
)
from manyone.engines.joint import Sums, joint_solution_of, leaving_out
from manyone.engines.left_out import LeaveOut, LeftOut
from manyone.engines.plan import Plan, seed_of
from manyone.engines.statistics import AddUp, Statistics, symmetric
from manyone.groups import likeness
from manyone.hashing import Hashes, row_hashes
from manyone.kernels.gram import Points
from manyone.kernels.kernel import Kernel
from manyone.labels import lookup
from manyone.messages import warn_user
from manyone.metric.shrinkage import TaskWhitenings
from manyone.models.guards import nearness_in, unguarded
from manyone.models.resemblance import Resemblance
from manyone.models.scorers import behind_metric
from manyone.models.solution import Solution
from manyone.rows import MISSING, TrainingRows, codes_without, renumbered

Changed = tuple[Solution, Tails, NDArray[Any]]
# Share of the landmarks that has to be left, or else a word is said.
_MOST_LOST = 0.75
# Rows that all tasks count for when it is asked how the scores of one have changed.
_PRIOR_ROWS = 8.0


def with_sums(
    solution: Solution, rows: TrainingRows, known: TrainingRows, tasks: NDArray[Any]
) -> Solution:
    """The solution of landmarks and rows in memory, with what rows are added to and taken from.

    `known` are the rows that its left-out scores belong to, copies merged perhaps; their values are
    not needed. The labels of the tasks are of shape (T,).
    """
    sums, left_out, alike = solution.learned["sums"], solution.left_out, None
    plan, metric = sums.plan, getattr(unguarded(solution.scorer), "metric", None)
    left_out = np.full(len(known.codes), np.nan) if left_out is None else left_out
    if known.group is not None:
        alike = likeness(left_out, known)
    if isinstance(plan, TaskPlans):
        content, first = np.unique(rows.content, return_index=True)
        few = replace(
            plan.few, X=rows.X[first[np.searchsorted(content, plan.few.content)]]
        )
        plans = {
            task: replace(own, tasks=tasks[[task]], metric=of_task(metric, task))
            for task, own in plan.plans.items()
        }
        plan = replace(plan, few=few, plans=plans)
        if metric is None:  # small tasks are judged anew
            left_out = np.where(np.isin(known.codes, list(plans)), left_out, np.nan)
        else:
            plan = replace(plan, drawn=row_hashes(few.X))
    nearness = nearness_in(solution.scorer)
    plan = replace(plan, tasks=tasks, metric=metric, nearness=nearness, alike=alike)
    content, first = np.unique(rows.content, return_index=True)
    judged = np.flatnonzero(~known.outlier)
    X = rows.X[first[np.searchsorted(content, known.content[judged])]]
    seen = np.full(len(known.codes), np.inf)
    seen[judged] = solution.own(X, known.codes[judged])
    tails = Tails.known(left_out, known, len(tasks), alike, seen)
    learned = {**solution.learned, "sums": replace(sums, plan=plan, tails=tails)}
    return replace(solution, learned=learned)


def enrolled(model: Any, more: TrainingRows, tasks: NDArray[Any]) -> Changed:
    """The model with more rows, in the landmarks, the metric and the width that it has.

    Its functions are those of a fit to all rows. New rows get left-out scores under the new model,
    those of a group together; those that were there keep the ones they had, in the new model's
    scale, but for small tasks of a model of each task alone. Where each task has a metric, small
    and new ones learn theirs, like those that there are.

    Parameters
    ----------
    model : estimator
        With sums.
    more : TrainingRows
        Of known or new tasks.
    tasks : ndarray of shape (T,)
        Labels of both.

    Returns
    -------
    solution : Solution
        With the pass that leaves rows out of it, ``learned["judge"]``.
    tails : Tails
    tasks : ndarray of shape (T,)
    """
    sums = model.solution_.learned["sums"]
    if more.group is None and sums.plan.alike is not None:
        more = replace(more, group=more.codes + 1)
    codes, normal = lookup(sums.plan.tasks, tasks), np.flatnonzero(~more.outlier)
    nearness = sums.plan.nearness
    if nearness is not None:
        nearness = nearness.recoded(codes)
        if len(normal):
            nearness = nearness.grown(more.take(normal))
    plan = replace(sums.plan, tasks=tasks, nearness=nearness)
    if isinstance(plan, TaskPlans):
        return _each(model, plan, codes, more)
    statistics = sums.statistics.recoded(codes) + AddUp(plan).of(more)
    step = leaving_out(plan, statistics, sums.alpha)
    scale = _change_of_scale(sums, codes, step)
    old = _left_out(model.solution_.learned["structure"], sums.tails, codes, scale)
    found = step.merge(old, step.finished(step.of(more)))
    changed, tails = joint_solution_of(step, statistics, sums.alpha, found, scale)
    changed.learned["judge"] = step
    return behind_metric(changed, plan.metric), tails, tasks


def forgotten(model: Any, code: int, gone: TrainingRows | None) -> Changed:
    """The model without a task: its rows taken away, and the landmarks that were among them.

    Its functions are those of a fit to the other rows with the landmarks that are left.

    Parameters
    ----------
    model : estimator
        With sums.
    code : int
        The task.
    gone : TrainingRows or None
        All rows of the task, and no other; none are needed where each task is alone.

    Returns
    -------
    solution, tails, tasks
        As above.
    """
    sums = model.solution_.learned["sums"]
    plan, codes = sums.plan, codes_without(code, len(sums.plan.tasks))
    label = plan.tasks.tolist()[code]
    _refuse_shaped(plan.metric is not None and plan.metric.shared, "metric", label)
    if isinstance(plan, TaskPlans):
        if plan.metric is not None:
            warn_user(
                f"What the metrics of all tasks are shrunk to was learned from rows of {label!r}, "
                f"too, and stays: forget({label!r}, others=...) leaves nothing of them.",
                UserWarning,
            )
        plan = _without_task(plan, code, None)
        none = plan.few.take(slice(0, 0)).recoded(codes, len(plan.tasks))
        return _each(model, plan, codes, none)
    if gone is None:
        raise ValueError(
            f"A model of landmarks has kept no rows: forget({label!r}, X=its rows), or "
            "others=what `fit` is to be given for all other rows."
        )
    hashes = row_hashes(gone.X)
    _refuse_shaped(np.isin(hashes, plan.drawn).any(), "landmarks", label)
    taken = AddUp(plan).of(gone)
    weight, known = taken.counts.sum(), float(sums.statistics.counts[code])
    if taken.tasks.tolist() != [code] or not np.isclose(weight, known):
        raise ValueError(
            f"forget({label!r}, X=...) needs all rows of the task, which weigh {known:g}; "
            f"those that were given weigh {weight:g}."
        )
    statistics = (sums.statistics + -taken).recoded(codes)
    kept, before = np.flatnonzero(~np.isin(plan.hashes, hashes)), len(plan.points)
    _refuse_shaped(not len(kept), "landmarks", label)
    if len(kept) < _MOST_LOST * before:
        lost = f"{before - len(kept)} of {before} landmarks were rows of {label!r} and are gone"
        warn_user(
            f"{lost}: forget(..., others=...) puts others in their place.", UserWarning
        )
    structure = model.solution_.learned["structure"]
    structure = replace(structure, values=structure.values[:, kept])
    plan, statistics = _with_fewer(plan, statistics, kept)
    plan = _without_task(plan, code, hashes)
    step = leaving_out(plan, statistics, sums.alpha)
    scale = _change_of_scale(sums, codes, step)
    found = _left_out(structure, sums.tails, codes, scale)
    return *joint_solution_of(step, statistics, sums.alpha, found, scale), plan.tasks


def _each(model: Any, plans: TaskPlans, codes: Codes, more: TrainingRows) -> Changed:
    """Each task alone: with other numbers for the tasks (T,), without negative ones, and more rows.

    Small tasks, all rows of which are kept, and new ones are fitted anew.
    """
    sums, m, seed = (
        model.solution_.learned["sums"],
        model.landmarks,
        seed_of(model.random_state),
    )
    large: dict[int, Any]
    statistics: dict[int, Any]
    large, statistics = (
        {int(codes[task]): value for task, value in values.items() if codes[task] >= 0}
        for values in (plans.plans, sums.statistics)
    )
    tails, judged, own = sums.tails.recoded(codes), None, plans.metric
    if isinstance(own, TaskWhitenings):
        more = more.shared_out()
    at_hand = plans.few.recoded(codes, len(plans.tasks)).joined(more)
    rest = at_hand.take(np.flatnonzero(~np.isin(at_hand.codes, list(large))))
    if isinstance(own, TaskWhitenings):
        changed = np.setdiff1d(more.codes, list(large))
        judged, rest, own = _relearned(model, plans.kernel, own, codes, rest, changed)
        kept, shaped = np.arange(len(plans.tasks)), np.isin(at_hand.codes, rest.codes)
        kept[changed] = MISSING
        tails = tails.recoded(kept)
        plans = replace(plans, metric=own, drawn=row_hashes(at_hand.X[shaped]))
    new = TaskPlans.of(plans.kernel, rest, plans.tasks, m, seed, own)
    step = AddUpEach(replace(plans, plans=large))
    statistics = step.merge(statistics, step.of(more)) | AddUpEach(new).of(rest)
    plans = replace(plans, few=new.few, plans=large | new.plans)
    sums = Sums(plans, statistics, sums.alpha, tails)
    solution, tails = independent_of_sums(
        sums, lambda step: step.of(at_hand), model._exactly, judged
    )
    return behind_metric(solution, own), tails, plans.tasks


def _relearned(
    model: Any,
    kernel: Kernel,
    metric: TaskWhitenings,
    codes: Codes,
    rows: TrainingRows,
    changed: Codes,
) -> tuple[tuple[TrainingRows, Array], TrainingRows, TaskWhitenings]:
    """Metrics of tasks that have changed, like those that there are.

    Parameters
    ----------
    model : estimator
    kernel : Kernel
    metric : TaskWhitenings
        Of the tasks that there were.
    codes : ndarray of shape (T,)
        Their new numbers.
    rows : TrainingRows
        All rows of the tasks that have changed, and of others.
    changed : ndarray of shape (c,)

    Returns
    -------
    judged : tuple of TrainingRows and ndarray of shape (k,)
        Rows of the tasks that have changed, and their scores by refits without them.
    rows : TrainingRows
        Without those that stand apart in these tasks.
    metric : TaskWhitenings
        Of all tasks.
    """
    place = np.zeros(rows.n_tasks, dtype=np.intp)
    place[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
    others = rows.take(np.flatnonzero(~np.isin(rows.codes, changed)))
    if not len(changed):
        return (others.take(slice(0, 0)), np.zeros(0)), others, metric.take(place)
    mine = rows.take(np.flatnonzero(np.isin(rows.codes, changed))).by_task()
    own = replace(mine, codes=renumbered(mine.codes, changed), n_tasks=len(changed))

    def refit(kept: Codes, held: Codes) -> tuple[Solution, Array]:
        theirs, few = model._learned_metric(replace(own.take(kept), group=None), metric)
        few = replace(few, X=theirs.apply(few.X, few.codes))
        part = independent_of_rows(model, kernel, few, left_out=False)
        part = behind_metric(part, theirs)
        return part, part.scorer.own(own.X[held], own.codes[held])

    fresh, kept = model._learned_metric(own, metric)
    similarity = similarity_of(fresh.apply(own.X, own.codes), own, kernel)
    everyone = np.arange(len(own.codes))
    solution = solve_with_folds(
        lambda: refit(everyone, everyone)[0], refit, similarity, own
    )
    assert solution.left_out is not None
    place[changed] = len(metric.floor) + np.arange(len(changed))
    kept = replace(kept, codes=changed[kept.codes], n_tasks=rows.n_tasks)
    return (
        (mine, solution.left_out),
        others.joined(kept),
        metric.joined(fresh).take(place),
    )


def _without_task(plan: Any, code: int, gone: Hashes | None) -> Any:
    """A plan without a task: nearness to its points, and to rows that are `gone`, goes too."""
    nearness = plan.nearness
    if nearness is not None:
        leaves = nearness.codes == code
        if gone is not None:
            leaves |= np.isin(nearness.hashes, gone)
        nearness = nearness.without(leaves)
    if nearness is not None:
        nearness = nearness.recoded(codes_without(code, len(plan.tasks)))
    return replace(plan, tasks=np.delete(plan.tasks, code), nearness=nearness)


def _refuse_shaped(shaped: Any, what: str, label: Any) -> None:
    """Sums cannot undo what the rows of a task have shaped."""
    if shaped:
        raise ValueError(
            f"Rows of {label!r} may have shaped the {what} of this model: give the rows that stay, "
            f"forget({label!r}, others=what `fit` is to be given for them)."
        )


def _change_of_scale(sums: Sums, codes: Codes, step: LeaveOut) -> Array:
    """What left-out scores that there were are multiplied by under a new model, task by task.

    A row scores lower beside tasks that resemble its own. How much, the points of the nearness
    tell, which are some of the rows: the ratio of their mean scores in each task, shrunk to that in
    all.

    Parameters
    ----------
    sums : Sums
        Of the model that was.
    codes : ndarray of shape (T,)
        Numbers of its tasks in the new one.
    step : LeaveOut
        Of the new model.

    Returns
    -------
    ndarray of shape (T',)
    """
    scale, nearness = np.ones(len(step.plan.tasks)), sums.plan.nearness
    if nearness is None:
        return scale
    some = np.flatnonzero(codes[nearness.codes] >= 0)
    X, own, one = nearness.points.X[some], nearness.codes[some], np.ones(len(some))
    old, new = leaving_out(sums.plan, sums.statistics, sums.alpha), codes[own]
    before = old.without_guard(X, own, one)[0]
    after = step.without_guard(X, new, one)[0]
    if np.any(before < 0.0):
        both = (
            np.bincount(new, s, len(scale)) + _PRIOR_ROWS * s.mean()
            for s in (after, before)
        )
        scale = np.divide(*both)
    return scale


def _left_out(
    structure: Resemblance, tails: Tails, codes: Codes, scale: Array
) -> LeftOut:
    """What the last pass found, with other numbers for the tasks, scores times what is given."""
    known = np.flatnonzero(codes >= 0)
    order = known[np.argsort(codes[known])]
    values, mass = structure.values[order], structure.mass[order]
    tails = tails.recoded(codes)
    tails = replace(tails, scores=scale[tails.codes] * tails.scores)
    return LeftOut(tails, codes[order], values, mass)


def _with_fewer(
    plan: Plan, statistics: Statistics, kept: Codes
) -> tuple[Plan, Statistics]:
    """Plan and statistics of some of the landmarks: feature rows in a part of the space."""
    if len(kept) == len(plan.points):
        return plan, statistics
    Q, R = np.linalg.qr(plan.factor[kept].T)
    turn = np.eye(len(Q))[kept] if plan.direct else Q.T
    moments = np.asfortranarray(turn @ symmetric(statistics.moments) @ turn.T)
    points, hashes = Points(plan.points.kernel, plan.points.X[kept]), plan.hashes[kept]
    plan = replace(plan, points=points, factor=np.asfortranarray(R.T), hashes=hashes)
    return plan, replace(statistics, moments=moments, sums=statistics.sums @ turn.T)
