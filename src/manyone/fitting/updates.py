"""Rows that come and go in a model of landmarks: sums that are added to it and taken from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from manyone._types import Array, Codes, Labels
from manyone.calibration.tails import Tails
from manyone.data.blocks import CheckedBlock
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.labels import lookup
from manyone.data.rows import TrainingRows, codes_without
from manyone.data.sweeps import AtHand, Swept
from manyone.fitting.independent import (
    AddUpEach,
    TaskPlans,
    TaskSums,
    independent_of_sums,
)
from manyone.fitting.joint import Sums, joint_solution_of, leaving_out
from manyone.fitting.left_out import LeaveOut, LeftOut
from manyone.fitting.plan import Plan, seed_of
from manyone.fitting.statistics import AddUp, Statistics, symmetric
from manyone.kernels.gram import Gram, Points
from manyone.messages import warn_user
from manyone.metric.shrinkage import Whitening
from manyone.models.guards import LeftOutGuard, Nearness, guard_in
from manyone.models.resemblance import Resemblance
from manyone.models.scorers import behind_metric
from manyone.models.solution import Solution

Changed = tuple[Solution, Tails | None, Labels]
# Share of the landmarks that has to be left, or else a word is said.
_MOST_LOST = 0.75
# Rows that all tasks count for when it is asked how the scores of one have changed.
_PRIOR_ROWS = 8.0


class UpdatedMethod(Protocol):
    """A fitted estimator with landmarks, as far as updates know it."""

    solution_: Solution
    random_state: object

    @property
    def landmarks(self) -> int | None:
        """Rows that stand for all."""

    @staticmethod
    def _exactly(gram: Gram, rows: TrainingRows, alpha: float) -> Solution: ...


def enrolled(model: UpdatedMethod, more: TrainingRows, tasks: Labels) -> Changed:
    """The model with more rows, in the landmarks, the metric and the width that it has.

    Its functions are those of a fit to all rows. New rows get left-out scores under the new
    model; earlier ones keep theirs, in the new model's scale, but for small tasks of a model of
    each task alone.

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
        With its judge and its guard.
    tails : Tails
    tasks : ndarray of shape (T,)
    """
    sums = model.solution_.state
    assert isinstance(sums, Sums | TaskSums)
    codes = lookup(sums.plan.tasks, tasks)
    before = guard_in(model.solution_.scorer, Nearness)
    nearness = before
    if nearness is not None:
        nearness = nearness.recoded(codes)
        if not more.outlier.all():
            nearness = nearness.grown(more.take(~more.outlier))
    if isinstance(sums, TaskSums):
        plans = replace(sums.plan, tasks=tasks)
        return _each(model, sums, plans, codes, more, nearness)
    plan = replace(sums.plan, tasks=tasks)
    statistics = sums.statistics.recoded(codes) + AddUp(plan).of(more)
    scored = sums.tails is not None
    step = leaving_out(plan, statistics, sums.alpha, nearness, left_out=scored)
    scale = _change_of_scale(sums, before, codes, step)
    structure = model.solution_.learned["structure"]
    old = _left_out(structure, sums.tails, codes, scale)
    gathered = step.merge(old, step.finished(step.of(more)))
    changed = joint_solution_of(step, statistics, sums.alpha, gathered, scale)
    changed = behind_metric(replace(changed, judge=step), plan.metric)
    return step.guard.around(changed), gathered.tails, tasks


def forgotten(model: UpdatedMethod, code: int, gone: TrainingRows | None) -> Changed:
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
    assert isinstance(sums, Sums | TaskSums)
    codes = codes_without(code, len(sums.plan.tasks))
    tasks = np.delete(sums.plan.tasks, code)
    label = sums.plan.tasks.tolist()[code]
    before = guard_in(model.solution_.scorer, Nearness)
    _refuse_shaped(isinstance(sums.plan.metric, Whitening), "metric", label)
    if isinstance(sums, TaskSums):
        plans = replace(sums.plan, tasks=tasks)
        none = plans.small_rows.take(slice(0, 0)).recoded(codes, len(tasks))
        nearness = _without_task(before, code, codes, None)
        return _each(model, sums, plans, codes, none, nearness)
    plan = sums.plan
    if gone is None:
        raise ValueError(
            f"A model of landmarks has kept no rows: forget({label!r}, X=its rows), or "
            "others=what `fit` is to be given for all other rows."
        )
    hashes = row_hashes(gone.X)
    shaped = bool(np.isin(hashes, plan.drawn).any())
    _refuse_shaped(shaped, "landmarks", label)
    taken = AddUp(plan).of(gone)
    weight = taken.counts.sum()
    weight_of_task = float(sums.statistics.counts[code])
    if taken.tasks.tolist() != [code] or not np.isclose(weight, weight_of_task):
        raise ValueError(
            f"forget({label!r}, X=...) needs all rows of the task, which weigh {weight_of_task:g}; "
            f"those that were given weigh {weight:g}."
        )
    statistics = (sums.statistics + -taken).recoded(codes)
    left_landmarks = np.flatnonzero(~np.isin(plan.hashes, hashes))
    n_landmarks = len(plan.points)
    _refuse_shaped(not len(left_landmarks), "landmarks", label)
    if len(left_landmarks) < _MOST_LOST * n_landmarks:
        n_lost = n_landmarks - len(left_landmarks)
        lost = (
            f"{n_lost} of {n_landmarks} landmarks were rows of {label!r} and are gone"
        )
        warn_user(
            f"{lost}: forget(..., others=...) puts others in their place.", UserWarning
        )
    structure = model.solution_.learned["structure"]
    structure = replace(structure, values=structure.values[:, left_landmarks])
    plan, statistics = _with_fewer(plan, statistics, left_landmarks)
    plan = replace(plan, tasks=tasks)
    nearness = _without_task(before, code, codes, hashes)
    step = leaving_out(plan, statistics, sums.alpha, nearness)
    scale = _change_of_scale(sums, before, codes, step)
    left_out = _left_out(structure, sums.tails, codes, scale)
    changed = joint_solution_of(step, statistics, sums.alpha, left_out, scale)
    changed = behind_metric(changed, plan.metric)
    return step.guard.around(changed), left_out.tails, tasks


def _each(
    model: UpdatedMethod,
    sums: TaskSums,
    plans: TaskPlans,
    codes: Codes,
    more: TrainingRows,
    nearness: Nearness | None,
) -> Changed:
    """Each task alone: with other numbers for the tasks (T,), without negative ones, and more rows.

    Small tasks, all rows of which are kept, and new ones are fitted anew.
    """
    assert model.landmarks is not None
    stays = [task for task in plans.plans if codes[task] >= 0]
    large = {int(codes[task]): plans.plans[task] for task in stays}
    statistics = {int(codes[task]): sums.statistics[task] for task in stays}
    at_hand = plans.small_rows.recoded(codes, len(plans.tasks)).joined(more)
    rest = at_hand.take(np.flatnonzero(~np.isin(at_hand.codes, list(large))))
    seed = seed_of(model.random_state)
    new = TaskPlans.of(
        plans.kernel, rest, plans.tasks, model.landmarks, seed, plans.metric
    )
    step = AddUpEach(replace(plans, plans=large))
    statistics = step.merge(statistics, step.of(more)) | AddUpEach(new).of(rest)
    plans = replace(plans, small_rows=new.small_rows, plans=large | new.plans)
    tails = None if sums.tails is None else sums.tails.recoded(codes)
    changed = TaskSums(plans, statistics, sums.alpha, tails)
    source = Swept(AtHand(CheckedBlock(at_hand, plans.tasks)), plans.tasks)
    solution, tails = independent_of_sums(changed, source, model._exactly, nearness)
    solution = behind_metric(solution, plans.metric)
    guard = LeftOutGuard.of(nearness, solution.scorer)
    return guard.around(solution), tails, plans.tasks


def _without_task(
    nearness: Nearness | None, code: int, codes: Codes, gone: Hashes | None
) -> Nearness | None:
    """Nearness without the points of a task and rows that are `gone`, other numbers for tasks."""
    if nearness is None:
        return None
    leaves = nearness.codes == code
    if gone is not None:
        leaves |= np.isin(nearness.hashes, gone)
    left = nearness.without(leaves)
    return None if left is None else left.recoded(codes)


def _refuse_shaped(shaped: bool, what: str, label: object) -> None:
    """Sums cannot undo what the rows of a task have shaped."""
    if shaped:
        raise ValueError(
            f"Rows of {label!r} may have shaped the {what} of this model: give the rows that stay, "
            f"forget({label!r}, others=what `fit` is to be given for them)."
        )


def _change_of_scale(
    sums: Sums, nearness: Nearness | None, codes: Codes, step: LeaveOut
) -> Array:
    """Factor of earlier left-out scores under a new model, task by task.

    A row scores lower beside tasks that resemble its own. The points of the nearness are some
    of the rows: the factor is the ratio of their mean scores in each task, shrunk to that in all.

    Parameters
    ----------
    sums : Sums
        Of the model that was.
    nearness : Nearness or None
        The same.
    codes : ndarray of shape (T,)
        Numbers of its tasks in the new one.
    step : LeaveOut
        Of the new model.

    Returns
    -------
    ndarray of shape (T',)
    """
    scale = np.ones(len(step.plan.tasks))
    if nearness is None:
        return scale
    stays = np.flatnonzero(codes[nearness.codes] >= 0)
    X = nearness.points.X[stays]
    old_codes = nearness.codes[stays]
    ones = np.ones(len(stays))
    old = leaving_out(sums.plan, sums.statistics, sums.alpha, None)
    new = codes[old_codes]
    before = old.without_guard(X, old_codes, ones)[0]
    after = step.without_guard(X, new, ones)[0]
    if np.any(before < 0.0):
        both = (
            np.bincount(new, s, len(scale)) + _PRIOR_ROWS * s.mean()
            for s in (after, before)
        )
        scale = np.divide(*both)
    return scale


def _left_out(
    structure: Resemblance, tails: Tails | None, codes: Codes, scale: Array
) -> LeftOut:
    """What the last pass found, with other numbers for the tasks, scores times what is given."""
    staying = np.flatnonzero(codes >= 0)
    order = staying[np.argsort(codes[staying])]
    values = structure.values[order]
    mass = structure.mass[order]
    if tails is not None:
        tails = tails.recoded(codes)
        tails = replace(tails, scores=scale[tails.codes] * tails.scores)
    return LeftOut(tails, codes[order], values, mass)


def _with_fewer(
    plan: Plan, statistics: Statistics, kept: Codes
) -> tuple[Plan, Statistics]:
    """Plan and statistics of some of the landmarks: feature rows in a part of the space."""
    if len(kept) == len(plan.points):
        return plan, statistics
    assert plan.factor is not None
    Q, R = np.linalg.qr(plan.factor[kept].T)
    turn = np.eye(len(Q))[kept] if plan.raw_moments else Q.T
    moments = np.asfortranarray(turn @ symmetric(statistics.moments) @ turn.T)
    points = Points(plan.points.kernel, plan.points.X[kept])
    hashes = plan.hashes[kept]
    plan = replace(plan, points=points, factor=np.asfortranarray(R.T), hashes=hashes)
    return plan, replace(statistics, moments=moments, sums=statistics.sums @ turn.T)
