"""Labels of tasks: read from tables, and found among the tasks of a model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import narwhals.stable.v2 as nw
import numpy as np

from manyone._types import Codes, Labels, Mask
from manyone.data.labels import as_labels, find
from manyone.data.rows import MISSING
from manyone.messages import shortlist
from manyone.tablefiles.values import whole_number
from manyone.tables.errors import TableError, UnknownTaskError
from manyone.tables.frames import Frame, Series, refuse_missing_columns


def task_labels(frame: Frame, names: Sequence[str]) -> Labels:
    """Label of each row, integers or texts; None where it is missing.

    Several columns make one label, ``"left / right"``.
    """
    parts = [_labels(frame.get_column(name)) for name in names]
    if len(parts) == 1:
        return parts[0]
    rows = zip(*(part.tolist() for part in parts), strict=True)
    return as_labels([joined_label(row) for row in rows])


def joined_label(values: Sequence[object]) -> str | None:
    """One label for the values of several columns; None if one of them is missing."""
    if any(value is None for value in values):
        return None
    return " / ".join(
        str(value).replace("\\", "\\\\").replace("/", "\\/") for value in values
    )


def joined_labels(first: Labels, second: Labels) -> Labels:
    """Two arrays in one; NumPy alone would make texts of whole numbers beside texts."""
    if {first.dtype.kind, second.dtype.kind} & {"U", "O"}:
        return as_labels([*first.tolist(), *second.tolist()])
    return np.concatenate([first, second])


def _labels(series: Series) -> Labels:
    """Labels of one column: integers, texts, or a mixture; None where missing."""
    # Of integers only those of UInt64 go beyond int64.
    is_integer = series.dtype.is_integer() and series.dtype != nw.UInt64
    if is_integer and not series.null_count():
        return np.asarray(series.to_numpy(), dtype=np.int64)
    if series.dtype == nw.String and not series.null_count():
        texts = series.to_list()
        if "\0" not in "".join(texts):  # at the end of a text NumPy would strip it
            return np.array(texts, dtype=np.str_)
    labels = as_labels(series.to_list())
    if labels.dtype.kind in "iU":
        return labels
    return as_labels([_label(label) for label in labels.tolist()])


def _label(label: object) -> object:
    """Integers and texts stay; whole floats, as gaps make them, become integers."""
    if label is None or isinstance(label, str) or type(label) is int:
        return label
    if isinstance(label, float) and label.is_integer():
        return int(label)
    return str(label)


def claimed_tasks(
    frame: Frame, names: list[str], tasks: Labels
) -> tuple[Labels, Codes]:
    """What the task columns of a table say, among the tasks of a model.

    Returns
    -------
    labels : ndarray of shape (n,)
        As the table has them; None where there is none.
    codes : ndarray of shape (n,)
        Numbers of the tasks; MISSING where one is unknown, or a row has none.
    """
    refuse_missing_columns(frame, task=names)
    labels = task_labels(frame, names)
    return labels, find(labels_like(labels, tasks, names), tasks)[0]


def labels_like(labels: Labels, tasks: Labels, names: Sequence[str]) -> Labels:
    """Labels in the type of the tasks of a model: 7 as "7", or "7" as 7.

    Labels that cannot be converted stay as they are, and their tasks are unknown. If
    none can be converted the table is refused: otherwise all its rows would be unknown.
    """
    if labels.dtype.kind == tasks.dtype.kind != "O":
        return labels
    known_types = {type(label) for label in tasks.tolist()}
    distinct = {label for label in labels.tolist() if label is not None}
    if not distinct or len(known_types) > 1:
        return labels
    changed: dict[Hashable, str | int] = {}
    if known_types == {str}:
        # Texts as "007" are not what numbers are written as.
        if any(whole_number(task) is not None for task in tasks.tolist()):
            changed = {label: str(label) for label in distinct}
    else:
        for label in distinct:
            number = whole_number(label) if isinstance(label, str) else None
            if number is not None:
                changed[label] = number
    of_known_type = any(type(label) in known_types for label in distinct)
    if not changed and not of_known_type:
        seen = "texts" if known_types == {str} else "numbers"
        raise TableError(
            f"The task column {shortlist(names, 3)} held {seen} when the model was "
            f"fitted, and holds {min(distinct)!r} now",
            remedy="Convert it.",
        )
    return as_labels([changed.get(label, label) for label in labels.tolist()])


def refuse_unknown_tasks(labels: Labels, codes: Codes, names: Sequence[str]) -> None:
    """Refuse rows (n,) without a task, and rows of a task that has no code."""
    is_unknown = codes == MISSING
    refuse_rows_without_task(labels, is_unknown, names)
    if not is_unknown.any():
        return
    row = int(np.argmax(is_unknown))
    raise UnknownTaskError(
        f"has the unknown task {labels.tolist()[row]!r} in the column "
        f"{shortlist(names, 3)} ({int(is_unknown.sum())} in all)",
        row=row,
        remedy='Enrol it, or use unknown="pooled" to compare it with all tasks.',
    )


def refuse_rows_without_task(
    labels: Labels, needed: Mask, names: Sequence[str]
) -> None:
    """Refuse rows (n,) that need a task and have none."""
    if labels.dtype != object:  # native arrays have no missing labels
        return
    is_missing = np.array([label is None for label in labels.tolist()], dtype=bool)
    rows = np.flatnonzero(is_missing & needed)
    if len(rows):
        raise TableError(
            f"has no value in the task column {shortlist(names, 3)} "
            f"({len(rows)} in all)",
            row=int(rows[0]),
            remedy="Fill it in or remove them.",
        )
