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

    PyOD compares a row with the training rows *and all rows that are scored with it*. Here each
    row is scored by itself, all in one array: what ``decision_function`` says of it alone.
    """

    def _detectors(self) -> list[Any]:
        ecod = import_module("pyod.models.ecod").ECOD
        return [ecod().fit(rows) for rows in self._rows]

    def _scores(self, X: Array, t: int) -> Array:
        scores = np.zeros(len(X))
        for column, x in zip(np.sort(self._rows[t], axis=0).T, X.T, strict=True):
            scores -= np.maximum(*_tails(column, x))  # the thinner tail counts
        return scores


class PerTaskCOPOD(PyodDetector):
    """One of PyOD's `COPOD` per task, each row scored by itself as in `PerTaskECOD`."""

    def _detectors(self) -> list[Any]:
        copod = import_module("pyod.models.copod").COPOD
        return [copod().fit(rows) for rows in self._rows]

    def _scores(self, X: Array, t: int) -> Array:
        rows = self._rows[t]
        n = len(rows) + 1.0
        scores = np.zeros(len(X))
        # Sums of powers of deviations, for the skewness of each column with the row added.
        centre = rows.mean(axis=0)
        second = np.sum((rows - centre) ** 2, axis=0)
        third = np.sum((rows - centre) ** 3, axis=0)
        for j, (column, x) in enumerate(zip(np.sort(rows, axis=0).T, X.T, strict=True)):
            left, right = _tails(column, x)
            gap = x - centre[j]
            shift = gap / n
            skew = (
                third[j] + gap**3 - 3 * shift * (second[j] + gap**2) + 2 * n * shift**3
            )
            longer = np.where(skew < 0, left, np.where(skew > 0, right, left + right))
            scores -= np.maximum(longer, (left + right) / 2)
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


def _tails(column: Array, x: Array) -> tuple[Array, Array]:
    """Minus the logarithms of both tails of a sorted column at `x`, with `x` among its values."""
    n = len(column)
    below = np.searchsorted(column, x, side="right")
    above = n - np.searchsorted(column, x, side="left")
    return -np.log((below + 1.0) / (n + 1.0)), -np.log((above + 1.0) / (n + 1.0))
