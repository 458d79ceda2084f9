"""What is decided about one column: use it, and how, or leave it out, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from manyone._types import Array, Codes
from manyone.tablefiles.values import Kind, Style, whole_number
from manyone.tables.columns import Column, text_column
from manyone.tables.errors import TableError
from manyone.tables.maps import (
    PARTS,
    VALUES,
    Curve,
    DateMap,
    LevelMap,
    Map,
    NumberMap,
)

# Whole numbers that are all different are identifiers if, as measurements, more pairs
# than this should have been equal.
_EXPECTED_TWICE = 10.0
# A column that grows over so many rows is a counter: one of 8! = 40,320 columns without
# an order does so by chance. So many different texts may be names of batches.
_COUNTER_ROWS = 8
# Texts with at most so many different values name kinds of rows, not rows.
_FEW_LEVELS = 20
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
    gaps : int
        How many these are.
    low, high : float
        Of numbers, the range seen.
    note : str
        Why it is not used, or what there is to say.
    """

    name: str
    kind: str
    map: Map | None
    missing: float
    gaps: int
    low: float = np.nan
    high: float = np.nan
    note: str = ""

    @property
    def used(self) -> bool:
        """Whether the column is used."""
        return self.map is not None

    @property
    def features(self) -> int:
        """Number of its coordinates."""
        return 0 if self.map is None else self.map.width

    def dropped(self, why: str) -> Decision:
        """The decision not to use the column."""
        return replace(self, note=f"dropped: {why}")

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
            f"Column {self.name!r} was {_WORDS.get(self.kind, self.kind)} when the "
            f"model was fitted, and is {_WORDS.get(kind, kind)} now",
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
    codes: Codes,
    linear: float,
    parts: Sequence[str] = PARTS,
) -> Decision:
    """Look at a column of normal rows, in their order, of tasks given by number (n,).

    `linear` says how numbers are scaled, see :class:`NumberMap`, and `parts` what is
    used of columns with a past.
    """
    is_known = np.isfinite(column.values)
    n_known = int(is_known.sum())
    missing = 1.0 - n_known / len(is_known)
    decision = Decision(name, column.kind, None, missing, len(is_known) - n_known)
    if column.kind not in _WORDS:
        return decision.dropped(f"values of type {column.kind} are not used")
    if n_known == 0:
        return decision.dropped("no value")
    if column.levels is not None:
        return _decide_text(decision, column, column.levels.tolist(), codes)
    finite = column.values[is_known]
    decision = replace(decision, low=float(finite.min()), high=float(finite.max()))
    if column.kind == "date":
        cycles = DateMap.learn(column.values)
        if not cycles.width:
            return decision.dropped("no hour of day or weekday that varies comes again")
        note = "hour of day and day of week only, as future dates are all new"
        return replace(decision, map=cycles, note=note)
    if decision.low == decision.high:
        return decision.dropped("constant")
    if is_known.all() and grows(finite, codes):
        return decision.dropped("a counter, every further row would be out of range")
    if _names_rows(name, finite):
        return decision.dropped("looks like an id")
    infinite = int(np.isinf(column.values).sum())
    note = f"{infinite} infinite values taken as missing" if infinite else ""
    values = NumberMap(VALUES, (Curve.learn(column.values, linear),), infinite > 0)
    numbers = _with_past(values, column, linear, parts)
    return replace(decision, map=numbers, note=note)


def _with_past(
    values: NumberMap, column: Column, linear: float, parts: Sequence[str]
) -> NumberMap:
    """What is used of the past of a column, beside or instead of its values."""
    (curve,) = values.curves
    if column.past is None or len(curve.knots) == 2:
        return values
    curves = {"level": curve}
    made = dict(zip(PARTS[1:], column.past.T, strict=True))
    if column.usual is not None:
        made["level"] = column.level
    for part, numbers in made.items():
        if len(np.unique(numbers[np.isfinite(numbers)])) > 2:
            if part == "swing":
                curves[part] = Curve.learn_swing(numbers)
            else:
                curves[part] = Curve.learn(numbers, linear)
    used = tuple(part for part in PARTS if part in parts and part in curves)
    if used in ((), ("level",)) and column.usual is None:
        return values
    used = used or ("level",)
    return replace(values, parts=used, curves=tuple(curves[part] for part in used))


def _decide_text(
    decision: Decision, column: Column, texts: list[str], codes: Codes
) -> Decision:
    is_known = ~np.isnan(column.values)
    row_levels = column.values[is_known].astype(np.intp)
    number = len(texts)
    if number == 1 and len(row_levels) == len(is_known):
        return decision.dropped("constant")
    if _most_match(_DATE_IN_TEXT, texts):
        note = "it looks like dates, and further rows have others; convert it to use it"
        return decision.dropped(f"{note} (in a text file, write 2026-01-31)")
    notes = []
    if number > _FEW_LEVELS and _most_match(_NUMBER_IN_TEXT, texts):
        notes.append("it looks like numbers, convert it to use it as such")
    if number > max(_FEW_LEVELS, len(row_levels) / 2):
        notes.insert(0, f"{number} different texts in {len(row_levels)} rows name rows")
        return decision.dropped("; ".join(notes))
    if never_return(row_levels, codes[is_known]):
        return decision.dropped(
            "looks like a batch name: new rows always have new ones"
        )
    levels = LevelMap.learn(texts, np.bincount(row_levels, minlength=number))
    if levels.width == 1:
        return decision.dropped("no two rows share a text")
    *shared, alone = np.bincount(levels.place, minlength=levels.width).tolist()
    if max(shared) > 1:
        notes.append(f"{max(shared)} rare levels are one")
    if alone:
        notes.append(f"{alone} levels of one row each count as never seen")
    return replace(decision, map=levels, note="; ".join(notes))


@np.errstate(over="ignore")  # numbers may be infinitely far apart
def grows(values: Array, codes: Codes) -> bool:
    """Whether values (n,) grow like a counter: from row to row, or within each task.

    Further rows would have numbers beyond all that were seen.
    """
    if len(values) >= _COUNTER_ROWS and np.all(np.diff(values) > 0):
        return True
    order = np.argsort(codes, kind="stable")
    is_same_task = np.diff(codes[order]) == 0
    steps = np.diff(values[order])[is_same_task]
    # Growing pairs of rows are no counter yet.
    is_long = np.bincount(codes).max() >= 3 and len(steps) >= _COUNTER_ROWS
    return bool(is_long and np.all(steps > 0))


def never_return(levels: Codes, codes: Codes) -> bool:
    """Whether texts are like names of batches: each stands in one run of rows.

    The run is one of the table or of a task. Further rows would have new texts.
    """
    order = np.argsort(codes, kind="stable")
    is_new_task = np.diff(codes[order]) != 0
    is_new_text = np.diff(levels[order]) != 0
    # What never changes within a task is a fact about the task.
    changes = int(np.sum(is_new_text & ~is_new_task))
    number = len(np.unique(levels))
    if min(number, changes) < _COUNTER_ROWS:
        return False
    runs = np.count_nonzero(np.diff(levels))
    task_runs = np.count_nonzero(is_new_text | is_new_task)
    return bool(number > min(runs, task_runs))


def holds_dates(column: Column) -> bool:
    """Whether a column has several dates, as such or as texts."""
    if column.levels is not None:
        return len(column.levels) > 1 and _most_match(
            _DATE_IN_TEXT, column.levels.tolist()
        )
    dates = column.values[~np.isnan(column.values)]
    return column.kind == "date" and bool(np.any(dates != dates[:1]))


def _most_match(pattern: str, levels: Collection[str]) -> bool:
    """Whether more than half of different texts match a pattern."""
    return (
        sum(re.fullmatch(pattern, level) is not None for level in levels)
        > len(levels) / 2
    )


@np.errstate(over="ignore")  # numbers that are infinitely far apart name nothing
def _names_rows(name: str, finite: Array) -> bool:
    """Whether whole numbers, all different, look like identifiers."""
    values = np.sort(finite)
    if np.any(values != np.round(values)) or np.any(np.diff(values) == 0):
        return False
    word = name.lower().replace("-", "_").split("_")[-1]
    called = word in ("id", "uuid", "guid", "index", "key", "rowid") or name.endswith(
        "Id"
    )
    # Of m measurements within w values about m^2 / 2 w pairs are equal: here of each
    # ten that follow each other.
    equal = np.sum(10**2 / 2 / np.diff(values[::10]))
    return bool(called or equal > _EXPECTED_TWICE)
