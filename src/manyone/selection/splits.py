"""Training rows cut into rows to fit to and rows to judge by: one splitter for every method."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FOLDS = 3
# Below this a half of the tasks has a single one, and no other task in the model to tell it from.
_FEWEST_TASKS_TO_HALVE = 4


class Split(NamedTuple):
    """One way to judge a setting, as masks over the rows.

    Attributes
    ----------
    train : ndarray of bool of shape (n,)
        Rows to fit to.
    test : ndarray of bool of shape (n,)
        Rows to judge by: held out of `train`, or of tasks that are not in the model.
    enrolled : ndarray of bool of shape (n,)
        Rows whose task is in the model, and known outliers without a task.
    """

    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    enrolled: NDArray[np.bool_]


def fold_splits(
    codes: NDArray[np.intp],
    outlier: NDArray[np.bool_],
    kind: str,
    *,
    task_order: NDArray[np.intp] | None = None,
    row_order: NDArray[np.intp] | None = None,
) -> Iterator[Split]:
    """Three folds inside the tasks, for one half of the tasks and then for the other.

    A model is fitted to two folds of every task of a half. The third fold has its positives; the
    negatives of a task are the rows of the other tasks of that fold that are in the model
    (``"seen"``), or all rows of the other half (``"unseen"``). Both kinds are thus judged by the
    same models. For ``"seen"`` fewer than four tasks are not halved: each needs another one.

    Folds of a task differ by at most one row. The only normal row of a task stays in the model.
    Known outliers are dealt to the folds as well; those without a task belong to every model.
    Splits without a row to fit to, or without one to judge by, are left out.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Number of the task of each row, from 0; -1 for outliers without a task.
    outlier : ndarray of bool of shape (n,)
        Known outliers.
    kind : {"seen", "unseen", "both"}
        Where the negatives will come from.
    task_order : ndarray of shape (T,) or None
        The tasks in the order in which they are dealt to the halves; None is by number. An order
        made from the rows themselves makes the splits independent of the names of the tasks.
    row_order : ndarray of shape (n,) or None
        The rows in the order in which they are dealt to the folds; None is by position. An order
        made from the content of the rows makes the splits independent of their positions.

    Yields
    ------
    Split

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.repeat([0, 1, 2, 3], 3)
    >>> first, *others = fold_splits(codes, np.zeros(12, dtype=bool), "unseen")
    >>> len(others), codes[first.train].tolist(), codes[first.test].tolist()
    (5, [0, 0, 2, 2], [0, 1, 1, 1, 2, 3, 3, 3])
    """
    n_tasks, of_task = int(codes.max(initial=-1)) + 1, codes >= 0
    fold = _places(codes, outlier, row_order) % _FOLDS
    half = np.zeros(n_tasks, dtype=np.intp)
    if kind != "seen" or n_tasks >= _FEWEST_TASKS_TO_HALVE:
        half[slice(None) if task_order is None else task_order] = np.arange(n_tasks) % 2
    counts = np.bincount(codes[of_task & ~outlier], minlength=n_tasks)
    # The task -1 comes last, with no half and no single row.
    half, single = np.append(half, -1)[codes], np.append(counts == 1, False)[codes] & ~outlier
    for part, k in itertools.product(range(2), range(_FOLDS)):
        enrolled = (half == part) | ~of_task
        held_out = (fold == k) & ~(enrolled & single)
        split = Split(enrolled & ~held_out, held_out | ~enrolled, enrolled)
        if np.any(split.train & ~outlier) and np.any(split.test & enrolled & ~outlier):
            yield split


def _places(
    codes: NDArray[np.intp], outlier: NDArray[np.bool_], row_order: NDArray[np.intp] | None
) -> NDArray[np.intp]:
    """Place of each row among those of its task, and of each outlier among all outliers, (n,)."""
    row_order = np.arange(len(codes)) if row_order is None else row_order
    group = np.where(outlier, -1, codes)[row_order]
    order = row_order[np.argsort(group, kind="stable")]
    _, counts = np.unique(group, return_counts=True)
    places = np.empty(len(codes), dtype=np.intp)
    places[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places
