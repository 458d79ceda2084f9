"""Detectors and classifiers of scikit-learn."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import SVC, OneClassSVM

from manyone._types import Array, Codes
from manyone.experiments.rivals.base import Detector, Rival
from manyone.kernels import resolve_kernel


class PerTaskIsolationForest(Detector):
    """One `IsolationForest` per task."""

    def _detectors(self) -> list[IsolationForest]:
        return [IsolationForest(random_state=0).fit(rows) for rows in self._rows]


class PooledIsolationForest(Detector):
    """One `IsolationForest` for all rows, as they are or about their task's mean.

    Thresholds are those of each task's own rows.
    """

    def __init__(self, *, centred: bool = True):
        self.centred = centred

    def _detectors(self) -> list[IsolationForest]:
        self._centres = self._means if self.centred else np.zeros_like(self._means)
        rows = self._centred_rows() if self.centred else self._rows
        return [IsolationForest(random_state=0).fit(np.concatenate(rows))] * len(rows)

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t].score_samples(X - self._centres[t])


class PerTaskLocalOutlierFactor(Detector):
    """One `LocalOutlierFactor` per task, its neighbours bounded by the rows."""

    def __init__(self, *, n_neighbors: int = 20):
        self.n_neighbors = n_neighbors

    def _detectors(self) -> list[LocalOutlierFactor]:
        model = LocalOutlierFactor(n_neighbors=self.n_neighbors, novelty=True)
        return [clone(model).fit(rows) for rows in self._rows]

    def _training_scores(self, t: int) -> Array:
        return self._models[t].negative_outlier_factor_


class PerTaskOneClassSVM(Detector):
    """One `OneClassSVM` per task, kernel width from the rows of all tasks.

    Its false-alarm rate is set by `nu`: another rate needs another fit.
    """

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        gamma: str = "mean",
        width: float = 1.0,
        nu: float = 0.1,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.width = width
        self.nu = nu

    def _fit(self, X: Array, codes: Codes) -> None:
        self._kernel = resolve_kernel(
            self.kernel, X, gamma=self.gamma, width=self.width
        )
        super()._fit(X, codes)

    def _detectors(self) -> list[OneClassSVM]:
        return self._machines(self.nu)

    def _machines(self, nu: float) -> list[OneClassSVM]:
        model = OneClassSVM(kernel="precomputed", nu=nu)
        return [clone(model).fit(self._kernel.gram(rows)) for rows in self._rows]

    def recalibrate(self, alarm_rate: float) -> Self:
        """Refit with another `nu`, which is meant to be the share of false alarms."""
        self._models = self._machines(alarm_rate)
        self.offset_ = np.array([model.offset_[0] for model in self._models])
        return self

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t].score_samples(self._kernel(X, self._rows[t]))


class OneVsRestSVC(Rival):
    """One balanced `SVC` per task against the rows of all other tasks."""

    def __init__(self, *, kernel: str = "rbf", width: float = 1.0, C: float = 1.0):
        self.kernel = kernel
        self.width = width
        self.C = C

    def _fit(self, X: Array, codes: Codes) -> None:
        self._X = X
        self._kernel = resolve_kernel(self.kernel, X, width=self.width)
        K = self._kernel.gram(X)
        model = SVC(kernel="precomputed", C=self.C, class_weight="balanced")
        tasks = range(len(self.tasks_))
        self._models = [clone(model).fit(K, codes == t) for t in tasks]

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        K = self._kernel(X, self._X)
        return np.column_stack([model.decision_function(K) for model in self._models])


class LinearDiscriminants(Rival):
    """`LinearDiscriminantAnalysis`, covariance shrunk; scores: log probabilities.

    They rank rows far better than the bare discriminants, which cannot single out a
    task in the middle of the others.
    """

    def _fit(self, X: Array, codes: Codes) -> None:
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        self._model = model.fit(X, codes)

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        values = self._model.decision_function(X)
        if values.ndim == 1:  # two classes share one discriminant
            values = np.column_stack([-values, values]) / 2
        return log_softmax(values, axis=1)  # probabilities would underflow and tie
