"""Settings, and how good they are, told from training rows.

The same splits and the same area under the ROC curve judge our methods and their rivals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from manyone._types import Array, Codes, Mask
from manyone.rows import TrainingRows, places, renumbered, row_blocks

#: Parameters that :class:`JointOCKSR` has too.
SHARED = ("kernel", "gamma", "width", "degree", "coef0", "alpha", "metric")
_FOLDS = 3
# Rows that settings are judged by at least, and what eigendecompositions may cost beyond that.
FEWEST_ROWS, _CUBES = 1000, 2e10
#: Below this a half of the tasks has a single one, and no other task in the model to tell it from.
FEWEST_TASKS_TO_HALVE = 4


class Judged(NamedTuple):
    """A setting and how it did: AUC per task or fold, and where that comes from."""

    setting: dict[str, Any]
    aucs: Array
    stage: str


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

    train: Mask
    test: Mask
    enrolled: Mask


def fold_splits(
    codes: Codes,
    outlier: Mask,
    kind: str,
    *,
    task_order: Codes | None = None,
    group: Codes | None = None,
) -> Iterator[Split]:
    """Three folds inside the tasks, for one half of the tasks and then for the other.

    A model is fitted to two folds of every task of a half. The third fold has its positives; the
    negatives of a task are the rows of the other tasks of that fold that are in the model
    (``"seen"``), or all rows of the other half (``"unseen"``). Both kinds of anomaly are thus
    judged by the same models. Fewer than four tasks are not halved for ``"seen"``, because half of
    them would leave a task without negatives.

    Folds of a task differ by at most one row. The only normal row of a task stays in the model:
    without it there would be none. Rows of a group share a fold; the only group of a task
    stays. Known outliers are dealt to the folds as well; those without a task are in every model.
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
        The tasks in the order in which they are dealt to the halves; None is by number.
    group : ndarray of shape (n,) or None
        Rows of one number, which belongs to one task, are dealt as one.

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
    n_tasks = int(codes.max(initial=-1)) + 1
    # Place of each row among those of its task, and of each outlier among all outliers.
    fold, size = places(np.where(outlier, -1, codes), group)
    fold %= _FOLDS
    half = np.empty(n_tasks, dtype=np.intp)
    half[np.arange(n_tasks) if task_order is None else task_order] = (
        np.arange(n_tasks) % 2
    )
    if kind == "seen" and n_tasks < FEWEST_TASKS_TO_HALVE:
        half[:] = 0
    of_task = codes >= 0
    # The task -1 comes last, with no half.
    half, single = np.append(half, -1)[codes], (size == 1) & ~outlier
    for part, k in itertools.product(range(2), range(_FOLDS)):
        enrolled = (half == part) | ~of_task
        held_out = (fold == k) & ~(enrolled & single)
        split = Split(enrolled & ~held_out, held_out | ~enrolled, enrolled)
        if np.any(split.train & ~outlier) and np.any(split.test & enrolled & ~outlier):
            yield split


def fold_aucs(
    scores_of: Callable[[Codes, Codes], Array], rows: TrainingRows, kind: str
) -> Array:
    """AUC per split of rows, mean over its tasks, by refitted models.

    Parameters
    ----------
    scores_of : callable
        Fits to the rows given by number first and scores those given second against every task of
        the first, in the order of their codes.
    rows : TrainingRows
    kind : {"seen", "unseen", "both"}
        For ``"both"`` the mean of both kinds.

    Returns
    -------
    ndarray of shape (k,)
        In the order of :func:`fold_splits`; NaN where there is nothing to compare.
    """
    found = []
    for train, test, enrolled in fold_splits(
        rows.codes, rows.outlier, kind, task_order=content_order(rows), group=rows.group
    ):
        scores = scores_of(np.flatnonzero(train), np.flatnonzero(test))
        used = np.unique(rows.codes[train & ~rows.outlier])
        abnormal, mass = rows.outlier[test], rows.weight[test]
        known = enrolled[test] & ~abnormal
        owner = np.where(known, renumbered(rows.codes[test], used), -1)
        means = []
        for one in ("seen", "unseen") if kind == "both" else (kind,):
            if one == "seen":
                part = known | abnormal
                aucs = task_aucs(scores[part], owner[part], weight=mass[part])
            else:  # rows of other tasks of the model are of a kind that it has seen
                aucs = _against(scores, owner, ~known, mass)
            means.append(finite_mean(aucs))
        found.append(finite_mean(np.array(means)))
    return np.array(found)


def content_order(rows: TrainingRows) -> Codes:
    """Tasks in the order of their rows' content, whatever they are called, shape (T,)."""
    least = np.full(rows.n_tasks, rows.content.max() + 1)
    of_task = rows.codes >= 0
    np.minimum.at(least, rows.codes[of_task], rows.content[of_task])
    return np.argsort(least, kind="stable")


def finite_mean(values: Array) -> float:
    """Mean of the finite values; NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def beats(new: Array, old: Array, errors: float = 1.0) -> bool:
    """Whether values are better than others, pair by pair, by more than some standard errors."""
    gain = new - old
    gain = gain[np.isfinite(gain)]
    return len(gain) > 1 and bool(
        gain.mean() > errors * gain.std(ddof=1) / np.sqrt(len(gain))
    )


def task_aucs(
    scores: Array,
    codes: Codes,
    outlier: Mask | None = None,
    weight: Array | None = None,
) -> Array:
    """Area under the ROC curve of each task: its normal rows against all other rows.

    Parameters
    ----------
    scores : ndarray of shape (..., n, T)
        Score of every row against every task.
    codes : ndarray of shape (n,)
        Task of each row; any other value than 0..T-1 makes it a negative of every task.
    outlier : ndarray of bool of shape (n,) or None
        Rows that are negatives of every task, their own included.
    weight : ndarray of shape (n,) or None
        Counts.

    Returns
    -------
    ndarray of shape (..., T)
        NaN where a task has no positive or no negative row. Ties count one half.
    """
    *stack, n, T = scores.shape
    owner = codes if outlier is None else np.where(outlier, -1, codes)
    # One line per curve.
    curves = np.ascontiguousarray(np.moveaxis(scores, -1, -2)).reshape(-1, n)
    task = np.resize(np.arange(T), len(curves))
    mass = np.ones(n) if weight is None else weight
    positives = np.bincount(owner[owner >= 0], mass[owner >= 0], T)[:T]
    pairs = (positives * (mass.sum() - positives))[task]
    if n and np.all(mass == mass[0]) and not np.any(np.isnan(curves)):
        positive = owner == task[:, None]
        count = positive.sum(axis=1)
        ranks = rankdata(curves, axis=1)
        wins = np.einsum("cn,cn->c", ranks, positive) - count * (count + 1) / 2.0
        wins *= mass[0] ** 2
    else:
        wins = np.zeros(len(curves))
        for line, curve in enumerate(curves):
            own = owner == task[line]
            wins[line] = _wins(curve[own], curve[~own], mass[own], mass[~own])
    aucs = np.divide(wins, pairs, out=np.full(len(wins), np.nan), where=pairs > 0)
    return aucs.reshape(*stack, T)


def own_aucs(scores: Array, codes: Codes, outlier: Mask, n_tasks: int) -> Array:
    """Area under the ROC curve of each task: its normal rows against its own abnormal ones.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Score of every row against its task.
    codes : ndarray of shape (n,)
        Task of each row, from 0 to T - 1.
    outlier : ndarray of bool of shape (n,)
    n_tasks : int
        T.

    Returns
    -------
    ndarray of shape (T,)
        NaN where a task has no normal or no abnormal row. Ties count one half.
    """
    order = np.lexsort((scores, codes))
    scores, codes, normal = scores[order], codes[order], ~outlier[order]
    changes = (
        np.flatnonzero((codes[1:] != codes[:-1]) | (scores[1:] != scores[:-1])) + 1
    )
    # Abnormal rows so far, in all tasks: before equal scores, and with them.
    below = np.append(0, np.cumsum(~normal))
    first, last = np.append(0, changes), np.append(changes, len(scores))
    level = np.repeat(0.5 * (below[first] + below[last]), last - first)
    level -= below[np.searchsorted(codes, codes)]
    positives, rows = (np.bincount(codes, each, n_tasks) for each in (normal, None))
    pairs = positives * (rows - positives)
    wins = np.bincount(codes, level * normal, n_tasks)
    return np.divide(wins, pairs, out=np.full(n_tasks, np.nan), where=pairs > 0)


def _against(scores: Array, owner: Codes, negative: Mask, mass: Array) -> Array:
    """AUC (T,) of the rows of each task against the same negatives; scores are (n, T)."""
    own, T = np.flatnonzero(owner >= 0), scores.shape[1]
    task, mine, against = owner[own], scores[own, owner[own]], scores[negative]
    won = np.empty(len(own))
    for part in row_blocks(len(own), 4 * len(against)):
        others = against[:, task[part]]
        won[part] = mass[negative] @ (
            (others < mine[part]) + 0.5 * (others == mine[part])
        )
    pairs = np.bincount(task, mass[own], T) * mass[negative].sum()
    wins = np.bincount(task, mass[own] * won, T)
    return np.divide(wins, pairs, out=np.full(T, np.nan), where=pairs > 0)


def _wins(scores: Array, against: Array, mass: Array, weight: Array) -> float:
    """Weight of the pairs won by scores against others, those that tie counted half."""
    order = np.argsort(against)
    ascending = against[order]
    cumulative_weight = np.concatenate([[0.0], np.cumsum(weight[order])])
    below = cumulative_weight[np.searchsorted(ascending, scores, side="left")]
    up_to = cumulative_weight[np.searchsorted(ascending, scores, side="right")]
    return float((below + up_to) @ mass) / 2.0


def thinned(
    rows: TrainingRows, max_rows: int | str, values: Mapping[str, Sequence[Any]]
) -> TrainingRows:
    """Rows to judge by, of as many tasks as possible; which ones, their content decides."""
    if isinstance(
        max_rows, str
    ):  # a number that depends on nothing but what is asked for
        settings = math.prod(map(len, values.values())) / len(values.get("alpha", "1"))
        max_rows = max(FEWEST_ROWS, int(np.cbrt(_CUBES / settings)))
    if len(rows.codes) <= max_rows:
        return rows
    of_task = rows.codes >= 0
    counts = np.bincount(rows.codes[of_task], minlength=rows.n_tasks)
    # Two rows a task at least, or there is nothing to leave out; large tasks give way first.
    used = np.sort(content_order(rows)[: max(2, max_rows // 2)])
    sizes, quota = counts[used], max_rows
    while np.minimum(sizes, quota).sum() > max_rows and quota > 2:
        quota -= max(1, quota // 100)
    wanted = np.zeros(rows.n_tasks + 1, dtype=np.intp)
    wanted[used] = np.minimum(sizes, quota)
    # Rows of a task are in the order of their content: every so many-th.
    starts = np.cumsum(counts) - counts
    place = np.arange(len(rows.codes)) - np.append(starts, 0)[rows.codes]
    size, wanted = np.append(counts, 1)[rows.codes], wanted[rows.codes]
    kept = (place * wanted // size) != ((place - 1) * wanted // size)
    part = rows.take(np.flatnonzero(kept | ~of_task))
    return replace(part, codes=renumbered(part.codes, used), n_tasks=len(used))
