"""What is decided about one column: use it, and how, or leave it out, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from manyone._types import Array
from manyone.tablefiles.values import Kind, Style, whole_number
from manyone.tables.errors import TableError
from manyone.tables.facts import Facts
from manyone.tables.frames import Column, text_column
from manyone.tables.maps import (
    PARTS,
    DateMap,
    LevelMap,
    Map,
    NumberMap,
    PastMap,
    usual_swings,
)

# A text column with more than this share of different values is an identifier.
_IDENTIFIER = 0.5
# Whole numbers are measurements if one occurs twice, or if no more pairs should have been equal,
# by how close so many of them lie.
_EXPECTED_TWICE = 10.0
_CLOSE = 10
# Digits with signs and units around them, as "$ 1,200.50" or "-3.5 °C".
_NUMBER_IN_TEXT = r"[^\w]{0,3}[\d.,' ]*\d[^\w]{0,3}[^\W\d]{0,4}"
_DATE_IN_TEXT = (
    r"((19|20)\d\d([-/.])\d\d?\3\d\d?|\d\d?([-/.])\d\d?\4(19|20)?\d\d)([T ,].*)?"
)


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

    def dropped(self, why: str) -> Decision:
        """The decision not to use the column."""
        return replace(self, note=f"dropped: {why}")

    def summary(self) -> dict[str, Any]:
        """A line of `TableModel.columns_`."""
        features = 0 if self.map is None else self.map.width
        return {**vars(self), "used": self.used, "features": features}

    def checked(self, column: Column, style: Style) -> Column:
        """A further column of this name, as values of the kind that was seen."""
        if column.kind == self.kind or {column.kind, self.kind} <= _TRUTHS:
            return column
        if column.kind == "text" and self.kind in _WORDS:
            return self._from_texts(column, style)
        # Values of a kind that is not used are missing whatever they are.
        if column.kind in _WORDS and np.isnan(column.values).all():
            levels = np.empty(0, dtype="U1") if self.kind == "text" else None
            return Column(self.kind, np.full(len(column.values), np.nan), levels)
        if column.kind == "number" and self.kind == "text":
            return self._from_numbers(column)
        raise self._other_kind(column.kind)

    def _from_texts(self, column: Column, style: Style) -> Column:
        values = column.read_as(cast("Kind", self.kind), style)
        bad = np.flatnonzero(np.isnan(values.values) & ~np.isnan(column.values))
        if not len(bad):
            return values
        text = column.take(bad[:1]).texts()[0]
        raise TableError(
            f"has {text!r} in the column {self.name!r}, which was {_WORDS[self.kind]} "
            "when the model was fitted",
            row=int(bad[0]),
            remedy="Convert it, or leave the field empty.",
        )

    def _from_numbers(self, column: Column) -> Column:
        """Whole numbers as texts: some tables have no other name in such a column."""
        names = self.map.levels.tolist() if isinstance(self.map, LevelMap) else []
        texts = [None if v != v else f"{v:.0f}" for v in column.values.tolist()]
        is_whole = np.isnan(column.values) | (column.values == np.round(column.values))
        if not is_whole.all() or all(whole_number(name) is None for name in names):
            raise self._other_kind(column.kind)
        return text_column(texts)

    def _other_kind(self, kind: str) -> TableError:
        return TableError(
            f"Column {self.name!r} was {_WORDS.get(self.kind, self.kind)} when the model "
            f"was fitted, and is {_WORDS.get(kind, kind)} now",
            remedy="Convert it.",
        )


_TRUTHS = {"number", "boolean"}
_WORDS = {
    "number": "numeric",
    "boolean": "true or false",
    "date": "a date",
    "text": "text",
}


def decide(
    name: str,
    column: Column,
    facts: Facts,
    linear: float,
    parts: Sequence[str] = PARTS,
) -> Decision:
    """Look at a column of normal rows, and at the facts about it.

    `linear` says how numbers are scaled, see :class:`NumberMap`, and `parts` what is used
    of columns with a past. How much they swing is guarded, unless values are all.
    """
    seen = _decide_values(name, column, facts, linear)
    if column.past is None or set(parts) == {"level"}:
        return seen
    return _decide_past(seen, column, linear, parts)


def _decide_past(
    seen: Decision, column: Column, linear: float, parts: Sequence[str]
) -> Decision:
    """What is used of a column with a past, beside or instead of its values."""
    if not isinstance(seen.map, NumberMap):
        return seen
    maps = {"level": seen.map}
    assert column.past is not None
    differences, swings = column.past.T
    if len(np.unique(differences[np.isfinite(differences)])) > 2:
        maps["difference"] = NumberMap.learn(differences, linear)
    used = tuple(part for part in PARTS if part in parts and part in maps)
    has_two_values = len(seen.map.knots) == 2
    is_flat = "difference" in parts and "difference" not in used
    if is_flat or has_two_values:
        return seen
    numbers = tuple(maps[part] for part in used)
    both = PastMap(used, numbers, usual_swings(swings))
    return replace(seen, map=both)


def _decide_values(name: str, column: Column, facts: Facts, linear: float) -> Decision:
    """What is decided by the values of a column."""
    seen = Decision(name, facts.kind, None, missing=1.0 - facts.known / facts.rows)
    if facts.kind not in _WORDS:
        return seen.dropped(f"values of type {facts.kind} are not used")
    if not facts.known:
        return seen.dropped("no value")
    if facts.kind == "text":
        return _decide_text(seen, facts)
    seen = replace(seen, low=facts.low, high=facts.high)
    values = column.values
    if facts.kind == "date":
        cycles = DateMap.learn(values)
        if not cycles.width:
            return seen.dropped("all dates are the same hour and weekday")
        note = "hour of day and day of week only, as future dates are all new"
        return replace(seen, map=cycles, note=note)
    if facts.low == facts.high:
        return seen.dropped("constant")
    if facts.grows:
        return seen.dropped("a counter, every further row would be out of range")
    if _names_rows(name, values[np.isfinite(values)]):
        return seen.dropped("looks like an id")
    note = (
        f"{facts.infinite} infinite values taken as missing" if facts.infinite else ""
    )
    numbers = NumberMap.learn(values, linear)
    return replace(seen, map=replace(numbers, infinite=facts.infinite > 0), note=note)


def _decide_text(seen: Decision, facts: Facts) -> Decision:
    number = len(facts.levels)
    rows = facts.known
    if number == 1 and seen.missing == 0.0:
        return seen.dropped("constant")
    if _most_match(_DATE_IN_TEXT, facts.levels):
        note = "it looks like dates, and further rows have others; convert it to use it"
        return seen.dropped(f"{note} (in a text file, write 2026-01-31)")
    notes = []
    if number > 20 and _most_match(_NUMBER_IN_TEXT, facts.levels):
        notes.append("it looks like numbers, convert it to use it as such")
    if number > max(20, _IDENTIFIER * rows):
        notes.insert(0, f"{number} different texts in {rows} rows name rows")
        return seen.dropped("; ".join(notes))
    if facts.grows:
        return seen.dropped("looks like a batch name: new rows always have new ones")
    levels = LevelMap.learn(facts.levels)
    if levels.width == 1:
        return seen.dropped("no two rows share a text")
    *shared, alone = np.bincount(levels.place, minlength=levels.width).tolist()
    if max(shared) > 1:
        notes.append(f"{max(shared)} rare levels are one")
    if alone:
        notes.append(f"{alone} levels of one row each count as never seen")
    return replace(seen, map=levels, note="; ".join(notes))


def holds_dates(column: Column) -> bool:
    """Whether a column has several dates, as such or as texts."""
    if column.levels is not None:
        return len(column.levels) > 1 and _most_match(
            _DATE_IN_TEXT, column.levels.tolist()
        )
    known = column.values[~np.isnan(column.values)]
    return column.kind == "date" and bool(np.any(known != known[:1]))


def _most_match(pattern: str, levels: Collection[str]) -> bool:
    return (
        sum(re.fullmatch(pattern, level) is not None for level in levels)
        > len(levels) / 2
    )


@np.errstate(over="ignore")  # numbers that are infinitely far apart name nothing
def _names_rows(name: str, finite: Array) -> bool:
    """Whether whole numbers, all different, are called an identifier or lie as close as those."""
    values = np.sort(finite)
    if np.any(values != np.round(values)) or np.any(np.diff(values) == 0):
        return False
    word = name.lower().replace("-", "_").split("_")[-1]
    called = word in ("id", "uuid", "guid", "index", "key", "rowid") or name.endswith(
        "Id"
    )
    # Of m measurements within w values about m^2 / 2 w pairs are equal.
    equal = np.sum(_CLOSE**2 / 2 / np.diff(values[::_CLOSE]))
    return bool(called or equal > _EXPECTED_TWICE)
