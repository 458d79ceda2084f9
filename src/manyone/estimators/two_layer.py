"""Models whose second layer is a Gaussian kernel over the responses of a first one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from manyone.estimators.responses import ResponseScoring
from manyone.estimators.structured import StructureMixin
from manyone.features import FeatureMap, exact_features
from manyone.kernels import Array, Rows
from manyone.solvers.nonlinear import (
    TwoLayerProblem,
    capped_weight,
    gram,
    respond,
    two_layer_problem,
)
from manyone.solvers.ridge import effective_alpha
from manyone.tasks import Codes, responses
from manyone.validation import TrainingRows


class Problem(NamedTuple):
    """What there is to learn, and where the last fit ended if this one is to go on from there."""

    arrays: TwoLayerProblem
    last: tuple[Array, float] | None

    @property
    def start(self) -> tuple[Array, float]:
        """First layer (m, T) and coefficient of the second kernel to start from."""
        return self.last or (self.arrays.W, self.arrays.theta)


class Layers(NamedTuple):
    """What a subclass has learned: weights (m, T) of the first layer, coefficients (n, T) of the
    second, its kernel coefficient, the objective after each iteration, and their number.
    """

    W: Array
    B: Array
    theta: float
    objective_path: Array
    n_iter: int


class TwoLayerMixin(ResponseScoring, StructureMixin):
    """Everything but the learning of the two layers.

    A single task has no pattern of responses to recognise: its first layer is the ridge solution,
    its score that of the first layer alone, and both are those of :class:`IndependentOCKSR`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StructureMixin._parameter_constraints,
        "theta": [StrOptions({"mean"}), Interval(Real, 0, None, closed="neither")],
        "learn_theta": ["boolean"],
        "anchor": ["boolean"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
    }

    @property
    def _calibration_folds(self) -> int:  # a fit costs more than in the other methods
        return super()._calibration_folds if self._is_single else 5

    theta: str | float
    learn_theta: bool
    anchor: bool
    second_coef_: Array
    centres_: Array
    theta_: float

    @abstractmethod
    def _learn(self, problem: Problem, max_iter: int) -> Layers:
        """Learn both layers; with `max_iter` 0 the second alone."""

    def _fit_rows(self, rows: TrainingRows, *, calibrate: bool = True) -> None:
        # Copies of a row are one row of more weight: iterations would tell them apart.
        merged, first = rows.merged()
        if self.kernel == "precomputed":
            merged = merged._replace(X=merged.X[:, first])
            self.fit_rows_ = self.fit_rows_[first]
        super()._fit_rows(merged, calibrate=calibrate)

    def _solve(self, rows: TrainingRows) -> None:
        problem, features = self._problem(rows)
        with np.errstate(under="ignore"):
            W, B, self.theta_, path, n_iter = self._learn(problem, self._iterations)
        self.n_iter_ = 1 if self._is_single else n_iter
        self.objective_path_ = path * problem.arrays.unit
        coef = features.expand(W)
        if self.landmarks is None:
            self.dual_coef_ = np.zeros((len(rows.codes), len(self.tasks_)))
            self.dual_coef_[features.pivots] = coef
        else:
            self.dual_coef_ = coef
        self.weights_, self.centres_ = W, problem.arrays.Phi @ W
        self.second_coef_ = np.ascontiguousarray(B)
        if not self._is_single:
            fitted = respond(self.responses_, self.centres_, self.second_coef_, self.theta_)
            self.mean_response_ = np.einsum("it,it->t", self._shares(), fitted)

    def _problem(self, rows: TrainingRows) -> tuple[Problem, FeatureMap]:
        """The first layer's ridge solution to start from, and the origin beside the rows."""
        _, self.codes_, self.outlier_, self.weight_ = rows
        T = len(self.tasks_)
        R = responses(rows.codes, rows.outlier, T)
        diagonal = self._gram_diagonal(rows.X)
        weight = capped_weight(rows.weight, diagonal, self.alpha)
        self.alpha_ = float(effective_alpha(self.alpha, diagonal @ weight))
        if self.landmarks is None:
            self.X_fit_ = rows.X
            K = self._gram(rows.X)
            Phi, features = exact_features(K)
            coef = self._ridge(K, R, weight)
            if not Phi.shape[1]:  # a kernel that is zero everywhere
                Phi = np.zeros((len(R), 1))
                features = FeatureMap(np.zeros(1, dtype=np.intp), np.ones((1, 1)))
            W = Phi.T @ coef
        else:
            Phi, features = self._landmark_features(rows, self.landmarks)
            W = self._ridge(Phi, R, weight)
        arrays = two_layer_problem(
            Phi,
            W,
            R,
            weight,
            rows.outlier,
            rows.codes,
            self.alpha_,
            theta=self.theta,
            anchor=self.anchor,
        )
        last = None
        if self._iterations and (started := self._started("weights_", W.shape)) is not None:
            # A theta that was learned belongs to the first layer it came with.
            last = started, self.theta_ if self.learn_theta else arrays.theta
        return Problem(arrays, last), features

    def _shares(self) -> Array:
        """What each row counts for in the mean of its task, shape (n, T)."""
        share = self.weight_[:, None] * responses(self.codes_, self.outlier_, len(self.tasks_))
        return share / share.sum(axis=0)

    @property
    def responses_(self) -> Array:
        """First-layer responses of the training rows, shape (n, T)."""
        return self.centres_[: len(self.codes_)]

    @property
    def second_kernel_(self) -> Array:
        """Second-layer kernel matrix of the training rows, shape (n, n)."""
        return gram(self.responses_, self.responses_, self.theta_)

    def _second_blocks(self, X: Rows) -> Iterator[tuple[slice, Array]]:
        for rows, K in self._kernel_blocks(X):
            Y = K @ self.dual_coef_
            for start in range(0, len(Y), 512):
                part = slice(start, min(start + 512, len(Y)))
                J = gram(Y[part], self.centres_, self.theta_)
                yield slice(rows.start + part.start, rows.start + part.stop), J

    @property
    def _is_single(self) -> bool:
        return len(self.tasks_) == 1

    @property
    def _iterations(self) -> int:
        """How many the first layer may take."""
        return 0 if self._is_single else self.max_iter

    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        if self._is_single:
            return super()._own_scores(X, codes)
        response = np.empty(X.shape[0])
        coef = np.ascontiguousarray(self.second_coef_.T)
        for rows, J in self._second_blocks(X):
            response[rows] = np.einsum("ij,ij->i", J, coef[codes[rows]])
        return -np.abs(response - self.mean_response_[codes])

    def _all_scores(self, X: Rows) -> Array:
        if self._is_single:
            return super()._all_scores(X)
        scores = np.empty((X.shape[0], len(self.tasks_)))
        for rows, J in self._second_blocks(X):
            scores[rows] = -np.abs(J @ self.second_coef_ - self.mean_response_)
        return scores

    def _far_scores(self) -> Array | None:
        if self._is_single or not self.kernel_.unit_diagonal:
            return super()._far_scores()
        nowhere = np.zeros((1, len(self.tasks_)))
        response = respond(nowhere, self.centres_, self.second_coef_, self.theta_)[0]
        return -np.abs(response - self.mean_response_)

    @property
    def _calibrates_by_folds(self) -> bool:
        # Learned layers have seen the rows that a closed form would leave out.
        return super()._calibrates_by_folds or not self._is_single
