"""Labels and other arguments with one value per row: checks, columns, codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manyone._sklearn import check_sample_weight
from manyone._types import Array, Codes, Labels, Mask
from manyone.data import checks
from manyone.data.groups import MISSING


def one_per_row(name: str, values: object, n_rows: int) -> Labels:
    """The values (n_rows,) of an argument with one value per row."""
    array = values if isinstance(values, np.ndarray) else None
    if array is not None and array.dtype.kind in "iubU" and array.shape == (n_rows,):
        return array
    if not isinstance(values, list):
        checks.refuse_unless_listed(name, values)
    try:
        labels = as_labels(values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if len(labels) != n_rows:
        raise ValueError(
            f"{name} has {len(labels)} values but X has {n_rows} rows: one per row."
        )
    return labels


def check_outlier(outlier: object, n_rows: int) -> Mask:
    """Mask of known outliers, shape (n_rows,)."""
    mask = one_per_row("outlier", outlier, n_rows)
    checks.refuse_unless_boolean(mask)
    return mask.astype(bool)


def check_weight(weight: object, X: object) -> Array:
    """Counts of the rows, shape (n,): finite, not negative, not all zero."""
    if isinstance(weight, str):
        raise ValueError(f"sample_weight must be one number per row; got {weight!r}.")
    counts: Array = check_sample_weight(
        weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not np.any(counts > 0):
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    return np.asarray(counts)


def split_columns(X: object, **roles: object) -> tuple[Any, ...]:
    """Take the columns that arguments name out of a data frame.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d)
    **roles : str, array-like or None
        A string is the name of a column of `X`.

    Returns
    -------
    names, X, *values
        The column of each role that names one, the frame without these columns, and
        the value of each role.
    """
    names = {role: name for role, name in roles.items() if isinstance(name, str)}
    for role, name in names.items():
        X, roles[role] = checks.take_column(X, role, name)
    return names, X, *roles.values()


def split_labels(
    X: object, columns: Mapping[str, str], **roles: object
) -> tuple[Any, ...]:
    """Take labels out of new rows by the columns that a fitted model remembers.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d)
    columns : dict
        Column of each role in the fit: ``{"task": "machine"}``.
    **roles : str, array-like or None
        As in `split_columns`. None: the column of the fit, where `X` has it.

    Returns
    -------
    X, *values
        The rows without columns of labels, and the value of each role.
    """
    frame = checks.as_frame(X) if columns else None
    for role, value in roles.items():
        if frame is not None and value is None and columns.get(role) in frame.columns:
            roles[role] = columns[role]
    _, X, *values = split_columns(X, **roles)
    return without_columns(X, columns), *values


def without_columns(X: object, columns: Mapping[str, str]) -> Any:
    """A data frame without columns of labels; rows of other kinds as they are."""
    frame = checks.as_frame(X) if columns else None
    if frame is None:
        return X
    return frame.drop(list(columns.values()), strict=False).to_native()


def as_labels(task: object) -> Labels:
    """One-dimensional array of labels; missing ones (None, NaN, NaT, NA) become None.

    Of a native NumPy type where all labels share one, else of type object.
    """
    if isinstance(task, np.ndarray) and task.ndim == 1 and task.dtype.kind in "iubU":
        return task
    plain = [checks.plain_label(label) for label in checks.as_sequence(task)]
    # Native arrays are searched fast. They are used where they hold the same labels:
    # NumPy turns large integers into floats, and strips trailing NULs.
    if {type(label) for label in plain} in ({str}, {int}, {bool}, {float}):
        native = np.array(plain)
        if native.dtype.kind in "Uibf" and native.tolist() == plain:
            return native
    # Element by element: NumPy would turn equal-length tuples into a matrix.
    labels = np.empty(len(plain), dtype=object)
    for i, label in enumerate(plain):
        labels[i] = label
    return labels


def encode(labels: Labels) -> tuple[Labels, Codes]:
    """Sorted labels (T,), and the code (n,) of each row; MISSING for None."""
    if labels.dtype != object:
        tasks = np.unique(labels)
        # Of texts, faster than with `return_inverse`, which sorts all rows.
        return tasks, np.searchsorted(tasks, labels)
    tasks = as_labels(checks.sorted_labels(labels))
    return tasks, lookup(labels, tasks)


def lookup(labels: Labels, tasks: Labels) -> Codes:
    """Codes (n,) of labels among `tasks`, MISSING for None; unknown ones raise."""
    codes, unknown = find(labels, tasks)
    if unknown.any():
        raise ValueError(checks.unknown_task(labels[unknown][0], tasks))
    return codes


def find(labels: Labels, tasks: Labels) -> tuple[Codes, Mask]:
    """Codes (n,) of labels among `tasks`, or MISSING, and which labels are unknown."""
    if labels.dtype != object and tasks.dtype.kind == labels.dtype.kind and len(tasks):
        codes = np.searchsorted(tasks, labels)
        codes[codes == len(tasks)] = 0
        unknown = tasks[codes] != labels
        return np.where(unknown, MISSING, codes), unknown
    index = {task: code for code, task in enumerate(tasks.tolist())}
    index[None] = MISSING
    checks.refuse_unhashable(labels)
    codes = np.array([index.get(label, -2) for label in labels.tolist()], dtype=np.intp)
    return np.maximum(codes, MISSING), codes == -2
