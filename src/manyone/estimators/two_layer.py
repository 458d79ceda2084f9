"""Models whose second layer is a Gaussian kernel over the responses of a first one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from manyone.calibration import Calibration
from manyone.estimators.base import CALIBRATION_FOLDS
from manyone.estimators.structured import StructureMixin
from manyone.features import FeatureMap, exact_features
from manyone.kernels import Array, Rows
from manyone.solvers.nonlinear import gram, respond
from manyone.solvers.ridge import effective_alpha, primal_ridge, ridge
from manyone.tasks import Codes, responses
from manyone.validation import TrainingRows

#: Squared distance in responses, in units of their own size, at which rows become strangers.
_REACH = 10.0


class FirstLayer(NamedTuple):
    """The joint ridge solution that the second layer starts from.

    Attributes
    ----------
    Phi : ndarray of shape (n, m)
        Feature rows.
    W : ndarray of shape (m, T)
        Feature weights.
    R : ndarray of shape (n, T)
        Responses asked for.
    slack : ndarray of shape (n,)
        See :class:`manyone.solvers.ridge.RidgeSolution`.
    features : FeatureMap
    unit : float
        Mean weight. What follows is divided by it: the same minimiser, numbers of moderate size.
    alpha : float
    weight, single : ndarray of shape (n,)
        Weights, and what one count of a row is.
    """

    Phi: Array
    W: Array
    R: Array
    slack: Array
    features: FeatureMap
    unit: float
    alpha: float
    weight: Array
    single: Array


class TwoLayerMixin(StructureMixin):
    """First layer, scoring and the coefficient of the second kernel."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StructureMixin._parameter_constraints,
        "theta": [StrOptions({"mean"}), Interval(Real, 0, None, closed="neither")],
        "learn_theta": ["boolean"],
    }

    theta: str | float
    learn_theta: bool
    dual_coef_: Array
    mean_response_: Array

    def _first_layer(self, rows: TrainingRows) -> FirstLayer:
        _, self.codes_, self.outlier_, self.weight_ = rows
        R = responses(rows.codes, rows.outlier, len(self.tasks_))
        diagonal = self._gram_diagonal(rows.X)
        # Heavier rows are interpolated to rounding; that must not cost light rows their ridge.
        resolved = 8 * np.finfo(float).eps * max(float(np.abs(diagonal).sum()), 1e-200)
        heaviest = max(1e8, min(self.alpha, 1e50) / resolved)
        rows = rows._replace(weight=np.minimum(rows.weight, heaviest))
        if self.landmarks is None:
            self.X_fit_ = rows.X
            K = self._gram(rows.X)
            self.alpha_ = float(effective_alpha(self.alpha, np.diagonal(K) @ rows.weight))
            coef, slack, _ = ridge(K, R, self.alpha_, rows.weight)
            Phi, features = exact_features(K)
            if not Phi.shape[1]:  # a kernel that is zero everywhere
                Phi = np.zeros((len(R), 1))
                features = FeatureMap(np.zeros(1, dtype=np.intp), np.ones((1, 1)))
            W = Phi.T @ coef
        else:
            Phi, features = self._landmark_features(rows, self.landmarks)
            self.alpha_ = float(effective_alpha(self.alpha, diagonal @ rows.weight))
            W, slack = primal_ridge(Phi, R, self.alpha_, rows.weight)
        unit = float(np.mean(rows.weight))
        weight = rows.weight / unit
        count = np.minimum(rows.weight, 1.0) / unit
        return FirstLayer(Phi, W, R, slack, features, unit, self.alpha_ / unit, weight, count)

    def _coefficient(self, first: FirstLayer) -> float:
        """Coefficient of the second kernel that the fit starts with."""
        if not isinstance(self.theta, str):
            return float(self.theta)
        Y = first.Phi @ first.W
        size = float(first.weight @ np.einsum("it,it->i", Y, Y)) / float(first.weight.sum())
        # Rounded to a power of four: a reach should not depend on a few rows more or less.
        return _REACH / 4.0 ** np.round(np.log2(max(size, 1e-250)) / 2.0)

    def _store_layers(self, first: FirstLayer, W: Array, B: Array, theta: float) -> None:
        coef = first.features.expand(W)
        if self.landmarks is None:
            self.dual_coef_ = np.zeros_like(first.R)
            self.dual_coef_[first.features.pivots] = coef
        else:
            self.dual_coef_ = coef
        self.weights_, self.theta_ = W, theta
        self.responses_, self.second_coef_ = first.Phi @ W, np.ascontiguousarray(B)
        fitted = respond(self.responses_, self.responses_, self.second_coef_, theta)
        share = self.weight_[:, None] * first.R
        self.mean_response_ = np.einsum("it,it->t", share, fitted) / share.sum(axis=0)

    @property
    def second_kernel_(self) -> Array:
        """Second-layer kernel matrix of the training rows, shape (n, n)."""
        return gram(self.responses_, self.responses_, self.theta_)

    def _second_blocks(self, X: Rows) -> Iterator[tuple[slice, Array]]:
        for rows, K in self._kernel_blocks(X):
            Y = K @ self.dual_coef_
            for start in range(0, len(Y), 512):
                part = slice(start, min(start + 512, len(Y)))
                J = gram(Y[part], self.responses_, self.theta_)
                yield slice(rows.start + part.start, rows.start + part.stop), J

    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        response = np.empty(X.shape[0])
        coef = np.ascontiguousarray(self.second_coef_.T)
        for rows, J in self._second_blocks(X):
            response[rows] = np.einsum("ij,ij->i", J, coef[codes[rows]])
        return -np.abs(response - self.mean_response_[codes])

    def _all_scores(self, X: Rows) -> Array:
        scores = np.empty((X.shape[0], len(self.tasks_)))
        for rows, J in self._second_blocks(X):
            scores[rows] = -np.abs(J @ self.second_coef_ - self.mean_response_)
        return scores

    @property
    def _calibrates_by_folds(self) -> bool:
        # The closed form takes the first layer for a ridge regression: true where it is stationary.
        return self.metric == "whitened" or not self.stationary_

    def _set_calibration(self, scores: Array, codes: Codes, weight: Array, source: str) -> None:
        source = self._closed_form if source == "leave-one-out" else source
        found = Calibration.from_scores(scores, codes, weight, len(self.tasks_), source)
        # Responses of the second layer saturate at 0 and 1 for every task: no units to pool in.
        sizes = np.diff(found.starts)
        alone = np.repeat(sizes == 1, sizes) & (found.weight <= 1.0) & (source != "held-out")
        kept = np.flatnonzero(~alone) if not np.all(alone) else np.arange(len(alone))
        kept = kept[np.argsort(found.scores[kept], kind="stable")]
        self.calibration_ = replace(
            found,
            pool_scores=found.scores[kept],
            pool_weight=found.weight[kept],
            spread=np.ones(len(self.tasks_)),
        )
        self._set_offsets()

    def _left_out_scores(self) -> tuple[Array, Codes, Array]:
        normal = ~self.outlier_
        return self.left_out_, self.codes_[normal], self.weight_[normal]


def distinct_folds(
    Y: Array, codes: Codes, normal: NDArray[np.bool_], n_folds: int = CALIBRATION_FOLDS
) -> Codes:
    """Folds cut inside each task, equal rows in the same one; -1 for rows that are not normal.

    Parameters
    ----------
    Y : ndarray of shape (n, T)
        Rows are cut in the order of their responses, so that their order does not matter.
    codes : ndarray of shape (n,)
    normal : ndarray of bool of shape (n,)
    n_folds : int

    Returns
    -------
    ndarray of shape (n,)
    """
    folds = np.full(len(codes), -1)
    for task in np.unique(codes[normal]):
        mine = np.flatnonzero(normal & (codes == task))
        own = Y[mine, task]
        order = np.argsort(own, kind="stable")
        steps = np.diff(own[order]) > 1e-9 * (1.0 + np.abs(own[order][1:]))
        place = np.concatenate([[0], np.cumsum(steps)])
        folds[mine[order]] = place % n_folds
    return folds
