"""Columns that grow from row to row, as counters do, or whose texts never return, as batches."""

from __future__ import annotations

import numpy as np

from manyone._types import Codes
from manyone.tables.frames import Column

# So many rows have to grow one after the other, or texts to follow each other, before a
# column is taken for a counter.
_COUNTER_ROWS = 8
# And so many of one task, where it grows from row to row of each.
_TASK_ROWS = 3


@np.errstate(over="ignore")  # numbers may be infinitely far apart
def grows(column: Column, codes: Codes) -> bool:
    """Whether further rows will have values, or texts, beyond all that were seen.

    Parameters
    ----------
    column : Column
        Of normal rows, in their order.
    codes : ndarray of shape (n,)
        Number of each row's task.
    """
    is_known = np.isfinite(column.values)
    if not is_known.any() or (column.levels is None and not is_known.all()):
        return False
    values = column.values[is_known]
    codes = codes[is_known]
    order = np.argsort(codes, kind="stable")
    is_same_task = np.diff(codes[order]) == 0
    steps = np.diff(values)
    task_steps = np.diff(values[order])
    changes = int(np.sum(is_same_task & (task_steps != 0)))
    if column.levels is not None:
        # What never changes within a task is a fact about the task.
        number = len(np.unique(values))
        if min(number, changes) < _COUNTER_ROWS:
            return False
        # Each text in one run of rows: as many runs as texts.
        runs = np.sum(steps != 0)
        task_runs = np.sum((task_steps != 0) | ~is_same_task)
        return bool(number > min(runs, task_runs))
    if np.all(steps > 0) and len(values) >= _COUNTER_ROWS:
        return True
    grows_in_tasks = np.all(task_steps[is_same_task] > 0)
    longest = int(np.bincount(codes).max())
    return bool(grows_in_tasks and longest >= _TASK_ROWS and changes >= _COUNTER_ROWS)
