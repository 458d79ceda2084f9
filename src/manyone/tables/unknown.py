"""Rows of tasks never seen, judged by their distance from all known rows.

The score is minus the distance to the nearest row of any task. What is normal for a new
task is learned by leaving tasks out: every row is compared with the rows of the other
tasks only. Tasks are the units. T of them give p-values of (1 + sum of shares of their
rows that score no higher) / (T + 1). If new tasks are like the known ones, P(p <= a) <=
a on average over new tasks (Lee, Barber & Willett 2023). Where the rate is below 1/(T +
1), only rows beyond those of every known task raise an alarm. Up to 1/(T + 1) of normal
rows are beyond. A single task says nothing of others: no row of theirs raises an alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Mask
from manyone.calibration import Calibration
from manyone.data.rows import row_blocks
from manyone.models.column_range import ColumnRange, score_range

# Distance of the rows of an only task from other tasks.
_NOTHING_NEAR = 1e150


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
        cls,
        X: Array,
        codes: Codes,
        guard: ColumnRange,
        lost: Array,
        most_rows: int = 2000,
    ) -> UnknownTasks:
        """From normal rows (n, d), sorted by task.

        `guard` has ranges with whole tasks left out; `lost` (n,) is what it says of
        rows whose task was left out. Every row is compared with every other, so at
        most so many are taken.
        """
        tasks = np.unique(codes, return_inverse=True)[1]
        if len(X) > most_rows:
            evenly = np.linspace(0, len(X) - 1, most_rows).round().astype(np.intp)
            X = X[evenly]
            tasks = tasks[evenly]
            lost = lost[evenly]
        nearest = np.empty(len(X))
        for block in row_blocks(len(X), len(X)):
            distance = cdist(X[block], X, "cityblock")
            distance[tasks[block, None] == tasks] = np.inf
            nearest[block] = distance.min(axis=1)
        unit = 1.0
        if tasks.max() > 0:
            unit = score_range(-nearest)
        else:
            # Every new row is nearer than that, so none raises an alarm.
            nearest[:] = _NOTHING_NEAR
        scores = -nearest - unit * lost
        # Tasks are the units: each counts as one row.
        weight = 1.0 / np.bincount(tasks)[tasks]
        calibration = Calibration.from_scores(
            scores, np.zeros(len(X), dtype=np.intp), weight, 1, "held-out"
        )
        return cls(X, guard, unit, calibration)

    def scores(self, X: Array) -> Array:
        """Score of each row, shape (n,); higher is more normal."""
        nearest = np.empty(len(X))
        for block in row_blocks(len(X), len(self.rows)):
            nearest[block] = cdist(X[block], self.rows, "cityblock").min(axis=1)
        return -nearest - self.unit * self.guard.outside(X)

    def judge(self, scores: Array, alarm_rate: float) -> tuple[Array, Mask]:
        """P-values and alarms at a rate, of scores (n,)."""
        thresholds = self.calibration.at(alarm_rate)
        offset = thresholds.offsets()[0]
        codes = np.zeros(len(scores), dtype=np.intp)
        return thresholds.pvalues(scores, codes), scores < offset[0]

    def rate(self, alarm_rate: float) -> float:
        """Largest share of normal rows of new tasks that raise an alarm."""
        if self.calibration.scores.max() <= -_NOTHING_NEAR:
            return 0.0
        return float(self.calibration.at(alarm_rate).offsets()[1][0])
