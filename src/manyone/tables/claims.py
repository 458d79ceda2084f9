"""Which task each row of a table claims to be of, among the tasks of a model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from manyone._types import Codes, Labels, Mask
from manyone.data.labels import as_labels, find
from manyone.data.rows import MISSING
from manyone.messages import shortlist
from manyone.tablefiles.values import whole_number
from manyone.tables.errors import TableError, UnknownTaskError
from manyone.tables.frames import Frame, refuse_missing_columns, task_labels


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
