"""What all rows of a column say about it; facts of parts of a table add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyone._types import Codes
from manyone.tables.frames import Column, grouped_numbers

# So many rows have to grow one after the other, or texts to follow each other, before a column is
# taken for a counter.
_COUNTER_ROWS = 8
#: Different texts that are counted where a table comes in parts.
MOST_TEXTS = 10_000


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about a column of normal rows.

    Attributes
    ----------
    kind : str
        As in :class:`manyone.tables.frames.Column`.
    rows, missing, infinite : int
        All rows, those without a value, and those with an infinite one.
    low, high : float
        Range of the finite values; infinite where there is none.
    grows : bool or None
        Whether values grow from row to row, of the table or of each task; of texts, whether they
        come one after the other and never return, as names of batches do. None: nobody can tell.
    levels : dict of str to int or None
        How often each text occurs; None where there are too many.
    """

    kind: str
    rows: int
    missing: int
    infinite: int
    low: float
    high: float
    grows: bool | None
    levels: dict[str, int] | None

    @classmethod
    def of(cls, column: Column, codes: Codes) -> Facts:
        """Facts about a column whose rows belong to tasks given by number (n,), in their order."""
        values, levels = column.values, {}
        finite = values[np.isfinite(values)]
        if column.levels is not None:
            counts = np.bincount(finite.astype(np.intp), minlength=len(column.levels))
            levels = dict(zip(column.levels.tolist(), counts.tolist(), strict=True))
        missing, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
        grows = _only_grows(values, codes) if column.levels is None else _pass(values, codes)
        return cls(column.kind, len(values), missing, infinite, low, high, grows, levels)

    @property
    def known(self) -> int:
        """Rows with a finite value."""
        return self.rows - self.missing - self.infinite

    def merged(self, other: Facts, name: str) -> Facts:
        """Facts about the rows of both, of a column of some name."""
        levels, grows = None, _both_grow(self.grows, other.grows)
        if self.levels is not None and other.levels is not None:
            levels = dict(Counter(self.levels) + Counter(other.levels))
            # One text may go on where the next part begins.
            grows = grows and len(levels) >= len(self.levels) + len(other.levels) - 1
        kind = _common_kind(self, other, name)
        rows, missing = self.rows + other.rows, self.missing + other.missing
        infinite = self.infinite + other.infinite
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Facts(kind, rows, missing, infinite, low, high, grows, levels).bounded()

    def bounded(self) -> Facts:
        """Without the texts where they are too many to be counted."""
        many = self.levels is not None and len(self.levels) > MOST_TEXTS
        return replace(self, levels=None) if many else self


def _common_kind(one: Facts, other: Facts, name: str) -> str:
    for first, second in ((one, other), (other, one)):
        if first.kind == second.kind or second.missing == second.rows:
            return first.kind
    if {one.kind, other.kind} == {"number", "boolean"}:
        return "number"
    raise ValueError(
        f"Column {name!r} is {one.kind} in one part of the table and {other.kind} in another: "
        "convert it."
    )


def _both_grow(one: bool | None, other: bool | None) -> bool | None:
    if one is None or other is None:
        return other if one is None else one
    return one and other


def _only_grows(values: Any, codes: Codes) -> bool | None:
    """Whether values grow from row to row, of the table or of each task."""
    if not np.isfinite(values).all():
        return False
    if len(values) < _COUNTER_ROWS:
        return None
    if np.all(np.diff(values) > 0):
        return True
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order]) == 0
    steps = np.diff(values[order])[same]
    if grouped_numbers(codes).max() + 1 < 3 or len(steps) < _COUNTER_ROWS:
        return None
    return bool(np.all(steps > 0))


def _pass(texts: Any, codes: Codes) -> bool | None:
    """Whether texts, given by number (n,), come in one run each, of the table or of one task."""
    known = np.isfinite(texts)
    texts, codes = texts[known], codes[known]
    order = np.argsort(codes, kind="stable")
    other_task, other_text = np.diff(codes[order]) != 0, np.diff(texts[order]) != 0
    number = len(np.unique(texts))
    if number not in (1 + np.sum(np.diff(texts) != 0), 1 + np.sum(other_text | other_task)):
        return False
    # What never changes within a task is a fact about the task.
    return True if min(number, np.sum(other_text & ~other_task)) >= _COUNTER_ROWS else None
