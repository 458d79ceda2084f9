"""Who looks like whom among many tasks, multiplied out only when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes
from manyone.rows import row_blocks


@dataclass(frozen=True, eq=False)
class Resemblance:
    """Mean left-out response of every task's function to the rows of every task, not multiplied.

    Attributes
    ----------
    coef : ndarray of shape (m, T)
        Coefficients of the functions.
    values : ndarray of shape (T, m)
        Sums of ``w_i k_i / (1 - leverage)`` over the rows of each task.
    mass : ndarray of shape (T,)
        Sums of ``w_i / (1 - leverage)``.
    counts : ndarray of shape (T,)
    """

    coef: Array
    values: Array
    mass: Array
    counts: Array

    def matrix(self) -> Array:
        """Entry (s, t): mean left-out response of task t's function to rows of task s."""
        return self.lines(slice(None))

    def lines(self, tasks: slice) -> Array:
        """Lines of some tasks, shape (tasks, T)."""
        own = np.arange(len(self.counts))[tasks]
        responses = self.values[tasks] @ self.coef / self.counts[tasks, None]
        responses[np.arange(len(own)), own] += 1.0 - self.mass[own] / self.counts[own]
        return responses

    def entries(self, lines: Codes, columns: Codes) -> Array:
        """Entries of pairs of different tasks given by number (p,), shape (p,)."""
        found = np.empty(len(lines))
        for part in row_blocks(len(lines), 2 * len(self.coef)):
            values, coef = self.values[lines[part]], self.coef.T[columns[part]]
            found[part] = np.einsum("ij,ij->i", values, coef) / self.counts[lines[part]]
        return found
