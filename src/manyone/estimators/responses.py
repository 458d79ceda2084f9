"""Scoring for methods whose task functions are one kernel expansion each."""

from __future__ import annotations

import numpy as np

from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels import Array, Rows
from manyone.tasks import Codes


class ResponseScoring(MultiTaskOneClass):
    """Score -|f_t(x) - mean_t| with ``f = K(x, X_fit) dual_coef_ + intercept_``.

    A subclass sets `X_fit_`, `dual_coef_` (n, T), `mean_response_` (T,) and, where it has one,
    `intercept_` (T,).
    """

    dual_coef_: Array
    mean_response_: Array
    intercept_: Array | float = 0.0

    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        target = self.mean_response_ - self.intercept_
        response = np.empty(X.shape[0])
        coef = np.ascontiguousarray(self.dual_coef_.T)
        for rows, K in self._kernel_blocks(X):
            response[rows] = np.einsum("ij,ij->i", K, coef[codes[rows]])
        return -np.abs(response - target[codes])

    def _all_scores(self, X: Rows) -> Array:
        target = self.mean_response_ - self.intercept_
        scores = np.empty((X.shape[0], len(self.tasks_)))
        for rows, K in self._kernel_blocks(X):
            scores[rows] = -np.abs(K @ self.dual_coef_ - target)
        return scores

    def _far_scores(self) -> Array | None:
        # Kernels of a distance vanish far away, and the response with them.
        return (
            -np.abs(self.mean_response_ - self.intercept_) if self.kernel_.unit_diagonal else None
        )
