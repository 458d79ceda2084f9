"""The joint ridge regression by passes: statistics, solution, left-out scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyone._types import Array
from manyone.calibration.tails import Tails
from manyone.engines.left_out import LeaveOut, LeftOut
from manyone.engines.plan import Plan
from manyone.engines.statistics import AddUp, Ridge, solve_statistics
from manyone.kernels.gram import Expansion
from manyone.models.solution import Solution


@dataclass(frozen=True, eq=False)
class Resemblance:
    """Mean left-out response of every task's function to the rows of every task, not multiplied.

    Attributes
    ----------
    coef : ndarray of shape (m, T)
        Coefficients of the functions.
    values : ndarray of shape (T, m)
        Mean of ``k_i / (1 - leverage)`` over the rows of each task.
    loss : ndarray of shape (T,)
        One minus the mean of ``1 / (1 - leverage)``.
    """

    coef: Array
    values: Array
    loss: Array

    def matrix(self) -> Array:
        """Entry (s, t): mean left-out response of task t's function to rows of task s."""
        return self.values @ self.coef + np.diag(self.loss)


def joint_passes(plan: Plan, sweep: Any, alpha: float) -> tuple[Solution, Tails]:
    """Minimise ``sum_i w_i |f(x_i) - r_i|^2 + alpha |f|^2`` over functions of the landmarks.

    Parameters
    ----------
    plan : Plan
    sweep : callable
        Runs a pass, see :func:`manyone.engines.fit`.
    alpha : float

    Returns
    -------
    solution : Solution
        Without left-out scores, which would be as many as rows.
    tails : Tails
        What thresholds and p-values need of them.
    """
    statistics = sweep(AddUp(plan))
    ridge = solve_statistics(plan, statistics, alpha)
    scorer = Expansion(plan.points, ridge.coef, ridge.mean_response)
    far, presence = scorer.far(), None
    if far is not None and plan.reach is not None:
        presence = plan.reach.presence(2.0 * float(np.abs(far).max()))
    unit = 0.0 if presence is None else float(presence.unit[0])
    found = sweep(LeaveOut(plan, ridge, unit))
    learned = {
        **learned_of(ridge),
        "structure": resemblance(ridge, found),
        "plan": plan,
        "statistics": statistics,
    }
    return Solution(scorer, learned=learned, presence=presence), found.tails


def learned_of(ridge: Ridge) -> dict[str, Any]:
    """What a user may look at."""
    names = {"alpha": ridge.alpha, "dual_coef": ridge.coef, "mean_response": ridge.mean_response}
    return names


def resemblance(ridge: Ridge, found: LeftOut) -> Resemblance:
    """Who looks like whom, from what the last pass gathered of all tasks."""
    counts = ridge.counts
    values = found.values @ np.tril(ridge.factor).T / counts[:, None]
    return Resemblance(ridge.coef, values, 1.0 - found.mass / counts)
