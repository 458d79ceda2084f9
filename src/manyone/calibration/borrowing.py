r"""What tasks with few rows borrow from tasks of like size.

Depths, minus scores in units of the task's far score, of S tasks form a pool. The unit
of a task is its mean depth :math:`m_t` to a power,

.. math:: u_t = (m_t / m)^w, \qquad
          w = \max\Bigl(0,\; 1 - \frac{c^2 \overline{1/n}}{\operatorname{var} \log m_t}
              \Bigr),

with the geometric mean m and the squared coefficient of variation :math:`c^2` inside
tasks. Means of n depths differ by chance, their logarithms with variance about
:math:`c^2 / n`; w is the share of the variance that chance does not explain (Buehlmann's
credibility, James & Stein's shrinkage). Alike tasks get w = 0, and their rows make one
pool; unlike ones w = 1, each in its own unit. A row's own depth has no part in its unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask

#: Pairs of a task and a value, ascending.
Ordered = NDArray[np.complex128]
# Left-out scores of fewer rows are hardly more than one number: each row leaves out the others.
_ENOUGH_ROWS = 4.0
#: Largest over smallest number of rows of tasks whose scores have laws of one shape.
LIKE_SIZES = 2.0


def credible_units(
    depth: Array, weight: Array, codes: Codes, n_tasks: int, least: float
) -> tuple[Array, Array]:
    """Unit of each row's task without the row, and of each task.

    Parameters
    ----------
    depth, weight, codes : ndarray of shape (n,)
        Minus the score, count and task of each row.
    n_tasks : int
    least : float
        Smaller mean depths are rounding.

    Returns
    -------
    row_units : ndarray of shape (n,)
    task_units : ndarray of shape (T,)
        1 for tasks with too few rows to have one.
    """
    size = np.abs(depth)
    counts = np.bincount(codes, weight, n_tasks).astype(np.float64)
    sums = np.bincount(codes, weight * size, n_tasks).astype(np.float64)
    several = counts >= _ENOUGH_ROWS
    if np.count_nonzero(several) < 2:
        return np.ones(len(depth)), np.ones(n_tasks)
    known = counts > 0.0
    mean = np.ones(n_tasks)
    mean[known] = np.maximum(sums[known] / counts[known], least)
    log_mean = np.log(mean[several])
    square = np.bincount(codes, weight * (size - mean[codes]) ** 2, n_tasks)
    within = square[several] / (counts[several] - 1.0)
    noise = within.sum() / np.sum(mean[several] ** 2) * np.mean(1.0 / counts[several])
    between = log_mean.var(ddof=1)
    power = max(0.0, 1.0 - noise / between) if between > 0.0 else 0.0
    # The geometric mean of the tasks stands in where there is no other row.
    typical = np.exp(log_mean.mean())
    count = np.minimum(weight, 1.0)
    rest = counts[codes] - count
    alone = rest <= 1e-9 * counts[codes]
    others = (sums[codes] - count * size) / np.where(alone, 1.0, rest)
    others = np.where(alone, typical, np.maximum(others, least))
    task_units = np.where(several, (mean / typical) ** power, 1.0)
    row_units = np.where(several[codes], (others / typical) ** power, 1.0)
    return row_units, task_units


def like_sizes(counts: Array, lends: Mask, borrows: Mask, rate: float) -> Codes:
    """Number (T,) of the pool that each task belongs to; -1: to none.

    Scores of small and of large tasks have laws of other shapes. So a pool has tasks of
    like size, from the smallest on. One that is too small for the rate takes in larger
    tasks, at last those that do not borrow.

    Parameters
    ----------
    counts : ndarray of shape (T,)
    lends, borrows : ndarray of bool of shape (T,)
    rate : float

    Returns
    -------
    ndarray of shape (T,)
    """
    pool = np.full(len(counts), -1)
    if not borrows.any():
        return pool

    def reaches(number: int) -> bool:
        """Whether the smallest p-value of a pool's smallest task is at most the rate."""
        lenders = lends & (pool == number)
        if not lenders.any():
            return False
        smallest = counts[lenders].min() + 1.0
        return bool(np.count_nonzero(lenders) * smallest * rate >= 1.0 - 1e-9)

    number = 0
    smallest = np.inf
    for size in np.unique(counts[lends & borrows]):
        if size > LIKE_SIZES * smallest and reaches(number):
            number += 1
            smallest = size
        smallest = min(smallest, size)
        pool[lends & borrows & (counts == size)] = number
    # Tasks without a score of their own are like the smallest.
    pool[borrows & ~lends] = 0
    if number > 0 and not reaches(number):
        pool[pool == number] = number - 1
    for size in np.unique(counts[lends & ~borrows]):
        if reaches(0) or number > 0:
            break
        pool[lends & (counts == size)] = 0
    return pool


def by_task(codes: Codes, values: Array) -> Ordered:
    """Tasks and values (n,) as complex numbers, which are ordered by the task first."""
    pairs = np.empty(len(codes), dtype=np.complex128)
    pairs.real = codes
    pairs.imag = values
    return pairs


@dataclass(frozen=True, eq=False)
class Pool:
    """Scores that tasks borrow, in units of their task.

    Parameters
    ----------
    lenders : ndarray of bool of shape (T,)
    units : ndarray of shape (T,)
        Unit of a new row's score.
    order : ndarray of shape (n,)
        Scores of all tasks in units of their task, see `by_task`.
    values : ndarray of shape (m,)
        Those of the lenders, ascending.
    mass : ndarray of shape (m + 1,)
        Sum over the lenders of the share of their scores among the lowest k.
    """

    lenders: Mask
    units: Array
    order: Ordered
    values: Array
    mass: Array

    @classmethod
    def of(
        cls, values: Array, weight: Array, codes: Codes, lenders: Mask, least: float
    ) -> Pool:
        """The pool of some tasks (T,).

        Parameters
        ----------
        values, weight, codes : ndarray of shape (n,)
            Sorted by task and ascending within a task.
        lenders : ndarray of bool of shape (T,)
        least : float
            See `credible_units`.
        """
        lent = lenders[codes]
        row_units, units = credible_units(
            values[lent], weight[lent], codes[lent], len(lenders), least
        )
        scaled = values.copy()
        # Ascending already where scores have one sign; each then keeps its weight.
        scaled[lent] = values[lent] / row_units
        scaled = scaled[np.lexsort((scaled, codes))]
        counts = np.bincount(codes, weight, len(lenders))
        share = weight[lent] / counts[codes[lent]]
        ascending = np.argsort(scaled[lent], kind="stable")
        mass = np.concatenate([[0.0], np.cumsum(share[ascending])])
        order = by_task(codes, scaled)
        return cls(lenders, units, order, scaled[lent][ascending], mass)

    def shares(self, values: Array) -> Array:
        """Sum over the lenders of the share of their scores up to each value, (k,)."""
        return self.mass[np.searchsorted(self.values, values, side="right")]
