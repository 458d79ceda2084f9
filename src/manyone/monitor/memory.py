"""The last rows that a monitor has seen, by id."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

#: Rows that are remembered.
REMEMBERED = 100_000
_FIELDS: dict[str, Any] = {
    "task": np.int32,
    "score": np.float64,
    "p_value": np.float64,
    "alarm": bool,
    "drift": bool,
    "weight": np.float32,  # with which the row has been taken as normal
    "answer": np.int8,  # 1 normal, 0 abnormal, -1 none
}


class Memory:
    """A ring of rows: what was said of each, and what was answered.

    Attributes
    ----------
    count : int
        Rows ever remembered, repetitions not counted.
    """

    def __init__(self) -> None:
        self.count = 0
        self._place: dict[Any, int] = {}
        self._ids: list[Any] = []
        self._fields = {name: np.zeros(16, dtype=kind) for name, kind in _FIELDS.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field of all places."""
        return self._fields[name]

    def find(self, one: Any) -> int:
        """Place of an id, -1 where it is not remembered."""
        return self._place.get(one, -1)

    def add(self, ids: list[Any], **values: NDArray[Any]) -> None:
        """Remember rows that are not remembered yet; the oldest are forgotten."""
        start, size = self.count, min(REMEMBERED, self.count + len(ids))
        while len(self._fields["task"]) < size:
            for name, old in self._fields.items():
                wider = np.zeros(min(REMEMBERED, 2 * len(old)), dtype=old.dtype)
                wider[: len(old)] = old
                self._fields[name] = wider
        if len(ids) > REMEMBERED:
            ids = ids[-REMEMBERED:]
            start += len(next(iter(values.values()))) - REMEMBERED
            values = {name: array[-REMEMBERED:] for name, array in values.items()}
        places = (start + np.arange(len(ids))) % REMEMBERED
        for name, array in values.items():
            self._fields[name][places] = array
        for one, place in zip(ids, places.tolist(), strict=True):
            self._ids += [None] * (place + 1 - len(self._ids))
            self._place.pop(self._ids[place], None)
            self._ids[place], self._place[one] = one, place
        self.count = start + len(ids)

    def ids(self) -> list[Any]:
        """Ids by place."""
        return self._ids

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything else by place, and the count."""
        used = len(self._ids)
        return {
            "count": np.array([self.count]),
            **{name: array[:used] for name, array in self._fields.items()},
        }

    @classmethod
    def restored(cls, ids: list[Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """The memory with these ids and arrays."""
        memory = cls()
        memory.count = int(arrays.pop("count")[0])
        memory._ids = ids
        memory._place = {one: place for place, one in enumerate(ids)}
        if len(ids):
            memory._fields = {name: array.copy() for name, array in arrays.items()}
        return memory
