"""Text for users: warnings that point at their line, numbers of things, short lists."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import FrameType


class CalibrationWarning(UserWarning):
    """The promised alarm rate cannot be kept task by task with the rows at hand."""


def warn_user(message: str, category: type[Warning] = CalibrationWarning) -> None:
    """Warn about a call, pointing at the user's line and not into this package."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    ours = ("manyone.", "sklearn.", "concurrent.", "threading", "joblib.")
    while frame is not None and frame.f_globals.get("__name__", "").startswith(ours):
        frame = frame.f_back
        level = level + 1
    warnings.warn(message, category, stacklevel=level)


def plural(number: int, word: str) -> str:
    """A number of things: "1 row", "2,000 rows"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def label_text(label: object) -> str:
    """What a task is called where people read."""
    return "(none)" if label is None else str(label)


def shortlist(items: Sequence[object], most: int) -> str:
    """The first few items, quoted, and how many more there are."""
    shown = ", ".join(repr(item) for item in items[:most])
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")
