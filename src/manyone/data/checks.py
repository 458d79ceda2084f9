"""Refusals of rows and labels: what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from manyone._types import Array, Codes, Labels, Mask, Rows
from manyone.capabilities import methods_that
from manyone.messages import shortlist, warn_user


def no_metric(metric: str) -> str:
    """Why a metric cannot be learned."""
    return (
        f'metric="{metric}" needs dense rows, not sparse ones or kernel="precomputed".'
    )


def as_frame(X: object) -> Any:
    """`X` as a narwhals data frame, or None if it is not one."""
    if isinstance(X, np.ndarray):
        return None
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def take_column(X: object, role: str, name: str) -> tuple[Any, Any]:
    """Take the column `name` that the parameter `role` names out of a data frame."""
    frame = as_frame(X)
    if hasattr(X, "collect") and frame is None:
        raise ValueError(
            f"X is a lazy frame: call .collect() first to use {role}={name!r}."
        )
    if frame is None:
        kind = type(X).__name__
        raise ValueError(
            f"{role}={name!r} names a column: X must be a DataFrame, got {kind}."
        )
    if name not in frame.columns:
        columns = shortlist(frame.columns, 8)
        raise ValueError(
            f"{role}={name!r} is not a column of X. Its columns are: {columns}."
        )
    if len(frame.columns) == 1:
        raise ValueError(f"X has no feature left beside {role}={name!r}: add a column.")
    return frame.drop(name).to_native(), frame[name]


# ------------------------------------------------------------------------------- labels


def as_sequence(task: object) -> Any:
    """Labels as something to iterate over; refuses tables and mappings."""
    is_array = isinstance(task, np.ndarray)
    if isinstance(task, np.ndarray) and task.ndim == 1:
        return task
    if type(task) is list:
        return task
    if is_array or as_frame(task) is not None or isinstance(task, Mapping):
        what = f"a {type(task).__name__}"
        if isinstance(task, np.ndarray):
            what = f"an array of shape {task.shape}"
        raise ValueError(
            f"labels must be one value per row; got {what}. Pass one column of it."
        )
    series = nw.from_native(task, series_only=True, pass_through=True)
    return series.to_list() if isinstance(series, nw.Series) else task


def plain_label(label: object) -> Any:
    """A label as a plain Python object; missing markers of any library become None."""
    if label is None or type(label) is str:
        return label
    if hasattr(label, "as_py"):  # pyarrow scalars
        return plain_label(label.as_py())
    try:
        if label != label:  # NaN and its relatives
            return None
    except TypeError:  # pandas.NA
        return None
    except ValueError:  # an array: the complaint about unhashable labels follows
        return label
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":
        return label.item()
    return label


def sorted_labels(labels: Labels) -> list[Any]:
    """Distinct labels of any types, without None, by type and name."""
    refuse_unhashable(labels)
    distinct = dict.fromkeys(label for label in labels.tolist() if label is not None)

    def key(label: object) -> tuple[str, Any]:
        comparable = isinstance(label, str | int | float | bool)
        return type(label).__name__, label if comparable else repr(label)

    return sorted(distinct, key=key)


def refuse_unhashable(labels: Labels) -> None:
    """Raise if labels cannot be keys of a dictionary."""
    try:
        hash(tuple(labels.tolist()))
    except TypeError as error:
        raise ValueError(
            f"task labels must be hashable, such as strings: {error}."
        ) from None


def refuse_no_task(task: object, n_tasks: int, columns: Mapping[str, str]) -> None:
    """Raise if rows of a model with several tasks come without task labels."""
    if task is None and n_tasks > 1:
        column = columns.get("task")
        name = "" if column is None else f", or in the column {column!r}"
        raise ValueError(
            f"This model has {n_tasks} tasks: say which task each row claims with "
            f"task=...{name}. Or use score_tasks(X) to score rows against all of them."
        )


def unknown_task(label: object, tasks: Labels) -> str:
    """Sentences: a label is unknown, and these tasks are known."""
    label = label.item() if isinstance(label, np.generic) else label
    kind = type(tasks.tolist()[0]).__name__
    hint = (
        ""
        if type(label).__name__ == kind
        else f" Labels of this model are of type {kind}."
    )
    first_tasks = shortlist(tasks.tolist(), 5)
    return (
        f"Unknown task {label!r}. The model knows {len(tasks)} task(s): "
        f"{first_tasks}.{hint} Fit or enroll it first; score_tasks(X) compares rows "
        "with every known task."
    )


def refuse_rows_without_task(labels: Labels, outlier: Mask) -> None:
    """Raise if a normal row has no task."""
    lost = np.flatnonzero([label is None for label in labels] & ~outlier)
    if len(lost):
        raise ValueError(
            f"The task of row {lost[0]} is missing ({len(lost)} such row(s)). Only "
            "known outliers (outlier=True) may have none: remove these rows or fill in "
            "their task."
        )


def refuse_empty_tasks(codes: Codes, outlier: Mask, tasks: Labels) -> None:
    """Raise if a task has no normal row."""
    empty = np.bincount(codes[~outlier], minlength=len(tasks)) == 0
    if empty.any() or len(tasks) == 0:
        names = shortlist(tasks[empty].tolist(), 3) or "(none)"
        raise ValueError(
            f"Empty task: {names} has only known outliers. Add a normal row, or remove "
            "its rows."
        )


def warn_of_labels_in_y(y: object) -> None:
    """Warn if `y` looks like labels: it is ignored, and all rows are one task."""
    try:
        values = np.asarray(y)
        distinct = set(values.tolist())
    except (TypeError, ValueError):  # no labels, one for each row
        return
    if values.dtype.kind == "f":
        return
    if 1 < len(distinct) <= max(2, len(values) // 2) and not distinct <= {1, -1}:
        warn_user(
            f"y is ignored, but looks like labels ({len(distinct)} values, "
            f"{len(values)} rows): pass them as task=..., or as outlier=... if they "
            "say which rows are abnormal.",
            UserWarning,
        )


# -------------------------------------------------------------------------- masks, rows


def refuse_unless_listed(name: str, values: object) -> None:
    """Raise if an argument with one value per row is something else."""
    if (
        not hasattr(values, "__len__")
        or isinstance(values, str)
        or getattr(values, "ndim", 1) == 0
    ):
        raise ValueError(
            f"{name} must be one value per row, or name a column; got {values!r}."
        )


def refuse_unless_boolean(mask: Labels) -> None:
    """Raise if a mask of known outliers has other values than True and False."""
    values = set(mask.tolist())
    if not values <= {False, True}:
        shown = shortlist(sorted(map(str, values)), 5)
        raise ValueError(
            f"outlier must be True where a row is abnormal, else False; got {shown}."
        )


def symmetric_part(K: Any) -> Array:
    """A square precomputed kernel matrix, made symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f'kernel="precomputed" needs a square matrix; got shape {K.shape}.'
        )
    K = K.toarray() if sparse.issparse(K) else K
    return np.asarray(K + K.T) / 2


def warn_of_dominating_column(model: object, column: int) -> None:
    """Warn that one column alone decides how far rows are apart."""
    names = getattr(model, "feature_names_in_", None)
    name = column if names is None else repr(names[column])
    warn_user(
        f"In X column {name} varies over a thousand times more than every other: it "
        "alone decides how far rows are apart. Scale first, as with "
        "sklearn.preprocessing.StandardScaler.",
        UserWarning,
    )


def warn_of_copies(X: Rows, counts: Array) -> None:
    """Warn if many rows have a copy, which stays when they are left out.

    Rows of few values are alike by chance, and then it is right that their copies stay.
    So there is a warning only if a column has different values for nearly all distinct
    rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (k, d)
        Distinct rows.
    counts : ndarray of shape (k,)
        How often each of them occurs.
    """
    copies = counts.sum(where=counts > 1.0)
    total = counts.sum()
    # From a tenth of the rows on, copies make thresholds much too tight.
    if copies <= 0.1 * total or sparse.issparse(X):
        return
    if any(len(np.unique(column)) > 0.8 * len(counts) for column in X.T):
        warn_user(
            f"{copies:.9g} of {total:.9g} rows have a copy in their task. While one is "
            "left out the other stays, so thresholds are too tight: more new rows may "
            "raise an alarm than alarm_rate says. Drop copies, or let them leave "
            "together with groups=."
        )


def with_place(error: Exception, X: object) -> Exception:
    """The error of a check of scikit-learn, with the place of the first bad value."""
    where = _locate(X)
    if where is None:
        return error
    # scikit-learn wants a TypeError for objects that are no numbers at all.
    foreign = isinstance(error, TypeError) and as_frame(X) is None
    # Only the first line is of use: the others advise on supervised learning.
    what = str(error).partition("\n")[0]
    return (TypeError if foreign else ValueError)(f"{what}\n{where}")


def _locate(X: Rows) -> str | None:
    """The first value that is no finite number, and what to do about it."""
    if sparse.issparse(X):
        coo = X.tocoo()
        cells = zip(coo.data.tolist(), coo.row.tolist(), coo.col.tolist(), strict=True)
        return next(
            (_bad_value(*cell) for cell in cells if not np.isfinite(cell[0])), None
        )
    frame = as_frame(X)
    if hasattr(X, "collect") and frame is None:
        return "X is a lazy frame: call .collect() first."
    schema = {} if frame is None else frame.schema
    text = [
        name
        for name, kind in schema.items()
        if not (kind.is_numeric() or kind == nw.Boolean)
    ]
    if text:
        return (
            f"Column(s) {shortlist(text, 5)} of X are not numeric. Drop or encode them "
            "first, or name the one that holds the tasks with task=...."
        )
    values = np.asarray(X) if frame is None else frame.to_numpy()
    if values.ndim != 2 or values.dtype.kind == "c":
        return None
    names = range(values.shape[1]) if frame is None else frame.columns
    for name, column in zip(names, values.T, strict=True):
        try:
            numbers = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            return (
                f"Values of column {name!r} are no numbers ({error}): drop or encode "
                "it first."
            )
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            return _bad_value(float(numbers[bad[0]]), int(bad[0]), name)
    return None


def _bad_value(value: float, row: int, column: str | int) -> str:
    return (
        f"First bad value: {value} at row {row}, column {column!r}. Remove or impute "
        "such rows, or fit a TableModel, which takes gaps."
    )


def unable(cls: type, capability: str, what: str) -> str:
    """Sentence: a class cannot do something, and these estimators can."""
    able = " or ".join(methods_that(capability))
    return f"{cls.__name__} has no {what}. Use {able}."
