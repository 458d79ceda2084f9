"""Rows that come and go in a model of landmarks: sums that are added to it and taken from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from manyone._types import Codes
from manyone.calibration.tails import Tails
from manyone.engines.blocks import Block
from manyone.engines.hashing import row_hashes
from manyone.engines.joint import joint_solution_of, leaving_out
from manyone.engines.left_out import LeftOut
from manyone.engines.metric import behind_metric
from manyone.engines.plan import Plan
from manyone.engines.statistics import AddUp, Statistics, symmetric
from manyone.kernels.gram import Points
from manyone.labels import as_labels, encode, lookup
from manyone.models.resemblance import Resemblance
from manyone.models.solution import Solution
from manyone.rows import MISSING
from manyone.solvers.ridge import factorise


def enrolled(solution: Solution, rows: Block) -> tuple[Solution, Tails, NDArray[Any]]:
    """The model with more rows, in the landmarks and the width that it has.

    Its functions are those of a fit to all rows. New rows get left-out scores under the new model;
    those that were there keep the ones they had.

    Parameters
    ----------
    solution : Solution
        Of a fit by passes.
    rows : Block
        Of known or new tasks.

    Returns
    -------
    solution : Solution
    tails : Tails
    tasks : ndarray of shape (T,)
    """
    block, sums = rows.checked(), solution.learned["sums"]
    new = encode(block.task[~block.outlier])[0]
    tasks = encode(as_labels([*sums.plan.tasks.tolist(), *new.tolist()]))[0]
    codes = lookup(sums.plan.tasks, tasks)
    reach = sums.plan.reach and sums.plan.reach.recoded(codes, len(tasks))
    if reach is not None and len(tasks) > len(codes):
        more = block.take(~block.outlier).coded(tasks)
        unknown = np.setdiff1d(np.arange(len(tasks)), codes)
        reach = reach.grown(unknown, more.X, more.codes, more.weight)
    plan = replace(sums.plan, tasks=tasks, reach=reach)
    statistics = sums.statistics.recoded(codes) + AddUp(plan).partial(block)
    step = leaving_out(plan, statistics, sums.alpha)
    old = _left_out(solution.learned["structure"], sums.tails, codes)
    found = step.merge(old, step.finished(step.partial(block)))
    changed, tails = joint_solution_of(step, statistics, sums.alpha, found)
    return behind_metric(changed, plan.metric), tails, tasks


def forgotten(solution: Solution, code: int, rows: Block) -> tuple[Solution, Tails, NDArray[Any]]:
    """The model without a task: its rows taken away, and the landmarks that were among them.

    Its functions are those of a fit to the other rows with the landmarks that are left.

    Parameters
    ----------
    solution : Solution
        Of a fit by passes.
    code : int
        The task.
    rows : Block
        All rows of the task, and no other.

    Returns
    -------
    solution : Solution
    tails : Tails
    tasks : ndarray of shape (T,)
    """
    block, sums = rows.checked(), solution.learned["sums"]
    plan, label = sums.plan, sums.plan.tasks[code]
    gone = AddUp(plan).partial(block)
    weight, known = gone.counts.sum(), float(sums.statistics.counts[code])
    if gone.tasks.tolist() != [code] or not np.isclose(weight, known):
        raise ValueError(
            f"forget({label!r}, X=...) needs all rows of the task, which weigh {known:g}; "
            f"those that were given weigh {weight:g}."
        )
    left = np.arange(len(plan.tasks))
    codes = np.where(left == code, MISSING, left - (left > code))
    statistics = (sums.statistics + -gone).recoded(codes)
    private = np.isin(plan.hashes, row_hashes(block.X))
    if private.all():
        raise ValueError(f"All landmarks are rows of {label!r}: fit again without its rows.")
    kept = np.flatnonzero(~private)
    structure = solution.learned["structure"]
    structure = replace(structure, values=structure.values[:, kept])
    plan, statistics = _with_fewer(plan, statistics, kept)
    reach = plan.reach and plan.reach.recoded(codes, len(codes) - 1, block.X)
    drawn = plan.drawn[~np.isin(plan.drawn, row_hashes(block.X))]
    plan = replace(plan, tasks=np.delete(plan.tasks, code), reach=reach, drawn=drawn)
    step = leaving_out(plan, statistics, sums.alpha)
    found = _left_out(structure, sums.tails, codes)
    changed, tails = joint_solution_of(step, statistics, sums.alpha, found)
    return behind_metric(changed, plan.metric), tails, plan.tasks


def _left_out(structure: Resemblance, tails: Tails, codes: Codes) -> LeftOut:
    """What the last pass found, with other numbers for the tasks."""
    known = np.flatnonzero(codes >= 0)
    order = known[np.argsort(codes[known])]
    return LeftOut(
        tails.recoded(codes), codes[order], structure.values[order], structure.mass[order]
    )


def _with_fewer(plan: Plan, statistics: Statistics, kept: Codes) -> tuple[Plan, Statistics]:
    """Plan and statistics of some of the landmarks: kernel values are linear in feature rows."""
    if len(kept) == len(plan.points):
        return plan, statistics
    L, G, sums = plan.factor, symmetric(statistics.moments), statistics.sums
    if not plan.direct:
        G, sums = L @ G @ L.T, sums @ L.T
    G, sums = np.asfortranarray(G[np.ix_(kept, kept)]), np.asfortranarray(sums[:, kept].T)
    factor = np.tril(factorise((L @ L.T)[np.ix_(kept, kept)], 0.0, np.ones(len(kept))))
    if not plan.direct:
        half = blas.dtrsm(1.0, factor, G, lower=1)
        G = blas.dtrsm(1.0, factor, np.asfortranarray(half.T), lower=1)
        sums = blas.dtrsm(1.0, factor, sums, lower=1)
    points = Points(plan.points.kernel, plan.points.X[kept])
    factor = np.asfortranarray(factor)
    plan = replace(plan, points=points, factor=factor, hashes=plan.hashes[kept])
    return plan, replace(statistics, moments=np.asfortranarray(G), sums=sums.T)
