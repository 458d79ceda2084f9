"""Rows of a table as a model reads them: once, for answers, reasons and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.tables.columns import Columns, taken
from manyone.tables.frames import (
    Series,
    Table,
    Times,
    as_table,
    refuse_missing_columns,
    times_of,
)
from manyone.tables.labels import claimed_tasks, labels_like
from manyone.tables.past import (
    Limits,
    TablePast,
    add_past,
    refuse_other_clocks,
    season_words,
)

if TYPE_CHECKING:
    from manyone.tables.model import TableModel


@dataclass(frozen=True, eq=False)
class TableRows:
    """What a model reads of the rows of a table.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Their tasks, as the table names them; None where there is none.
    codes : ndarray of shape (n,)
        Numbers of their tasks among those of the model; MISSING where a task is
        unknown, or a row has none.
    columns : dict of str to Column
        Those that the model uses, with the past of their rows.
    still : dict of str to ndarray of shape (n,)
        Rows, this one included, in which a column with a past has stayed the same.
    when : Series or None
        The time column, where the model has one and the table too.
    """

    labels: Labels
    codes: Codes
    columns: Columns
    still: Mapping[str, Array]
    when: Series | None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.codes)

    def take(self, places: Codes) -> TableRows:
        """Some of the rows."""
        return TableRows(
            self.labels[places],
            self.codes[places],
            taken(self.columns, places),
            {name: values[places] for name, values in self.still.items()},
            None if self.when is None else self.when[places.tolist()],
        )

    @cached_property
    def times(self) -> Times | None:
        """When each row was; None without a time column."""
        return None if self.when is None else times_of(self.when)

    def season_words(self, places: Codes, past: TablePast) -> list[str]:
        """When in the season of a past some rows are, in words; empty without one."""
        if self.times is None:
            return [""] * len(places)
        return season_words(self.times.values[places], past)


def read_rows(
    model: TableModel,
    table: Table,
    past: TablePast | None,
    moves: Mask | None,
    in_order: bool,
) -> tuple[TableRows, TablePast | None]:
    """Rows with their past, and the past of later ones, see `TableModel.read`."""
    frame = as_table(table)
    labels, codes = claimed_tasks(frame, model.task_columns, model.tasks_)
    columns = model.encoder_.read(frame)
    name = model.time_column
    when = None
    if name is not None and name in frame.columns:
        when = frame.get_column(name)
    rows = TableRows(labels, codes, columns, {}, when)
    past = model.training_.past if past is None else past
    if past is None or not past.names:
        return rows, past
    assert name is not None
    refuse_missing_columns(frame, time=[name])
    times = _times_known(rows, name, past)
    if moves is not None:
        times = np.where(moves, times, np.nan)
    X = np.column_stack([columns[name].values for name in past.names])
    past_labels = labels_like(labels, model.tasks_, model.task_columns)
    places = [model.encoder_.layout.with_past.index(name) for name in past.names]
    limits = Limits(model.tasks_, model.encoder_.limits[:, :, places])
    made, after = past.columns(X, past_labels, times, limits, in_order=in_order)
    still = dict(zip(past.names, made.still.T, strict=True))
    return replace(rows, columns=add_past(columns, past, made), still=still), after


def _times_known(rows: TableRows, name: str, past: TablePast) -> Array:
    """Times of rows (n,), NaN where there is none, written as those before them."""
    times = rows.times
    assert times is not None
    if np.isfinite(times.values).any():
        refuse_other_clocks(times.clocks, f"The time column {name!r}", past.clock)
    return times.values
