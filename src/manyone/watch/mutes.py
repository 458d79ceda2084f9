"""Alarms that nobody wants to hear of: entities that are muted, and times of maintenance.

A muted row is scored, stored and marked. It counts for no incident, no exit code and no
message, and is evidence of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from manyone._types import Array


class Mute(NamedTuple):
    """Something that is muted.

    Attributes
    ----------
    task : str or None
        None: all tasks.
    begin, end : float
        Rows from `begin` on and before `end` are muted; infinite where there is no limit.
    why : str
    """

    task: str | None
    begin: float
    end: float
    why: str


class Mutes:
    """All that is muted.

    Parameters
    ----------
    mutes : iterable of Mute
    now : float
        The time of rows that have none.
    """

    def __init__(self, mutes: Iterable[Mute], now: float) -> None:
        self._now = now
        self._by_task: dict[str | None, list[Mute]] = {}
        for mute in mutes:
            self._by_task.setdefault(mute.task, []).append(mute)

    def why(self, task: str | None, moment: float) -> str | None:
        """Why a row of a task at a time is muted; None: it is not."""
        if moment != moment:  # there is none
            moment = self._now
        for name in (task, None):
            for mute in self._by_task.get(name, ()):
                if mute.begin <= moment < mute.end:
                    return mute.why
        return None

    def of_rows(self, tasks: Sequence[str | None], moments: Array) -> list[str | None]:
        """Why each of some rows is muted."""
        if not self._by_task:
            return [None] * len(tasks)
        pairs = zip(tasks, moments.tolist(), strict=True)
        return [self.why(task, moment) for task, moment in pairs]
