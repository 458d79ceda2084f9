"""Support vector machines: one for each task, or each task against the others."""

from __future__ import annotations

from importlib import import_module
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.svm import SVC, OneClassSVM

from manyone._types import Array
from manyone.experiments.rivals.base import Detector, Rival
from manyone.kernels import resolve_kernel


class OneClassSVMs(Detector):
    """Detectors whose false alarms are asked for through `nu`: another rate is another fit."""

    nu: float = OneClassSVM().nu

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._nu = self.nu
        super()._fit(X, codes)

    def recalibrate(self, alarm_rate: float) -> Self:
        """Refit with another `nu`, which is meant to be the share of false alarms."""
        self._nu = alarm_rate
        self._models = self._detectors()
        self.offset_ = np.array([model.offset_[0] for model in self._models])
        return self


class PerTaskOneClassSVM(OneClassSVMs):
    """One `OneClassSVM` per task, kernel width from the rows of all tasks."""

    def __init__(
        self, *, kernel: str = "rbf", gamma: str = "mean", width: float = 1.0, nu: float = 0.1
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.width = width
        self.nu = nu

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._kernel = resolve_kernel(self.kernel, X, gamma=self.gamma, width=self.width)
        super()._fit(X, codes)

    def _detectors(self) -> list[OneClassSVM]:
        model = OneClassSVM(kernel="precomputed", nu=self._nu)
        return [clone(model).fit(self._kernel.gram(rows)) for rows in self._rows]

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t].score_samples(self._kernel(X, self._rows[t]))


class GroupedOneClassSVM(OneClassSVMs):
    """scikit-lego's `GroupedPredictor` around a `OneClassSVM` with its defaults."""

    def _detectors(self) -> list[OneClassSVM]:
        # The groups are a column beside the features.
        tables = [np.insert(rows, 0, t, axis=1) for t, rows in enumerate(self._rows)]
        grouped = import_module("sklego.meta").GroupedPredictor(OneClassSVM(nu=self._nu), [0])
        models = grouped.fit(np.concatenate(tables)).estimators_
        return [models[t] for t in range(len(tables))]


class OneVsRestSVC(Rival):
    """One balanced `SVC` per task against the rows of all other tasks."""

    def __init__(self, *, kernel: str = "rbf", width: float = 1.0, C: float = 1.0):
        self.kernel = kernel
        self.width = width
        self.C = C

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._X, self._kernel = X, resolve_kernel(self.kernel, X, width=self.width)
        K = self._kernel.gram(X)
        model = SVC(kernel="precomputed", C=self.C, class_weight="balanced")
        self._models = [clone(model).fit(K, codes == t) for t in range(len(self.tasks_))]

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        K = self._kernel(X, self._X)
        return np.column_stack([model.decision_function(K) for model in self._models])
