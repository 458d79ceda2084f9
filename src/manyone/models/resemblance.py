"""Who looks like whom among many tasks, multiplied out only when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes
from manyone.data.rows import row_blocks


@dataclass(frozen=True, eq=False)
class Resemblance:
    """Mean response of every task's function to the rows of every task, not multiplied.

    Attributes
    ----------
    coef : ndarray of shape (m, T)
        Coefficients of the functions.
    values : ndarray of shape (T, m)
        Mean kernel values of the rows of each task.
    """

    coef: Array
    values: Array

    def matrix(self) -> Array:
        """Entry (s, t): mean response of task t's function to rows of task s."""
        return self.values @ self.coef

    def entries(self, lines: Codes, columns: Codes) -> Array:
        """Entries of pairs of tasks given by number (p,), shape (p,)."""
        entries = np.empty(len(lines))
        for block in row_blocks(len(lines), 2 * len(self.coef)):
            values = self.values[lines[block]]
            coef = self.coef.T[columns[block]]
            entries[block] = np.einsum("ij,ij->i", values, coef)
        return entries

    def strongest(self, number: int) -> Codes:
        """Pairs (2, p) of different tasks: the `number` of largest entries in each line.

        Looked for among tasks whose functions rest on the landmarks that a task's rows are nearest
        to, so that the cost is linear in the number of tasks.
        """
        n_landmarks = min(number + 1, len(self.coef))
        near = np.argpartition(-np.abs(self.values), n_landmarks - 1, axis=1)[
            :, :n_landmarks
        ]
        n_tasks = min(number + 1, len(self.values))
        resting = np.argpartition(-np.abs(self.coef), n_tasks - 1, axis=1)[:, :n_tasks]
        columns = np.sort(resting[near].reshape(len(near), -1), axis=1)
        lines = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)
        size = np.abs(self.entries(lines.ravel(), columns.ravel())).reshape(
            columns.shape
        )
        again = np.diff(columns, axis=1, prepend=-1) == 0
        size[again | (columns == lines)] = -1.0
        largest = np.argsort(-size, axis=1)[:, :number]
        is_pair = np.take_along_axis(size, largest, axis=1) >= 0.0
        chosen = np.take_along_axis(columns, largest, axis=1)
        return np.stack([lines[:, : chosen.shape[1]][is_pair], chosen[is_pair]])
