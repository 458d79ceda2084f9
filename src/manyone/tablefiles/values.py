"""What the strings of a text file stand for: numbers, dates, yes and no, or just texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from manyone.messages import warn_user
from manyone.progress import counted
from manyone.tablefiles.text import TableFileError

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["number", "boolean", "date", "text"]
# What stands before the decimals; "either" only where it cannot stand between thousands.
Style = Literal["point", "comma", "either"]

_MISSING = ("", "na", "n/a", "nan", "null", "none", "#n/a", "-", "?")
_BOOLEANS = ("true", "false")
_POINT = r"^[+-]?([1-9]\d{0,2}(,\d{3})+(\.\d*)?|\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_COMMA = r"^[+-]?([1-9]\d{0,2}([. ]\d{3})+(,\d*)?|\d+(,\d*)?|,\d+)([eE][+-]?\d+)?$"
# Dates whose order of day and month is certain: 2026-01-31, 2026/01/31, 31.01.2026.
_DAY = r"(\d{4}-\d\d-\d\d|\d{4}/\d\d?/\d\d?|\d\d?\.\d\d?\.\d{4})"
_DATE = rf"^{_DAY}([T ]\d\d?:\d\d(:\d\d(\.\d{{1,9}})?)?)? ?(Z|[+-]\d\d:?\d\d)?$"
# A text column may well have numbers for some of its levels, but hardly as many as these.
_MOST_NUMBERS_IN_TEXT = 50


def decide_kinds(
    table: pl.DataFrame, styles: Mapping[str, Style], name: str
) -> dict[str, Kind]:
    """Kind of every column of a table of strings, from all of its values.

    Parameters
    ----------
    table : polars.DataFrame
    styles : mapping
        Of the columns, see `decimal_styles`.
    name : str
        The file, for messages.

    Returns
    -------
    dict
        Kinds by column.

    Raises
    ------
    TableFileError
        If a column of numbers holds something else here and there: as a text it would be lost.
    """
    return {
        column: _kind(table[column], styles[column], name)
        for column in counted(table.columns)
    }


def decimal_styles(table: pl.DataFrame, delimiter: str, name: str) -> dict[str, Style]:
    """Whether the decimals of each column of strings come after a point or after a comma.

    Columns that can be read both ways, as "1,234", follow those that cannot. Where these differ,
    such a point or comma stands before decimals too. Where there are none, or between semicolons,
    it is a comma in files whose delimiter is the semicolon, and a point in others; a warning says
    how such a value of the file `name` is read.
    """
    usual: Style = "comma" if delimiter == ";" else "point"
    quick = [c for c in table if delimiter != ";" and _plain_numbers(c) is not None]
    names = {column.name for column in quick}
    styles, doubtful = _sure([column for column in table if column.name not in names])
    if "comma" in styles.values():
        more = _sure(quick)
        styles, doubtful = styles | more[0], doubtful + more[1]
    found = set(styles.values())
    if len(found) == 1:
        usual = found.pop()
    elif found and delimiter != ";":
        usual = "either"
    else:
        _tell(doubtful, usual, name)
    return {column: styles.get(column, usual) for column in table.columns}


def _sure(columns: list[pl.Series]) -> tuple[dict[str, Style], list[pl.Series]]:
    """Styles of columns that can be read one way only, and texts of those that have two."""
    styles: dict[str, Style] = {}
    both = []
    for column in columns:
        texts = _known(column)
        texts = texts.filter(texts.str.contains(r"\d"))  # or infinite
        point, comma = (
            texts.str.contains(_POINT).all(),
            texts.str.contains(_COMMA).all(),
        )
        if point != comma:
            styles[column.name] = "comma" if comma else "point"
        elif point:
            both.append(texts)
    return styles, both


def _tell(doubtful: list[pl.Series], style: Style, name: str) -> None:
    """Warn of values that are read with thousands, and might have decimals."""
    mark = r"\." if style == "comma" else ","
    for texts in doubtful:
        marked = texts.filter(texts.str.contains(mark))
        if len(marked):
            text = f"{marked[0]!r} is read as {_numbers(marked, style)[0]}"
            warn_user(f"{name}, column {texts.name!r}: {text}.", UserWarning)


def convert(
    table: pl.DataFrame,
    kinds: Mapping[str, Kind],
    styles: Mapping[str, Style],
    name: str,
    first_row: int = 0,
) -> pl.DataFrame:
    """Strings as what they stand for; columns without a kind stay strings.

    Parameters
    ----------
    table : polars.DataFrame
    kinds : mapping
        Kinds by column.
    styles : mapping
        Of the columns of numbers, see `decimal_styles`.
    name : str
        The file, for messages.
    first_row : int
        Number of rows of the file before this table.

    Raises
    ------
    TableFileError
        Naming the first value that is not of its column's kind.
    """
    import polars as pl

    columns = []
    for column in counted(table.get_columns()):
        kind, style = kinds.get(column.name, "text"), styles.get(column.name, "point")
        if kind == "text":
            columns.append(column)
            continue
        if (
            kind == "number"
            and style == "point"
            and (plain := _plain_numbers(column)) is not None
        ):
            columns.append(plain)
            continue
        texts = _without_missing(column)
        read = {"number": _numbers, "boolean": _booleans, "date": _dates}[kind]
        values = read(texts, style)
        wrong = (values.is_null() & texts.is_not_null()).arg_true()
        if len(wrong):
            what = {"number": "a number", "boolean": "true or false", "date": "a date"}[
                kind
            ]
            remedy = "Mend it, or leave the field empty."
            if kind == "number" and re.search(f"{_POINT}|{_COMMA}", texts[wrong[0]]):
                what = "written as the numbers before it"
                remedy = "Write all of the file with a decimal point."
            raise TableFileError(
                f"{name}, column {column.name!r}, row {first_row + wrong[0]}: "
                f"{column[wrong[0]]!r} is not {what}. {remedy}"
            )
        columns.append(values)
    return pl.DataFrame(columns)


def _kind(column: pl.Series, style: Style, name: str) -> Kind:
    plain = _plain_numbers(column) if style == "point" else None
    if plain is not None and plain.null_count() < len(plain):
        return "number"
    texts = _known(column)
    if not len(texts):
        return "text"
    if texts.str.to_lowercase().is_in(_BOOLEANS).all():
        return "boolean"
    if texts.str.contains(_DATE).all() and _dates(texts, style).null_count() == 0:
        return "date"
    numbers = _numbers(texts, style)
    if numbers.null_count() == 0:
        return "number"
    most = texts.filter(numbers.is_not_null()).n_unique()
    if most > _MOST_NUMBERS_IN_TEXT and numbers.null_count() < len(numbers) / 2:
        wrong = texts.filter(numbers.is_null())[0]
        row = (column == wrong).arg_true()[0]
        raise TableFileError(
            f"{name}, column {column.name!r}, row {row}: {wrong!r} among numbers. Mend it, leave "
            f"the field empty, or leave the column out with --ignore."
        )
    return "text"


def _known(column: pl.Series) -> pl.Series:
    """Different values of a column, stripped, without those that say that there is none."""
    return _without_missing(column).drop_nulls().unique(maintain_order=True)


def _without_missing(column: pl.Series) -> pl.Series:
    import polars as pl

    texts = column.str.strip_chars()
    missing = texts.str.to_lowercase().is_in(_MISSING)
    return pl.select(pl.when(~missing).then(texts)).to_series().alias(column.name)


def _plain_numbers(column: pl.Series) -> pl.Series | None:
    """Numbers where all texts are numbers as machines write them, which is quickly seen."""
    import polars as pl

    for dtype in (pl.Int64, pl.Float64):
        values = column.cast(dtype, strict=False)
        if values.null_count() == column.null_count():
            return values.fill_nan(None) if dtype == pl.Float64 else values
    return None


def _numbers(texts: pl.Series, style: Style) -> pl.Series:
    """Numbers, whole ones as integers; null where there is none."""
    import polars as pl

    marked, plain = texts.str.contains(_POINT), texts.str.replace_all(",", "")
    if style == "comma":
        marked = texts.str.contains(_COMMA)
        # "2.64" beside "3.375" or "7,82": one of them would be a thousand times too large.
        texts = texts.set(~marked & texts.str.contains(r"\."), None)
        plain = texts.str.replace_all(r"[. ]", "").str.replace(",", ".")
    elif style == "either":
        marked &= texts.str.contains(_COMMA)
        texts = texts.set(~marked & texts.str.contains(r"\d"), None)
        plain = texts.str.replace(",", ".")
    plain = pl.select(pl.when(marked).then(plain).otherwise(texts)).to_series()
    plain = plain.alias(texts.name)
    whole = plain.cast(pl.Int64, strict=False)
    lossless = whole.null_count() == texts.null_count()
    return whole if lossless else plain.cast(pl.Float64, strict=False)


def comma_numbers(texts: Sequence[str]) -> list[float] | None:
    """Numbers that are written with decimal commas, NaN where missing.

    None if one of them is not, or if all can be read with decimal points.
    """
    plain = [
        text.strip() if text.strip().lower() not in _MISSING else "nan"
        for text in texts
    ]
    known = [text for text in plain if text != "nan"]
    point, comma = (
        all(re.search(form, text) for text in known) for form in (_POINT, _COMMA)
    )
    if point or not comma:
        return None
    points = str.maketrans({".": "", " ": "", ",": "."})
    return [float(text.translate(points)) for text in plain]


def _booleans(texts: pl.Series, style: Style) -> pl.Series:
    import polars as pl

    words = texts.str.to_lowercase()
    true, known = words == _BOOLEANS[0], words.is_in(_BOOLEANS)
    return pl.select(pl.when(known).then(true)).to_series().alias(texts.name)


def _dates(texts: pl.Series, style: Style) -> pl.Series:
    """Times, in UTC where a zone is given; null where there is none."""
    whole = texts.str.replace(r"^(\d{4})/(\d\d?)/(\d\d?)", "$1-$2-$3")
    whole = whole.str.replace(r"^(\d\d?)\.(\d\d?)\.(\d{4})", "$3-$2-$1")
    whole = whole.str.replace(r"^([\d-]+)T", "$1 ").str.replace(r"^(\S+)$", "$1 00:00")
    whole = whole.str.replace(r"^(\S+ \d\d?:\d\d)( ?[Z+-].*)?$", "$1:00$2")
    whole = whole.str.replace(r"^(\S+ \d\d?:\d\d:\d\d(\.\d+)?)$", "${1}Z")
    form = "%Y-%m-%d %H:%M:%S%.f%#z"
    return whole.str.to_datetime(
        form, strict=False, time_zone="UTC"
    ).dt.replace_time_zone(None)
