"""Fitted models as values: a solution, and the scorers it is composed of."""

from manyone.kernels.gram import Expansion
from manyone.models.solution import FitReport, Solution

__all__ = ["Expansion", "FitReport", "Solution"]
