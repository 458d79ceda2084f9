r"""Faults in time, made in rows with a past, to see by what they are found.

A row has of each column its value x, the difference d from a running mean m of earlier
rows, and the swing, the mean of recent steps. A fault that began k rows before the row
has changed all three, and by how much follows from the weights of the past: rows before
the fault still weigh :math:`q^k` in means, and those of the fault :math:`1 - q^k`. So
faults are made in single rows, without the rows between. With s the size of a change
and a slope of s in 5 spans,

========  ===================  =============================  ==========================
fault     value                difference                     swing
========  ===================  =============================  ==========================
spike     :math:`x + s`        :math:`d + s`                  as they are
shift     :math:`x + s`        :math:`d + s q^k`              as they are
drift     :math:`x + k s'`     :math:`d + s'(1-q^k)/(1-q)`    as they are
stuck     :math:`m + d_j`      :math:`q^k d_j`                :math:`q^k` times
noisy     :math:`m + 2 d`      :math:`2 d`                    :math:`2 - q^k` times
quiet     :math:`m + d / 2`    :math:`d / 2`                  :math:`(1 + q^k)/2` times
broken    :math:`m + d_j`      :math:`d_j`                    as they are
========  ===================  =============================  ==========================

where j is another row of the task: *broken* is a relation between columns that no
longer holds. Each fault is one of a single column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.data.hashing import Hashes
from manyone.history.running import decay_of

#: Kinds of faults, in the order of the table above.
KINDS = ("spike", "shift", "drift", "stuck", "noisy", "quiet", "broken")
# Size of a change in standard deviations inside tasks, as elsewhere for synthetic
# faults.
_SIZE = 4.0
# Spans in which a drift goes as far, and spans that the oldest fault has lasted.
_DRIFT_SPANS = 5
_OLDEST_SPANS = 10
# Noise grows, or falls, by this factor.
_NOISE = 2.0


class RowsInTime(NamedTuple):
    """Values of rows and what was made from their past, each of shape (n, p)."""

    level: Array
    difference: Array
    swing: Array


class RowsToSpoil(NamedTuple):
    """Rows that faults are made in.

    Attributes
    ----------
    rows : RowsInTime
    codes : ndarray of shape (n,)
        Tasks.
    hashes : ndarray of uint64 of shape (n,)
        Of the content of rows: by it columns, signs and ages are drawn, so that nothing
        depends on the order of rows.
    level_spread, difference_spread : ndarray of shape (n, p)
        Standard deviations inside the task of each row.
    span : int
    """

    rows: RowsInTime
    codes: Codes
    hashes: Hashes
    level_spread: Array
    difference_spread: Array
    span: int

    def with_faults(self, kind: str) -> RowsInTime:
        """The rows, each with a fault of a kind (one of `KINDS`) in one column."""
        number, width = self.rows.level.shape
        lines = np.arange(number)
        column = (self._drawn(1) * width).astype(np.intp)
        level, difference, swing = (part[lines, column] for part in self.rows)
        oldest = np.log(_OLDEST_SPANS * self.span)
        age = np.floor(np.exp(oldest * self._drawn(2)))
        sign = np.where(self._drawn(3) < 0.5, -1.0, 1.0)
        decay = decay_of(self.span)
        left = decay**age
        mean = level - difference
        step = _SIZE * sign * self.difference_spread[lines, column]
        slope = _SIZE * sign * self.level_spread[lines, column]
        slope /= _DRIFT_SPANS * self.span
        swapped = self.rows.difference[self._partners(), column]
        changed = {
            "spike": (level + step, difference + step, swing),
            "shift": (level + step, difference + step * left, swing),
            "drift": (
                level + slope * age,
                difference + slope * (1.0 - left) / (1.0 - decay),
                swing,
            ),
            "stuck": (mean + swapped, swapped * left, swing * left),
            "noisy": (
                mean + _NOISE * difference,
                _NOISE * difference,
                swing * (left + _NOISE * (1.0 - left)),
            ),
            "quiet": (
                mean + difference / _NOISE,
                difference / _NOISE,
                swing * (left + (1.0 - left) / _NOISE),
            ),
            "broken": (mean + swapped, swapped, swing),
        }
        values, differences, swings = changed[kind]
        spoiled = RowsInTime(*(part.copy() for part in self.rows))
        spoiled.level[lines, column] = values
        spoiled.difference[lines, column] = differences
        spoiled.swing[lines, column] = swings
        return spoiled

    def _drawn(self, salt: int) -> Array:
        """Numbers between 0 and 1 by the content of rows, shape (n,)."""
        mixed = self.hashes * np.uint64(2 * salt + 1) ^ (self.hashes >> np.uint64(29))
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(11)) / 2.0**53

    def _partners(self) -> Codes:
        """For each row another one of its task, or itself where there is none, (n,)."""
        order = np.lexsort((self.hashes, self.codes))
        starts = np.flatnonzero(np.diff(self.codes[order], prepend=-1))
        following = np.roll(order, -1)
        ends = np.append(starts[1:], len(order)) - 1
        following[ends] = order[starts]
        partners = np.empty(len(order), dtype=np.intp)
        partners[order] = following
        return partners
