r"""Columns made from the past of rows, and the state that carries the past on.

For a column x of an entity, in the order of time, with :math:`q = 1 - 2 / (s + 1)` for
a span of s rows,

.. math::

   m_i = \frac{\sum_{j < i} q^{i - j} x_j}{\sum_{j < i} q^{i - j}}, \qquad
   \text{difference}_i = x_i - m_i,

and the swing is the mean, weighted in the same way, of the steps
:math:`|x_j - x_{j-1}|`, :math:`j < i`. So a row is compared with earlier rows only.
Without a past both are 0. Missing values are left out of the sums.

Models compare swings with those of the task's training rows. Compared with a long
running mean instead, one movement of a column that is usually still would look like
silence for ever after: that mean does not forget it, and never had it in training.

Rows of one entity and one time have the same past, and count as one row, their mean. So
nothing depends on the order in which rows are given. A gap in time that is as long as
five spans usually are starts the past of an entity again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np
from scipy.signal import lfilter

from manyone._types import Array, Codes, Mask

#: Rows that tell how long gaps in time usually are, in spans.
LONG = 50
#: A longer gap in time starts the past again: in spans of usual gaps.
RESTART = 5
# Gaps that tell what is usual.
_USUAL_GAPS = 3
# Differences below this share of the value are none.
_ROUNDING = 1e-13
# Values farther out are as far as can be told: no sum of them overflows.
_FARTHEST = 1e150
# A value that was seen so long ago, by its weight, is no past.
_FORGOTTEN = 1e-9
# Shorter sequences are filtered side by side.
_SHORT = 128
# Rows that are compared at a time: what is worked out of them stays small.
_BLOCK = 2**12
# Sums that are kept of each column: values, steps, and the weights of both.
_SUMS = 4


@dataclass(frozen=True, eq=False)
class Past:
    """What each of E entities ended with, in p columns.

    The rows of its last time are kept apart from the sums: further rows of that time may
    come.

    Parameters
    ----------
    time : ndarray of shape (E,)
        Of its last rows; minus infinity where there are none.
    total, known : ndarray of shape (E, p)
        Sum and number of the values known at that time.
    sums : ndarray of shape (E, 4, p)
        Before that time: weighted values and their weights, steps and their weights.
    value : ndarray of shape (E, p)
        Last value known before that time, NaN where there is none.
    still : ndarray of shape (E, p)
        Rows before that time in which the value stayed the same.
    gaps : ndarray of shape (E, 3)
        Gap in time before the last rows, NaN for none; weighted gaps before it, and
        their weights.
    """

    time: Array
    total: Array
    known: Array
    sums: Array
    value: Array
    still: Array
    gaps: Array

    @classmethod
    def none(cls, entities: int, columns: int) -> Self:
        """Entities that no row has been seen of."""
        shape = (entities, columns)
        return cls(
            time=np.full(entities, -np.inf),
            total=np.zeros(shape),
            known=np.zeros(shape),
            sums=np.zeros((entities, _SUMS, columns)),
            value=np.full(shape, np.nan),
            still=np.zeros(shape),
            gaps=np.tile([np.nan, 0.0, 0.0], (entities, 1)),
        )

    def __len__(self) -> int:
        """Number of entities."""
        return len(self.time)

    def take(self, entities: Codes) -> Self:
        """Some of the entities; -1 stands for one that nothing is known of."""
        has_past = entities >= 0
        taken = {
            each.name: getattr(self, each.name)[np.where(has_past, entities, 0)]
            for each in fields(self)
            if len(self)
        }
        if has_past.all() and taken:
            return type(self)(**taken)
        pasts = self.none(len(entities), self.total.shape[1])
        for name, values in taken.items():
            getattr(pasts, name)[has_past] = values[has_past]
        return pasts

    def of_columns(self, places: list[int]) -> Self:
        """The same of some of the columns."""
        columns = {
            name: values if name in ("time", "gaps") else values[..., places]
            for name, values in vars(self).items()
        }
        return type(self)(**columns)

    def continued(self, codes: Codes, times: Array) -> Self:
        """The past that rows of a table go on from.

        An entity whose rows begin before what it ended with starts anew: these rows are
        no sequel.

        Parameters
        ----------
        codes, times : ndarray of shape (n,)
            Entity and time of each row.
        """
        first = np.full(len(self), np.inf)
        np.fmin.at(first, codes, times)
        entities = np.arange(len(self))
        return self.take(np.where(first < self.time, -1, entities))

    def put(self, entities: Codes, lines: Past) -> None:
        """Other lines for some of the entities, in place."""
        for each in fields(self):
            getattr(self, each.name)[entities] = getattr(lines, each.name)


class PastColumns(NamedTuple):
    """Columns made from the past of rows, each of shape (n, p).

    Attributes
    ----------
    difference : ndarray
        From the running mean; NaN where the value is missing.
    swing : ndarray
        Mean of recent steps.
    still : ndarray
        Rows, this one included, in which the value has stayed the same.
    """

    difference: Array
    swing: Array
    still: Array


def past_columns(
    X: Array, codes: Codes, times: Array, past: Past, span: int
) -> tuple[PastColumns, Past]:
    """Columns from the past of rows, and the past of rows that come after them.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Values that are not finite are missing.
    codes : ndarray of shape (n,)
        Entity of each row, as it is numbered in `past`.
    times : ndarray of shape (n,)
        A row that is older than what its entity ended with, or that has no time (NaN), is
        compared with that, and moves nothing.
    past : Past
    span : int
        Rows of the running mean.

    Returns
    -------
    columns : PastColumns
    past : Past
    """
    X = np.where(np.isfinite(X), np.clip(X, -_FARTHEST, _FARTHEST), np.nan)
    columns = PastColumns(*(np.empty_like(X) for _ in PastColumns._fields))
    is_late = ~(times >= past.time[codes])
    late = np.flatnonzero(is_late)
    if len(late):
        # Each late row is the next row of a copy of its entity.
        copies = past.take(codes[late])
        soon = np.where(
            np.isfinite(copies.time), np.nextafter(copies.time, np.inf), 0.0
        )
        late_columns, _ = _next_columns(
            X[late], np.arange(len(late)), soon, copies, span
        )
        for values, late_values in zip(columns, late_columns, strict=True):
            values[late] = late_values
    order = np.lexsort((times, codes))
    order = order[~is_late[order]] if len(late) else order
    after = past.take(np.arange(len(past)))
    for start in range(0, len(order), _BLOCK):
        rows = order[start : start + _BLOCK]
        present, own_codes = np.unique(codes[rows], return_inverse=True)
        block, ends = _next_columns(
            X[rows], own_codes, times[rows], after.take(present), span
        )
        for values, block_values in zip(columns, block, strict=True):
            values[rows] = block_values
        after.put(present, ends)
    return columns, after


def _next_columns(
    X: Array, codes: Codes, times: Array, past: Past, span: int
) -> tuple[PastColumns, Past]:
    """`past_columns` of some rows of every entity, none older than what it ended with."""
    moments = _moments(X, codes, times, past)
    sequences = _sequences(moments, past, span)
    pasts = _pasts(moments, sequences, past, span)
    place = moments.of_row
    means = pasts.mean[place]
    difference = np.where(np.isnan(means), X - X, X - means)
    # What is left of a mean of equal values is rounding.
    difference[np.abs(difference) <= _ROUNDING * np.abs(X)] = 0.0
    stays = np.isnan(X) | (pasts.value[place] == X)
    still = np.where(stays, pasts.still[place] + 1.0, 0.0)
    ends = np.flatnonzero(np.diff(moments.entity, append=-1))
    after = Past(
        time=moments.time[ends],
        total=moments.total[ends],
        known=moments.known[ends],
        sums=pasts.sums[ends],
        value=pasts.value[ends],
        still=pasts.still[ends],
        gaps=np.column_stack([sequences.gap, sequences.gap_sums])[ends],
    )
    return PastColumns(difference, pasts.swing[place], still), after


class _Moments(NamedTuple):
    """Rows of one entity and time as one, sorted by entity and time.

    Attributes
    ----------
    entity, time : ndarray of shape (m,)
    total, known : ndarray of shape (m, p)
        Sum and number of the known values.
    is_last : ndarray of bool of shape (m,)
        What the entity ended with before, and rows of that time.
    of_row : ndarray of shape (n,)
        Moment of each row.
    """

    entity: Codes
    time: Array
    total: Array
    known: Array
    is_last: Mask
    of_row: Codes


def _moments(X: Array, codes: Codes, times: Array, past: Past) -> _Moments:
    """Moments of rows, after the last one of each entity."""
    before = np.flatnonzero(past.time > -np.inf)
    entity = np.concatenate([before, codes])
    time = np.concatenate([past.time[before], times])
    is_known = ~np.isnan(X)
    total = np.concatenate([past.total[before], np.where(is_known, X, 0.0)])
    counts = np.concatenate([past.known[before], is_known])
    order = np.lexsort((time, entity))  # stable: the last ones stay before new rows
    entity = entity[order]
    time = time[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(entity) != 0) | (np.diff(time) != 0)
    starts = np.flatnonzero(is_first)
    total = total[order]
    counts = counts[order]
    if len(starts) < len(order):
        total = np.add.reduceat(total, starts)
        counts = np.add.reduceat(counts, starts)
    moment = np.empty(len(order), dtype=np.intp)
    moment[order] = np.cumsum(is_first) - 1
    is_last = order[starts] < len(before)
    return _Moments(
        entity[starts], time[starts], total, counts, is_last, moment[len(before) :]
    )


class _Sequences(NamedTuple):
    """Runs of moments of one entity without a long gap.

    Attributes
    ----------
    starts : ndarray of shape (s,)
        First moment of each sequence.
    goes_on : ndarray of bool of shape (s,)
        Whether it goes on from what its entity ended with.
    of_moment : ndarray of shape (m,)
    gap : ndarray of shape (m,)
        Time since the moment before of the same entity, NaN for none.
    gap_sums : ndarray of shape (m, 2)
        Weighted gaps before that, and their weights.
    """

    starts: Codes
    goes_on: Mask
    of_moment: Codes
    gap: Array
    gap_sums: Array


def _sequences(moments: _Moments, past: Past, span: int) -> _Sequences:
    """Where the past of an entity begins, or begins again."""
    is_first = np.diff(moments.entity, prepend=-1) != 0
    gap = np.diff(moments.time, prepend=np.nan)
    gap[is_first] = np.where(
        moments.is_last[is_first], past.gaps[moments.entity[is_first], 0], np.nan
    )
    starts = np.flatnonzero(is_first)
    terms = np.column_stack([np.nan_to_num(gap), ~np.isnan(gap)])
    initial = past.gaps[moments.entity[starts], 1:]
    sums = _running(terms, starts, initial, LONG * span)
    before = _shifted(sums, starts, initial)
    weight = np.maximum(before[:, 1], 1.0)
    is_long = gap * weight > RESTART * span * before[:, 0]
    is_long &= before[:, 1] > _weight_of(_USUAL_GAPS, LONG * span)
    # What an entity ended with has been looked at before.
    begins = is_first | (is_long & ~moments.is_last)
    goes_on = moments.is_last[begins] & is_first[begins]
    return _Sequences(
        np.flatnonzero(begins), goes_on, np.cumsum(begins) - 1, gap, before
    )


def _weight_of(rows: int, span: int) -> float:
    """A little less than what so many rows weigh."""
    decay = decay_of(span)
    return (1.0 - decay**rows) / (1.0 - decay) - 0.5


class _Pasts(NamedTuple):
    """What was before each moment.

    Attributes
    ----------
    mean, swing : ndarray of shape (m, p)
        Running mean, NaN where there is none; mean of recent steps.
    value, still : ndarray of shape (m, p)
        As in :class:`Past`.
    sums : ndarray of shape (m, 4, p)
    """

    mean: Array
    swing: Array
    value: Array
    still: Array
    sums: Array


def _pasts(moments: _Moments, sequences: _Sequences, past: Past, span: int) -> _Pasts:
    """What was before each moment of some sequences."""
    starts = sequences.starts
    entity = moments.entity[starts]
    goes_on = sequences.goes_on
    first_sums = np.where(goes_on[:, None, None], past.sums[entity], 0.0)
    first_value = np.where(goes_on[:, None], past.value[entity], np.nan)
    first_still = np.where(goes_on[:, None], past.still[entity], 0.0)
    is_known = moments.known > 0
    values = moments.total / np.maximum(moments.known, 1.0)
    last = _last_known(values, is_known, sequences, first_value)
    steps = np.where(is_known, np.abs(values - last), np.nan)
    has_step = ~np.isnan(steps)
    steps[~has_step] = 0.0
    number, width = values.shape
    sums = _running(
        np.concatenate([values * is_known, is_known, steps, has_step], axis=1),
        starts,
        first_sums.reshape(len(starts), -1),
        span,
    )
    sums = _shifted(sums, starts, first_sums.reshape(len(starts), -1))
    sums = sums.reshape(number, _SUMS, width)
    has_moved = is_known & ~(has_step & (steps == 0.0))
    still = _still_rows(has_moved, sequences, first_still)
    return _Pasts(
        mean=_ratio(sums[:, 0], sums[:, 1]),
        swing=np.nan_to_num(_ratio(sums[:, 2], sums[:, 3])),
        value=last,
        still=_shifted(still, starts, first_still),
        sums=sums,
    )


def _ratio(sums: Array, weights: Array) -> Array:
    """Means, NaN where nothing is remembered."""
    enough = weights > _FORGOTTEN
    return np.where(enough, sums / np.where(enough, weights, 1.0), np.nan)


def _last_known(
    values: Array, is_known: Mask, sequences: _Sequences, first: Array
) -> Array:
    """Value known last before each moment (m, p) of its sequence, NaN where there is none."""
    if is_known.all():
        return _shifted(values, sequences.starts, first)
    begin = sequences.starts[sequences.of_moment][:, None]
    place = np.roll(_last_place(is_known), 1, axis=0)
    place[sequences.starts] = -1
    last_values = np.take_along_axis(values, np.maximum(place, 0), axis=0)
    return np.where(place >= begin, last_values, first[sequences.of_moment])


def _still_rows(has_moved: Mask, sequences: _Sequences, first: Array) -> Array:
    """Moments (m, p) up to each one, it included, in which nothing moved."""
    begin = sequences.starts[sequences.of_moment][:, None]
    last_move = _last_place(has_moved)
    place = np.arange(len(has_moved))[:, None]
    since_begin = place - begin + 1 + first[sequences.of_moment]
    return np.where(last_move >= begin, place - last_move, since_begin)


def _last_place(mask: Mask) -> Codes:
    """Last line up to each one in which a mask (m, p) is true; -1 where there is none."""
    places = np.where(mask, np.arange(len(mask))[:, None], -1)
    return np.maximum.accumulate(places, axis=0)


def _shifted(values: Array, starts: Codes, first: Array) -> Array:
    """Values (m, k) of the line before, and others (s, k) where sequences start."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[starts] = first
    return before


def decay_of(span: int) -> float:
    """What a row weighs less than the one after it, in means over a span."""
    return 1.0 - 2.0 / (span + 1.0)


def _running(terms: Array, starts: Codes, initial: Array, span: int) -> Array:
    """Weighted sums :math:`y_i = x_i + q y_{i-1}` along sequences.

    Parameters
    ----------
    terms : ndarray of shape (m, k)
    starts : ndarray of shape (s,)
        First line of each sequence.
    initial : ndarray of shape (s, k)
        Sums before.
    span : int

    Returns
    -------
    ndarray of shape (m, k)
    """
    decay = decay_of(span)
    coefficients = np.array([1.0, -decay])
    sums = np.empty_like(terms)
    lengths = np.diff(starts, append=len(terms))
    for number in np.flatnonzero(lengths >= _SHORT).tolist():
        lines = slice(starts[number], starts[number] + lengths[number])
        sums[lines], _ = lfilter(
            [1.0], coefficients, terms[lines], axis=0, zi=decay * initial[[number]]
        )
    # Shorter ones side by side, with others of about their length.
    sizes = np.where(lengths < _SHORT, np.frexp(lengths - 0.5)[1], -1)
    for size in np.unique(sizes[sizes >= 0]).tolist():
        chosen = np.flatnonzero(sizes == size)
        places = starts[chosen, None] + np.arange(lengths[chosen].max())
        inside = places < (starts + lengths)[chosen, None]
        padded = terms[np.minimum(places, len(terms) - 1)]
        padded_sums, _ = lfilter(
            [1.0], coefficients, padded, axis=1, zi=decay * initial[chosen, None]
        )
        sums[places[inside]] = padded_sums[inside]
    return sums
