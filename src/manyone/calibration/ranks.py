"""Ranks of scores that differ by rounding where rows are copies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes

#: Scores of copies differ by rounding only.
ROUNDING = 1e-10


def levels_of(scores: Array) -> Codes:
    """Number of the value of each score (k,) among the ascending different ones."""
    order = np.argsort(scores, kind="stable")
    ascending = scores[order]
    rises = np.diff(ascending) > ROUNDING * (1.0 + np.abs(ascending[1:]))
    level = np.zeros(len(scores), dtype=np.intp)
    level[order[1:]] = np.cumsum(rises)
    return level


def doubled_ranks(scores: Array) -> tuple[NDArray[np.int64], bool]:
    """Twice the ranks (k,), ties sharing their mean, and whether there are any."""
    level = levels_of(scores)
    counts = np.bincount(level)
    doubled = 2 * np.cumsum(counts) - counts + 1
    return doubled[level], len(counts) < len(scores)
