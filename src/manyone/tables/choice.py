"""Which estimator stands behind a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from manyone._types import Array, Criterion, Labels
from manyone.data.labels import encode
from manyone.data.rows import training_rows
from manyone.estimators import METHODS
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.combined import CombinedOneClass
from manyone.estimators.independent import IndependentOCKSR
from manyone.messages import shortlist
from manyone.selection.auto import FOR_FAULTS, auto, plan_views
from manyone.selection.search import columns_of
from manyone.selection.tune import tune

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

#: What was tried, column by column, see :func:`manyone.auto`.
Choice = dict[str, Labels]
Seed = int | np.random.RandomState | None
# Settings that often do well.
_OFTEN_GOOD: dict[str, dict[str, Any]] = {
    "strangers": {"kernel": "laplacian"},
    "faults": FOR_FAULTS,
}
BY_NAME = {cls.__name__: cls for cls in METHODS.values()}


class ChoiceLine(NamedTuple):
    """A line of `choice_`: what was tried, and why it was chosen if it was."""

    view: str
    method: str
    setting: str = ""
    score: float = np.nan
    stage: str = ""
    chosen: bool = False
    reason: str = ""


def with_lines(lines: Sequence[ChoiceLine], choice: Choice) -> Choice:
    """A choice with further lines before its own."""
    if not lines:
        return choice
    before = columns_of([line._asdict() for line in lines])
    return {name: np.concatenate([before[name], choice[name]]) for name in choice}


def choose_model(
    settings: TableModel, Z: Array, fit_arguments: dict[str, Any]
) -> tuple[OneClassEstimator, Choice]:
    """The fitted model of encoded rows (n, D), and what was tried.

    Parameters
    ----------
    settings : TableModel
        Not fitted: its anomalies, method, alarm rate and random state count.
    Z : ndarray of shape (n, D)
    fit_arguments : dict
        What `fit` is told about the rows: ``task``, ``outlier``, ``groups``.

    Returns
    -------
    model : estimator
    choice : dict of arrays
        See :func:`manyone.auto`.
    """
    method = settings.method
    rates: dict[str, Any] = {
        "alarm_rate": settings.alarm_rate,
        "task_rate_limit": settings.task_rate_limit,
    }
    seed = settings.random_state
    if isinstance(method, OneClassEstimator):
        model = clone(method).set_params(**rates)
        return model.fit(Z, **fit_arguments), _only(model, "as given")
    if method == "auto":
        model = auto(
            Z, **fit_arguments, **rates, anomalies=settings.anomalies, random_state=seed
        )
        return model, model.choice_
    if method == "default":
        model, remarks = _untuned(Z, fit_arguments, settings.anomalies, seed)
        model.set_params(**rates).fit(Z, **fit_arguments)
        return model, _only(model, "; ".join(["not tuned", *remarks]))
    one_task = len(encode(fit_arguments["task"])[0]) == 1
    for_faults = settings.anomalies == "faults" or one_task
    criterion: Criterion = "faults" if for_faults else "unseen"
    estimator = BY_NAME[method](**rates)
    model = tune(estimator, Z, **fit_arguments, criterion=criterion, random_state=seed)
    return model, _only(model, f'tuned for "{criterion}"')


def refuse_unknown(anomalies: object, method: object) -> None:
    """Refuse what is no kind of anomalies and no method."""
    if anomalies not in ("any", "strangers", "faults"):
        raise ValueError(
            f'anomalies must be "any", "strangers" or "faults"; got {anomalies!r}.'
        )
    names = ("auto", "default", *BY_NAME)
    if not isinstance(method, OneClassEstimator) and method not in names:
        raise ValueError(
            f'method must be "auto", "default", an estimator or the name of one ('
            f"{shortlist(sorted(BY_NAME), 20)}); got {method!r}."
        )


def _untuned(
    Z: Array, fit_arguments: dict[str, Any], anomalies: str, random_state: Seed
) -> tuple[OneClassEstimator, list[str]]:
    """The views that `auto` would tune, with settings that often do well."""
    rows, _, _ = training_rows(
        IndependentOCKSR(), Z, fit_arguments["task"], fit_arguments["outlier"]
    )
    plan, remarks = plan_views(rows, anomalies, None, random_state)
    views = [
        (view.name, view.model.set_params(**_OFTEN_GOOD[view.name])) for view in plan
    ]
    model = views[0][1] if len(views) == 1 else CombinedOneClass(estimators=views)
    return model, [f"{name}: {words}" for name, words in remarks]


def _only(model: OneClassEstimator, reason: str) -> Choice:
    """The choice of a model that had no rival."""
    shown = {"alpha", "kernel", "metric", "width"} & model.get_params(deep=False).keys()
    setting = ", ".join(f"{key}={getattr(model, key)}" for key in sorted(shown))
    method = type(model).__name__
    line = ChoiceLine("all", method, setting, chosen=True, reason=reason)
    return columns_of([line._asdict()])
