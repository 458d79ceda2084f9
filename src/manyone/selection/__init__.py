"""Choosing methods and settings on training rows."""

from manyone.selection.auto import auto
from manyone.selection.tune import tune

__all__ = ["auto", "tune"]
