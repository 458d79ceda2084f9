"""Alarms that belong together: of one task, led by one column, and close in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Codes
from manyone.report.chance import evidence

if TYPE_CHECKING:
    from manyone.report.fleet import Rows, Tasks

# All alarms of a task are one incident if together they are so many times less likely by chance.
_TOGETHER = 10.0


@dataclass(frozen=True)
class Incident:
    """Alarms of one task that share a leading column, or all of them if that tells far more.

    Attributes
    ----------
    task : int
        Its number in the tasks.
    columns : tuple of str
        Columns that lead its rows, the most frequent first; empty where rows have no reason.
    alarms : tuple of int
        Places of the rows, worst first.
    begin, end : float or None
        Times of the first and the last alarm.
    by_chance : float
        Tasks of this table that would show such an incident if all rows were normal, on average:
        far below 1 is not chance.
    depth : float
        How far the worst row lies below the threshold, in units of the task's scores.
    """

    task: int
    columns: tuple[str, ...]
    alarms: tuple[int, ...]
    begin: float | None
    end: float | None
    by_chance: float
    depth: float


def find_incidents(tasks: Tasks, rows: Rows, rate: float) -> tuple[Incident, ...]:
    """Group alarms, most telling incident first.

    Parameters
    ----------
    tasks : Tasks
    rows : Rows
        With times, alarms of a task belong to two incidents if more than 1 / (2 rate) rows of the
        task without an alarm lie between them.
    rate : float
        Promised share of alarms among normal rows.

    Returns
    -------
    tuple of Incident
        By the evidence, `Incident.by_chance`, then by depth: neither is a count of rows.
    """
    grouping = _Grouping(tasks, rows, rate)
    found: list[Incident] = []
    for alarms in alarms_by_task(rows):
        led: dict[str, list[int]] = {}
        for row in alarms.tolist():
            led.setdefault(rows.leading[row], []).append(row)
        apart = [i for part in led.values() for i in grouping.incidents(np.array(part))]
        if len(led) > 1:
            together = list(grouping.incidents(alarms))
            if _TOGETHER * _least(together) < _least(apart):
                apart = together
        found += apart
    return tuple(sorted(found, key=lambda i: (i.by_chance, -i.depth, i.task, i.alarms)))


def _least(incidents: Iterable[Incident]) -> float:
    return min(incident.by_chance for incident in incidents)


def alarms_by_task(rows: Rows) -> Iterator[Codes]:
    """Alarmed rows of each task that has any, in the order of time."""
    alarms = np.flatnonzero(rows.alarm)
    if len(alarms):
        time = alarms if rows.time is None else rows.time[alarms]
        alarms = alarms[np.lexsort((time, rows.task[alarms]))]
        yield from np.split(alarms, np.flatnonzero(np.diff(rows.task[alarms])) + 1)


class _Grouping:
    """What incidents of one table need to know about it."""

    def __init__(self, tasks: Tasks, rows: Rows, rate: float) -> None:
        self.tasks, self.rows = tasks, rows
        self.counts = np.bincount(rows.task, minlength=len(tasks.names))
        self.watched = int(np.count_nonzero(self.counts))
        self.depth = (tasks.threshold[rows.task] - rows.score) / tasks.unit[rows.task]
        self.pause = np.inf if rows.time is None else 0.5 / rate
        # Number of each row among those of its task, in the order of time.
        time = np.zeros(len(rows.task)) if rows.time is None else rows.time
        order = np.lexsort((time, rows.task))
        starts = np.cumsum(self.counts) - self.counts
        self.place = np.empty(len(order), dtype=np.intp)
        self.place[order] = np.arange(len(order)) - starts[rows.task[order]]

    def incidents(self, alarms: Codes) -> Iterator[Incident]:
        """Incidents from alarms of one task in the order of time, split at long pauses."""
        long = np.diff(self.place[alarms]) > self.pause
        for part in np.split(alarms, np.flatnonzero(long) + 1):
            yield self._incident(part)

    def _incident(self, part: Codes) -> Incident:
        rows, task = self.rows, int(self.rows.task[part[0]])
        worst = part[np.lexsort((part, -self.depth[part]))]
        led = Counter(rows.leading[row] for row in part.tolist() if rows.leading[row])
        begin = end = None
        if rows.time is not None:
            begin, end = float(rows.time[part[0]]), float(rows.time[part[-1]])
        return Incident(
            task=task,
            columns=tuple(column for column, _ in led.most_common()),
            alarms=tuple(worst.tolist()),
            begin=begin,
            end=end,
            by_chance=self.watched * self._chance(part, task),
            depth=float(self.depth[worst[0]]),
        )

    def _chance(self, part: Codes, task: int) -> float:
        """Probability that the task shows as much by chance."""
        tail, count = self.rows.tail[part], int(self.counts[task])
        known_by = self.tasks.known_by[task]
        chance = evidence(tail, count, known_by)
        window = int(self.place[part[-1]] - self.place[part[0]] + 1)
        if self.rows.time is None or window == count:
            return chance
        # A dense run is rarer than as many alarms anywhere. Both are tried, hence the factor 2.
        return min(
            1.0,
            2 * min(chance, evidence(tail, window, known_by) * (count - window + 1)),
        )
