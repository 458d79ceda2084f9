"""Rows beyond one kernel matrix: passes over blocks, on one machine or on many."""

from manyone.engines.blocks import Block
from manyone.engines.fitting import fit, local_sweep

__all__ = ["Block", "fit", "local_sweep"]
