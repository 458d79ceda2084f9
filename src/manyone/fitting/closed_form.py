"""Left-out scores of ridge regressions in closed form, of rows and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, LeftOutSource, Mask
from manyone.data.groups import leaving_together
from manyone.data.rows import TrainingRows
from manyone.solvers.leave_blocks import scores_without_blocks
from manyone.solvers.ridge import left_out_rows

#: Takes the scaled residuals (n,) of all rows and blocks of rows: the residuals of each
#: block under the model without it.
SolveWithout = Callable[[Array, list[Codes]], Iterable[Array]]


class ClosedForm(NamedTuple):
    """What a ridge regression says of rows that leave it.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Left-out scores; NaN for known outliers, and for rows that cannot leave.
    responses : ndarray of shape (n, 2) or None
        See :class:`~manyone.solvers.ridge.LeftOutRows`; None where groups leave.
    source : str
        How rows were left out.
    total, mean : ndarray of shape (T,)
        What the normal rows of each task weigh, and their mean response.
    """

    scores: Array
    responses: Array | None
    source: LeftOutSource
    total: Array
    mean: Array


def closed_form(
    rows: TrainingRows, residual: Array, remaining: Array, solve_without: SolveWithout
) -> ClosedForm:
    """Left-out scores of the rows of a fit.

    Parameters
    ----------
    rows : TrainingRows
    residual : ndarray of shape (n,)
        1 - f_t(x) of each normal row for its own task t.
    remaining : ndarray of shape (n,)
        One minus the leverage of one count of each row.
    solve_without : callable
        Used where rows have groups.
    """
    normal = np.flatnonzero(~rows.outlier)
    codes = rows.codes[normal]
    weight = rows.weight[normal]
    residuals = residual[normal]
    total = np.bincount(codes, weight, rows.n_tasks).astype(np.float64)
    mean = 1.0 - np.bincount(codes, weight * residuals, rows.n_tasks) / total
    scores = np.full(len(rows.codes), np.nan)
    if rows.group is None:
        left = residuals / remaining[normal]
        responses = np.full((len(scores), 2), np.nan)
        scores[normal], responses[normal] = left_out_rows(
            residuals, left, left * residuals, weight, total[codes], mean[codes]
        )
        return ClosedForm(scores, responses, "leave-one-out", total, mean)
    scores[normal] = residuals
    scores = scores_without_groups(rows, scores, total, mean, solve_without)
    return ClosedForm(scores, None, "leave-group-out", total, mean)


def scores_without_groups(
    rows: TrainingRows,
    residual: Array,
    total: Array,
    mean: Array,
    solve_without: SolveWithout,
    has_earlier: Mask | None = None,
) -> Array:
    """Scores (n,) of rows under models without their group; see `leaving_together`."""
    leaving = leaving_together(rows, has_earlier)
    scaled = np.sqrt(rows.weight) * residual
    solved = solve_without(scaled, [left.gone for left in leaving])
    return scores_without_blocks(
        solved, leaving, residual, rows.weight, rows.codes, total, mean
    )
