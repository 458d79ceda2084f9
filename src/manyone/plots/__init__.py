"""Pictures of fitted models, in the manner of scikit-learn's Displays. They need matplotlib."""

from manyone.plots.drift import DriftDisplay
from manyone.plots.scores import ScoreDisplay
from manyone.plots.structure import StructureDisplay

__all__ = [
    "DriftDisplay",
    "ScoreDisplay",
    "StructureDisplay",
]
