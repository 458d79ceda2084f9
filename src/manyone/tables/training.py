"""What a table says beside its features: whose row it is, when, whether abnormal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.data.groups import TimeBlocks
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.labels import as_labels, encode, lookup
from manyone.data.rows import MISSING
from manyone.messages import shortlist
from manyone.tables.columns import Columns, taken, text_column
from manyone.tables.errors import TableError
from manyone.tables.frames import (
    Frame,
    read_columns,
    read_times,
    read_yes_no,
    refuse_missing_columns,
)
from manyone.tables.labels import (
    joined_label,
    joined_labels,
    labels_like,
    refuse_rows_without_task,
    task_labels,
)
from manyone.tables.past import TablePast

#: Rows from which on a task is judged by models of its earlier blocks of time alone. The
#: first two of five blocks are then enough for a model.
ENOUGH_TO_LOOK_AHEAD = 60


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Rows to learn from: those of a table, or a sample of its large tasks.

    Parameters
    ----------
    columns : dict of str to Column
        Those that may be features.
    labels : ndarray of shape (n,)
        Tasks; None where an outlier has none.
    outlier : ndarray of bool of shape (n,)
    groups : ndarray of shape (n,) or None
    times : ndarray of shape (n,) or None
    numbers : ndarray of shape (n,)
        Positions of the rows in the table.
    hashes : ndarray of uint64 of shape (n,)
        Of the content of each row.
    copies : ndarray of shape (n,)
        Rows of the table with this content that the row stands for.
    totals : ndarray of shape (n,)
        Rows of the table in the stratum of each row: the normal rows of its task, or
        those known to be abnormal.
    past : TablePast or None
        What the tasks ended with, where rows are compared with earlier ones.
    """

    columns: Columns
    labels: Labels
    outlier: Mask
    groups: Labels | None
    times: Array | None
    numbers: Codes
    hashes: Hashes
    copies: Array
    totals: Codes
    past: TablePast | None = None

    def take(self, rows: Codes) -> TrainingTable:
        """Some of the rows."""
        arrays: dict[str, Any] = {
            key: None if value is None else value[rows] for key, value in self._arrays()
        }
        return replace(self, columns=taken(self.columns, rows), **arrays)

    def joined(self, more: TrainingTable) -> TrainingTable:
        """These rows followed by more rows, whose numbers go on from here.

        Raises
        ------
        TableError
            If they have other columns, or columns of another kind.
        """
        refuse_other_columns(self.columns, more.columns)
        columns = {
            name: column.joined(more.columns[name], name)
            for name, column in self.columns.items()
        }
        more = replace(more, numbers=more.numbers + self.n_rows)
        pairs = {key: (value, getattr(more, key)) for key, value in self._arrays()}
        arrays: dict[str, Any] = {
            key: None if any(part is None for part in pair) else joined_labels(*pair)
            for key, pair in pairs.items()
        }
        past = self.past
        if past is not None and more.past is not None:
            past = past.later(more.past)
        both = replace(self, columns=columns, past=past, **arrays)
        strata = both.strata()
        number = strata.max() + 1
        cut = len(self.labels)
        sizes = sizes_of(strata[:cut], self.totals, number)
        sizes += sizes_of(strata[cut:], more.totals, number)
        return replace(both, totals=sizes[strata])

    def settled(self) -> TrainingTable:
        """The rows of which it is known what came before, and what is usual then.

        Only these say how far values are from either. A task that would lose more than
        half of its rows keeps all of them.
        """
        is_settled = np.ones(len(self.labels), dtype=bool)
        has_value = ~is_settled
        has_difference = ~is_settled
        for column in self.columns.values():
            if column.past is not None:
                has_value |= np.isfinite(column.values)
                has_difference |= ~np.isnan(column.past[:, 0])
            if column.usual is not None:
                is_settled &= ~np.isnan(column.usual)
        is_settled &= has_difference | ~has_value
        strata = self.strata()
        shares = np.bincount(strata, is_settled) / np.maximum(np.bincount(strata), 1)
        return self.take(np.flatnonzero(is_settled | (shares < 0.5)[strata]))

    def without_values(self) -> TrainingTable:
        """The tasks of the rows, and their number, without their values."""
        nothing = np.zeros(len(self.labels), dtype=np.int64)
        return replace(
            self,
            columns={},
            groups=None,
            times=None,
            numbers=nothing,
            hashes=nothing.astype(np.uint64),
        )

    @property
    def has_values(self) -> bool:
        """Whether the values of the rows are there."""
        return len(self.columns) > 0

    def strata(self) -> Codes:
        """Number of each row's stratum (n,): the normal or abnormal rows of a task."""
        return 2 * (self.codes() - MISSING) + self.outlier

    def firsts(self) -> Codes:
        """The first row of each stratum, whose total is that of the stratum."""
        return np.unique(self.strata(), return_index=True)[1]

    @property
    def n_rows(self) -> int:
        """How many rows the table has."""
        return int(self.totals[self.firsts()].sum())

    @property
    def n_outliers(self) -> int:
        """How many of them are known to be abnormal."""
        firsts = self.firsts()
        return int(self.totals[firsts][self.outlier[firsts]].sum())

    def task_rows(self, tasks: Labels) -> Codes:
        """How many rows of each of these tasks the table has, shape (T,)."""
        firsts = self.firsts()
        codes = lookup(self.labels[firsts], tasks)
        is_wanted = codes != MISSING
        totals = self.totals[firsts][is_wanted]
        return np.bincount(codes[is_wanted], totals, len(tasks)).astype(np.intp)

    def in_order(self) -> TrainingTable:
        """The rows in the order of time, or of the table where there is no time."""
        keys = (self.numbers,) if self.times is None else (self.numbers, self.times)
        return self.take(np.lexsort(keys))

    def _arrays(self) -> list[tuple[str, Any]]:
        """Everything that has an entry for each row, by name."""
        apart = ("columns", "past")
        return [(key, value) for key, value in vars(self).items() if key not in apart]

    def ended(self, tasks: Labels, names: Sequence[str]) -> TrainingTable:
        """The rows with the past of these tasks and columns, for other tables."""
        rows = self.with_past_of(names)
        if rows.past is None or not names:
            return replace(rows, past=None)
        return replace(rows, past=rows.past.of_tasks(tasks).ended())

    def with_past_of(self, names: Sequence[str]) -> TrainingTable:
        """The rows with the past of these columns alone."""
        if self.past is None:
            return self
        columns = {
            name: column if name in names else replace(column, past=None, usual=None)
            for name, column in self.columns.items()
        }
        return replace(self, columns=columns, past=self.past.of_columns(names))

    def without(self, task: Hashable | Sequence[object]) -> TrainingTable:
        """The rows of all other tasks, of which there has to be one."""
        is_task = self.is_of(task)
        if len(encode(self.labels)[0]) == 1:
            raise ValueError(
                f"{task!r} is the only task of the model: delete the model instead."
            )
        return self.take(np.flatnonzero(~is_task))

    def is_of(self, task: Hashable | Sequence[object]) -> Mask:
        """Which rows (n,) are of a task, which has to be there.

        Where several columns name tasks, it may be the list of their values.
        """
        label = joined_label(task) if isinstance(task, list | tuple) else task
        tasks = encode(self.labels)[0]
        label = labels_like(as_labels([label]), tasks, ["task"]).tolist()[0]
        if label not in tasks.tolist():
            raise ValueError(
                f"Unknown task {task!r}. The model knows "
                f"{shortlist(tasks.tolist(), 5)}."
            )
        return np.asarray(self.labels == label)

    def codes(self) -> Codes:
        """Number of each row's task, shape (n,)."""
        return encode(self.labels)[1]

    def normal(self) -> tuple[Columns, Codes, int]:
        """Columns and tasks of normal rows, and the number of tasks."""
        tasks, codes = encode(self.labels)
        rows = np.flatnonzero(~self.outlier)
        return self.take(rows).columns, codes[rows], len(tasks)

    def fit_arguments(self, share: float = 1.0) -> dict[str, Any]:
        """What an estimator's `fit` is told about these rows, a share of all.

        Rows of a group are left out together. Without groups, rows of a block of time
        are, where some task has rows of several times.
        """
        outlier = self.outlier if self.outlier.any() else None
        groups: Labels | TimeBlocks | None = self.groups
        if groups is None and self.times is not None:
            moments = np.column_stack([self.codes(), self.times])[~self.outlier]
            if len(np.unique(moments, axis=0)) > len(np.unique(moments[:, 0])):
                forward = int(share * ENOUGH_TO_LOOK_AHEAD)
                groups = TimeBlocks(self.times, forward=forward)
        return {"task": self.labels, "outlier": outlier, "groups": groups}


def sizes_of(strata: Codes, totals: Codes, number: int) -> Codes:
    """Rows of the table in each stratum, from those of some of its rows."""
    sizes = np.zeros(number, dtype=np.intp)
    sizes[strata] = totals
    return sizes


def refuse_other_columns(columns: Columns, more: Columns) -> None:
    """All parts of a table have the same columns."""
    different = sorted(columns.keys() ^ more.keys())
    if different:
        raise TableError(
            f"The parts of the table do not have the same columns: {different[0]!r} is "
            "in one and not in another",
            remedy="Add it, empty where nobody knows.",
        )


def read_training(
    frame: Frame, roles: dict[str, list[str]], ignore: Sequence[str]
) -> TrainingTable:
    """Rows to learn from, in the order of the table; texts stay texts.

    Parameters
    ----------
    frame : narwhals data frame
    roles : dict
        Names of the columns for ``task``, ``time``, ``outlier`` and ``groups``.
    ignore : list of str

    Returns
    -------
    TrainingTable
    """
    refuse_missing_columns(frame, **roles, ignore=list(ignore))
    labels = task_labels(frame, roles["task"])
    outlier = np.zeros(len(labels), dtype=bool)
    for name in roles["outlier"]:
        outlier = read_yes_no(frame, name)
    refuse_rows_without_task(labels, ~outlier, roles["task"])
    groups = task_labels(frame, roles["groups"]) if roles["groups"] else None
    apart = {name for names in roles.values() for name in names} | set(ignore)
    names = [name for name in frame.columns if name not in apart]
    if not names:
        raise ValueError(
            "The table has no column beside those that say what rows are: add some to "
            "learn from."
        )
    columns = read_columns(frame, names)
    times = read_times(frame, roles["time"][0]).values if roles["time"] else None
    hashes = content_hashes(columns, times, groups)
    n_rows = len(labels)
    rows = TrainingTable(
        columns,
        labels,
        outlier,
        groups,
        times,
        np.arange(n_rows),
        hashes,
        np.ones(n_rows),
        np.ones(n_rows, dtype=np.intp),
    )
    strata = rows.strata()
    return replace(rows, totals=np.bincount(strata)[strata])


def content_hashes(
    columns: Columns, times: Array | None, groups: Labels | None
) -> Hashes:
    """A hash of what each row holds, shape (n,), whatever the order of the columns."""
    words = [columns[name].words() for name in sorted(columns)]
    if times is not None:
        words.append(times)
    if groups is not None:
        words.append(text_column(groups.tolist()).words())
    return row_hashes(np.column_stack(words))
