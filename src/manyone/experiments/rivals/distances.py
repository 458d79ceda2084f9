"""Distances to neighbours and to means."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf_shrinkage

from manyone._types import Array
from manyone.experiments.rivals.base import Detector


class PerTaskNearestNeighbour(Detector):
    """Distance to the nearest row of a task; thresholds from its own distances."""

    def __init__(self, *, norm: Literal["euclidean", "cityblock"] = "euclidean"):
        self.norm = norm

    def _detectors(self) -> list[None]:
        return [None] * len(self.tasks_)

    def _scores(self, X: Array, t: int) -> Array:
        return -cdist(X, self._rows[t], self.norm).min(axis=1)

    def _training_scores(self, t: int) -> Array:
        distances = cdist(self._rows[t], self._rows[t], self.norm)
        np.fill_diagonal(distances, np.inf)
        nearest = distances.min(axis=1)
        return -np.where(np.isfinite(nearest), nearest, 0.0)


class LargestDeviation(Detector):
    """Largest deviation from the mean of the task, in pooled standard deviations."""

    def _detectors(self) -> list[Array]:
        spread = np.concatenate(self._centred_rows()).std(axis=0)
        return [np.where(spread > 0, spread, 1.0)] * len(self.tasks_)

    def _scores(self, X: Array, t: int) -> Array:
        return -np.max(np.abs(X - self._means[t]) / self._models[t], axis=1)


class ShrunkMahalanobis:
    r"""Mahalanobis distance with a shrunk covariance.

    .. math::
        \Sigma = (1 - s) C'C / n + s \mu I, \qquad
        \mu = \operatorname{tr}(C'C) / (n d),

    for centred rows C, from the singular vectors of C alone: d x d is never formed.

    Parameters
    ----------
    C : ndarray of shape (n, d)
    shrinkage : float in (0, 1] or "auto"
        s; ``"auto"`` is what Ledoit and Wolf advise.
    """

    def __init__(self, C: Array, shrinkage: float | Literal["auto"] = "auto"):
        n, d = C.shape
        if isinstance(shrinkage, str):
            # The rule gives 0 for two rows: about their mean they vary in one direction
            # only.
            advised = float(ledoit_wolf_shrinkage(C, assume_centered=True))
            shrinkage = advised if advised > 1e-6 else 1e-6
        _, singular, self._directions = np.linalg.svd(C, full_matrices=False)
        # Rows that do not differ have no scale of their own: take 1.
        floor = shrinkage * (float(np.sum(singular**2)) / (n * d) or 1.0)
        self._along = 1.0 / np.sqrt((1.0 - shrinkage) * singular**2 / n + floor)
        # Directions in which the rows do not vary; there are none where n >= d.
        self._across = 1.0 / np.sqrt(floor) if d > len(singular) else 0.0

    def whiten(self, Z: Array) -> Array:
        r""":math:`\Sigma^{-1/2} z` of rows of Z (m, d): its length is the distance."""
        change = (Z @ self._directions.T) * (self._along - self._across)
        return self._across * Z + change @ self._directions


class PerTaskMahalanobis(Detector):
    """Distance to the mean of a task, its covariance shrunk ("auto": Ledoit-Wolf)."""

    def __init__(self, *, shrinkage: float | Literal["auto"] = "auto"):
        self.shrinkage = shrinkage

    def _detectors(self) -> list[ShrunkMahalanobis]:
        return [
            ShrunkMahalanobis(rows, self.shrinkage) for rows in self._centred_rows()
        ]

    def _scores(self, X: Array, t: int) -> Array:
        return -np.linalg.norm(self._models[t].whiten(X - self._means[t]), axis=1)


class PooledMahalanobis(PerTaskMahalanobis):
    """The same with one covariance, pooled within the tasks."""

    def _detectors(self) -> list[ShrunkMahalanobis]:
        rows = np.concatenate(self._centred_rows())
        return [ShrunkMahalanobis(rows, self.shrinkage)] * len(self.tasks_)

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T), whitened once for all tasks."""
        shared = self._models[0]
        return -cdist(shared.whiten(X), shared.whiten(self._means))
