"""Rows that are given several times in their task.

A copy that is left out is judged by a model that has its other copies. And where rows
have few values, whether a copy is among the others is most of what their depths say: 20
tasks of 5 rows with three categories, in units of their depths, raised 24 % of 20,
without 19.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manyone._types import Array, Codes, Mask, Rows
from manyone.calibration.ranks import ROUNDING
from manyone.data.rows import CodedRows

# With a larger share of copies rows have few values.
_MOST_TIED = 0.05
#: Left-out scores of fewer rows may be equal by symmetry, and are hardly more than one
#: number, as each row leaves out the others.
ENOUGH_ROWS = 4.0


def tied_scores(scores: Array, codes: Codes, weight: Array) -> Mask:
    """Rows whose left-out score another row of their task has, too: copies, shape (n,).

    A row that counts for two or more is its own copy.
    """
    order = np.lexsort((scores, codes))
    ascending = scores[order]
    gap = np.diff(ascending)
    level = gap <= ROUNDING * (1.0 + np.abs(ascending[1:]))
    level &= np.diff(codes[order]) == 0
    tied = np.zeros(len(scores), dtype=bool)
    tied[order[1:]] |= level
    tied[order[:-1]] |= level
    return (tied | (weight >= 2.0)) & ~np.isnan(scores)


def has_few_values(scores: Array, codes: Codes, weight: Array) -> bool:
    """Whether many rows (n,) have copies in their task, on average over tasks."""
    judged = ~np.isnan(scores)
    tied = tied_scores(scores, codes, weight)
    counts = np.bincount(codes[judged], weight[judged])
    copies = np.bincount(codes[judged], (weight * tied)[judged])
    several = counts >= ENOUGH_ROWS
    share = copies[several] / counts[several]
    return len(share) > 0 and float(np.mean(share)) > _MOST_TIED


def seen_scores(
    scores: Array, rows: CodedRows, own: Callable[[Rows, Codes], Array]
) -> Array:
    """Scores (n,) of copies under the model of all rows; infinite for other rows.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Left-out scores of the rows.
    rows : CodedRows
    own : callable
        The model of all rows: scores of rows (k, d) against their tasks (k,).
    """
    seen = np.full(len(scores), np.inf)
    tied = np.flatnonzero(tied_scores(scores, rows.codes, rows.weight))
    if len(tied):
        seen[tied] = own(rows.as_new(tied), rows.codes[tied])
    return seen
