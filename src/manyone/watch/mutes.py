"""Muted entities and times of maintenance, whose alarms nobody wants to hear of.

A muted row is scored, stored and marked. It counts for no incident, no exit code and no
message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from manyone._types import Array
from manyone.watch.database import sound
from manyone.watch.store import Store


class Mute(NamedTuple):
    """A task, or all of them, and a time in which their rows are muted.

    Attributes
    ----------
    task : str or None
        None: all tasks.
    begin, end : float
        Rows from `begin` on and before `end` are muted; infinite where there is no
        limit.
    why : str
    """

    task: str | None
    begin: float
    end: float
    why: str


def set_mutes(store: Store, mutes: Iterable[Mute]) -> None:
    """Replace the mutes of a store."""
    store.execute("DELETE FROM mute")
    store.execute_many("INSERT INTO mute VALUES (?, ?, ?, ?)", mutes)


class Mutes:
    """The mutes of a store. A row without a time counts as a row of now."""

    def __init__(self, store: Store) -> None:
        self._now = datetime.now(UTC).timestamp()
        self._by_task: dict[str | None, list[Mute]] = {}
        lines = store.execute('SELECT task, "from", until, why FROM mute')
        with sound(store.path):
            for mute in map(Mute._make, lines):
                self._by_task.setdefault(mute.task, []).append(mute)

    def why(self, task: str | None, moment: float) -> str | None:
        """Why a row of a task is muted at a time, None if it is not muted."""
        if np.isnan(moment):
            moment = self._now
        for name in (task, None):
            for mute in self._by_task.get(name, ()):
                if mute.begin <= moment < mute.end:
                    return mute.why
        return None

    def of_rows(self, tasks: Sequence[str | None], moments: Array) -> list[str | None]:
        """Why each row is muted, None if it is not muted."""
        if not self._by_task:
            return [None] * len(tasks)
        pairs = zip(tasks, moments.tolist(), strict=True)
        return [self.why(task, moment) for task, moment in pairs]
