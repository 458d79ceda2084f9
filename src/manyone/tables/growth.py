"""Columns that grow from row to row, as counters do, or whose texts never return, as batches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from manyone._types import Codes
from manyone.tables.frames import Column


@dataclass(frozen=True)
class Growth:
    """How a column grows: every value above the one before; of texts, each in one run of rows.

    Parameters
    ----------
    table, tasks : bool
        Whether it does from row to row of the table, and of every task.
    ends : dict of label to (first, last, rows)
        Values of the first and the last row of each task, and their number; under None, of the
        whole table.
    changes : int
        Rows with another value than the row of their task before.
    """

    table: bool
    tasks: bool
    ends: dict[Hashable, tuple[float, float, int]]
    changes: int

    @classmethod
    @np.errstate(over="ignore")  # numbers may be infinitely far apart
    def of(
        cls, column: Column, codes: Codes, tasks: Sequence[Hashable]
    ) -> Growth | None:
        """That of a column, or None; codes (n,) are the numbers of the rows' tasks."""
        known = np.isfinite(column.values)
        if column.levels is None and not known.all():
            return None
        values = column.values[known]
        codes = codes[known]
        if not len(values):
            return cls(True, True, {}, 0)
        order = np.argsort(codes, kind="stable")
        same = np.diff(codes[order]) == 0
        along = np.diff(values)
        inside = np.diff(values[order])
        if column.levels is None:
            table = bool(np.all(along > 0))
            by_task = bool(np.all(inside[same] > 0))
        else:  # as many runs as texts
            number = len(np.unique(values))
            table = bool(number > np.sum(along != 0))
            by_task = bool(number > np.sum((inside != 0) | ~same))
        if not table and not by_task:
            return None
        said = values.tolist() if column.levels is None else column.take(known).texts()
        starts = np.flatnonzero(np.append(True, ~same))
        stops = np.append(starts[1:], len(order)) - 1
        ends = {
            tasks[codes[order[a]]]: (said[order[a]], said[order[b]], b - a + 1)
            for a, b in zip(starts.tolist(), stops.tolist(), strict=True)
        }
        ends[None] = (said[0], said[-1], len(said))
        return cls(table, by_task, ends, int(np.sum(same & (inside != 0))))

    def followed(self, by: Growth, shared: int | None) -> Growth | None:
        """That of these rows and of further ones; `shared`: texts of both, None for numbers."""
        common = self.ends.keys() & by.ends.keys()
        joints = {label: (self.ends[label][1], by.ends[label][0]) for label in common}
        again = {label for label, (last, first) in joints.items() if last == first}
        if shared is None:
            broken = {label for label, (last, first) in joints.items() if last >= first}
            table = None not in broken
            tasks = not broken - {None}
        else:  # only a text that goes on is in both
            table = shared <= (None in again)
            tasks = shared <= len(again - {None})
        table = self.table and by.table and table
        tasks = self.tasks and by.tasks and tasks
        ends = self.ends | by.ends
        for label in common:
            (first, _, rows) = self.ends[label]
            (_, last, more) = by.ends[label]
            ends[label] = (first, last, rows + more)
        changes = self.changes + by.changes + len(common - again - {None})
        return Growth(table, tasks, ends, changes) if table or tasks else None
