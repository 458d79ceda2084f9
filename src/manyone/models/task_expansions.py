"""Scores of models that expand each task over its own rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from manyone._types import Array, Codes, Rows
from manyone.data.rows import blocks_by_task
from manyone.kernels.gram import Points, PointScorer


@dataclass(frozen=True, eq=False)
class TaskExpansions(PointScorer):
    """Score ``-|f_t(x) - target_t|`` with f_t over the rows of task t alone.

    Parameters
    ----------
    points : Points
        Rows of all tasks one after the other, then those that all tasks share.
    starts : ndarray of shape (T + 1,)
        Where each task starts; the shared rows follow the last.
    coef : ndarray of shape (n,)
        Coefficients of the tasks' own rows (of shared rows: not used).
    shared_coef : ndarray of shape (m, T)
        Coefficients of the m shared rows in the function of each task.
    target : ndarray of shape (T,)
    """

    points: Points
    starts: Codes
    coef: Array
    shared_coef: Array
    target: Array

    def own_and_largest(self, X: Rows, codes: Codes) -> tuple[Array, Array]:
        """See :class:`PointScorer`; the points of a row are those of its task."""
        gap = np.empty(X.shape[0])
        largest = np.empty(X.shape[0])
        most_points = int(np.diff(self.starts).max()) + len(self.shared_coef)
        for rows, tasks in blocks_by_task(codes, 2 * (most_points + X.shape[1])):
            new_rows = self.points.new_rows(X[rows])
            for task, part in tasks:
                points, coef = self.expansion(task)
                values = self.points.values(new_rows.take(part), points)
                gap[rows[part]] = values @ coef - self.target[task]
                largest[rows[part]] = values.max(axis=1)
        return -np.abs(gap), largest

    def expansion(self, task: int) -> tuple[Any, Array]:
        """Points of the function of a task, by number, and their coefficients."""
        own_points = slice(self.starts[task], self.starts[task + 1])
        if not len(self.shared_coef):
            return own_points, self.coef[own_points]
        points = np.r_[own_points, self.starts[-1] : len(self.points)]
        return points, np.concatenate(
            [self.coef[own_points], self.shared_coef[:, task]]
        )

    def all_of(self, K: Array) -> Array:
        """See :class:`PointScorer`."""
        return -np.abs(K @ self.dual_coef - self.target)

    def far(self) -> Array | None:
        """See :class:`Scorer`."""
        return -np.abs(self.target) if self.points.kernel.fading else None

    @property
    def dual_coef(self) -> sparse.csc_array:
        """Coefficients of all points in all functions, shape (n, T)."""
        n_own = int(self.starts[-1])
        T = len(self.target)
        columns = sparse.csc_array(
            (self.coef[:n_own], np.arange(n_own), self.starts), shape=(n_own, T)
        )
        if not len(self.shared_coef):
            return columns
        return sparse.vstack(
            [columns, sparse.csc_array(self.shared_coef)], format="csc"
        )
