"""The joint ridge regression by passes: statistics, solution, left-out scores."""

from __future__ import annotations

import numpy as np

from manyone.calibration.tails import Tails
from manyone.fitting.left_out import LeaveOut
from manyone.fitting.plan import Passes
from manyone.fitting.statistics import AddUp, Statistics, solve_statistics
from manyone.kernels.gram import Expansion
from manyone.models.nearness import LeftOutGuard
from manyone.models.resemblance import Resemblance
from manyone.models.solution import Solution


def joint_passes(
    passes: Passes, alpha: float, statistics: Statistics | None = None
) -> tuple[Solution, Tails | None]:
    """Minimise ``sum_i w_i |f(x_i) - r_i|^2 + alpha |f|^2`` over landmarks.

    Parameters
    ----------
    passes : Passes
    alpha : float
    statistics : Statistics or None
        Of the rows, where they are known.

    Returns
    -------
    solution : Solution
        Without left-out scores, which would be as many as rows.
    tails : Tails or None
        What thresholds and p-values need of them.
    """
    plan = passes.plan
    if statistics is None:
        statistics = passes.source.reduce(AddUp(plan))
    ridge = solve_statistics(plan, statistics, alpha)
    scorer = Expansion(plan.points, ridge.coef, ridge.mean_response)
    step = LeaveOut(plan, ridge, LeftOutGuard.of(passes.nearness, scorer))
    structure = Resemblance(ridge.coef, np.tril(ridge.factor), ridge.counts)
    is_small = len(plan.tasks) <= len(plan.points)
    solution = Solution(
        scorer,
        learned={
            "alpha": ridge.alpha,
            "dual_coef": ridge.coef,
            "mean_response": ridge.mean_response,
            "structure": structure.matrix() if is_small else structure,
        },
        judge=step,
    )
    return solution, passes.source.reduce(step) if passes.left_out else None
