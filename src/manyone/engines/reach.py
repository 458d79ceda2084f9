"""How far rows are from everything, judged by a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyone._types import Array, Codes, Mask, Rows
from manyone.engines.blocks import stacked
from manyone.engines.hashing import Hashes, row_hashes
from manyone.kernels.gram import Points
from manyone.kernels.kernel import Kernel
from manyone.models.presence import (
    MOST_POINTS,
    Presence,
    Usual,
    distances_from,
    nearest_points,
)
from manyone.rows import TrainingRows, row_blocks

# Rows that are looked at when more come.
_MOST_ROWS = 2**13


@dataclass(frozen=True, eq=False)
class Reach:
    """Distances of rows to the nearest of a few points, beside those that sampled rows keep.

    Parameters
    ----------
    points : Points
        Some rows.
    hashes : ndarray of shape (p,)
        Of their content: a row cannot vouch for itself.
    usual : Usual
        Distances of the sampled rows.
    typical : ndarray of shape (T,)
        Median distance in each task, in usual ones.
    home : ndarray of shape (T,)
        Number of a point in the middle of each task.
    codes : ndarray of shape (p,)
        Task of each point.
    group : ndarray of shape (p,) or None
        Points of one number leave together; None: each leaves alone.
    """

    points: Points
    hashes: Hashes
    usual: Usual
    typical: Array
    home: Codes
    codes: Codes
    group: Codes | None = None

    @classmethod
    def of(cls, kernel: Kernel, rows: TrainingRows) -> Reach | None:
        """Reach of sampled rows; None where the kernel is not one of a distance."""
        if not kernel.fading:
            return None
        normal = np.flatnonzero(~rows.outlier)
        weight, codes = rows.weight[normal], rows.codes[normal]
        points, few, home, nearest = nearest_points(kernel, rows)
        hashes = row_hashes(points.X)
        usual = Usual.of(nearest, weight)
        typical = usual.left_out(nearest, weight, codes, rows.n_tasks)[1]
        group = None if rows.group is None else rows.group[normal[few]]
        return cls(points, hashes, usual, typical, home, codes[few], group)

    def recoded(self, codes: Codes, n_tasks: int) -> Reach:
        """The same with other numbers for the tasks (T,)."""
        typical, home = np.zeros(n_tasks), np.zeros(n_tasks, dtype=np.intp)
        typical[codes[codes >= 0]] = self.typical[codes >= 0]
        home[codes[codes >= 0]] = self.home[codes >= 0]
        return replace(self, typical=typical, home=home, codes=codes[self.codes])

    def without(self, gone: Mask) -> Reach | None:
        """Reach of the points that are left, which then say what is usual; None: there are none."""
        kept = np.flatnonzero(~gone)
        if not len(kept):
            return None
        points, hashes = (
            Points(self.points.kernel, self.points.X[kept]),
            self.hashes[kept],
        )
        group = None if self.group is None else self.group[kept]
        usual = Usual.of(_nearest(points, hashes, points.X, group), np.ones(len(kept)))
        # Any point will do where the one in the middle is gone.
        home = np.minimum(np.searchsorted(kept, self.home), len(kept) - 1)
        return Reach(points, hashes, usual, self.typical, home, self.codes[kept], group)

    def grown(self, rows: TrainingRows) -> Reach:
        """Reach of more normal rows, too; some far from all points become points."""
        some = np.argsort(row_hashes(rows.X))[:_MOST_ROWS]
        rows = rows.take(some[np.argsort(rows.codes[some], kind="stable")])
        X, codes, weight, n_tasks = rows.X, rows.codes, rows.weight, len(self.typical)
        nearest = _nearest(self.points, self.hashes, X)
        far = np.flatnonzero(
            self.usual.left_out(nearest, weight, codes, n_tasks)[0] > 0.0
        )
        number = min(
            max(1, MOST_POINTS * len(np.unique(codes[far])) // n_tasks), len(far)
        )
        few = far[np.linspace(0, len(far) - 1, number).astype(np.intp)]
        points = Points(self.points.kernel, stacked([self.points.X, X[few]]))
        hashes = np.append(self.hashes, row_hashes(X[few]))
        nearest = _nearest(points, hashes, X, rows.group)
        mass = np.diff(self.usual.mass, prepend=0.0)
        usual = Usual.of(
            np.append(self.usual.ascending, nearest), np.append(mass, weight)
        )
        new, typical = (
            np.setdiff1d(codes, np.flatnonzero(self.typical)),
            self.typical.copy(),
        )
        typical[new] = usual.left_out(nearest, weight, codes, n_tasks)[1][new]
        own, group = np.append(self.codes, codes[few]), self.group
        if rows.group is not None:
            was = np.arange(len(self.codes)) if group is None else group
            group = np.append(was, was.max() + 1 + rows.group[few])
        return Reach(points, hashes, usual, typical, self.home, own, group)

    def presence(self, unit: float) -> Presence:
        """What lowers scores of rows far away."""
        return Presence(self.points, self.usual.limit, unit, self.home)

    def penalties(
        self,
        X: Rows,
        codes: Codes,
        weight: Array,
        unit: float,
        group: Codes | None = None,
    ) -> Array:
        """What left-out scores of training rows (b, d), of groups (b,), are lowered by, (b,)."""
        nearest = _nearest(self.points, self.hashes, X, group)
        known = len(self.typical), self.typical
        return unit * self.usual.left_out(nearest, weight, codes, *known)[0]


def _nearest(
    points: Points, hashes: Hashes, X: Rows, group: Codes | None = None
) -> Array:
    """Distance of each row (b, d) to the nearest point that can vouch for it, shape (b,).

    That is one that is not its copy, or, where rows have groups (b,), none of its group.
    """
    nearest = np.empty(X.shape[0])
    mine: Any = row_hashes(X)
    theirs: Any = hashes
    if group is not None and len(group):
        order = np.argsort(mine)
        place = order[np.minimum(np.searchsorted(mine[order], hashes), len(order) - 1)]
        theirs = np.where(mine[place] == hashes, group[place], -1)
        mine = group
    for rows in row_blocks(X.shape[0], 3 * (len(points) + X.shape[1])):
        apart = distances_from(points, X[rows])
        apart[mine[rows, None] == theirs] = np.inf
        nearest[rows] = apart.min(axis=1)
    return nearest
