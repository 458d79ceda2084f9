"""Left-out scores from refits, for methods without a closed form."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import starmap
from typing import Any

import numpy as np

from manyone._types import Array, Codes
from manyone.groups import looks_ahead
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import Kernel
from manyone.models.solution import Solution
from manyone.progress import counted
from manyone.rows import TrainingRows
from manyone.threads import blas_threads, one_blas_thread

# Up to this size folds run side by side, each on one thread; beyond it BLAS has enough to do.
_SMALL = 512
# Points that folds are dealt by.
_MOST_POINTS = 2000

#: Fits to the rows given by number first: the model, and its scores of those given second.
Refit = Callable[[Codes, Codes], tuple[Solution, Array]]


def solve_with_folds(
    whole: Callable[[], Solution],
    refit: Refit,
    similarity: Array,
    rows: TrainingRows,
    number: int = 10,
) -> Solution:
    """A model with the score of every normal row by a model that has not seen it.

    Folds are cut inside the tasks, and the whole fit is repeated without each. Small models are
    fitted side by side.

    Parameters
    ----------
    whole : callable
        Gives the model of all rows.
    refit : callable
    similarity : ndarray of shape (n,)
        Rows are dealt in this order.
    rows : TrainingRows
    number : int
        Most folds.

    Returns
    -------
    Solution
        Left-out scores are NaN for known outliers. Of a task with one distinct row, which must
        stay, the score by the full model; of a task with one group, or of its first block in time,
        NaN.
    """
    refits = folds_of(rows, assign_folds(rows, similarity, number))
    workers = blas_threads() if len(rows.codes) < _SMALL else 1
    if workers == 1:
        solution = whole()
        parts = list(zip(refits, starmap(refit, counted(refits)), strict=True))
    else:
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            first = pool.submit(whole)
            found = pool.map(refit, *zip(*refits, strict=True))
            parts = list(zip(counted(refits), found, strict=True))
            solution = first.result()
    left_out = np.full(len(rows.codes), np.nan)
    wanted = solution.scorer.far()
    for (_, held), (part, scores) in parts:
        left_out[held], far = scores, part.scorer.far()
        if wanted is not None and far is not None:
            # Responses grow with the number of rows, and many rows may respond as if they were far
            # away: a threshold must not fall between what two models say of them.
            with np.errstate(divide="ignore", invalid="ignore"):
                unit = np.clip(np.nan_to_num(wanted / far, nan=1.0), 0.5, 2.0)
            left_out[held] *= unit[rows.codes[held]]
    return replace(solution, left_out=left_out, left_out_source="folds")


def folds_of(rows: TrainingRows, fold: Codes) -> list[tuple[Codes, Codes]]:
    """Numbers of the rows to keep and to score, for the fold (n,) of each row; the longest first.

    The order is that of least waiting: whoever starts last has the least to do.
    """
    everyone, ahead = np.arange(len(fold)), np.zeros(len(fold), dtype=bool)
    refits = []
    stays = np.flatnonzero((fold < 0) & ~rows.outlier)
    if rows.group is not None:
        ahead = np.append(looks_ahead(rows), False)[rows.codes]
    elif len(stays):
        refits.append((everyone, stays))
    # Later folds have no more rows of a task, and later blocks of time have more before them.
    for k in reversed(range(fold.max() + 1)):
        # Nobody comes before the first block: it stays, and so does all after it.
        out = (fold == k) & ~(ahead & (k == 0))
        later = ahead & (fold > k) & (k > 0)
        if out.any():
            refits.append((everyone[~out & ~later], everyone[out]))
    return refits


def assign_folds(rows: TrainingRows, similarity: Array, number: int) -> Codes:
    """Number of the fold of each row, folds cut inside each task.

    Rows of a task are dealt in the order of their similarity to all rows, those level with each
    other in the order of their content. Copies share a fold: else a row would be judged by a model
    that has seen it. So do rows of a group, where there are groups; blocks of time are dealt in
    their order.

    Parameters
    ----------
    rows : TrainingRows
    similarity : ndarray of shape (n,)
    number : int

    Returns
    -------
    ndarray of shape (n,)
        0 to `number` - 1; -1 for known outliers, and in a task that has one distinct row only.
    """
    normal = np.flatnonzero(~rows.outlier)
    codes, unit = rows.codes[normal], rows.content[normal]
    if rows.group is not None:
        unit = np.unique(rows.group[normal], return_inverse=True)[1]
        mean = np.bincount(unit, similarity[normal]) / np.bincount(unit)
        similarity = similarity.copy()
        similarity[normal] = 0.0 if rows.forward else mean[unit]
    by_value = np.argsort(similarity[normal], kind="stable")
    ordered = similarity[normal][by_value]
    # What differs by rounding is level: the order must not depend on the machine.
    tie_tolerance = 1e-9 * np.max(np.abs(ordered), initial=0.0)
    level = np.empty(len(normal), dtype=np.intp)
    level[by_value] = np.cumsum(np.diff(ordered, prepend=ordered[:1]) > tie_tolerance)
    order = np.lexsort((unit, level, codes))
    unit, codes = unit[order], codes[order]
    distinct = np.ones(len(order), dtype=bool)
    distinct[1:] = (np.diff(unit) != 0) | (np.diff(codes) != 0)
    groups = np.bincount(codes[distinct], minlength=rows.n_tasks)
    place = np.cumsum(distinct) - 1 - (np.cumsum(groups) - groups)[codes]
    count = groups[codes]
    fold = np.full(len(rows.codes), -1, dtype=np.intp)
    folds = np.clip(count, 1, number)
    dealt = place * folds // count if rows.forward else place % folds
    fold[normal[order]] = np.where(count > 1, dealt, -1)
    return fold


def similarity_of(X: Any, rows: TrainingRows, kernel: Kernel) -> Array:
    """Mean similarity of each row, in its metric, to the normal ones, or to some of many, (n,)."""
    points = replace(rows, X=X).take(np.flatnonzero(~rows.outlier)).merged()[0]
    # By what was given: copies of a row may differ by rounding in a metric.
    content = np.unique(points.content)
    if len(content) > _MOST_POINTS:
        some = content[np.linspace(0, len(content) - 1, _MOST_POINTS).astype(np.intp)]
        points = points.take(np.flatnonzero(np.isin(points.content, some)))
    similarity, share = np.empty(len(rows.codes)), points.weight / points.weight.sum()
    for part, K in Points(kernel, points.X).blocks(X):
        similarity[part] = K @ share
    return similarity


def by_number(model: Any, gram: Gram, rows: TrainingRows) -> tuple[Refit, Array]:
    """Models of some rows that score others, by one kernel matrix; and similarities (n,)."""
    assert gram.given is not None
    # New rows are lines of the matrix then: parts of it need no kernel again.
    K, rows = gram.given, replace(rows, group=None)
    numbered = Gram(replace(gram.points, columns=np.arange(len(K))), K)

    def refit(kept: Codes, held: Codes) -> tuple[Solution, Array]:
        part = model._solve(numbered.take(kept), rows.take(kept), left_out=False)
        return part, part.scorer.own(K[held], rows.codes[held])

    return refit, K @ (rows.weight / rows.weight.sum())
