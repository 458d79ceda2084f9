"""Tables of pandas, polars and pyarrow as plain columns, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.data.checks import plain_label
from manyone.history.clocks import DATES, NUMBERS, ZONED, clock_of
from manyone.messages import plural, shortlist
from manyone.tablefiles.values import (
    has_zone,
    kind_of,
    read_answer,
)
from manyone.tables.columns import Column, Columns, column_texts, text_column
from manyone.tables.errors import TimeError

#: A data frame of pandas, polars or pyarrow.
Table = Any
Frame = nw.DataFrame[Any]
Series = nw.Series[Any]
#: What a column is called, in the frames of pandas by a number, too.
Name = str | int
#: A column on its way into a table.
Values = Labels | list[Any] | Series
#: Columns of these types hold whatever somebody wrote: their texts may stand for
#: numbers, dates or truths. Those of categories hold names.
WRITTEN = (nw.String, nw.Object, nw.Unknown)


def as_table(table: Table) -> Frame:
    """A narwhals frame whose columns have different names, or what is wrong with it."""
    if hasattr(table, "collect"):
        raise ValueError("table is a lazy frame: call .collect() first.")
    columns = getattr(table, "column_names", getattr(table, "columns", ()))
    names = [str(name) for name in columns]
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(
            f"table has several columns named {shortlist(twice, 3)}: rename them."
        )
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise ValueError(
            "table must be a data frame of pandas, polars or pyarrow; got "
            f"{type(table).__name__}."
        )
    numbers = {name: str(name) for name in frame.columns if not isinstance(name, str)}
    return frame.rename(numbers) if numbers else frame


def refuse_no_rows(frame: Frame) -> None:
    """Nothing can be learned from, or said about, a table without rows."""
    if not len(frame):
        raise ValueError("table has no rows.")


def names_of(names: Name | Iterable[Name] | None) -> list[str]:
    """Names of columns, whether one is given, or several, or None."""
    if names is None:
        return []
    listed = [names] if isinstance(names, str | int) else names
    return [str(name) for name in listed]


def refuse_missing_columns(frame: Frame, **roles: Sequence[str]) -> None:
    """Every column that a role names has to be there, and named once."""
    present = set(frame.columns)
    for role, names in roles.items():
        lost = [name for name in names if name not in present]
        if lost:
            raise ValueError(
                f"{role}: there is no column {shortlist(lost, 3)}. The columns are "
                f"{shortlist(frame.columns, 8)}."
            )
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{role}: {twice[0]!r} is named twice. Keep one.")


def read_column(series: Series) -> Column:
    """A column as plain arrays."""
    dtype = series.dtype
    if dtype.is_numeric():
        return Column("number", numbers(series))
    if dtype == nw.Boolean:
        return Column("boolean", numbers(series))
    if dtype in (nw.Datetime, nw.Date):
        return Column("date", _seconds(series))
    if dtype == nw.Duration:
        return Column("number", numbers(series.dt.total_microseconds()) / 1e6)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return text_column(series.to_list())
    if dtype in (nw.Object, nw.Unknown):
        return _mixed(series.to_list())
    return Column(str(dtype), np.full(len(series), np.nan))


class Times(NamedTuple):
    """Times of rows.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Numbers, dates as seconds since 1970; NaN where there is none that can be read.
    clocks : frozenset of str
        How they are written, see :mod:`manyone.history.clocks`; more than one in texts.
    """

    values: Array
    clocks: frozenset[str]

    @property
    def are_dates(self) -> bool:
        """Whether they are dates, which have hours, and no mere numbers."""
        return NUMBERS not in self.clocks


def read_times(frame: Frame, name: str) -> Times:
    """Times of rows, none missing and all written in one way."""
    series = frame.get_column(name)
    times = times_of(series)
    rows = np.flatnonzero(~np.isfinite(times.values))
    if len(rows):
        text = text_column(series[rows[:1].tolist()].to_list()).texts()[0]
        wrong = "has no value" if text is None else f"has {text!r}, which is no time,"
        raise TimeError(
            f"{wrong} in the time column {name!r} ({plural(len(rows), 'such row')})",
            row=int(rows[0]),
            remedy="Give dates, texts as 2026-01-31 12:00, or numbers, or remove the "
            "rows.",
        )
    if len(times.clocks) > 1:
        raise TimeError(
            f"The time column {name!r} holds {DATES} and {ZONED}",
            remedy="Write all of them in one way.",
        )
    return times


def times_of(series: Series) -> Times:
    """Times of a column, and how they are written."""
    column = read_column(series)
    if column.levels is None:
        clock = NUMBERS if column.kind == "number" else clock_of(series.dtype)
        return Times(column.values, frozenset([clock]))
    texts = column_texts(column)
    if kind_of(texts, "point").kind == "number":
        return Times(column.read_as("number", "point").values, frozenset([NUMBERS]))
    dates = column.read_as("date", "point").values
    clocks = {ZONED if has_zone(text) else DATES for text in texts}
    return Times(dates, frozenset(clocks or [DATES]))


def read_columns(frame: Frame, names: Sequence[str]) -> Columns:
    """Some columns as plain arrays."""
    return {name: read_column(frame.get_column(name)) for name in names}


def numbers(series: Series) -> Array:
    """Values as float64, NaN where missing."""
    dtype = series.dtype
    # pyarrow casts no whole number beyond 2^53, and NumPy has none of 128 bits.
    is_whole = dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128)
    if not (dtype.is_float() or is_whole) or len(series) == 0:
        series = series.cast(nw.Float64)
    return np.asarray(series.to_numpy(), dtype=np.float64)


def _mixed(values: list[object]) -> Column:
    """Python objects: numbers if all of them are, else texts."""
    plain = [plain_label(value) for value in values]
    present = [value for value in plain if value is not None]
    if not present or not all(isinstance(value, Real | Decimal) for value in present):
        return text_column(plain)
    numbers = [
        float(value) if isinstance(value, Real | Decimal) else np.nan for value in plain
    ]
    boolean = all(isinstance(value, bool) for value in present)
    return Column("boolean" if boolean else "number", np.array(numbers))


def _seconds(series: Series) -> Array:
    """Moments as seconds since 1970 (UTC), to the millisecond; NaN where missing."""
    moments = np.asarray(series.to_numpy(), dtype="datetime64[ms]")
    seconds = moments.astype(np.int64) / 1e3
    seconds[np.isnat(moments)] = np.nan
    return seconds


def read_yes_no(frame: Frame, name: str) -> Mask:
    """Where a column says yes (n,): booleans, 0 and 1, or words; missing is no."""
    texts = [str(value) for value in frame.get_column(name).to_list()]
    answers = {text: read_answer(text) for text in dict.fromkeys(texts)}
    wrong = [text.strip() for text, answer in answers.items() if answer is None]
    if wrong:
        raise ValueError(
            f"Column {name!r} must say true or false, yes or no, 1 or 0; "
            f"got {shortlist(wrong, 3)}."
        )
    return np.array([answers[text] for text in texts], dtype=bool)


def like(
    frame: Frame, columns: Mapping[str, Values], rows: Codes | None = None
) -> Table:
    """A table of the library that `frame` is of.

    Parameters
    ----------
    frame : narwhals data frame
    columns : dict of arrays, lists or narwhals series
    rows : ndarray of int or None
        Rows of `frame` that the lines are about. A pandas table then has their index.
    """
    plain = {name: _plain(values) for name, values in columns.items()}
    schema = None
    if all(len(values) == 0 for values in columns.values()):
        schema = {name: _dtype_of(values) for name, values in columns.items()}
    table = nw.from_dict(plain, schema, backend=frame.implementation)
    native = table.to_native()
    index = nw.maybe_get_index(frame)
    if rows is not None and index is not None:
        all_rows = np.array_equal(rows, np.arange(len(frame)))
        native.index = index if all_rows else index[rows]
    return native


def _plain(values: Values) -> Values:
    """Values as narwhals takes them; columns of pandas without an index to align by."""
    if isinstance(values, nw.Series):
        return nw.maybe_reset_index(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "UO":
        return values.tolist()
    return values


def _dtype_of(values: Values) -> nw.dtypes.DType:
    """Type of a column without rows, which no value shows."""
    if isinstance(values, nw.Series):
        return values.dtype
    kinds = {
        "i": nw.Int64(),
        "f": nw.Float64(),
        "b": nw.Boolean(),
        "M": nw.Datetime("us"),
    }
    return kinds.get(np.asarray(values).dtype.kind, nw.String())
