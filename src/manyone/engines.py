"""Rows beyond one kernel matrix: passes over blocks, on one machine or on many."""

from manyone.data.blocks import Block
from manyone.data.sample import Sample, TakeSample
from manyone.fitting.left_out import LeaveOut, LeftOut
from manyone.fitting.passes import Step, fit, local_sweep
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import AddUp, Statistics

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
