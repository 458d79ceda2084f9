"""Choosing settings on training rows alone."""

from manyone.selection.tune import tune

__all__ = ["tune"]
