"""Rows in the order of time: drift, answers, thresholds that hold their rate."""

from manyone.monitor.monitor import Monitor, Watched
from manyone.monitor.state import MonitorState

__all__ = ["Monitor", "MonitorState", "Watched"]
