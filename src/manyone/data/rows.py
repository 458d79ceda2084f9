"""Rows and their tasks as arrays, made from the arguments of `fit` and of scoring."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import sklearn
from scipy import sparse
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from manyone._types import Array, Codes, Labels, Mask, Rows
from manyone.data import checks
from manyone.data.groups import MISSING, TimeBlocks, group_numbers, joined_groups
from manyone.data.labels import (
    check_outlier,
    check_weight,
    encode,
    one_per_row,
    split_columns,
)


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows whose tasks are numbers.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        Of a precomputed kernel, its matrix of shape (n, n).
    codes : ndarray of shape (n,)
        Task of each row; MISSING for outliers of every task.
    outlier : ndarray of bool of shape (n,)
    weight : ndarray of shape (n,)
        Counts.
    """

    X: Rows
    codes: Codes
    outlier: Mask
    weight: Array

    def take(self, rows: Any) -> CodedRows:
        """The rows selected by an index."""
        columns = (self.X, self.codes, self.outlier, self.weight)
        return CodedRows(*(values[rows] for values in columns))

    def as_new(self, rows: Codes) -> Rows:
        """Selected rows in the form of new rows, which scoring methods take."""
        return self.X[rows]


@dataclass(frozen=True, eq=False)
class TrainingRows(CodedRows):
    """Rows of a fit: without zero weights, sorted by task, then by content.

    Outliers of every task come last. So a model is the same to the last bit, whatever
    the order of the rows that a user gives.

    Attributes
    ----------
    content : ndarray of shape (n,)
        Equal for equal rows (of a precomputed kernel: equal rows of its matrix), else
        different.
    n_tasks : int
    columns : ndarray of shape (n,) or None
        For a precomputed kernel: place of each row in the matrix of the user.
    group : ndarray of shape (n,) or None
        Number of the group of each row. A group has rows of one task, which are left
        out together. None: every row is left out by itself.
    forward : bool or int
        Whether groups are blocks in the order of time, each judged by earlier blocks of
        its task. A number: only in tasks with at least that many normal rows.
    moment : ndarray of shape (n,) or None
        Place of each row in the order of time, among the rows of its task. None: the
        order is not known.
    """

    content: Codes
    n_tasks: int
    columns: Codes | None = None
    group: Codes | None = None
    forward: bool | int = False
    moment: Codes | None = None

    @classmethod
    def none(cls, n_tasks: int) -> TrainingRows:
        """No rows, of `n_tasks` tasks: models fitted by passes hold none."""
        codes = np.zeros(0, dtype=np.intp)
        outlier = np.zeros(0, dtype=bool)
        return cls(np.empty((0, 0)), codes, outlier, np.zeros(0), codes, n_tasks)

    def take(self, rows: Any) -> TrainingRows:
        """The rows selected by an index, and the same columns of a kernel matrix."""
        X = self.X[rows]
        if self.columns is not None:
            X = X[:, rows]
        parts: dict[str, Any] = {"X": X}
        names = ("codes", "outlier", "weight", "content", "columns", "group", "moment")
        for name in names:
            value = getattr(self, name)
            parts[name] = None if value is None else value[rows]
        return replace(self, **parts)

    def as_new(self, rows: Codes) -> Rows:
        """Selected rows in the form of new rows, which scoring methods take."""
        X = self.X[rows]
        if self.columns is None:
            return X
        # New rows have kernel values against all rows of the user's matrix.
        values = np.zeros((len(rows), int(self.columns.max()) + 1))
        values[:, self.columns] = X
        return values

    def keys(self, like: TrainingRows) -> Codes:
        """Integer keys (n,), equal for copies of a row in one task and group.

        Two sets of rows have comparable keys if both take them like the same set.
        """
        key = ((self.codes + 1) * 2 + self.outlier) * (
            like.content.max() + 1
        ) + self.content
        if self.group is None or like.group is None:
            return key
        return key * (like.group.max() + 2) + self.group + 1

    def merged(self) -> tuple[TrainingRows, Codes]:
        """Copies merged to one row of their total weight, and the place of each row."""
        key = self.keys(self)
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        if len(first) == len(key):
            return self, np.arange(len(key))
        order = np.argsort(first)  # merged rows keep the order of the rows
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        weight = np.bincount(rank[place], self.weight).astype(np.float64)
        return replace(self.take(first[order]), weight=weight), rank[place]

    def shared_out(self) -> TrainingRows:
        """Each outlier of every task replaced by one outlier of each task."""
        missing = np.flatnonzero(self.codes == MISSING)
        if not len(missing):
            return self
        of_tasks = np.flatnonzero(self.codes != MISSING)
        rows = self.take(np.concatenate([of_tasks, np.tile(missing, self.n_tasks)]))
        codes = np.repeat(np.arange(self.n_tasks), len(missing))
        rows = replace(rows, codes=np.concatenate([self.codes[of_tasks], codes]))
        return rows.take(np.argsort(rows.codes, kind="stable"))

    def by_task(self) -> TrainingRows:
        """The rows sorted as those of a fit are."""
        last = np.where(self.codes == MISSING, self.n_tasks, self.codes)
        return self.take(np.lexsort((self.content, last)))

    def recoded(self, codes: Codes, n_tasks: int) -> TrainingRows:
        """The rows with new numbers for the tasks (T,); a negative one drops a task."""
        # MISSING is -1: it picks the last entry, which is MISSING again.
        new = np.append(codes, MISSING)[self.codes]
        staying = np.flatnonzero((new >= 0) | (self.codes == MISSING))
        return replace(self.take(staying), codes=new[staying], n_tasks=n_tasks)

    def without(self, code: int) -> TrainingRows:
        """The rows without those of one task; tasks after it get lower numbers."""
        old = np.arange(self.n_tasks)
        new = np.where(old == code, MISSING, old - (old > code))
        return self.recoded(new, self.n_tasks - 1)

    def joined(self, more: TrainingRows) -> TrainingRows:
        """These rows followed by more rows."""
        both = [self.X, more.X]
        X = (
            sparse.vstack(both, format="csr")
            if sparse.issparse(self.X)
            else np.vstack(both)
        )
        codes = np.append(self.codes, more.codes)
        weight = np.append(self.weight, more.weight)
        outlier = np.append(self.outlier, more.outlier)
        content = row_numbers(X)
        n_tasks = max(self.n_tasks, more.n_tasks)
        group = joined_groups(self, more)
        rows = TrainingRows(X, codes, outlier, weight, content, n_tasks, group=group)
        return replace(rows, forward=self.forward)

    def responses(self) -> Array:
        """One-hot responses (n, T): 1 for the task of a row, all 0 for outliers."""
        R = np.zeros((len(self.codes), self.n_tasks), order="F")
        normal = np.flatnonzero(~self.outlier)
        R[normal, self.codes[normal]] = 1.0
        return R

    def mean_by_task(self, values: Array) -> Array:
        """Weighted means (T,) of values (n,) over the normal rows of each task."""
        normal = ~self.outlier
        codes = self.codes[normal]
        weight = self.weight[normal]
        total = np.bincount(codes, weight, self.n_tasks)
        return np.bincount(codes, weight * values[normal], self.n_tasks) / total


class WithColumns(Protocol):
    """An estimator that remembers the columns of the rows of its fit."""

    n_features_in_: int
    label_columns_: dict[str, str]


#: Takes numbers of rows to keep and of rows to hold out. Fits transformers to the rows
#: to keep, and returns both as they make them.
Remake = Callable[[Codes, Codes], tuple[Rows, Rows]]


def training_rows(
    estimator: WithColumns,
    X: object,
    task: object = None,
    outlier: object = None,
    sample_weight: object = None,
    groups: object = None,
    *,
    reset: bool = True,
) -> tuple[TrainingRows, Labels, Codes]:
    """Check all arguments of a fit.

    Parameters
    ----------
    estimator : estimator
        With `reset` it remembers the number and names of features, and the columns
        that hold labels: scoring methods take the labels from them. Else `X` must have
        the features that it remembers.
    X, task, outlier, sample_weight, groups
        As in `fit`.
    reset : bool

    Returns
    -------
    rows : TrainingRows
    tasks : ndarray of shape (T,)
        Labels, sorted.
    source : ndarray of shape (n,)
        Place of each row in `X`.
    """
    label_columns, X, task, outlier, groups = split_columns(
        X, task=task, outlier=outlier, groups=groups
    )
    if reset:
        estimator.label_columns_ = label_columns
    checked = check_rows(estimator, X, reset=reset)
    n = checked.shape[0]
    weight = np.ones(n)
    if sample_weight is not None:
        weight = check_weight(sample_weight, checked)
    mask = np.zeros(n, dtype=bool) if outlier is None else check_outlier(outlier, n)
    if task is None:
        labels: Labels = np.zeros(n, dtype=np.intp)
    else:
        labels = one_per_row("task", task, n)
    if labels.dtype == object:  # other arrays have no missing labels
        checks.refuse_rows_without_task(labels, mask)
    counted = np.flatnonzero(weight > 0)
    tasks, codes = encode(labels[counted])
    square = get_tags(estimator).input_tags.pairwise
    if square:
        checked = checks.symmetric_part(checked)[np.ix_(counted, counted)]
    elif len(counted) < n:
        checked = checked[counted]
    content = row_numbers(checked)
    if square:
        # First by sorted values: columns have the order of the user's rows.
        content = row_numbers(
            np.column_stack([row_numbers(np.sort(checked, axis=1)), content])
        )
    of_task = np.where(codes == MISSING, len(tasks), codes)
    # Copies in an order of their own, too: sums of their weights are rounded.
    order = np.lexsort((weight[counted], mask[counted], content, of_task))
    source = counted[order]
    checked = checked[np.ix_(order, order)] if square else checked[order]
    codes = codes[order]
    mask = mask[source]
    weight = weight[source]
    content = content[order]
    columns = source if square else None
    rows = TrainingRows(checked, codes, mask, weight, content, len(tasks), columns)
    if reset and outlier is not None:
        checks.refuse_empty_tasks(rows.codes, rows.outlier, tasks)
    if groups is not None:
        rows = _grouped(rows, groups, source, n)
    return rows, tasks, source


def _grouped(
    rows: TrainingRows, groups: object, source: Codes, n_rows: int
) -> TrainingRows:
    """The rows with their groups, which a user gives in the order of `X`."""
    if isinstance(groups, TimeBlocks):
        block, place = groups.places(rows.codes, source, n_rows)
        return replace(rows, group=block, forward=groups.forward, moment=place)
    labels = encode(one_per_row("groups", groups, n_rows)[source])[1]
    content = 2 * rows.content + rows.outlier
    group = group_numbers(labels, rows.codes, content, rows.weight)
    if np.bincount(group, rows.weight).max() <= 1.0:
        return rows  # as without groups, every row is left out by itself
    return replace(rows, group=group)


def in_memory(X: object) -> bool:
    """Whether rows are in memory: not in files, in Dask, or made by a function."""
    if type(X) is np.ndarray:
        return True
    elsewhere = isinstance(X, np.memmap | str | os.PathLike | Iterator) or callable(X)
    return not elsewhere and type(X).__module__.partition(".")[0] != "dask"


def number_of(X: object) -> int:
    """Number of rows of an array, a data frame or a list."""
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def row_blocks(n_rows: int, floats_per_row: int) -> Iterator[slice]:
    """Slices over `n_rows` rows, whose temporaries fit into ``working_memory``."""
    # Blocks of more than 8 MB do not fit into the cache, and gain nothing.
    megabytes = min(sklearn.get_config()["working_memory"], 8)
    step = max(1, int(megabytes * 2**20 // (8 * max(1, floats_per_row))))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def check_rows(estimator: WithColumns, X: object, *, reset: bool) -> Rows:
    """Rows checked by scikit-learn, float64 or CSR; scoring takes float32 too."""
    if not reset and type(X) is np.ndarray and X.ndim == 2:
        # Most calls end here, in a hundredth of the time of scikit-learn's checks.
        fits = X.shape[1] == estimator.n_features_in_
        if fits and not len(X):
            return np.empty(X.shape)  # scikit-learn would warn of missing names
        has_names = hasattr(estimator, "feature_names_in_")
        if fits and X.dtype == np.float64 and not has_names and np.isfinite(X).all():
            return X
    if isinstance(X, np.ma.MaskedArray):  # scikit-learn would read hidden values
        X = np.ma.filled(X.astype(np.float64), np.nan)
    dtype = np.float64 if reset else [np.float64, np.float32]
    least = 1 if reset else 0
    try:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=dtype,
            ensure_min_samples=least,
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise checks.with_place(error, X) from None
    return _with_short_indices(checked) if sparse.issparse(checked) else checked


def _with_short_indices(X: Rows) -> Rows:
    """Sparse rows with indices of 32 bits, where the matrix is small enough.

    scikit-learn's distances need them, and equal rows must have equal bytes.
    """
    if X.indices.dtype == np.int32 or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    indices = X.indices.astype(np.int32)
    starts = X.indptr.astype(np.int32)
    return type(X)((X.data, indices, starts), shape=X.shape)


def row_numbers(X: Rows) -> Codes:
    """A number for each row (n,), the same for equal rows and no others."""
    if sparse.issparse(X):
        return _sparse_row_numbers(X)
    # Rows are sorted as bytes, however many columns they have. Adding 0.0 makes -0.0
    # equal to 0.0.
    plain = np.ascontiguousarray(X, dtype=np.float64) + 0.0
    content = plain.view(np.dtype((np.void, 8 * plain.shape[1]))).ravel()
    order = np.argsort(content)
    is_new = np.ones(len(order), dtype=bool)
    # In blocks: np.unique would hold three more copies of all rows.
    for rows in row_blocks(len(order) - 1, 2 * plain.shape[1]):
        is_new[1:][rows] = content[order[1:][rows]] != content[order[:-1][rows]]
    numbers = np.empty_like(order)
    numbers[order] = np.cumsum(is_new) - 1
    return numbers


def _sparse_row_numbers(X: Rows) -> Codes:
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    cuts = X.indptr[1:-1]
    content = zip(np.split(X.indices, cuts), np.split(X.data, cuts), strict=True)
    keys = [(indices.tobytes(), data.tobytes()) for indices, data in content]
    rank = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([rank[key] for key in keys], dtype=np.intp)


def renumbered(codes: Codes, used: Codes) -> Codes:
    """Place of each code among the ascending `used` ones; MISSING for other codes."""
    position = np.minimum(np.searchsorted(used, codes), len(used) - 1)
    return np.where(used[position] == codes, position, MISSING)


def group_rows(codes: Codes, n_tasks: int) -> tuple[Codes, Codes]:
    """Row numbers (n,) sorted by task, and where each task begins (T + 1,)."""
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_tasks))])
    return order, starts


def rows_by_task(codes: Codes) -> list[tuple[int, Codes]]:
    """Each task that has rows, with the numbers of its rows."""
    if len(codes) == 1:
        return [(int(codes[0]), np.zeros(1, dtype=np.intp))]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-2))
    tasks = codes[order[starts]].tolist()
    return list(zip(tasks, np.split(order, starts[1:]), strict=False))


def blocks_by_task(
    codes: Codes, floats_per_row: int
) -> Iterator[tuple[Codes, list[tuple[int, slice]]]]:
    """Blocks of row numbers sorted by task, with the slice of each task in a block."""
    if len(codes) == 1:
        yield np.zeros(1, dtype=np.intp), [(int(codes[0]), slice(0, 1))]
        return
    order = np.argsort(codes, kind="stable")
    for block in row_blocks(len(order), floats_per_row):
        rows = order[block]
        starts = np.flatnonzero(np.diff(codes[rows], prepend=-2))
        parts = map(slice, starts.tolist(), [*starts[1:].tolist(), len(rows)])
        yield rows, list(zip(codes[rows[starts]].tolist(), parts, strict=True))
