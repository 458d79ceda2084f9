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
    tails : Tails or None
        Left-out scores, where the fit has them.
    scale : float or ndarray of shape (T,)
        Factor of earlier left-out scores at the last update.
    """

    plan: Plan
    statistics: Statistics
    alpha: float
    tails: Tails | None
    scale: Array | float = 1.0


def joint_passes(
    plan: Plan,
    source: Source,
    alpha: float,
    nearness: Nearness | None,
    *,
    statistics: Statistics | None = None,
    left_out: bool = True,
) -> tuple[Solution, Tails | None]:
    """Minimise ``sum_i w_i |f(x_i) - r_i|^2 + alpha |f|^2`` over functions of the landmarks.

    Parameters
    ----------
    plan : Plan
    source : Source
    alpha : float
    nearness : Nearness or None
        What left-out scores are lowered by.
    statistics : Statistics or None
        Of the rows, where they are known.
    left_out : bool
        Whether left-out scores are wanted; the structure takes a last pass anyway.

    Returns
    -------
    solution : Solution
        Without left-out scores, which would be as many as rows.
    tails : Tails or None
        What thresholds and p-values need of them.
    """
    if statistics is None:
        statistics = source.reduce(AddUp(plan))
    step = leaving_out(plan, statistics, alpha, nearness, left_out=left_out)
    gathered = step.finished(source.reduce(step))
    solution = joint_solution_of(step, statistics, alpha, gathered)
    return replace(solution, judge=step), gathered.tails


def leaving_out(
    plan: Plan,
    statistics: Statistics,
    alpha: float,
    nearness: Nearness | None,
    *,
    left_out: bool = True,
) -> LeaveOut:
    """The last pass, for the solution that statistics have."""
    ridge = solve_statistics(plan, statistics, alpha)
    scorer = Expansion(plan.points, ridge.coef, ridge.mean_response)
    return LeaveOut(plan, ridge, LeftOutGuard.of(nearness, scorer), left_out)


def joint_solution_of(
    step: LeaveOut,
    statistics: Statistics,
    alpha: float,
    gathered: LeftOut,
    scale: Array | float = 1.0,
) -> Solution:
    """The model, without left-out scores, from what the last pass has gathered."""
    ridge = step.ridge
    structure = Resemblance(ridge.coef, gathered.values, gathered.mass, ridge.counts)
    return Solution(
        Expansion(step.plan.points, ridge.coef, ridge.mean_response),
        learned={
            "alpha": ridge.alpha,
            "dual_coef": ridge.coef,
            "mean_response": ridge.mean_response,
            "structure": structure,
        },
        state=Sums(step.plan, statistics, alpha, gathered.tails, scale),
    )
