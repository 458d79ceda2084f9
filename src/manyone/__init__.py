"""Alarms for fleets: one-class classification of many tasks with few normal rows each.

Names are imported when they are first asked for: methods do not wait for tables and
pages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyone.data.groups import TimeBlocks as TimeBlocks
    from manyone.estimators.combined import CombinedOneClass as CombinedOneClass
    from manyone.estimators.independent import IndependentOCKSR as IndependentOCKSR
    from manyone.estimators.joint import JointOCKSR as JointOCKSR
    from manyone.estimators.knfst import KNFST as KNFST
    from manyone.estimators.linear import LinearOCKSR as LinearOCKSR
    from manyone.estimators.morvr import MORVR as MORVR
    from manyone.estimators.nonlinear import NonlinearOCKSR as NonlinearOCKSR
    from manyone.estimators.output_kernel import OutputKernelOCKSR as OutputKernelOCKSR
    from manyone.estimators.sparse import SparseOCKSR as SparseOCKSR
    from manyone.estimators.svdd import SVDD as SVDD
    from manyone.estimators.task_svm import MultiTaskOneClassSVM as MultiTaskOneClassSVM
    from manyone.files.errors import ModelFileError as ModelFileError
    from manyone.history.transformer import TaskHistory as TaskHistory
    from manyone.messages import CalibrationWarning as CalibrationWarning
    from manyone.metric.whitener import TaskWhitener as TaskWhitener
    from manyone.metrics import TaskAUC as TaskAUC
    from manyone.model_files import load as load
    from manyone.model_files import save as save
    from manyone.pipelines import TaskPipeline as TaskPipeline
    from manyone.plots import DriftDisplay as DriftDisplay
    from manyone.plots import ScoreDisplay as ScoreDisplay
    from manyone.plots import StructureDisplay as StructureDisplay
    from manyone.selection.auto import AutoOneClass as AutoOneClass
    from manyone.selection.auto import auto as auto
    from manyone.selection.pipelines import make_pipeline as make_pipeline
    from manyone.selection.tune import tune as tune
    from manyone.tables import TableModel as TableModel
    from manyone.watch import Monitor as Monitor

__version__ = "0.3.0"

_HOMES = {
    "KNFST": "estimators.knfst",
    "MORVR": "estimators.morvr",
    "SVDD": "estimators.svdd",
    "AutoOneClass": "selection",
    "CalibrationWarning": "messages",
    "CombinedOneClass": "estimators.combined",
    "DriftDisplay": "plots",
    "IndependentOCKSR": "estimators.independent",
    "JointOCKSR": "estimators.joint",
    "LinearOCKSR": "estimators.linear",
    "ModelFileError": "files.errors",
    "Monitor": "watch",
    "MultiTaskOneClassSVM": "estimators.task_svm",
    "NonlinearOCKSR": "estimators.nonlinear",
    "OutputKernelOCKSR": "estimators.output_kernel",
    "ScoreDisplay": "plots",
    "SparseOCKSR": "estimators.sparse",
    "StructureDisplay": "plots",
    "TableModel": "tables",
    "TaskAUC": "metrics",
    "TaskHistory": "history.transformer",
    "TaskPipeline": "pipelines",
    "TaskWhitener": "metric.whitener",
    "TimeBlocks": "data.groups",
    "auto": "selection",
    "load": "model_files",
    "make_pipeline": "selection",
    "save": "model_files",
    "tune": "selection",
}

_PACKAGES = ("datasets", "engines", "kernels", "plots", "solvers")

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_PACKAGES})
