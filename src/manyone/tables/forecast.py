"""How long a fit will take, said before it begins."""

from __future__ import annotations

import time

import numpy as np

from manyone.messages import plural
from manyone.progress import announce
from manyone.tables.in_time import LATER

# Seconds for each row that is kept, and for each of its coordinates, of a fit that is
# not tuned, on a machine whose probe takes `_PROBE_SECONDS`. From 13 tables of 200 to
# 100,000 rows, 4 to 1,000 tasks and 9 to 89 coordinates on one thread. Forecasts of all
# of them are right within a factor of 2.5.
_ROW_SECONDS = 3e-4
_VALUE_SECONDS = 1e-5
_PROBE_SECONDS = 0.01
# A search tries most settings on few rows, so it takes as long for every table.
_SEARCH_SECONDS = 3.0
# Shorter fits need no forecast.
_LEAST_SECONDS = 5.0


def announce_fit(
    rows: int,
    kept: int,
    total: int,
    tasks: int,
    coordinates: int,
    *,
    is_tuned: bool,
    in_time: bool,
) -> None:
    """Announce how long a fit will take, unless it is short.

    Parameters
    ----------
    rows, kept, total : int
        Rows that the model is fitted to; these and the first ones, which only say what
        came before; and rows of the table.
    tasks, coordinates : int
    is_tuned : bool
        Whether settings are searched.
    in_time : bool
        Whether the table has a time column, and a forward check is made.
    """
    seconds = seconds_to_fit(rows, coordinates, is_tuned=is_tuned, in_time=in_time)
    if seconds < _LEAST_SECONDS:
        return
    what = plural(kept, "row")
    if kept < total:
        what = f"a sample of {kept:,} of {plural(total, 'row')}"
    past = ""
    if rows < kept:
        past = f" (the first {kept - rows:,} only say what came before)"
    search = ", with a search of settings" if is_tuned else ""
    announce(
        f"fitting {what} of {plural(tasks, 'task')}, each as "
        f"{plural(coordinates, 'number')}{past}{search}: about {_in_words(seconds)}"
    )


def seconds_to_fit(
    rows: int, coordinates: int, *, is_tuned: bool = False, in_time: bool = False
) -> float:
    """The time of a fit, from its size and the speed of this machine now."""
    seconds = rows * (_ROW_SECONDS + _VALUE_SECONDS * coordinates)
    if in_time:
        seconds *= 2.0 - LATER  # the forward check fits to the earlier rows
    if is_tuned:
        seconds += _SEARCH_SECONDS
    if seconds >= _LEAST_SECONDS:
        seconds *= probe_seconds() / _PROBE_SECONDS
    return seconds


def probe_seconds(size: int = 700) -> float:
    """Seconds of a product of square matrices, the middle one of five."""
    matrix = np.ones((size, size))
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds))


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{round(seconds, -1 if seconds > 20 else 0):.0f} seconds"
    return f"{seconds / 60:.0f} minutes"
