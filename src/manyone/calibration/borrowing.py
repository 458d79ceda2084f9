r"""What tasks with few rows borrow from tasks of like size.

Depths d, minus scores in units of the task's far score, of S tasks form a pool. They
are stretched, h(d) (:mod:`manyone.models.scale`). The unit of a task is that of the
square of its mean root depth, :math:`m_t = \overline{\sqrt{d}}`, to a power,

.. math:: u_t = (h(m_t^2) / h(m^2))^w, \qquad
          w = \max\Bigl(0,\; 1 - \frac{\overline{s_t^2 / n_t}}{\operatorname{var} m_t}
              \Bigr),

with the mean m over tasks and the variance :math:`s_t^2` of root depths inside a task.
Means of n roots differ by chance, with variance :math:`s_t^2 / n_t`; w is the share of
the variance of means that chance does not explain (Buehlmann's credibility). Alike
tasks get w = 0, and their rows make one pool, as do those of few values
(:mod:`.copies`); unlike ones get w = 1, each is in its own unit.

**A left-out row has no part in its unit.** Its own depth is left out of the mean, and
depths of the other rows are those that they have without it. A row that leaves a ridge
regression changes the responses of the others of its task by about one factor, and
their mean by the same. What remains is that it no longer has a part in that mean. Let
:math:`q_i` be the left-out response of row i over the mean response of the others, and

.. math:: r_j = 1 + \frac{1 - f_j / \bar f}{n - 2}

the mean response of the rows without j over the mean with it, where row i has left
already. Without row j the depth of row i is :math:`|q_i / r_j - 1|` instead of
:math:`|q_i - 1|`, and what guards add. (A row far out has a kernel value with itself
only. It responds above the mean, and the others seem deep beside it. Without this,
joint models raise 6 % of 5 on Cauchy columns:
``benchmarks/bench_promises.py "cauchy 8"``.) Other models tell by how much the mean
root depth of the others grows when a row leaves: folds by rows that both models have
seen (:mod:`.folds`), balls by other balls (:mod:`manyone.solvers.svdd_left_out`).
Without this, MORVR and SVDD raise 7 % of 5 there.

Why roots: of depths themselves, one heavy-tailed task in five makes w nearly 0, and the
others catch 52 instead of 76 % of what an oracle does; by logarithms, Cauchy columns
raise 6.1 instead of 4.7 % of 5
(``benchmarks/bench_promises.py "heavy in five 8" "cauchy 8"``, before depths were
stretched).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.calibration.copies import ENOUGH_ROWS, has_few_values
from manyone.data.rows import row_blocks
from manyone.models.scale import stretched

#: Pairs of a task and a value, ascending.
Ordered = NDArray[np.complex128]
#: Largest over smallest number of rows of tasks whose scores have laws of one shape.
#: (With a task of 300 rows in the pool, KNFST raised 16 % of 5 in tasks of 3 rows.)
LIKE_SIZES = 2.0
# In larger tasks no row moves the mean of the others.
_MOST_ROWS = 512
# A mean response without a row is at least this share of that with it: less is
# rounding.
_LEAST_RATIO = 0.3


@dataclass(frozen=True, eq=False)
class Units:
    """Units that make depths of tasks comparable, see the module.

    Parameters
    ----------
    mean, counts : ndarray of shape (T,)
        Mean root depth and number of rows of each task.
    typical : float
        Mean of the means of tasks that have a unit of their own.
    power : float
        How far tasks differ: 0 to 1.
    least : float
        Smaller depths are rounding.
    bend : float
        How depths are stretched.
    of_tasks : ndarray of shape (T,)
        Unit of each task; 1 where rows are too few for one.
    """

    mean: Array
    counts: Array
    typical: float
    power: float
    least: float
    bend: float
    of_tasks: Array

    @classmethod
    def of(
        cls,
        depth: Array,
        weight: Array,
        codes: Codes,
        n_tasks: int,
        least: float,
        bend: float = 0.0,
        *,
        shared: bool = False,
    ) -> Units:
        """Units from depths, or scores, (n,), with their counts and tasks (n,).

        `shared` says that all tasks have the same.
        """
        root = _roots(depth, least)
        counts = np.bincount(codes, weight, n_tasks).astype(np.float64)
        mean = mean_root_depths(depth, weight, codes, n_tasks, least)
        several = counts >= ENOUGH_ROWS
        if np.count_nonzero(several) < 2:
            return cls(mean, counts, 1.0, 0.0, least, bend, np.ones(n_tasks))
        square = np.bincount(codes, weight * (root - mean[codes]) ** 2, n_tasks)
        with np.errstate(under="ignore"):  # weights may be huge
            variance = square[several] / (counts[several] - 1.0)
            by_chance = float(np.mean(variance / counts[several]))
        between = float(mean[several].var(ddof=1))
        differ = between > 0.0 and not shared
        power = max(0.0, 1.0 - by_chance / between) if differ else 0.0
        typical = float(mean[several].mean())
        units = _units(mean, counts, typical, power, bend)
        return cls(mean, counts, typical, power, least, bend, units)

    def without(
        self,
        depth: Array,
        weight: Array,
        codes: Codes,
        shift: Array | float = 0.0,
    ) -> Array:
        """Unit of the task of each row (n,), had it not been among its rows.

        Parameters
        ----------
        depth, weight, codes : ndarray of shape (n,)
        shift : ndarray of shape (n,) or float
            See `shifts`.
        """
        counts = self.counts[codes]
        count = np.minimum(weight, 1.0)
        rest = counts - count
        with np.errstate(under="ignore"):  # weights may be tiny
            alone = rest <= 1e-9 * counts
        rest_sum = counts * self.mean[codes] - count * _roots(depth, self.least)
        mean = rest_sum / np.where(alone, 1.0, rest) + shift
        mean = np.maximum(mean, np.sqrt(self.least))
        mean = np.where(alone, self.typical, mean)
        return _units(mean, counts, self.typical, self.power, self.bend)


def _units(
    mean: Array, counts: Array, typical: float, power: float, bend: float
) -> Array:
    """Units (k,) of tasks by mean roots and rows; 1 where rows are too few."""
    depth = stretched(-np.square(mean), bend)
    usual = stretched(-np.square(typical), bend)
    return np.where(counts >= ENOUGH_ROWS, (depth / usual) ** power, 1.0)


def _roots(depth: Array, least: float) -> Array:
    """Roots of depths, or scores, (n,), of which those below the least are rounding."""
    return np.sqrt(np.maximum(np.abs(depth), least))


def mean_root_depths(
    depth: Array, weight: Array, codes: Codes, n_tasks: int, least: float = 1e-9
) -> Array:
    """Mean root depth of each task (T,), 0 where it has no rows.

    Parameters
    ----------
    depth, weight, codes : ndarray of shape (n,)
        Depths, or scores, counts and tasks of rows.
    n_tasks : int
        T.
    least : float
        Smaller depths are rounding.
    """
    counts = np.bincount(codes, weight, n_tasks)
    sums = np.bincount(codes, weight * _roots(depth, least), n_tasks)
    return sums / np.where(counts > 0.0, counts, 1.0)


def shifts(
    depth: Array, responses: Array, weight: Array, starts: Codes, least: float
) -> Array:
    """Growth of the mean root depth of a task's other rows without a row.

    Parameters
    ----------
    depth, weight : ndarray of shape (n,)
        Left-out depths and counts of rows, sorted by task.
    responses : ndarray of shape (n, 2)
        The q and r of the module; NaN: unknown, and nothing is shifted in that task.
    starts : ndarray of shape (T + 1,)
        Where each task starts.
    least : float
        Smaller depths are rounding.

    Returns
    -------
    ndarray of shape (n,)
    """
    shift = np.zeros(len(depth))
    sizes = np.diff(starts)
    unknown = np.append(0, np.cumsum(np.isnan(responses).any(axis=1)))
    usable = (np.diff(unknown[starts]) == 0) & (sizes <= _MOST_ROWS)
    for size in np.unique(sizes[usable & (sizes >= ENOUGH_ROWS)]):
        tasks = np.flatnonzero(usable & (sizes == size))
        for block in row_blocks(len(tasks), 3 * size**2):
            rows = starts[tasks[block], None] + np.arange(size)
            response = responses[rows, 0]
            ratio = np.maximum(responses[rows, 1], _LEAST_RATIO)
            by_guards = np.maximum(depth[rows] - np.abs(response - 1.0), 0.0)
            # Rows i of a task without its rows j, (tasks, i, j).
            without = np.abs(response[:, :, None] / ratio[:, None, :] - 1.0)
            without = _roots(without + by_guards[:, :, None], least)
            growth = without - _roots(depth[rows], least)[:, :, None]
            count = np.minimum(weight[rows], 1.0)
            own = count * np.einsum("tii->ti", growth)
            total = np.einsum("ti,tij->tj", weight[rows], growth)
            rest = weight[rows].sum(axis=1, keepdims=True) - count
            shift[rows] = (total - own) / np.maximum(rest, least)
    return shift


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
        """Whether the rate of rows lower than all of a pool is at most the rate."""
        lenders = lends & (pool == number)
        if not lenders.any():
            return False
        by_tasks = np.count_nonzero(lenders) * (counts[lenders].min() + 1.0)
        by_rows = counts[lenders].sum() + 1.0
        return bool(min(by_tasks, by_rows) * rate >= 1.0 - 1e-9)

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

    Sums are over the lenders, of the shares of their scores: first of those of rows
    that the limit of their task lets raise an alarm, then of all others.

    Parameters
    ----------
    lenders : ndarray of bool of shape (T,)
    units : ndarray of shape (T,)
        Units of the scores of new rows.
    values : ndarray of shape (m,)
        Stretched scores of the lenders in units of their task, ascending.
    mass : ndarray of shape (2, m + 1)
        Sums over the lowest k of them.
    order : ndarray of shape (m,)
        The same scores task by task, see `by_task`.
    own_mass : ndarray of shape (2, m + 1)
        Sums over the first k of these.
    starts : ndarray of shape (T,)
        Where each task starts in them.
    """

    lenders: Mask
    units: Array
    values: Array
    mass: Array
    order: Ordered
    own_mass: Array
    starts: Codes

    @classmethod
    def of(
        cls,
        values: Array,
        weight: Array,
        codes: Codes,
        shift: Array,
        is_allowed: Mask,
        lenders: Mask,
        least: float,
        bend: float,
    ) -> Pool:
        """The pool of some tasks (T,).

        Parameters
        ----------
        values, weight, codes, shift : ndarray of shape (n,)
            Sorted by task.
        is_allowed : ndarray of bool of shape (n,)
            Which rows the limit of their task lets raise an alarm.
        lenders : ndarray of bool of shape (T,)
        least, bend : float
            See `Units`.
        """
        lent = lenders[codes]
        tasks = codes[lent]
        depth = values[lent], weight[lent], tasks
        shared = has_few_values(values[lent], tasks, weight[lent])
        units = Units.of(*depth, len(lenders), least, bend, shared=shared)
        scaled = stretched(values[lent], bend) / units.without(*depth, shift[lent])
        counts = np.bincount(codes, weight, len(lenders))
        share = weight[lent] / counts[tasks]
        shares = share * [is_allowed[lent], ~is_allowed[lent]]
        # Sums begin with that of none.
        shares = np.hstack([np.zeros((2, 1)), shares])
        ascending = np.argsort(scaled, kind="stable")
        grouped = np.lexsort((scaled, tasks))
        return cls(
            lenders,
            units.of_tasks,
            scaled[ascending],
            np.cumsum(shares[:, np.append(0, ascending + 1)], axis=1),
            by_task(tasks[grouped], scaled[grouped]),
            np.cumsum(shares[:, np.append(0, grouped + 1)], axis=1),
            np.searchsorted(tasks, np.arange(len(lenders))),
        )

    def by_others(self, values: Array, codes: Codes) -> Array:
        """Sums of the other lenders' shares up to values (k,) of tasks (k,), (2, k)."""
        total = self.mass[:, np.searchsorted(self.values, values, side="right")]
        up_to = np.searchsorted(self.order, by_task(codes, values), side="right")
        own = self.own_mass[:, up_to] - self.own_mass[:, self.starts[codes]]
        return np.maximum(total - own, 0.0)
