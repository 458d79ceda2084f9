"""What people use today, from scikit-learn alone, behind the few methods the experiments need."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.svm import SVC, OneClassSVM

from manyone.kernels import Array, resolve_kernel


class Rival(BaseEstimator, metaclass=ABCMeta):
    """Base: one column of scores per task."""

    tasks_: NDArray[Any]

    def fit(self, X: Array, y: Any = None, *, task: NDArray[Any]) -> Self:
        """Fit to normal rows (n, d) of the tasks (n,)."""
        self.tasks_, codes = np.unique(task, return_inverse=True)
        self._fit(X, codes)
        return self

    @abstractmethod
    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        """Fit; `codes` number the tasks."""

    @abstractmethod
    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T); higher is more normal."""


class PerTask(Rival):
    """One model per task; each sees the rows of its task alone."""

    offset_: Array

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._rows = [X[codes == t] for t in range(len(self.tasks_))]

    @abstractmethod
    def recalibrate(self, alarm_rate: float) -> Self:
        """Ask for a share of false alarms, in the way the model has for it."""

    @abstractmethod
    def _scores(self, X: Array, t: int) -> Array:
        """Rows against one task, (n,)."""

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        return np.column_stack([self._scores(X, t) for t in range(len(self.tasks_))])

    def decision_function(self, X: Array, *, task: NDArray[Any]) -> Array:
        """Every row against its own task, (n,); < 0 is an alarm."""
        values = np.empty(len(X))
        for t, label in enumerate(self.tasks_):
            mine = task == label
            if np.any(mine):
                values[mine] = self._scores(X[mine], t) - self.offset_[t]
        return values


class PerTaskOneClassSVM(PerTask):
    """One `OneClassSVM` per task, kernel width from the rows of all tasks."""

    def __init__(
        self, *, kernel: str = "rbf", gamma: str = "mean", width: float = 1.0, nu: float = 0.1
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.width = width
        self.nu = nu

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        super()._fit(X, codes)
        self._kernel = resolve_kernel(self.kernel, X, gamma=self.gamma, width=self.width)
        self.recalibrate(self.nu)

    def recalibrate(self, alarm_rate: float) -> Self:
        """Refit with another `nu`, which is meant to be the share of false alarms."""
        self._models = [
            OneClassSVM(kernel="precomputed", nu=alarm_rate).fit(self._kernel.gram(rows))
            for rows in self._rows
        ]
        self.offset_ = np.array([model.offset_[0] for model in self._models])
        return self

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t].score_samples(self._kernel(X, self._rows[t]))


class PerTaskIsolationForest(PerTask):
    """One `IsolationForest` per task."""

    def __init__(self, *, random_state: int = 0):
        self.random_state = random_state

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        super()._fit(X, codes)
        self._models = [
            IsolationForest(random_state=self.random_state).fit(rows) for rows in self._rows
        ]

    def recalibrate(self, alarm_rate: float) -> Self:
        """Set thresholds as ``contamination=alarm_rate`` does: a quantile of training scores."""
        self.offset_ = np.array(
            [np.quantile(self._scores(rows, t), alarm_rate) for t, rows in enumerate(self._rows)]
        )
        return self

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t].score_samples(X)


class PooledMahalanobis(Rival):
    """Distance to the mean of a task, covariance pooled within tasks and shrunk (Ledoit-Wolf)."""

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        T = len(self.tasks_)
        self._means = np.stack([X[codes == t].mean(axis=0) for t in range(T)])
        model = LedoitWolf(assume_centered=True).fit(X - self._means[codes])
        self._whiten = np.linalg.cholesky(model.get_precision())

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        rows, means = X @ self._whiten, self._means @ self._whiten
        return -np.stack([np.linalg.norm(rows - mean, axis=1) for mean in means], axis=1)


class OneVsRestSVC(Rival):
    """One balanced `SVC` per task against the rows of all other tasks."""

    def __init__(self, *, kernel: str = "rbf", width: float = 1.0, C: float = 1.0):
        self.kernel = kernel
        self.width = width
        self.C = C

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._X, self._kernel = X, resolve_kernel(self.kernel, X, width=self.width)
        K = self._kernel.gram(X)
        self._models = [
            SVC(kernel="precomputed", C=self.C, class_weight="balanced").fit(K, codes == t)
            for t in range(len(self.tasks_))
        ]

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        K = self._kernel(X, self._X)
        return np.column_stack([model.decision_function(K) for model in self._models])
