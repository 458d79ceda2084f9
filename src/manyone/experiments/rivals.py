"""What people use today, behind the few methods that the experiments need.

PyOD and scikit-lego are optional: their rivals import them when they are fitted.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import SVC, OneClassSVM

from manyone._types import Array
from manyone.kernels import resolve_kernel


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


class Detector(Rival):
    """One detector per task, each with a threshold of its own."""

    offset_: Array
    _rows: list[Array]
    _models: list[Any]

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._rows = [X[codes == t] for t in range(len(self.tasks_))]
        self._models = self._detectors()

    def _detectors(self) -> list[Any]:
        return [self._detector(rows) for rows in self._rows]

    @abstractmethod
    def _detector(self, rows: Array) -> Any:
        """The detector of a task, fitted to its rows (n, d)."""

    def _scores(self, X: Array, t: int) -> Array:
        """Rows against one task, (n,)."""
        return self._models[t].score_samples(X)

    def _training_scores(self, t: int) -> Array:
        """Scores of the rows of a task that the detector itself sets its threshold on."""
        return self._scores(self._rows[t], t)

    def recalibrate(self, alarm_rate: float) -> Self:
        """Set thresholds as ``contamination=alarm_rate`` does: a quantile of training scores.

        So do the detectors of scikit-learn and of PyOD.
        """
        self.offset_ = np.array(
            [np.quantile(self._training_scores(t), alarm_rate) for t in range(len(self.tasks_))]
        )
        return self

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


class PerTaskOneClassSVM(Detector):
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
        self._rows = [X[codes == t] for t in range(len(self.tasks_))]
        self.recalibrate(self.nu)

    def _detector(self, rows: Array) -> OneClassSVM:
        return OneClassSVM(kernel="precomputed", nu=self._nu).fit(self._kernel.gram(rows))

    def recalibrate(self, alarm_rate: float) -> Self:
        """Refit with another `nu`, which is meant to be the share of false alarms."""
        self._nu = alarm_rate
        self._models = self._detectors()
        self.offset_ = np.array([model.offset_[0] for model in self._models])
        return self

    def _scores(self, X: Array, t: int) -> Array:
        return self._models[t].score_samples(self._kernel(X, self._rows[t]))


class GroupedOneClassSVM(Detector):
    """scikit-lego's `GroupedPredictor` around a `OneClassSVM` with its defaults."""

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        # The groups are a column beside the features.
        self._table = np.column_stack([codes, X])
        self.recalibrate(OneClassSVM().nu)

    def _detector(self, rows: Array) -> Any:
        grouped = import_module("sklego.meta").GroupedPredictor
        return grouped(OneClassSVM(nu=self._nu), groups=[0]).fit(rows)

    def recalibrate(self, alarm_rate: float) -> Self:
        """Refit with another `nu`, which is meant to be the share of false alarms."""
        self._nu = alarm_rate
        groups = self._detector(self._table).estimators_
        self._models = [groups[t] for t in range(len(self.tasks_))]
        self.offset_ = np.array([model.offset_[0] for model in self._models])
        return self


class PerTaskIsolationForest(Detector):
    """One `IsolationForest` per task."""

    def _detector(self, rows: Array) -> IsolationForest:
        return IsolationForest(random_state=0).fit(rows)


class PerTaskLocalOutlierFactor(Detector):
    """One `LocalOutlierFactor` per task, with no more neighbours than it has other rows."""

    def __init__(self, *, n_neighbors: int = 20):
        self.n_neighbors = n_neighbors

    def _detector(self, rows: Array) -> LocalOutlierFactor:
        neighbors = max(1, min(self.n_neighbors, len(rows) - 1))
        return LocalOutlierFactor(n_neighbors=neighbors, novelty=True).fit(rows)

    def _training_scores(self, t: int) -> Array:
        return self._models[t].negative_outlier_factor_


class ShrunkMahalanobis:
    r"""Mahalanobis distance with a shrunk covariance.

    .. math:: \Sigma = (1 - s) C'C / n + s \mu I, \qquad \mu = \operatorname{tr}(C'C) / (n d),

    for centred rows C, from the singular vectors of C alone: d x d is never formed.

    Parameters
    ----------
    C : ndarray of shape (n, d)
    shrinkage : float in (0, 1] or None
        s; None is what Ledoit and Wolf advise.
    """

    def __init__(self, C: Array, shrinkage: float | None = None):
        n, d = C.shape
        if shrinkage is None:
            # Of two rows the rule makes 0: about their mean they agree on the one direction.
            shrinkage = max(float(ledoit_wolf_shrinkage(C, assume_centered=True)), 1e-6)
        _, singular, self._directions = np.linalg.svd(C, full_matrices=False)
        # Rows that do not differ have no scale of their own: take 1.
        floor = shrinkage * (float(np.sum(singular**2)) / (n * d) or 1.0)
        self._along = 1.0 / ((1.0 - shrinkage) * singular**2 / n + floor)
        # Directions in which the rows do not vary; there are none where n >= d.
        self._across = 1.0 / floor if d > len(singular) else 0.0

    def __call__(self, Z: Array) -> Array:
        """Lengths of the rows of Z (m, d), shape (m,)."""
        parts = (Z @ self._directions.T) ** 2
        rest = np.maximum(np.einsum("ij,ij->i", Z, Z) - parts.sum(axis=1), 0.0)
        return np.sqrt(parts @ self._along + rest * self._across)

    def solve(self, Z: Array) -> Array:
        r""":math:`\Sigma^{-1} z` of the rows of Z (m, d), shape (m, d)."""
        change = (Z @ self._directions.T) * (self._along - self._across)
        return self._across * Z + change @ self._directions


class PerTaskMahalanobis(Detector):
    """Distance to the mean of a task, its covariance shrunk (None: by Ledoit and Wolf's rule)."""

    def __init__(self, *, shrinkage: float | None = None):
        self.shrinkage = shrinkage

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._means = np.stack([X[codes == t].mean(axis=0) for t in range(len(self.tasks_))])
        super()._fit(X - self._means[codes], codes)

    def _detector(self, rows: Array) -> ShrunkMahalanobis:
        return ShrunkMahalanobis(rows, self.shrinkage)

    def _scores(self, X: Array, t: int) -> Array:
        return -self._models[t](X - self._means[t])

    def _training_scores(self, t: int) -> Array:
        return -self._models[t](self._rows[t])


class PooledMahalanobis(PerTaskMahalanobis):
    """The same with one covariance, pooled within the tasks."""

    def _detectors(self) -> list[Any]:
        return [self._detector(np.concatenate(self._rows))] * len(self.tasks_)

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T): squares multiplied out, all tasks at once."""
        shared = self._models[0]
        centre = self._means.mean(axis=0)  # between the tasks little cancels
        X, means = X - centre, self._means - centre
        turned = shared.solve(means)
        squares = np.square(shared(X))[:, None] - 2.0 * X @ turned.T
        return -np.sqrt(np.maximum(squares + np.einsum("ij,ij->i", means, turned), 0.0))


class PerTaskECOD(Detector):
    """One of PyOD's `ECOD` per task.

    PyOD compares a row with the training rows *and all rows that are scored with it*. Here each
    row is scored by itself, all in one array: what ``decision_function`` says of it alone.
    """

    def _detector(self, rows: Array) -> Any:
        return import_module("pyod.models.ecod").ECOD().fit(rows)

    def _scores(self, X: Array, t: int) -> Array:
        n, scores = len(self._rows[t]), np.zeros(len(X))
        # Both tails of each column, the row itself counted in; the thinner one counts.
        for column, x in zip(np.sort(self._rows[t], axis=0).T, X.T, strict=True):
            below = np.searchsorted(column, x, side="right")
            above = n - np.searchsorted(column, x, side="left")
            scores += np.log((np.minimum(below, above) + 1.0) / (n + 1.0))
        return scores

    def _training_scores(self, t: int) -> Array:
        return -self._models[t].decision_scores_


class PerTaskKPCA(Detector):
    """One of PyOD's `KPCA` per task: RBF kernel, its width from the rows of all tasks.

    Scores are those of ``decision_function``, which loops over rows.
    """

    def __init__(self, *, width: float = 1.0, n_components: int | None = None):
        self.width = width
        self.n_components = n_components

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._gamma = resolve_kernel("rbf", X, width=self.width).reported_gamma
        super()._fit(X, codes)

    def _detector(self, rows: Array) -> Any:
        kpca = import_module("pyod.models.kpca").KPCA
        return kpca(gamma=self._gamma, n_components=self.n_components).fit(rows)

    def _scores(self, X: Array, t: int) -> Array:
        model = self._models[t].kpca
        near = model.get_kernel(X, self._rows[t]).mean(axis=1)
        found = model.transform(X)
        length = 1.0 - 2.0 * near + model.get_centerer.K_fit_all_
        return np.einsum("ij,ij->i", found, found) - length

    def _training_scores(self, t: int) -> Array:
        return -self._models[t].decision_scores_


class LinearDiscriminants(Rival):
    """`LinearDiscriminantAnalysis`, covariance shrunk; scores are log probabilities of the tasks.

    They rank rows far better than the bare discriminants do, of which a task in the middle of the
    others has none of its own.
    """

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X, codes)

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        values = self._model.decision_function(X)
        # Two classes share one discriminant. Logarithms of what has underflowed would be ties.
        return log_softmax(
            values if values.ndim == 2 else np.column_stack([-values, values]) / 2, axis=1
        )


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
