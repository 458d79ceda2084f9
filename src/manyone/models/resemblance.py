"""Who looks like whom among many tasks, multiplied out only when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass

from manyone._types import Array


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
