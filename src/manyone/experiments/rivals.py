"""What people use today, behind the few methods that the experiments need.

PyOD and scikit-lego are optional: their rivals import them when they are fitted.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from importlib import import_module
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, clone
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

    @abstractmethod
    def _detectors(self) -> list[Any]:
        """The detector of each task, fitted to its rows."""

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
        scores = map(self._training_scores, range(len(self.tasks_)))
        self.offset_ = np.array([np.quantile(mine, alarm_rate) for mine in scores])
        return self

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""
        return np.column_stack([self._scores(X, t) for t in range(len(self.tasks_))])

    def decision_function(self, X: Array, *, task: NDArray[Any]) -> Array:
        """Every row against its own task, (n,); < 0 is an alarm."""
        codes, values = np.searchsorted(self.tasks_, task), np.empty(len(X))
        for t in np.unique(codes):
            values[codes == t] = self._scores(X[codes == t], t) - self.offset_[t]
        return values


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


class PerTaskIsolationForest(Detector):
    """One `IsolationForest` per task."""

    def _detectors(self) -> list[IsolationForest]:
        return [IsolationForest(random_state=0).fit(rows) for rows in self._rows]


class PerTaskLocalOutlierFactor(Detector):
    """One `LocalOutlierFactor` per task, with no more neighbours than it has other rows."""

    def __init__(self, *, n_neighbors: int = 20):
        self.n_neighbors = n_neighbors

    def _detectors(self) -> list[LocalOutlierFactor]:
        most = [max(1, min(self.n_neighbors, len(rows) - 1)) for rows in self._rows]
        models = [LocalOutlierFactor(n_neighbors=number, novelty=True) for number in most]
        return [model.fit(rows) for model, rows in zip(models, self._rows, strict=True)]

    def _training_scores(self, t: int) -> Array:
        return self._models[t].negative_outlier_factor_


class ShrunkMahalanobis:
    r"""Mahalanobis distance with a shrunk covariance.

    .. math:: \Sigma = (1 - s) C'C / n + s \mu I, \qquad \mu = \operatorname{tr}(C'C) / (n d),

    for centred rows C, from the singular vectors of C alone: d x d is never formed.

    Parameters
    ----------
    C : ndarray of shape (n, d)
    shrinkage : float in (0, 1] or "auto"
        s; ``"auto"`` is what Ledoit and Wolf advise.
    """

    def __init__(self, C: Array, shrinkage: float | Literal["auto"] = "auto"):
        n, d = C.shape
        if isinstance(shrinkage, str):
            # Of two rows the rule makes 0: about their mean they agree on the one direction.
            advised = float(ledoit_wolf_shrinkage(C, assume_centered=True))
            shrinkage = advised if advised > 1e-6 else 1e-6
        _, singular, self._directions = np.linalg.svd(C, full_matrices=False)
        # Rows that do not differ have no scale of their own: take 1.
        floor = shrinkage * (float(np.sum(singular**2)) / (n * d) or 1.0)
        self._along = 1.0 / np.sqrt((1.0 - shrinkage) * singular**2 / n + floor)
        # Directions in which the rows do not vary; there are none where n >= d.
        self._across = 1.0 / np.sqrt(floor) if d > len(singular) else 0.0

    def whiten(self, Z: Array) -> Array:
        r""":math:`\Sigma^{-1/2} z` of the rows of Z (m, d), whose length is the distance."""
        change = (Z @ self._directions.T) * (self._along - self._across)
        return self._across * Z + change @ self._directions


class PerTaskMahalanobis(Detector):
    """Distance to the mean of a task, its covariance shrunk ("auto": by Ledoit and Wolf's rule)."""

    def __init__(self, *, shrinkage: float | Literal["auto"] = "auto"):
        self.shrinkage = shrinkage

    def _detectors(self) -> list[ShrunkMahalanobis]:
        return [ShrunkMahalanobis(rows, self.shrinkage) for rows in self._centred_rows()]

    def _centred_rows(self) -> list[Array]:
        self._means = np.stack([rows.mean(axis=0) for rows in self._rows])
        return [rows - mean for rows, mean in zip(self._rows, self._means, strict=True)]

    def _scores(self, X: Array, t: int) -> Array:
        return -np.linalg.norm(self._models[t].whiten(X - self._means[t]), axis=1)


class PooledMahalanobis(PerTaskMahalanobis):
    """The same with one covariance, pooled within the tasks."""

    def _detectors(self) -> list[ShrunkMahalanobis]:
        rows = np.concatenate(self._centred_rows())
        return [ShrunkMahalanobis(rows, self.shrinkage)] * len(self.tasks_)

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T), whitened once for all tasks."""
        shared = self._models[0]
        return -cdist(shared.whiten(X), shared.whiten(self._means))


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
        n, scores = len(self._rows[t]), np.zeros(len(X))
        # Both tails of each column, the row itself counted in; the thinner one counts.
        for column, x in zip(np.sort(self._rows[t], axis=0).T, X.T, strict=True):
            below = np.searchsorted(column, x, side="right")
            above = n - np.searchsorted(column, x, side="left")
            scores += np.log((np.minimum(below, above) + 1.0) / (n + 1.0))
        return scores


class PerTaskKPCA(PyodDetector):
    """One of PyOD's `KPCA` per task: RBF kernel, its width from the rows of all tasks.

    Scores are those of ``decision_function``, which loops over rows.
    """

    def __init__(self, *, width: float = 1.0, n_components: int | None = None):
        self.width = width
        self.n_components = n_components

    def _fit(self, X: Array, codes: NDArray[np.intp]) -> None:
        self._gamma = resolve_kernel("rbf", X, width=self.width).reported_gamma
        super()._fit(X, codes)

    def _detectors(self) -> list[Any]:
        kpca = import_module("pyod.models.kpca").KPCA
        options = {"gamma": self._gamma, "n_components": self.n_components}
        return [kpca(**options).fit(rows) for rows in self._rows]

    def _scores(self, X: Array, t: int) -> Array:
        model = self._models[t].kpca
        near = model.get_kernel(X, self._rows[t]).mean(axis=1)
        found = model.transform(X)
        length = 1.0 - 2.0 * near + model.get_centerer.K_fit_all_
        return np.einsum("ij,ij->i", found, found) - length


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
        if values.ndim == 1:  # two classes share one discriminant
            values = np.column_stack([-values, values]) / 2
        return log_softmax(values, axis=1)  # logarithms of what has underflowed would be ties


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
