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
        kept = [name for name in self.names if name in set(names)]
        places = [self.names.index(name) for name in kept]
        return replace(self, names=tuple(kept), past=self.past.of_columns(places))

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
        known = self.of_tasks(encode(joined_labels(self.tasks, labels))[0])
        codes = find(labels, known.tasks)[0]
        has_task = np.flatnonzero(codes != MISSING)
        own = codes[has_task]
        when = times[has_task]
        if not in_order:
            begin = np.where(known.is_begun, known.past.time, -np.inf)
            when = np.where(np.isnan(when), when, _latest_so_far(own, when, begin))
        fresh = known.past.continued(own, when)
        begun = np.flatnonzero(known.is_begun)
        fresh.put(begun, known.past.take(begun))
        is_late = known.is_begun[own] & (when < known.past.time[own])
        if is_late.any():
            row = int(has_task[np.argmax(is_late)])
            raise TableError(
                f"is older than rows of the task {label_text(labels[row])} before it, "
                "so its past is not known",
                row=row,
                remedy="Sort the table by its time, or fit with history=None.",
            )
        found, after = past_columns(X[has_task], own, when, fresh, self.span)
        columns = found
        if len(has_task) < len(X):
            columns = PastColumns(*(np.where(np.isnan(X), np.nan, 0.0) for _ in found))
            for values, part in zip(columns, found, strict=True):
                values[has_task] = part
        is_begun = known.is_begun.copy()
        is_begun[own] = True
        return columns, replace(known, past=after, is_begun=is_begun)


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


def hidden_names(name: str) -> list[str]:
    """Names under which a frame carries what was made from the past of a column."""
    return [f"{name}{_MARK}{part}" for part in PastColumns._fields]


def is_hidden(name: str) -> bool:
    """Whether a column of a frame was made from the past of another."""
    return _MARK in name


def with_columns(frame: Frame, names: Sequence[str], made: PastColumns) -> Frame:
    """A frame that carries columns made from the past of some of its columns."""
    series = [
        nw.new_series(
            hidden,
            np.ascontiguousarray(values[:, place]),
            nw.Float64,
            backend=frame.implementation,
        )
        for place, name in enumerate(names)
        for hidden, values in zip(hidden_names(name), made, strict=True)
    ]
    return frame.with_columns(*series) if series else frame


def carries_past(frame: Frame) -> bool:
    """Whether the past of its rows has been made."""
    return any(is_hidden(name) for name in frame.columns)


def carried(frame: Frame, name: str) -> Array | None:
    """What a frame carries of the past of a column, (n, 3); None where it has none."""
    names = hidden_names(name)
    if names[0] not in frame.columns:
        return None
    return np.column_stack([frame.get_column(each).to_numpy() for each in names])


def add_past(columns: Columns, frame: Frame) -> Columns:
    """Columns with what a frame carries of their past: differences and swings."""
    found = dict(columns)
    for name, column in columns.items():
        past = carried(frame, name)
        if past is not None:
            found[name] = replace(column, past=past[:, :2])
    return found


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
        whole = with_columns(frame, past.names, made)
        return ChainedBlock(whole.to_native(), after=after)


def _numbers(frame: Frame, name: str) -> Array:
    """Values of a column of numbers (n,); NaN where a part of the table has none."""
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    column = read_column(frame.get_column(name))
    return column.values if column.levels is None else np.full(len(frame), np.nan)
