"""What is compared: every method of the package and everyday rivals, in two settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from manyone import tune
from manyone.estimators import METHODS
from manyone.experiments.rivals import (
    OneVsRestSVC,
    PerTaskIsolationForest,
    PerTaskOneClassSVM,
    PooledMahalanobis,
)
from manyone.kernels import Array
from manyone.metrics import task_aucs

Grid = Mapping[str, Sequence[Any]]

#: Mean AUC in percent that the paper prints (its Table 1).
PAPER_AUC: dict[str, dict[str, float]] = {
    "mnist": {
        "OCKSR": 89.55,
        "C-OCKSR": 96.91,
        "OCKSR-L": 97.23,
        "OCKSR-N": 97.74,
        "OCKSR-NS": 97.39,
        "SVDD": 89.51,
        "MORVR": 95.43,
    },
    "coil100": {
        "OCKSR": 92.08,
        "C-OCKSR": 97.32,
        "OCKSR-L": 97.40,
        "OCKSR-N": 98.87,
        "OCKSR-NS": 97.95,
        "SVDD": 93.18,
        "MORVR": 78.27,
    },
    "face": {
        "OCKSR": 97.70,
        "C-OCKSR": 99.55,
        "OCKSR-L": 99.71,
        "OCKSR-N": 99.78,
        "OCKSR-NS": 99.76,
        "SVDD": 97.69,
        "MORVR": 97.63,
    },
}
#: Added to the name of a method in the second setting.
AS_IN_PAPER = " (as in the paper)"

# The paper fixes the ridge and chooses the rest on training data: here, the width of its kernel.
_PAPER_GRID: Grid = {"width": (0.25, 0.5, 1.0, 2.0)}
_RIVALS: dict[str, tuple[Any, Grid]] = {
    "OneClassSVM": (
        PerTaskOneClassSVM(),
        {
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.25, 0.5, 1.0, 2.0),
            "nu": (0.1, 0.5),
        },
    ),
    "OneClassSVM (defaults)": (PerTaskOneClassSVM(gamma="scale"), {}),
    "IsolationForest": (PerTaskIsolationForest(), {}),
    "Mahalanobis (pooled)": (PooledMahalanobis(), {}),
    "SVC (one-vs-rest)": (
        OneVsRestSVC(),
        {
            "kernel": ("rbf", "laplacian", "rbf+laplacian"),
            "width": (0.5, 1.0, 2.0),
            "C": (0.1, 1.0, 10.0),
        },
    ),
}
_FOLDS = 3


@dataclass(frozen=True)
class Method:
    """One line of the table.

    Attributes
    ----------
    name : str
        As it is written in the table.
    family : str
        The paper's name of the method, the same for both settings.
    setting : str
        ``"tuned"``, or ``"alpha=..."`` where the ridge is fixed.
    """

    name: str
    family: str
    setting: str
    _fit: Callable[[Array, NDArray[Any], str], Any]

    def fit(self, X: Array, task: NDArray[Any], kind: str = "unseen") -> Any:
        """Fit with everything that is chosen chosen on these rows.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        task : ndarray of shape (n,)
        kind : {"unseen", "seen"}
            Anomalies to expect.

        Returns
        -------
        fitted model
            With ``score_tasks``.
        """
        return self._fit(X, task, kind)


def methods() -> dict[str, Method]:
    """Every line of the table by its name: the package's methods as they are now, and rivals."""
    table = [own(name, "tuned") for name in METHODS]
    table += [own(name, "alpha=1") for name in METHODS if in_paper(name)]
    table += [
        Method(name, name, "tuned", _Chosen(model, grid)) for name, (model, grid) in _RIVALS.items()
    ]
    return {method.name: method for method in table}


def own(family: str, setting: str) -> Method:
    """A method of the package in one setting.

    Parameters
    ----------
    family : str
        Key of :data:`manyone.estimators.METHODS`.
    setting : str
        ``"tuned"``: everything is chosen on training rows. ``"alpha=A"``: RBF kernel, first-layer
        ridge A, the rest chosen; with A = 1 this is what the paper did.
    """
    estimator = METHODS[family]()
    if setting == "tuned":
        return Method(family, family, setting, _Tuned(estimator, None, None))
    fixed = {"kernel": "rbf", "alpha": float(setting.removeprefix("alpha="))}
    known = estimator.get_params()
    estimator.set_params(**{name: value for name, value in fixed.items() if name in known})
    suffix = AS_IN_PAPER if setting == "alpha=1" else f" ({setting})"
    return Method(family + suffix, family, setting, _Tuned(estimator, _PAPER_GRID, "seen"))


def in_paper(family: str) -> bool:
    """Whether the paper's table has a method."""
    return any(family in column for column in PAPER_AUC.values())


def has_ridge(family: str) -> bool:
    """Whether a method of the package has a first-layer ridge."""
    return "alpha" in METHODS[family]().get_params()


@dataclass(frozen=True)
class _Tuned:
    """Fit an estimator of the package after `tune`."""

    estimator: Any
    grid: Grid | None  # None: the estimator's own
    criterion: str | None  # None: the kind of anomaly to expect

    def __call__(self, X: Array, task: NDArray[Any], kind: str) -> Any:
        criterion = self.criterion or kind
        return tune(self.estimator, X, task=task, criterion=criterion, grid=self.grid)


@dataclass(frozen=True)
class _Chosen:
    """Fit the best candidate of a grid, judged by AUC in folds of the training rows."""

    model: Any
    grid: Grid

    def __call__(self, X: Array, task: NDArray[Any], kind: str) -> Any:
        settings = [
            dict(zip(self.grid, values, strict=True))
            for values in itertools.product(*self.grid.values())
        ]
        best = settings[0]
        if len(settings) > 1:
            scores = [self._judge(setting, X, task) for setting in settings]
            best = settings[int(np.argmax(scores))]
        return clone(self.model).set_params(**best).fit(X, task=task)

    def _judge(self, setting: dict[str, Any], X: Array, task: NDArray[Any]) -> float:
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
        aucs = []
        for train, test in folds.split(X, task):
            model = clone(self.model).set_params(**setting).fit(X[train], task=task[train])
            codes = np.searchsorted(model.tasks_, task[test])
            aucs.append(np.nanmean(task_aucs(model.score_tasks(X[test]), codes)))
        return float(np.mean(aucs))
