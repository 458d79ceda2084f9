"""The past of the rows of a table.

Columns from the past are made of whole tables, in the order of time, before rows are
sampled, cut into blocks or picked for an explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import narwhals.stable.v2 as nw
import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.data.blocks import Block, ChainedBlock
from manyone.data.labels import encode, find
from manyone.data.rows import MISSING
from manyone.history.clocks import remedy_for
from manyone.history.past import Past, PastColumns, past_columns
from manyone.history.seasons import SEASONS, Seasonal
from manyone.messages import label_text
from manyone.tables.columns import Columns
from manyone.tables.errors import TableError
from manyone.tables.frames import (
    Frame,
    as_table,
    read_column,
    read_times,
    refuse_missing_columns,
)
from manyone.tables.labels import joined_labels, task_labels

#: Rows of the running means, unless somebody asks for others.
SPAN = 12


class Compared(NamedTuple):
    """What rows are compared with.

    Attributes
    ----------
    span : int
        Rows of the running means.
    season : str
        Among `SEASONS`; empty for none.
    seasonal : tuple of str
        Columns that have a season.
    """

    span: int
    season: str = ""
    seasonal: tuple[str, ...] = ()


class Limits(NamedTuple):
    """Differences of values that count in the past of later rows.

    Attributes
    ----------
    tasks : ndarray of shape (T,)
        Labels, sorted.
    ends : ndarray of shape (2, T + 1, p)
        The lowest and the highest, in each task and, last, in others.
    """

    tasks: Labels
    ends: Array


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
    clock : str
        How times are written, see :mod:`manyone.history.clocks`.
    season : str
        That columns are compared with, among `SEASONS`; empty for none.
    seasonal : tuple of str
        Those of the columns that have it.
    """

    names: tuple[str, ...]
    span: int
    tasks: Labels
    past: Past
    is_begun: Mask
    clock: str
    season: str = ""
    seasonal: tuple[str, ...] = ()

    @classmethod
    def none(
        cls, names: Sequence[str], tasks: Labels, compared: Compared, clock: str
    ) -> Self:
        """Of tasks that no row has been seen of."""
        phases = SEASONS[compared.season].phases if compared.season else 0
        return cls(
            tuple(names),
            compared.span,
            tasks,
            Past.none(len(tasks), len(names), phases),
            np.zeros(len(tasks), dtype=bool),
            clock,
            compared.season,
            compared.seasonal,
        )

    @property
    def compared(self) -> Compared:
        """What rows are compared with."""
        return Compared(self.span, self.season, self.seasonal)

    def seasonal_names(self) -> list[str]:
        """Columns that have a season, in the order of the columns."""
        return [name for name in self.names if name in self.seasonal]

    def _seasonal(self) -> Seasonal | None:
        """The season and which of the columns have it; None where there is none."""
        if not self.season:
            return None
        return Seasonal(SEASONS[self.season], np.isin(self.names, self.seasonal))

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
        seasonal = tuple(name for name in self.seasonal if name in wanted)
        past = self.past.of_columns(places)
        return replace(self, names=shared, past=past, seasonal=seasonal)

    def ended(self) -> Self:
        """For another table, which goes on from here or begins anew."""
        return replace(self, is_begun=np.zeros(len(self.tasks), dtype=bool))

    def is_like(self, other: TablePast) -> bool:
        """Whether rows are compared with the same things."""
        mine = (self.names, self.compared, self.clock)
        return mine == (other.names, other.compared, other.clock)

    def later(self, other: TablePast) -> Self:
        """For each task of either, what is later."""
        refuse_other_clocks({other.clock}, "The table", self.clock)
        tasks = encode(joined_labels(self.tasks, other.tasks))[0]
        first = self.of_tasks(tasks)
        second = other.of_tasks(tasks)
        is_later = np.flatnonzero(second.past.time > first.past.time)
        first.past.put(is_later, second.past.take(is_later))
        return first

    def columns(
        self,
        X: Array,
        labels: Labels,
        times: Array,
        limits: Limits | None = None,
        *,
        in_order: bool = True,
    ) -> tuple[PastColumns, Self]:
        """Columns from the past of rows, and the past of those that follow.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Values of the columns, NaN where missing.
        labels, times : ndarray of shape (n,)
            Rows without a label, or without a time (NaN), move nothing.
        limits : Limits or None
            None: all values count in the past of later rows.
        in_order : bool
            Whether rows that are older than rows of an earlier call are refused. If
            not, rows are taken as they come: an older one is as late as the latest
            before it. The past then moves on in place. Only the tasks that it has
            have one, so the answers do not depend on how a stream is cut.
        """
        tasks, codes = encode(labels)
        before = self.of_tasks(tasks)
        places = find(tasks, self.tasks)[0]
        has_past = in_order | (places != MISSING)
        has_task = np.flatnonzero(np.append(has_past, False)[codes])
        # A slice takes no copy.
        rows = slice(None) if len(has_task) == len(X) else has_task
        own = codes[rows]
        when = times[rows]
        if not in_order:
            begin = np.where(before.is_begun, before.past.time, -np.inf)
            when = np.where(np.isnan(when), when, _latest_so_far(own, when, begin))
        fresh = before.past.continued(own, when, before.is_begun)
        if fresh is not before.past:
            # What is usual in a season is known also of rows that begin anew.
            fresh.phase_sums[:] = before.past.phase_sums
        is_late = before.is_begun[own] & (when < before.past.time[own])
        if is_late.any():
            row = int(has_task[np.argmax(is_late)])
            raise TableError(
                f"is older than rows of the task {label_text(labels[row])} before it, "
                "so its past is not known",
                row=row,
                remedy="Sort the table by its time, or fit with history=None.",
            )
        ends = None
        if limits is not None:
            ends = limits.ends[:, find(tasks, limits.tasks)[0]]
        seasonal = self._seasonal()
        columns, after = past_columns(
            X[rows], own, when, fresh, self.span, seasonal, self.span, ends
        )
        if len(has_task) < len(X):
            values = np.full((len(X), columns.values.shape[1]), np.nan)
            values[has_task] = columns.values
            columns = PastColumns(values, X.shape[1])
        is_begun = before.is_begun.copy()
        is_begun[own[~np.isnan(when)]] = True
        ended = replace(before, past=after, is_begun=is_begun)
        if in_order:
            return columns, self._moved_on(ended)
        if not has_past.all():
            is_known = np.flatnonzero(has_past)
            places = places[is_known]
            after = after.take(is_known)
            is_begun = is_begun[is_known]
        self.past.put(places, after)
        self.is_begun[places] = is_begun
        return columns, self

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
    ends = np.cumsum(np.bincount(codes, minlength=len(begin)))
    latest = np.empty(len(times))
    for rows, first in zip(np.split(order, ends[:-1]), begin, strict=False):
        latest[rows] = np.fmax(np.fmax.accumulate(times[rows]), first)
    return latest


def add_past(columns: Columns, past: TablePast, made: PastColumns) -> Columns:
    """Columns with what was made from the past of their rows."""
    usual = dict(zip(past.seasonal_names(), made.usual.T, strict=True))
    return columns | {
        name: replace(
            columns[name],
            past=made.differences_and_swings(place),
            usual=usual.get(name),
        )
        for place, name in enumerate(past.names)
        if name in columns
    }


def refuse_other_clocks(clocks: Set[str], what: str, clock: str) -> None:
    """Nobody knows how many hours are between times that are written in two ways."""
    others = clocks - {clock}
    if others:
        raise TableError(
            f"{what} holds {min(others)}, and the rows before them {clock}",
            remedy=remedy_for(clock),
        )


def season_words(times: Array, past: TablePast) -> list[str]:
    """When in its season each row (n,) is, in words; empty without a season."""
    if not past.season:
        return [""] * len(times)
    season = SEASONS[past.season]
    return [season.words(time) if time == time else "" for time in times.tolist()]


# ----------------------------------------------------------------------------- training


@dataclass(frozen=True, eq=False)
class BlockWithPast(ChainedBlock):
    """A block of a table, and what was made from the past of its rows.

    Parameters
    ----------
    made : PastColumns or None
        None where rows are not compared with earlier ones.
    """

    made: PastColumns | None = None

    def part(self, rows: slice) -> BlockWithPast:
        """Some of the rows."""
        made = self.made
        if made is not None:
            made = PastColumns(made.values[rows], made.width)
        return replace(self, X=as_table(self.X)[rows], made=made)


@dataclass(frozen=True, eq=False)
class TrainingPast:
    """Makes the past of training rows, block after block.

    Parameters
    ----------
    roles : dict
        Names of the columns for ``task``, ``time``, ``outlier`` and ``groups``.
    ignore : list of str
    compared : Compared
    """

    roles: dict[str, list[str]]
    ignore: Sequence[str]
    compared: Compared

    def start(self, frame: Frame) -> TablePast:
        """Before the first row of a table: its columns of numbers have a past."""
        apart = {name for names in self.roles.values() for name in names}
        apart.update(self.ignore)
        # Numbers may be Python's own, as decimals in pandas.
        names = [
            name
            for name, dtype in frame.schema.items()
            if name not in apart
            and (
                dtype.is_numeric()
                or (dtype == nw.Object and read_column(frame[name]).kind == "number")
            )
        ]
        tasks = task_labels(frame, self.roles["task"])[:0]
        times = read_times(frame, self.roles["time"][0])
        return TablePast.none(names, tasks, self.compared, min(times.clocks))

    def block(self, block: Block, before: object) -> BlockWithPast:
        """A block with its past; `before` is the past of tasks in earlier blocks."""
        frame = as_table(block.X)
        refuse_missing_columns(frame, **self.roles, ignore=list(self.ignore))
        if not len(frame):
            return BlockWithPast(block.X, after=before)
        past = before if isinstance(before, TablePast) else self.start(frame)
        labels = task_labels(frame, self.roles["task"])
        name = self.roles["time"][0]
        times = read_times(frame, name)
        refuse_other_clocks(times.clocks, f"The time column {name!r}", past.clock)
        X = np.column_stack(
            [np.empty((len(frame), 0)), *(_numbers(frame, name) for name in past.names)]
        )
        made, after = past.columns(X, labels, times.values)
        return BlockWithPast(block.X, after=after, made=made)


def _numbers(frame: Frame, name: str) -> Array:
    """Values of a column of numbers (n,); NaN where a part of the table has none."""
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    column = read_column(frame.get_column(name))
    return column.values if column.levels is None else np.full(len(frame), np.nan)
