"""The last rows that a monitor has seen, by id."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Rows that are remembered.
REMEMBERED = 100_000
_ROW = np.dtype(
    [
        ("task", np.int32),
        ("score", np.float64),
        ("p_value", np.float64),
        ("alarm", bool),
        ("drift", bool),
        ("weight", np.float32),  # with which the row has been taken as normal
        ("answer", np.int8),  # 1 normal, 0 abnormal, -1 none
    ]
)


class Memory:
    """A ring of rows: what was said of each, and what was answered.

    Parameters
    ----------
    count : int
        Rows ever remembered, repetitions not counted.
    ids : list
        By place.
    rows : ndarray of shape (m,) or None
        What else is known of them.
    """

    def __init__(
        self, count: int = 0, ids: list[Any] | None = None, rows: NDArray[Any] | None = None
    ) -> None:
        self.count, self.ids = count, [] if ids is None else ids
        self.rows = np.zeros(16, dtype=_ROW) if rows is None else rows
        self._place = {one: place for place, one in enumerate(self.ids)}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field of all places."""
        found: NDArray[Any] = self.rows[name]
        return found

    def find(self, one: Any) -> int:
        """Place of an id, -1 where it is not remembered."""
        return self._place.get(one, -1)

    def add(self, ids: list[Any], **values: NDArray[Any]) -> None:
        """Remember rows that are not remembered yet; the oldest are forgotten."""
        if min(self.count + len(ids), REMEMBERED) > len(self.rows):
            wider = np.zeros(min(2 * (self.count + len(ids)), REMEMBERED), dtype=_ROW)
            wider[: len(self.rows)] = self.rows
            self.rows = wider
        last = slice(max(len(ids) - REMEMBERED, 0), None)
        places = (self.count + np.arange(len(ids))[last]) % REMEMBERED
        for name, array in values.items():
            self.rows[name][places] = array[last]
        for one, place in zip(ids[last], places.tolist(), strict=True):
            self.ids += [None] * (place + 1 - len(self.ids))
            self._place.pop(self.ids[place], None)
            self.ids[place], self._place[one] = one, place
        self.count += len(ids)
