"""Rows beyond one kernel matrix: passes over blocks, on one machine or on many."""

from manyone.engines.blocks import Block
from manyone.engines.fitting import Step, fit, local_sweep
from manyone.engines.left_out import LeaveOut, LeftOut
from manyone.engines.plan import Plan
from manyone.engines.sample import Sample, TakeSample
from manyone.engines.statistics import AddUp, Statistics

__all__ = [
    "AddUp",
    "Block",
    "LeaveOut",
    "LeftOut",
    "Plan",
    "Sample",
    "Statistics",
    "Step",
    "TakeSample",
    "fit",
    "local_sweep",
]
