"""How far rows are from everything, judged by a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Rows
from manyone.engines.hashing import Hashes, row_hashes
from manyone.kernels.gram import Points
from manyone.kernels.kernel import Kernel, resolve_kernel, row_blocks
from manyone.kernels.nearest import (
    MOST_POINTS,
    NO_DISTANCE,
    OUT_OF_REACH,
    limit_of_all,
    ratios_to_limits,
)
from manyone.models.presence import FARTHEST, Presence
from manyone.rows import TrainingRows


@dataclass(frozen=True, eq=False)
class Reach:
    """Distances of rows to the nearest of a few points, beside those that sampled rows keep.

    Parameters
    ----------
    points : Points
        Some rows, and a kernel whose ``-log k`` is a distance (or its square).
    hashes : ndarray of shape (p,)
        Of their content: a row cannot vouch for itself.
    ascending, mass : ndarray of shape (s,)
        Distances of the sampled rows, sorted, and what they weigh, summed up.
    """

    points: Points
    hashes: Hashes
    ascending: Array
    mass: Array

    @classmethod
    def of(cls, kernel: Kernel, rows: TrainingRows) -> Reach | None:
        """Reach of sampled rows; None where the kernel is not one of a distance."""
        if not kernel.unit_diagonal:
            return None
        normal = np.flatnonzero(~rows.outlier)
        X, weight = rows.X[normal], rows.weight[normal]
        few = np.unique(rows.content[normal], return_index=True)[1]
        if len(few) > MOST_POINTS:
            few = few[np.linspace(0, len(few) - 1, MOST_POINTS).astype(np.intp)]
        name = str(kernel.name).partition("+")[0]
        points = Points(resolve_kernel(name, X, weight=weight), X[few])
        reach = cls(points, row_hashes(X[few]), np.zeros(0), np.zeros(0))
        nearest = reach.nearest(X)
        order = np.argsort(nearest, kind="stable")
        return cls(points, reach.hashes, nearest[order], np.cumsum(weight[order]))

    def nearest(self, X: Rows) -> Array:
        """Distance of each row (b, d) to the nearest point that is not its copy, shape (b,)."""
        nearest = np.empty(X.shape[0])
        for rows in row_blocks(X.shape[0], 2 * (len(self.points) + X.shape[1])):
            K = self.points.values(X[rows])
            nearest[rows] = K.max(axis=1)
            close = np.flatnonzero(nearest[rows] > 1.0 - 1e-6)
            if len(close):
                part = K[close]
                part[row_hashes(X[rows][close])[:, None] == self.hashes] = 0.0
                nearest[rows.start + close] = part.max(axis=1)
        return self.points.kernel.distance(nearest)

    def presence(self, unit: float) -> Presence | None:
        """What lowers scores of rows far away; None where all rows are alike."""
        limit = limit_of_all(self.ascending, self.mass)
        usable = NO_DISTANCE < limit < OUT_OF_REACH and unit > 0
        return Presence(self.points, limit, unit) if usable else None

    def penalties(self, X: Rows, weight: Array, unit: float) -> Array:
        """What the left-out scores of training rows (b, d) are lowered by, shape (b,)."""
        ratios = ratios_to_limits(self.nearest(X), weight, self.ascending, self.mass)
        return unit * np.clip(ratios - 1.0, 0.0, FARTHEST - 1.0)
