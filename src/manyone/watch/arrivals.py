"""When rows of each task came, and which tasks have been silent for too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyone._types import Array
from manyone.alerts.silence import REMEMBERED, gap_pvalues, gap_table
from manyone.watch.store import Store


class Silent(NamedTuple):
    """A task that sends no rows any more.

    Attributes
    ----------
    task : str
    latest : str
        Time of its last row, as the table had it.
    gap : float
        Since then, up to the latest row of all tasks.
    p_value : float
        Of the gap, see `manyone.alerts.silence`.
    new : bool
        Whether it was not silent when it was last looked at.
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
        self._latest = store.latest_moments()

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
            if task is None or moment != moment:  # no task, no time
                continue
            before = self._latest.setdefault(task, moment)
            if moment < before:
                late.append(row)
            elif moment > before:
                gaps.setdefault(task, []).append(moment - before)
                self._latest[task] = moment
        stored = self._store.gaps(list(gaps))
        self._store.set_gaps(
            {
                task: np.append(stored.get(task, np.empty(0)), new)[-REMEMBERED:]
                for task, new in gaps.items()
            }
        )
        return late

    @property
    def now(self) -> float:
        """The time of the latest row of all tasks, NaN where there are no times."""
        return max(self._latest.values(), default=np.nan)

    def silent(self, level: float) -> list[Silent]:
        """Tasks whose gap is longer than all but a share of gaps, the clearest first.

        Now is the time of the latest row of all tasks: who reads old tables is not told
        that everything is silent.
        """
        by_task = self._store.gaps()
        tasks = [task for task in by_task if task in self._latest]
        if not tasks:
            return []
        latest = np.array([self._latest[task] for task in tasks])
        current = self.now - latest
        p = gap_pvalues(gap_table([by_task[task] for task in tasks]), current, level)
        found = {
            tasks[k]: (float(p[k]), float(current[k]))
            for k in np.flatnonzero(p <= level).tolist()
        }
        before = self._store.set_silent({task: p for task, (p, _) in found.items()})
        times = self._store.latest_times(list(found))
        silent = [
            Silent(task, times[task], gap, p, task not in before)
            for task, (p, gap) in found.items()
        ]
        return sorted(silent, key=lambda one: (one.p_value, -one.gap, one.task))
