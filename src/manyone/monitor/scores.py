"""Scores of new rows, whatever kind of model watches them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.labels import split_columns


class Scored(NamedTuple):
    """Task (-1: never seen), score, and what the model alone says, each of shape (n,)."""

    codes: Codes
    score: Array
    p_value: Array
    alarm: Mask


def resolved(scores: Array) -> Array:
    """Scores to eleven digits: the last ones depend on how many rows are scored together."""
    mantissa, exponent = np.frexp(scores)
    return np.ldexp(np.rint(mantissa * 2.0**36) / 2.0**36, exponent)


def score_rows(model: Any, X: Any, task: Any) -> Scored:
    """Score rows by a fitted estimator, or the rows of a table by a model of tables."""
    from manyone.pipelines import TaskPipeline
    from manyone.tables import TableModel

    if isinstance(model, TableModel):
        from manyone.tables.frames import as_table

        answers = model._answer(as_table(X), None, "pooled")
        return Scored(answers.codes, resolved(answers.score), answers.p_value, answers.alarm)
    if isinstance(model, TaskPipeline):
        X, task = split_columns(X, task=task)
        X, model = model.transform(X, task=task), model.model_
    rows, codes = model._scoring_rows(X, task)
    scores = resolved(model._own_scores(rows, codes))
    return Scored(codes, scores, np.ones(len(codes)), np.zeros(len(codes), dtype=bool))
