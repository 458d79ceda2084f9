"""How much tasks resemble each other: a matrix in two factors."""

from __future__ import annotations

from dataclasses import dataclass

from manyone._types import Array


@dataclass(frozen=True, eq=False)
class Resemblance:
    """Mean response of every task's function to the rows of every task.

    It is kept as two factors: of many tasks the product may be larger than the model.

    The functions of a ridge regression solve ``factor factor' coef = sums`` with the
    sums of kernel values of the rows of each task. So the factor says what the sums
    were, which are as many numbers as the coefficients.

    Attributes
    ----------
    coef : ndarray of shape (m, T)
        Coefficients of the functions.
    factor : ndarray of shape (m, m)
        Lower triangular.
    counts : ndarray of shape (T,)
        Rows of each task.
    """

    coef: Array
    factor: Array
    counts: Array

    def matrix(self) -> Array:
        """Entry (s, t): mean response of task t's function to rows of task s."""
        half = self.factor.T @ self.coef
        return half.T @ half / self.counts[:, None]
