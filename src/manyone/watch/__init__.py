"""Rows in the order of time: drift, answers, thresholds that follow the rows."""

from manyone.watch.monitor import Monitor, Watched
from manyone.watch.state import MonitorState

__all__ = ["Monitor", "MonitorState", "Watched"]
