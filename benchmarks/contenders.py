"""Contenders of benchmarks: our methods, rivals, and the bare arithmetic by hand.

Other scripts import this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.linalg import blas
from sklearn.ensemble import IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, SGDOneClassSVM
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM

from manyone._types import Array, Codes, Mask
from manyone.datasets import make_fleet
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.joint import JointOCKSR
from manyone.selection.criteria import own_aucs


class Data(NamedTuple):
    """Training rows, and test rows with anomalies among them."""

    X: Array
    task: Codes
    X_test: Array
    task_test: Codes
    outlier: Mask


class Regressor(Protocol):
    """What is fitted to one-hot responses."""

    def fit(self, X: Array, y: Array) -> Self:
        """Fit."""

    def predict(self, X: Array) -> Array:
        """Responses (n, T)."""


class OneClass(Protocol):
    """What is fitted to the rows of one task."""

    def fit(self, X: Array) -> Self:
        """Fit."""

    def decision_function(self, X: Array) -> Array:
        """Scores (n,)."""


#: Takes data and a number of landmarks, fits, and scores the test rows; the floor
#: returns None.
Contender = Callable[[Data, int], Array | None]


def fleet(n_rows: int, n_tasks: int, n_features: int) -> Data:
    """Machines with faults of their own and readings of others among the test rows."""
    machines = make_fleet(
        n_tasks,
        -(-n_rows // n_tasks),
        n_features,
        n_test=max(8, 800 // n_tasks),
        random_state=0,
    )
    scale = machines.data.std(axis=0)
    return Data(
        machines.data / scale,
        np.unique(machines.task, return_inverse=True)[1],
        machines.test_data / scale,
        np.unique(machines.test_task, return_inverse=True)[1],
        machines.test_fault,
    )


def task_auc(data: Data, scores: Array) -> float:
    """Mean area under the curve over the tasks that have test rows of both kinds."""
    n_tasks = int(data.task_test.max()) + 1
    return float(np.nanmean(own_aucs(scores, data.task_test, data.outlier, n_tasks)))


def ours(data: Data, landmarks: int) -> Array:
    """`JointOCKSR` with thresholds."""
    model = JointOCKSR(landmarks=landmarks, random_state=0).fit(data.X, task=data.task)
    return model.score_samples(data.X_test, task=data.task_test)


def independent(data: Data, landmarks: int) -> Array:
    """`IndependentOCKSR` with thresholds; it has no landmarks."""
    model = IndependentOCKSR(kernel="laplacian", width=3.0, metric="whitened")
    model.fit(data.X, task=data.task)
    return model.score_samples(data.X_test, task=data.task_test)


def floor(data: Data, landmarks: int) -> None:
    """Two passes of kernel blocks, a dsyrk and a triangular solve for each."""
    X = data.X
    Z = X[:landmarks]
    gamma = _gamma(X)
    right = np.column_stack(
        [2 * gamma * Z, np.full(len(Z), -gamma), -gamma * (Z**2).sum(axis=1)]
    )

    def kernel(rows: Array) -> Array:
        left = np.column_stack([rows, (rows**2).sum(axis=1), np.ones(len(rows))])
        values = np.minimum(left @ right.T, 0.0)
        return np.exp(values, out=values)

    G = np.zeros((len(Z), len(Z)), order="F")
    L = np.asfortranarray(np.linalg.cholesky(kernel(Z) + 1e-6 * np.eye(len(Z))))
    starts = range(0, len(X), 2048)
    for start in starts:
        block = kernel(X[start : start + 2048])
        G = blas.dsyrk(1.0, block.T, beta=1.0, c=G, lower=1, overwrite_c=1)
    for start in starts:
        block = kernel(X[start : start + 2048])
        blas.dtrsm(1.0, L, block.T, lower=1, overwrite_b=1)


def nystroem_ridge(data: Data, landmarks: int) -> Array:
    """scikit-learn's landmarks and ridge on one-hot responses."""
    features = Nystroem(gamma=_gamma(data.X), n_components=landmarks, random_state=0)
    model = make_pipeline(features, Ridge(alpha=0.1, fit_intercept=False))
    return _own_responses(model, data)


def himalaya_ridge(data: Data, landmarks: int) -> Array:
    """Himalaya's kernel ridge on one-hot responses, all rows."""
    from himalaya.kernel_ridge import KernelRidge

    model = KernelRidge(
        alpha=0.1, kernel="rbf", kernel_params={"gamma": _gamma(data.X)}
    )
    return _own_responses(model, data)


def _gamma(X: Array) -> float:
    """Coefficient of an RBF kernel: one over the mean squared distance of two rows."""
    return float(1.0 / (2.0 * X.var(axis=0).sum()))


def _own_responses(model: Regressor, data: Data) -> Array:
    """Fit to one-hot responses; the response of each test row for its own task."""
    model.fit(data.X, np.eye(data.task.max() + 1)[data.task])
    return np.asarray(
        model.predict(data.X_test)[np.arange(len(data.X_test)), data.task_test]
    )


def each_task(make: Callable[[int], OneClass]) -> Contender:
    """One model for each task; `make` takes the number of landmarks."""

    def fit_and_score(data: Data, landmarks: int) -> Array:
        scores = np.empty(len(data.X_test))
        order = np.argsort(data.task, kind="stable")
        groups = np.split(data.X[order], np.flatnonzero(np.diff(data.task[order])) + 1)
        for task, rows in enumerate(groups):
            tested = np.flatnonzero(data.task_test == task)
            model = make(landmarks).fit(rows)
            scores[tested] = model.decision_function(data.X_test[tested])
        return scores

    return fit_and_score


def _sgd(landmarks: int) -> OneClass:
    features = Nystroem(n_components=min(landmarks, 20), random_state=0)
    return make_pipeline(features, SGDOneClassSVM(nu=0.1, random_state=0))


def pyod_ecod(data: Data, landmarks: int) -> Array:
    """PyOD's parameter-free detector for each task; scores grow with abnormality."""
    from pyod.models.ecod import ECOD

    return -np.asarray(each_task(lambda _: ECOD())(data, landmarks))


OURS = "JointOCKSR"
FLOOR = "bare arithmetic"
CONTENDERS: dict[str, Contender] = {
    OURS: ours,
    FLOOR: floor,
    "IndependentOCKSR": independent,
    "Nystroem + Ridge": nystroem_ridge,
    "OneClassSVM per task": each_task(lambda _: OneClassSVM(nu=0.1)),
    "IsolationForest per task": each_task(lambda _: IsolationForest(random_state=0)),
    "Nystroem + SGDOneClassSVM per task": each_task(_sgd),
    "PyOD ECOD per task": pyod_ecod,
    "himalaya KernelRidge": himalaya_ridge,
}
