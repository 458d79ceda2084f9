"""Methods that are compared: those of the package, and everyday rivals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

import numpy as np
from sklearn.base import clone

from manyone import AutoOneClass, tune
from manyone._types import Array, Codes, Criterion, Labels
from manyone.calibration.folds import FEWEST_TASKS_TO_HALVE
from manyone.capabilities import Grid
from manyone.data.groups import TimeBlocks
from manyone.data.rows import training_rows
from manyone.estimators import METHODS
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.independent import IndependentOCKSR
from manyone.experiments.protocols import Scores
from manyone.experiments.rivals.base import Detector, OwnScales, Rival
from manyone.files import toml_beside
from manyone.selection.criteria import finite_mean, fold_aucs
from manyone.selection.search import settings_of
from manyone.tables.training import ENOUGH_TO_LOOK_AHEAD

_TABLES = toml_beside(__file__, "methods.toml")
#: Mean AUC in percent that the paper prints (its Table 1), by data set and method.
PAPER_AUC: dict[str, dict[str, float]] = _TABLES["paper_auc"]
#: Added to the name of a method that does not get the columns of the past.
WITHOUT_PAST = ", without the past"
#: Setting of a method as people use it; others are named by what differs from it.
DEFAULT = "default"
#: Added to the name of a method in the second setting.
AS_IN_PAPER = " (as in the paper)"


@dataclass(frozen=True)
class RivalEntry:
    """A rival of ``methods.toml``, where the meaning of each entry is written."""

    model: str
    fixed: dict[str, object] = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    own_scales: bool = True
    quick: bool = True
    package: str = ""

    @property
    def missing(self) -> bool:
        """Whether its package is not installed (extra ``experiments``)."""
        return bool(self.package) and find_spec(self.package) is None

    def make(self, **setting: object) -> Rival:
        """The model in one setting."""
        file, _, name = self.model.partition(".")
        module = import_module(f"manyone.experiments.rivals.{file}")
        rival: Rival = getattr(module, name)(**self.fixed, **setting)
        return rival


#: Everyday rivals by their names in the table, for each kind of anomaly.
RIVALS = {
    kind: {name: RivalEntry(**entry) for name, entry in _TABLES[kind]["rivals"].items()}
    for kind in ("strangers", "faults", "time")
}


class Fitted(Scores, Protocol):
    """A fitted model, of the package or a rival, as the experiments use it."""

    def decision_function(self, X: Array, *, task: Labels) -> Array:
        """Below 0: an alarm."""

    def recalibrate(self, alarm_rate: float) -> object:
        """Set thresholds for another rate."""


@dataclass(frozen=True)
class Method:
    """One line of the table, in one setting.

    Attributes
    ----------
    name : str
        As in the table.
    family : str
        The paper's name of the method, the same for all its settings.
    setting : str
        ``"tuned"``, or ``"alpha=..."`` where the ridge is fixed; for faults `DEFAULT`
        and others.
    model : estimator
        Not fitted.
    grid : dict or None
        Settings to choose from on training rows, none if it is empty; None: the default
        grid of the method.
    quick : bool
        Whether ``--quick`` runs it.
    criterion : str or None
        Anomalies that a method of the package is tuned for; None: the expected ones.
    past : bool
        Whether it gets the columns of the past, of rows in time.
    """

    name: str
    family: str
    setting: str
    model: OneClassEstimator | AutoOneClass | Rival
    grid: Grid | None = None
    quick: bool = True
    criterion: str | None = None
    past: bool = True

    @property
    def alarms(self) -> bool:
        """Whether it sets thresholds."""
        return isinstance(self.model, Detector) or not isinstance(self.model, Rival)

    def fit(
        self, X: Array, task: Labels, kind: str = "unseen", *, calibrate: bool = True
    ) -> Fitted:
        """Fit, with settings chosen on these rows alone.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        task : ndarray of shape (n,)
        kind : {"unseen", "seen", "faults", "time"}
            Expected anomalies; ``"time"``: faults, with rows in the order of time.
        calibrate : bool
            False: tuned methods set no thresholds, which may cost whole refits.

        Returns
        -------
        fitted model
            With ``score_tasks``.
        """
        if kind not in ("unseen", "seen", "faults", "time"):
            raise ValueError(
                f'kind must be "unseen", "seen", "faults" or "time"; got {kind!r}.'
            )
        X = np.asarray(X, dtype=np.float64)
        task = np.asarray(task)
        if kind == "time" and not isinstance(self.model, Rival):
            blocks = TimeBlocks(np.arange(len(X)), forward=ENOUGH_TO_LOOK_AHEAD)
            return clone(self.model).fit(X, task=task, groups=blocks)
        if self.grid == {}:
            return clone(self.model).fit(X, task=task)
        if isinstance(self.model, Rival):
            rival = _chosen(self.model, self.grid or {}, X, task, kind)
            return rival.fit(X, task=task)
        return tune(
            self.model,
            X,
            task=task,
            criterion=cast(Criterion, self.criterion or kind),
            grid=self.grid,
            calibrate=calibrate,
        )


def methods() -> dict[str, Method]:
    """Methods of the table of strangers by name, see `compared`."""
    return {method.name: method for method in compared("seen")}


def compared(kind: str) -> list[Method]:
    """Methods that are compared on a kind of anomalies, in every setting.

    These are the methods in METHODS at the time of the call, and rivals whose packages
    are installed.

    Raises
    ------
    ValueError
        If a class in METHODS does not declare what it can do.
    """
    for name, method in METHODS.items():
        if not hasattr(method, "can"):
            raise ValueError(
                f"METHODS[{name!r}] does not declare what it can do. Derive "
                f"{method.__name__} from manyone.estimators.MultiTaskOneClass."
            )
    rivals = {n: rival for n, rival in rivals_of(kind).items() if not rival.missing}
    if kind not in ("faults", "time"):
        table = [package_method(name, "tuned") for name in METHODS]
        table += [package_method(name, "alpha=1") for name in METHODS if in_paper(name)]
        for name, rival in rivals.items():
            model = rival.make()
            table.append(Method(name, name, "tuned", model, rival.grid, rival.quick))
        return table
    table = [
        Method(
            f"auto ({anomalies})",
            "auto",
            DEFAULT,
            AutoOneClass(anomalies=anomalies),
            {},
        )
        for anomalies in _TABLES[kind]["auto"]
    ]
    table += _package_methods_on_faults() if kind == "faults" else [_adaptive()]
    for name, rival in rivals.items():
        table += _variants(name, rival)
    if kind == "time":
        table += [replace(m, name=m.name + WITHOUT_PAST, past=False) for m in table]
    return table


def rivals_of(kind: str) -> dict[str, RivalEntry]:
    """Rivals for a kind of anomalies, installed or not."""
    return RIVALS.get(kind, RIVALS["strangers"])


def _package_methods_on_faults() -> Iterator[Method]:
    """Methods of the package with defaults and, where tasks have metrics, tuned."""
    for name, method in METHODS.items():
        if name not in _TABLES["faults"]["without"]:
            quick = method.can.quick
            yield Method(name, name, DEFAULT, method(), {}, quick)
            if method.can.task_metric:
                # Its settings are chosen by synthetic faults made of training rows.
                tuned = f"{name} (tuned for faults)"
                yield Method(tuned, name, DEFAULT, method(), None, quick)


def _adaptive() -> Method:
    """The method for faults, in the setting that is preferred for them."""
    model = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
    return Method("OCKSR (adaptive)", "OCKSR", DEFAULT, model)


def _variants(name: str, rival: RivalEntry) -> Iterator[Method]:
    """A rival in every setting of its grid, the default first."""
    for number, setting in enumerate(settings_of(rival.grid)):
        words = ", ".join(f"{key}={value}" for key, value in setting.items())
        if number == 0:
            words = DEFAULT
        model = rival.make(**setting)
        yield Method(name, name, words, model, {}, rival.quick)
        if rival.own_scales:
            scaled = OwnScales(model)
            yield Method(f"{name}, own scales", name, words, scaled, {}, rival.quick)


def is_of_package(method: str) -> bool:
    """Whether the method of this name in the table belongs to this package."""
    name = method.removesuffix(WITHOUT_PAST).partition(" (")[0]
    return name in (*METHODS, "auto")


def package_method(family: str, setting: str) -> Method:
    """A method of the package in one setting.

    Parameters
    ----------
    family : str
        Key of :data:`manyone.estimators.METHODS`.
    setting : str
        ``"tuned"``: everything is chosen on training rows. ``"alpha=A"``: RBF kernel,
        first-layer ridge A, the rest chosen (``paper_grid`` in ``methods.toml``); with
        A = 1 this is what the paper did.
    """
    estimator = METHODS[family]()
    can = estimator.can
    if setting == "tuned":
        quick = can.quick or in_paper(family)
        return Method(family, family, setting, estimator, can.short_grid, quick)
    parameters = estimator.get_params().keys()
    # The paper has no anchor.
    alpha = float(setting.removeprefix("alpha="))
    fixed = {"kernel": "rbf", "alpha": alpha, "anchor": False}
    estimator.set_params(**{name: fixed[name] for name in fixed.keys() & parameters})
    grid = {
        name: values
        for name, values in _TABLES["paper_grid"].items()
        if name in parameters
    }
    published = setting == "alpha=1" and in_paper(family)
    name = family + (AS_IN_PAPER if published else f" ({setting})")
    return Method(name, family, setting, estimator, grid, criterion="seen")


def in_paper(family: str) -> bool:
    """Whether the paper's table has a method."""
    return any(family in column for column in PAPER_AUC.values())


def has_ridge(family: str) -> bool:
    """Whether a method of the package has a first-layer ridge."""
    return "alpha" in METHODS[family]().get_params()


def _chosen(rival: Rival, grid: Grid, X: Array, task: Labels, kind: str) -> Rival:
    """The best candidate of a grid, not fitted, judged as methods of the package."""
    candidates = [clone(rival).set_params(**setting) for setting in settings_of(grid)]
    if len(candidates) == 1:
        return candidates[0]
    rows, labels, _ = training_rows(clone(rival), X, task)
    if np.bincount(rows.codes).max() < 2:
        raise ValueError(
            "Every task has a single row: there is none to judge a setting by."
        )
    if kind == "unseen" and len(labels) < FEWEST_TASKS_TO_HALVE:
        raise ValueError(
            f'kind="unseen" holds out half of the tasks to judge by and needs at least '
            f'{FEWEST_TASKS_TO_HALVE} tasks; got {len(labels)}. Use kind="seen".'
        )

    def judged(model: Rival) -> float:
        def scores_of(train: Codes, held_out: Codes) -> Array:
            model.fit(rows.X[train], task=rows.codes[train])
            return np.asarray(model.score_tasks(rows.X[held_out]))

        return finite_mean(fold_aucs(scores_of, rows, kind))

    return max(candidates, key=judged)
