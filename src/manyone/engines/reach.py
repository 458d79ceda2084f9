"""How far rows are from everything, judged by a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manyone._types import Array, Codes, Rows
from manyone.engines.hashing import Hashes, row_hashes
from manyone.kernels.gram import Points
from manyone.kernels.kernel import Kernel
from manyone.models.presence import Presence, Usual, distances_from, points_of
from manyone.rows import TrainingRows, row_blocks


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
    """

    points: Points
    hashes: Hashes
    usual: Usual
    typical: Array
    home: Codes

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
        order = np.argsort(nearest, kind="stable")
        usual = Usual(nearest[order], np.cumsum(weight[order]))
        typical = usual.left_out(nearest, weight, codes, rows.n_tasks)[1]
        return cls(points, hashes, usual, typical, home)

    def recoded(self, codes: Codes, n_tasks: int, gone: Rows | None = None) -> Reach:
        """The same with other numbers for the tasks (T,), and without points that are `gone`."""
        typical, home = np.zeros(n_tasks), np.zeros(n_tasks, dtype=np.intp)
        typical[codes[codes >= 0]] = self.typical[codes >= 0]
        home[codes[codes >= 0]] = self.home[codes >= 0]
        if gone is None:
            return replace(self, typical=typical, home=home)
        kept = np.flatnonzero(~np.isin(self.hashes, row_hashes(gone)))
        kept = kept if len(kept) else np.arange(len(self.hashes))
        points = Points(self.points.kernel, self.points.X[kept])
        # Any point will do where the one in the middle is gone.
        home = np.minimum(np.searchsorted(kept, home), len(kept) - 1)
        return Reach(points, self.hashes[kept], self.usual, typical, home)

    def grown(self, tasks: Codes, X: Rows, codes: Codes, weight: Array) -> Reach:
        """The same with what is typical of new `tasks`, from their rows (b, d)."""
        nearest = _nearest(self.points, self.hashes, X)
        typical = self.typical.copy()
        typical[tasks] = self.usual.left_out(nearest, weight, codes, len(typical))[1][tasks]
        return replace(self, typical=typical)

    def presence(self, unit: float) -> Presence:
        """What lowers scores of rows far away."""
        return Presence(self.points, self.usual.limit, unit, self.home)

    def penalties(self, X: Rows, codes: Codes, weight: Array, unit: float) -> Array:
        """What the left-out scores of training rows (b, d) are lowered by, shape (b,)."""
        nearest = _nearest(self.points, self.hashes, X)
        known = len(self.typical), self.typical
        return unit * self.usual.left_out(nearest, weight, codes, *known)[0]


def _nearest(points: Points, hashes: Hashes, X: Rows) -> Array:
    """Distance of each row (b, d) to the nearest point that is not its copy, shape (b,)."""
    nearest = np.empty(X.shape[0])
    for rows in row_blocks(X.shape[0], 3 * (len(points) + X.shape[1])):
        apart = distances_from(points, X[rows])
        apart[row_hashes(X[rows])[:, None] == hashes] = np.inf
        nearest[rows] = apart.min(axis=1)
    return nearest
