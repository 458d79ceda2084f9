"""One-class classification for many related tasks with few normal samples each."""

from manyone.calibration import CalibrationWarning
from manyone.estimators import (
    KNFST,
    MORVR,
    SVDD,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    LinearOCKSR,
    MultiTaskOneClassSVM,
    NonlinearOCKSR,
    OutputKernelOCKSR,
    SparseOCKSR,
)
from manyone.groups import TimeBlocks
from manyone.metrics import TaskAUC
from manyone.monitor import Monitor
from manyone.persistence import load, save
from manyone.pipelines import TaskPipeline, make_pipeline
from manyone.plots import (
    DriftDisplay,
    ObjectiveDisplay,
    RateDisplay,
    ScoreDisplay,
    StructureDisplay,
)
from manyone.selection import auto, tune
from manyone.tables import TableModel
from manyone.whitening import TaskWhitener

__version__ = "0.3.0"

__all__ = [
    "KNFST",
    "MORVR",
    "SVDD",
    "CalibrationWarning",
    "CombinedOneClass",
    "DriftDisplay",
    "IndependentOCKSR",
    "JointOCKSR",
    "LinearOCKSR",
    "Monitor",
    "MultiTaskOneClassSVM",
    "NonlinearOCKSR",
    "ObjectiveDisplay",
    "OutputKernelOCKSR",
    "RateDisplay",
    "ScoreDisplay",
    "SparseOCKSR",
    "StructureDisplay",
    "TableModel",
    "TaskAUC",
    "TaskPipeline",
    "TaskWhitener",
    "TimeBlocks",
    "auto",
    "load",
    "make_pipeline",
    "save",
    "tune",
]
