"""One-class classification for many related tasks with few normal samples each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from manyone.selection import auto, tune
from manyone.whitening import TaskWhitener

if TYPE_CHECKING:
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
    from manyone.tables import TableModel

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

# What is not needed to fit an array is imported when it is first asked for.
_LATER = {
    **dict.fromkeys(("load", "save"), "persistence"),
    **dict.fromkeys(("TaskPipeline", "make_pipeline"), "pipelines"),
    **dict.fromkeys((name for name in __all__ if name.endswith("Display")), "plots"),
    "Monitor": "monitor",
    "TableModel": "tables",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'manyone' has no attribute {name!r}")
    return getattr(import_module(f"manyone.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
