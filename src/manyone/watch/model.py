"""What a monitor needs of an estimator, a pipeline or a model of tables."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manyone._types import Array
from manyone.estimators.base import OneClassEstimator
from manyone.pipelines import TaskPipeline
from manyone.tables import TableModel
from manyone.tables.answers import Answers
from manyone.tables.rows import TableRows

#: What a monitor can watch.
WatchedModel = TableModel | TaskPipeline | OneClassEstimator


def resolved(scores: Array) -> Array:
    """Scores rounded to eleven digits: further digits depend on the size of blocks."""
    mantissa, exponent = np.frexp(scores)
    return np.ldexp(np.rint(mantissa * 2.0**36) / 2.0**36, exponent)


def answer_rows(model: WatchedModel, X: object, task: object) -> Answers:
    """Answers of the model alone to rows of an array, or of a table that was read.

    For an array these are the scores only: the monitor gives p-values and alarms.
    """
    if isinstance(model, TableModel):
        assert isinstance(X, TableRows)
        answers = model._answer(X)
        return replace(answers, score=resolved(answers.score))
    if isinstance(model, TaskPipeline):
        prepared = model._prepared(X, task=task)
        X = prepared["X"]
        task = prepared["task"]
        model = model.model_
    rows, codes = model._scoring_rows(X, task)
    borrows = model.calibration_.borrows(model._check_calibrated())
    return Answers(
        rows=np.arange(len(codes)),
        labels=model.tasks_[codes],
        codes=codes,
        score=resolved(model.solution_.own(rows, codes)),
        p_value=np.ones(len(codes)),
        rank_p=np.ones(len(codes)),
        alarm=np.zeros(len(codes), dtype=bool),
        basis=borrows[codes].astype(np.intp),
        counts=np.ones(len(codes), dtype=bool),
    )


def estimator_of(model: WatchedModel) -> OneClassEstimator:
    """The fitted estimator, which may be inside a pipeline or a model of tables."""
    estimator = model
    if isinstance(model, TableModel | TaskPipeline):
        check_is_fitted(model)
        estimator = model.model_
    if not isinstance(estimator, OneClassEstimator):
        raise ValueError(
            "A monitor watches estimators of manyone, its pipelines "
            f"(manyone.make_pipeline) and TableModel; got a {type(model).__name__}."
        )
    estimator._check_calibrated()
    return estimator


def fingerprint_of(model: WatchedModel) -> str:
    """A short text that tells models apart by their tasks and left-out scores."""
    estimator = estimator_of(model)
    digest = hashlib.sha256(repr(estimator.tasks_.tolist()).encode())
    digest.update(np.ascontiguousarray(estimator.calibration_.scores).tobytes())
    return digest.hexdigest()[:16]
