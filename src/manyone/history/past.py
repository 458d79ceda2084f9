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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.history.running import (
    Ended,
    Moments,
    moments_of,
    ratio,
    running,
    shifted,
    weight_of,
)
from manyone.history.seasons import PhaseSums, Seasonal, level_of, usual_values

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
_BLOCK = 2**17
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
    usual : ndarray of shape (E, p)
        What was usual at that time, by the season; 0 for columns without one.
    visit : ndarray of shape (E,)
        To a phase of the season, that goes on; minus infinity for none.
    visit_total, visit_known : ndarray of shape (E, p)
        Sum and number of the values known in that visit.
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
    usual: Array
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
            usual=np.zeros(shape),
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
    if len(late):
        # Each late row is the next row of a copy of its entity.
        copies = past.take(codes[late])
        soon = np.where(
            np.isfinite(copies.time), np.nextafter(copies.time, np.inf), 0.0
        )
        made, _ = _next_columns(
            X[late], np.arange(len(late)), soon, copies, span, seasonal, shortest
        )
        values[late] = made.values
    # Numbers of few bits are sorted many times as fast.
    order = np.lexsort((times, codes.astype(np.min_scalar_type(len(past)))))
    order = order[~is_late[order]] if len(late) else order
    after = past
    block = max(1, _BLOCK // max(width, 1))
    for start in range(0, len(order), block):
        rows = order[start : start + block]
        block_codes = codes[rows]
        is_first = np.ones(len(rows), dtype=bool)
        is_first[1:] = block_codes[1:] != block_codes[:-1]
        present = block_codes[is_first]
        own_codes = np.cumsum(is_first) - 1
        has_all = len(present) == len(past)
        before = after if has_all else after.take(present)
        made, ends = _next_columns(
            X[rows], own_codes, times[rows], before, span, seasonal, shortest
        )
        values[rows] = made.values
        if has_all:
            after = ends
            continue
        after = past.take(np.arange(len(past))) if after is past else after
        after.put(present, ends)
    return PastColumns(values, width), after


def _next_columns(
    X: Array,
    codes: Codes,
    times: Array,
    past: Past,
    span: int,
    seasonal: Seasonal | None,
    shortest: int,
) -> tuple[PastColumns, Past]:
    """`past_columns` of some rows of every entity, none older than what it ended with.

    Rows are sorted by entity and time.
    """
    X = _within_reach(X)
    moments = moments_of(X, codes, times, Ended(past.time, past.total, past.known))
    place = moments.of_row
    level = X
    level_then = moments.values()
    usual = np.empty((len(X), 0))
    usual_then = np.zeros((len(moments.time), 1))
    phases = PhaseSums(
        Ended(past.visit, past.visit_total, past.visit_known), past.phase_sums
    )
    if seasonal is not None:
        visits = seasonal.season.visits(times)
        usual, phases = usual_values(X, codes, visits, phases, span)
        usual[:, ~seasonal.columns] = 0.0
        usual_then = np.zeros_like(moments.total)
        usual_then[moments.is_last] = past.usual[moments.entity[moments.is_last]]
        usual_then[place] = usual
        level = level_of(X, usual)
        level_then = level_then - usual_then
        usual = usual[:, seasonal.columns]
    sequences = _sequences(moments, past, span)
    pasts = _pasts(moments, level_then, sequences, past, span)
    difference = level - pasts.mean.take(place, axis=0)
    difference[sequences.rows[place] < shortest] = np.nan
    if seasonal is not None:
        difference[np.isnan(usual_then)[place]] = np.nan
    # What is left of a mean of equal values is rounding.
    rounding = _ROUNDING * np.abs(X)
    difference[np.abs(difference) <= rounding] = 0.0
    swing = pasts.swing.take(place, axis=0)
    # Gaps are counted from the first row on, whatever their length.
    is_new = sequences.gap_sums[place, 1] < weight_of(shortest - 1, LONG * span)
    swing[is_new] = np.nan
    stays = np.abs(X - pasts.value.take(place, axis=0)) <= rounding
    stays |= np.isnan(X)
    still = (pasts.still.take(place, axis=0) + 1.0) * stays
    width = X.shape[1]
    made = PastColumns(np.concatenate([difference, swing, still, usual], axis=1), width)
    ends = moments.ends()
    after = Past(
        time=moments.time[ends],
        rows=sequences.rows[ends],
        total=moments.total[ends],
        known=moments.known[ends],
        sums=pasts.sums(ends),
        value=pasts.value[ends],
        still=pasts.still[ends],
        gaps=np.column_stack([sequences.gap[ends], sequences.gap_sums[ends]]),
        usual=np.broadcast_to(usual_then[ends], (len(ends), width)).copy(),
        visit=phases.current.time,
        visit_total=phases.current.total,
        visit_known=phases.current.known,
        phase_sums=phases.sums,
    )
    return made, after


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


class _Pasts(NamedTuple):
    """What was before each moment.

    Attributes
    ----------
    mean, swing : ndarray of shape (m, p)
        Running mean of values less what was usual, NaN where there is none; mean of
        recent steps, likewise.
    value, still : ndarray of shape (m, p)
        As in :class:`Past`.
    parts : tuple of ndarray of shape (m, p) or (m, 1)
        Of the sums in :class:`Past`.
    """

    mean: Array
    swing: Array
    value: Array
    still: Array
    parts: tuple[Array, ...]

    def sums(self, moments: Codes) -> Array:
        """Sums before some moments, as in :class:`Past`."""
        sums = np.empty((len(moments), _SUMS, self.value.shape[1]))
        for number, part in enumerate(self.parts):
            sums[:, number] = part[moments]
        return sums


def _pasts(
    moments: Moments, level: Array, sequences: _Sequences, past: Past, span: int
) -> _Pasts:
    """What was before each moment of some sequences.

    `level` are the values of each moment, less what was usual then (m, p); NaN where
    nobody knows that.
    """
    starts = sequences.starts
    entity = moments.entity[starts]
    goes_on = sequences.goes_on
    is_first = np.ones(len(starts), dtype=bool)
    is_first[1:] = entity[1:] != entity[:-1]
    first_sums = np.where(goes_on[:, None, None], past.sums[entity], 0.0)
    first_value = np.where(goes_on[:, None], past.value[entity], np.nan)
    first_still = np.where(goes_on[:, None], past.still[entity], 0.0)
    is_known = moments.known > 0
    values = moments.values()
    has_level = is_known & ~np.isnan(level)
    last = _last_known(values, is_known, sequences, first_value)
    steps = np.abs(values - last)
    steps[steps <= _ROUNDING * np.abs(values)] = 0.0
    has_step = is_known & ~np.isnan(steps)
    has_moved = is_known & ~(has_step & (steps == 0.0))
    terms: list[Array | Mask] = [_or_zero(level, has_level), has_level]
    terms += [_or_zero(steps, has_step), has_step]
    every = np.ones_like(is_first)
    # A gap ends a mean, but not how far a column moves from row to row.
    begins = (every, every, is_first, is_first)
    parts = tuple(
        running(term, starts[begin], first_sums[begin, number], span)
        for number, (term, begin) in enumerate(zip(terms, begins, strict=True))
    )
    still = _still_rows(has_moved, sequences, first_still)
    return _Pasts(
        mean=ratio(parts[0], parts[1]),
        swing=ratio(parts[2], parts[3]),
        value=last,
        still=shifted(still, starts, first_still),
        parts=parts,
    )


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
