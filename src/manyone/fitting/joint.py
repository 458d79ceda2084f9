"""The joint ridge regression by passes: statistics, solution, left-out scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

from manyone._types import Array
from manyone.calibration.tails import Tails
from manyone.data.sweeps import Source
from manyone.fitting.left_out import LeaveOut, LeftOut
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import AddUp, Statistics, solve_statistics
from manyone.kernels.gram import Expansion
from manyone.models.guards import LeftOutGuard, Nearness
from manyone.models.resemblance import Resemblance
from manyone.models.solution import Solution


@dataclass(frozen=True, eq=False)
class Sums:
    """What rows are added to, and taken from, without a new fit.

    Attributes
    ----------
    plan : Plan
    statistics : Statistics
    alpha : float
        The ridge that was asked for.
    tails : Tails
        Left-out scores.
    scale : float or ndarray of shape (T,)
        Factor of earlier left-out scores at the last update.
    """

    plan: Plan
    statistics: Statistics
    alpha: float
    tails: Tails
    scale: Array | float = 1.0


def joint_passes(
    plan: Plan, source: Source, alpha: float, nearness: Nearness | None
) -> tuple[Solution, Tails]:
    """Minimise ``sum_i w_i |f(x_i) - r_i|^2 + alpha |f|^2`` over functions of the landmarks.

    Parameters
    ----------
    plan : Plan
    source : Source
    alpha : float
    nearness : Nearness or None
        What left-out scores are lowered by.

    Returns
    -------
    solution : Solution
        Without left-out scores, which would be as many as rows.
    tails : Tails
        What thresholds and p-values need of them.
    """
    statistics = source.reduce(AddUp(plan))
    step = leaving_out(plan, statistics, alpha, nearness)
    left_out = step.finished(source.reduce(step))
    solution, tails = joint_solution_of(step, statistics, alpha, left_out)
    return replace(solution, judge=step), tails


def leaving_out(
    plan: Plan, statistics: Statistics, alpha: float, nearness: Nearness | None
) -> LeaveOut:
    """The last pass, for the solution that statistics have."""
    ridge = solve_statistics(plan, statistics, alpha)
    scorer = Expansion(plan.points, ridge.coef, ridge.mean_response)
    return LeaveOut(plan, ridge, LeftOutGuard.of(nearness, scorer))


def joint_solution_of(
    step: LeaveOut,
    statistics: Statistics,
    alpha: float,
    found: LeftOut,
    scale: Array | float = 1.0,
) -> tuple[Solution, Tails]:
    """The model, and the tails of its left-out scores, from what the last pass found."""
    sums = Sums(step.plan, statistics, alpha, found.tails, scale)
    return replace(_solution(step, found), state=sums), found.tails


def _solution(step: LeaveOut, found: LeftOut) -> Solution:
    """The model without left-out scores."""
    plan = step.plan
    ridge = step.ridge
    learned = {
        "alpha": ridge.alpha,
        "dual_coef": ridge.coef,
        "mean_response": ridge.mean_response,
        "structure": Resemblance(ridge.coef, found.values, found.mass, ridge.counts),
    }
    scorer = Expansion(plan.points, ridge.coef, ridge.mean_response)
    return Solution(scorer, learned=learned)
