"""Ranges of columns, and how far out of them normal rows are when they are left out.

A value x above the range of a column is ``(x - highest) / (highest - median)`` tails
outside. This does not depend on units, and is fair to heavy tails. To the other rows
the row with the highest value is what a new row is to all. So the margin is the
farthest that any row is outside of the range of the others. The next normal row after n
is farther outside with a probability of at most 1 / (n + 1).
"""

from __future__ import annotations

import numpy as np

from manyone._types import Array, Codes
from manyone.data.rows import MISSING
from manyone.models.column_range import ColumnRange


def learn_ranges(values: Array, groups: Codes) -> tuple[ColumnRange, Array]:
    """Ranges of columns, and how far each row is out of those without its group.

    Parameters
    ----------
    values : ndarray of shape (n, p)
        NaN where missing.
    groups : ndarray of shape (n,)
        Numbers of groups; their rows are left out together.

    Returns
    -------
    ranges : ColumnRange
        Of all rows.
    margins : ndarray of shape (n,)
        That each row is out of the ranges without its group.
    """
    middle = np.nanmedian(values, axis=0)
    ends = [_three_highest(sign * values, groups) for sign in (-1.0, 1.0)]
    lowest, highest = (_two_without(MISSING, *end) for end in ends)
    ranges = _between(middle, lowest, highest)
    margins = np.zeros(len(values))
    farthest = np.concatenate([number[0] for _, number in ends])
    for group in np.unique(farthest).tolist():
        lowest, highest = (_two_without(group, *end) for end in ends)
        rows = np.flatnonzero(groups == group)
        with np.errstate(invalid="ignore", over="ignore"):
            outside = _between(middle, lowest, highest).margins(values[rows])
        has_range = np.isfinite(lowest[0]) & np.isfinite(highest[0])
        counts = has_range & ~np.isnan(outside)
        margins[rows] = np.where(counts, outside, 0.0).max(axis=1)
    return ranges, margins


@np.errstate(over="ignore")  # nothing is beyond infinity
def _between(
    middle: Array, lowest: Array, highest: Array, least: float = 0.25, most: float = 2.0
) -> ColumnRange:
    """Ranges from medians (p,) and both ends (2, p), the lower ones negated.

    Margins are between `least` and `most` tails: one wild training row does not switch
    the guard off.
    """
    span = highest[0] + lowest[0]
    span = np.where(span > 0, span, 1.0)
    ends = []
    tails = []
    margin = least
    for sign, outer in ((-1.0, lowest), (1.0, highest)):
        first, second = outer - sign * middle
        ends.append(sign * outer[0])
        tails.append(np.where(first > 0, first, span))
        gap = (first - second) / np.where(second > 0, second, span)
        margin = max(margin, float(gap.max(initial=0.0)))
    margin = min(margin, most)
    return ColumnRange(ends[0], ends[1], margin * tails[0], margin * tails[1])


def _three_highest(values: Array, groups: Codes) -> tuple[Array, Codes]:
    """The three highest values of each column, one a group, and their groups."""
    top = np.full((max(int(groups.max()) + 1, 3), values.shape[1]), -np.inf)
    np.fmax.at(top, groups, values)
    order = np.argpartition(-top, [0, 1, 2], axis=0)[:3]
    return np.take_along_axis(top, order, axis=0), order


def _two_without(group: int, values: Array, owners: Codes) -> Array:
    """The two highest values (2, p) of three (3, p), without those of one group.

    A column with no value in any other group has no other range: one value counts
    twice.
    """
    first = np.where(owners[0] == group, values[1], values[0])
    second = np.where(np.isin(owners[:2], [group]).any(axis=0), values[2], values[1])
    return np.stack([first, np.where(np.isneginf(second), first, second)])
