"""Isolation forests: one for each task, or one for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from manyone._types import Array
from manyone.experiments.rivals.base import Detector


class PerTaskIsolationForest(Detector):
    """One `IsolationForest` per task."""

    def _detectors(self) -> list[IsolationForest]:
        return [IsolationForest(random_state=0).fit(rows) for rows in self._rows]


class PooledIsolationForest(Detector):
    """One `IsolationForest` for the rows of all tasks, as they are or about their task's mean.

    Thresholds are those of each task's own rows.
    """

    def __init__(self, *, centred: bool = True):
        self.centred = centred

    def _detectors(self) -> list[IsolationForest]:
        means = [rows.mean(axis=0) for rows in self._rows]
        self._centres = means if self.centred else [np.zeros_like(mean) for mean in means]
        rows = [rows - centre for rows, centre in zip(self._rows, self._centres, strict=True)]
        return [IsolationForest(random_state=0).fit(np.concatenate(rows))] * len(means)

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t].score_samples(X - self._centres[t])

    def score_samples(self, X: Array, *, task: NDArray[Any]) -> Array:
        """Every row against its own task, (n,), by one call."""
        centres = np.stack(self._centres)[self._codes(task)]
        return self._models[0].score_samples(X - centres)
