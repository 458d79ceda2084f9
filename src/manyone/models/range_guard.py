"""Values outside everything ever seen: a sum over columns dilutes one wild column, a guard not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyone._types import Array, Rows
from manyone.calibration import Calibration

#: So many margins out of range raise an alarm, whatever else a row is like.
ALARM = 2.0
# So many more, and a row scores lower than any other.
_FARTHEST = 50.0


@dataclass(frozen=True, eq=False)
class RangeGuard:
    """Rows with a value out of range score as the worst left-out row of their task, or lower.

    With u the margins that a row is out of range, the score falls to the floor as u goes from 1 to
    2, and on below it as u grows.

    Parameters
    ----------
    lower, upper : ndarray of shape (d,)
        Range of each column.
    below, above : ndarray of shape (d,)
        Margins on either side; infinite where a column is not guarded.
    floor : ndarray of shape (T,)
        Score below that of every left-out row, for each task.
    reach : float
        How far scores differ.
    """

    lower: Array
    upper: Array
    below: Array
    above: Array
    floor: Array
    reach: float

    def widened(self, X: Array, calibration: Calibration) -> RangeGuard:
        """Ranges that reach to more normal rows (n, d), with the margins that there are."""
        lower = np.minimum(self.lower, X.min(axis=0, initial=np.inf))
        upper = np.maximum(self.upper, X.max(axis=0, initial=-np.inf))
        return RangeGuard(lower, upper, self.below, self.above, *floors(calibration))

    def outside(self, X: Rows, columns: Any = slice(None)) -> Array:
        """Margins that each value of some columns is out of its range, shape (n, columns)."""
        X = X[:, columns]
        under = (self.lower[columns] - X) / self.below[columns]
        over = (X - self.upper[columns]) / self.above[columns]
        return np.maximum(np.maximum(under, over), 0.0)

    def guarded(self, scores: Array, floor: Array, X: Rows) -> Array:
        """Scores (..., n) of rows (n, d), with the floor of each, lowered where out of range."""
        # Margins grow away from the range: a column's extremes say whether any row counts.
        wild = self.outside(np.stack([X.min(axis=0), X.max(axis=0)])).max(axis=0) > 1.0
        if not wild.any():
            return scores
        margins = self.outside(X, wild).max(axis=1)
        fall = np.clip(margins - 1.0, 0.0, ALARM - 1.0) * np.maximum(
            scores - floor, 0.0
        )
        return (
            scores
            - fall
            - self.reach * np.clip((margins - ALARM) / _FARTHEST, 0.0, 1.0)
        )


def floors(calibration: Calibration) -> tuple[Array, float]:
    """Score below that of all left-out rows, own or pooled, of each task (T,); and their reach."""
    reach = max(
        float(np.ptp(calibration.scores) + np.abs(calibration.scores).max()), 1e-6
    )
    rows = np.diff(calibration.starts)
    first = np.minimum(calibration.starts[:-1], len(calibration.scores) - 1)
    own = np.where(rows > 0, calibration.scores[first], 0.0)
    pooled = calibration.pool_scores[0] * calibration.spread
    return np.minimum(own, pooled) - 1e-6 * reach, reach
