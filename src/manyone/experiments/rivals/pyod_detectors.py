"""Detectors of PyOD, one for each task; PyOD is imported when they are fitted."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from manyone._types import Array, Codes
from manyone.experiments.rivals.base import Detector
from manyone.kernels import resolve_kernel


class PyodDetector(Detector):
    """Detectors of PyOD, whose scores grow with the anomaly."""

    def _training_scores(self, t: int) -> Array:
        return -self._models[t].decision_scores_


class PerTaskECOD(PyodDetector):
    """One of PyOD's `ECOD` per task.

    PyOD compares a row with the training rows *and all rows that are scored with it*.
    Here each row is scored by itself, all in one array: what ``decision_function`` says
    of it alone.
    """

    def _detectors(self) -> list[Any]:
        ecod = import_module("pyod.models.ecod").ECOD
        return [ecod().fit(rows) for rows in self._rows]

    def _scores(self, X: Array, t: int) -> Array:
        n_rows = len(self._rows[t])
        scores = np.zeros(len(X))
        for column, x in zip(np.sort(self._rows[t], axis=0).T, X.T, strict=True):
            below = np.searchsorted(column, x, side="right")
            above = n_rows - np.searchsorted(column, x, side="left")
            # The thinner tail counts, with the row among its values.
            scores += np.log((np.minimum(below, above) + 1.0) / (n_rows + 1.0))
        return scores


class PerTaskKPCA(PyodDetector):
    """One of PyOD's `KPCA` per task: RBF kernel, its width from the rows of all tasks.

    Scores are those of ``decision_function``, which loops over rows.
    """

    def __init__(self, *, width: float = 1.0, n_components: int | None = None):
        self.width = width
        self.n_components = n_components

    def _fit(self, X: Array, codes: Codes) -> None:
        self._gamma = resolve_kernel("rbf", X, width=self.width).reported_gamma
        super()._fit(X, codes)

    def _detectors(self) -> list[Any]:
        kpca = import_module("pyod.models.kpca").KPCA
        options = {"gamma": self._gamma, "n_components": self.n_components}
        return [kpca(**options).fit(rows) for rows in self._rows]

    def _scores(self, X: Array, t: int) -> Array:
        model = self._models[t].kpca
        near = model.get_kernel(X, self._rows[t]).mean(axis=1)
        projected = model.transform(X)
        length = 1.0 - 2.0 * near + model.get_centerer.K_fit_all_
        return np.einsum("ij,ij->i", projected, projected) - length
