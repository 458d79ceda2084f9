"""Base classes of rivals, with scores, and of detectors, with thresholds."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from manyone._types import Array, Codes, Labels
from manyone.metric.shrinkage import task_means, task_scales


class Rival(BaseEstimator, metaclass=ABCMeta):
    """Base: one column of scores per task."""

    tasks_: Labels

    def fit(self, X: Array, y: object = None, *, task: Labels) -> Self:
        """Fit to normal rows (n, d) of the tasks (n,)."""
        self.tasks_, codes = np.unique(task, return_inverse=True)
        self._fit(X, codes)
        return self

    @abstractmethod
    def _fit(self, X: Array, codes: Codes) -> None:
        """Fit; `codes` number the tasks."""

    def score_samples(self, X: Array, *, task: Labels) -> Array:
        """Every row against its own task, (n,)."""
        return self.score_tasks(X)[np.arange(len(X)), self._codes(task)]

    def _codes(self, task: Labels) -> Codes:
        return np.searchsorted(self.tasks_, task)

    @abstractmethod
    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T); higher is more normal."""


class Detector(Rival):
    """One detector per task, each with a threshold of its own."""

    offset_: Array
    _rows: list[Array]
    _means: Array
    _models: list[Any]  # of several packages, whose detectors share no type

    def _fit(self, X: Array, codes: Codes) -> None:
        self._rows = [X[codes == t] for t in range(len(self.tasks_))]
        self._means = np.stack([rows.mean(axis=0) for rows in self._rows])
        self._models = self._detectors()

    def _centred_rows(self) -> list[Array]:
        """The rows of each task about their mean."""
        return [rows - mean for rows, mean in zip(self._rows, self._means, strict=True)]

    @abstractmethod
    def _detectors(self) -> list[Any]:
        """The detector of each task, fitted to its rows."""

    def _scores(self, X: Array, t: int) -> Array:
        """Rows against one task, (n,)."""
        return self._models[t].score_samples(X)

    def _training_scores(self, t: int) -> Array:
        """Scores of the rows that the detector sets the threshold of a task on."""
        return self._scores(self._rows[t], t)

    def recalibrate(self, alarm_rate: float) -> Self:
        """Set thresholds as ``contamination`` does: at quantiles of training scores.

        So do the detectors of scikit-learn and of PyOD.
        """
        scores = map(self._training_scores, range(len(self.tasks_)))
        self.offset_ = np.array([np.quantile(s, alarm_rate) for s in scores])
        return self

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        return np.column_stack([self._scores(X, t) for t in range(len(self.tasks_))])

    def score_samples(self, X: Array, *, task: Labels) -> Array:
        """Every row against its own task, (n,)."""
        codes = self._codes(task)
        values = np.empty(len(X))
        for t in np.unique(codes):
            values[codes == t] = self._scores(X[codes == t], t)
        return values

    def decision_function(self, X: Array, *, task: Labels) -> Array:
        """Every row against its own task, (n,); < 0 is an alarm."""
        return self.score_samples(X, task=task) - self.offset_[self._codes(task)]


class OwnScales(Detector):
    """A rival that gets the rows of each task centred and in their own column scales.

    Scales are shrunk towards the pooled ones, which count for `prior` rows.
    """

    def __init__(self, rival: Detector, *, prior: float = 8.0):
        self.rival = rival
        self.prior = prior

    def _detectors(self) -> list[Detector]:
        X = np.concatenate(self._rows)
        sizes = np.array([len(rows) for rows in self._rows])
        codes = np.repeat(np.arange(len(sizes)), sizes)
        weight = np.ones(len(X))
        freedom = sizes - 1.0
        self._means = task_means(X, codes, weight)
        centred = X - self._means[codes]
        self._scale, _ = task_scales(centred, X, codes, weight, freedom, self.prior)
        scaled = centred / self._scale[codes]
        return [clone(self.rival).fit(scaled, task=self.tasks_[codes])] * len(sizes)

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t]._scores((X - self._means[t]) / self._scale[t], t)

    def recalibrate(self, alarm_rate: float) -> Self:
        """Set thresholds as the rival does."""
        self.offset_ = self._models[0].recalibrate(alarm_rate).offset_
        return self
