"""Pipelines whose last step chooses or is tuned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from sklearn.pipeline import Pipeline

from manyone.estimators.base import OneClassEstimator
from manyone.messages import shortlist
from manyone.pipelines import TaskPipeline
from manyone.selection.auto import AutoOneClass


def make_pipeline(*steps: object, **options: Any) -> TaskPipeline:
    """Chain transformers and an estimator of this package.

    Unlike :func:`sklearn.pipeline.make_pipeline`, every method takes ``task=`` and no global
    setting has to be changed.

    Parameters
    ----------
    *steps : transformers, then an estimator or ``"auto"``
        ``"auto"`` is short for an :class:`AutoOneClass`, which chooses method and setting.
    **options
        Of ``"auto"``, such as ``anomalies="faults"``.

    Returns
    -------
    TaskPipeline

    Examples
    --------
    >>> import numpy as np
    >>> import manyone
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan"], 30)
    >>> X = rng.normal(size=(60, 2)) * [1.0, 1000.0]
    >>> model = manyone.make_pipeline(StandardScaler(), manyone.JointOCKSR(alarm_rate=0.1))
    >>> model.fit(X, task=task).predict([[9.0, 9000.0]], task=["fan"])
    array([-1])
    """
    if not steps:
        raise ValueError(
            'make_pipeline needs an estimator, or "auto", as its last step.'
        )
    short_form = isinstance(steps[-1], str) and steps[-1] == "auto"
    _refuse_options(options, steps[-1], short_form)
    names: list[str] = []
    for step in steps:
        name = step if isinstance(step, str) else type(step).__name__.lower()
        count = sum(taken.rstrip("-0123456789") == name for taken in names)
        names.append(f"{name}-{count + 1}" if count else name)
    last = AutoOneClass(**options) if short_form else steps[-1]
    return TaskPipeline(list(zip(names, [*steps[:-1], last], strict=True)))


def _refuse_options(options: dict[str, object], last: object, short_form: bool) -> None:
    """Options belong to "auto", and only those that it has."""
    if options and not short_form:
        name = min(options)
        raise ValueError(
            f'{name}={options[name]!r} is an option of a last step "auto"; the last step is a '
            f"{type(last).__name__}: give it its own parameters when you make it."
        )
    names = [field.name for field in fields(AutoOneClass)]
    unknown = sorted(options.keys() - set(names))
    if unknown:
        raise ValueError(
            f'{shortlist(unknown, 3)}: "auto" has no such option. It has '
            f"{shortlist(names, len(names))}."
        )


def tuned_pipeline(
    pipeline: TaskPipeline | Pipeline,
    tune: Callable[..., OneClassEstimator],
    X: object,
    roles: dict[str, object],
    options: dict[str, object],
) -> TaskPipeline:
    """The pipeline with its transformers fitted and its estimator tuned on what they make of X."""
    if not isinstance(pipeline, TaskPipeline | Pipeline):
        name = getattr(pipeline, "__name__", "")
        got = (
            f"the class {name}: write {name}()"
            if name
            else f"a {type(pipeline).__name__}"
        )
        raise ValueError(
            f"tune works on estimators of manyone, and pipelines that end in one; got {got}. Tune "
            "the views of a combination one by one, or let manyone.auto make one; use GridSearchCV "
            "with scoring=manyone.TaskAUC() for others."
        )
    if isinstance(pipeline.steps[-1][1], AutoOneClass):
        raise ValueError(
            "A pipeline that ends in an AutoOneClass chooses for itself: call its fit."
        )
    labels = {name: roles[name] for name in ("task", "outlier", "groups")}
    fitted = TaskPipeline(list(pipeline.steps))
    last = fitted.steps[-1][1]
    return fitted.fit_last(
        lambda Z, **given: tune(last, Z, **given, **options),
        X,
        roles["sample_weight"],
        **labels,
    )
