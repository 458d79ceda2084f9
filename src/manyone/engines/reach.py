"""How far rows are from everything, judged by a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manyone._types import Array, Codes, Mask, Rows
from manyone.engines.blocks import stacked
from manyone.engines.hashing import Hashes, row_hashes
from manyone.kernels.gram import Points
from manyone.kernels.kernel import Kernel
from manyone.models.presence import MOST_POINTS, Presence, Usual, distances_from, points_of
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
    """

    points: Points
    hashes: Hashes
    usual: Usual
    typical: Array
    home: Codes
    codes: Codes

    @classmethod
    def of(cls, kernel: Kernel, rows: TrainingRows) -> Reach | None:
        """Reach of sampled rows; None where the kernel is not one of a distance."""
        if not kernel.fading:
            return None
        normal = np.flatnonzero(~rows.outlier)
        X, weight, codes = rows.X[normal], rows.weight[normal], rows.codes[normal]
        points, few, home = points_of(kernel, rows)
        hashes = row_hashes(X[few])
        nearest = _nearest(points, hashes, X)
        usual = _usual(nearest, weight)
        typical = usual.left_out(nearest, weight, codes, rows.n_tasks)[1]
        return cls(points, hashes, usual, typical, home, codes[few])

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
        points, hashes = Points(self.points.kernel, self.points.X[kept]), self.hashes[kept]
        usual = _usual(_nearest(points, hashes, points.X), np.ones(len(kept)))
        # Any point will do where the one in the middle is gone.
        home = np.minimum(np.searchsorted(kept, self.home), len(kept) - 1)
        return Reach(points, hashes, usual, self.typical, home, self.codes[kept])

    def grown(self, X: Rows, codes: Codes, weight: Array) -> Reach:
        """Reach of more normal rows (b, d), too; some far from all points become points."""
        some = np.argsort(row_hashes(X))[:_MOST_ROWS]
        some = some[np.argsort(codes[some], kind="stable")]
        X, codes, weight = X[some], codes[some], weight[some]
        n_tasks = len(self.typical)
        nearest = _nearest(self.points, self.hashes, X)
        far = np.flatnonzero(self.usual.left_out(nearest, weight, codes, n_tasks)[0] > 0.0)
        number = min(max(1, MOST_POINTS * len(np.unique(codes[far])) // n_tasks), len(far))
        few = far[np.linspace(0, len(far) - 1, number).astype(np.intp)]
        points = Points(self.points.kernel, stacked([self.points.X, X[few]]))
        hashes = np.append(self.hashes, row_hashes(X[few]))
        nearest, mass = _nearest(points, hashes, X), np.diff(self.usual.mass, prepend=0.0)
        usual = _usual(np.append(self.usual.ascending, nearest), np.append(mass, weight))
        new, typical = np.setdiff1d(codes, np.flatnonzero(self.typical)), self.typical.copy()
        typical[new] = usual.left_out(nearest, weight, codes, n_tasks)[1][new]
        own = np.append(self.codes, codes[few])
        return Reach(points, hashes, usual, typical, self.home, own)

    def presence(self, unit: float) -> Presence:
        """What lowers scores of rows far away."""
        return Presence(self.points, self.usual.limit, unit, self.home)

    def penalties(self, X: Rows, codes: Codes, weight: Array, unit: float) -> Array:
        """What the left-out scores of training rows (b, d) are lowered by, shape (b,)."""
        nearest = _nearest(self.points, self.hashes, X)
        known = len(self.typical), self.typical
        return unit * self.usual.left_out(nearest, weight, codes, *known)[0]


def _usual(nearest: Array, weight: Array) -> Usual:
    order = np.argsort(nearest, kind="stable")
    return Usual(nearest[order], np.cumsum(weight[order]))


def _nearest(points: Points, hashes: Hashes, X: Rows) -> Array:
    """Distance of each row (b, d) to the nearest point that is not its copy, shape (b,)."""
    nearest = np.empty(X.shape[0])
    for rows in row_blocks(X.shape[0], 3 * (len(points) + X.shape[1])):
        apart = distances_from(points, X[rows])
        apart[row_hashes(X[rows])[:, None] == hashes] = np.inf
        nearest[rows] = apart.min(axis=1)
    return nearest
