"""Rows and their tasks, from whatever the user has to arrays. What is refused: `validation`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from manyone import validation
from manyone._sklearn import check_sample_weight
from manyone._types import Array, Codes, Mask, Rows
from manyone.content import row_numbers
from manyone.groups import MISSING, TimeBlocks, group_numbers, joined_groups


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows of a fit: without zero weights, sorted by task, then by content.

    The order of the rows that were given does not matter, therefore, to the last bit.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        Of a precomputed kernel, its matrix of shape (n, n).
    codes : ndarray of shape (n,)
        Task of each row; MISSING, and last, for outliers of every task.
    outlier : ndarray of bool of shape (n,)
    weight : ndarray of shape (n,)
        Counts.
    content : ndarray of shape (n,)
        Equal for equal rows (of a precomputed kernel: equal rows of its matrix), else different.
    n_tasks : int
    columns : ndarray of shape (n,) or None
        Of a precomputed kernel: where each row stands in the matrix that was given.
    group : ndarray of shape (n,) or None
        Rows of one number leave together when they are judged; a number belongs to one task. None:
        every row leaves alone.
    forward : bool or int
        Whether groups are blocks in the order of time, to be judged by earlier ones of their task;
        a number: in tasks with so many rows.
    """

    X: Rows
    codes: Codes
    outlier: Mask
    weight: Array
    content: Codes
    n_tasks: int
    columns: Codes | None = None
    group: Codes | None = None
    forward: bool | int = False

    def take(self, rows: Any) -> TrainingRows:
        """The rows selected by an index; of a kernel matrix the columns too."""
        X = self.X[rows]
        if self.columns is not None:
            X = X[:, rows]
        return replace(
            self,
            X=X,
            codes=self.codes[rows],
            outlier=self.outlier[rows],
            weight=self.weight[rows],
            content=self.content[rows],
            columns=None if self.columns is None else self.columns[rows],
            group=None if self.group is None else self.group[rows],
        )

    def keys(self, like: TrainingRows) -> Codes:
        """Equal for copies of a row of a task (and of a group), also beside rows alike, (n,)."""
        key = ((self.codes + 1) * 2 + self.outlier) * (like.content.max() + 1) + self.content
        if self.group is None or like.group is None:
            return key
        return key * (like.group.max() + 2) + self.group + 1

    def merged(self) -> tuple[TrainingRows, Codes]:
        """Copies of a row of a task as one row that has their weight; and where each row went."""
        key = self.keys(self)
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        if len(first) == len(key):
            return self, np.arange(len(key))
        order = np.argsort(first)  # merged rows stay in the order of the rows
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        weight = np.bincount(rank[place], self.weight).astype(np.float64)
        return replace(self.take(first[order]), weight=weight), rank[place]

    def shared_out(self) -> TrainingRows:
        """Outliers of every task as one outlier of each: the tasks may see them differently."""
        missing = np.flatnonzero(self.codes == MISSING)
        if not len(missing):
            return self
        known = np.flatnonzero(self.codes != MISSING)
        rows = self.take(np.concatenate([known, np.tile(missing, self.n_tasks)]))
        codes = np.repeat(np.arange(self.n_tasks), len(missing))
        rows = replace(rows, codes=np.concatenate([self.codes[known], codes]))
        return rows.take(np.argsort(rows.codes, kind="stable"))

    def by_task(self) -> TrainingRows:
        """The rows sorted as those of a fit are."""
        last = np.where(self.codes == MISSING, self.n_tasks, self.codes)
        return self.take(np.lexsort((self.content, last)))

    def joined(self, more: TrainingRows) -> TrainingRows:
        """These rows followed by more rows."""
        both = [self.X, more.X]
        X = sparse.vstack(both, format="csr") if sparse.issparse(self.X) else np.vstack(both)
        return TrainingRows(
            X,
            np.concatenate([self.codes, more.codes]),
            np.concatenate([self.outlier, more.outlier]),
            np.concatenate([self.weight, more.weight]),
            row_numbers(X),
            max(self.n_tasks, more.n_tasks),
            group=joined_groups(self, more),
            forward=self.forward,
        )

    @property
    def left_out_source(self) -> str:
        """What closed forms leave out of these rows."""
        return "leave-one-out" if self.group is None else "leave-group-out"

    def responses(self) -> Array:
        """One-hot responses (n, T): 1 for the row's own task, all 0 for a known outlier."""
        R = np.zeros((len(self.codes), self.n_tasks), order="F")
        normal = np.flatnonzero(~self.outlier)
        R[normal, self.codes[normal]] = 1.0
        return R

    def mean_by_task(self, values: Array) -> Array:
        """Weighted mean of values (n,) over the normal rows of each task, shape (T,)."""
        normal = ~self.outlier
        codes, weight = self.codes[normal], self.weight[normal]
        total = np.bincount(codes, weight, self.n_tasks)
        return np.bincount(codes, weight * values[normal], self.n_tasks) / total


def training_rows(
    estimator: BaseEstimator,
    X: Any,
    task: Any = None,
    outlier: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    reset: bool = True,
) -> tuple[TrainingRows, NDArray[Any], Codes]:
    """Check everything that a fit is given.

    Parameters
    ----------
    estimator : estimator
        Remembers (`reset`) or is held to the number and names of features.
    X, task, outlier, sample_weight, groups
        As in `fit`, columns of a data frame already taken out.
    reset : bool

    Returns
    -------
    rows : TrainingRows
    tasks : ndarray of shape (T,)
        Labels, sorted.
    source : ndarray of shape (n,)
        Where each row stood in `X`.
    """
    X = check_rows(estimator, X, reset=reset)
    n = X.shape[0]
    weight = np.ones(n) if sample_weight is None else check_weight(sample_weight, X)
    mask = np.zeros(n, dtype=bool) if outlier is None else check_outlier(outlier, n)
    if task is None:
        labels: NDArray[Any] = np.zeros(n, dtype=np.intp)
    elif isinstance(task, np.ndarray) and task.dtype.kind in "iubU" and task.shape == (n,):
        labels = task
    else:
        labels = one_per_row("task", task, n)
    if labels.dtype == object:  # native arrays have no missing labels
        validation.refuse_rows_without_task(labels, mask)
    kept = np.flatnonzero(weight > 0)
    if labels.dtype == object:
        tasks, codes = encode(labels[kept])
    else:
        tasks, codes = np.unique(labels[kept], return_inverse=True)
    square = get_tags(estimator).input_tags.pairwise
    if square:
        X = validation.symmetric_part(X)[np.ix_(kept, kept)]
    elif len(kept) < n:
        X = X[kept]
    content = row_numbers(X)
    if square:
        # A line of the matrix, sorted, is the same whatever the order of the others.
        content = row_numbers(np.column_stack([row_numbers(np.sort(X, axis=1)), content]))
    order = np.lexsort((content, np.where(codes == MISSING, len(tasks), codes)))
    source = kept[order]
    rows = TrainingRows(
        X[np.ix_(order, order)] if square else X[order],
        codes[order],
        mask[source],
        weight[source],
        content[order],
        len(tasks),
        source if square else None,
    )
    if reset and outlier is not None:
        validation.refuse_empty_tasks(rows.codes, rows.outlier, tasks)
    if groups is not None:
        rows = _grouped(rows, groups, source, n)
    return rows, tasks, source


def _grouped(rows: TrainingRows, groups: Any, source: Codes, n_rows: int) -> TrainingRows:
    """Rows with the groups that were given for all of them, in the order they were given."""
    if isinstance(groups, TimeBlocks):
        blocks = groups.numbers(rows.codes, source, n_rows)
        return replace(rows, group=blocks, forward=groups.forward)
    labels = encode(one_per_row("groups", groups, n_rows)[source])[1]
    return replace(rows, group=group_numbers(labels, rows.codes, rows.content))


def check_rows(estimator: Any, X: Any, *, reset: bool) -> Rows:
    """Rows as scikit-learn checks them: float64 (n, d), or CSR; float32 may pass when scoring."""
    if not reset and type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2:
        # What the checks would come to for most calls, in a hundredth of their time.
        fits = X.shape[1] == estimator.n_features_in_ and X.shape[0] > 0
        if fits and not hasattr(estimator, "feature_names_in_") and np.isfinite(X).all():
            return X
    dtype = np.float64 if reset else [np.float64, np.float32]
    try:
        return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise validation.with_place(error, X) from None


def one_per_row(name: str, values: Any, n_rows: int) -> NDArray[Any]:
    """Values of a parameter that wants one per row, shape (n_rows,)."""
    native = isinstance(values, np.ndarray) and values.dtype.kind in "iubU"
    if native and values.shape == (n_rows,):
        return np.asarray(values)
    if not isinstance(values, list):
        validation.refuse_unless_listed(name, values)
    try:
        labels = as_labels(values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if len(labels) != n_rows:
        raise ValueError(f"{name} has {len(labels)} values but X has {n_rows} rows: one per row.")
    return labels


def check_outlier(outlier: Any, n_rows: int) -> Mask:
    """Mask of known outliers, shape (n_rows,)."""
    mask = one_per_row("outlier", outlier, n_rows)
    validation.refuse_unless_boolean(mask)
    return mask.astype(bool)


def check_weight(weight: Any, X: Any) -> Array:
    """Counts of the rows, shape (n,): finite, not negative, not all zero."""
    if isinstance(weight, str):
        raise ValueError(f"sample_weight must be one number per row; got {weight!r}.")
    weight = check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
    if not np.any(weight > 0):
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    return np.asarray(weight)


def split_columns(X: Any, **roles: Any) -> tuple[Any, ...]:
    """Take the columns that parameters name out of a data frame; other values pass through.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d)
    **roles : str, array-like or None
        A string is the name of a column of `X`.

    Returns
    -------
    X, *values
        The frame without the named columns, and one value per role.
    """
    for role, name in roles.items():
        if isinstance(name, str):
            X, roles[role] = validation.take_column(X, role, name)
    return X, *roles.values()


def split_named(X: Any, *roles: Any) -> tuple[Any, ...]:
    """Take the columns named by `task`, `outlier`, `groups` out of `X`; and their names."""
    named = [name for name in roles if isinstance(name, str)]
    given = dict(zip(("task", "outlier", "groups"), roles, strict=False))
    return *(split_columns(X, **given) if named else (X, *roles)), named


def as_labels(task: Any) -> NDArray[Any]:
    """One-dimensional array of labels; missing ones (None, NaN, NaT, NA) become None.

    Of a native NumPy type where all labels share one, else of type object.
    """
    if isinstance(task, np.ndarray) and task.ndim == 1 and task.dtype.kind in "iubU":
        return task
    plain = [validation.plain_label(label) for label in validation.as_sequence(task)]
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


def encode(labels: NDArray[Any]) -> tuple[NDArray[Any], Codes]:
    """Sorted distinct labels (T,) and the code of each row (n,), MISSING where it has no label."""
    if labels.dtype != object:
        tasks, codes = np.unique(labels, return_inverse=True)
        return tasks, codes
    known = as_labels(validation.sorted_labels(labels))
    return known, lookup(labels, known)


def lookup(labels: NDArray[Any], tasks: NDArray[Any]) -> Codes:
    """Code of each label among `tasks` (MISSING for None), shape (n,); unknown ones are refused."""
    codes, unknown = find(labels, tasks)
    if unknown.any():
        raise ValueError(validation.unknown_task(labels[unknown][0], tasks))
    return codes


def find(labels: NDArray[Any], tasks: NDArray[Any]) -> tuple[Codes, Mask]:
    """Code of each label among `tasks` (MISSING where there is none), and which are unknown."""
    if labels.dtype != object and tasks.dtype.kind == labels.dtype.kind and len(tasks):
        codes = np.searchsorted(tasks, labels)
        codes[codes == len(tasks)] = 0
        unknown = tasks[codes] != labels
        return np.where(unknown, MISSING, codes), unknown
    index = {task: code for code, task in enumerate(tasks.tolist())}
    index[None] = MISSING
    validation.refuse_unhashable(labels)
    codes = np.array([index.get(label, -2) for label in labels.tolist()], dtype=np.intp)
    return np.maximum(codes, MISSING), codes == -2
