"""A guard by the ranges of columns: how far the wildest value of a row is out of them.

:mod:`manyone.tables.ranges` learns the ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyone._types import Array, Codes, Rows

#: A row this many margins out of range raises an alarm, whatever else it is like.
ALARM = 2.0


@dataclass(frozen=True, eq=False)
class ColumnRange:
    """How far the wildest value of a row is out of the range of its column.

    In margins: 0 up to one of them, 1 at two, where a row is to raise an alarm.

    Parameters
    ----------
    lower, upper : ndarray of shape (d,)
        Range of each column.
    below, above : ndarray of shape (d,)
        Margins on either side; infinite where a column is not guarded.
    """

    lower: Array
    upper: Array
    below: Array
    above: Array

    def margins(self, X: Rows, columns: Any = slice(None)) -> Array:
        """Margins (n, columns) by which values are out of the range of their column."""
        X = X[:, columns]
        under = (self.lower[columns] - X) / self.below[columns]
        over = (X - self.upper[columns]) / self.above[columns]
        return np.maximum(np.maximum(under, over), 0.0)

    def outside(
        self, X: Rows, codes: Codes | None = None, largest: Array | None = None
    ) -> Array:
        """See :class:`~manyone.models.guards.Guard`."""
        # Margins grow away from the range. So the extremes of a column tell whether any
        # row is out of it.
        extremes = np.stack([X.min(axis=0), X.max(axis=0)])
        largest_margins = self.margins(extremes).max(axis=0)
        wild = largest_margins > 1.0
        if not wild.any():
            return np.zeros(X.shape[0])
        wildest = self.margins(X, wild).max(axis=1)
        return excess_of_margins(wildest)

    def sure(self) -> float:
        """See :class:`~manyone.models.guards.Guard`: two margins out of range."""
        return float(excess_of_margins(np.array(ALARM)))


def excess_of_margins(margins: Array) -> Array:
    """Excess (n,) of rows by the margins of the wildest of their values.

    It grows from 0 at one margin to 1 at two, and slowly to 2 fifty margins farther
    out: a row there scores lower than any other.
    """
    first = np.clip(margins - 1.0, 0.0, ALARM - 1.0)
    return first + np.clip((margins - ALARM) / 50.0, 0.0, 1.0)


def score_range(scores: Array) -> float:
    """How far scores differ: a row that loses as much scores below all of them."""
    return max(float(np.ptp(scores) + np.abs(scores).max()), 1e-6)
