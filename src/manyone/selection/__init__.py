"""Choosing methods and settings on training rows."""

from manyone.selection.auto import AutoOneClass, auto
from manyone.selection.pipelines import make_pipeline
from manyone.selection.tune import tune

__all__ = ["AutoOneClass", "auto", "make_pipeline", "tune"]
