"""What people use today, with the few methods that the experiments need.

PyOD and scikit-lego are optional: their rivals import them when they are fitted.
"""

from manyone.experiments.rivals.base import Detector, OwnScales, Rival
from manyone.experiments.rivals.distances import (
    LargestDeviation,
    PerTaskMahalanobis,
    PerTaskNearestNeighbour,
    PooledMahalanobis,
    ShrunkMahalanobis,
)
from manyone.experiments.rivals.pyod_detectors import PerTaskCOPOD, PerTaskECOD, PerTaskKPCA
from manyone.experiments.rivals.scikit_learn import (
    GroupedOneClassSVM,
    LinearDiscriminants,
    OneVsRestSVC,
    PerTaskIsolationForest,
    PerTaskLocalOutlierFactor,
    PerTaskOneClassSVM,
    PooledIsolationForest,
)

__all__ = [
    "Detector",
    "GroupedOneClassSVM",
    "LargestDeviation",
    "LinearDiscriminants",
    "OneVsRestSVC",
    "OwnScales",
    "PerTaskCOPOD",
    "PerTaskECOD",
    "PerTaskIsolationForest",
    "PerTaskKPCA",
    "PerTaskLocalOutlierFactor",
    "PerTaskMahalanobis",
    "PerTaskNearestNeighbour",
    "PerTaskOneClassSVM",
    "PooledIsolationForest",
    "PooledMahalanobis",
    "Rival",
    "ShrunkMahalanobis",
]
