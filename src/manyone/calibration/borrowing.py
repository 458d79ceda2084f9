r"""What tasks with few rows borrow from tasks of like size.

**Depths.** The depth d of a row is minus its score, in units of the score of a row far
from everything: 0 in the middle of its task, 1 far away. Depths of S tasks form a pool,
with one unit for each task. What is compared is :math:`h(d) / u_t`, with the stretched
depth h (:mod:`manyone.models.scale`) and the unit u of the task.

**Units.** Let :math:`m_t = \overline{\sqrt{d}}` be the mean root depth of the
:math:`n_t` rows of task t, m the mean of these means, and :math:`s_t^2` the variance of
root depths inside the task. Then

.. math:: u_t = \left( \frac{h(m_t^2)}{h(m^2)} \right)^w, \qquad
          w = \max\Bigl(0,\; 1 - \frac{\overline{s_t^2 / n_t}}{\operatorname{var} m_t}
              \Bigr) .

Means of :math:`n_t` roots differ by chance, with the variance :math:`s_t^2 / n_t`. So w
is the share of the variance of the means that chance does not explain (the credibility
of Buehlmann). Of alike tasks w is 0: they share one unit, and all their rows are one
sample. Tasks whose columns have few values share one, too (:mod:`.copies`). Of unlike
tasks w is near 1, and each is in its own unit.

**The unit of a left-out row.** A new row has no part in the unit of its task. So a
left-out row must have none either. Two things change when row j leaves:

1. Its depth no longer counts in :math:`m_t`.
2. The depths of the other rows change. In a ridge regression their responses all change
   by about one factor, and so does the mean response, their unit: this cancels. What
   remains is that row j no longer has a part in that mean. Let :math:`q_i` be the
   left-out response of row i over the mean response of the others. Without row j that
   mean is multiplied by

   .. math:: r_j = 1 + \frac{1 - f_j / \bar f}{n - 2}

   (row i has left already). The depth of row i is then :math:`|q_i / r_j - 1|` instead
   of :math:`|q_i - 1|`; guards add to both.

(A row far out has a kernel value with itself only. So its response is above the mean,
and the other rows seem deep beside it. Without the second step, joint models raise 6 %
of 5 on Cauchy columns: ``benchmarks/bench_promises.py "cauchy 8"``.)

Models that are no ridge regression measure by how much the mean root depth of the
others grows: folds on rows that both models have seen (:mod:`.folds`), balls by solving
them again (:mod:`manyone.solvers.svdd_left_out`). Without this, MORVR and SVDD raise 7
% of 5 there.

**Why roots.** Means of depths themselves follow a single heavy tail: with one
heavy-tailed task in five w is nearly 0, and the other tasks catch 52 instead of 76 % of
what an oracle does. Means of logarithms follow the smallest depths: Cauchy columns
raise 6.1 instead of 4.7 % of 5. (``benchmarks/bench_promises.py "heavy in five 8"
"cauchy 8"``, before depths were stretched.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.calibration.copies import ENOUGH_ROWS, find_copies
from manyone.data.rows import row_blocks
from manyone.models.scale import stretched

#: Pairs of a task and a value, ascending.
Ordered = NDArray[np.complex128]
#: Largest over smallest number of rows of tasks whose scores have laws of one shape.
#: (With a task of 300 rows in the pool, KNFST raised 16 % of 5 in tasks of 3 rows.)
LIKE_SIZES = 2.0
#: In larger tasks a single row changes neither the mean of the others nor their model.
MOST_ROWS = 512


@dataclass(frozen=True, eq=False)
class Units:
    """Units that make depths of tasks comparable, see the module.

    Parameters
    ----------
    mean, counts : ndarray of shape (T,)
        Mean root depth, :math:`m_t`, and number of rows of each task.
    typical : float
        m: their mean over tasks that have rows enough for a unit.
    power : float
        w: how far tasks differ, 0 to 1.
    least : float
        Smaller depths are rounding.
    bend : float
        How much depths are stretched, see :mod:`manyone.models.scale`.
    of_tasks : ndarray of shape (T,)
        :math:`u_t`; 1 where rows are too few for a unit.
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

        With `shared` all tasks have the unit 1.
        """
        root = _roots(depth, least)
        counts = np.bincount(codes, weight, n_tasks).astype(np.float64)
        mean = mean_root_depths(depth, weight, codes, n_tasks, least)
        several = counts >= ENOUGH_ROWS
        if np.count_nonzero(several) < 2:  # nothing to compare with
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
        count: Array,
        codes: Codes,
        shift: Array | float = 0.0,
    ) -> Array:
        """Unit of the task of each row (n,), had the row not been among its rows.

        Parameters
        ----------
        depth, count, codes : ndarray of shape (n,)
            Its depth, what it counts for, and its task.
        shift : ndarray of shape (n,) or float
            What `shifts` returns, or was measured instead.
        """
        counts = self.counts[codes]
        rest = counts - count
        with np.errstate(under="ignore"):  # weights may be tiny
            alone = rest <= 1e-9 * counts
        own_part = count * _roots(depth, self.least)
        rest_sum = counts * self.mean[codes] - own_part
        mean = rest_sum / np.where(alone, 1.0, rest) + shift
        mean = np.maximum(mean, np.sqrt(self.least))
        mean = np.where(alone, self.typical, mean)
        return _units(mean, counts, self.typical, self.power, self.bend)


def _units(
    mean: Array, counts: Array, typical: float, power: float, bend: float
) -> Array:
    """Units (k,) of tasks by mean roots (k,) and rows (k,); 1 where rows are too few."""
    depth = stretched(-np.square(mean), bend)
    usual = stretched(-np.square(typical), bend)
    return np.where(counts >= ENOUGH_ROWS, (depth / usual) ** power, 1.0)


def _roots(depth: Array, least: float) -> Array:
    """Roots of depths, or scores, (n,); those below the least are rounding."""
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
    """How much the mean root depth of the other rows of its task grows without a row.

    Parameters
    ----------
    depth, weight : ndarray of shape (n,)
        Left-out depths and counts of rows, sorted by task.
    responses : ndarray of shape (n, 2)
        The q and r of the module; NaN: not known, and the task has no shifts.
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
    usable = (np.diff(unknown[starts]) == 0) & (sizes <= MOST_ROWS)
    for size in np.unique(sizes[usable & (sizes >= ENOUGH_ROWS)]):
        tasks = np.flatnonzero(usable & (sizes == size))
        for block in row_blocks(len(tasks), 3 * size**2):
            rows = starts[tasks[block], None] + np.arange(size)
            response = responses[rows, 0]
            # (A mean response that loses more than 70 % to one row is rounding.)
            ratio = np.maximum(responses[rows, 1], 0.3)
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

    Scores of small and of large tasks follow laws of different shapes. So a pool has
    tasks of like size. Pools are filled from the smallest task on. A pool that cannot
    resolve the rate goes on with larger tasks; the last resort are tasks that do not
    borrow themselves.

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
        """Whether a row lower than all rows of a pool may be as rare as the rate.

        Its p-value is 1 over the smallest n and the number of tasks.
        """
        sizes = counts[lends & (pool == number)]
        if not len(sizes):
            return False
        return bool(len(sizes) * sizes.min() * rate >= 1.0 - 1e-9)

    number = 0
    smallest = np.inf
    for size in np.unique(counts[lends & borrows]):
        if size > LIKE_SIZES * smallest and reaches(number):
            number += 1
            smallest = size
        smallest = min(smallest, size)
        pool[lends & borrows & (counts == size)] = number
    # Tasks that do not lend have a row or none: they are like the smallest.
    pool[borrows & ~lends] = 0
    if number > 0 and not reaches(number):
        pool[pool == number] = number - 1
    for size in np.unique(counts[lends & ~borrows]):
        if reaches(0) or number > 0:
            break
        pool[lends & (counts == size)] = 0
    return pool


def by_task(codes: Codes, values: Array) -> Ordered:
    """Tasks and values (n,) as complex numbers: NumPy orders these by the task first."""
    pairs = np.empty(len(codes), dtype=np.complex128)
    pairs.real = codes
    pairs.imag = values
    return pairs


@dataclass(frozen=True, eq=False)
class Pool:
    """Scores that tasks lend each other, in units of their task.

    Sums of shares are over the tasks that lend. They come in pairs: of rows that the
    limit of their task lets raise an alarm, and of all other rows.

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
        Sums over the first k in that order.
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
        stands_for: Array,
        codes: Codes,
        shift: Array,
        is_allowed: Mask,
        lenders: Mask,
        least: float,
        bend: float,
    ) -> Pool:
        """The pool of the tasks that lend.

        Parameters
        ----------
        values, weight, stands_for, codes, shift : ndarray of shape (n,)
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
        shared = find_copies(values[lent], tasks, stands_for[lent]).are_many
        units = Units.of(*depth, len(lenders), least, bend, shared=shared)
        one_row = weight[lent] / np.maximum(stands_for[lent], 1.0)
        own_units = units.without(values[lent], one_row, tasks, shift[lent])
        scaled = stretched(values[lent], bend) / own_units
        counts = np.bincount(codes, weight, len(lenders))
        share = weight[lent] / counts[tasks]
        shares = share * [is_allowed[lent], ~is_allowed[lent]]
        # The first sums are those of no row.
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
        pairs = by_task(codes, values)
        place = np.searchsorted(self.values, values, side="right")
        own_place = np.searchsorted(self.order, pairs, side="right")
        own_start = self.starts[codes]
        own = self.own_mass[:, own_place] - self.own_mass[:, own_start]
        return np.maximum(self.mass[:, place] - own, 0.0)
