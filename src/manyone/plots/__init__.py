"""Pictures of fitted models, like scikit-learn's Displays; matplotlib draws them."""

from manyone.plots.drift import DriftDisplay
from manyone.plots.scores import ScoreDisplay
from manyone.plots.structure import StructureDisplay

__all__ = [
    "DriftDisplay",
    "ScoreDisplay",
    "StructureDisplay",
]
