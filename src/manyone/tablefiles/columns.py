"""Columns of a text file: their kinds, and their strings as typed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from manyone.messages import plural, warn_user
from manyone.progress import counted
from manyone.tablefiles.text import TableFileError
from manyone.tablefiles.values import (
    MISSING_WORDS,
    DecimalsError,
    Kind,
    Style,
    decimal_style,
    different_values,
    doubtful_value,
    has_zone,
    is_number,
    kind_of,
    plain_number,
    read_boolean,
    read_date,
)

if TYPE_CHECKING:
    import polars as pl
    from polars._typing import PolarsDataType

#: What happens to values that are not of the kind of their column.
BadValues = Literal["refuse", "missing"]
# Formats in which most programs write dates. Whole columns of these are read fast.
_PLAIN_FORMS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
)
_WORDS = {"number": "a number", "boolean": "true or false", "date": "a date"}
#: The option that says how dates are written, in the two orders that texts leave open.
TIME_FORMATS = '--time-format "%m/%d/%Y %H:%M", or "%d/%m/%Y %H:%M" with the day first'


@dataclass
class TextColumns:
    """How to read the columns of a text file.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    kinds : mapping
        Kinds of columns. Columns without a kind stay texts.
    time_formats : mapping
        Formats of dates, by column.
    bad_values : {"refuse", "missing"}
        What happens to values that are not of the kind of their column.

    Attributes
    ----------
    style : {"point", "comma"}
    zoned : set of str
        Columns of dates with a time zone, if `find_kinds` has found their kind.
    bad_cells : Counter
        Number of values that were taken as missing, by column.
    first_bad : str
        The first of them, in words.
    """

    name: str
    kinds: dict[str, Kind]
    time_formats: Mapping[str, str] = field(default_factory=dict)
    bad_values: BadValues = "refuse"
    style: Style = "point"
    zoned: set[str] = field(default_factory=set)
    bad_cells: Counter[str] = field(default_factory=Counter)
    first_bad: str = ""

    def find_style(
        self, table: pl.DataFrame, delimiter: str, unknown: Collection[str] = ()
    ) -> None:
        """Find the mark before decimals, from columns that may hold numbers."""
        columns = [
            column
            for column in table
            if column.name in unknown or self.kinds.get(column.name) == "number"
        ]
        # Numbers as machines write them matter only if other columns have commas.
        plain = [column for column in columns if _plain_numbers(column) is not None]
        plain_names = {column.name for column in plain} if delimiter != ";" else set()
        texts = {
            column.name: _different(column)
            for column in columns
            if column.name not in plain_names
        }
        try:
            style = decimal_style(texts)
            if style == "comma" and plain_names:
                texts |= {column.name: _different(column) for column in plain}
                style = decimal_style(texts)
        except DecimalsError as error:
            raise TableFileError(
                f"{self.name}: {error}. Write all of the file with a decimal point, or "
                "leave one of the columns out with --ignore."
            ) from None
        if style is not None:
            self.style = style
            return
        self.style = "comma" if delimiter == ";" else "point"
        for name, values in texts.items():
            text = doubtful_value(values, self.style)
            if text is not None:
                number = plain_number(text, self.style)
                warn_user(
                    f"{self.name}, column {name!r}: {text!r} is read as {number}.",
                    UserWarning,
                )

    def find_kinds(self, table: pl.DataFrame, names: Collection[str]) -> None:
        """Find the kinds of named columns from all their strings."""
        for name in counted([name for name in table.columns if name in names]):
            plain = self._plain(table[name])
            if plain is not None and plain.null_count() < len(plain):
                self.kinds[name] = "date" if plain.dtype.is_temporal() else "number"
                continue
            texts = _different(table[name])
            verdict = kind_of(texts, self.style)
            if verdict.bad and self.bad_values == "refuse":
                text = verdict.bad[0]
                row = (table[name].str.strip_chars() == text).arg_true()[0]
                others = "numbers"
                remedy = "Mend it"
                if is_number(text):
                    others = f"numbers with a decimal {self.style}"
                    remedy = "Write all of the file in one way"
                raise TableFileError(
                    f"{self.name}, column {name!r}, row {row}: {text!r} among {others}."
                    f" {remedy}, leave the field empty, take such values as missing "
                    "with --bad-values missing, or leave the column out with --ignore."
                )
            self.kinds[name] = verdict.kind
            if verdict.kind == "date":
                self._find_zone(name, texts)

    def _find_zone(self, name: str, texts: list[str]) -> None:
        """Find whether the dates of a column have a time zone."""
        by_zone = {has_zone(text): text for text in texts}
        if len(by_zone) > 1:
            raise TableFileError(
                f"{self.name}, column {name!r}: {by_zone[True]!r} has a time zone and "
                f"{by_zone[False]!r} has none. Write all of them in one way, or leave "
                "the column out with --ignore."
            )
        if True in by_zone:
            self.zoned.add(name)

    def convert(self, table: pl.DataFrame, first_row: int = 0) -> pl.DataFrame:
        """A table with typed values in the place of strings.

        Parameters
        ----------
        table : polars.DataFrame
        first_row : int
            Number of rows of the file before this table.

        Raises
        ------
        TableFileError
            If a value is not of the kind of its column. The message names the first.
        """
        import polars as pl

        columns = [
            self._converted(column, first_row) if column.dtype == pl.String else column
            for column in counted(table.get_columns())
        ]
        return pl.DataFrame(columns)

    def _converted(self, column: pl.Series, first_row: int) -> pl.Series:
        kind = self.kinds.get(column.name, "text")
        if kind == "text":
            return column
        if kind != "boolean" and column.name not in self.time_formats:
            plain = self._plain(column)
            if plain is not None and plain.dtype.is_temporal() == (kind == "date"):
                return plain
        texts = _without_missing(column)
        values = self._values(texts, kind)
        bad = values.is_null() & texts.is_not_null()
        if bad.any():
            self._meet_bad(column, bad, kind, first_row)
        return values

    def _plain(self, column: pl.Series) -> pl.Series | None:
        """The values, if all are written as machines do; found fast. Else None."""
        dates = _plain_dates(column)
        if dates is not None:
            return dates
        if self.style == "point":
            return _plain_numbers(column)
        if column.str.contains(".", literal=True).any():
            return None
        return _plain_numbers(column.str.replace(",", ".", literal=True))

    def _values(self, texts: pl.Series, kind: Kind) -> pl.Series:
        """Values of stripped texts; null for texts that are not of the kind."""
        import polars as pl

        if kind == "number":
            plain = _mapped(
                texts, lambda text: plain_number(text, self.style), pl.String
            )
            integers = plain.cast(pl.Int64, strict=False)
            lossless = integers.null_count() == plain.null_count()
            return integers if lossless else plain.cast(pl.Float64, strict=False)
        if kind == "boolean":
            return _mapped(texts, read_boolean, pl.Boolean)
        form = self.time_formats.get(texts.name)
        dates = _mapped(texts, lambda text: read_date(text, form), pl.Datetime("us"))
        if texts.name in self.zoned or "%z" in (form or ""):
            return dates.dt.replace_time_zone("UTC")
        return dates

    def _meet_bad(
        self, column: pl.Series, bad: pl.Series, kind: Kind, first_row: int
    ) -> None:
        """Refuse values that are not of the kind of their column, or count them."""
        row = bad.arg_true()[0]
        text = column[row]
        place = f"column {column.name!r}, row {first_row + row}: {text!r}"
        if self.bad_values == "missing":
            self.first_bad = self.first_bad or place
            self.bad_cells[column.name] += int(bad.sum())
            return
        form = self.time_formats.get(column.name)
        problem = f"is not {_WORDS[kind]}"
        remedy = "Mend it, leave the field empty, or give --bad-values missing."
        if form is not None:
            problem = f"is not written as the time format {form!r} says"
        elif kind == "number" and is_number(text.strip()):
            problem = "is not written as the numbers before it"
            remedy = "Write all of the file with a decimal point."
        elif kind == "date":
            remedy += f" Name other forms when fitting: {TIME_FORMATS}."
        raise TableFileError(f"{self.name}, {place} {problem}. {remedy}")

    def warn_of_bad(self) -> None:
        """Warn of values that were taken as missing, column by column."""
        if not self.bad_cells:
            return
        counts = ", ".join(
            f"{name!r} {number:,}" for name, number in self.bad_cells.most_common(5)
        )
        total = plural(self.bad_cells.total(), "bad value")
        warn_user(
            f"{self.name}: {total} taken as missing, by column: {counts}. The first: "
            f"{self.first_bad}.",
            UserWarning,
        )


def label_column(column: pl.Series) -> pl.Series:
    """Names of tasks: integers if all are written as such, as "7" and not "07"."""
    import polars as pl

    integers = column.cast(pl.Int64, strict=False)
    as_written = integers.cast(pl.String).eq_missing(column).all()
    return integers if as_written and integers.null_count() < len(integers) else column


def _different(column: pl.Series) -> list[str]:
    """Different values of a column."""
    return different_values(column.unique(maintain_order=True).to_list())


def _mapped(
    texts: pl.Series, read: Callable[[str], object], dtype: PolarsDataType
) -> pl.Series:
    """The value of each text; every different text is read once."""
    import polars as pl

    different = texts.drop_nulls().unique(maintain_order=True)
    values = [read(text) for text in different.to_list()]
    answers = pl.Series(values, dtype=dtype)
    return texts.replace_strict(different, answers, default=None, return_dtype=dtype)


def _without_missing(column: pl.Series) -> pl.Series:
    """Stripped texts; null for missing values."""
    import polars as pl

    texts = column.str.strip_chars()
    present = ~texts.str.to_lowercase().is_in(list(MISSING_WORDS))
    return pl.select(pl.when(present).then(texts)).to_series().alias(column.name)


def _plain_numbers(column: pl.Series) -> pl.Series | None:
    """Numbers, if all texts are numbers as machines write them; else None."""
    import polars as pl

    for dtype in (pl.Int64, pl.Float64):
        values = column.cast(dtype, strict=False)
        if values.null_count() == column.null_count():
            return values.fill_nan(None) if dtype == pl.Float64 else values
    return None


def _plain_dates(column: pl.Series) -> pl.Series | None:
    """Dates, if all texts are dates in one of the plain formats; else None."""
    first = str(column.first(ignore_nulls=True))
    form = next((form for form in _PLAIN_FORMS if read_date(first, form)), None)
    if form is None:
        return None
    values = column.str.to_datetime(form, strict=False, time_unit="us")
    return values if values.null_count() == column.null_count() else None
