r"""A guard by distances: how far rows are from the nearest training row.

**Distance.** :math:`e(x) = \min_i -\log k(x, x_i)` over the training rows: the distance
behind the kernel, at any width.

**What is usual.** L is the 99 % quantile of the distances of training rows to their
nearest other row (:class:`UsualDistances`).

**Excess.** A row at the ratio :math:`r = e(x) / L` exceeds what is usual by

.. math:: h(r) = 0 \;(r \le 1.2), \quad (r - 1.2)^3 / 0.04 \;(r \le 1.4), \quad
          0.2 \, (1 + \log ((r - 1.2) / 0.2)) \text{ beyond.}

A little beyond what is usual says little yet; far away, rows stay in the order of their
distances. A score loses :math:`10 f h(r)`, with f the score of a row far from
everything: at r = 1.4 a row has lost twice that score. With 20 to 500 tasks, all rows 7
standard deviations from every task raise an alarm (``benchmarks/bench_far_rows.py``).

**Left-out rows** lose the same, by distances and a limit L without the row. Copies of
the row, and rows of its group, are ignored as well (:class:`Hidden`).

**What it costs.** Most rows are near, and their excess is 0: it is enough to find one
point that is near enough. So rows are compared with the points of their task first,
then with every 256th point, and with all points at last (:func:`nearest_points`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Rows
from manyone.data.groups import LeavingRows, leaving_rows
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.rows import CodedRows, TrainingRows, blocks_by_task, row_blocks
from manyone.kernels.gram import KernelScorer, Points, PointScorer
from manyone.kernels.kernel import Kernel, NewRows, resolve_kernel
from manyone.models.guards import Guarded
from manyone.models.scorers import InMetric, Scorer
from manyone.models.solution import Solution

#: Numbers of rows by their content.
Keys = Codes | Hashes
#: Points that a guard keeps of each task, and of all, at least, where it cannot have
#: all rows.
POINTS_PER_TASK = 32
LEAST_POINTS = 256
# Where not all rows are points, at most so many rows say which distances are usual.
_MOST_ROWS = 2**13
# Share of rows whose distance is usual. It is a little less than 99 %, so that rounding
# of sums of weights does not matter.
_USUAL = 0.99 * (1.0 - 1e-12)
# Ratio up to which scores are as they are, and how much farther the first piece of the
# excess reaches.
_START = 1.2
_REACH = 1.4 - _START


# ----------------------------------------------------------------------- what is usual


def excess_of(ratio: Array) -> Array:
    """Excess (n,) of rows at these ratios of their distance to the usual one.

    From a ratio of a million on, all rows are equally far.
    """
    beyond = np.clip(ratio - _START, 0.0, 1e6) / _REACH
    slow = np.minimum(beyond, 1.0) ** 3
    return _REACH * (slow + np.log(np.maximum(beyond, 1.0)))


def unit_of(scorer: Scorer) -> float:
    """Unit of the scores; 0 where rows far away have no score.

    (Left-out rows may respond on the other side of 0: lower than rows far away.)
    """
    far = scorer.far()
    return 0.0 if far is None else 2.0 * float(np.abs(far).max()) / _REACH


@dataclass(frozen=True, eq=False)
class UsualDistances:
    """Distances of training rows to the nearest other row.

    Parameters
    ----------
    ascending, mass : ndarray of shape (n,)
        Distances, ascending, and their weights, summed up. Distances below the least
        of the `limits` may be too large: no limit depends on them.
    """

    ascending: Array
    mass: Array

    @classmethod
    def of(cls, nearest: Array, weight: Array) -> UsualDistances:
        """Of distances (n,) with weights (n,), in any order."""
        order = np.argsort(nearest, kind="stable")
        return cls(nearest[order], np.cumsum(weight[order]))

    def limits(self, count: Array | float = 1.0) -> Array:
        """Distances that few rows exceed when a count of a row leaves, shape (2, ...).

        First where that row is above the limit, then where it is below. The second, of
        one row, is the limit for new rows, too: as much weight lies above it as above
        the limits of left-out rows. (A plain quantile of 100 rows is their second
        largest distance, and that of 99 their largest.) The first is the least that any
        limit may be. 0 or infinite: there is no limit.
        """
        total = self.mass[-1]
        count = np.minimum(count, total)
        row_is_above = _USUAL * (total - count)
        row_is_below = row_is_above + count
        place = self.mass.searchsorted(np.stack([row_is_above, row_is_below]))
        return self.ascending[np.minimum(place, len(self.mass) - 1)]

    def left_out(self, nearest: Array, weight: Array) -> Array:
        """`excess_of` distances (n,) of rows, by the limits of the others.

        0 where there are no others, or none but copies.
        """
        count = np.minimum(weight, 1.0)
        above, below = self.limits(count)
        limit = np.where(above < nearest, above, below)
        usable = (self.mass[-1] > count) & (limit > 0.0) & np.isfinite(limit)
        ratio = np.zeros(len(nearest))
        ratio[usable] = nearest[usable] / limit[usable]
        return excess_of(ratio)


# -------------------------------------------------------------------- the nearest point


class Hidden(NamedTuple):
    """Points that training rows are not compared with: copies, rows of their group.

    Attributes
    ----------
    keys, point_keys : ndarray of shape (n,) and (p,), or None
        Of rows and points, equal for copies; None: kernel values tell them.
    leaving : LeavingRows or None
        Which rows are left out with their group; None: each is left out alone.
    group : ndarray of shape (p,) or None
        Groups of the points.
    """

    keys: Keys | None
    point_keys: Keys | None
    leaving: LeavingRows | None
    group: Codes | None

    @classmethod
    def of(cls, rows: TrainingRows, chosen: Codes) -> Hidden:
        """What rows ignore among those that were chosen as points, by number."""
        keys = None
        point_keys = None
        if rows.columns is None:
            keys = rows.content
            point_keys = keys[chosen]
        if rows.group is None:
            return cls(keys, point_keys, None, None)
        group = _groups_of(rows.content[chosen], rows.content, rows)
        return cls(keys, point_keys, leaving_rows(rows), group)

    def ignore(
        self, apart: Array, rows: Codes, point_codes: Codes, points: slice
    ) -> None:
        """Make distances (k, m) of rows to points infinite where points are ignored."""
        if self.keys is None or self.point_keys is None:
            # Whether kernel values of copies are 1 to the last digit is a matter of the
            # processor. (KNFST takes rows at such a distance for copies, too.)
            apart[apart <= 5e-13] = np.inf
        else:
            apart[self.keys[rows, None] == self.point_keys[points]] = np.inf
        if self.leaving is not None and self.group is not None:
            labels = point_codes[points], self.group[points]
            apart[self.leaving.neighbours(rows, *labels)] = np.inf


def nearest_points(
    points: Points,
    point_codes: Codes,
    X: Rows,
    codes: Codes | None,
    near_enough: float,
    hidden: Hidden | None = None,
    which: Codes | None = None,
) -> Array:
    """Distance of rows to the nearest point, or to one that is near enough, shape (n,).

    Parameters
    ----------
    points : Points
    point_codes : ndarray of shape (p,)
        Tasks of the points, ascending.
    X : array or CSR matrix of shape (n, d)
    codes : ndarray of shape (n,) or None
        Tasks of the rows, whose points are looked at first.
    near_enough : float
        Nothing is if it is negative.
    hidden : Hidden or None
        What training rows are not compared with; None: the rows are new.
    which : ndarray of shape (k,) or None
        Rows that are compared at all; None: all of them.
    """
    n = X.shape[0]
    nearest = np.full(n, np.inf)

    def compare(rows: Codes, new_rows: NewRows, chosen: slice) -> None:
        """Look for nearer points among those that are chosen."""
        apart = -points.log_values(new_rows, chosen)
        if hidden is not None:
            hidden.ignore(apart, rows, point_codes, chosen)
        # (Differences that overflow are no numbers.)
        least = np.fmin.reduce(apart, axis=1, initial=np.inf)
        nearest[rows] = np.minimum(nearest[rows], least)

    compared = np.arange(n) if which is None else which
    if codes is not None and near_enough > 0.0:
        most_points = int(np.unique_counts(point_codes).counts.max(initial=0))
        for places, tasks in blocks_by_task(codes[compared], 4 * most_points):
            block_rows = compared[places]
            new_rows = points.new_rows(X[block_rows])
            owners = [task for task, _ in tasks]
            first = point_codes.searchsorted(owners).tolist()
            last = point_codes.searchsorted(owners, side="right").tolist()
            for (_, part), begin, end in zip(tasks, first, last, strict=True):
                if begin < end:  # a task may have no points
                    own_points = slice(begin, end)
                    compare(block_rows[part], new_rows.take(part), own_points)
    rounds = strides(min(n, len(point_codes)) if near_enough > 0.0 else 1)
    for chosen in rounds:
        far = compared[nearest[compared] > near_enough]
        if not len(far):
            break
        for block in row_blocks(len(far), 4 * len(point_codes[chosen])):
            rows = far[block]
            compare(rows, points.new_rows(X[rows]), chosen)
    return np.maximum(nearest, 0.0)  # rounding may leave it a little below 0


def strides(number: int, longest: int = 256) -> Iterator[slice]:
    """Slices that cover all places once: every 256th, those half way between, and so on.

    Every slice after the second has twice as many places as the one before. Shorter
    strides are enough for a smaller `number` of rows. (Most rows have a point that is
    near enough in the first slices. Fits of 1,000 tasks of 20 rows that overlap take
    0.20 s, and 0.99 with all points at once.)
    """
    stride = 2 ** int(np.log2(max(min(number, longest), 1)))
    yield slice(0, None, stride)
    while stride > 1:
        yield slice(stride // 2, None, stride)
        stride //= 2


# ------------------------------------------------------------------------------- guards


@dataclass(frozen=True, eq=False)
class Nearness:
    """The guard of new rows, see the module.

    Parameters
    ----------
    points : Points
        Training rows, sorted by task: all normal ones, or a few of every task.
    codes : ndarray of shape (p,)
        Task of each point.
    limit : float
        See :class:`UsualDistances`.
    """

    points: Points
    codes: Codes
    limit: float

    def outside(
        self, X: Rows, codes: Codes | None, largest: Array | None = None
    ) -> Array:
        """See :class:`~manyone.models.guards.Guard`."""
        outside = np.zeros(X.shape[0])
        near_enough = _START * self.limit
        if not 0.0 < near_enough < np.inf:
            return outside
        far: Codes | slice = slice(None)
        if largest is not None:
            far = np.flatnonzero(largest <= np.exp(-near_enough))
            if not len(far):
                return outside
        if self.points.columns is not None:
            codes = None  # it takes no time to compare kernel values with all points
        if codes is not None:
            codes = codes[far]
        nearest = nearest_points(self.points, self.codes, X[far], codes, near_enough)
        if nearest.max(initial=0.0) > near_enough:
            with np.errstate(over="ignore"):  # infinitely far is far
                outside[far] = excess_of(nearest / self.limit)
        return outside

    def sure(self) -> float:
        """See :class:`~manyone.models.guards.Guard`: four usual distances away.

        So far away no normal row is, be its task as small as it may.
        """
        usable = 0.0 < self.limit < np.inf
        return float(excess_of(np.array(4.0))) if usable else 0.0


@dataclass(frozen=True, eq=False)
class TrainingNearness:
    """The nearness of new rows, and what it is for training rows that are left out.

    Parameters
    ----------
    nearness : Nearness
    usual : UsualDistances
    """

    nearness: Nearness
    usual: UsualDistances

    def left_out(self, rows: CodedRows, judged: Codes) -> Array:
        """Excesses of normal training rows under a guard without them.

        Parameters
        ----------
        rows : CodedRows
            There may be millions of them: they are not copied, unless they have groups.
        judged : ndarray of shape (k,)
            Numbers of normal ones.

        Returns
        -------
        ndarray of shape (k,)
        """
        leaving = None
        group = None
        points = self.nearness.points
        point_keys = row_hashes(points.X)
        if isinstance(rows, TrainingRows) and rows.group is not None:
            rows = rows.take(judged)
            judged = np.arange(len(judged))
            leaving = leaving_rows(rows)
            group = _groups_of(point_keys, row_hashes(rows.X), rows)
        hidden = Hidden(row_hashes(rows.X), point_keys, leaving, group)
        near_enough = _START * float(self.usual.limits()[0])
        codes = self.nearness.codes
        nearest = nearest_points(
            points, codes, rows.X, rows.codes, near_enough, hidden, judged
        )
        return self.usual.left_out(nearest[judged], rows.weight[judged])


def _groups_of(points: Keys, keys: Keys, rows: TrainingRows) -> Codes:
    """Group (p,) that points are left out with, by rows of equal keys (n,); -1: none.

    Copies in several groups are not all left out: the point stays. In time, those of
    one task are left out with the first of their blocks, as later blocks are.
    """
    assert rows.group is not None
    if not len(keys):
        return np.full(len(points), -1)
    order = np.lexsort((rows.group, keys))
    ascending = keys[order]
    first = order[np.minimum(np.searchsorted(ascending, points), len(order) - 1)]
    last = order[np.maximum(np.searchsorted(ascending, points, side="right") - 1, 0)]
    leaves = rows.group[first] == rows.group[last]
    if rows.forward:
        leaves |= rows.codes[first] == rows.codes[last]
    return np.where((keys[first] == points) & leaves, rows.group[first], -1)


# --------------------------------------------------------------------------------- fits


def nearness_of(
    kernel: Kernel, rows: TrainingRows, *, all_rows: bool = False
) -> tuple[TrainingNearness, Array]:
    """Guard of distances to training rows, and its excess for left-out rows.

    Parameters
    ----------
    kernel : Kernel
        One that fades.
    rows : TrainingRows
    all_rows : bool
        Whether all normal rows are points; else a few of every task.

    Returns
    -------
    nearness : TrainingNearness
    left_out : ndarray of shape (k,)
        For the normal rows.
    """
    if rows.outlier.any():
        rows = rows.take(np.flatnonzero(~rows.outlier))
    by_task = np.argsort(rows.codes, kind="stable")
    chosen = by_task if all_rows else spread_over_tasks(rows)
    # An array that has several names is held once, in memory and in files.
    is_copy = not np.array_equal(chosen, np.arange(len(rows.codes)))
    codes = rows.codes[chosen] if is_copy else rows.codes
    sample = np.arange(len(rows.codes))
    if rows.columns is None:
        points = compared = Points(kernel, rows.X[chosen] if is_copy else rows.X)
        if not all_rows:
            sample = _evenly(rows.content, _MOST_ROWS)
    else:
        no_values = np.empty((len(chosen), 0))
        points = Points(kernel, no_values, rows.columns[chosen])
        # Training rows bring their kernel values in the order of the rows.
        compared = Points(kernel, no_values, chosen)
    hidden = Hidden.of(rows, chosen)
    nearest = _upper_distances(compared, codes, rows, hidden, sample)
    usual = UsualDistances.of(nearest[sample], rows.weight[sample])
    least, limit = usual.limits().tolist()
    if len(sample) < len(nearest):
        near_enough = _START * least
        nearest = nearest_points(
            compared, codes, rows.X, rows.codes, near_enough, hidden
        )
    nearness = TrainingNearness(Nearness(points, codes, limit), usual)
    return nearness, usual.left_out(nearest, rows.weight)


def _upper_distances(
    points: Points, point_codes: Codes, rows: TrainingRows, hidden: Hidden, which: Codes
) -> Array:
    """Distance (n,) of rows to the nearest point, exact above the least limit.

    Below the least limit distances may be too large. In three steps:

    1. Points of a row's own task bound its distance from above.
    2. The rows with the largest bounds are compared with all points. Their distances
       bound the least limit from below.
    3. Only rows with a bound above that are compared with all points.
    """
    largest = float(np.finfo(np.float64).max)
    bounds = nearest_points(
        points, point_codes, rows.X, rows.codes, largest, hidden, which
    )
    weight = rows.weight[which]
    total = float(weight.sum())
    descending = np.argsort(-bounds[which], kind="stable")
    # Twice the rows that are above the least limit: most of those are among them.
    above = 2.0 * (total - _USUAL * (total - 1.0))
    n_exact = int(np.cumsum(weight[descending]).searchsorted(above)) + 1
    exact = nearest_points(
        points, point_codes, rows.X, None, -np.inf, hidden, which[descending[:n_exact]]
    )
    distance = np.where(np.isfinite(exact[which]), exact[which], 0.0)
    least = float(UsualDistances.of(distance, weight).limits()[0])
    open_rows = which[bounds[which] > least]
    nearest = nearest_points(
        points, point_codes, rows.X, None, least, hidden, open_rows
    )
    return np.minimum(bounds, nearest)


def spread_over_tasks(rows: TrainingRows) -> Codes:
    """Distinct rows of each task, at most a fixed number, spread over their content."""
    number = max(POINTS_PER_TASK, LEAST_POINTS // rows.n_tasks)
    order = np.lexsort((rows.content, rows.codes))
    codes = rows.codes[order]
    new_task = np.diff(codes, prepend=-2) != 0
    new_row = new_task | (np.diff(rows.content[order], prepend=-1) != 0)
    order = order[new_row]
    starts = np.flatnonzero(new_task[new_row])
    counts = np.diff(np.append(starts, len(order)))
    rank = np.arange(len(order)) - np.repeat(starts, counts)
    count = np.repeat(counts, counts)
    share = np.minimum(number, count)
    return order[(rank * share) // count != ((rank - 1) * share) // count]


def _evenly(content: Codes, number: int) -> Codes:
    """So many rows, or all, evenly over the order of their content, ascending."""
    order = np.argsort(content, kind="stable")
    if len(order) <= number:
        return np.arange(len(order))
    return np.sort(order[np.linspace(0, len(order) - 1, number).astype(np.intp)])


def with_nearness(solution: Solution, rows: TrainingRows) -> Solution:
    """The solution with scores, left-out ones too, lowered far from everything.

    Parameters
    ----------
    solution : Solution
        Without a guard.
    rows : TrainingRows
        That it was fitted to.

    Returns
    -------
    Solution
        The same where the kernel is not one of a distance.
    """
    scorer = solution.scorer
    unit = unit_of(scorer)
    if not unit:
        return solution
    points = scorer.points
    # Whether the points are the training rows themselves, in their order.
    same_rows = points.X is rows.X
    if points.columns is not None and rows.columns is not None:
        same_rows = np.array_equal(points.columns, rows.columns)
    kernel = points.kernel
    if isinstance(scorer, InMetric):
        kernel = raw_kernel(kernel, rows.X)
    all_rows = isinstance(scorer, KernelScorer) and same_rows
    training, lost = nearness_of(kernel, rows, all_rows=all_rows)
    left_out = solution.left_out
    if left_out is not None:
        left_out = left_out.copy()
        left_out[~rows.outlier] -= unit * lost
    # (Known outliers are no points of the guard, nor are all rows of large tasks.)
    all_points = same_rows and len(training.nearness.codes) == len(rows.codes)
    shares_values = isinstance(scorer, PointScorer) and all_points
    guarded = Guarded(scorer, (training.nearness,), unit, shares_values)
    return replace(solution, scorer=guarded, left_out=left_out)


@dataclass(frozen=True, eq=False)
class LeftOutGuard:
    """Lowers the left-out scores of rows by passes as a guard lowers those of new rows.

    Parameters
    ----------
    nearness : TrainingNearness or None
        None: there is no guard.
    unit : float
        Of the scores.
    """

    nearness: TrainingNearness | None
    unit: float

    @classmethod
    def of(cls, nearness: TrainingNearness | None, scorer: Scorer) -> LeftOutGuard:
        """The guard of a scorer that has none yet."""
        unit = unit_of(scorer)
        return cls(nearness if unit > 0.0 else None, unit)

    def lower(self, scores: Array, rows: CodedRows, judged: Codes) -> None:
        """Lower left-out scores (n,) of normal rows (k,) that are far from others."""
        if self.nearness is not None:
            scores[judged] -= self.unit * self.nearness.left_out(rows, judged)

    def around(self, solution: Solution) -> Solution:
        """The solution with this guard around its scorer."""
        if self.nearness is None:
            return solution
        scorer = Guarded(solution.scorer, (self.nearness.nearness,), self.unit)
        return replace(solution, scorer=scorer)


def raw_kernel(kernel: Kernel, X: Rows) -> Kernel:
    """A kernel of rows in a metric, as one of the rows themselves."""
    name = "rbf"  # for a callable, too
    if isinstance(kernel.name, str):
        name = kernel.name.partition("+")[0]
    return replace(resolve_kernel(name, X, gamma=1.0), gamma=(1.0,))
