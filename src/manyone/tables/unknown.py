"""Rows of tasks that were never seen, judged by their distance from everything that was.

The score is minus the distance to the nearest row of any task. What is normal for a new task is
learned by leaving tasks out: every row is compared with the rows of the other tasks only. If new
tasks are like the known ones, normal rows of them raise alarms at the promised rate, on average
over new tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Mask
from manyone.calibration import Calibration
from manyone.data.rows import row_blocks
from manyone.models.guards import ColumnRange, score_range

# Rows that stand for all.
_MOST_ROWS = 2000


@dataclass(frozen=True, eq=False)
class UnknownTasks:
    """Scores and p-values of rows whose task was never seen.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        Rows of known tasks.
    guard : ColumnRange
    unit : float
        What the guard is multiplied by.
    calibration : Calibration
        Scores of rows of known tasks, each task left out.
    """

    rows: Array
    guard: ColumnRange
    unit: float
    calibration: Calibration

    @classmethod
    def learn(
        cls, X: Array, codes: Codes, guard: ColumnRange, lost: Array
    ) -> UnknownTasks:
        """From normal rows (n, d), sorted by task.

        `guard` has ranges with whole tasks left out; `lost` (n,) is what it says of rows whose task
        was left out.
        """
        tasks = np.unique(codes, return_inverse=True)[1]
        groups = left_out_together(codes)
        if len(X) > _MOST_ROWS:
            kept = np.linspace(0, len(X) - 1, _MOST_ROWS).round().astype(np.intp)
            X = X[kept]
            tasks = tasks[kept]
            groups = groups[kept]
            lost = lost[kept]
        nearest = np.empty(len(X))
        for part in row_blocks(len(X), len(X)):
            distance = cdist(X[part], X, "cityblock")
            distance[groups[part, None] == groups] = np.inf
            nearest[part] = distance.min(axis=1)
        scores = -np.where(np.isfinite(nearest), nearest, 0.0)
        unit = score_range(scores)
        scores = scores - unit * lost
        # Every task counts the same, however many rows it has.
        counts = np.bincount(tasks)
        weight = len(X) / (np.count_nonzero(counts) * counts[tasks])
        calibration = Calibration.from_scores(
            scores, np.zeros(len(X), dtype=np.intp), weight, 1, "held-out"
        )
        return cls(X, guard, unit, calibration)

    def scores(self, X: Array) -> Array:
        """Score of each row, shape (n,); higher is more normal."""
        nearest = np.empty(len(X))
        for part in row_blocks(len(X), len(self.rows)):
            nearest[part] = cdist(X[part], self.rows, "cityblock").min(axis=1)
        return -nearest - self.unit * self.guard.outside(X)

    def judge(
        self, scores: Array, alarm_rate: float, finest: float
    ) -> tuple[Array, Mask]:
        """P-values as fine as `finest` if possible, and alarms at a rate, of scores (n,)."""
        offset, _ = self.calibration.offsets(alarm_rate)
        codes = np.zeros(len(scores), dtype=np.intp)
        return self.calibration.pvalues(scores, codes, finest), scores < offset[0]


def left_out_together(codes: Codes) -> Codes:
    """Rows of tasks (n,) that leave together: whole tasks, or of a single one every row alone."""
    tasks = np.unique(codes, return_inverse=True)[1]
    return tasks if tasks.max() > 0 else np.arange(len(codes))
