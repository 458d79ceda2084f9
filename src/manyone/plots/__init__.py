"""Pictures of fitted models, in the manner of scikit-learn's Displays. They need matplotlib."""

from manyone.plots.objective import ObjectiveDisplay
from manyone.plots.scores import ScoreDisplay
from manyone.plots.structure import StructureDisplay

__all__ = ["ObjectiveDisplay", "ScoreDisplay", "StructureDisplay"]
