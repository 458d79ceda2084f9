"""How long a fit will take, said before it begins."""

from __future__ import annotations

import time

import numpy as np

from manyone.messages import plural
from manyone.progress import announce

# Seconds for each row that is kept, and for each of its coordinates, of a fit that is
# not tuned, on a machine whose probe takes `_PROBE_SECONDS`. By 13 tables of 200 to
# 100,000 rows, 4 to 1,000 tasks and 9 to 89 coordinates on one thread; all lie within a
# factor of 2.5.
_ROW_SECONDS = 3e-4
_VALUE_SECONDS = 1e-5
_PROBE_SECONDS = 0.01
_PROBE_SIZE = 700
# With a time column three quarters of the rows are fitted once more, see `forward`.
_CHECK = 0.75
# A search tries most settings on few rows: so much longer it takes, whatever the table.
_SEARCH_SECONDS = 3.0
# Shorter fits need no forecast.
_LEAST_SECONDS = 5.0


def announce_fit(
    kept: int,
    total: int,
    tasks: int,
    coordinates: int,
    *,
    is_tuned: bool,
    in_time: bool,
) -> None:
    """Tell whoever listens about a fit that takes its time.

    Parameters
    ----------
    kept, total : int
        Rows that are fitted, and rows of the table.
    tasks, coordinates : int
    is_tuned : bool
        Whether settings are searched.
    in_time : bool
        Whether the table has a time column, and a forward check is made.
    """
    seconds = seconds_to_fit(kept, coordinates, is_tuned=is_tuned, in_time=in_time)
    if seconds < _LEAST_SECONDS:
        return
    rows = plural(kept, "row")
    if kept < total:
        rows = f"a sample of {kept:,} of {plural(total, 'row')}"
    search = ", with a search of settings" if is_tuned else ""
    announce(
        f"fitting {rows} of {plural(tasks, 'task')}, each as "
        f"{plural(coordinates, 'number')}{search}: about {_in_words(seconds)}"
    )


def seconds_to_fit(
    rows: int, coordinates: int, *, is_tuned: bool = False, in_time: bool = False
) -> float:
    """The time of a fit, from its size and the speed of this machine now."""
    seconds = rows * (_ROW_SECONDS + _VALUE_SECONDS * coordinates)
    if in_time:
        seconds *= 1.0 + _CHECK
    if is_tuned:
        seconds += _SEARCH_SECONDS
    if seconds >= _LEAST_SECONDS:
        seconds *= probe_seconds() / _PROBE_SECONDS
    return seconds


def probe_seconds() -> float:
    """Seconds of a matrix product, the middle one of five."""
    matrix = np.ones((_PROBE_SIZE, _PROBE_SIZE))
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
