"""What is compared: every method of the package and everyday rivals, in two settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from manyone import tune
from manyone.estimators import METHODS
from manyone.experiments.rivals import (
    GroupedOneClassSVM,
    LinearDiscriminants,
    OneVsRestSVC,
    PerTaskECOD,
    PerTaskIsolationForest,
    PerTaskKPCA,
    PerTaskLocalOutlierFactor,
    PerTaskMahalanobis,
    PerTaskOneClassSVM,
    PooledMahalanobis,
    Rival,
)
from manyone._types import Array
from manyone.selection.judging import task_aucs

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
#: Methods whose functions are regressions on the responses, for the sum of squared errors.
REGRESSIONS = ("OCKSR", "C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS")
#: Added to the name of a method in the second setting.
AS_IN_PAPER = " (as in the paper)"

#: What the paper chooses by cross-validation on training data, under our names: the width of the
#: first kernel, and the strengths of each method but the first-layer ridge. Not theta: only its
#: ratio to that ridge matters, and choosing it would choose the ridge that is to be fixed. Not
#: `group`: with it the sparse method alone would take a third of the time of all.
PAPER_GRID: Grid = {
    "width": (0.25, 0.5, 1.0, 2.0),
    "frobenius": (0.01, 0.1),
    "nuclear": (0.0, 0.1),
    "beta": (0.1, 1.0),
    "l1": (0.2, 1.0),
    "nu": (0.02, 0.1, 0.5),
}
_KERNELS = ("rbf", "laplacian", "rbf+laplacian")
# Slow methods get fewer candidates than their own grids have.
_SLOW: dict[str, Grid] = {
    "MORVR": {"kernel": ("rbf", "laplacian"), "width": (0.3, 1.0)},
    "MT-OCSVM": {
        "kernel": _KERNELS,
        "width": (0.3, 1.0),
        "nu": (0.1, 0.5),
        "mu": (10.0, 100.0, 1000.0),
    },
}


class _Entry(NamedTuple):
    """A rival, what is chosen for it, and the optional package that it comes from."""

    model: Rival
    grid: Grid = MappingProxyType({})
    package: str = ""


_SHRINKAGE: Grid = {"shrinkage": (None, 0.1, 0.5, 0.9, 0.99)}
_RIVALS: dict[str, _Entry] = {
    "OneClassSVM": _Entry(
        PerTaskOneClassSVM(),
        {"kernel": _KERNELS, "width": (0.25, 0.5, 1.0, 2.0), "nu": (0.1, 0.5)},
    ),
    "OneClassSVM (defaults)": _Entry(PerTaskOneClassSVM(gamma="scale")),
    "GroupedPredictor (scikit-lego)": _Entry(GroupedOneClassSVM(), package="sklego"),
    "IsolationForest": _Entry(PerTaskIsolationForest()),
    "LocalOutlierFactor": _Entry(PerTaskLocalOutlierFactor(), {"n_neighbors": (2, 5, 10, 20)}),
    "ECOD (PyOD)": _Entry(PerTaskECOD(), package="pyod"),
    "KPCA (PyOD)": _Entry(PerTaskKPCA(), {"width": (0.25, 0.5, 1.0, 2.0)}, "pyod"),
    "Mahalanobis (per task)": _Entry(PerTaskMahalanobis(), _SHRINKAGE),
    "Mahalanobis (pooled)": _Entry(PooledMahalanobis(), _SHRINKAGE),
    "LDA": _Entry(LinearDiscriminants()),
    "SVC (one-vs-rest)": _Entry(
        OneVsRestSVC(),
        {"kernel": _KERNELS, "width": (0.5, 1.0, 2.0), "C": (0.1, 1.0, 10.0)},
    ),
}
_FOLDS = 3
# Half of the tasks are held out as anomalies; two must be left to tell apart.
_FEWEST_TASKS = 4


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
    _fit: Callable[[Array, NDArray[Any], str, bool], Any]

    def fit(
        self, X: Array, task: NDArray[Any], kind: str = "unseen", *, calibrate: bool = True
    ) -> Any:
        """Fit with everything that is chosen chosen on these rows.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        task : ndarray of shape (n,)
        kind : {"unseen", "seen"}
            Anomalies to expect.
        calibrate : bool
            False leaves out the thresholds of the package's methods, which may cost whole refits.

        Returns
        -------
        fitted model
            With ``score_tasks``.
        """
        if kind not in ("unseen", "seen"):
            raise ValueError(f'kind must be "unseen" or "seen"; got {kind!r}.')
        return self._fit(np.asarray(X, dtype=np.float64), np.asarray(task), kind, calibrate)


def methods() -> dict[str, Method]:
    """Every line of the table by its name: the package's methods as they are now, and rivals.

    Rivals whose package is not installed are left out, see `left_out`.
    """
    table = [own(name, "tuned") for name in METHODS]
    table += [own(name, "alpha=1") for name in METHODS if in_paper(name)]
    table += [
        Method(name, name, "tuned", _Chosen(model, grid))
        for name, (model, grid, package) in _RIVALS.items()
        if _installed(package)
    ]
    return {method.name: method for method in table}


def left_out() -> list[str]:
    """Names of the rivals whose package is not installed (extra ``experiments``)."""
    return [name for name, entry in _RIVALS.items() if not _installed(entry.package)]


def _installed(package: str) -> bool:
    return not package or find_spec(package) is not None


def own(family: str, setting: str) -> Method:
    """A method of the package in one setting.

    Parameters
    ----------
    family : str
        Key of :data:`manyone.estimators.METHODS`.
    setting : str
        ``"tuned"``: everything is chosen on training rows. ``"alpha=A"``: RBF kernel, first-layer
        ridge A, the rest chosen (`PAPER_GRID`); with A = 1 this is what the paper did.
    """
    estimator = METHODS[family]()
    if setting == "tuned":
        return Method(family, family, setting, _Tuned(estimator, _SLOW.get(family), None))
    fixed = {
        "kernel": "rbf",
        "alpha": float(setting.removeprefix("alpha=")),
        "anchor": False,  # ours, not the paper's
    }
    known = estimator.get_params()
    estimator.set_params(**{name: value for name, value in fixed.items() if name in known})
    published = setting == "alpha=1" and in_paper(family)
    suffix = AS_IN_PAPER if published else f" ({setting})"
    grid = {name: values for name, values in PAPER_GRID.items() if name in known}
    return Method(family + suffix, family, setting, _Tuned(estimator, grid, "seen"))


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

    def __call__(self, X: Array, task: NDArray[Any], kind: str, calibrate: bool) -> Any:
        criterion = self.criterion or kind
        return tune(
            self.estimator, X, task=task, criterion=criterion, grid=self.grid, calibrate=calibrate
        )


@dataclass(frozen=True)
class _Chosen:
    """Fit the best candidate of a grid, judged by AUC in folds of the training rows."""

    model: Any
    grid: Grid

    def __call__(self, X: Array, task: NDArray[Any], kind: str, calibrate: bool) -> Any:
        settings = [
            dict(zip(self.grid, values, strict=True))
            for values in itertools.product(*self.grid.values())
        ]
        best = settings[0]
        if len(settings) > 1:
            scores = [self._judge(setting, X, task, kind) for setting in settings]
            best = settings[int(np.argmax(scores))]
        return clone(self.model).set_params(**best).fit(X, task=task)

    def _judge(self, setting: dict[str, Any], X: Array, task: NDArray[Any], kind: str) -> float:
        aucs = []
        for train, test in _splits(task, kind):
            model = clone(self.model).set_params(**setting).fit(X[train], task=task[train])
            scores = model.score_tasks(X[test])
            for t, label in enumerate(model.tasks_):
                own = task[test] == label
                # Against strangers, or against the other tasks of the model.
                other = np.isin(task[test], model.tasks_, invert=kind == "unseen") & ~own
                used = own | other
                aucs.append(task_aucs(scores[used][:, [t]], np.where(own[used], 0, -1))[0])
        return float(np.nanmean(aucs))


def _splits(task: NDArray[Any], kind: str) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test rows to judge a candidate by.

    Folds are cut inside the tasks. For ``"unseen"`` one half of the tasks and then the other is
    kept out of training with all its rows, which are the anomalies then.
    """
    labels, codes, counts = np.unique(task, return_inverse=True, return_counts=True)
    if counts.max() < 2:
        raise ValueError("Every task has a single row: there is none to judge a setting by.")
    folds = StratifiedKFold(min(_FOLDS, counts.max()), shuffle=True, random_state=0)
    if kind == "seen":
        yield from folds.split(task, task)
        return
    if len(labels) < _FEWEST_TASKS:
        raise ValueError(
            f'kind="unseen" holds out half of the tasks to judge by and needs at least '
            f'{_FEWEST_TASKS} tasks; got {len(labels)}. Use kind="seen".'
        )
    for half in range(2):
        kept, held = np.flatnonzero(codes % 2 == half), np.flatnonzero(codes % 2 != half)
        for train, test in folds.split(kept, task[kept]):
            yield kept[train], np.concatenate([kept[test], held])
