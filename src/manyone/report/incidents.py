"""Alarms that belong together: of one task, led by one column, and close in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes
from manyone.report.chance import evidence
from manyone.report.fleet import Rows, Tasks


@dataclass(frozen=True)
class Incident:
    """Alarms of one task that have one leading column, without a long calm between them.

    Attributes
    ----------
    task : int
        Its number in the tasks.
    column : str
        The column that explains most; empty where rows have no reason.
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
    column: str
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
        With times, alarms of a task with more than 1 / (2 rate) of its rows in a calm between them
        are two incidents.
    rate : float
        Promised share of alarms among normal rows.

    Returns
    -------
    tuple of Incident
        By the evidence, `Incident.by_chance`, then by depth: neither is a count of rows.
    """
    counts = np.bincount(rows.task, minlength=len(tasks.names))
    watched = int(np.count_nonzero(counts))
    place = _places(rows)
    calm = 0.5 / rate
    depth = (tasks.threshold[rows.task] - rows.score) / tasks.unit[rows.task]
    found = []
    for group in _groups(rows):
        pause = np.diff(place[group]) > (np.inf if rows.time is None else calm)
        for part in np.split(group, np.flatnonzero(pause) + 1):
            task = int(rows.task[part[0]])
            pool = float(tasks.pool[task])
            chance = evidence(rows.tail[part], int(counts[task]), pool)
            window = int(place[part[-1]] - place[part[0]] + 1)
            if rows.time is not None and window < counts[task]:
                # A dense run somewhere is rarer than as many alarms anywhere; both were tried.
                run = evidence(rows.tail[part], window, pool)
                chance = min(1.0, 2 * min(chance, run * (counts[task] - window + 1)))
            worst = part[np.lexsort((part, -depth[part]))]
            found.append(
                Incident(
                    *(task, rows.leading[part[0]], tuple(worst.tolist())),
                    begin=None if rows.time is None else float(rows.time[part[0]]),
                    end=None if rows.time is None else float(rows.time[part[-1]]),
                    by_chance=watched * chance,
                    depth=float(depth[worst[0]]),
                )
            )
    return tuple(sorted(found, key=lambda i: (i.by_chance, -i.depth, i.task, i.alarms)))


def _places(rows: Rows) -> Codes:
    """Number of each row among those of its task, in the order of time."""
    time = np.zeros(len(rows.task)) if rows.time is None else rows.time
    order = np.lexsort((time, rows.task))
    starts = np.flatnonzero(np.diff(rows.task[order], prepend=-1))
    place = np.empty(len(order), dtype=np.intp)
    sizes = np.diff(np.append(starts, len(order)))
    place[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    return place


def _groups(rows: Rows) -> list[Codes]:
    """Alarmed rows of each task and leading column, in the order of time."""
    alarms = np.flatnonzero(rows.alarm)
    if not len(alarms):
        return []
    led = np.array([rows.leading[k] for k in alarms.tolist()])
    column = np.unique(led, return_inverse=True)[1]
    time: Array = np.zeros(len(alarms)) if rows.time is None else rows.time[alarms]
    order = np.lexsort((time, column, rows.task[alarms]))
    key = np.stack([rows.task[alarms], column])[:, order]
    cuts = np.flatnonzero(np.any(np.diff(key, axis=1) != 0, axis=0)) + 1
    return np.split(alarms[order], cuts)
