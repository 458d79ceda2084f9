"""From the columns of a table to rows of numbers: decided once, saved as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.messages import shortlist
from manyone.models.guards import ALARM, ColumnRange
from manyone.tables.decisions import Decision, decide
from manyone.tables.facts import Facts
from manyone.tables.frames import (
    Columns,
    Frame,
    Labels,
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
    maps : tuple of maps
        Of the columns that are used, in their order.
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
    maps: tuple[Map, ...]
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
        facts = {name: Facts.of(column, codes) for name, column in columns.items()}
        decisions = tuple(
            decide(name, column, facts[name], linear, parts)
            for name, column in columns.items()
        )
        return cls.of(decisions, facts, linear).filled(columns, codes, n_tasks)

    @classmethod
    def of(
        cls, decisions: tuple[Decision, ...], facts: dict[str, Facts], linear: float
    ) -> Encoder:
        """The encoder that follows from decisions, without what it imputes."""
        used = [decision.name for decision in decisions if decision.used]
        if not used:
            reasons = "; ".join(
                f"{decision.name!r} is {decision.note}" for decision in decisions[:5]
            )
            raise ValueError(
                f"No column is left to learn from ({reasons}). Give more rows or other columns."
            )
        maps = tuple(decision.map for decision in decisions if decision.map is not None)
        # A gap that only one row has is news to all others: left out, the row looks as new ones do.
        gaps = np.array([facts[name].rows - facts[name].known for name in used])
        indicators = np.flatnonzero(gaps > 1)
        lone = np.flatnonzero(gaps == 1)
        source = [np.full(each.width, number) for number, each in enumerate(maps)]
        places = np.concatenate([*source, indicators, [-1]])
        return cls(
            decisions,
            linear,
            maps,
            indicators,
            places,
            lone,
            np.zeros((1, len(places))),
        )

    def filled(self, columns: Columns, codes: Codes, n_tasks: int) -> Encoder:
        """The encoder that imputes by these rows: their means, and how columns are related."""
        Z = self._coordinates(columns)[0]
        is_known = ~np.isnan(Z)
        sums, counts = np.zeros((2, n_tasks, Z.shape[1]))
        np.add.at(counts, codes, is_known)
        np.add.at(sums, codes, np.where(is_known, Z, 0.0))
        fill = self._fill(sums, counts)
        places = self._measurements()[0]
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
            levels = [0.0, LEVEL_HEIGHT] * isinstance(column_map, LevelMap)
            values = (
                column_map.scores.tolist()
                if isinstance(column_map, NumberMap)
                else levels
            )
            if len(values) == 2:
                means = fill[:, self.source == k]
                fill[:, self.source == k] = np.where(
                    means > sum(values) / 2, values[1], values[0]
                )
        return fill

    @property
    def compares_in_time(self) -> bool:
        """Whether values are compared with earlier ones of their task."""
        return any(
            isinstance(each, PastMap) and "difference" in each.parts
            for each in self.maps
        )

    def learned_again(self, columns: Columns, codes: Codes, n_tasks: int) -> Encoder:
        """The same use of the same columns, learned from other rows."""
        facts = {name: Facts.of(columns[name], codes) for name in self.used}
        # Of columns that were dropped no value is left, so none of rows that are gone either.
        decisions = tuple(
            replace(seen, low=np.nan, high=np.nan)
            if seen.map is None
            else decide(
                seen.name,
                columns[seen.name],
                facts[seen.name],
                self.linear,
                (*seen.map.parts, "swing")
                if isinstance(seen.map, PastMap)
                else ("level",),
            )
            for seen in self.decisions
        )
        return Encoder.of(decisions, facts, self.linear).filled(columns, codes, n_tasks)

    def numbers(self, columns: Columns) -> Array:
        """Finite values of the columns of numbers (n, p), NaN where there is none."""
        values = self._number_values(columns)
        return np.where(np.isfinite(values), values, np.nan)

    def _number_values(self, columns: Columns) -> Array:
        """Values of the columns of numbers, and what is used of their past, (n, p)."""
        pairs = zip(self.used, self.maps, strict=True)
        n = len(columns[self.used[0]].values)
        return np.column_stack(
            [
                np.empty((n, 0)),
                *(
                    number_values(each, columns[name])
                    for name, each in pairs
                    if number_maps(each)
                ),
            ]
        )

    def _number_places(self) -> list[tuple[int, NumberMap]]:
        """Coordinate and map of each number, in the order of `numbers`."""
        starts = np.cumsum([0, *(each.width for each in self.maps)]).tolist()
        return [
            (start + place, one)
            for start, each in zip(starts, self.maps, strict=False)
            for place, one in enumerate(number_maps(each))
        ]

    def guard(self, ranges: Ranges) -> ColumnRange:
        """The guard of encoded rows that follows from ranges of the columns of numbers.

        A level never seen, or a value missing where none ever was, is out of range at once; where
        such news are an everyday matter, they are not guarded.
        """
        lower = np.zeros(len(self.source))
        upper = np.zeros(len(self.source))
        below, above = np.full((2, len(self.source)), np.inf)
        gaps = [decision.missing for decision in self.decisions if decision.used]
        place = 0
        news = [(sum(gaps[k] for k in self.lone), len(self.source) - 1)]
        for number, (coordinate, one) in enumerate(self._number_places()):
            ends = np.array([ranges.lower[number], ranges.upper[number]])
            mapped = apply_numbers([one], ends[:, None])
            lower[coordinate], upper[coordinate] = mapped[:, 0]
            below[coordinate] = one.slopes[0] * ranges.below[number]
            above[coordinate] = one.slopes[1] * ranges.above[number]
        for column_map in self.maps:
            place += column_map.width
            if isinstance(column_map, LevelMap):
                news.append((column_map.singletons, place - 1))
            if isinstance(column_map, PastMap):
                news.append((0.0, place - 1))
        shares, places = map(list, zip(*sorted(news), strict=True))
        upper[places] = LEVEL_HEIGHT
        step = (NEW_HEIGHT - LEVEL_HEIGHT) / ALARM
        above[places] = np.where(np.cumsum(shares) <= _NEWS, step, np.inf)
        return ColumnRange(lower, upper, below, above)

    @property
    def used(self) -> list[str]:
        """Names of the columns that are used."""
        return [decision.name for decision in self.decisions if decision.used]

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
        Z, gaps = self._coordinates(columns)
        if gaps:
            missing = np.isnan(Z)
            rows, places = np.nonzero(missing)
            Z[rows, places] = self.fill[codes[rows], places]
            if self.precision is not None:
                self._expect(Z, missing, codes, self.precision)
        return Z

    def _expect(self, Z: Array, missing: Mask, codes: Codes, precision: Array) -> None:
        """Put what is expected, given the others, where measurements of known tasks are missing.

        It stays within what the column has had: a wild value makes no other one wild.
        """
        places, low, high = self._measurements()
        rows = np.flatnonzero(missing[:, places].any(axis=1) & (codes >= 0))
        here = np.ix_(rows, places)
        means = self.fill[np.ix_(codes[rows], places)]
        expected = means + completed(Z[here] - means, missing[here], precision)
        Z[here] = np.where(missing[here], np.clip(expected, low, high), Z[here])

    def _measurements(self) -> tuple[Codes, Array, Array]:
        """Coordinates (m,) of numbers with more than two values, and the ends of their ranges."""
        scores = {
            coordinate: one.scores[[0, -1]]
            for coordinate, one in self._number_places()
            if len(one.scores) > 2
        }
        low, high = np.array([*scores.values()]).reshape(-1, 2).T
        return np.array([*scores], dtype=np.intp), low, high

    def _coordinates(self, columns: Columns) -> tuple[Array, bool]:
        """Coordinates with NaN where values are missing, and whether any is."""
        names = self.used
        maps = self.maps
        starts = np.concatenate([[0], np.cumsum([each.width for each in maps])])
        n = len(columns[names[0]].values)
        Z = np.empty((n, len(self.source)))
        numbers = self._number_places()
        if numbers:
            places = [place for place, _ in numbers]
            values = self._number_values(columns)
            Z[:, places] = apply_numbers([one for _, one in numbers], values)
        for k, column_map in enumerate(maps):
            if isinstance(column_map, LevelMap | DateMap):
                Z[:, starts[k] : starts[k + 1]] = column_map.apply(columns[names[k]])
            if isinstance(column_map, PastMap):
                Z[:, starts[k + 1] - 1] = column_map.apply_swing(columns[names[k]])
        missing = np.isnan(Z[:, starts[:-1]])
        gaps = bool(missing.any())
        Z[:, starts[-1] : -1] = missing[:, self.indicators] * LEVEL_HEIGHT
        height = np.full(len(maps), NEW_HEIGHT)
        height[self.lone] = LEVEL_HEIGHT
        height[self.indicators] = 0.0
        Z[:, -1] = (missing * height).max(axis=1) if gaps else 0.0
        return Z, gaps

    def read(self, frame: Frame) -> Columns:
        """The columns that are used, or what is wrong with them, by name."""
        return self.checked(add_past(self._found(frame, self.used), frame))

    def read_before_past(self, frame: Frame) -> Array:
        """Values (n, p) of the columns whose past is used."""
        names = self.with_past
        columns = self.checked(self._found(frame, names), names)
        return np.column_stack([columns[name].values for name in names])

    def _found(self, frame: Frame, names: Sequence[str]) -> Columns:
        """Those of some columns that a frame has."""
        known = set(frame.columns)
        return read_columns(frame, [name for name in names if name in known])

    @property
    def with_past(self) -> list[str]:
        """Names of the columns whose past is used."""
        return [
            decision.name
            for decision in self.decisions
            if isinstance(decision.map, PastMap)
        ]

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
            )
            for decision in used
        }

    def table(self) -> dict[str, Labels]:
        """Everything that was decided, column by column."""
        fields = ("name", "kind", "used", "features", "missing", "low", "high", "note")
        rows = [decision.summary() for decision in self.decisions]
        return {field: np.array([row[field] for row in rows]) for field in fields}
