"""Left-out scores from refits, for methods without a closed form."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes
from manyone.groups import looks_ahead
from manyone.rows import TrainingRows
from manyone.solvers.running import blas_threads, one_blas_thread

# Up to this size folds run side by side, each on one thread; beyond it BLAS has enough to do.
_SMALL = 512


@dataclass(frozen=True)
class Folds:
    """Left-out scores from whole refits without each fold; folds are cut inside the tasks.

    Parameters
    ----------
    number : int
        Most folds.
    """

    number: int = 10

    def left_out(
        self,
        score: Callable[[Codes, Codes], Array],
        rows: TrainingRows,
        similarity: Array,
    ) -> Array:
        """Score of every normal row by a model that has not seen it.

        Parameters
        ----------
        score : callable
            Fits to the rows given by number first and scores those given second.
        rows : TrainingRows
        similarity : ndarray of shape (n,)
            Rows are dealt in this order.

        Returns
        -------
        ndarray of shape (n,)
            NaN for known outliers. Of a task with one distinct row, which must stay, the score by
            the full model; of a task with one group, or of its first block in time, NaN.
        """
        fold = assign_folds(rows, similarity, self.number)
        left_out = np.full(len(fold), np.nan)
        stays = np.flatnonzero((fold < 0) & ~rows.outlier)
        if len(stays) and rows.group is None:
            left_out[stays] = score(np.arange(len(fold)), stays)
        ahead = np.zeros(len(fold), dtype=bool)
        if rows.group is not None:
            ahead = np.append(looks_ahead(rows), False)[rows.codes]
        kept, held = [], []
        for k in range(fold.max() + 1):
            # Nobody comes before the first block: it stays, and so does all after it.
            out = (fold == k) & ~(ahead & (k == 0))
            later = ahead & (fold > k) & (k > 0)
            if out.any():
                kept.append(np.flatnonzero(~out & ~later))
                held.append(np.flatnonzero(out))
        workers = blas_threads() if len(fold) < _SMALL else 1
        if workers == 1:
            scores = list(map(score, kept, held))
        else:
            with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
                scores = list(pool.map(score, kept, held))
        for rows_of_fold, found in zip(held, scores, strict=True):
            left_out[rows_of_fold] = found
        return left_out


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
