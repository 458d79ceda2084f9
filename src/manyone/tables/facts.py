"""What all rows of a column say about it; facts of parts of a table add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from manyone._types import Codes
from manyone.tables.frames import Column
from manyone.tables.growth import Growth

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
    growth : Growth or None
        None where values do not grow, and texts return.
    levels : dict of str to int or None
        How often each text occurs; None where there are too many.
    """

    kind: str
    rows: int
    missing: int
    infinite: int
    low: float
    high: float
    growth: Growth | None
    levels: dict[str, int] | None

    @classmethod
    def of(cls, column: Column, codes: Codes, tasks: Sequence[Hashable]) -> Facts:
        """Facts about a column whose rows, in their order, are of tasks given by number (n,)."""
        values = column.values
        levels = {}
        finite = values[np.isfinite(values)]
        if column.levels is not None:
            counts = np.bincount(finite.astype(np.intp), minlength=len(column.levels))
            levels = dict(zip(column.levels.tolist(), counts.tolist(), strict=True))
        missing = int(np.isnan(values).sum())
        infinite = int(np.isinf(values).sum())
        low = float(finite.min(initial=np.inf))
        high = float(finite.max(initial=-np.inf))
        growth = Growth.of(column, codes, tasks)
        return cls(
            column.kind, len(values), missing, infinite, low, high, growth, levels
        )

    @property
    def known(self) -> int:
        """Rows with a finite value."""
        return self.rows - self.missing - self.infinite

    @property
    def grows(self) -> bool:
        """Whether further rows will have values, or texts, beyond all that were seen."""
        growth = self.growth
        if growth is None or not growth.ends:
            return False
        if (
            self.kind == "text"
        ):  # what never changes within a task is a fact about the task
            return min(len(self.levels or ()), growth.changes) >= _COUNTER_ROWS
        longest = max(
            rows for task, (_, _, rows) in growth.ends.items() if task is not None
        )
        by_task = growth.tasks and longest >= 3 and growth.changes >= _COUNTER_ROWS
        return by_task or (growth.table and self.rows >= _COUNTER_ROWS)

    def merged(self, other: Facts, name: str) -> Facts:
        """Facts about the rows of both, those of `other` being later, of a column of some name."""
        levels = None
        growth = None
        shared = None
        if self.levels is not None and other.levels is not None:
            levels = dict(Counter(self.levels) + Counter(other.levels))
            shared = (
                len(self.levels) + len(other.levels) - len(levels) if levels else None
            )
        if self.growth is not None and other.growth is not None:
            growth = self.growth.followed(other.growth, shared)
        kind = _common_kind(self, other, name)
        rows = self.rows + other.rows
        missing = self.missing + other.missing
        infinite = self.infinite + other.infinite
        low = min(self.low, other.low)
        high = max(self.high, other.high)
        return Facts(kind, rows, missing, infinite, low, high, growth, levels).bounded()

    def bounded(self) -> Facts:
        """Without the texts where they are too many to be counted."""
        many = self.levels is not None and len(self.levels) > MOST_TEXTS
        return replace(self, levels=None, growth=None) if many else self


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
