r"""Weighted sums along sequences of rows, and rows of one time taken as one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from manyone._types import Array, Codes, Mask

# A value that was seen so long ago, by its weight, is no past.
_FORGOTTEN = 1e-9
# Shorter sequences are filtered side by side.
_SHORT = 128
# So few rows, as of streams, are summed one after the other: a filter has to be set up.
_TINY = 4


class Moments(NamedTuple):
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

    def ends(self) -> Codes:
        """The last moment of each entity."""
        is_end = np.ones(len(self.entity), dtype=bool)
        is_end[:-1] = self.entity[1:] != self.entity[:-1]
        return np.flatnonzero(is_end)

    def values(self) -> Array:
        """Mean of the known values of each moment (m, p), 0 where there are none."""
        return np.asarray(self.total / np.maximum(self.known, 1.0))


class Ended(NamedTuple):
    """The last moments of E entities: times (E,), minus infinity for none, and values."""

    time: Array
    total: Array
    known: Array


def moments_of(X: Array, codes: Codes, times: Array, ended: Ended) -> Moments:
    """Moments of rows (n, p), after the last one of each entity."""
    before = np.flatnonzero(ended.time > -np.inf)
    entity = np.concatenate([before, codes])
    time = np.concatenate([ended.time[before], times])
    is_known = ~np.isnan(X)
    total = np.concatenate([ended.total[before], np.where(is_known, X, 0.0)])
    counts = np.concatenate([ended.known[before], is_known])
    order = np.lexsort((time, entity))  # stable: the last ones stay before new rows
    entity = entity[order]
    time = time[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (entity[1:] != entity[:-1]) | (time[1:] != time[:-1])
    starts = np.flatnonzero(is_first)
    total = total[order]
    counts = counts[order]
    if len(starts) < len(order):
        total = np.add.reduceat(total, starts)
        counts = np.add.reduceat(counts, starts)
    moment = np.empty(len(order), dtype=np.intp)
    moment[order] = np.cumsum(is_first) - 1
    is_last = order[starts] < len(before)
    return Moments(
        entity[starts], time[starts], total, counts, is_last, moment[len(before) :]
    )


def decay_of(span: int) -> float:
    """What a row weighs less than the one after it, in means over a span."""
    return 1.0 - 2.0 / (span + 1.0)


def weight_of(rows: int, span: int) -> float:
    """A little less than what so many rows weigh."""
    decay = decay_of(span)
    return (1.0 - decay**rows) / (1.0 - decay) - 0.5


def ratio(sums: Array, weights: Array, least: float = _FORGOTTEN) -> Array:
    """Means, NaN where what is remembered weighs too little."""
    enough = weights > least
    return np.where(enough, sums / np.where(enough, weights, 1.0), np.nan)


def shifted(values: Array, starts: Codes, first: Array) -> Array:
    """Values (m, k) of the line before, and others (s, k) where sequences start."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[starts] = first
    return before


def running(terms: Array | Mask, starts: Codes, initial: Array, span: int) -> Array:
    """Weighted sums :math:`y_i = x_i + q y_{i-1}` along sequences.

    Weights of rows are mostly those of all columns: these are summed once.

    Parameters
    ----------
    terms : ndarray of shape (m, k)
        Values, or a mask of what counts.
    starts : ndarray of shape (s,)
        First line of each sequence.
    initial : ndarray of shape (s, k)
        Sums before.
    span : int

    Returns
    -------
    ndarray of shape (m, k)
    """
    if terms.dtype == bool and terms.shape[1] > 1:
        are_alike = (terms == terms[:, :1]).all() and (initial == initial[:, :1]).all()
        if are_alike:
            sums = running(terms[:, :1], starts, initial[:, :1], span)
            return np.broadcast_to(sums, terms.shape)
    decay = decay_of(span)
    sums = np.empty(terms.shape)
    lengths = np.append(starts[1:], len(terms)) - starts
    longest = int(lengths.max(initial=0))
    if longest <= _TINY:
        for step in range(longest):
            goes_on = np.flatnonzero(lengths > step)
            lines = starts[goes_on] + step
            before = sums[lines - 1] if step else initial[goes_on]
            sums[lines] = terms[lines] + decay * before
        return sums
    coefficients = np.array([1.0, -decay])
    for number in np.flatnonzero(lengths >= _SHORT).tolist():
        place = slice(starts[number], starts[number] + lengths[number])
        sums[place], _ = lfilter(
            [1.0], coefficients, terms[place], axis=0, zi=decay * initial[[number]]
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
