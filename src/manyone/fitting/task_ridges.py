"""Ridge regressions of one task at a time, stacked by their number of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.data.rows import MISSING, TrainingRows, row_blocks
from manyone.fitting.closed_form import closed_form
from manyone.kernels.gram import Gram
from manyone.models.solution import Solution
from manyone.models.task_expansions import TaskExpansions
from manyone.solvers.leave_blocks import solve_without_blocks
from manyone.solvers.ridge import (
    effective_alpha,
    factorise,
    solve_ridge_stack,
)


class TaskRidges(NamedTuple):
    """Ridge of each task (T,), coefficients and one minus leverage of its rows (n,),
    and the coefficients (m, T) of the m rows that all tasks share.
    """

    alpha: Array
    coef: Array
    remaining: Array
    shared_coef: Array


def independent_solution(gram: Gram, rows: TrainingRows, alpha: float) -> Solution:
    """Minimise ``sum_i w_i |f_t(x_i) - r_i|^2 + alpha |f_t|^2`` for each task t.

    Parameters
    ----------
    gram : Gram
    rows : TrainingRows
        Sorted by task, the outliers of every task last.
    alpha : float
        0: the smallest that double precision resolves.

    Returns
    -------
    Solution
    """
    solved = _solve_tasks(gram, rows, alpha)
    residual = solved.alpha[np.maximum(rows.codes, 0)] * solved.coef / rows.weight
    without = partial(_without_blocks, gram, rows, solved)
    judged = closed_form(rows, residual, solved.remaining, without)
    return Solution(
        TaskExpansions(
            gram.points, _starts(rows), solved.coef, solved.shared_coef, judged.mean
        ),
        judged.scores,
        judged.source,
        learned={"alpha": solved.alpha, "mean_response": judged.mean},
        responses=judged.responses,
        one_minus_leverage=solved.remaining,
    )


def independent_score_grid(gram: Gram, rows: TrainingRows, alphas: Array) -> Array:
    """Scores (k, n, T) for k ridges of rows left out, each task alone."""
    numbered = gram.by_number()
    normal = np.flatnonzero(~rows.outlier)
    table = np.empty((len(alphas), len(rows.codes), rows.n_tasks))
    for scores, alpha in zip(table, alphas, strict=True):
        solution = independent_solution(numbered, rows, float(alpha))
        assert solution.left_out is not None
        scores[:] = solution.scorer.all(numbered.computed)
        # The only group of a task cannot leave: its rows are not judged.
        scores[normal, rows.codes[normal]] = np.nan_to_num(
            solution.left_out[normal], nan=0.0
        )
    return table


def _solve_tasks(gram: Gram, rows: TrainingRows, alpha: float) -> TaskRidges:
    """Solve all tasks, stacked by their number of rows."""
    starts = _starts(rows)
    shared = np.arange(starts[-1], len(rows.codes))
    response = np.where(rows.outlier, 0.0, 1.0)
    mass = gram.diagonal() * rows.weight
    has_task = rows.codes != MISSING
    traces = (
        np.bincount(rows.codes[has_task], mass[has_task], rows.n_tasks)
        + mass[~has_task].sum()
    )
    ridges = np.asarray(effective_alpha(alpha, traces))
    coef = np.zeros(len(rows.codes))
    remaining = np.ones(len(rows.codes))
    shared_coef = np.zeros((len(shared), rows.n_tasks))
    sizes = np.diff(starts)
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        n = size + len(shared)
        for block in row_blocks(len(same), n * (3 * n + gram.points.X.shape[1])):
            tasks = same[block]
            own_rows = starts[tasks, None] + np.arange(size)
            all_shared = np.broadcast_to(shared, (len(tasks), len(shared)))
            stack = np.hstack([own_rows, all_shared])
            stack_coef, stack_remaining = solve_ridge_stack(
                gram.stacked(stack), response[stack], ridges[tasks], rows.weight[stack]
            )
            coef[own_rows] = stack_coef[:, :size]
            remaining[own_rows] = stack_remaining[:, :size]
            shared_coef[:, tasks] = stack_coef[:, size:].T
    return TaskRidges(ridges, coef, remaining, shared_coef)


def _starts(rows: TrainingRows) -> Codes:
    """Where each task starts; the rows that all tasks share follow the last."""
    counts = np.bincount(rows.codes[rows.codes != MISSING], minlength=rows.n_tasks)
    return np.concatenate([[0], np.cumsum(counts)])


def _without_blocks(
    gram: Gram,
    rows: TrainingRows,
    solved: TaskRidges,
    scaled: Array,
    blocks: list[Codes],
) -> Iterator[Array]:
    """Scaled residuals of each block of rows under its task refitted without it."""
    starts = _starts(rows)
    for task, gone in itertools.groupby(
        blocks, lambda block: int(rows.codes[block[0]])
    ):
        task_rows = np.r_[starts[task] : starts[task + 1], starts[-1] : len(rows.codes)]
        root = np.sqrt(rows.weight[task_rows])
        lower = factorise(
            gram.take(task_rows).matrix(), solved.alpha[task], root, overwrite=True
        )
        places = [block - starts[task] for block in gone]
        yield from solve_without_blocks(
            lower, solved.alpha[task], scaled[task_rows], places
        )
