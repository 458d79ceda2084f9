"""Training rows that a fitted model holds, with more rows or without a task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from manyone._types import Labels
from manyone.data.checks import refuse_no_task
from manyone.data.labels import as_labels, encode, lookup, split_labels
from manyone.data.rows import MISSING, TrainingRows, number_of, training_rows
from manyone.estimators.scoring import Scoring


def with_more_rows(
    model: Scoring,
    X: object,
    task: object,
    outlier: object,
    sample_weight: object,
    groups: object,
) -> tuple[TrainingRows, Labels]:
    """Rows of a model and of `enroll` together, and the tasks (T,) of both.

    Raises
    ------
    ValueError
        If the model holds no rows, or a new task has no normal row.
    """
    kept_rows = _kept_rows(model, "enroll")
    X, task, outlier, groups = split_labels(
        X, model.label_columns_, task=task, outlier=outlier, groups=groups
    )
    refuse_no_task(task, len(model.tasks_), model.label_columns_)
    if task is None:
        task = np.repeat(model.tasks_, number_of(X))
    more, names, _ = training_rows(
        model, X, task, outlier, sample_weight, groups, reset=False
    )
    if groups is not None and more.group is None and kept_rows.group is not None:
        more = replace(more, group=np.arange(len(more.codes)))  # one row each
    rows = more.X.astype(np.float64)
    if sparse.issparse(kept_rows.X):
        rows = sparse.csr_array(rows)
    elif sparse.issparse(rows):
        rows = rows.toarray()
    known_tasks = set(model.tasks_.tolist())
    has_normal = set(names[more.codes[~more.outlier]].tolist())
    for label in names.tolist():
        if label not in known_tasks | has_normal:
            raise ValueError(
                f"New task {label!r} has no normal row: enrol one, or drop it."
            )
    new_tasks = set(names.tolist()) - known_tasks
    tasks, _ = encode(as_labels([*model.tasks_.tolist(), *new_tasks]))
    more = replace(more, X=rows).recoded(lookup(names, tasks), len(tasks))
    kept_rows = kept_rows.recoded(lookup(model.tasks_, tasks), len(tasks))
    return kept_rows.joined(more).by_task(), tasks


def without_task(model: Scoring, task: object) -> tuple[TrainingRows, Labels]:
    """Rows of a model without those of a task, and the other tasks (T,)."""
    kept_rows = _kept_rows(model, "forget")
    code = code_of(model, task)
    return kept_rows.without(code), np.delete(model.tasks_, code)


def code_of(model: Scoring, task: object) -> int:
    """Code of a task that a model may forget; raises if it may not."""
    if isinstance(task, list | np.ndarray):
        raise ValueError(
            f"forget removes one task at a time; got {task!r}. Call it in a loop."
        )
    code = int(lookup(as_labels([task]), model.tasks_)[0])
    if code == MISSING:
        raise ValueError("forget needs the label of a task; got a missing value.")
    if len(model.tasks_) == 1:
        raise ValueError(
            f"{task!r} is the only task of the model: delete the model instead."
        )
    return code


def _kept_rows(model: Scoring, method: str) -> TrainingRows:
    """The rows that a model was fitted to; raises if it holds none."""
    check_is_fitted(model)
    if not model.training_.X.shape[1]:
        raise ValueError(
            f"{method}() needs the rows that the model was fitted to, but it has kept "
            'none: it was fitted with landmarks, or with kernel="precomputed". Fit it '
            f"again to all rows that it is to know. TableModel.{method} does so where "
            "it has kept its rows."
        )
    return model.training_
