"""The past of the rows of a table.

Columns from the past are made of whole tables, in the order of time, before rows are
sampled, cut into blocks or picked for an explanation. So a frame carries them along,
under names that no table has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import narwhals.stable.v2 as nw
import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.data.blocks import Block, ChainedBlock
from manyone.data.labels import encode, find
from manyone.data.rows import MISSING
from manyone.history.past import Past, PastColumns, past_columns
from manyone.messages import label_text
from manyone.tables.errors import TableError
from manyone.tables.frames import (
    Columns,
    Frame,
    as_table,
    joined_labels,
    read_column,
    read_times,
    refuse_missing_columns,
    task_labels,
    times_of,
)

#: Rows of the running means, unless somebody asks for others.
SPAN = 12
# Between the name of a column and what was made of its past.
_MARK = "\x1f"


@dataclass(frozen=True, eq=False)
class TablePast:
    """What the tasks of a table ended with.

    Parameters
    ----------
    names : tuple of str
        Columns that have a past.
    span : int
        Rows of the running means.
    tasks : ndarray of shape (E,)
        Labels, sorted.
    past : Past
        Of these tasks and columns.
    is_begun : ndarray of bool of shape (E,)
        Whether it comes from rows of the table that is being read, which go on in the
        order of time; else a table may also begin anew.
    """

    names: tuple[str, ...]
    span: int
    tasks: Labels
    past: Past
    is_begun: Mask

    @classmethod
    def none(cls, names: Sequence[str], span: int, tasks: Labels) -> Self:
        """Of tasks that no row has been seen of."""
        past = Past.none(len(tasks), len(names))
        return cls(tuple(names), span, tasks, past, np.zeros(len(tasks), dtype=bool))

    def of_tasks(self, tasks: Labels) -> Self:
        """That of some tasks, sorted, some of which may be new."""
        codes = find(tasks, self.tasks)[0]
        is_begun = np.append(self.is_begun, False)[codes]
        return replace(self, tasks=tasks, past=self.past.take(codes), is_begun=is_begun)

    def of_columns(self, names: Iterable[str]) -> Self:
        """That of some of the columns."""
        wanted = set(names)
        places = [k for k, name in enumerate(self.names) if name in wanted]
        shared = tuple(self.names[k] for k in places)
        return replace(self, names=shared, past=self.past.of_columns(places))

    def ended(self) -> Self:
        """For another table, which goes on from here or begins anew."""
        return replace(self, is_begun=np.zeros(len(self.tasks), dtype=bool))

    def later(self, other: TablePast) -> Self:
        """For each task of either, what is later."""
        tasks = encode(joined_labels(self.tasks, other.tasks))[0]
        first = self.of_tasks(tasks)
        second = other.of_tasks(tasks)
        is_later = np.flatnonzero(second.past.time > first.past.time)
        first.past.put(is_later, second.past.take(is_later))
        return first

    def columns(
        self, X: Array, labels: Labels, times: Array, *, in_order: bool = True
    ) -> tuple[PastColumns, Self]:
        """Columns from the past of rows, and the past of those that follow.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Values of the columns, NaN where missing.
        labels, times : ndarray of shape (n,)
            Rows without a label, or without a time (NaN), move nothing.
        in_order : bool
            Whether rows that are older than rows of an earlier call are refused. If not,
            rows are taken as they come: an older one is as late as the latest before it.
        """
        tasks, codes = encode(labels)
        before = self.of_tasks(tasks)
        has_task = np.flatnonzero(codes != MISSING)
        own = codes[has_task]
        when = times[has_task]
        if not in_order:
            begin = np.where(before.is_begun, before.past.time, -np.inf)
            when = np.where(np.isnan(when), when, _latest_so_far(own, when, begin))
        fresh = before.past.continued(own, when)
        begun = np.flatnonzero(before.is_begun)
        fresh.put(begun, before.past.take(begun))
        is_late = before.is_begun[own] & (when < before.past.time[own])
        if is_late.any():
            row = int(has_task[np.argmax(is_late)])
            raise TableError(
                f"is older than rows of the task {label_text(labels[row])} before it, "
                "so its past is not known",
                row=row,
                remedy="Sort the table by its time, or fit with history=None.",
            )
        columns, after = past_columns(X[has_task], own, when, fresh, self.span)
        if len(has_task) < len(X):
            parts = columns
            columns = PastColumns(*(np.where(np.isnan(X), np.nan, 0.0) for _ in parts))
            for values, part in zip(columns, parts, strict=True):
                values[has_task] = part
        is_begun = np.ones(len(tasks), dtype=bool)
        ended = replace(before, past=after, is_begun=is_begun)
        return columns, self._moved_on(ended)

    def _moved_on(self, ended: TablePast) -> Self:
        """The same, where some tasks, known or new, have ended with something else."""
        tasks = self.tasks
        if np.any(find(ended.tasks, tasks)[0] == MISSING):
            tasks = encode(joined_labels(tasks, ended.tasks))[0]
        after = self.of_tasks(tasks)
        places = find(ended.tasks, tasks)[0]
        after.past.put(places, ended.past)
        after.is_begun[places] = ended.is_begun
        return after


def _latest_so_far(codes: Codes, times: Array, begin: Array) -> Array:
    """Latest time of the same entity up to each row (n,), from `begin` (E,) on."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    latest = np.empty(len(times))
    for rows in np.split(order, starts[1:]):
        if len(rows):
            so_far = np.fmax.accumulate(times[rows])
            latest[rows] = np.fmax(so_far, begin[codes[rows[0]]])
    return latest


def hidden_names(names: Iterable[str]) -> list[str]:
    """Names under which a frame carries what was made from the past of columns."""
    return [f"{name}{_MARK}{part}" for name in names for part in PastColumns._fields]


def is_hidden(name: str) -> bool:
    """Whether a column of a frame was made from the past of another."""
    return _MARK in name


def with_columns(frame: Frame, names: Sequence[str], made: PastColumns) -> Frame:
    """A frame that carries columns made from the past of some of its columns."""
    new_names = hidden_names(names)
    values = np.stack(made, axis=-1).reshape(len(frame), len(new_names))
    hidden = nw.from_numpy(values, new_names, backend=frame.implementation)
    if frame.implementation.is_pandas_like():
        native = hidden.to_native()
        native.index = frame.to_native().index
        hidden = as_table(native)
    return nw.concat([frame, hidden], how="horizontal")


def carries_past(frame: Frame) -> bool:
    """Whether the past of its rows has been made."""
    return any(is_hidden(name) for name in frame.columns)


def carried(frame: Frame, names: Sequence[str]) -> Array:
    """What a frame carries of the past of columns, (n, p, 3); see `PastColumns`."""
    values = frame.select(hidden_names(names)).to_numpy()
    return values.reshape(len(frame), len(names), len(PastColumns._fields))


def add_past(columns: Columns, frame: Frame) -> Columns:
    """Columns with what a frame carries of their past: differences and swings."""
    hidden = set(filter(is_hidden, frame.columns))
    names = [name for name in columns if hidden_names([name])[0] in hidden]
    if not names:
        return columns
    past = carried(frame, names)
    return columns | {
        name: replace(columns[name], past=past[:, place, :2])
        for place, name in enumerate(names)
    }


def known_times(frame: Frame, name: str) -> Array:
    """Times of rows to score, NaN where there is none."""
    refuse_missing_columns(frame, time=[name])
    return times_of(read_column(frame.get_column(name)))[0]


# --------------------------------------------------------------------------------- training


@dataclass(frozen=True, eq=False)
class TrainingPast:
    """Makes the past of training rows, block after block.

    Parameters
    ----------
    roles : dict
        Names of the columns for ``task``, ``time``, ``outlier`` and ``groups``.
    ignore : list of str
    span : int
    """

    roles: dict[str, list[str]]
    ignore: Sequence[str]
    span: int

    def start(self, frame: Frame) -> TablePast:
        """Before the first row of a table: its columns of numbers have a past."""
        apart = {name for names in self.roles.values() for name in names}
        apart.update(self.ignore)
        names = [
            name
            for name, kind in frame.schema.items()
            if kind.is_numeric() and name not in apart
        ]
        tasks = task_labels(frame, self.roles["task"])[:0]
        return TablePast.none(names, self.span, tasks)

    def block(self, block: Block, before: object) -> ChainedBlock:
        """A block with its past; `before` is what tasks ended with in those before it."""
        frame = as_table(block.X)
        past = before if isinstance(before, TablePast) else self.start(frame)
        if not len(frame):
            return ChainedBlock(block.X, after=past)
        refuse_missing_columns(frame, **self.roles, ignore=list(self.ignore))
        labels = task_labels(frame, self.roles["task"])
        times = read_times(frame, self.roles["time"][0])
        X = np.column_stack(
            [np.empty((len(frame), 0)), *(_numbers(frame, name) for name in past.names)]
        )
        made, after = past.columns(X, labels, times)
        carrying = with_columns(frame, past.names, made)
        return ChainedBlock(carrying.to_native(), after=after)


def _numbers(frame: Frame, name: str) -> Array:
    """Values of a column of numbers (n,); NaN where a part of the table has none."""
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    column = read_column(frame.get_column(name))
    return column.values if column.levels is None else np.full(len(frame), np.nan)
