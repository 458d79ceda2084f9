r"""Guards: what lowers the scores of rows unlike anything that was seen.

Kernel values of a row far from everything are all 0, and so are the responses of a
joint model to it: the same as for a row of another task. And a sum over columns dilutes
one wild column. So a guard looks at the rows themselves. It is 0 inside what was seen
and grows outside of it, and a :class:`Guarded` scorer subtracts it, in units of its
scores.

Left-out rows are judged by the same function, with the row, its copies and rows of its
group ignored: whatever a guard does to new rows, it does to left-out ones, and
thresholds know of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from manyone._types import Array, Codes, Rows
from manyone.data.groups import LeavingRows, leaving_rows
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.rows import CodedRows, TrainingRows, blocks_by_task, row_blocks
from manyone.kernels.gram import KernelScorer, Points, PointScorer
from manyone.kernels.kernel import Kernel, NewRows, resolve_kernel
from manyone.models.scorers import InMetric, Scorer
from manyone.models.solution import Solution

#: A class of guards.
Kind = TypeVar("Kind")
#: Numbers of rows by their content.
Keys = Codes | Hashes
#: Points that a guard keeps of each task, and of all, at least, where it cannot have
#: all rows.
POINTS_PER_TASK = 32
LEAST_POINTS = 256
# Rows that say which distances are usual, at most, where not all rows are points.
_MOST_ROWS = 2**13
# Share of rows whose distance is usual, a little less against rounding of sums of
# weights.
_USUAL = 0.99 * (1.0 - 1e-12)
# In usual distances: up to the first, scores are as they are. At the second a row has
# lost twice the score of rows far away. From the third on all rows are equally far.
_START = 1.2
_LOST = 1.4
_FARTHEST = 1e6
# In usual distances: so far away no normal row is, be its task as small as it may.
_SURE = 4.0
# Rows of a kernel matrix at most so far apart are copies: whether kernel values of
# copies are 1 to the last digit is a matter of the processor. (KNFST takes them so
# too.)
_COPIES = 5e-13
# Many rows are compared with one point in so many first: most find one that is near
# enough. (Fits of 1,000 tasks of 20 rows that overlap take 0.20 s, with all points at
# once 0.99.)
_STEP = 256
#: So many margins out of range raise an alarm, whatever else a row is like.
ALARM = 2.0
# So many more, and a row scores lower than any other.
_MOST_MARGINS = 50.0


class Guard(Protocol):
    """Says how far rows are outside of what was seen."""

    def outside(
        self, X: Rows, codes: Codes | None, largest: Array | None = None
    ) -> Array:
        """0 inside what was seen, growing outside of it, shape (n,).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        codes : ndarray of shape (n,) or None
            The task of each row; None: every task is asked about.
        largest : ndarray of shape (n,) or None
            Largest kernel value of each row among points of the guard; None: not known.
        """

    def sure(self) -> float:
        """The value from which on a row is unlike all seen; 0: none is known."""


@dataclass(frozen=True, eq=False)
class Guarded:
    """A scorer whose scores are lowered by ``unit`` times what its guards say.

    Parameters
    ----------
    scorer : Scorer
    guards : tuple of Guard
    unit : float
        Of the scores.
    shares_values : bool
        Whether the points of the scorer, a :class:`PointScorer`, are those of a guard,
        which then need not compare rows again that are near enough.
    """

    scorer: Scorer
    guards: tuple[Guard, ...]
    unit: float
    shares_values: bool = False

    @property
    def points(self) -> Points:
        """The rows that the scorer is expanded over."""
        return self.scorer.points

    def own(self, X: Rows, codes: Codes) -> Array:
        """See :class:`Scorer`."""
        scorer = self.scorer
        if not isinstance(scorer, PointScorer) or not self.shares_values:
            return scorer.own(X, codes) - self.penalty(X, codes)
        scores, largest = scorer.own_and_largest(X, codes)
        return scores - self.penalty(X, codes, largest)

    def all(self, X: Rows) -> Array:
        """See :class:`Scorer`."""
        scorer = self.scorer
        if not isinstance(scorer, PointScorer) or not self.shares_values:
            return scorer.all(X) - self.penalty(X)[:, None]
        scores, largest = scorer.all_and_largest(X)
        return scores - self.penalty(X, None, largest)[:, None]

    def far(self) -> Array | None:
        """See :class:`Scorer`; of the scorer without guards."""
        return self.scorer.far()

    def penalty(
        self, X: Rows, codes: Codes | None = None, largest: Array | None = None
    ) -> Array:
        """What the scores of rows (n, d) are lowered by, shape (n,)."""
        total = self.guards[0].outside(X, codes, largest)
        for guard in self.guards[1:]:
            total = total + guard.outside(X, codes, largest)
        return self.unit * total


def unguarded(scorer: Scorer) -> Scorer:
    """A scorer without its guards."""
    while isinstance(scorer, Guarded):
        scorer = scorer.scorer
    return scorer


def guard_in(scorer: Scorer, kind: type[Kind]) -> Kind | None:
    """The guard of some kind around a scorer; None: there is none."""
    while isinstance(scorer, Guarded):
        for guard in scorer.guards:
            if isinstance(guard, kind):
                return guard
        scorer = scorer.scorer
    return None


# ------------------------------------------------------------- rows far from everything


def excess_of(ratio: Array) -> Array:
    """Excess ``h(e)`` of a ratio of distances ``1.2 + e``.

    ``h(e) = e^3 / 0.04`` up to e = 0.2, from there on ``0.2 (1 + log(e / 0.2))``.

    A little beyond what is usual says little yet; far away, rows stay in the order of
    distances.
    """
    step = _LOST - _START
    beyond = np.clip(ratio - _START, 0.0, _FARTHEST) / step
    slow = np.minimum(beyond, 1.0) ** 3
    return step * (slow + np.log(np.maximum(beyond, 1.0)))


def unit_of(scorer: Scorer) -> float:
    """Unit of the scores; 0 where rows far away have no score.

    (Left-out rows may respond on the other side of 0: lower than rows far away.)
    """
    far = scorer.far()
    return 0.0 if far is None else 2.0 * float(np.abs(far).max()) / (_LOST - _START)


@dataclass(frozen=True, eq=False)
class UsualDistances:
    """Distances to the nearest other row that training rows keep.

    Parameters
    ----------
    ascending, mass : ndarray of shape (n,)
        Distances, ascending, and their weights, summed up. Those below `least_limit`
        may be too large: nothing asks for them.
    """

    ascending: Array
    mass: Array

    @classmethod
    def of(cls, nearest: Array, weight: Array) -> UsualDistances:
        """Of distances (n,) with weights (n,), in any order."""
        order = np.argsort(nearest, kind="stable")
        return cls(nearest[order], np.cumsum(weight[order]))

    @property
    def limit(self) -> float:
        """Quantile that few distances exceed; 0 or infinite: there is none.

        It leaves as much above it as limits that rows are left out of do. (A plain
        quantile of 100 rows is their second largest distance, and that of 99 their
        largest.)
        """
        count = min(1.0, float(self.mass[-1]))
        wanted = _USUAL * (self.mass[-1] - count) + count
        place = min(int(self.mass.searchsorted(wanted)), len(self.mass) - 1)
        return float(self.ascending[place])

    @property
    def least_limit(self) -> float:
        """The least that the limit may be when one count of a row is left out."""
        rest = self.mass[-1] - 1.0
        return float(self.ascending[self.mass.searchsorted(_USUAL * rest)])

    def left_out(self, nearest: Array, weight: Array) -> Array:
        """`excess_of` distances (n,) of rows, by the quantile of the others.

        0 where there are no others, or none but copies.
        """
        one_count = np.minimum(weight, 1.0)
        last = len(self.mass) - 1
        wanted = _USUAL * (self.mass[-1] - one_count)
        below = np.minimum(self.mass.searchsorted(wanted), last)
        # Reached below the row, or else it has to be reached without it.
        above = np.minimum(self.mass.searchsorted(wanted + one_count), last)
        place = np.where(self.ascending[below] < nearest, below, above)
        limit = self.ascending[place]
        usable = (self.mass[-1] > one_count) & (limit > 0.0) & np.isfinite(limit)
        ratio = np.zeros(len(nearest))
        ratio[usable] = nearest[usable] / limit[usable]
        return excess_of(ratio)


@dataclass(frozen=True, eq=False)
class Nearness:
    """How far rows are from the nearest training row, beside what is usual among these.

    The distance is ``-log k``, the distance behind the kernel, at any width.

    Parameters
    ----------
    points : Points
        Training rows, sorted by task: all normal ones, or some of every task.
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
        """See :class:`Guard`."""
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
        """See :class:`Guard`: several times farther than what is usual."""
        usable = 0.0 < self.limit < np.inf
        return float(excess_of(np.array(_SURE))) if usable else 0.0


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

    def left_out(self, rows: CodedRows, some: Codes) -> Array:
        """Excesses of normal training rows under a guard without them.

        Parameters
        ----------
        rows : CodedRows
            There may be millions of them: they are not copied, unless they have groups.
        some : ndarray of shape (k,)
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
            groups = rows.group[some]
            rows = rows.take(some)
            some = np.arange(len(some))
            leaving = leaving_rows(rows)
            group = _group_of_points(point_keys, row_hashes(rows.X), groups)
        hidden = Hidden(row_hashes(rows.X), point_keys, leaving, group)
        near_enough = _START * self.usual.least_limit
        codes = self.nearness.codes
        nearest = nearest_points(
            points, codes, rows.X, rows.codes, near_enough, hidden, some
        )
        return self.usual.left_out(nearest[some], rows.weight[some])


class Hidden(NamedTuple):
    """Points to ignore for training rows: their copies and rows of their group.

    Attributes
    ----------
    keys, point_keys : ndarray of shape (n,) and (p,), or None
        Of rows and points, equal for copies; None: kernel values tell them.
    leaving : LeavingRows or None
        Which rows leave with their group; None: every row leaves alone.
    group : ndarray of shape (p,) or None
        Groups of the points.
    """

    keys: Keys | None
    point_keys: Keys | None
    leaving: LeavingRows | None
    group: Codes | None


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

    def compare(rows: Codes, new_rows: NewRows, some: slice) -> None:
        """Look among some points for nearer ones."""
        apart = -points.log_values(new_rows, some)
        if hidden is not None:
            if hidden.keys is None or hidden.point_keys is None:
                apart[apart <= _COPIES] = np.inf
            else:
                apart[hidden.keys[rows, None] == hidden.point_keys[some]] = np.inf
            if hidden.leaving is not None and hidden.group is not None:
                theirs = point_codes[some], hidden.group[some]
                apart[hidden.leaving.neighbours(rows, *theirs)] = np.inf
        # (Differences that overflow are no numbers.)
        least = np.fmin.reduce(apart, axis=1, initial=np.inf)
        nearest[rows] = np.minimum(nearest[rows], least)

    everyone = np.arange(n) if which is None else which
    if codes is not None and near_enough > 0.0:
        most_points = int(np.bincount(point_codes).max(initial=0))
        for places, tasks in blocks_by_task(codes[everyone], 4 * most_points):
            block_rows = everyone[places]
            new_rows = points.new_rows(X[block_rows])
            owners = [task for task, _ in tasks]
            first = point_codes.searchsorted(owners).tolist()
            last = point_codes.searchsorted(owners, side="right").tolist()
            for (_, part), begin, end in zip(tasks, first, last, strict=True):
                if begin < end:  # some tasks have no points
                    own_points = slice(begin, end)
                    compare(block_rows[part], new_rows.take(part), own_points)
    # Then every so manyth point, as many others, twice as many, and so on.
    step = 1
    if near_enough > 0.0 and n:
        step = 2 ** int(np.log2(min(n, len(point_codes), _STEP)))
    rounds = [slice(0, None, step)]
    while step > 1:
        rounds.append(slice(step // 2, None, step))
        step //= 2
    for some in rounds:
        far = everyone[nearest[everyone] > near_enough]
        if not len(far):
            break
        for block in row_blocks(len(far), 4 * len(point_codes[some])):
            rows = far[block]
            compare(rows, points.new_rows(X[rows]), some)
    return np.maximum(nearest, 0.0)  # a little below 0 by rounding


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
        Whether all normal rows are points; else some of every task.

    Returns
    -------
    nearness : TrainingNearness
    left_out : ndarray of shape (k,)
        For the normal rows.
    """
    if rows.outlier.any():
        rows = rows.take(np.flatnonzero(~rows.outlier))
    chosen = np.argsort(rows.codes, kind="stable")
    if not all_rows:
        chosen = spread_over_tasks(rows)
    codes = rows.codes[chosen]
    keys = None
    leaving = None
    group = None
    sample = np.arange(len(rows.codes))
    if rows.columns is None:
        keys = rows.content
        points = near = Points(kernel, rows.X[chosen])
        if not all_rows:
            sample = _evenly(rows.content, _MOST_ROWS)
    else:
        none = np.empty((len(chosen), 0))
        points = Points(kernel, none, rows.columns[chosen])
        # Training rows bring their values in the order of the rows.
        near = Points(kernel, none, chosen)
    if rows.group is not None:
        leaving = leaving_rows(rows)
        group = rows.group[chosen]
    hidden = Hidden(keys, None if keys is None else keys[chosen], leaving, group)
    nearest = _upper_distances(near, codes, rows, hidden, sample)
    usual = UsualDistances.of(nearest[sample], rows.weight[sample])
    if len(sample) < len(nearest):
        near_enough = _START * usual.least_limit
        nearest = nearest_points(near, codes, rows.X, rows.codes, near_enough, hidden)
    nearness = TrainingNearness(Nearness(points, codes, usual.limit), usual)
    return nearness, usual.left_out(nearest, rows.weight)


def _upper_distances(
    points: Points, point_codes: Codes, rows: TrainingRows, hidden: Hidden, which: Codes
) -> Array:
    """Distance of some rows to the nearest point, (n,); too large where no limit looks.

    Points of a row's own task bound its distance. The rows with the largest bounds say
    what the least limit is at least, and no row that is nearer has to be compared with
    all points.
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
    least = UsualDistances.of(distance, weight).least_limit
    open_rows = which[bounds[which] > least]
    nearest = nearest_points(
        points, point_codes, rows.X, None, least, hidden, open_rows
    )
    return np.minimum(bounds, nearest)


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
    around, lost = nearness_of(kernel, rows, all_rows=all_rows)
    left_out = solution.left_out
    if left_out is not None:
        left_out = left_out.copy()
        left_out[~rows.outlier] -= unit * lost
    # (Known outliers are no points of the guard, nor are some rows of large tasks.)
    all_points = same_rows and len(around.nearness.codes) == len(rows.codes)
    shares_values = isinstance(scorer, PointScorer) and all_points
    guarded = Guarded(scorer, (around.nearness,), unit, shares_values)
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

    def lower(self, scores: Array, rows: CodedRows, some: Codes) -> None:
        """Lower left-out scores of normal rows (k,) that are far from others."""
        if self.nearness is not None:
            scores[some] -= self.unit * self.nearness.left_out(rows, some)

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


def spread_over_tasks(rows: TrainingRows) -> Codes:
    """Distinct rows of each task, at most a fixed number, spread over hashes."""
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


def _group_of_points(points: Hashes, hashes: Hashes, group: Codes) -> Codes:
    """Groups (p,) of points that equal rows of these hashes; -1 for others."""
    if not len(hashes):
        return np.full(len(points), -1)
    order = np.argsort(hashes)
    place = np.searchsorted(hashes[order], points)
    place = order[np.minimum(place, len(order) - 1)]
    return np.where(hashes[place] == points, group[place], -1)


def _evenly(content: Codes, number: int) -> Codes:
    """So many rows, or all, evenly over the order of their content, ascending."""
    order = np.argsort(content, kind="stable")
    if len(order) <= number:
        return np.arange(len(order))
    return np.sort(order[np.linspace(0, len(order) - 1, number).astype(np.intp)])


# ------------------------------------------------------------------ values out of range


@dataclass(frozen=True, eq=False)
class ColumnRange:
    """How far the wildest value of a row is out of the range of its column.

    In margins: 0 up to one of them, 1 at two, where a row is to raise an alarm.

    Parameters
    ----------
    lower, upper : ndarray of shape (d,)
        Range of each column.
    below, above : ndarray of shape (d,)
        Margins on either side; infinite where a column is not guarded.
    """

    lower: Array
    upper: Array
    below: Array
    above: Array

    def margins(self, X: Rows, columns: Any = slice(None)) -> Array:
        """Margins (n, columns) by which values are out of the range of their column."""
        X = X[:, columns]
        under = (self.lower[columns] - X) / self.below[columns]
        over = (X - self.upper[columns]) / self.above[columns]
        return np.maximum(np.maximum(under, over), 0.0)

    def outside(
        self, X: Rows, codes: Codes | None = None, largest: Array | None = None
    ) -> Array:
        """See :class:`Guard`."""
        # Margins grow away from the range: a column's extremes say whether any row
        # counts.
        extremes = np.stack([X.min(axis=0), X.max(axis=0)])
        wild = self.margins(extremes).max(axis=0) > 1.0
        if not wild.any():
            return np.zeros(X.shape[0])
        return excess_of_margins(self.margins(X, wild).max(axis=1))

    def sure(self) -> float:
        """See :class:`Guard`: two margins out of range."""
        return float(excess_of_margins(np.array(ALARM)))


def excess_of_margins(margins: Array) -> Array:
    """Excess (n,) of rows by the margins of the wildest of their values."""
    first = np.clip(margins - 1.0, 0.0, ALARM - 1.0)
    return first + np.clip((margins - ALARM) / _MOST_MARGINS, 0.0, 1.0)


def score_range(scores: Array) -> float:
    """How far scores differ: a row that loses so much scores below all of them."""
    return max(float(np.ptp(scores) + np.abs(scores).max()), 1e-6)
