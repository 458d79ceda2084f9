"""From the columns of a table to rows of numbers: decided once, saved as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.data.rows import row_numbers
from manyone.messages import shortlist
from manyone.models.guards import ALARM, ColumnRange
from manyone.tables.decisions import Decision, decide
from manyone.tables.frames import (
    Columns,
    Frame,
    column_texts,
    read_columns,
    text_style,
)
from manyone.tables.gaps import completed, relations
from manyone.tables.maps import (
    LEVEL_HEIGHT,
    NEW_HEIGHT,
    PARTS,
    DateMap,
    LevelMap,
    Map,
    NumberMap,
    PastMap,
    apply_numbers,
    number_maps,
    number_values,
)
from manyone.tables.past import add_past
from manyone.tables.ranges import Ranges

# What was never seen (a level, a gap) is guarded while at most this share of the rows, over the
# columns guarded, has such of its own: so many normal rows will bring more.
_NEWS = 0.01
# Beyond so many measurements, what is missing is not expected from the others: means stand for it.
_MOST_RELATED = 1000


@dataclass(frozen=True, eq=False)
class Encoder:
    """What was decided about every column of a table, and how to encode further rows.

    Parameters
    ----------
    decisions : tuple of Decision
        One for each column of the table, in its order.
    linear : float
        How numbers are scaled: 1 is linearly, 0 by their ranks.
    indicators : ndarray of int
        Which of the used columns have a coordinate for being missing.
    source : ndarray of shape (D,)
        Number of the used column that each coordinate comes from; -1 for the last one, which is
        set where a column is missing that never was, or in one row only.
    lone : ndarray of int
        Which of the used columns are missing in one row only.
    fill : ndarray of shape (T + 1, D)
        What stands for missing coordinates: the mean of the task, and, last, of all rows; of a
        coordinate with two values the one that is closer to the mean.
    precision : ndarray of shape (m, m) or None
        Inverse covariance, inside tasks, of the coordinates of measurements (columns of numbers
        with more than two values): by it a missing one is expected from the others of its row.
        None where no value was missing, or of more than a thousand measurements.
    """

    decisions: tuple[Decision, ...]
    linear: float
    indicators: Codes
    source: Codes
    lone: Codes
    fill: Array
    precision: Array | None = None

    @classmethod
    def learn(
        cls,
        columns: Columns,
        codes: Codes,
        n_tasks: int,
        linear: float,
        parts: Sequence[str] = PARTS,
    ) -> Encoder:
        """Decide about columns of normal rows of tasks given by number (n,).

        Of columns with a past, `parts` are used.
        """
        decisions = tuple(
            decide(name, column, codes, linear, parts)
            for name, column in columns.items()
        )
        return cls.of(decisions, columns, linear).filled(columns, codes, n_tasks)

    @classmethod
    def of(
        cls, decisions: tuple[Decision, ...], columns: Columns, linear: float
    ) -> Encoder:
        """The encoder that follows from decisions, without what it imputes."""
        used = [decision for decision in decisions if decision.map is not None]
        if not used:
            reasons = "; ".join(
                f"{decision.name!r} is {decision.note}" for decision in decisions[:5]
            )
            raise ValueError(
                f"No column is left to learn from ({reasons}). Give more rows or other columns."
            )
        # A gap that only one row has is news to all others: left out, the row looks as new ones do.
        values = [columns[decision.name].values for decision in used]
        gaps = np.array([np.sum(~np.isfinite(each)) for each in values])
        indicators = np.flatnonzero(gaps > 1)
        widths = [decision.map.width for decision in used if decision.map is not None]
        source = np.concatenate(
            [np.repeat(np.arange(len(used)), widths), indicators, [-1]]
        )
        fill = np.zeros((1, len(source)))
        lone = np.flatnonzero(gaps == 1)
        return cls(decisions, linear, indicators, source, lone, fill)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kinds of the columns that are used, by name, in their order."""
        return {each.name: each.kind for each in self.decisions if each.map is not None}

    @cached_property
    def used(self) -> list[str]:
        """Names of these columns."""
        return list(self.kinds)

    @cached_property
    def maps(self) -> tuple[Map, ...]:
        """How these columns become coordinates, in their order."""
        return tuple(each.map for each in self.decisions if each.map is not None)

    @cached_property
    def starts(self) -> Codes:
        """First coordinate of each of them, and the first after all of them, (p + 1,)."""
        return np.cumsum([0, *(each.width for each in self.maps)])

    @cached_property
    def _numbers(self) -> list[tuple[int, NumberMap]]:
        """Coordinate and map of each number, in the order of `numbers`."""
        return [
            (start + place, number_map)
            for start, each in zip(self.starts.tolist(), self.maps, strict=False)
            for place, number_map in enumerate(number_maps(each))
        ]

    @cached_property
    def _measurements(self) -> tuple[Codes, Array]:
        """Coordinates (m,) of numbers with more than two values, and their ranges (2, m)."""
        scores = {
            coordinate: number_map.scores[[0, -1]]
            for coordinate, number_map in self._numbers
            if len(number_map.scores) > 2
        }
        ranges = np.array([*scores.values()]).reshape(-1, 2).T
        return np.array([*scores], dtype=np.intp), ranges

    @cached_property
    def with_past(self) -> list[str]:
        """Names of the columns whose past is used."""
        pairs = zip(self.used, self.maps, strict=True)
        return [name for name, each in pairs if isinstance(each, PastMap)]

    def filled(self, columns: Columns, codes: Codes, n_tasks: int) -> Encoder:
        """The encoder that imputes by these rows: their means, and how columns are related."""
        Z = self._coordinates(columns)
        # Rounded sums depend on the order of rows: take one that all tables share.
        order = np.lexsort((row_numbers(np.nan_to_num(Z)), codes))
        Z = Z[order]
        codes = codes[order]
        is_known = ~np.isnan(Z)
        sums, counts = np.zeros((2, n_tasks, Z.shape[1]))
        np.add.at(counts, codes, is_known)
        np.add.at(sums, codes, np.where(is_known, Z, 0.0))
        fill = self._fill(sums, counts)
        places = self._measurements[0]
        has_gaps = len(self.indicators) or len(self.lone)
        precision = None
        if has_gaps and 1 < len(places) <= _MOST_RELATED:
            about = Z[:, places] - fill[codes][:, places]
            precision = relations(about, len(codes) - len(np.unique(codes)))
        return replace(self, fill=fill, precision=precision)

    def _fill(self, sums: Array, counts: Array) -> Array:
        """What stands for missing coordinates, from sums of known ones and their counts (T, D)."""
        overall = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1.0)
        fill = np.where(counts > 0, sums / np.maximum(counts, 1.0), overall)
        fill = np.vstack([fill, overall])
        for k, column_map in enumerate(self.maps):
            ends = np.empty(0)
            if isinstance(column_map, NumberMap):
                ends = column_map.scores
            elif isinstance(column_map, LevelMap):
                ends = np.array([0.0, LEVEL_HEIGHT])
            if len(ends) == 2:
                places = slice(self.starts[k], self.starts[k + 1])
                fill[:, places] = np.where(
                    fill[:, places] > ends.mean(), ends[1], ends[0]
                )
        return fill

    def learned_again(self, columns: Columns, codes: Codes, n_tasks: int) -> Encoder:
        """The same use of the same columns, learned from other rows."""
        decisions = []
        for before in self.decisions:
            if before.map is None:
                # No value of it is left, so none of rows that are gone either.
                decisions.append(replace(before, low=np.nan, high=np.nan))
                continue
            parts: tuple[str, ...] = ("level",)
            if isinstance(before.map, PastMap):
                parts = before.map.parts
            column = columns[before.name]
            decisions.append(decide(before.name, column, codes, self.linear, parts))
        encoder = Encoder.of(tuple(decisions), columns, self.linear)
        return encoder.filled(columns, codes, n_tasks)

    def numbers(self, columns: Columns) -> Array:
        """Values of the columns of numbers, and what is used of their past, (n, p)."""
        pairs = zip(self.used, self.maps, strict=True)
        values = [
            number_values(each, columns[name])
            for name, each in pairs
            if number_maps(each)
        ]
        n_rows = len(columns[self.used[0]].values)
        return np.column_stack([np.empty((n_rows, 0)), *values])

    def guard(self, ranges: Ranges) -> ColumnRange:
        """The guard of encoded rows that follows from ranges of the columns of numbers.

        A level never seen, or a value missing where none ever was, is out of range at once; where
        such news are an everyday matter, they are not guarded.
        """
        lower, upper = np.zeros((2, len(self.source)))
        below, above = np.full((2, len(self.source)), np.inf)
        for number, (coordinate, number_map) in enumerate(self._numbers):
            ends = np.array([[ranges.lower[number]], [ranges.upper[number]]])
            mapped = apply_numbers([number_map], ends)
            lower[coordinate], upper[coordinate] = mapped[:, 0]
            below[coordinate] = number_map.slopes[0] * ranges.below[number]
            above[coordinate] = number_map.slopes[1] * ranges.above[number]
        # How often normal rows bring such news, and the coordinate that says so.
        missing = {each.name: each.missing for each in self.decisions}
        gaps = sum(missing[self.used[k]] for k in self.lone)
        news = [(gaps, len(self.source) - 1)]
        for last, column_map in zip(self.starts[1:] - 1, self.maps, strict=True):
            if isinstance(column_map, LevelMap):
                news.append((column_map.singletons, last))
        shares, places = map(list, zip(*sorted(news), strict=True))
        upper[places] = LEVEL_HEIGHT
        step = (NEW_HEIGHT - LEVEL_HEIGHT) / ALARM
        above[places] = np.where(np.cumsum(shares) <= _NEWS, step, np.inf)
        return ColumnRange(lower, upper, below, above)

    def encode(self, columns: Columns, codes: Codes) -> Array:
        """Rows as numbers.

        Parameters
        ----------
        columns : dict of str to Column
            With every column that is used.
        codes : ndarray of shape (n,)
            Number of each row's task; -1 for one that is not known.

        Returns
        -------
        ndarray of shape (n, D)
            Finite.
        """
        Z = self._coordinates(columns)
        missing = np.isnan(Z)
        if missing.any():
            rows, places = np.nonzero(missing)
            Z[rows, places] = self.fill[codes[rows], places]
            if self.precision is not None:
                self._expect(Z, missing, codes, self.precision)
        return Z

    def _expect(self, Z: Array, missing: Mask, codes: Codes, precision: Array) -> None:
        """Put what is expected, given the others, where measurements of known tasks are missing.

        It stays within what the column has had: a wild value makes no other one wild.
        """
        places, (low, high) = self._measurements
        rows = np.flatnonzero(missing[:, places].any(axis=1) & (codes >= 0))
        here = np.ix_(rows, places)
        means = self.fill[np.ix_(codes[rows], places)]
        expected = means + completed(Z[here] - means, missing[here], precision)
        Z[here] = np.where(missing[here], np.clip(expected, low, high), Z[here])

    def _coordinates(self, columns: Columns) -> Array:
        """Coordinates (n, D), NaN where values are missing."""
        starts = self.starts
        Z = np.empty((len(columns[self.used[0]].values), len(self.source)))
        if self._numbers:
            places = [place for place, _ in self._numbers]
            maps = [number_map for _, number_map in self._numbers]
            Z[:, places] = apply_numbers(maps, self.numbers(columns))
        for k, column_map in enumerate(self.maps):
            column = columns[self.used[k]]
            if isinstance(column_map, LevelMap | DateMap):
                Z[:, starts[k] : starts[k + 1]] = column_map.apply(column)
        missing = np.isnan(Z[:, starts[:-1]])
        Z[:, starts[-1] : -1] = missing[:, self.indicators] * LEVEL_HEIGHT
        height = np.full(len(self.maps), NEW_HEIGHT)
        height[self.lone] = LEVEL_HEIGHT
        height[self.indicators] = 0.0
        Z[:, -1] = (missing * height).max(axis=1)
        return Z

    def read(self, frame: Frame, names: Sequence[str] | None = None) -> Columns:
        """The columns that are used, or some of them, or what is wrong with them, by name."""
        wanted = self.used if names is None else names
        present = set(frame.columns)
        columns = read_columns(frame, [name for name in wanted if name in present])
        return self.checked(add_past(columns, frame), wanted)

    def checked(self, columns: Columns, names: Sequence[str] | None = None) -> Columns:
        """The columns that are used, or some of them, each of the kind that it was."""
        wanted = self.used if names is None else names
        lost = [name for name in wanted if name not in columns]
        if lost:
            raise ValueError(
                f"The table has no column {shortlist(lost, 3)}, which the model was fitted with. "
                "Add it, empty where nobody knows."
            )
        used = [decision for decision in self.decisions if decision.name in wanted]
        texts = {
            decision.name: column_texts(columns[decision.name])
            for decision in used
            if decision.kind == "number" and columns[decision.name].kind == "text"
        }
        style = text_style(texts)
        return {
            decision.name: replace(
                decision.checked(columns[decision.name], style),
                past=columns[decision.name].past,
                usual=columns[decision.name].usual,
            )
            for decision in used
        }

    @cached_property
    def table(self) -> dict[str, Labels]:
        """Everything that was decided, column by column."""
        rows = [
            {
                **vars(decision),
                "used": decision.map is not None,
                "features": 0 if decision.map is None else decision.map.width,
            }
            for decision in self.decisions
        ]
        fields = ("name", "kind", "used", "features", "missing", "low", "high", "note")
        return {field: np.array([row[field] for row in rows]) for field in fields}
