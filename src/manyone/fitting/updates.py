"""Rows that come and go in a model of landmarks: sums that are added to it and taken from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from manyone._types import Array, Codes, Labels
from manyone.calibration.tails import Tails
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.labels import lookup
from manyone.data.rows import TrainingRows, codes_without
from manyone.fitting.independent import (
    AddUpEach,
    TaskPlans,
    independent_of_sums,
)
from manyone.fitting.joint import Sums, joint_solution_of, leaving_out
from manyone.fitting.left_out import LeaveOut, LeftOut
from manyone.fitting.plan import Plan, seed_of
from manyone.fitting.statistics import AddUp, Statistics, symmetric
from manyone.kernels.gram import Points
from manyone.messages import warn_user
from manyone.models.resemblance import Resemblance
from manyone.models.scorers import behind_metric
from manyone.models.solution import Solution

Changed = tuple[Solution, Tails, Labels]
# Share of the landmarks that has to be left, or else a word is said.
_MOST_LOST = 0.75
# Rows that all tasks count for when it is asked how the scores of one have changed.
_PRIOR_ROWS = 8.0


def enrolled(model: Any, more: TrainingRows, tasks: Labels) -> Changed:
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
        With its judge.
    tails : Tails
    tasks : ndarray of shape (T,)
    """
    sums = model.solution_.state
    codes = lookup(sums.plan.tasks, tasks)
    normal = np.flatnonzero(~more.outlier)
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
    changed = replace(changed, judge=step)
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
    sums = model.solution_.state
    plan = sums.plan
    codes = codes_without(code, len(sums.plan.tasks))
    label = plan.tasks.tolist()[code]
    _refuse_shaped(plan.metric is not None and plan.metric.shared, "metric", label)
    if isinstance(plan, TaskPlans):
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
    weight = taken.counts.sum()
    known = float(sums.statistics.counts[code])
    if taken.tasks.tolist() != [code] or not np.isclose(weight, known):
        raise ValueError(
            f"forget({label!r}, X=...) needs all rows of the task, which weigh {known:g}; "
            f"those that were given weigh {weight:g}."
        )
    statistics = (sums.statistics + -taken).recoded(codes)
    kept = np.flatnonzero(~np.isin(plan.hashes, hashes))
    before = len(plan.points)
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
    sums = model.solution_.state
    m = model.landmarks
    seed = seed_of(model.random_state)
    large: dict[int, Any]
    statistics: dict[int, Any]
    large, statistics = (
        {int(codes[task]): value for task, value in values.items() if codes[task] >= 0}
        for values in (plans.plans, sums.statistics)
    )
    tails = sums.tails.recoded(codes)
    metric = plans.metric
    at_hand = plans.few.recoded(codes, len(plans.tasks)).joined(more)
    rest = at_hand.take(np.flatnonzero(~np.isin(at_hand.codes, list(large))))
    new = TaskPlans.of(plans.kernel, rest, plans.tasks, m, seed, metric)
    step = AddUpEach(replace(plans, plans=large))
    statistics = step.merge(statistics, step.of(more)) | AddUpEach(new).of(rest)
    plans = replace(plans, few=new.few, plans=large | new.plans)
    sums = Sums(plans, statistics, sums.alpha, tails)
    solution, tails = independent_of_sums(
        sums, lambda step: step.of(at_hand), model._exactly
    )
    return behind_metric(solution, metric), tails, plans.tasks


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
    scale = np.ones(len(step.plan.tasks))
    nearness = sums.plan.nearness
    if nearness is None:
        return scale
    some = np.flatnonzero(codes[nearness.codes] >= 0)
    X = nearness.points.X[some]
    own = nearness.codes[some]
    one = np.ones(len(some))
    old = leaving_out(sums.plan, sums.statistics, sums.alpha)
    new = codes[own]
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
    values = structure.values[order]
    mass = structure.mass[order]
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
    points = Points(plan.points.kernel, plan.points.X[kept])
    hashes = plan.hashes[kept]
    plan = replace(plan, points=points, factor=np.asfortranarray(R.T), hashes=hashes)
    return plan, replace(statistics, moments=moments, sums=statistics.sums @ turn.T)
