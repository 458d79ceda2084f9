"""`tune` for the last step of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.pipeline import Pipeline

from manyone.pipelines import TaskPipeline
from manyone.selection.auto import AutoOneClass


def tuned_pipeline(
    pipeline: TaskPipeline | Pipeline, tune: Callable[..., Any], X: Any, **given: Any
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
    labels = {name: given.pop(name) for name in ("task", "outlier", "groups")}
    fitted = TaskPipeline(list(pipeline.steps))
    Z, labels = fitted.fit_transformers(X, **labels)
    model = tune(fitted.steps[-1][1], Z, **labels, **given)
    return fitted.become(model, Z, **labels, sample_weight=given.get("sample_weight"))
