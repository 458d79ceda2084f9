"""What people use today, behind the few methods that the experiments need.

PyOD and scikit-lego are optional: their rivals import them when they are fitted.
"""

from manyone.experiments.rivals.base import Detector, OwnScales, Rival
from manyone.experiments.rivals.distances import (
    LargestDeviation,
    LinearDiscriminants,
    PerTaskLocalOutlierFactor,
    PerTaskMahalanobis,
    PerTaskNearestNeighbour,
    PooledMahalanobis,
    ShrunkMahalanobis,
)
from manyone.experiments.rivals.forests import PerTaskIsolationForest, PooledIsolationForest
from manyone.experiments.rivals.pyod_detectors import PerTaskCOPOD, PerTaskECOD, PerTaskKPCA
from manyone.experiments.rivals.svm import GroupedOneClassSVM, OneVsRestSVC, PerTaskOneClassSVM

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
