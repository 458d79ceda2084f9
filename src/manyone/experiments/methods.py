"""What is compared: every method of the package and everyday rivals, in two settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manyone import tune
from manyone._types import Array
from manyone.estimators import METHODS
from manyone.experiments import rivals
from manyone.rows import TrainingRows, row_numbers
from manyone.selection.judging import Split, content_order, fold_splits, task_aucs

Grid = Mapping[str, Sequence[Any]]
Labels = NDArray[Any]
# Rows, their tasks, the kind of anomaly to expect, whether to set thresholds: gives a fitted model.
Fit = Callable[[Array, Labels, str, bool], Any]

_IN_PAPER = ("OCKSR", "C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS", "SVDD", "MORVR")
#: Mean AUC in percent that the paper prints (its Table 1), by data set and method.
PAPER_AUC: dict[str, dict[str, float]] = {
    dataset: dict(zip(_IN_PAPER, aucs, strict=True))
    for dataset, aucs in {
        "mnist": (89.55, 96.91, 97.23, 97.74, 97.39, 89.51, 95.43),
        "coil100": (92.08, 97.32, 97.40, 98.87, 97.95, 93.18, 78.27),
        "face": (97.70, 99.55, 99.71, 99.78, 99.76, 97.69, 97.63),
    }.items()
}
#: Added to the name of a method in the second setting.
AS_IN_PAPER = " (as in the paper)"

_KERNELS = ("rbf", "laplacian", "rbf+laplacian")
_WIDTHS = (0.25, 0.5, 1.0, 2.0)

#: What the paper chooses by cross-validation on training data, under our names: the width of the
#: first kernel, and the strengths of each method but the first-layer ridge. Not theta: only its
#: ratio to that ridge matters, and choosing it would choose the ridge that is to be fixed. Not
#: `group`: with it the sparse method alone would take a third of the time of all.
PAPER_GRID: Grid = {
    "width": _WIDTHS,
    "frobenius": (0.01, 0.1),
    "nuclear": (0.0, 0.1),
    "beta": (0.1, 1.0),
    "l1": (0.2, 1.0),
    "nu": (0.02, 0.1, 0.5),
}


class _Entry(NamedTuple):
    """A rival, what is chosen for it, its optional package, and whether a first look has it."""

    model: rivals.Rival
    grid: Grid = MappingProxyType({})
    package: str = ""
    quick: bool = True


_SHRINKAGE: Grid = {"shrinkage": (None, 0.1, 0.5, 0.9, 0.99)}
_SVM: Grid = {"kernel": _KERNELS, "width": _WIDTHS, "nu": (0.1, 0.5)}
_SVC: Grid = {"kernel": _KERNELS, "width": (0.5, 1.0, 2.0), "C": (0.1, 1.0, 10.0)}
_RIVALS: dict[str, _Entry] = {
    "OneClassSVM": _Entry(rivals.PerTaskOneClassSVM(), _SVM, quick=False),
    "OneClassSVM (defaults)": _Entry(rivals.PerTaskOneClassSVM(gamma="scale")),
    "GroupedPredictor (scikit-lego)": _Entry(
        rivals.GroupedOneClassSVM(), package="sklego", quick=False
    ),
    "IsolationForest": _Entry(rivals.PerTaskIsolationForest()),
    "LocalOutlierFactor": _Entry(
        rivals.PerTaskLocalOutlierFactor(), {"n_neighbors": (2, 5, 10, 20)}
    ),
    "ECOD (PyOD)": _Entry(rivals.PerTaskECOD(), package="pyod"),
    "KPCA (PyOD)": _Entry(rivals.PerTaskKPCA(), {"width": _WIDTHS}, "pyod", quick=False),
    "Mahalanobis (per task)": _Entry(rivals.PerTaskMahalanobis(), _SHRINKAGE),
    "Mahalanobis (pooled)": _Entry(rivals.PooledMahalanobis(), _SHRINKAGE),
    "LDA": _Entry(rivals.LinearDiscriminants()),
    "SVC (one-vs-rest)": _Entry(rivals.OneVsRestSVC(), _SVC),
}
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
    quick, alarms : bool
        Whether a first look has it; whether it sets thresholds that can be tried.
    """

    name: str
    family: str
    setting: str
    quick: bool
    alarms: bool
    _fit: Fit

    def fit(self, X: Array, task: Labels, kind: str = "unseen", *, calibrate: bool = True) -> Any:
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
    missing = left_out()
    for name in [name for name in _RIVALS if name not in missing]:
        model, grid, _, quick = _RIVALS[name]
        alarms = isinstance(model, rivals.Detector)
        table.append(Method(name, name, "tuned", quick, alarms, _chosen(model, grid)))
    return {method.name: method for method in table}


def families() -> list[str]:
    """Names of all methods, those of the package first, rivals installed or not."""
    return [*METHODS, *_RIVALS]


def left_out() -> list[str]:
    """Names of the rivals whose package is not installed (extra ``experiments``)."""
    needed = {name: entry.package for name, entry in _RIVALS.items() if entry.package}
    return [name for name, package in needed.items() if find_spec(package) is None]


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
    estimator, can = METHODS[family](), METHODS[family].can
    if setting == "tuned":
        fit = _tuned(estimator, can.short_grid)
        return Method(family, family, setting, can.quick, True, fit)
    # The anchor is ours, not the paper's.
    fixed = {"kernel": "rbf", "alpha": float(setting.removeprefix("alpha=")), "anchor": False}
    known = estimator.get_params()
    estimator.set_params(**{name: value for name, value in fixed.items() if name in known})
    published = setting == "alpha=1" and in_paper(family)
    name = family + (AS_IN_PAPER if published else f" ({setting})")
    grid = {name: values for name, values in PAPER_GRID.items() if name in known}
    return Method(name, family, setting, True, True, _tuned(estimator, grid, "seen"))


def in_paper(family: str) -> bool:
    """Whether the paper's table has a method."""
    return any(family in column for column in PAPER_AUC.values())


def has_ridge(family: str) -> bool:
    """Whether a method of the package has a first-layer ridge."""
    return "alpha" in METHODS[family]().get_params()


def _tuned(estimator: Any, grid: Grid | None, criterion: str | None = None) -> Fit:
    """Fit after `tune`; None stands for the estimator's own grid and the anomalies to expect."""

    def fit(X: Array, task: Labels, kind: str, calibrate: bool) -> Any:
        wanted = criterion or kind
        return tune(estimator, X, task=task, criterion=wanted, grid=grid, calibrate=calibrate)

    return fit


def _chosen(rival: Any, grid: Grid) -> Fit:
    """Fit the best candidate of a grid, judged by AUC in folds of the training rows."""

    def fit(X: Array, task: Labels, kind: str, calibrate: bool) -> Any:
        settings = (zip(grid, values, strict=True) for values in product(*grid.values()))
        best, *others = [clone(rival).set_params(**dict(setting)) for setting in settings]
        if others:
            splits = _splits(X, task, kind)
            best = max([best, *others], key=lambda model: _judged(model, X, task, kind, splits))
        return best.fit(X, task=task)

    return fit


def _judged(rival: Any, X: Array, task: Labels, kind: str, splits: Sequence[Split]) -> float:
    """Mean AUC over splits and tasks."""
    aucs = []
    for train, test, enrolled in splits:
        model = clone(rival).fit(X[train], task=task[train])
        scores = model.score_tasks(X[test])
        # Rows of the other tasks of the model are negatives, or rows of the tasks beside it.
        negative = enrolled[test] == (kind == "seen")
        for t, label in enumerate(model.tasks_):
            own = task[test] == label
            used = own | negative
            aucs.append(task_aucs(scores[used][:, [t]], np.where(own[used], 0, -1))[0])
    return float(np.nanmean(aucs))


def _splits(X: Array, task: Labels, kind: str) -> list[Split]:
    """Splits to judge a candidate by: the same as for the methods of the package."""
    labels, codes, counts = np.unique(task, return_inverse=True, return_counts=True)
    if counts.max() < 2:
        raise ValueError("Every task has a single row: there is none to judge a setting by.")
    if kind == "unseen" and len(labels) < _FEWEST_TASKS:
        raise ValueError(
            f'kind="unseen" holds out half of the tasks to judge by and needs at least '
            f'{_FEWEST_TASKS} tasks; got {len(labels)}. Use kind="seen".'
        )
    # As the package does: rows and tasks in the order of their content, whatever they are called.
    content, normal = row_numbers(X), np.zeros(len(codes), dtype=bool)
    order = np.lexsort((content, codes))
    rows = TrainingRows(X, codes, normal, np.ones(len(codes)), content, len(labels)).take(order)
    splits = fold_splits(rows.codes, rows.outlier, kind, task_order=content_order(rows))
    back = np.argsort(order)
    return [Split(*(mask[back] for mask in split)) for split in splits]
