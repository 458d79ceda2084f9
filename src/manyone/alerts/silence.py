r"""Entities that went silent: longer without a row than ever before.

Let :math:`g_1, \dots, g_n` be the gaps between rows of a task, and c the time since its
last row. If the gap that is going on is exchangeable with those before it,

.. math:: p = \frac{1 + \#\{i : g_i \ge c\}}{n + 1}

falls while c grows, and ends at a value that is at most a with probability at most a.
So at most a share a of all gaps is ever flagged, however often somebody looks.

A task with fewer than 1/a - 1 gaps borrows, as thresholds do (see
`manyone.calibration.thresholds`): gaps are divided by the mean of the k gaps before
them, tasks are the units, and with S tasks

.. math:: p = \frac{1}{S} \Bigl( p_{own} + \sum_{other\ tasks}
              \text{share of their gaps that are no shorter} \Bigr).

The borrower has k gaps, and every gap of another task is divided by the mean of only k
gaps before it: so all are compared on equal terms. If tasks are exchangeable, at most a
share a of gaps is flagged on average over tasks. Where c is not longer than all own
gaps, p is at least a third of :math:`p_{own}`.

Rows of one moment are one arrival. Nothing is said of tasks with a single one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyone._types import Array, Codes
from manyone.alerts.evidence import powers_of_root_two
from manyone.calibration.thresholds import LIMIT_RATIO

#: Share of gaps that is flagged, unless another is asked for.
LEVEL = 0.01
#: Gaps of a task that are remembered, the last ones.
REMEMBERED = 500
# Gaps that a borrower's typical one may be the mean of.
_SIZES = np.array(powers_of_root_two(256))
_ROUNDING = 1e-9


def gap_pvalues(gaps: Array, current: Array, level: float) -> Array:
    """P-value of the gap that each task has now.

    Parameters
    ----------
    gaps : ndarray of shape (T, m)
        Positive, the latest last; NaN in front where a task has fewer than m.
    current : ndarray of shape (T,)
        Time since the last row.
    level : float
        Share of gaps that may be flagged.

    Returns
    -------
    ndarray of shape (T,)
    """
    counts = np.count_nonzero(~np.isnan(gaps), axis=1)
    own_p = (1.0 + np.count_nonzero(gaps >= current[:, None], axis=1)) / (counts + 1.0)
    p = np.where(counts > 0, own_p, 1.0)
    borrows = (counts > 0) & ((counts + 1.0) * level < 1.0 - _ROUNDING)
    size = np.zeros(len(counts), dtype=np.intp)
    size[borrows] = _SIZES[np.searchsorted(_SIZES, counts[borrows], "right") - 1]
    sums = np.cumsum(np.nan_to_num(gaps), axis=1)
    sums = np.insert(sums, 0, 0.0, axis=1)
    for k in np.unique(size[borrows]).tolist():
        borrowers = np.flatnonzero(size == k)
        p[borrowers] = _borrowed(gaps, sums, counts, current, borrowers, k)
    p[borrows] = (p[borrows] + own_p[borrows]) / _lenders(counts, size, borrows)
    within = borrows & (current <= np.nanmax(gaps, axis=1, initial=0.0))
    p[within] = np.maximum(p[within], own_p[within] / LIMIT_RATIO)
    return p


def _borrowed(
    gaps: Array, sums: Array, counts: Codes, current: Array, borrowers: Codes, k: int
) -> Array:
    """Share of the gaps of each other task that are as long, summed over them, (b,)."""
    n_tasks, longest = gaps.shape
    is_gap = np.arange(longest) >= (longest - counts + k)[:, None]
    means = np.ones((n_tasks, longest))
    means[:, k:] = (sums[:, k:-1] - sums[:, : -k - 1]) / k
    ratio = np.where(is_gap, gaps / np.where(is_gap, means, 1.0), np.nan)
    number = np.maximum(np.count_nonzero(is_gap, axis=1), 1)
    values = ratio[is_gap]
    weight = np.broadcast_to(1.0 / number[:, None], ratio.shape)[is_gap]
    order = np.argsort(values)
    above = np.insert(np.cumsum(weight[order][::-1]), 0, 0.0)[::-1]
    typical = (sums[borrowers, -1] - sums[borrowers, -k - 1]) / k
    wanted = current[borrowers] / typical
    total = above[np.searchsorted(values[order], wanted, "left")]
    of_itself = np.count_nonzero(ratio[borrowers] >= wanted[:, None], axis=1)
    return np.maximum(total - of_itself / number[borrowers], 0.0)


def gap_table(lists: Sequence[Array]) -> Array:
    """The last gaps of each task as one array (T, m), NaN in front."""
    longest = max(1, min(REMEMBERED, max((len(gaps) for gaps in lists), default=1)))
    table = np.full((len(lists), longest), np.nan)
    for task, gaps in enumerate(lists):
        if len(gaps):
            last = gaps[-longest:]
            table[task, -len(last) :] = last
    return table


def _lenders(counts: Codes, size: Codes, borrows: Array) -> Array:
    """Tasks that each borrower is compared with, itself included, shape (b,)."""
    ascending = np.sort(counts)
    need = size[borrows] + 1
    lenders = len(counts) - np.searchsorted(ascending, need, "left")
    return np.asarray(lenders - (counts[borrows] >= need) + 1.0)
