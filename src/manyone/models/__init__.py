"""Fitted models as values: a solution, and the scorers it is composed of."""

from manyone.kernels.gram import Expansion
from manyone.models.combined import CombinedScorer, Tail
from manyone.models.presence import Presence
from manyone.models.range_guard import RangeGuard
from manyone.models.scorers import (
    Balls,
    InMetric,
    Projection,
    Scorer,
    TwoLayers,
)
from manyone.models.solution import FitReport, Solution
from manyone.models.task_expansions import TaskExpansions

#: Every scorer that a saved model may hold.
SCORERS = (Balls, CombinedScorer, Expansion, InMetric, Projection, TaskExpansions, TwoLayers)

__all__ = [
    "SCORERS",
    "Balls",
    "CombinedScorer",
    "Expansion",
    "FitReport",
    "InMetric",
    "Presence",
    "Projection",
    "RangeGuard",
    "Scorer",
    "Solution",
    "Tail",
    "TaskExpansions",
    "TwoLayers",
]
