"""Thresholds that hold what they promise: left-out scores, p-values, false-discovery control."""

from manyone.calibration.thresholds import Calibration
from manyone.messages import CalibrationWarning

__all__ = ["Calibration", "CalibrationWarning"]
