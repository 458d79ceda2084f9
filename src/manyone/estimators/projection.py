"""Scoring of models that are one linear function of kernel values per task."""

from __future__ import annotations

import numpy as np

from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels import Array, Rows
from manyone.tasks import Codes


class OneLayerMixin(MultiTaskOneClass):
    """Score by ``-|k(x, X_fit) dual_coef_ - mean_response_|``."""

    dual_coef_: Array
    mean_response_: Array

    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        response = np.empty(X.shape[0])
        coef = np.ascontiguousarray(self.dual_coef_.T)
        for rows, K in self._kernel_blocks(X):
            response[rows] = np.einsum("ij,ij->i", K, coef[codes[rows]])
        return -np.abs(response - self.mean_response_[codes])

    def _all_scores(self, X: Rows) -> Array:
        scores = np.empty((X.shape[0], len(self.tasks_)))
        for rows, K in self._kernel_blocks(X):
            scores[rows] = -np.abs(K @ self.dual_coef_ - self.mean_response_)
        return scores
