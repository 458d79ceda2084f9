"""What the methods that learn a structure by iterations have in common."""

from __future__ import annotations

import sys
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from manyone.estimators.base import MultiTaskOneClass
from manyone.features import FeatureMap, landmark_features
from manyone.kernels import Array
from manyone.solvers.ridge import leave_one_out_scores, primal_ridge, ridge
from manyone.solvers.running import Report
from manyone.tasks import Codes
from manyone.validation import TrainingRows


class StructureMixin(MultiTaskOneClass):
    """Landmarks, warm starts, progress, and the model where there is no structure to learn."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultiTaskOneClass._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }
    #: What the calibration is called where a closed form holds the learned structure fixed.
    _closed_form = "leave-one-out, structure fixed"

    alpha: float
    alpha_: float
    tol: float
    max_iter: int
    landmarks: int | None
    random_state: Any
    warm_start: bool
    verbose: int

    def _landmark_features(self, rows: TrainingRows, number: int) -> tuple[Array, FeatureMap]:
        if self.kernel == "precomputed":
            raise ValueError(
                f"landmarks={number} needs rows to evaluate the kernel on; with "
                'kernel="precomputed" use landmarks=None.'
            )
        rng = check_random_state(self.random_state)
        Phi, features = landmark_features(self.kernel_, rows.X, number, rng)
        self.X_fit_ = rows.X[features.pivots]
        return Phi, features

    def _ridge(self, basis: Array, R: Array, weight: Array) -> Array:
        """Coefficients without a structure, those of :class:`JointOCKSR`, and their thresholds.

        `basis` is the kernel matrix or, with landmarks, their features; it may be destroyed.
        """
        if self.landmarks is None:
            coef, slack, _ = ridge(basis, R, self.alpha_, weight, overwrite=True)
            residuals = coef * (self.alpha_ / weight)[:, None]
        else:
            coef, slack = primal_ridge(basis, R, self.alpha_, weight)
            residuals = R - basis @ coef
        normal = np.flatnonzero(~self.outlier_)
        codes = self.codes_[normal]
        residual = residuals[normal, codes]
        scores = leave_one_out_scores(residual, slack[normal], weight[normal], codes, R.shape[1])
        self._keep_left_out(scores, residual)
        return coef

    def _keep_left_out(self, scores: Array, residual: Array) -> None:
        """Left-out scores of the normal rows, and where their residuals put each task's mean."""
        normal = ~self.outlier_
        codes, weight, T = self.codes_[normal], self.weight_[normal], len(self.tasks_)
        self.left_out_ = scores
        lack = np.bincount(codes, weight * residual, T)
        self.mean_response_ = 1.0 - lack / np.bincount(codes, weight, T)

    def _left_out_scores(self) -> tuple[Array, Codes, Array]:
        normal = ~self.outlier_
        return self.left_out_, self.codes_[normal], self.weight_[normal]

    def _started(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """The last fit's array to start from, if there is one that fits and it is wanted."""
        if not self.warm_start or not hasattr(self, name):
            return None
        last: Array = getattr(self, name)
        usable = last.shape == shape and np.any(last) and np.all(np.isfinite(last))
        return last.copy() if usable else None

    def _progress(self) -> Report | None:
        if not self.verbose:
            return None
        name = type(self).__name__

        def show(iteration: int, objective: float) -> None:
            if iteration % (1 if self.verbose > 1 else 10) == 0:
                print(f"{name}: iteration {iteration}, objective {objective:.8g}", file=sys.stderr)

        return show

    def _warn_unless(self, converged: bool) -> None:
        if not converged:
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter={self.max_iter} iterations before "
                f"tol={self.tol:g} was reached. Increase max_iter, or tol if this is good enough.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _set_calibration(self, scores: Array, codes: Codes, weight: Array, source: str) -> None:
        if source == "leave-one-out" and len(self.tasks_) > 1:
            source = self._closed_form
        super()._set_calibration(scores, codes, weight, source)
