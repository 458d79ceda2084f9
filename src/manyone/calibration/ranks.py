"""Ranks of scores that differ by rounding where rows are copies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array

#: Scores of copies differ by rounding only.
ROUNDING = 1e-10


def doubled_ranks(scores: Array) -> tuple[NDArray[np.int64], bool]:
    """Twice the ranks (k,), ties sharing their mean, and whether there are any."""
    order = np.argsort(scores, kind="stable")
    ascending = scores[order]
    rises = np.diff(ascending) > ROUNDING * (1.0 + np.abs(ascending[1:]))
    level = np.concatenate([[0], np.cumsum(rises)])
    last = np.cumsum(np.bincount(level))
    first = np.concatenate([[0], last[:-1]])
    doubled = np.empty(len(scores), dtype=np.int64)
    doubled[order] = (first + last + 1)[level]
    return doubled, not rises.all()
