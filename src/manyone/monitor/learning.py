"""Rows that a person has called normal become training rows, within a cap."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from manyone._types import Codes, Mask
from manyone.monitor.state import MonitorState, estimator_of

#: Rows that may be learned for each row that a task was fitted to; these never leave.
LEARNED = 0.5


def confirmed_rows(state: MonitorState, ids: list[Any]) -> tuple[Mask, Codes]:
    """Which rows have been called normal and fit under the cap of their task, and their tasks."""
    places = np.array([state.memory.find(one) for one in ids], dtype=np.intp)
    chosen, codes = np.zeros(len(ids), dtype=bool), np.full(len(ids), -1)
    room = np.floor(LEARNED * state.trained - state.learned)
    for row, at in enumerate(places.tolist()):
        if at < 0 or state.memory["answer"][at] != 1:
            continue
        codes[row] = state.memory["task"][at]
        if codes[row] >= 0 and room[codes[row]] >= 1:
            room[codes[row]] -= 1
            chosen[row] = True
    return chosen, codes


def enrolled(model: Any, X: Any, codes: Codes, chosen: Mask) -> Any:
    """A copy of the model with some rows enrolled."""
    from manyone.pipelines import TaskPipeline
    from manyone.tables import TableModel
    from manyone.tables.frames import as_table

    model = deepcopy(model)
    kept = np.flatnonzero(chosen)
    if isinstance(model, TableModel):
        return model.enroll(as_table(X)[kept.tolist()].to_native())
    estimator = estimator_of(model)
    task = estimator.tasks_[codes]
    if isinstance(model, TaskPipeline):
        X = model.transform(X, task=task)
    estimator.enroll(estimator._scoring_features(X)[kept], task=task[kept])
    return model


def started_again(old: MonitorState, model: Any, codes: Codes) -> MonitorState:
    """The state for a model that has learned rows of these tasks: other scores, the same past."""
    new = MonitorState.start(model, drift_level=old.drift_level, seed=old.seed)
    new.memory, new.sources, new.trained = old.memory, old.sources, old.trained
    new.learned = old.learned + np.bincount(codes, minlength=len(old.learned))
    new.rows, new.alarms, new.answers = old.rows, old.alarms, old.answers
    return new
