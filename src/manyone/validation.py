"""What comes in, checked once: rows, labels, masks and weights. Errors say what to do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from manyone.kernels import is_sparse
from manyone.tasks import MISSING, Codes, as_frame, as_labels, shortlist

Array = NDArray[np.float64]


class TrainingRows(NamedTuple):
    """Rows of a fit, with zero weights already removed.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
    codes : ndarray of shape (n,)
        Task of each row; MISSING for outliers of every task.
    outlier : ndarray of shape (n,) of bool
    weight : ndarray of shape (n,)
    """

    X: Any
    codes: Codes
    outlier: NDArray[np.bool_]
    weight: Array

    def take(self, rows: Any, *, square: bool = False) -> TrainingRows:
        """The rows selected by an index or a mask; of a (square) kernel matrix the columns too."""
        X = self.X[rows]
        return TrainingRows(
            X[:, rows] if square else X, self.codes[rows], self.outlier[rows], self.weight[rows]
        )

    def by_task(self) -> tuple[TrainingRows, Codes]:
        """Rows sorted by task, outliers of every task last; and the order that does it."""
        last = np.iinfo(np.intp).max
        order = np.argsort(np.where(self.codes == MISSING, last, self.codes), kind="stable")
        return self.take(order), order

    def merged(self) -> tuple[TrainingRows, Codes]:
        """Identical rows of a task as one row that has their weight, and which rows these are."""
        if is_sparse(self.X):
            X = self.X.sorted_indices()
            X.eliminate_zeros()
            cuts = X.indptr[1:-1]
            content = zip(np.split(X.indices, cuts), np.split(X.data, cuts), strict=True)
            keys = [(indices.tobytes(), data.tobytes()) for indices, data in content]
        else:
            keys = [row.tobytes() for row in self.X + 0.0]  # -0.0 is 0.0
        numbers: dict[Any, int] = {}
        place = np.array(
            [
                numbers.setdefault(key, len(numbers))
                for key in zip(self.codes.tolist(), self.outlier.tolist(), keys, strict=True)
            ]
        )
        first = np.unique(place, return_index=True)[1]
        weight = np.bincount(place, self.weight).astype(np.float64)
        return self.take(first)._replace(weight=weight), first


def check_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Validate rows as scikit-learn does, and say where a bad value stands.

    Parameters
    ----------
    estimator : estimator
        Remembers (`reset`) or is held to the number and names of features.
    X : array-like, sparse matrix or data frame of shape (n, d)
    reset : bool

    Returns
    -------
    float64 array (float32 at scoring time is cast block by block) or CSR matrix of shape (n, d)
    """
    dtype = np.float64 if reset else [np.float64, np.float32]
    try:
        return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=dtype)
    except (ValueError, TypeError, OverflowError) as error:
        where = _locate(X)
        if where is None:
            raise
        # scikit-learn wants a TypeError for objects that are no numbers at all.
        foreign = isinstance(error, TypeError) and as_frame(X) is None
        raise (TypeError if foreign else ValueError)(f"{error}\n{where}") from None


def _locate(X: Any) -> str | None:
    """The first value that is no finite number, and what to do about it."""
    frame = as_frame(X)
    if frame is not None:
        text = [name for name, dtype in frame.schema.items() if not _numeric(dtype)]
        if text:
            return (
                f"Column(s) {shortlist(text, 5)} of X are not numeric. Drop or encode them first, "
                "or name the one that holds the tasks with task=...."
            )
        names = list(frame.columns)
        values = frame.to_numpy()
    elif is_sparse(X):
        coo = X.tocoo()
        bad = np.flatnonzero(~np.isfinite(coo.data))
        if not len(bad):
            return None
        first = bad[0]
        return (
            f"First bad value: {coo.data[first]} at row {coo.row[first]}, column {coo.col[first]}."
        )
    else:
        values = np.asarray(X)
        names = []
    if values.ndim != 2 or values.dtype.kind == "c":
        return None
    for j in range(values.shape[1]):
        column = f"column {names[j]!r}" if names else f"column {j}"
        try:
            numbers = np.asarray(values[:, j], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            first = next(v for v in values[:, j] if not _is_number(v))
            return f"{column[0].upper()}{column[1:]} holds {first!r}: drop or encode it first."
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            return (
                f"First bad value: {numbers[bad[0]]} at row {bad[0]}, {column}. Remove such rows, "
                "or fill them in (for missing ones, sklearn.impute.SimpleImputer)."
            )
    return None


def _numeric(dtype: Any) -> bool:
    return bool(dtype.is_numeric()) or str(dtype) == "Boolean"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def check_labels(task: Any, n_rows: int) -> NDArray[Any]:
    """Labels of `n_rows` rows, shape (n_rows,)."""
    return _one_per_row("task", task, n_rows)


def _one_per_row(name: str, values: Any, n_rows: int) -> NDArray[Any]:
    if not hasattr(values, "__len__") or isinstance(values, str) or getattr(values, "ndim", 1) == 0:
        raise ValueError(
            f"{name} must be one value per row, or the name of a column of a DataFrame; "
            f"got {values!r}."
        )
    try:
        labels = as_labels(values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if len(labels) != n_rows:
        raise ValueError(f"{name} has {len(labels)} values but X has {n_rows} rows: one per row.")
    return labels


def check_outlier(outlier: Any, n_rows: int) -> NDArray[np.bool_]:
    """Boolean mask of known outliers, shape (n_rows,)."""
    if outlier is None:
        return np.zeros(n_rows, dtype=bool)
    mask = _one_per_row("outlier", outlier, n_rows)
    values = set(np.unique(mask).tolist()) if mask.dtype != object else set(mask.tolist())
    if not values <= {False, True}:
        raise ValueError(
            "outlier must be a mask of True (known to be abnormal) and False; got the values "
            f"{shortlist(sorted(map(str, values)), 5)}."
        )
    return mask.astype(bool)


def check_weight(weight: Any, X: Any) -> Array:
    """Counts of the rows, shape (n,): finite, not negative, not all zero."""
    if isinstance(weight, str):
        raise ValueError(f"sample_weight must be one number per row; got {weight!r}.")
    weight = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
    if not np.any(weight > 0):
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    return np.asarray(weight)


def check_all_have_tasks(labels: NDArray[Any], outlier: NDArray[np.bool_]) -> None:
    """Every normal row needs a task."""
    if labels.dtype != object:  # native arrays have no missing labels
        return
    lost = np.flatnonzero([label is None for label in labels] & ~outlier)
    if len(lost):
        raise ValueError(
            f"The task of row {lost[0]} is missing ({len(lost)} such row(s)). Only known outliers "
            "(outlier=True) may lack a task: remove these rows or fill in their task."
        )


def check_all_have_rows(rows: TrainingRows, tasks: NDArray[Any]) -> None:
    """Every task needs a normal row."""
    counts = np.bincount(rows.codes[~rows.outlier], minlength=len(tasks))
    empty = np.flatnonzero(counts == 0)
    if len(tasks) == 0 or len(empty):
        names = shortlist(tasks[empty].tolist(), 3) if len(tasks) else "(none)"
        raise ValueError(
            f"Empty task: {names} has no normal row, only known outliers. "
            "Add a normal row of it, or remove its rows."
        )
