"""Task labels: from whatever the user has to integer codes, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.intp]
#: Code of a row whose task is missing (allowed for known outliers only).
MISSING = -1


def split_column(X: Any, task: Any, outlier: Any = None) -> tuple[Any, Any, Any]:
    """Take columns named by `task` and `outlier` out of a data frame.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d)
    task, outlier : str or array-like or None
        A string is the name of a column of `X`; anything else is passed through.

    Returns
    -------
    X, task, outlier
        The frame without the named columns, and their values.
    """
    taken = {"task": task, "outlier": outlier}
    for role, name in taken.items():
        if not isinstance(name, str):
            continue
        frame = as_frame(X)
        if hasattr(X, "collect") and frame is None:
            raise ValueError(f"X is a lazy frame: call .collect() first to use {role}={name!r}.")
        if frame is None:
            raise ValueError(
                f"{role}={name!r} names a column, but X is a {type(X).__name__} without named "
                f"columns. Pass a DataFrame, or one {role} value per row."
            )
        if name not in frame.columns:
            raise ValueError(
                f"{role}={name!r} is not a column of X. Its columns are: "
                f"{shortlist(frame.columns, 8)}."
            )
        if len(frame.columns) == 1:
            raise ValueError(f"X has no feature left beside {role}={name!r}: add a column.")
        taken[role] = frame[name]
        X = frame.drop(name).to_native()
    return X, taken["task"], taken["outlier"]


def as_frame(X: Any) -> Any:
    """`X` as a narwhals data frame, or None if it is not one."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def as_labels(task: Any) -> NDArray[Any]:
    """One-dimensional array of labels; missing ones (None, NaN, NaT, NA) become None.

    Parameters
    ----------
    task : sequence, array or data-frame column of length n

    Returns
    -------
    ndarray of shape (n,)
        Of a native NumPy type where all labels share one, else of type object.
    """
    if as_frame(task) is not None or isinstance(task, Mapping):
        raise ValueError(
            f"labels must be one value per row; got a {type(task).__name__}. "
            "Pass one column of it, or the column's name."
        )
    series = nw.from_native(task, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        task = series.to_list()
    if isinstance(task, np.ndarray) and task.ndim != 1:
        raise ValueError(
            f"labels must be one value per row; got an array of shape {task.shape}. "
            "Flatten it with .ravel() if it is a single column."
        )
    if isinstance(task, np.ndarray) and task.dtype.kind in "iub":
        return task
    plain = [_plain(label) for label in task]
    # Native arrays are searched fast; they must give back what they were given (NumPy turns large
    # integers into floats and strips trailing NULs).
    if {type(label) for label in plain} in ({str}, {int}, {bool}, {float}):
        native = np.array(plain)
        if native.dtype.kind in "Uibf" and native.tolist() == plain:
            return native
    # Element by element: NumPy would turn equal-length tuples into a matrix.
    labels = np.empty(len(plain), dtype=object)
    for i, label in enumerate(plain):
        labels[i] = label
    return labels


def _plain(label: Any) -> Any:
    # Missing markers of NumPy, pandas and friends: not equal to themselves, or not comparable.
    if label is None:
        return None
    if hasattr(label, "as_py"):  # pyarrow scalars
        return _plain(label.as_py())
    try:
        if label != label:
            return None
    except TypeError:
        return None
    except ValueError:  # an array: the complaint about unhashable labels follows
        return label
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":
        return label.item()
    return label


def encode(labels: NDArray[Any]) -> tuple[NDArray[Any], Codes]:
    """Sorted distinct labels and the code of each row (MISSING where the label is None).

    Parameters
    ----------
    labels : ndarray of shape (n,)

    Returns
    -------
    tasks : ndarray of shape (T,)
    codes : ndarray of shape (n,)
    """
    if labels.dtype != object:
        tasks, codes = np.unique(labels, return_inverse=True)
        return tasks, codes
    try:
        known = list(dict.fromkeys(label for label in labels if label is not None))
    except TypeError as error:
        raise ValueError(
            f"task labels must be hashable, such as strings, numbers or tuples: {error}."
        ) from None
    # Labels of several types have no natural order; names of types and values do.
    known.sort(key=lambda label: (type(label).__name__, label if _sortable(label) else repr(label)))
    tasks = as_labels(known) if known else np.empty(0, dtype=object)
    return tasks, lookup(labels, tasks)


def _sortable(label: Any) -> bool:
    return isinstance(label, str | int | float | bool)


def lookup(labels: NDArray[Any], tasks: NDArray[Any]) -> Codes:
    """Code of each label among `tasks`; MISSING where the label is None.

    Parameters
    ----------
    labels : ndarray of shape (n,)
    tasks : ndarray of shape (T,)

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        If a label is not among the tasks; the message lists a few that are.
    """
    if labels.dtype != object and tasks.dtype.kind == labels.dtype.kind and len(tasks):
        codes = np.searchsorted(tasks, labels)
        codes[codes == len(tasks)] = 0
        strangers = tasks[codes] != labels
    else:
        index = {task: code for code, task in enumerate(tasks.tolist())}
        index[None] = MISSING
        try:
            codes = np.array([index.get(label, -2) for label in labels.tolist()], dtype=np.intp)
        except TypeError as error:
            raise ValueError(
                f"task labels must be hashable, such as strings, numbers or tuples: {error}."
            ) from None
        strangers = codes == -2
    if np.any(strangers):
        raise ValueError(unknown_task(labels[strangers][0], tasks))
    return codes


def unknown_task(label: Any, tasks: NDArray[Any]) -> str:
    """Sentence that says which tasks there are."""
    label = label.item() if isinstance(label, np.generic) else label
    kind = type(tasks.tolist()[0]).__name__
    hint = "" if type(label).__name__ == kind else f" Labels of this model are of type {kind}."
    return (
        f"Unknown task {label!r}. The model knows {len(tasks)} task(s): "
        f"{shortlist(tasks.tolist(), 5)}.{hint} Use enroll(X, task=...) to add one, or "
        "score_tasks(X) to compare rows with every known task."
    )


def shortlist(items: Sequence[Any], most: int) -> str:
    """The first few items, quoted, and how many more there are."""
    shown = ", ".join(repr(item) for item in items[:most])
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")


def group_rows(codes: Codes, n_tasks: int) -> tuple[Codes, Codes]:
    """Row numbers sorted by task, and where each task starts.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Codes in ``range(n_tasks)``.
    n_tasks : int

    Returns
    -------
    order : ndarray of shape (n,)
        Stable: rows of a task keep their order.
    starts : ndarray of shape (n_tasks + 1,)
        Rows of task t are ``order[starts[t]:starts[t + 1]]``.
    """
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_tasks))])
    return order, starts


def responses(codes: Codes, outlier: NDArray[np.bool_], n_tasks: int) -> NDArray[np.float64]:
    """One-hot responses R: 1 for the row's own task, all 0 for a known outlier.

    Parameters
    ----------
    codes : ndarray of shape (n,)
    outlier : ndarray of shape (n,)
    n_tasks : int

    Returns
    -------
    ndarray of shape (n, n_tasks), Fortran order
    """
    R = np.zeros((len(codes), n_tasks), order="F")
    normal = np.flatnonzero(~outlier)
    R[normal, codes[normal]] = 1.0
    return R
