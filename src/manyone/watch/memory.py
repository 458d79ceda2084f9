"""Rows that a monitor has judged, by id: what it said, and what a person answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Labels, Mask

#: Rows that are remembered where there is no store.
REMEMBERED = 100_000
#: What a person said of a row.
UNANSWERED = -1
FAULT = 0
NORMAL = 1
#: What is known of a row.
ROW = np.dtype(
    [
        ("task", np.int32),  # -1: never seen
        ("score", np.float64),
        ("p_value", np.float64),
        ("alarm", bool),
        ("drift", bool),
        ("weight", np.float32),  # with which the row has been taken as normal
        ("answer", np.int8),  # UNANSWERED, FAULT or NORMAL
    ]
)
Id = int | str
JudgedRows = Labels  # structured, of dtype ROW


class RowMemory(Protocol):
    """What a monitor asks of the place where rows are remembered."""

    @property
    def count(self) -> int:
        """Rows ever remembered, repetitions not counted."""

    def find(self, ids: Sequence[Id]) -> tuple[Mask, JudgedRows]:
        """Which ids are remembered (n,), and their rows (n,); zeros for the others."""

    def add(self, ids: Sequence[Id], rows: JudgedRows) -> None:
        """Remember rows whose ids are not remembered yet."""

    def correct(self, row_id: Id, weight: float, answer: int) -> None:
        """Change what is known of a row that is remembered."""


class Memory:
    """The last `REMEMBERED` rows, in memory.

    Parameters
    ----------
    count : int
        Rows ever remembered.
    ids : list or None
        Of the rows that are remembered, by place.
    rows : ndarray of shape (m,) or None
        The rows, by place.
    """

    def __init__(
        self,
        count: int = 0,
        ids: list[Id] | None = None,
        rows: JudgedRows | None = None,
    ) -> None:
        self.count = count
        self.ids: list[Id] = [] if ids is None else ids
        self.rows = np.zeros(16, dtype=ROW) if rows is None else rows
        self._place = {row_id: place for place, row_id in enumerate(self.ids)}

    def find(self, ids: Sequence[Id]) -> tuple[Mask, JudgedRows]:
        """Which ids are remembered (n,), and their rows (n,); zeros for the others."""
        places: Codes = np.array(
            [self._place.get(row_id, -1) for row_id in ids], dtype=np.intp
        )
        remembered = places >= 0
        rows = np.zeros(len(ids), dtype=ROW)
        rows[remembered] = self.rows[places[remembered]]
        return remembered, rows

    def add(self, ids: Sequence[Id], rows: JudgedRows) -> None:
        """Remember rows that are not remembered yet; the oldest are forgotten."""
        self._make_room(min(self.count + len(ids), REMEMBERED))
        places = (self.count + np.arange(len(ids))) % REMEMBERED
        self.rows[places] = rows
        for row_id, place in zip(ids, places.tolist(), strict=True):
            if place < len(self.ids):
                del self._place[self.ids[place]]
                self.ids[place] = row_id
            else:
                self.ids.append(row_id)
            self._place[row_id] = place
        self.count += len(ids)

    def _make_room(self, needed: int) -> None:
        if needed > len(self.rows):
            wider = np.zeros(min(2 * needed, REMEMBERED), dtype=ROW)
            wider[: len(self.rows)] = self.rows
            self.rows = wider

    def correct(self, row_id: Id, weight: float, answer: int) -> None:
        """Change what is known of a row that is remembered."""
        place = self._place[row_id]
        self.rows["weight"][place] = weight
        self.rows["answer"][place] = answer


@dataclass(frozen=True, eq=False)
class SavedRows:
    """A memory as files have it: how many rows, their ids, and the fields of `ROW`."""

    count: int
    ids: list[Id]
    task: NDArray[np.int32]
    score: Array
    p_value: Array
    alarm: Mask
    drift: Mask
    weight: NDArray[np.float32]
    answer: NDArray[np.int8]

    @classmethod
    def of(cls, memory: Memory) -> SavedRows:
        """Of a memory."""
        rows = memory.rows[: len(memory.ids)]
        columns = {name: np.ascontiguousarray(rows[name]) for name in ROW.names or ()}
        return cls(memory.count, memory.ids, **columns)

    def memory(self) -> Memory:
        """The memory that was saved."""
        rows = np.zeros(len(self.ids), dtype=ROW)
        for name in ROW.names or ():
            rows[name] = getattr(self, name)
        return Memory(self.count, self.ids, rows)
