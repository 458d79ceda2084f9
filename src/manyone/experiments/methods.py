"""What is compared: every method of the package and everyday rivals, in two settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manyone import tune
from manyone._types import Array
from manyone.estimators import METHODS
from manyone.experiments import rivals
from manyone.experiments.protocols import NEGATIVE, POSITIVE, UNUSED, member_aucs
from manyone.rows import training_rows
from manyone.selection.judging import Split, content_order, fold_splits

Grid = Mapping[str, Sequence[Any]]
Labels = NDArray[Any]

_TABLES = tomllib.loads(Path(__file__).with_name("methods.toml").read_text(encoding="utf-8"))
#: Mean AUC in percent that the paper prints (its Table 1), by data set and method.
PAPER_AUC: dict[str, dict[str, float]] = _TABLES["paper_auc"]
#: Added to the name of a method in the second setting.
AS_IN_PAPER = " (as in the paper)"
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
    model : estimator
        Not fitted.
    grid : dict or None
        What is chosen on training rows; None is the estimator's own grid.
    quick, alarms : bool
        Whether a first look has it; whether it sets thresholds that can be tried.
    criterion : str or None
        Anomalies that a method of the package is chosen for; None: those to expect.
    package : str
        Must be installed.
    """

    name: str
    family: str
    setting: str
    model: Any
    grid: Grid | None = None
    quick: bool = True
    alarms: bool = True
    criterion: str | None = None
    package: str = ""

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
        X, task = np.asarray(X, dtype=np.float64), np.asarray(task)
        if not isinstance(self.model, rivals.Rival):
            goal = self.criterion or kind
            return tune(
                self.model, X, task=task, criterion=goal, grid=self.grid, calibrate=calibrate
            )
        return _chosen(self.model, self.grid or {}, X, task, kind).fit(X, task=task)


def _rival(name: str, model: str, fixed: Mapping[str, Any] | None = None, **entry: Any) -> Method:
    """A rival as ``methods.toml`` has it, which says what each entry means."""
    made = getattr(rivals, model)(**fixed or {})
    return Method(name, name, "tuned", made, alarms=isinstance(made, rivals.Detector), **entry)


_RIVALS = {name: _rival(name, **entry) for name, entry in _TABLES["rivals"].items()}


def methods() -> dict[str, Method]:
    """Every line of the table by its name: the package's methods as they are now, and rivals.

    Rivals whose package is not installed are left out, see `left_out`.
    """
    table = [own(name, "tuned") for name in METHODS]
    table += [own(name, "alpha=1") for name in METHODS if in_paper(name)]
    missing = left_out()
    table += [rival for name, rival in _RIVALS.items() if name not in missing]
    return {method.name: method for method in table}


def families() -> list[str]:
    """Names of all methods, those of the package first, rivals installed or not."""
    return [*METHODS, *_RIVALS]


def ours(method: str) -> bool:
    """Whether a method of the table, by its name, is of this package."""
    return method.partition(" (")[0] in (*METHODS, "auto")


def left_out() -> list[str]:
    """Names of the rivals whose package is not installed (extra ``experiments``)."""
    return not_installed({name: rival.package for name, rival in _RIVALS.items()})


def not_installed(packages: Mapping[str, str]) -> list[str]:
    """Names of what needs a package (if any) that is not there."""
    return [name for name, needed in packages.items() if needed and find_spec(needed) is None]


def own(family: str, setting: str) -> Method:
    """A method of the package in one setting.

    Parameters
    ----------
    family : str
        Key of :data:`manyone.estimators.METHODS`.
    setting : str
        ``"tuned"``: everything is chosen on training rows. ``"alpha=A"``: RBF kernel, first-layer
        ridge A, the rest chosen (``paper_grid`` in ``methods.toml``); with A = 1 this is what the
        paper did.
    """
    estimator, can = METHODS[family](), METHODS[family].can
    if setting == "tuned":
        return Method(family, family, setting, estimator, can.short_grid, can.quick)
    # The anchor is ours, not the paper's.
    fixed = {"kernel": "rbf", "alpha": float(setting.removeprefix("alpha=")), "anchor": False}
    known = estimator.get_params()
    estimator.set_params(**{name: value for name, value in fixed.items() if name in known})
    published = setting == "alpha=1" and in_paper(family)
    name = family + (AS_IN_PAPER if published else f" ({setting})")
    grid = {name: values for name, values in _TABLES["paper_grid"].items() if name in known}
    return Method(name, family, setting, estimator, grid, criterion="seen")


def in_paper(family: str) -> bool:
    """Whether the paper's table has a method."""
    return any(family in column for column in PAPER_AUC.values())


def has_ridge(family: str) -> bool:
    """Whether a method of the package has a first-layer ridge."""
    return "alpha" in METHODS[family]().get_params()


def _chosen(rival: Any, grid: Grid, X: Array, task: Labels, kind: str) -> Any:
    """The best candidate of a grid, judged by AUC in folds of the training rows; not fitted."""
    settings = (zip(grid, values, strict=True) for values in product(*grid.values()))
    best, *others = [clone(rival).set_params(**dict(setting)) for setting in settings]
    if others:
        splits = _splits(rival, X, task, kind)
        best = max([best, *others], key=lambda model: _judged(model, X, task, kind, splits))
    return best


def _judged(rival: Any, X: Array, task: Labels, kind: str, splits: Sequence[Split]) -> float:
    """Mean AUC over splits and tasks."""
    aucs = []
    for train, test, enrolled in splits:
        model = clone(rival).fit(X[train], task=task[train])
        # Rows of the other tasks of the model are negatives, or rows of the tasks beside it.
        others = np.where(enrolled[test] == (kind == "seen"), NEGATIVE, UNUSED)[:, None]
        member = np.where(task[test][:, None] == model.tasks_, POSITIVE, others)
        aucs.append(member_aucs(model.score_tasks(X[test]), member))
    return float(np.nanmean(np.concatenate(aucs)))


def _splits(rival: Any, X: Array, task: Labels, kind: str) -> list[Split]:
    """Splits to judge a candidate by: the same as for the methods of the package."""
    rows, labels, source = training_rows(clone(rival), X, task)
    if np.bincount(rows.codes).max() < 2:
        raise ValueError("Every task has a single row: there is none to judge a setting by.")
    if kind == "unseen" and len(labels) < _FEWEST_TASKS:
        raise ValueError(
            f'kind="unseen" holds out half of the tasks to judge by and needs at least '
            f'{_FEWEST_TASKS} tasks; got {len(labels)}. Use kind="seen".'
        )
    # As the package does: rows and tasks in the order of their content, whatever they are called.
    splits = fold_splits(rows.codes, rows.outlier, kind, task_order=content_order(rows))
    back = np.argsort(source)
    return [Split(*(mask[back] for mask in split)) for split in splits]
