"""What a table says beside its features: whose row it is, when, and which rows are abnormal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.groups import TimeBlocks
from manyone.labels import encode, find
from manyone.messages import shortlist
from manyone.rows import MISSING
from manyone.tables.frames import (
    Columns,
    joined_label,
    read_columns,
    read_times,
    read_yes_no,
    refuse_missing_columns,
    task_labels,
)

# Rows from which on a task is judged by earlier blocks of time only: the first of five blocks is
# then a model that later rows can be judged by.
_ENOUGH_TO_LOOK_AHEAD = 250


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Rows to learn from, in the order of time where that is known.

    Parameters
    ----------
    columns : dict of str to Column
        Those that may be features.
    labels : ndarray of shape (n,)
        Tasks; None where an outlier has none.
    outlier : ndarray of bool of shape (n,)
    groups : ndarray of shape (n,) or None
    times : ndarray of shape (n,) or None
    numbers : ndarray of shape (n,)
        Where each row stood in the table.
    """

    columns: Columns
    labels: NDArray[Any]
    outlier: Mask
    groups: NDArray[Any] | None
    times: Array | None
    numbers: Codes

    def take(self, rows: Codes) -> TrainingTable:
        """Some of the rows."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        arrays: dict[str, Any] = {
            key: None if value is None else value[rows] for key, value in self._arrays()
        }
        return replace(self, columns=columns, **arrays)

    def joined(self, more: TrainingTable) -> TrainingTable:
        """These rows, and more, which count on."""
        columns = {
            name: column.joined(more.columns[name])
            for name, column in self.columns.items()
        }
        more = replace(more, numbers=more.numbers + self.numbers.max() + 1)
        pairs = {key: (value, getattr(more, key)) for key, value in self._arrays()}
        arrays: dict[str, Any] = {
            key: None if any(part is None for part in pair) else np.concatenate(pair)
            for key, pair in pairs.items()
        }
        return replace(self, columns=columns, **arrays)

    def _arrays(self) -> list[tuple[str, Any]]:
        """Everything that has an entry for each row, by name."""
        return [(key, value) for key, value in vars(self).items() if key != "columns"]

    def without(self, task: Any) -> TrainingTable:
        """All rows but those of a task, which has to be there, and not alone."""
        label = joined_label(task) if isinstance(task, list | tuple) else task
        known = encode(self.labels)[0].tolist()
        if label not in known:
            raise ValueError(
                f"Unknown task {task!r}. The model knows {shortlist(known, 5)}."
            )
        if len(known) == 1:
            raise ValueError(
                f"{task!r} is the only task of the model: delete the model instead."
            )
        return self.take(np.flatnonzero(self.labels != label))

    def codes(self) -> Codes:
        """Number of each row's task, shape (n,)."""
        return encode(self.labels)[1]

    def normal(self) -> tuple[Columns, Codes, int]:
        """Columns and tasks of the rows that are not known to be abnormal; number of tasks."""
        tasks, codes = encode(self.labels)
        kept = np.flatnonzero(~self.outlier)
        return self.take(kept).columns, codes[kept], len(tasks)

    def given(self) -> dict[str, Any]:
        """What an estimator's `fit` is told about the rows."""
        outlier = self.outlier if self.outlier.any() else None
        return {"task": self.labels, "outlier": outlier, "groups": self._leaving()}

    def _leaving(self) -> Any:
        """What leaves together: groups, or blocks of time where a task has two times, or None."""
        if self.groups is not None or self.times is None:
            return self.groups
        moments = np.column_stack([self.codes(), self.times])[~self.outlier]
        if len(np.unique(moments, axis=0)) == len(np.unique(moments[:, 0])):
            return None
        return TimeBlocks(self.times, forward=_ENOUGH_TO_LOOK_AHEAD)


def read_training(
    frame: nw.DataFrame[Any], roles: dict[str, list[str]], ignore: Sequence[str]
) -> TrainingTable:
    """Rows to learn from.

    Parameters
    ----------
    frame : narwhals data frame
    roles : dict
        Names of the columns for ``task``, ``time``, ``outlier`` and ``groups``.
    ignore : list of str

    Returns
    -------
    TrainingTable
    """
    refuse_missing_columns(frame, **roles, ignore=list(ignore))
    labels = task_labels(frame, roles["task"])
    outlier = np.zeros(len(labels), dtype=bool)
    for name in roles["outlier"]:
        outlier = read_yes_no(frame, name)
    _refuse_rows_without_task(labels, ~outlier, roles["task"])
    groups = task_labels(frame, roles["groups"]) if roles["groups"] else None
    apart = {name for names in roles.values() for name in names} | set(ignore)
    names = [name for name in frame.columns if name not in apart]
    if not names:
        raise ValueError(
            "The table has no column beside those that say what rows are: add some to learn from."
        )
    columns = read_columns(frame, names)
    times = read_times(frame, roles["time"][0]) if roles["time"] else None
    table = TrainingTable(
        columns, labels, outlier, groups, times, np.arange(len(labels))
    )
    return table if times is None else table.take(np.argsort(times, kind="stable"))


def claimed_tasks(
    frame: nw.DataFrame[Any], names: list[str], tasks: NDArray[Any], unknown: str
) -> tuple[Codes, Codes]:
    """Number of each row's task, and the rows to answer.

    MISSING where the task was never seen, or where the row has none: it may be of any.
    """
    if unknown not in ("pooled", "error", "skip"):
        raise ValueError(
            f'unknown must be "pooled", "error" or "skip"; got {unknown!r}.'
        )
    refuse_missing_columns(frame, task=names)
    labels = task_labels(frame, names)
    refuse_other_labels(labels, tasks, names)
    codes, new = find(labels, tasks)
    if unknown == "skip":
        return codes, np.flatnonzero(codes != MISSING)
    if unknown == "error":
        _refuse_rows_without_task(labels, codes == MISSING, names)
        if new.any():
            row, label = int(np.argmax(new)), labels[new].tolist()[0]
            raise ValueError(
                f"Row {row}: task {label!r} was never seen ({int(new.sum())} in all). "
                'Enrol it, or use unknown="pooled" to compare it with all tasks.'
            )
    return codes, np.arange(len(codes))


def refuse_other_labels(
    labels: NDArray[Any], tasks: NDArray[Any], names: list[str]
) -> None:
    """Labels that are texts where numbers were seen would all be unknown without a word."""
    if labels.dtype.kind == tasks.dtype.kind != "O":
        return
    known = {type(label) for label in tasks.tolist()}
    given = {type(label) for label in labels.tolist()} - {type(None)}
    if given and not given & known:
        seen = "numbers" if int in known else "texts"
        raise ValueError(
            f"The task column {shortlist(names, 3)} held {seen} when the model was fitted, and "
            "does not now: convert it."
        )


def _refuse_rows_without_task(
    labels: NDArray[Any], needed: Mask, names: list[str]
) -> None:
    if labels.dtype != object:  # native arrays have no missing labels
        return
    lost = np.flatnonzero(
        np.array([label is None for label in labels.tolist()]) & needed
    )
    if len(lost):
        raise ValueError(
            f"Row {lost[0]} has no value in the task column {shortlist(names, 3)} "
            f"({len(lost)} in all). Fill it in or remove them."
        )
