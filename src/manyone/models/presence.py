"""Rows far from everything: what no function of kernel values can tell from rows of another task.

Kernel values of a row unlike anything are all 0, and so are the responses of a joint model to it:
the same as for any row of another task. So presence is asked of the rows themselves, in the
distance behind the kernel, whatever its width: how far is the nearest training row (of any task),
beside what is usual among the training rows?
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Rows
from manyone.groups import cannot_vouch
from manyone.kernels.gram import Points
from manyone.kernels.kernel import MIXTURE, Kernel, resolve_kernel
from manyone.kernels.widths import DISTANCES, distances
from manyone.models.scorers import Scorer
from manyone.models.solution import Solution
from manyone.rows import TrainingRows, row_blocks

#: Rows that stand for all.
MOST_POINTS = 256
# Share of rows whose distance is usual.
_USUAL = 0.99
# In usual distances: up to the first, scores are as they are; beyond the second a training row is
# taken for a mistake, which new rows may not hide behind; beyond the third all are equally far.
_START, _MISTAKE, _FARTHEST = 1.2, 1.4, 4.0
# Rows of a kernel matrix at most so far apart are copies: whether kernel values of copies are 1 to
# the last digit is a matter of the processor. (KNFST takes them so too.)
_COPIES = 5e-13
# Beyond so many numbers a product of matrices is faster than differences one by one.
_MANY = 2**11


@dataclass(frozen=True, eq=False)
class Presence:
    """Scores are lowered by ``unit * h(u / limit - 1.2)``; u: distance to the nearest point.

    ``h(e) = min(e^3 / 0.04, e)`` for e > 0, else 0: a little beyond what is usual says little yet.

    Parameters
    ----------
    points : Points
        Some training rows.
    limit : float
        Distance that nearly all training rows keep to their neighbours; infinite where there is
        nothing to tell it from.
    unit : float
        Of the scores.
    home : ndarray of shape (T,)
        Number of a point in the middle of each task: rows near it need no other.
    """

    points: Points
    limit: float
    unit: float
    home: Codes

    def penalty(self, X: Rows, codes: Codes | None = None) -> Array:
        """What the scores of rows (n, d) are lowered by, whatever their task (n,), shape (n,)."""
        return self.unit * self.excess(X, codes)

    def excess(self, X: Rows, codes: Codes | None = None) -> Array:
        """`penalty` in units of the scores, shape (n,)."""
        n, excess = X.shape[0], np.zeros(X.shape[0])
        if not 0.0 < self.limit < np.inf:
            return excess
        for part in row_blocks(n, 3 * (len(self.points) + X.shape[1])):
            rows = np.arange(n)[part]
            if codes is not None:
                near = distances_to(self.points, X[part], self.home[codes[part]])
                rows = rows[~(near <= _START * self.limit)]
            if len(rows):
                nearest = distances_from(self.points, X[rows]).min(axis=1)
                excess[rows] = excess_of(nearest / self.limit)
        return excess

    def same_excess(self, other: Presence | None) -> bool:
        """Whether another one, of the same training rows, finds the same rows far away."""
        return (
            other is not None
            and self.limit == other.limit
            and self.points.kernel.name == other.points.kernel.name
            and self.points.columns is other.points.columns is None
            and not sparse.issparse(self.points.X)
            and np.array_equal(self.points.X, other.points.X)
        )


def with_presence(solution: Solution, rows: TrainingRows) -> Solution:
    """The solution with scores lowered where rows are far from everything, left-out ones too.

    Parameters
    ----------
    solution : Solution
    rows : TrainingRows
        That it was fitted to.

    Returns
    -------
    Solution
        The same where the kernel is not one of a distance.
    """
    unit = unit_of(solution.scorer)
    if not unit:
        return solution
    normal = np.flatnonzero(~rows.outlier)
    codes, weight = rows.codes[normal], rows.weight[normal]
    points, _, home, nearest = nearest_points(solution.scorer.points.kernel, rows)
    usual = Usual.of(nearest, weight)
    left_out = solution.left_out
    if left_out is not None:
        left_out = left_out.copy()
        left_out[normal] -= (
            unit * usual.left_out(nearest, weight, codes, rows.n_tasks)[0]
        )
    presence = Presence(points, usual.limit, unit, home)
    return replace(solution, presence=presence, left_out=left_out)


def nearest_points(
    kernel: Kernel, rows: TrainingRows
) -> tuple[Points, Codes, Codes, Array]:
    """What :func:`points_of` gives, and the distance of each normal row to the nearest, (k,)."""
    normal = np.flatnonzero(~rows.outlier)
    content, (points, few, home) = rows.content[normal], points_of(kernel, rows)
    # Training rows bring their values in the order of the rows.
    among = points if points.columns is None else replace(points, columns=normal[few])
    nearest = np.empty(len(normal))
    for part in row_blocks(len(normal), 4 * len(few) + 2 * rows.X.shape[1]):
        apart = distances_from(among, rows.X[normal[part]])
        # A row and its copies cannot vouch for themselves, nor can rows that leave with it.
        apart[content[part, None] == content[few]] = np.inf
        if points.columns is not None:
            apart[apart <= _COPIES] = np.inf
        if rows.group is not None:
            apart[cannot_vouch(rows, normal[part], normal[few])] = np.inf
        nearest[part] = apart.min(axis=1)
    return points, few, home, nearest


def unit_of(scorer: Scorer) -> float:
    """Unit of the scores, 0 where none is that of rows far away; a mistake is worth two of those.

    (Left-out rows may respond on the other side of 0: lower than rows far away.)
    """
    far = scorer.far()
    return 0.0 if far is None else 2.0 * float(np.abs(far).max()) / (_MISTAKE - _START)


def excess_of(ratio: Array, most: Array | float = _FARTHEST) -> Array:
    """The h of :class:`Presence`, of distances (n,) in usual ones, and of no more than `most`."""
    beyond = np.clip(ratio - _START, 0.0, most - _START)
    return np.minimum(beyond**3 / (_MISTAKE - _START) ** 2, beyond)


@dataclass(frozen=True, eq=False)
class Usual:
    """Distances that are usual.

    Parameters
    ----------
    ascending, mass : ndarray of shape (n,)
        Distances, ascending, and their weights, summed up.
    """

    ascending: Array
    mass: Array

    @classmethod
    def of(cls, nearest: Array, weight: Array) -> Usual:
        """Distances (n,) of rows, in whatever order, and their weights (n,)."""
        order = np.argsort(nearest, kind="stable")
        return cls(nearest[order], np.cumsum(weight[order]))

    @property
    def limit(self) -> float:
        """What nearly all distances do not exceed."""
        wanted = _USUAL * (1.0 - 1e-12) * self.mass[-1]
        return float(self.ascending[int(np.searchsorted(self.mass, wanted))])

    def left_out(
        self,
        nearest: Array,
        weight: Array,
        codes: Codes,
        n_tasks: int,
        typical: Array | None = None,
    ) -> tuple[Array, Array]:
        """The h of :class:`Presence` for training rows that are left out, and what is typical.

        Distances (n,) are taken in those that are usual among the other rows; as 0 where there are
        no others, or none but copies. That the others' distances may grow without the row is
        neglected, to the safe side. Rows count up to a mistake, or to as much beyond what is
        `typical` of their task (T,), which is the median of such distances unless it is known.
        """
        one, last = np.minimum(weight, 1.0), len(self.mass) - 1
        wanted = _USUAL * (1.0 - 1e-12) * (self.mass[-1] - one)
        found = np.minimum(np.searchsorted(self.mass, wanted), last)
        # Reached below the row, or else it has to be reached without it.
        beyond = np.minimum(np.searchsorted(self.mass, wanted + one), last)
        others = self.ascending[
            np.where(self.ascending[found] < nearest, found, beyond)
        ]
        known = (self.mass[-1] > one) & (others > 0.0) & np.isfinite(others)
        ratio = np.where(known, nearest / np.where(known, others, 1.0), 0.0)
        if typical is None:
            order = np.lexsort((ratio, codes))
            totals = np.bincount(codes, weight, n_tasks)
            wanted = np.cumsum(totals) - totals + 0.5 * (1.0 - 1e-12) * totals
            found = np.searchsorted(np.cumsum(weight[order]), wanted)
            typical = ratio[order][np.minimum(found, len(order) - 1)]
        most = np.minimum(_MISTAKE * np.maximum(1.0, typical[codes]), _FARTHEST)
        return excess_of(ratio, most), typical


def points_of(kernel: Kernel, rows: TrainingRows) -> tuple[Points, Codes, Codes]:
    """Distinct normal rows that stand for all, evenly over the order of their content.

    Returns
    -------
    points : Points
    few : ndarray of shape (p,)
        Their numbers among the normal rows.
    home : ndarray of shape (T,)
        For each task the one of its points in the middle of them; 0 where there is none.
    """
    normal = np.flatnonzero(~rows.outlier)
    few = np.unique(rows.content[normal], return_index=True)[1]
    if len(few) > MOST_POINTS:
        few = few[np.linspace(0, len(few) - 1, MOST_POINTS).astype(np.intp)]
    home = np.zeros(rows.n_tasks, dtype=np.intp)
    if rows.columns is not None:
        return (
            Points(kernel, np.empty((len(few), 0)), rows.columns[normal[few]]),
            few,
            home,
        )
    name = "rbf" if kernel.name == MIXTURE else str(kernel.name)
    points = Points(
        resolve_kernel(name, rows.X[normal], gamma=1.0), rows.X[normal[few]]
    )
    if sparse.issparse(rows.X):
        return points, few, home
    own = rows.codes[normal[few]]
    for task in np.unique(own):
        mine = np.flatnonzero(own == task)
        Y = points.side.rows[mine]
        with np.errstate(all="ignore"):
            home[task] = mine[np.argmin(np.abs(Y - Y.mean(axis=0)).sum(axis=1))]
    return points, few, home


def distances_from(points: Points, X: Rows) -> Array:
    """Distances (m, p) of rows (m, d) to the points; squared where the kernel's are."""
    Y, metric = points.side.rows, DISTANCES.get(str(points.kernel.name), "")
    with np.errstate(all="ignore"):
        if points.columns is not None:
            apart = -np.log(np.maximum(points.values(X), 0.0))
        elif sparse.issparse(Y) or metric == "chi2":
            apart = distances(metric, X, Y)
        else:
            X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
            X = points.kernel.scaled(X)
            if metric == "sqeuclidean" and Y.size > _MANY:
                # |x|^2 + |y|^2 - 2 x'y as one product.
                left = np.column_stack(
                    [X, np.einsum("ij,ij->i", X, X), np.ones(len(X))]
                )
                right = np.column_stack(
                    [-2.0 * Y, np.ones(len(Y)), np.einsum("ij,ij->i", Y, Y)]
                )
                apart = left @ right.T
                np.maximum(apart, 0.0, out=apart)
            else:
                apart = cdist(X, Y, metric)  # type: ignore[call-overload]
        if np.isnan(apart.sum()):  # differences that overflow
            apart[np.isnan(apart)] = np.inf
    return apart


def distances_to(points: Points, X: Rows, number: Codes) -> Array:
    """Distance of each row to the point of that number, shape (m,); infinite if it costs more."""
    metric = DISTANCES.get(str(points.kernel.name))
    if points.columns is not None or sparse.issparse(points.X) or sparse.issparse(X):
        return np.full(X.shape[0], np.inf)
    if metric not in ("sqeuclidean", "cityblock"):
        return np.full(X.shape[0], np.inf)
    with np.errstate(all="ignore"):
        apart = (
            points.kernel.scaled(np.asarray(X, dtype=np.float64))
            - points.side.rows[number]
        )
        if metric == "sqeuclidean":
            return np.asarray(np.einsum("ij,ij->i", apart, apart))
        return np.asarray(np.abs(apart, out=apart).sum(axis=1))
