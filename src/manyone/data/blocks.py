"""Blocks of rows: passes over a data set take one block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from manyone._types import Array, Codes, Labels, Rows
from manyone.data import checks
from manyone.data.labels import (
    check_outlier,
    check_weight,
    encode,
    lookup,
    one_per_row,
    split_columns,
)
from manyone.data.rows import MISSING, CodedRows, check_rows

# Values of one kernel block, 16 MB: enough for BLAS, and little beside m x m.
_FLOATS = 2**21


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a data set, with their labels and weights as `fit` takes them.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (b, d)
    task : array-like of shape (b,), str or None
        Label of each row, or the column of `X` that holds it; None: all rows of all
        blocks belong to one task.
    outlier : array-like of bool of shape (b,), str or None
    weight : array-like of shape (b,) or None
        Counts.
    """

    X: object
    task: object = None
    outlier: object = None
    weight: object = None

    def checked(self) -> CheckedBlock:
        """The block as arrays, without rows of weight 0.

        Raises
        ------
        ValueError
            If a value is not finite, a length does not fit, or a normal row has no
            task.
        """
        columns, X, task, mask = split_columns(
            self.X, task=self.task, outlier=self.outlier
        )
        probe = BaseEstimator()
        try:
            X = check_rows(probe, X, reset=True)
        except (ValueError, TypeError) as error:
            # The probe is no class that the user has written.
            words = str(error).replace(" by BaseEstimator", "")
            raise type(error)(words) from None
        n = X.shape[0]
        outlier = np.zeros(n, dtype=bool) if mask is None else check_outlier(mask, n)
        labels: Labels = np.zeros(n, dtype=np.intp)
        if task is not None:
            labels = one_per_row("task", task, n)
        if labels.dtype == object:
            checks.refuse_rows_without_task(labels, outlier)
        weight = np.ones(n)
        if self.weight is not None:
            counted = np.any(np.asarray(self.weight))
            weight = check_weight(self.weight, X) if counted else np.zeros(n)
        if not np.all(weight > 0):
            used = np.flatnonzero(weight > 0)
            X, labels, outlier, weight = (
                values[used] for values in (X, labels, outlier, weight)
            )
        tasks, codes = encode(labels)
        rows = CodedRows(X, codes, outlier, weight)
        names = getattr(probe, "feature_names_in_", None)
        return CheckedBlock(rows, tasks, names, columns)


@dataclass(frozen=True, eq=False)
class ChainedBlock(Block):
    """A block that was made from another one, after the blocks before it.

    Parameters
    ----------
    after : object
        What the next block is made with.
    """

    after: object = None


#: Makes a block from another one, with the `after` of the block before it.
MakeBlock = Callable[[Block, object], ChainedBlock]


@dataclass(frozen=True, eq=False)
class CheckedBlock:
    """A block as arrays, after all checks.

    Parameters
    ----------
    rows : CodedRows
    tasks : ndarray of shape (t,)
        Labels, sorted. Codes of rows are places among them.
    names : ndarray of shape (d,) or None
        Of the columns.
    label_columns : dict
        Columns that hold labels, by role.
    """

    rows: CodedRows
    tasks: Labels
    names: Labels | None = None
    label_columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def X(self) -> Rows:
        """The rows (b, d)."""
        return self.rows.X

    def checked(self) -> CheckedBlock:
        """The block itself."""
        return self

    def coded(self, tasks: Labels) -> CodedRows:
        """The rows, with codes that are places among these tasks."""
        if np.array_equal(self.tasks, tasks):
            return self.rows
        # MISSING is -1: it picks the last entry, which is MISSING again.
        codes = np.append(lookup(self.tasks, tasks), MISSING)[self.rows.codes]
        return replace(self.rows, codes=codes)


#: What a step of a pass takes.
AnyBlock = Block | CheckedBlock


def claims_of(block: Block, counted: bool) -> dict[str, object]:
    """Arguments of a scoring method for a block, with counts if `counted` is true."""
    claims = {} if block.task is None else {"task": block.task}
    if counted:
        if block.outlier is not None:
            raise ValueError(
                "X is to hold normal rows only: yield no known outliers with its "
                "blocks."
            )
        claims["sample_weight"] = block.weight
    return claims


def kernel_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows whose kernel values against `n_columns` points fit in a block."""
    step = int(np.clip(_FLOATS // max(n_columns, 1), 256, 16384))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def stacked(parts: list[Rows]) -> Rows:
    """Rows of all parts one after the other, all dense or all sparse."""
    return (
        sparse.vstack(parts, format="csr")
        if sparse.issparse(parts[0])
        else np.vstack(parts)
    )


def by_task(codes: Codes, weight: Array) -> tuple[Codes, Any]:
    """Tasks that occur (u,), and the sparse matrix (u, b) that sums rows by task."""
    present, place = np.unique(codes, return_inverse=True)
    shape = (len(present), len(codes))
    return present, sparse.csr_array(
        (weight, (place, np.arange(len(codes)))), shape=shape
    )


def added(first: Codes, second: Codes, *pairs: tuple[Array, Array]) -> tuple[Any, ...]:
    """Tasks of both (t,), and the sum of each pair of arrays by task."""
    if np.array_equal(first, second):
        return first, *(values + more for values, more in pairs)
    tasks = np.union1d(first, second)
    sums = []
    for values, more in pairs:
        both = np.zeros((len(tasks), *values.shape[1:]))
        both[np.searchsorted(tasks, first)] += values
        both[np.searchsorted(tasks, second)] += more
        sums.append(both)
    return tasks, *sums
