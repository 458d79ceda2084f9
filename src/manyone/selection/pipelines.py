"""Make pipelines, and tune the estimator at their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sklearn.pipeline
from sklearn.pipeline import Pipeline

from manyone.estimators.base import OneClassEstimator
from manyone.pipelines import TaskPipeline
from manyone.selection.auto import AutoOneClass


def make_pipeline(*steps: Any) -> TaskPipeline:
    """Chain transformers and an estimator of this package.

    Unlike :func:`sklearn.pipeline.make_pipeline`, every method takes ``task=`` and no
    global setting has to be changed.

    Parameters
    ----------
    *steps : transformers, then an estimator
        An :class:`AutoOneClass` chooses method and setting on what the transformers
        make.

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
    >>> joint = manyone.JointOCKSR(alarm_rate=0.1)
    >>> model = manyone.make_pipeline(StandardScaler(), joint)
    >>> model.fit(X, task=task).predict([[9.0, 9000.0]], task=["fan"])
    array([-1])
    """
    if not steps:
        raise ValueError("make_pipeline needs an estimator as its last step.")
    return TaskPipeline(sklearn.pipeline.make_pipeline(*steps).steps)


def tuned_pipeline(
    pipeline: TaskPipeline | Pipeline,
    tune: Callable[..., OneClassEstimator],
    X: object,
    roles: dict[str, object],
    options: dict[str, object],
) -> TaskPipeline:
    """The pipeline with fitted transformers, and its estimator tuned."""
    if not isinstance(pipeline, TaskPipeline | Pipeline):
        name = getattr(pipeline, "__name__", "")
        got = (
            f"the class {name}: write {name}()"
            if name
            else f"a {type(pipeline).__name__}"
        )
        raise ValueError(
            "tune works on estimators of manyone, and pipelines that end in one; got "
            f"{got}. Tune the views of a combination one by one, or let manyone.auto "
            "make one; use GridSearchCV with scoring=manyone.TaskAUC() for others."
        )
    if isinstance(pipeline.steps[-1][1], AutoOneClass):
        raise ValueError(
            "A pipeline that ends in an AutoOneClass chooses for itself: call its fit."
        )
    labels = {name: roles[name] for name in ("task", "outlier", "groups")}
    fitted = TaskPipeline(list(pipeline.steps))
    last = fitted.steps[-1][1]
    return fitted.fit_last(
        lambda Z, **labels_of_rows: tune(last, Z, **labels_of_rows, **options),
        X,
        roles["sample_weight"],
        **labels,
    )
