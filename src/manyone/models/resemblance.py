"""Who looks like whom among many tasks, multiplied out only when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array


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
        responses = self.values @ self.coef / self.counts[:, None]
        return responses + np.diag(1.0 - self.mass / self.counts)
