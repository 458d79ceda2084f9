"""Which estimator stands behind a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manyone._types import Array
from manyone.estimators import METHODS
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.combined import CombinedOneClass
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.nonlinear import NonlinearOCKSR
from manyone.messages import shortlist
from manyone.selection.auto import auto
from manyone.selection.tune import tune

Choice = dict[str, NDArray[Any]]
_BY_NAME = {cls.__name__: cls for cls in METHODS.values()}


def choose_model(
    Z: Array,
    given: dict[str, Any],
    anomalies: str,
    method: Any,
    alarm_rate: float,
    random_state: Any,
) -> tuple[OneClassEstimator, Choice]:
    """The fitted model of encoded rows (n, D), and what was tried.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
    given : dict
        What `fit` is told about the rows: ``task``, ``outlier``, ``groups``.
    anomalies, method, alarm_rate, random_state
        As in `TableModel`.

    Returns
    -------
    model : estimator
    choice : dict of arrays
        See :func:`manyone.auto`.
    """
    if anomalies not in ("any", "strangers", "faults"):
        raise ValueError(f'anomalies must be "any", "strangers" or "faults"; got {anomalies!r}.')
    if isinstance(method, str) and method == "auto":
        model = auto(
            Z, **given, anomalies=anomalies, alarm_rate=alarm_rate, random_state=random_state
        )
        return model, model.choice_
    if isinstance(method, str) and method in _BY_NAME:
        one_task = len(set(given["task"].tolist())) == 1
        criterion = "faults" if anomalies == "faults" or one_task else "unseen"
        estimator = _BY_NAME[method](alarm_rate=alarm_rate)
        model = tune(estimator, Z, **given, criterion=criterion, random_state=random_state)
        return model, _only(model, f'tuned for "{criterion}"')
    if isinstance(method, str) and method == "default":
        model = _default(anomalies).set_params(alarm_rate=alarm_rate)
        return model.fit(Z, **given), _only(model, "not tuned")
    if isinstance(method, OneClassEstimator):
        model = clone(method).set_params(alarm_rate=alarm_rate)
        return model.fit(Z, **given), _only(model, "as given")
    raise ValueError(
        f'method must be "auto", "default", an estimator or the name of one ('
        f"{shortlist(sorted(_BY_NAME), 20)}); got {method!r}."
    )


def _default(anomalies: str) -> OneClassEstimator:
    if anomalies == "strangers":
        return NonlinearOCKSR(kernel="laplacian")
    faults = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
    if anomalies == "faults":
        return faults
    views = [("strangers", NonlinearOCKSR(kernel="laplacian")), ("faults", faults)]
    return CombinedOneClass(estimators=views)


def _only(model: OneClassEstimator, reason: str) -> Choice:
    """A choice between one."""
    words = {"kernel", "width", "alpha", "metric"}
    setting = {key: value for key, value in model.get_params(deep=False).items() if key in words}
    line = {
        "view": "all",
        "method": type(model).__name__,
        "setting": ", ".join(f"{key}={value}" for key, value in sorted(setting.items())),
        "score": np.nan,
        "stage": "",
        "chosen": True,
        "reason": reason,
    }
    return {key: np.array([value]) for key, value in line.items()}
