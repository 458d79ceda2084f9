"""Normal rows that reasons compare with: what tasks are like, how far rows lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.alerts.evidence import ENOUGH_FOR_DEPTH, depth_pvalues
from manyone.data.labels import find
from manyone.metric.shrinkage import TaskWhitenings, task_whitenings

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# So many rows the common scales, and the common covariance, count for beside a task's
# own rows.
_PRIORS = (2.0, 20.0)
# Parts of each task's rows, which are held out one after the other.
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Reference:
    """Normal rows that others are compared with.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Encoded, sorted by task; none where the model keeps no rows.
    codes, numbers : ndarray of shape (n,)
        Their tasks, and where they stood in the training table.
    metric : TaskWhitenings
        What rows of each task are like, shrunk to what all tasks are like.
    low, high : ndarray of shape (D,)
        Range of the rows.
    counts : ndarray of shape (T,)
        Rows of each task.
    kept_depths : ndarray of shape (m,) or None
        What `left_out_depths` were before the rows were dropped.
    """

    X: Array
    codes: Codes
    numbers: Codes
    metric: TaskWhitenings
    low: Array
    high: Array
    counts: Codes
    kept_depths: Array | None = None

    @classmethod
    def of(cls, model: TableModel) -> Reference:
        """The training rows of a model."""
        training = model.training_
        codes = find(training.labels, model.tasks_)[0]
        X = model.encoder_.encode(training.columns, codes)
        normal = np.flatnonzero(~training.outlier)
        rows = normal[np.argsort(codes[normal], kind="stable")]
        X = X[rows]
        codes = codes[rows]
        metric = task_whitenings(X, codes, np.ones(len(X)), len(model.tasks_), *_PRIORS)
        numbers = training.numbers[rows]
        counts = np.bincount(codes, minlength=len(model.tasks_))
        return cls(X, codes, numbers, metric, X.min(axis=0), X.max(axis=0), counts)

    def without_rows(self) -> Reference:
        """The same for a model without rows: it explains, and names no closest rows."""
        return replace(
            self,
            X=self.X[:0],
            codes=self.codes[:0],
            numbers=self.numbers[:0],
            kept_depths=self.left_out_depths,
        )

    @cached_property
    def has_depth(self) -> Mask:
        """Tasks with rows enough to tell how far their further rows lie, shape (T,)."""
        return np.asarray(self.counts >= ENOUGH_FOR_DEPTH)

    @cached_property
    def left_out_depths(self) -> Array:
        """Distances of rows of those tasks from their task without them, shape (m,).

        A fifth of each task's rows, one after the other, is held out at a time.
        """
        if self.kept_depths is not None:
            return self.kept_depths
        n_tasks = len(self.metric.mean)
        counts = self.counts
        starts = np.cumsum(counts) - counts
        place = np.arange(len(self.codes)) - starts[self.codes]
        has_depth = self.has_depth[self.codes]
        fold = np.where(has_depth, place * _FOLDS // counts[self.codes], -1)
        depths = np.empty(len(self.codes))
        for number in range(_FOLDS if has_depth.any() else 0):
            held_out = fold == number
            X = self.X[~held_out]
            weight = np.ones(len(X))
            metric = task_whitenings(
                X, self.codes[~held_out], weight, n_tasks, *_PRIORS
            )
            depths[held_out] = _depths(metric, self.X[held_out], self.codes[held_out])
        return depths[has_depth]

    def depth_pvalues(self, depth: Array, codes: Codes) -> Array:
        """P-values of distances of rows from their tasks, each of shape (n,)."""
        counts = np.where(self.has_depth, self.counts, 0)
        tasks = np.repeat(np.arange(len(counts)), counts)
        return depth_pvalues(depth, codes, self.left_out_depths, tasks)

    def depths(self, Z: Array, codes: Codes) -> Array:
        """Distances of encoded rows (n, D) from their tasks, shape (n,)."""
        return _depths(self.metric, Z, codes)


def _depths(metric: TaskWhitenings, X: Array, codes: Codes) -> Array:
    """Length of each row in the metric of its task, shape (n,)."""
    return np.asarray(np.linalg.norm(metric.apply(X, codes), axis=1))
