"""Rows that a monitor has judged, by id, with its answers and those of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Labels, Mask

#: Rows that are remembered where there is no store.
REMEMBERED = 100_000
#: Answers of a person about a row.
UNANSWERED = -1
FAULT = 0
NORMAL = 1
#: A judged row.
ROW = np.dtype(
    [
        ("task", np.int32),  # -1: never seen
        ("score", np.float64),
        ("p_value", np.float64),
        ("alarm", bool),
        ("drift", bool),
        ("weight", np.float32),  # probability that it is normal, as thresholds took it
        ("answer", np.int8),  # UNANSWERED, FAULT or NORMAL
    ]
)
Id = int | str
RememberedRows = Labels  # structured, of dtype ROW


class RowMemory(Protocol):
    """Where a monitor remembers rows: in memory, or in the store of a command."""

    @property
    def count(self) -> int:
        """Number of different rows that were ever remembered."""

    def find(self, ids: Sequence[Id]) -> tuple[Mask, RememberedRows]:
        """Which ids are remembered (n,), and their rows (n,); zeros for the others."""

    def add(self, ids: Sequence[Id], rows: RememberedRows) -> None:
        """Remember rows whose ids are not remembered yet."""

    def correct(self, row_id: Id, weight: float, answer: int) -> None:
        """Change weight and answer of a row that is remembered."""


def find_rows(
    ids: Sequence[Id], rows_by_id: Mapping[Id, tuple[Any, ...]]
) -> tuple[Mask, RememberedRows]:
    """Which ids are in a dictionary (n,), and their rows (n,), zeros for others."""
    remembered = np.array([row_id in rows_by_id for row_id in ids], dtype=bool)
    rows = np.zeros(len(ids), dtype=ROW)
    for row in np.flatnonzero(remembered).tolist():
        rows[row] = rows_by_id[ids[row]]
    return remembered, rows


class Memory:
    """The last `REMEMBERED` rows, in memory.

    Attributes
    ----------
    count : int
        Number of different rows that were ever remembered.
    rows : dict of id to tuple
        The last of them, oldest first, with the values of `ROW`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.rows: dict[Id, tuple[Any, ...]] = {}

    def find(self, ids: Sequence[Id]) -> tuple[Mask, RememberedRows]:
        """Which ids are remembered (n,), and their rows (n,); zeros for the others."""
        return find_rows(ids, self.rows)

    def add(self, ids: Sequence[Id], rows: RememberedRows) -> None:
        """Remember rows that are not remembered yet; the oldest are forgotten."""
        self.rows.update(zip(ids, rows.tolist(), strict=True))
        self.count += len(ids)
        too_many = max(len(self.rows) - REMEMBERED, 0)
        for row_id in list(islice(self.rows, too_many)):
            del self.rows[row_id]

    def correct(self, row_id: Id, weight: float, answer: int) -> None:
        """Change weight and answer of a row that is remembered."""
        *judged, _, _ = self.rows[row_id]
        self.rows[row_id] = (*judged, weight, answer)


@dataclass(frozen=True, eq=False)
class SavedRows:
    """A memory as files hold it: how many rows, their ids, and the fields of `ROW`."""

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
        """The rows of a memory."""
        rows = np.array(list(memory.rows.values()), dtype=ROW)
        columns = {name: np.ascontiguousarray(rows[name]) for name in ROW.names or ()}
        return cls(memory.count, list(memory.rows), **columns)

    def memory(self) -> Memory:
        """The memory that was saved."""
        rows = np.zeros(len(self.ids), dtype=ROW)
        for name in ROW.names or ():
            rows[name] = getattr(self, name)
        memory = Memory()
        memory.add(self.ids, rows)
        memory.count = self.count
        return memory
