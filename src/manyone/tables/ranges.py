"""Ranges of columns, and how far out of them normal rows are when they are left out.

A value x above the range of a column is ``(x - highest) / (highest - median)`` tails outside: the
same whatever the units, and fair to heavy tails. The row with the highest value, left out, is to
the others what a new row is to all: the margin is the farthest that any left-out row is outside,
so that a normal row of n + 1 leaves it with a chance of at most 1 / (n + 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes

# In tails; one wild training row must not switch the guard off.
_LEAST_MARGIN = 0.25
_MOST_MARGIN = 2.0


class Ranges(NamedTuple):
    """Ranges of columns of numbers.

    Parameters
    ----------
    lower, upper : ndarray of shape (p,)
    below, above : ndarray of shape (p,)
        Margins beyond them.
    """

    lower: Array
    upper: Array
    below: Array
    above: Array


def learn_ranges(values: Array, groups: Codes | None = None) -> Ranges:
    """Ranges of columns (n, p), NaN where missing; groups (n,) are left out together."""
    missing = np.isnan(values)
    lowest = two_highest(np.where(missing, -np.inf, -values), groups)
    highest = two_highest(np.where(missing, -np.inf, values), groups)
    return ranges_between(np.nanmedian(values, axis=0), lowest, highest)


@np.errstate(over="ignore")  # nothing is beyond infinity
def ranges_between(middle: Array, lowest: Array, highest: Array) -> Ranges:
    """Ranges from medians (p,) and the two ends of each column, (2, p), the lower ones negated."""
    span = highest[0] + lowest[0]
    span = np.where(span > 0, span, 1.0)
    ends = []
    tails = []
    margin = _LEAST_MARGIN
    for sign, outer in ((-1.0, lowest), (1.0, highest)):
        first, second = outer - sign * middle
        ends.append(sign * outer[0])
        tails.append(np.where(first > 0, first, span))
        gap = (first - second) / np.where(second > 0, second, span)
        margin = max(margin, float(gap.max(initial=0.0)))
    margin = min(margin, _MOST_MARGIN)
    return Ranges(ends[0], ends[1], margin * tails[0], margin * tails[1])


def two_highest(values: Array, groups: Codes | None = None) -> Array:
    """Highest value of each column, and highest of all other groups, shape (2, p)."""
    top = values
    if groups is not None:
        top = np.full((groups.max() + 1, values.shape[1]), -np.inf)
        np.maximum.at(top, groups, values)
    first, second = top_two(top)
    # A column with no value in any other group has no other range.
    return np.stack([first, np.where(np.isneginf(second), first, second)])


def top_two(values: Array) -> Array:
    """The two highest values of each column, shape (2, p); minus infinity where there is none."""
    values = np.vstack([np.full((2, values.shape[1]), -np.inf), values])
    return np.partition(values, [-2, -1], axis=0)[:-3:-1]
