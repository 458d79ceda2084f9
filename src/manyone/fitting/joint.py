"""The joint ridge regression by passes: statistics, solution, left-out scores."""

from __future__ import annotations

from manyone.calibration.tails import Tails
from manyone.data.sweeps import Source
from manyone.fitting.left_out import LeaveOut
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import (
    AddUp,
    Statistics,
    mean_values,
    solve_statistics,
)
from manyone.kernels.gram import Expansion
from manyone.models.guards import LeftOutGuard, Nearness
from manyone.models.resemblance import Resemblance
from manyone.models.solution import Solution


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
        Whether left-out scores are wanted, which take a last pass.

    Returns
    -------
    solution : Solution
        Without left-out scores, which would be as many as rows.
    tails : Tails or None
        What thresholds and p-values need of them.
    """
    if statistics is None:
        statistics = source.reduce(AddUp(plan))
    ridge = solve_statistics(plan, statistics, alpha)
    scorer = Expansion(plan.points, ridge.coef, ridge.mean_response)
    step = LeaveOut(plan, ridge, LeftOutGuard.of(nearness, scorer))
    structure = Resemblance(ridge.coef, mean_values(plan, statistics))
    solution = Solution(
        scorer,
        learned={
            "alpha": ridge.alpha,
            "dual_coef": ridge.coef,
            "mean_response": ridge.mean_response,
            "structure": structure,
        },
        judge=step,
    )
    return solution, source.reduce(step) if left_out else None
