"""Tables nobody prepared: an encoder, a model of data frames, and reasons."""

from manyone.tables.model import TableModel

__all__ = ["TableModel"]
