r"""Copies: rows that a task has several times.

**What goes wrong.** A copy that is left out is judged by a model that still has its
other copies. Its response and the mean response both change a little, so it may score
slightly higher than a new row with the same values. A threshold between these two
scores lets all such new rows raise an alarm: one yes/no column raised 33 % of 10.

**The rule.** A copy scores at most what the model of all rows, :math:`s`, says of it:

.. math:: c_i \leftarrow \min (c_i, s(x_i)) \quad \text{for copies.}

New rows are scored by that very model, so the threshold is theirs: 4 % of 10. Rows
without copies keep their scores.

**How copies are found.** Their left-out scores are equal, but for rounding. (Rows
themselves may be gone: models of many rows keep scores only.) A row that counts for two
or more is its own copy.

**Few values.** Where many rows have copies, columns have few values. Whether a copy is
among the others is then most of what a depth says. So tasks share one unit
(:mod:`.borrowing`), and scores are not moved (:mod:`.equal_terms`). 20 tasks of 5 rows
with three categories raised 24 % of 20 in units of their own, and 19 in one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask, Rows
from manyone.calibration.ranks import ROUNDING
from manyone.data.rows import CodedRows

#: Fewer rows tell neither copies nor a unit. (Left-out scores of two rows are equal by
#: symmetry, and of three nearly so.)
ENOUGH_ROWS = 4.0


class Copies(NamedTuple):
    """Which of some rows are copies.

    Attributes
    ----------
    tied : ndarray of bool of shape (n,)
    are_many : bool
        Whether they are more than 5 % of the rows, on average over tasks. Rows of
        measured numbers have hardly any copies, rows of categories far more.
    """

    tied: Mask
    are_many: bool


def find_copies(scores: Array, codes: Codes, weight: Array) -> Copies:
    """Copies among rows, see the module.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Left-out scores, or depths; NaN: the row has none, and does not count.
    codes, weight : ndarray of shape (n,)

    Returns
    -------
    Copies
    """
    order = np.lexsort((scores, codes))
    ascending = scores[order]
    gap = np.diff(ascending)
    level = gap <= ROUNDING * (1.0 + np.abs(ascending[1:]))
    level &= np.diff(codes[order]) == 0
    tied = np.zeros(len(scores), dtype=bool)
    tied[order[1:]] |= level
    tied[order[:-1]] |= level
    judged = ~np.isnan(scores)
    tied = (tied | (weight >= 2.0)) & judged
    counts = np.bincount(codes[judged], weight[judged])
    copies = np.bincount(codes[judged], (weight * tied)[judged])
    several = counts >= ENOUGH_ROWS
    share = copies[several] / counts[several]
    return Copies(tied, len(share) > 0 and float(np.mean(share)) > 0.05)


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
    tied = np.flatnonzero(find_copies(scores, rows.codes, rows.weight).tied)
    if len(tied):
        seen[tied] = own(rows.as_new(tied), rows.codes[tied])
    return seen
