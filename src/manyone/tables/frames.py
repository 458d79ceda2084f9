"""Tables of pandas, polars and pyarrow as plain columns, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyone._types import Array, Codes, Labels, Mask
from manyone.data.checks import plain_label
from manyone.data.labels import as_labels
from manyone.history.clocks import DATES, NUMBERS, ZONED, clock_of
from manyone.history.seasons import level_of
from manyone.messages import plural, shortlist
from manyone.tablefiles.values import (
    DecimalsError,
    Kind,
    Style,
    decimal_style,
    different_values,
    doubtful_value,
    has_zone,
    is_missing,
    kind_of,
    plain_number,
    read_answer,
    value_of,
)
from manyone.tables.errors import MixedColumnError, TableError, TimeError

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


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, free of the library it came from.

    Parameters
    ----------
    kind : {"number", "boolean", "date", "text"} or another word for what cannot be used
    values : ndarray of shape (n,)
        Float64, NaN where missing: numbers, 0 and 1, seconds since 1970, or numbers of
        `levels`.
    levels : ndarray of str or None
        What the values of a text column stand for.
    past : ndarray of shape (n, 2) or None
        How the values differ from their running means, and how much they swing.
    usual : ndarray of shape (n,) or None
        What is usual at the time of each row, where the column has a season; NaN where
        that is not known yet.
    """

    kind: str
    values: Array
    levels: NDArray[np.str_] | None = None
    past: Array | None = None
    usual: Array | None = None

    @property
    def level(self) -> Array:
        """Values (n,), less what is usual at their time where there is a season."""
        return self.values if self.usual is None else level_of(self.values, self.usual)

    def take(self, rows: Codes) -> Column:
        """Some of the rows; texts that none of them has are forgotten."""
        values = self.values[rows]
        if self.levels is None:
            past = None if self.past is None else self.past[rows]
            usual = None if self.usual is None else self.usual[rows]
            return replace(self, values=values, past=past, usual=usual)
        is_known = ~np.isnan(values)
        used, numbers = np.unique(values[is_known].astype(np.intp), return_inverse=True)
        values = values.copy()
        values[is_known] = numbers
        return replace(self, values=values, levels=self.levels[used])

    def with_values(self, values: Array) -> Column:
        """Other values (n,) after the same past."""
        past = self.past
        if past is not None:
            past = past + np.outer(values - self.values, [1.0, 0.0])
        return replace(self, values=values, past=past)

    def joined(self, more: Column, name: str) -> Column:
        """These values followed by more values of a column of some name."""
        kind = self._common_kind(more, name)
        if kind != "text":
            return Column(
                kind,
                np.concatenate([self.values, more.values]),
                past=_both(self.past, more.past),
                usual=_both(self.usual, more.usual),
            )
        listed = [
            np.empty(0, dtype="U1") if part.levels is None else part.levels
            for part in (self, more)
        ]
        levels = np.unique(np.concatenate(listed))
        numbers = [
            part.by_level(np.searchsorted(levels, own))
            for part, own in zip((self, more), listed, strict=True)
        ]
        return Column("text", np.concatenate(numbers), levels)

    def by_level(self, level_values: ArrayLike) -> Array:
        """A number for each row (n,) from those of levels (k,); NaN where missing."""
        numbers = np.append(level_values, np.nan)
        places = np.where(np.isnan(self.values), len(numbers) - 1, self.values)
        return numbers[places.astype(np.intp)]

    def _common_kind(self, more: Column, name: str) -> str:
        """The kind of both; a column without values may be of any kind."""
        if self.kind == more.kind or np.isnan(more.values).all():
            return self.kind
        if np.isnan(self.values).all():
            return more.kind
        if {self.kind, more.kind} == {"number", "boolean"}:
            return "number"
        raise TableError(
            f"Column {name!r} is {self.kind} in one part of the table and {more.kind} "
            "in another",
            remedy="Convert it.",
        )

    def words(self) -> Array:
        """A number for each value, the same in every process, shape (n,)."""
        if self.levels is None:
            words = self.values.copy()
        else:
            words = self.by_level([_number_of(text) for text in self.levels.tolist()])
        words[np.isnan(words)] = np.nan  # the bits of all of them are the same
        return words

    def texts(self) -> list[str | None]:
        """Values of a text column, None where missing."""
        levels = [] if self.levels is None else self.levels.tolist()
        return [
            None if value != value else levels[int(value)]
            for value in self.values.tolist()
        ]

    def read_as(self, kind: Kind, style: Style) -> Column:
        """Texts as values of another kind; NaN where they are missing or bad."""
        levels = [] if self.levels is None else self.levels.tolist()
        return Column(
            kind, self.by_level([value_of(text, kind, style) for text in levels])
        )


Columns = dict[str, Column]


def taken(columns: Columns, rows: Codes) -> Columns:
    """Some rows of all columns."""
    return {name: column.take(rows) for name, column in columns.items()}


def _both(first: Array | None, second: Array | None) -> Array | None:
    """Two arrays in one; None where one is missing."""
    if first is None or second is None:
        return None
    return np.concatenate([first, second])


def _number_of(text: str) -> float:
    """A number for a text: 53 bits of a hash."""
    digest = hashlib.blake2b(
        text.encode(errors="surrogatepass"), digest_size=8
    ).digest()
    return float(int.from_bytes(digest) >> 11)


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


def interpreted(columns: Columns, names: Iterable[str]) -> Columns:
    """Columns of which some were texts and are what their texts stand for.

    Raises
    ------
    MixedColumnError
        If a column of numbers holds texts here and there: the numbers would be lost.
    """
    texts = {
        name: column_texts(columns[name])
        for name in names
        if columns[name].kind == "text"
    }
    style = text_style(texts)
    read = dict(columns)
    for name, values in texts.items():
        verdict = kind_of(values, style)
        if verdict.bad:
            bad = verdict.bad[0]
            column = [(text or "").strip() for text in columns[name].texts()]
            raise MixedColumnError(
                f"has {bad!r} among the numbers of the column {name!r}",
                row=column.index(bad),
                remedy="Mend it or set it to missing. If these are names, convert the "
                f"column to categories, or leave it out with ignore=[{name!r}].",
            )
        if verdict.kind != "text":
            read[name] = columns[name].read_as(verdict.kind, style)
    return read


def column_texts(column: Column) -> list[str]:
    """The different texts of a column that say something."""
    return [] if column.levels is None else different_values(column.levels.tolist())


def text_style(columns: Mapping[str, Sequence[str]]) -> Style:
    """How the decimals of a table are written, by its columns of texts."""
    try:
        style = decimal_style(columns)
    except DecimalsError as error:
        raise TableError(
            f"The {error}",
            remedy="Convert one of the columns, or leave it out with ignore=.",
        ) from None
    if style is not None:
        return style
    for name, texts in columns.items():
        text = doubtful_value(texts, "point")
        if text is not None:
            numbers = [plain_number(text, each) for each in ("point", "comma")]
            raise TableError(
                f"{text!r} in the column {name!r} may be {numbers[0]} or {numbers[1]}",
                remedy="Convert the column, to numbers or to categories.",
            )
    return "point"


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


def text_column(values: Iterable[object]) -> Column:
    """Texts as numbers of their levels; None, NaN and words as "NA" are missing."""
    texts = [
        None if value is None or value != value else str(value) for value in values
    ]
    present = {text for text in texts if text is not None and not is_missing(text)}
    levels = sorted(present)
    index: dict[str | None, float] = {
        text: float(number) for number, text in enumerate(levels)
    }
    codes = np.array([index.get(text, np.nan) for text in texts], dtype=np.float64)
    return Column("text", codes, np.array(levels, dtype=np.str_))


def _mixed(values: list[object]) -> Column:
    """Python objects: numbers if all of them are, else texts."""
    plain = [plain_label(value) for value in values]
    present = [value for value in plain if value is not None]
    if not present or not all(isinstance(value, Real | Decimal) for value in present):
        return text_column(None if value is None else str(value) for value in plain)
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


# ------------------------------------------------------------------------------- labels


def task_labels(frame: Frame, names: Sequence[str]) -> Labels:
    """Label of each row, integers or texts; None where it is missing.

    Several columns make one label, ``"left / right"``.
    """
    parts = [_labels(frame.get_column(name)) for name in names]
    if len(parts) == 1:
        return parts[0]
    rows = zip(*(part.tolist() for part in parts), strict=True)
    return as_labels([joined_label(row) for row in rows])


def joined_label(values: Sequence[object]) -> str | None:
    """One label for the values of several columns; None if one of them is missing."""
    if any(value is None for value in values):
        return None
    return " / ".join(
        str(value).replace("\\", "\\\\").replace("/", "\\/") for value in values
    )


def joined_labels(first: Labels, second: Labels) -> Labels:
    """Two arrays in one; NumPy alone would make texts of whole numbers beside texts."""
    if {first.dtype.kind, second.dtype.kind} & {"U", "O"}:
        return as_labels([*first.tolist(), *second.tolist()])
    return np.concatenate([first, second])


def _labels(series: Series) -> Labels:
    # Of integers only those of UInt64 go beyond int64.
    is_integer = series.dtype.is_integer() and series.dtype != nw.UInt64
    if is_integer and not series.null_count():
        return np.asarray(series.to_numpy(), dtype=np.int64)
    if series.dtype == nw.String and not series.null_count():
        texts = series.to_list()
        if "\0" not in "".join(texts):  # at the end of a text NumPy would strip it
            return np.array(texts, dtype=np.str_)
    labels = as_labels(series.to_list())
    if labels.dtype.kind in "iU":
        return labels
    return as_labels([_label(label) for label in labels.tolist()])


def _label(label: object) -> object:
    """Integers and texts stay; whole floats, as gaps make them, become integers."""
    if label is None or isinstance(label, str) or type(label) is int:
        return label
    if isinstance(label, float) and label.is_integer():
        return int(label)
    return str(label)


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
