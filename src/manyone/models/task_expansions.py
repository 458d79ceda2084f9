"""Scores of models that look at one task at a time: each expanded over the task's own rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from manyone._types import Array, Codes, Rows
from manyone.data.rows import group_rows, row_blocks
from manyone.kernels.gram import Points
from manyone.kernels.kernel import kernel_pairs


@dataclass(frozen=True, eq=False)
class TaskExpansions:
    """Score ``-|f_t(x) - target_t|`` where f_t is expanded over the rows of task t alone.

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

    def own(self, X: Rows, codes: Codes) -> Array:
        """See :class:`Scorer`."""
        if len(codes) == 1:
            points, coef = self.expansion(int(codes[0]))
            return -np.abs(self.points.values(X, points) @ coef - self.target[codes])
        tasks = np.unique(codes)
        dense = not (sparse.issparse(X) or sparse.issparse(self.points.X))
        if len(tasks) > 4 and dense and self.points.columns is None:
            return self._in_stacks(np.asarray(X, dtype=np.float64), codes)
        gap = np.empty(X.shape[0])
        for task in tasks:
            rows = (
                np.flatnonzero(codes == task)
                if len(tasks) > 1
                else np.arange(len(codes))
            )
            points, coef = self.expansion(int(task))
            for block in row_blocks(len(rows), 2 * (len(coef) + X.shape[1])):
                values = self.points.values(X[rows[block]], points)
                gap[rows[block]] = values @ coef - self.target[task]
        return -np.abs(gap)

    def expansion(self, task: int) -> tuple[Any, Array]:
        """Points of one task's function, by number, and their coefficients."""
        own_points = slice(self.starts[task], self.starts[task + 1])
        if not len(self.shared_coef):
            return own_points, self.coef[own_points]
        points = np.r_[own_points, self.starts[-1] : len(self.points)]
        return points, np.concatenate(
            [self.coef[own_points], self.shared_coef[:, task]]
        )

    def _in_stacks(self, X: Array, codes: Codes) -> Array:
        """Scores of dense rows, many small tasks per array call."""
        gap = np.empty(len(X))
        order, starts = group_rows(codes, len(self.target))
        shared = np.arange(self.starts[-1], len(self.points))
        for tasks, first, most in self._stacks(np.diff(starts), X.shape[1]):
            # Short tasks repeat their last row up to the longest of the stack.
            place = starts[tasks, None] + first + np.arange(most)
            rows = order[np.minimum(place, starts[tasks + 1, None] - 1)]
            size = self.starts[tasks[0] + 1] - self.starts[tasks[0]]
            own_points = self.starts[tasks, None] + np.arange(size)
            points = np.hstack(
                [own_points, np.broadcast_to(shared, (len(own_points), len(shared)))]
            )
            coef = np.hstack([self.coef[own_points], self.shared_coef[:, tasks].T])
            K = kernel_pairs(self.points.kernel, X[rows], self.points.X[points])
            gap[rows] = (
                np.matmul(K, coef[:, :, None])[:, :, 0] - self.target[tasks, None]
            )
        return -np.abs(gap)

    def _stacks(self, counts: Codes, d: int) -> Iterator[tuple[Codes, int, int]]:
        """Tasks of one size and about as many rows to score: (tasks, first row, number of rows)."""
        sizes = np.diff(self.starts)
        tasks = np.flatnonzero(counts)
        tasks = tasks[np.lexsort((counts[tasks], sizes[tasks]))]
        # A stack ends where padding would add more than a half, or where the size changes.
        level = np.floor(np.log(counts[tasks]) / np.log(1.5))
        cuts = np.flatnonzero((np.diff(level) != 0) | (np.diff(sizes[tasks]) != 0)) + 1
        for stack in np.split(tasks, cuts) if len(tasks) else []:
            n_points = sizes[stack[0]] + len(self.shared_coef)
            for rows in row_blocks(int(counts[stack].max()), 3 * n_points + 2 * d):
                most = rows.stop - rows.start
                for block in row_blocks(len(stack), most * (3 * n_points + 2 * d)):
                    yield stack[block], rows.start, most

    def all(self, X: Rows) -> Array:
        """See :class:`Scorer`."""
        scores = np.empty((X.shape[0], len(self.target)))
        dual = self.dual_coef
        for rows, K in self.points.blocks(X):
            scores[rows] = -np.abs(K @ dual - self.target)
        return scores

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
