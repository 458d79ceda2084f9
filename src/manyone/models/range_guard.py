"""Values outside everything ever seen: a sum over columns dilutes one wild column, a guard not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes, Rows

# Share of the training rows that may be outside the range of all others by more than a margin.
_SHARE = 0.01
_LEAST_MARGIN = 0.5
# Beyond so many margins, rows are as far outside as can be told.
_FARTHEST = 1e3
# A training row counts for at most so many margins outside: what is outside by `ALARM` margins
# raises an alarm even where such a row was trained on.
_CAP, ALARM = 1.5, 2.0


@dataclass(frozen=True, eq=False)
class RangeGuard:
    """Scores are lowered by ``unit * max(0, u - 1)``, u the margins that a row is out of range.

    Parameters
    ----------
    lower, upper : ndarray of shape (d,)
        Range of each column.
    margin : ndarray of shape (d,)
        Infinite where a column is not guarded.
    unit : float
        Of the scores; so large that two margins raise an alarm whatever else a row is like.
    """

    lower: Array
    upper: Array
    margin: Array
    unit: float

    def outside(self, X: Rows) -> Array:
        """Margins that each value is out of its range, shape (n, d)."""
        return np.maximum(np.maximum(self.lower - X, X - self.upper), 0.0) / self.margin

    def penalty(self, X: Rows) -> Array:
        """What the scores of rows (n, d) are lowered by, shape (n,)."""
        return self.unit * np.clip(self.outside(X).max(axis=1) - 1.0, 0.0, _FARTHEST)


def guard_ranges(
    X: Array, scores: Array, margin: Array, groups: Codes | None = None
) -> tuple[RangeGuard, Array]:
    """The guard of the ranges of rows, and what it says of each row once it is left out.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Normal rows.
    scores : ndarray of shape (n,)
        Their left-out scores.
    margin : ndarray of shape (d,)
        Of columns for which it is known; NaN: learned, so that hardly any left-out row is outside.
    groups : ndarray of shape (n,) or None
        Rows that are left out together; None: every row is by itself.

    Returns
    -------
    guard : RangeGuard
    penalty : ndarray of shape (n,)
        Lowers the left-out scores, so that the guard's alarms are counted in the promised rate.
    """
    learned = np.isnan(margin)
    gap = np.zeros(len(X))
    ends = []
    for sign in (-1.0, 1.0):
        first, bound = _without(sign * X, groups)
        ends.append(sign * first)
        excess = np.where(learned, sign * X - bound, 0.0)
        gap = np.maximum(gap, excess.max(axis=1, initial=0.0))
    ordered = np.sort(gap)
    typical = max(float(ordered[len(gap) - 1 - int(_SHARE * len(gap))]), _LEAST_MARGIN)
    known = scores[np.isfinite(scores)]
    reach = np.ptp(known) + np.abs(known).max() if len(known) else 1.0
    unit = 4.0 * max(float(reach), 1e-6)
    guard = RangeGuard(ends[0], ends[1], np.where(learned, typical, margin), unit)
    return guard, unit * np.clip(gap / typical - 1.0, 0.0, _CAP - 1.0)


def _without(X: Array, groups: Codes | None) -> tuple[Array, Array]:
    """Largest value of each column (d,), and of each row's column without its group (n, d)."""
    top = X
    if groups is not None:
        top = np.full((groups.max() + 1, X.shape[1]), -np.inf)
        np.maximum.at(top, groups, X)
    if len(top) == 1:
        return top[0], np.broadcast_to(top, X.shape)
    second, first = np.partition(top, [len(top) - 2, len(top) - 1], axis=0)[-2:]
    mine = top if groups is None else top[groups]
    return first, np.where(mine == first, second, first)
