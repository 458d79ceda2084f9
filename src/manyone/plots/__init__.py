"""Pictures of fitted models, in the manner of scikit-learn's Displays. They need matplotlib."""

from manyone.plots.objective import ObjectiveDisplay
from manyone.plots.scores import ScoreDisplay
from manyone.plots.structure import StructureDisplay
from manyone.plots.time import DriftDisplay, RateDisplay

__all__ = [
    "DriftDisplay",
    "ObjectiveDisplay",
    "RateDisplay",
    "ScoreDisplay",
    "StructureDisplay",
]
