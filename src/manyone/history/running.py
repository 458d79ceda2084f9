r"""Weighted sums along sequences of rows, and rows of one time taken as one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from manyone._types import Array, Codes, Mask

# A value that was seen so long ago, by its weight, is no past.
_FORGOTTEN = 1e-9
# Shorter sequences are filtered side by side.
_SHORT = 512
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
        if self.known.max(initial=0.0) <= 1.0:
            return self.total
        return np.asarray(self.total / np.maximum(self.known, 1.0))


class Ended(NamedTuple):
    """Last moments of E entities: times (E,), or minus infinity, and values."""

    time: Array
    total: Array
    known: Array


def known_values(X: Array) -> tuple[Array, Array | Mask]:
    """Values (n, p), 0 where they are missing, and which are known."""
    is_known = ~np.isnan(X)
    return X if is_known.all() else np.where(is_known, X, 0.0), is_known


def moments_of(
    total: Array, known: Array | Mask, codes: Codes, times: Array, ended: Ended
) -> Moments:
    """Moments of rows (n, p), after the last one of each entity.

    Rows are sorted by entity and time; `total` is the sum of the `known` values of
    each.
    """
    before = np.flatnonzero(ended.time > -np.inf)
    # Each last moment stands before the rows of its entity.
    line_before = np.searchsorted(codes, before) + np.arange(len(before))
    line = np.arange(len(codes)) + np.searchsorted(before, codes, side="right")
    number = len(codes) + len(before)
    order = np.empty(number, dtype=np.intp)
    order[line_before] = np.arange(len(before))
    order[line] = np.arange(len(before), number)

    def merged(last: Array | Codes, rows: Array | Codes | Mask) -> NDArray[Any]:
        return np.concatenate([last, rows]).take(order, axis=0)

    entity = merged(before, codes)
    time = merged(ended.time[before], times)
    totals = merged(ended.total[before], total)
    numbers = merged(ended.known[before], known)
    is_first = np.ones(number, dtype=bool)
    is_first[1:] = (entity[1:] != entity[:-1]) | (time[1:] != time[:-1])
    starts = np.flatnonzero(is_first)
    if len(starts) < number:
        totals = np.add.reduceat(totals, starts)
        numbers = np.add.reduceat(numbers, starts)
    moment = np.cumsum(is_first) - 1
    is_last = np.zeros(len(starts), dtype=bool)
    is_last[moment[line_before]] = True
    return Moments(entity[starts], time[starts], totals, numbers, is_last, moment[line])


def decay_of(span: int) -> float:
    """What a row weighs less than the one after it, in means over a span."""
    return 1.0 - 2.0 / (span + 1.0)


def weight_of(rows: int, span: int) -> float:
    """A little less than what so many rows weigh."""
    decay = decay_of(span)
    return (1.0 - decay**rows) / (1.0 - decay) - 0.5


def ratio(sums: Array, weights: Array, least: float = _FORGOTTEN) -> Array:
    """Means, NaN where what is remembered weighs too little."""
    return np.asarray(sums / np.where(weights > least, weights, np.nan))


def shifted(values: Array, starts: Codes, first: Array) -> Array:
    """Values (m, k) of the line before, and others (s, k) where sequences start."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[starts] = first
    return before


def running(terms: Array | Mask, starts: Codes, initial: Array, span: int) -> Array:
    """Weighted sums :math:`y_i = x_{i-1} + q y_{i-1}` of earlier lines of sequences.

    Parameters
    ----------
    terms : ndarray of shape (m, k)
        Values, or a mask of what counts.
    starts : ndarray of shape (s,)
        First line of each sequence.
    initial : ndarray of shape (s, k)
        Sums there.
    span : int

    Returns
    -------
    ndarray of shape (m, k)
        Or (m, 1), if all columns of a mask are alike.
    """
    if terms.dtype == bool and terms.shape[1] > 1:
        are_alike = terms.all() or (terms == terms[:, :1]).all()
        are_alike &= (initial == initial[:, :1]).all()
        if are_alike:
            return running(terms[:, :1], starts, initial[:, :1], span)
    decay = decay_of(span)
    sums = np.empty(terms.shape)
    lengths = np.append(starts[1:], len(terms)) - starts
    longest = int(lengths.max(initial=0))
    if longest <= _TINY:
        sums[starts] = initial
        for step in range(1, longest):
            lines = starts[lengths > step] + step
            sums[lines] = terms[lines - 1] + decay * sums[lines - 1]
        return sums
    of_terms = np.array([0.0, 1.0])
    of_sums = np.array([1.0, -decay])
    if (lengths == longest).all() and longest < _SHORT:
        together = terms.reshape(len(starts), longest, -1)
        summed, _ = lfilter(of_terms, of_sums, together, axis=1, zi=initial[:, None])
        return np.asarray(summed).reshape(terms.shape)
    for number in np.flatnonzero(lengths >= _SHORT).tolist():
        place = slice(starts[number], starts[number] + lengths[number])
        sums[place], _ = lfilter(
            of_terms, of_sums, terms[place], axis=0, zi=initial[[number]]
        )
    # Shorter ones side by side, with others of about their length.
    sizes = np.where(lengths < _SHORT, np.frexp(lengths - 0.5)[1], -1)
    for size in np.unique(sizes[sizes >= 0]).tolist():
        chosen = np.flatnonzero(sizes == size)
        places = starts[chosen, None] + np.arange(lengths[chosen].max())
        inside = places < (starts + lengths)[chosen, None]
        padded = terms[np.minimum(places, len(terms) - 1)]
        padded_sums, _ = lfilter(
            of_terms, of_sums, padded, axis=1, zi=initial[chosen, None]
        )
        sums[places[inside]] = padded_sums[inside]
    return sums
