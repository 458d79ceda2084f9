"""From the columns of a table to rows of numbers, as was decided once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.data.rows import row_numbers
from manyone.messages import shortlist
from manyone.models.column_range import ALARM, ColumnRange
from manyone.tables.columns import Columns, column_texts, text_style
from manyone.tables.decisions import Decision, decide
from manyone.tables.frames import Frame, read_columns
from manyone.tables.gaps import completed, relations
from manyone.tables.maps import (
    LEVEL_HEIGHT,
    NEW_HEIGHT,
    PARTS,
    VALUES,
    Curve,
    LevelMap,
    Map,
    NumberMap,
    apply_curves,
)

# Levels and gaps that were never seen are guarded as long as at most this share of
# normal rows brings one. As many rows do as have one that no other training row has.
_NEWS = 0.01
# The level of a column with a past counts as at most so many standard deviations beyond
# those of its task, if other tasks have had such levels. How it got there is told by
# its difference.
_FARTHEST_LEVEL = 3.0
# Rows from which on a task shows where its levels lie, and how far it differs from its
# past.
_KNOWN_ROWS = 50
# Values count in the past of later rows up to so many times the farthest difference of
# training rows. (With 1, differences of usual rows are beyond it, too: columns from the
# past add half of the time of scores, `benchmarks/bench_history.py speed`.)
_FARTHEST_COUNTED = 1.5
# Of more measurements a missing one is not expected from the others: the mean stands
# for it.
_MOST_RELATED = 1000


class Layout(NamedTuple):
    """Which coordinate is what, as it follows from decisions.

    Attributes
    ----------
    kinds : dict of str to str
        Of the p columns that are used, by name, in the order of names.
    used : list of str
        Their names.
    maps : tuple of map
        How they become coordinates.
    starts : ndarray of shape (p + 1,)
        First coordinate of each of them, and the first after all of them.
    gaps : ndarray of shape (p,)
        Training rows without a value of each of them.
    indicators : ndarray of int
        Which of them have a coordinate for being missing. A gap that only one row has
        is news to the others: left out, the row looks like a new one with a gap.
    source : ndarray of shape (D,)
        Number of the used column that each coordinate comes from. It is -1 for the last
        one, which is set where a column is missing that never was, or in one row only.
    curves : dict of int to Curve
        Of each coordinate that is a number.
    measurements : ndarray of shape (m,)
        Coordinates of numbers with more than two values.
    ranges : ndarray of shape (2, m)
        Theirs.
    with_past : list of str
        Columns whose past is used.
    levels : ndarray of shape (L,)
        Coordinates of levels that have a difference, which is the next one.
    """

    kinds: dict[str, str]
    used: list[str]
    maps: tuple[Map, ...]
    starts: Codes
    gaps: Codes
    indicators: Codes
    source: Codes
    curves: dict[int, Curve]
    measurements: Codes
    ranges: Array
    with_past: list[str]
    levels: Codes

    @classmethod
    def of(cls, decisions: Sequence[Decision]) -> Layout:
        """What follows from decisions about all columns.

        Coordinates are in the order of the names of their columns, so that tables with
        the same columns in another order have the same model.
        """
        used = sorted((each for each in decisions if each.used), key=attrgetter("name"))
        maps = tuple(each.map for each in used if each.map is not None)
        starts = np.cumsum([0, *(each.width for each in maps)])
        gaps = np.array([each.gaps for each in used])
        indicators = np.flatnonzero(gaps > 1)
        of_values = np.repeat(np.arange(len(maps)), np.diff(starts))
        curves: dict[int, Curve] = {}
        with_past = []
        levels = []
        for each, column_map, start in zip(used, maps, starts.tolist(), strict=False):
            curves |= {start + k: curve for k, curve in enumerate(column_map.curves)}
            if isinstance(column_map, NumberMap) and column_map.has_past:
                with_past.append(each.name)
                if column_map.parts[:2] == PARTS[:2]:
                    levels.append(start)
        ends = {
            place: curve.scores[[0, -1]]
            for place, curve in curves.items()
            if len(curve.scores) > 2
        }
        return cls(
            kinds={each.name: each.kind for each in used},
            used=[each.name for each in used],
            maps=maps,
            starts=starts,
            gaps=gaps,
            indicators=indicators,
            source=np.concatenate([of_values, indicators, [-1]]),
            curves=curves,
            measurements=np.array([*ends], dtype=np.intp),
            ranges=np.array([*ends.values()]).reshape(-1, 2).T,
            with_past=with_past,
            levels=np.array(levels, dtype=np.intp),
        )


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns rows of a table into numbers, as was decided about every column.

    Parameters
    ----------
    decisions : tuple of Decision
        One for each column of the table, in its order.
    linear : float
        How numbers are scaled: 1 is linearly, 0 by their ranks.
    fill : ndarray of shape (T + 1, D)
        What stands for missing coordinates: the mean of the task, and, last, of all
        rows; of a coordinate with two values the one that is closer to the mean.
    precision : ndarray of shape (m, m) or None
        Inverse covariance, inside tasks, of the coordinates of measurements (columns of
        numbers with more than two values): by it a missing one is expected from the
        others of its row. None where no value was missing, or of more than a thousand
        measurements.
    reach : ndarray of shape (2, T + 1, L)
        Lowest and highest levels that columns with a past are allowed in each task,
        and, last, in unknown tasks.
    limits : ndarray of shape (2, T + 1, P)
        Lowest and highest differences of values that count in the past of later rows,
        of P columns with a past in each task, and, last, in unknown tasks.
    """

    decisions: tuple[Decision, ...]
    linear: float
    fill: Array
    precision: Array | None = None
    reach: Array = field(default_factory=lambda: np.empty((2, 0, 0)))
    limits: Array = field(default_factory=lambda: np.empty((2, 0, 0)))

    @classmethod
    def learn(
        cls,
        columns: Columns,
        codes: Codes,
        n_tasks: int,
        linear: float,
        parts: Sequence[str] = PARTS,
        drifting: Sequence[str] = (),
    ) -> Encoder:
        """Decide about the columns of normal rows of tasks (n,), and learn to impute.

        Of columns with a past, `parts` are used; of those that drift, their past alone.
        """
        decisions = tuple(
            decide(
                name, column, codes, linear, PARTS[1:] if name in drifting else parts
            )
            for name, column in columns.items()
        )
        return cls._of(decisions, linear, columns, codes, n_tasks)

    def learned_again(self, columns: Columns, codes: Codes, n_tasks: int) -> Encoder:
        """The same use of the same columns, learned from other rows."""
        decisions = []
        for before in self.decisions:
            if before.map is None:
                # The range would be one of rows that are gone.
                decisions.append(replace(before, low=np.nan, high=np.nan))
                continue
            parts = before.map.parts if isinstance(before.map, NumberMap) else VALUES
            column = columns[before.name]
            decisions.append(decide(before.name, column, codes, self.linear, parts))
        return self._of(tuple(decisions), self.linear, columns, codes, n_tasks)

    @classmethod
    def _of(
        cls,
        decisions: tuple[Decision, ...],
        linear: float,
        columns: Columns,
        codes: Codes,
        n_tasks: int,
    ) -> Encoder:
        """The encoder that follows from decisions, and imputes by these rows."""
        if not any(decision.used for decision in decisions):
            reasons = "; ".join(
                f"{decision.name!r} is {decision.note}" for decision in decisions[:5]
            )
            raise ValueError(
                f"No column is left to learn from ({reasons}). Give more rows or other "
                "columns."
            )
        encoder = cls(decisions, linear, np.empty((0, 0)))
        layout = encoder.layout
        Z = encoder._coordinates(columns)
        # Rounded sums depend on the order of rows: take one that all tables share.
        order = np.lexsort((row_numbers(np.nan_to_num(Z)), codes))
        Z = Z[order]
        codes = codes[order]
        is_known = ~np.isnan(Z)
        sums, counts = np.zeros((2, n_tasks, Z.shape[1]))
        np.add.at(counts, codes, is_known)
        np.add.at(sums, codes, np.where(is_known, Z, 0.0))
        fill = encoder._fill(sums, counts)
        places = layout.measurements
        precision = None
        has_gaps = layout.gaps.any() or bool(layout.with_past)
        if has_gaps and 1 < len(places) <= _MOST_RELATED:
            about = Z[:, places] - fill[codes][:, places]
            precision = relations(about, len(codes) - len(np.unique(codes)))
        reach = _reach(Z[:, layout.levels], codes, n_tasks)
        differences = np.empty((len(codes), len(layout.with_past)))
        for number, name in enumerate(layout.with_past):
            past = columns[name].past
            assert past is not None
            differences[:, number] = past[order, 0]
        limits = _limits(differences, codes, n_tasks)
        return replace(
            encoder, fill=fill, precision=precision, reach=reach, limits=limits
        )

    @cached_property
    def layout(self) -> Layout:
        """Which coordinate is what."""
        return Layout.of(self.decisions)

    def _fill(self, sums: Array, counts: Array) -> Array:
        """What stands for missing coordinates, from sums and counts of known ones."""
        overall = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1.0)
        fill = np.where(counts > 0, sums / np.maximum(counts, 1.0), overall)
        fill = np.vstack([fill, overall])
        ends = pairwise(self.layout.starts.tolist())
        for column_map, places in zip(self.layout.maps, ends, strict=True):
            if column_map.two_values is not None:
                low, high = column_map.two_values
                coordinates = fill[:, slice(*places)]
                coordinates[:] = np.where(coordinates > (low + high) / 2, high, low)
        return fill

    def numbers(self, columns: Columns) -> Array:
        """Values of the columns of numbers, and what is used of their past, (n, p)."""
        layout = self.layout
        pairs = zip(layout.used, layout.maps, strict=True)
        values = [
            each.numbers(columns[name])
            for name, each in pairs
            if isinstance(each, NumberMap)
        ]
        n_rows = len(columns[layout.used[0]].values)
        return np.column_stack([np.empty((n_rows, 0)), *values])

    def guard(self, ranges: ColumnRange) -> ColumnRange:
        """The guard of encoded rows that follows from ranges of the columns of numbers.

        A level never seen, or a value missing where none ever was, is out of range at
        once, unless many normal rows bring such news.
        """
        layout = self.layout
        lower, upper = np.zeros((2, len(layout.source)))
        below, above = np.full((2, len(layout.source)), np.inf)
        if layout.curves:
            numbers = list(layout.curves)
            curves = list(layout.curves.values())
            ends = apply_curves(curves, np.stack([ranges.lower, ranges.upper]))
            lower[numbers], upper[numbers] = ends
            slopes = np.stack([curve.slopes for curve in curves], axis=1)
            below[numbers], above[numbers] = slopes * [ranges.below, ranges.above]
        # How often normal rows bring such news, and the coordinate that says so.
        used = [each for each in self.decisions if each.used]
        lone_gaps = sum(each.missing for each in used if each.gaps == 1)
        news = [(lone_gaps, len(layout.source) - 1)]
        for last, column_map in zip(layout.starts[1:] - 1, layout.maps, strict=True):
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
        self._keep_levels(Z, missing, codes)
        if missing.any():
            rows, places = np.nonzero(missing)
            Z[rows, places] = self.fill[codes[rows], places]
            if self.precision is not None:
                self._expect(Z, missing, codes, self.precision)
        return Z

    def _keep_levels(self, Z: Array, missing: Mask, codes: Codes) -> None:
        """Keep levels within the reach of their task, where their difference is known.

        Levels that no task has had stay as they are.
        """
        for number, place in enumerate(self.layout.levels.tolist()):
            level = Z[:, place]
            ends = self.layout.curves[place].scores[[0, -1]]
            low, high = self.reach[:, codes, number]
            was_had = (level >= ends[0]) & (level <= ends[1]) & ~missing[:, place + 1]
            Z[:, place] = np.where(was_had, np.clip(level, low, high), level)

    def _expect(self, Z: Array, missing: Mask, codes: Codes, precision: Array) -> None:
        """Fill missing measurements of known tasks by the others of their rows.

        They stay within the range of their column, however wild the others are.
        """
        places = self.layout.measurements
        low, high = self.layout.ranges
        rows = np.flatnonzero(missing[:, places].any(axis=1) & (codes >= 0))
        here = np.ix_(rows, places)
        means = self.fill[np.ix_(codes[rows], places)]
        expected = means + completed(Z[here] - means, missing[here], precision)
        Z[here] = np.where(missing[here], np.clip(expected, low, high), Z[here])

    def _coordinates(self, columns: Columns) -> Array:
        """Coordinates (n, D), NaN where values are missing."""
        layout = self.layout
        starts = layout.starts
        Z = np.empty((len(columns[layout.used[0]].values), len(layout.source)))
        if layout.curves:
            curves = list(layout.curves.values())
            Z[:, list(layout.curves)] = apply_curves(curves, self.numbers(columns))
        for k, column_map in enumerate(layout.maps):
            if not isinstance(column_map, NumberMap):
                coordinates = column_map.apply(columns[layout.used[k]])
                Z[:, starts[k] : starts[k + 1]] = coordinates
        missing = np.isnan(Z[:, starts[:-1]])
        for k, name in enumerate(layout.used):
            # Of a known value the past may be unknown.
            missing[:, k] &= ~np.isfinite(columns[name].values)
        Z[:, starts[-1] : -1] = missing[:, layout.indicators] * LEVEL_HEIGHT
        heights = np.array([NEW_HEIGHT, LEVEL_HEIGHT, 0.0])  # after 0, 1 or more gaps
        Z[:, -1] = (missing * heights[np.minimum(layout.gaps, 2)]).max(axis=1)
        return Z

    def read(self, frame: Frame) -> Columns:
        """The columns of a table that are used, without their past."""
        present = set(frame.columns)
        names = [name for name in self.layout.used if name in present]
        return self.checked(read_columns(frame, names))

    def checked(self, columns: Columns) -> Columns:
        """The columns that are used, each of the kind that it was, with its past."""
        lost = [name for name in self.layout.used if name not in columns]
        if lost:
            raise ValueError(
                f"The table has no column {shortlist(lost, 3)}, which the model was "
                "fitted with. Add it, empty where nobody knows."
            )
        used = [decision for decision in self.decisions if decision.used]
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
        fields = ("name", "kind", "used", "features", "missing", "low", "high", "note")
        return {
            field: np.array([getattr(each, field) for each in self.decisions])
            for field in fields
        }


def _reach(levels: Array, codes: Codes, n_tasks: int) -> Array:
    """Lowest and highest level of each task and, last, of others, (2, T + 1, L).

    From coordinates (n, L), NaN where missing, of tasks (n,).
    """
    reach = np.full((2, n_tasks + 1, levels.shape[1]), np.inf)
    reach[0] = -np.inf
    starts = np.searchsorted(codes, np.arange(n_tasks + 1))
    for task in np.flatnonzero(np.diff(starts) >= _KNOWN_ROWS).tolist():
        task_levels = levels[starts[task] : starts[task + 1]]
        is_known = ~np.isnan(task_levels)
        enough = np.flatnonzero(is_known.sum(axis=0) >= _KNOWN_ROWS)
        beyond = _FARTHEST_LEVEL * np.nanstd(task_levels[:, enough], axis=0)
        reach[0, task, enough] = np.nanmin(task_levels[:, enough], axis=0) - beyond
        reach[1, task, enough] = np.nanmax(task_levels[:, enough], axis=0) + beyond
    return reach


def _limits(differences: Array, codes: Codes, n_tasks: int) -> Array:
    """Lowest and highest difference that counts in each task, and others, (2, T + 1, P).

    Half as far again as any training row of any task was from its past, in units of the
    spread of its task. Tasks of few rows, and others, have the widest limits of all.
    """
    is_known = ~np.isnan(differences)
    known = np.where(is_known, differences, 0.0)
    squares, counts = np.zeros((2, n_tasks, differences.shape[1]))
    np.add.at(squares, codes, known**2)
    np.add.at(counts, codes, is_known)
    enough = counts >= _KNOWN_ROWS
    spread = np.sqrt(squares / np.maximum(counts, 1.0))
    units = np.where(spread > 0.0, spread, 1.0)[codes]
    shares = np.where(enough[codes], known / units, 0.0)
    farthest = np.stack([shares.min(axis=0), shares.max(axis=0)])[:, None]
    widest = _FARTHEST_COUNTED * farthest
    own = widest * spread
    others = widest * np.where(enough, spread, 0.0).max(axis=0)
    infinite = np.array([-np.inf, np.inf])[:, None, None]
    others = np.where(enough.any(axis=0), others, infinite)
    return np.concatenate([np.where(enough, own, others), others], axis=1)
