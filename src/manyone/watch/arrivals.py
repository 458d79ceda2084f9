"""Times at which rows of each task came, and tasks that are silent for too long."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyone._types import Array
from manyone.alerts.silence import REMEMBERED, gap_pvalues, gap_table
from manyone.watch.database import sound
from manyone.watch.store import Store

_GAP = np.dtype("<f4")


class Silent(NamedTuple):
    """A task of which no rows come any more.

    Attributes
    ----------
    task : str
    latest : str
        Time of its last row, as the table had it.
    gap : float
        Time from then to the latest row of all tasks.
    p_value : float
        Of the gap, see `manyone.alerts.silence`.
    new : bool
        Whether the last command did not find it silent.
    """

    task: str
    latest: str
    gap: float
    p_value: float
    new: bool


class Arrivals:
    """Gaps between the rows of tasks, in a store.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # When each task was seen last, as a number.
        self._latest: dict[str, float] = dict(
            store.execute(
                "SELECT name, latest_moment FROM task WHERE latest_moment IS NOT NULL"
            )
        )

    def add(self, tasks: Sequence[str | None], moments: Array) -> list[int]:
        """Take the next rows, with the names of their tasks and their times as numbers.

        Returns
        -------
        list of int
            Places of rows that are older than a row of their task before them.
        """
        late = []
        gaps: dict[str, list[float]] = {}
        for row, (task, moment) in enumerate(zip(tasks, moments.tolist(), strict=True)):
            if task is None or np.isnan(moment):
                continue
            before = self._latest.setdefault(task, moment)
            if moment < before:
                late.append(row)
            elif moment > before:
                gaps.setdefault(task, []).append(moment - before)
                self._latest[task] = moment
        lines = self._store.execute(
            "SELECT name, gaps FROM task WHERE gaps IS NOT NULL "
            "AND name IN (SELECT value FROM json_each(?))",
            [json.dumps(list(gaps))],
        )
        before_them = {name: self._as_gaps(stored) for name, stored in lines}
        # A task with new rows is not silent.
        self._store.execute_many(
            "UPDATE task SET gaps = ?, silent = NULL WHERE name = ?",
            [
                (
                    np.append(before_them.get(task, []), new)[-REMEMBERED:].astype(
                        _GAP
                    ),
                    task,
                )
                for task, new in gaps.items()
            ],
        )
        return late

    def _as_gaps(self, stored: bytes) -> Array:
        with sound(self._store.path):
            return np.frombuffer(stored, dtype=_GAP).astype(float)

    @property
    def now(self) -> float:
        """The time of the latest row of all tasks, NaN where there are no times."""
        return max(self._latest.values(), default=np.nan)

    def silent(self, level: float) -> list[Silent]:
        """Tasks whose present gap has a p-value of at most a level, smallest first.

        The present is the time of the latest row of all tasks. So in an old table not
        every task is silent.
        """
        tasks = self._store.query(
            "SELECT name, coalesce(latest, '') AS latest, latest_moment, gaps, silent "
            "FROM task WHERE gaps IS NOT NULL"
        )
        if not tasks:
            return []
        gap = self.now - np.array([task["latest_moment"] for task in tasks])
        gaps = gap_table([self._as_gaps(task["gaps"]) for task in tasks])
        p = gap_pvalues(gaps, gap, level)
        silent = [
            Silent(
                task["name"],
                task["latest"],
                float(gap[k]),
                float(p[k]),
                task["silent"] is None,
            )
            for k, task in enumerate(tasks)
            if p[k] <= level
        ]
        self._store.execute("UPDATE task SET silent = NULL WHERE silent IS NOT NULL")
        self._store.execute_many(
            "UPDATE task SET silent = ? WHERE name = ?",
            [(each.p_value, each.task) for each in silent],
        )
        return sorted(silent, key=lambda each: (each.p_value, -each.gap, each.task))
