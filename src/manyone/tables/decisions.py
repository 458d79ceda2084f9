"""What is decided about one column: use it, and how, or leave it out, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyone._types import Codes
from manyone.tables.frames import Column, grouped_numbers
from manyone.tables.maps import DateMap, LevelMap, Map, NumberMap

# So many rows have to grow one after the other before a column is taken for a counter.
_COUNTER_ROWS = 8
# A text column with more than this share of different values is an identifier.
_IDENTIFIER = 0.5


@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided about a column.

    Parameters
    ----------
    name, kind : str
    map : map or None
        How its values become coordinates; None if it is not used.
    missing : float
        Share of the rows without a value.
    low, high : float
        Of numbers, the range seen.
    note : str
        Why it is not used, or what there is to say.
    """

    name: str
    kind: str
    map: Map | None
    missing: float
    low: float = np.nan
    high: float = np.nan
    note: str = ""

    @property
    def used(self) -> bool:
        """Whether it is a feature."""
        return self.map is not None

    def summary(self) -> dict[str, Any]:
        """A line of `TableModel.columns_`."""
        features = 0 if self.map is None else self.map.width
        return {**vars(self), "used": self.used, "features": features}

    def checked(self, column: Column) -> Column:
        """A further column of this name, if it is of the kind that was seen."""
        if column.kind == self.kind or {column.kind, self.kind} <= {"number", "boolean"}:
            return column
        empty = bool(np.isnan(column.values).all())
        if empty and (column.kind == "text" or column.values.size == 0 or self.kind != "text"):
            levels = np.empty(0, dtype="U1") if self.kind == "text" else None
            return Column(self.kind, np.full(len(column.values), np.nan), levels)
        raise ValueError(
            f"Column {self.name!r} was {_WORDS.get(self.kind, self.kind)} when the model was "
            f"fitted, and is {_WORDS.get(column.kind, column.kind)} now: convert it."
        )


_WORDS = {"number": "numeric", "boolean": "true or false", "date": "a date", "text": "text"}


def decide(name: str, column: Column, codes: Codes, linear: float) -> Decision:
    """Look at a column of normal rows, in their order, of tasks given by number (n,).

    `linear` says how numbers are scaled, see :class:`NumberMap`.
    """
    values = column.values
    finite = values[np.isfinite(values)]
    missing = 1.0 - len(finite) / len(values)
    seen: dict[str, Any] = {"missing": missing}
    if column.kind in ("number", "boolean", "date") and len(finite):
        seen |= {"low": float(finite.min()), "high": float(finite.max())}

    def dropped(note: str) -> Decision:
        return Decision(name, column.kind, None, note=note, **seen)

    if column.kind not in _WORDS:
        return dropped(f"dropped: values of type {column.kind} are not used")
    if not len(finite):
        return dropped("dropped: no value")
    if column.levels is not None:
        return _text(name, column, dropped, seen)
    if column.kind == "date":
        cycles = DateMap.learn(values)
        if not cycles.width:
            return dropped("dropped: a date that goes through no day and no week")
        note = "hour of day and day of week only, as future dates are all new"
        return Decision(name, column.kind, cycles, note=note, **seen)
    if finite.min() == finite.max():
        return dropped("dropped: constant")
    if _only_grows(values, codes):
        return dropped("dropped: a counter, every further row would be out of range")
    if _names_rows(name, finite):
        return dropped("dropped: a number that names rows")
    infinite = int(np.isinf(values).sum())
    note = f"{infinite} infinite values taken as missing" if infinite else ""
    return Decision(name, column.kind, NumberMap.learn(values, linear), note=note, **seen)


def _text(name: str, column: Column, dropped: Any, seen: dict[str, Any]) -> Decision:
    assert column.levels is not None
    number, rows = len(column.levels), int(np.isfinite(column.values).sum())
    if number == 1 and seen["missing"] == 0.0:
        return dropped("dropped: constant")
    if number > max(20, _IDENTIFIER * rows):
        digits = sum(level.replace(",", "").replace(".", "").isdigit() for level in column.levels)
        looks = "; it looks like numbers, convert it to use it" if digits > number / 2 else ""
        return dropped(f"dropped: {number} different texts in {rows} rows name rows{looks}")
    levels = LevelMap.learn(column.values, column.levels)
    merged = number - len(levels.names()) + 2
    note = f"{merged} rare levels are one" if merged > 1 else ""
    return Decision(name, column.kind, levels, note=note, **seen)


def _only_grows(values: Any, codes: Codes) -> bool:
    """Whether values grow from row to row, of the table or of each task."""
    if not np.isfinite(values).all() or len(values) < _COUNTER_ROWS:
        return False
    if np.all(np.diff(values) > 0):
        return True
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order]) == 0
    steps = np.diff(values[order])[same]
    long_enough = grouped_numbers(codes).max() + 1 >= 3 and len(steps) >= _COUNTER_ROWS
    return bool(long_enough and np.all(steps > 0))


def _names_rows(name: str, finite: Any) -> bool:
    """Whether whole numbers, all different, are called an identifier."""
    word = name.lower().replace("-", "_").split("_")[-1]
    called = word in ("id", "uuid", "guid", "index", "key", "rowid") or name.endswith("Id")
    whole = np.all(finite == np.round(finite))
    return bool(called and whole and len(np.unique(finite)) == len(finite))
