"""Thresholds: left-out scores, p-values, control of false discoveries."""

from manyone.calibration.thresholds import Calibration
from manyone.messages import CalibrationWarning

__all__ = ["Calibration", "CalibrationWarning"]
