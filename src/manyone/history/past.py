r"""Columns made from the past of rows, and the state that carries the past on.

For a column x of an entity, in the order of time, with :math:`q = 1 - 2 / (s + 1)` for
a span of s rows,

.. math::

   m_i = \frac{\sum_{j < i} q^{i - j} x_j}{\sum_{j < i} q^{i - j}}, \qquad
   \text{difference}_i = x_i - m_i,

and the swing is the mean, weighted in the same way, of the steps :math:`|x_j -
x_{j-1}|`, :math:`j < i`. So a row is compared with earlier rows only. Of a past that is
too short both are missing: a mean of few rows errs by more than one of many, and a row
that nothing is known of before has not stood still. Missing values are left out of the
sums.

Models compare swings with those of the task's training rows. Compared with a long
running mean instead, one movement of a column that is usually still would look like
silence for ever after: that mean does not forget it, and never had it in training.

Rows of one entity and one time have the same past, and count as one row, their mean. So
nothing depends on the order in which rows are given.

A gap in time that is longer than three spans usually are starts the past of an entity
again: a mean from before it says nothing of a column that grows. Swings go on: how far
a column moves from row to row is known after a gap, too. The step over the gap does not
count.

Where a column has a season (:mod:`manyone.history.seasons`), its values count by how
far they are from what is usual at their time: :math:`x_j` is replaced by
:math:`x_j - u_j` in the running mean and the difference. Steps stay those of the
values.

A value whose difference is beyond given limits does not count for later rows, as if it
were missing. Otherwise the mean would learn a fault, and normal rows after it would
differ. Meanwhile the mean gets older. Once it weighs less than one row, the next value
counts, however far it is: so a level that has changed for good is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.history.running import (
    Ended,
    Moments,
    known_values,
    moments_of,
    ratio,
    running,
    shifted,
    weight_of,
)
from manyone.history.seasons import PhaseSums, Seasonal, usual_values

#: A longer gap in time starts the past again, in spans of usual gaps. (With 5, nearly
#: all of the first 12 rows after 48 raised an alarm where a column grows, see
#: ``tests/tables/test_history.py``. With 1, 11 instead of 75 % of shifts were found
#: after a gap of 24 rows: ``benchmarks/bench_forward.py gaps``.)
RESTART = 3
#: Rows that tell how long gaps in time usually are, in spans.
LONG = 50
# Gaps that tell what is usual.
_USUAL_GAPS = 3
# Differences below this share of the value are none.
_ROUNDING = 1e-13
# Values farther out are as far as can be told: no sum of them overflows.
_FARTHEST = 1e150
# Values that are compared at a time: what is worked out of them stays small.
_BLOCK = 2**18
# Rows of an entity that are worked on together.
_TILE = 128
# A mean that weighs less than a row leaves none out.
_LEAST = 1.0
# Sums that are kept of each column: values, steps, and the weights of both.
_SUMS = 4
# Fields of a past that are not those of columns.
_OF_ENTITIES = ("time", "rows", "gaps", "visit")


@dataclass(frozen=True, eq=False)
class Past:
    """What each of E entities ended with, in p columns.

    The rows of its last time are kept apart from the sums: further rows of that time
    may come.

    Parameters
    ----------
    time : ndarray of shape (E,)
        Of its last rows; minus infinity where there are none.
    rows : ndarray of shape (E,)
        How many times before that one its past has.
    total, known : ndarray of shape (E, p)
        Sum and number of the values known at that time.
    sums : ndarray of shape (E, 4, p)
        Before that time: weighted values, less what was usual, and their weights, steps
        and their weights.
    value : ndarray of shape (E, p)
        Last value known before that time, NaN where there is none.
    still : ndarray of shape (E, p)
        Rows before that time in which the value stayed the same.
    gaps : ndarray of shape (E, 3)
        Gap in time before the last rows, NaN for none; weighted gaps before it, and
        their weights.
    visit : ndarray of shape (E,)
        To a phase of the season, that goes on; minus infinity for none.
    visit_total, visit_known : ndarray of shape (E, p)
        Sum and number of the values known in that visit before that time.
    phase_sums : ndarray of shape (E, phases, 2, p)
        Before that visit: weighted values of each phase and their weights. Without a
        season there are no phases.
    """

    time: Array
    rows: Array
    total: Array
    known: Array
    sums: Array
    value: Array
    still: Array
    gaps: Array
    visit: Array
    visit_total: Array
    visit_known: Array
    phase_sums: Array

    @classmethod
    def none(cls, entities: int, columns: int, phases: int = 0) -> Self:
        """Entities that no row has been seen of."""
        shape = (entities, columns)
        return cls(
            time=np.full(entities, -np.inf),
            rows=np.zeros(entities),
            total=np.zeros(shape),
            known=np.zeros(shape),
            sums=np.zeros((entities, _SUMS, columns)),
            value=np.full(shape, np.nan),
            still=np.zeros(shape),
            gaps=np.tile([np.nan, 0.0, 0.0], (entities, 1)),
            visit=np.full(entities, -np.inf),
            visit_total=np.zeros(shape),
            visit_known=np.zeros(shape),
            phase_sums=np.zeros((entities, phases, 2, columns)),
        )

    def __len__(self) -> int:
        """Number of entities."""
        return len(self.time)

    def take(self, entities: Codes) -> Self:
        """Some of the entities; -1 stands for one that nothing is known of."""
        has_past = entities >= 0
        if has_past.all():
            return type(self)(**{name: v[entities] for name, v in vars(self).items()})
        phases = self.phase_sums.shape[1]
        pasts = self.none(len(entities), self.total.shape[1], phases)
        pasts.put(has_past, self.take(entities[has_past]))
        return pasts

    def of_columns(self, places: list[int]) -> Self:
        """The same of some of the columns."""
        columns = {
            name: values if name in _OF_ENTITIES else values[..., places]
            for name, values in vars(self).items()
        }
        return type(self)(**columns)

    def of_lanes(self, entities: Codes, columns: Codes) -> Self:
        """Pairs of an entity and a column (k,), as k entities with a single column."""
        lanes = {
            name: values[entities]
            if name in _OF_ENTITIES
            else values[entities, ..., columns][..., None]
            for name, values in vars(self).items()
        }
        return type(self)(**lanes)

    def continued(
        self, codes: Codes, times: Array, is_begun: Mask | None = None
    ) -> Self:
        """The past that rows of a table go on from.

        An entity whose rows begin before what it ended with starts anew: these rows are
        no sequel.

        Parameters
        ----------
        codes, times : ndarray of shape (n,)
            Entity and time of each row.
        is_begun : ndarray of bool of shape (E,) or None
            Entities whose earlier rows are of the same table: these go on in any case.
        """
        first = np.full(len(self), np.inf)
        np.fmin.at(first, codes, times)
        starts_anew = first < self.time
        if is_begun is not None:
            starts_anew &= ~is_begun
        if not starts_anew.any():
            return self
        return self.take(np.where(starts_anew, -1, np.arange(len(self))))

    def put(self, entities: Codes | Mask, pasts: Past) -> None:
        """Set the pasts of some of the entities, in place."""
        for name, values in vars(pasts).items():
            getattr(self, name)[entities] = values


@dataclass(frozen=True, eq=False)
class PastColumns:
    """Columns made from the past of rows of p columns, s of which have a season.

    Parameters
    ----------
    values : ndarray of shape (n, 3 p + s)
        All of them, side by side.
    width : int
        Number p of columns.
    """

    values: Array
    width: int

    @property
    def difference(self) -> Array:
        """From the running mean (n, p); NaN where that or the value is missing."""
        return self.values[:, : self.width]

    @property
    def swing(self) -> Array:
        """Mean of recent steps (n, p), NaN where there are none."""
        return self.values[:, self.width : 2 * self.width]

    @property
    def still(self) -> Array:
        """Rows, this one included, in which the value has stayed the same (n, p)."""
        return self.values[:, 2 * self.width : 3 * self.width]

    def differences_and_swings(self, column: int) -> Array:
        """Both of one column, side by side (n, 2); no copy."""
        return self.values[:, column : 2 * self.width : self.width]

    @property
    def usual(self) -> Array:
        """What is usual at the time of the row (n, s), NaN where nobody knows."""
        return self.values[:, 3 * self.width :]


def past_columns(
    X: Array,
    codes: Codes,
    times: Array,
    past: Past,
    span: int,
    seasonal: Seasonal | None = None,
    shortest: int = 1,
    limits: Array | None = None,
) -> tuple[PastColumns, Past]:
    """Columns from the past of rows, and the past of rows that come after them.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Values that are not finite are missing.
    codes : ndarray of shape (n,)
        Entity of each row, as it is numbered in `past`.
    times : ndarray of shape (n,)
        A row that is older than what its entity ended with, or that has no time (NaN),
        is compared with that, and moves nothing. With a season, seconds since 1970.
    past : Past
        With as many phases as the season has.
    span : int
        Rows of the running mean.
    seasonal : Seasonal or None
        Which columns have a season, if any.
    shortest : int
        Of a past of fewer rows differences and swings are not known.
    limits : ndarray of shape (2, E, p) or None
        Lowest and highest difference of values that count in the past of later rows;
        None: all count.

    Returns
    -------
    columns : PastColumns
    past : Past
    """
    n_rows, width = X.shape
    n_seasonal = 0 if seasonal is None else int(seasonal.columns.sum())
    values = np.empty((n_rows, 3 * width + n_seasonal))
    is_late = ~(times >= past.time[codes])
    late = np.flatnonzero(is_late)
    if limits is None:
        limits = np.broadcast_to([[[-np.inf]], [[np.inf]]], (2, len(past), width))
    settings = _Settings(span, seasonal, shortest, limits)
    if len(late):
        # Each late row is the next row of a copy of its entity.
        copies = past.take(codes[late])
        soon = np.where(
            np.isfinite(copies.time), np.nextafter(copies.time, np.inf), 0.0
        )
        of_copies = settings.of_entities(codes[late])
        made, _ = _next_columns(X[late], np.arange(len(late)), soon, copies, of_copies)
        values[late] = made.values
    # Numbers of few bits are sorted many times as fast.
    order = _in_order(X, codes.astype(np.min_scalar_type(len(past))), times)
    order = order[~is_late[order]] if len(late) else order
    after = past
    for rows in _tiles(order, codes[order], max(1, _BLOCK // max(width, 1))):
        block_codes = codes[rows]
        is_first = np.ones(len(rows), dtype=bool)
        is_first[1:] = block_codes[1:] != block_codes[:-1]
        present = block_codes[is_first]
        own_codes = np.cumsum(is_first) - 1
        has_all = len(present) == len(past)
        before = after if has_all else after.take(present)
        made, ends = _next_columns(
            X[rows], own_codes, times[rows], before, settings.of_entities(present)
        )
        values[rows] = made.values
        if has_all:
            after = ends
            continue
        after = past.take(np.arange(len(past))) if after is past else after
        after.put(present, ends)
    return PastColumns(values, width), after


def _in_order(X: Array, codes: Array | Codes, times: Array) -> Codes:
    """Rows by entity and time, those of one time by their values.

    So sums of them do not depend on the order in which rows are given, not even by
    rounding.
    """
    order = np.lexsort((times, codes))
    owner = codes[order]
    moment = times[order]
    ties = (owner[1:] == owner[:-1]) & (moment[1:] == moment[:-1])
    if not ties.any():
        return order
    tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
    rows = order[tied]
    order[tied] = rows[np.lexsort((*X[rows].T, times[rows], codes[rows]))]
    return order


def _tiles(order: Codes, codes: Codes, size: int) -> list[Codes]:
    """Rows, sorted by entity and time, in parts that are worked on together.

    Some entities are taken together, and some of their rows at a time: about `size`
    rows. Where a value does not count, only the tile that it is in is done again.
    """
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    lengths = np.diff(starts, append=len(codes))
    # Entities whose first tiles begin in the same `size` rows.
    group = np.minimum(lengths, _TILE).cumsum() // size
    rank = (np.arange(len(codes)) - np.repeat(starts, lengths)) // _TILE
    group = np.repeat(group, lengths)
    if len(group) and (group[-1] or rank.any()):
        tiles = np.lexsort((rank, group))
        key = group[tiles] * (rank.max() + 1) + rank[tiles]
        return np.split(order[tiles], np.flatnonzero(np.diff(key)) + 1)
    return [order] if len(order) else []


class _Settings(NamedTuple):
    """How the past of E entities is worked out, see `past_columns`."""

    span: int
    seasonal: Seasonal | None
    shortest: int
    limits: Array

    def of_entities(self, entities: Codes) -> _Settings:
        """The same for some of the entities."""
        return self._replace(limits=self.limits[:, entities])


def _next_columns(
    X: Array, codes: Codes, times: Array, past: Past, settings: _Settings
) -> tuple[PastColumns, Past]:
    """`past_columns` of some rows of every entity, none older than what it ended with.

    Rows are sorted by entity and time.
    """
    span, seasonal, shortest, _ = settings
    X = _within_reach(X)
    ended = Ended(past.time, past.total, past.known)
    moments = moments_of(*known_values(X), codes, times, ended)
    place = moments.of_row
    visits = np.zeros(1)
    has_season = np.zeros((1, X.shape[1]), dtype=bool)
    if seasonal is not None:
        visits = seasonal.season.visits(moments.time)
        has_season = seasonal.columns[None]
    sequences = _sequences(moments, past, span)
    series = _Series(moments, sequences, past, visits, has_season)
    levels = _levels(series, span)
    moves = _moves(series, span)
    levels, moves = _leave_out(series, levels, moves, settings)
    usual = np.empty((len(X), 0))
    level = X
    if seasonal is not None:
        usual = levels.usual[place]
        level = X - usual
        usual = usual[:, seasonal.columns]
    difference = level - levels.mean.take(place, axis=0)
    difference[sequences.rows[place] < shortest] = np.nan
    # What is left of a mean of equal values is rounding.
    rounding = _ROUNDING * np.abs(X)
    difference[np.abs(difference) <= rounding] = 0.0
    swing = moves.swing.take(place, axis=0)
    # Gaps are counted from the first row on, whatever their length.
    is_new = sequences.gap_sums[place, 1] < weight_of(shortest - 1, LONG * span)
    swing[is_new] = np.nan
    stays = np.abs(X - moves.value.take(place, axis=0)) <= rounding
    stays |= np.isnan(X)
    still = (moves.still.take(place, axis=0) + 1.0) * stays
    made = np.concatenate([difference, swing, still, usual], axis=1)
    ends = moments.ends()
    parts = (levels.total, levels.weight, moves.total, moves.weight)
    sums = [part[ends] for part in parts]
    after = Past(
        time=moments.time[ends],
        rows=sequences.rows[ends],
        total=moments.total[ends],
        known=moments.known[ends],
        sums=np.stack(_of_every_column(sums, (len(ends), X.shape[1])), axis=1),
        value=moves.value[ends],
        still=moves.still[ends],
        gaps=np.column_stack([sequences.gap[ends], sequences.gap_sums[ends]]),
        visit=levels.phases.current.time,
        visit_total=levels.phases.current.total,
        visit_known=levels.phases.current.known,
        phase_sums=levels.phases.sums,
    )
    return PastColumns(made, X.shape[1]), after


def _within_reach(X: Array) -> Array:
    """Values that sums can hold, NaN where they are missing or infinite."""
    if np.abs(X).max(initial=0.0) <= _FARTHEST:  # false where one is NaN
        return X
    return np.where(np.isfinite(X), np.clip(X, -_FARTHEST, _FARTHEST), np.nan)


class _Sequences(NamedTuple):
    """Runs of moments of one entity without a long gap.

    Attributes
    ----------
    starts : ndarray of shape (s,)
        First moment of each sequence.
    goes_on : ndarray of bool of shape (s,)
        Whether it goes on from what its entity ended with.
    of_moment : ndarray of shape (m,)
    rows : ndarray of shape (m,)
        Moments of the sequence before each.
    gap : ndarray of shape (m,)
        Time since the moment before of the same entity, NaN for none.
    gap_sums : ndarray of shape (m, 2)
        Weighted gaps before that, and their weights.
    """

    starts: Codes
    goes_on: Mask
    of_moment: Codes
    rows: Array
    gap: Array
    gap_sums: Array


def _sequences(moments: Moments, past: Past, span: int) -> _Sequences:
    """Where the past of an entity begins, or begins again."""
    is_first = np.ones(len(moments.entity), dtype=bool)
    is_first[1:] = moments.entity[1:] != moments.entity[:-1]
    gap = np.full(len(moments.time), np.nan)
    gap[1:] = moments.time[1:] - moments.time[:-1]
    gap[is_first] = np.where(
        moments.is_last[is_first], past.gaps[moments.entity[is_first], 0], np.nan
    )
    starts = np.flatnonzero(is_first)
    has_gap = ~np.isnan(gap)
    terms = np.column_stack([np.where(has_gap, gap, 0.0), has_gap])
    initial = past.gaps[moments.entity[starts], 1:]
    before = running(terms, starts, initial, LONG * span)
    weight = np.maximum(before[:, 1], 1.0)
    is_long = gap * weight > RESTART * span * before[:, 0]
    is_long &= before[:, 1] > weight_of(_USUAL_GAPS, LONG * span)
    # What an entity ended with has been looked at before.
    begins = is_first | (is_long & ~moments.is_last)
    goes_on = moments.is_last[begins] & is_first[begins]
    starts = np.flatnonzero(begins)
    of_moment = np.cumsum(begins) - 1
    earlier = np.where(goes_on, past.rows[moments.entity[starts]], 0.0)
    rows = np.arange(len(begins)) - starts[of_moment] + earlier[of_moment]
    return _Sequences(starts, goes_on, of_moment, rows, gap, before)


class _Series(NamedTuple):
    """Moments of E entities in p columns, and what they ended with before.

    Attributes
    ----------
    moments : Moments
    sequences : _Sequences
    past : Past
    visits : ndarray of shape (m,)
        By the season; of any shape where the past has no phases.
    has_season : ndarray of bool of shape (m, p) or (1, p)
    """

    moments: Moments
    sequences: _Sequences
    past: Past
    visits: Array
    has_season: Mask

    def of_lanes(
        self, entities: Codes, columns: Codes
    ) -> tuple[_Series, tuple[Codes, Codes]]:
        """Pairs of an entity and a column (k,), as k entities with a single column.

        And the place of each of their moments in arrays (m, p) of this series. Times,
        gaps and lengths of sequences stay those of this series.
        """
        moments = self.moments
        ends = moments.ends() + 1
        starts = np.append(0, ends[:-1])[entities]
        sizes = ends[entities] - starts
        lane = np.repeat(np.arange(len(entities)), sizes)
        lines = np.arange(len(lane)) + np.repeat(starts - sizes.cumsum() + sizes, sizes)
        column = columns[lane]
        sequence = self.sequences.of_moment[lines]
        begins = np.ones(len(lane), dtype=bool)
        begins[1:] = (np.diff(lane) != 0) | (np.diff(sequence) != 0)
        sequences = self.sequences._replace(
            starts=np.flatnonzero(begins),
            goes_on=self.sequences.goes_on[sequence[begins]],
            of_moment=np.cumsum(begins) - 1,
        )
        of_lanes = moments._replace(
            entity=lane,
            total=moments.total[lines, column][:, None],
            known=moments.known[lines, column][:, None],
        )
        visits = self.visits
        if self.past.phase_sums.shape[1]:
            visits = visits[lines]
        has_season = self.has_season[0, column][:, None]
        past = self.past.of_lanes(entities, columns)
        return _Series(of_lanes, sequences, past, visits, has_season), (lines, column)


class _Levels(NamedTuple):
    """Running means before each moment.

    Attributes
    ----------
    usual : ndarray of shape (m, p) or (m, 1)
        By the season; 0 without one, NaN where nobody knows it.
    total, weight : ndarray of shape (m, p) or (m, 1)
        Weighted values less what was usual, and their weights.
    phases : PhaseSums
        What is remembered before the last moment of each entity.
    """

    usual: Array
    total: Array
    weight: Array
    phases: PhaseSums

    @property
    def mean(self) -> Array:
        """Of values less what was usual (m, p), NaN where nothing is remembered."""
        return ratio(self.total, self.weight)


def _levels(series: _Series, span: int, counts: Mask | None = None) -> _Levels:
    """Running means of moments, of which some may not count (m, p)."""
    moments, sequences, past, visits, has_season = series
    moments = _counted(moments, counts)
    level = moments.values()
    usual = np.zeros((len(level), 1))
    phases = PhaseSums(
        Ended(past.visit, past.visit_total, past.visit_known), past.phase_sums
    )
    if past.phase_sums.shape[1]:
        usual, phases = usual_values(moments, visits, phases, span)
        usual = np.where(has_season, usual, 0.0)
        level = level - usual
    starts = sequences.starts
    goes_on = sequences.goes_on[:, None, None]
    first = np.where(goes_on, past.sums[moments.entity[starts], :2], 0.0)
    has_level = (moments.known > 0) & ~np.isnan(level)
    total = running(_or_zero(level, has_level), starts, first[:, 0], span)
    weight = running(has_level, starts, first[:, 1], span)
    return _Levels(usual, total, weight, phases)


class _Moves(NamedTuple):
    """How far values moved before each moment.

    Attributes
    ----------
    value, still : ndarray of shape (m, p)
        As in :class:`Past`.
    total, weight : ndarray of shape (m, p) or (m, 1)
        Weighted steps, and their weights.
    """

    value: Array
    still: Array
    total: Array
    weight: Array

    @property
    def swing(self) -> Array:
        """Mean of recent steps (m, p), NaN where there are none."""
        return ratio(self.total, self.weight)


def _moves(series: _Series, span: int, counts: Mask | None = None) -> _Moves:
    """Steps between moments, of which some may not count (m, p)."""
    moments, sequences, past, _, _ = series
    moments = _counted(moments, counts)
    starts = sequences.starts
    entity = moments.entity[starts]
    goes_on = sequences.goes_on[:, None]
    first_value = np.where(goes_on, past.value[entity], np.nan)
    first_still = np.where(goes_on, past.still[entity], 0.0)
    is_known = moments.known > 0
    values = moments.values()
    last = _last_known(values, is_known, sequences, first_value)
    steps = np.abs(values - last)
    steps[steps <= _ROUNDING * np.abs(values)] = 0.0
    has_step = is_known & ~np.isnan(steps)
    has_moved = is_known & ~(has_step & (steps == 0.0))
    # A gap ends a mean, but not how far a column moves from row to row.
    is_first = np.ones(len(starts), dtype=bool)
    is_first[1:] = entity[1:] != entity[:-1]
    first = np.where(goes_on[:, None], past.sums[entity, 2:], 0.0)[is_first]
    begins = starts[is_first]
    total = running(_or_zero(steps, has_step), begins, first[:, 0], span)
    weight = running(has_step, begins, first[:, 1], span)
    still = _still_rows(has_moved, sequences, first_still)
    return _Moves(last, shifted(still, starts, first_still), total, weight)


def _counted(moments: Moments, counts: Mask | None) -> Moments:
    """Moments of which some may not count (m, p), as if these were missing."""
    if counts is None:
        return moments
    total = np.where(counts, moments.total, 0.0)
    return moments._replace(total=total, known=np.where(counts, moments.known, 0.0))


def _leave_out(
    series: _Series, levels: _Levels, moves: _Moves, settings: _Settings
) -> tuple[_Levels, _Moves]:
    """What was before each moment, if values beyond their limits are missing.

    What counts depends on what was before, and on nothing else. So each pass has at
    least one more moment right, and all are when nothing changes.
    """
    span, _, shortest, limits = settings
    values = series.moments.values()
    is_short = series.sequences.rows < shortest
    has_usual = levels.usual.shape == values.shape
    difference = (values - levels.usual if has_usual else values) - levels.mean
    difference[is_short] = np.nan
    ends = series.moments.ends()
    starts = np.append(0, ends[:-1] + 1)
    lowest = np.fmin.reduceat(difference, starts, axis=0)
    highest = np.fmax.reduceat(difference, starts, axis=0)
    entities, columns = np.nonzero((lowest < limits[0]) | (highest > limits[1]))
    if not len(entities):
        return levels, moves
    usual, total, weight = _of_every_column(levels[:3], values.shape)
    counts = np.ones(values.shape, dtype=bool)
    all_lanes, all_places = series.of_lanes(entities, columns)
    lanes = all_lanes
    places = all_places
    while True:
        lane = lanes.moments.entity
        own = difference[places]
        low, high = limits[:, entities, columns][:, lane]
        is_beyond = (own < low) | (own > high)
        is_beyond &= np.abs(own) > _ROUNDING * np.abs(values[places])
        is_beyond &= (weight[places] >= _LEAST) & (lanes.moments.known[:, 0] > 0)
        is_wrong = np.bincount(lane, counts[places] == is_beyond) > 0
        counts[places] = ~is_beyond
        if not is_wrong.any():
            break
        entities = entities[is_wrong]
        columns = columns[is_wrong]
        lanes, places = series.of_lanes(entities, columns)
        found = _levels(lanes, span, counts[places][:, None])
        for array, part in zip((usual, total, weight), found[:3], strict=True):
            array[places] = part[:, 0]
        own = values[places] - found.usual[:, 0] - found.mean[:, 0]
        difference[places] = np.where(is_short[places[0]], np.nan, own)
        if found.phases.sums.shape[1]:
            current = levels.phases.current
            current.total[entities, columns] = found.phases.current.total[:, 0]
            current.known[entities, columns] = found.phases.current.known[:, 0]
            levels.phases.sums[entities, :, :, columns] = found.phases.sums[..., 0]
    of_moves = _of_every_column(moves, values.shape)
    found_moves = _moves(all_lanes, span, counts[all_places][:, None])
    for array, part in zip(of_moves, found_moves, strict=True):
        array[all_places] = part[:, 0]
    return _Levels(usual, total, weight, levels.phases), _Moves(*of_moves)


def _of_every_column(arrays: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
    """Arrays of shape (m, p), of which some had one column for all."""
    return [
        array if array.shape == shape else np.broadcast_to(array, shape).copy()
        for array in arrays
    ]


def _or_zero(values: Array, counts: Mask) -> Array:
    """Values where they count, else 0."""
    return values if counts.all() else np.where(counts, values, 0.0)


def _last_known(
    values: Array, is_known: Mask, sequences: _Sequences, first: Array
) -> Array:
    """Last value before each moment (m, p) of its sequence, or NaN."""
    if is_known.all():
        return shifted(values, sequences.starts, first)
    begin = sequences.starts[sequences.of_moment][:, None]
    place = np.roll(_last_place(is_known), 1, axis=0)
    place[sequences.starts] = -1
    last_values = np.take_along_axis(values, np.maximum(place, 0), axis=0)
    return np.where(place >= begin, last_values, first[sequences.of_moment])


def _still_rows(has_moved: Mask, sequences: _Sequences, first: Array) -> Array:
    """Moments (m, p) up to each one, it included, in which nothing moved."""
    still = np.zeros(has_moved.shape)
    if has_moved.all():
        return still
    rests = np.flatnonzero(~has_moved.all(axis=0))
    begin = sequences.starts[sequences.of_moment][:, None]
    last_move = _last_place(has_moved[:, rests])
    place = np.arange(len(has_moved))[:, None]
    since_begin = place - begin + 1 + first[sequences.of_moment][:, rests]
    still[:, rests] = np.where(last_move >= begin, place - last_move, since_begin)
    return still


def _last_place(mask: Mask) -> Codes:
    """Last line (m, p) up to each one in which a mask is true, or -1."""
    places = np.where(mask, np.arange(len(mask))[:, None], -1)
    return np.maximum.accumulate(places, axis=0)
