"""Values of texts: numbers, dates, true and false, missing values, or just texts.

Files and data frames both read values here, from the different texts of a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

Kind = Literal["number", "boolean", "date", "text"]
#: Mark before decimals.
Style = Literal["point", "comma"]

#: Words for a missing value, in lower case.
MISSING_WORDS = frozenset(
    ("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "-", "?")
)
_TRUE = "true"
_FALSE = "false"
_YES = frozenset((_TRUE, "t", "yes", "y", "1", "1.0"))
_NO = frozenset((_FALSE, "f", "no", "n", "0", "0.0"))
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_FORMS: Mapping[Style, re.Pattern[str]] = {
    "point": re.compile(
        r"[+-]?([1-9]\d{0,2}(,\d{3})+(\.\d*)?|\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
    ),
    "comma": re.compile(
        r"[+-]?([1-9]\d{0,2}([. ]\d{3})+(,\d*)?|\d+(,\d*)?|,\d+)([eE][+-]?\d+)?"
    ),
}
_AS_PLAIN: Mapping[Style, dict[int, str]] = {
    "point": str.maketrans({",": ""}),
    "comma": str.maketrans({".": "", " ": "", ",": "."}),
}
# Dates whose order of day and month is certain: 2026-01-31, 2026/01/31, 31.01.2026.
_DATE = re.compile(
    r"(?:(\d{4})([-/])(\d\d?)\2(\d\d?)|(\d\d?)\.(\d\d?)\.(\d{4}))"
    r"(?:[T ](\d\d?):(\d\d)(?::(\d\d)(\.\d{1,9})?)?)? ?(Z|[+-]\d\d:?\d\d)?"
)


class DecimalsError(ValueError):
    """One column is written with decimal points and another with decimal commas."""


class Verdict(NamedTuple):
    """The kind of a column.

    Attributes
    ----------
    kind : str
    bad : list of str
        Texts that are not of that kind. (The column is not taken for texts: its numbers
        would be lost.)
    """

    kind: Kind
    bad: list[str]


def is_missing(text: str) -> bool:
    """Whether a text stands for a missing value."""
    return text.strip().lower() in MISSING_WORDS


def different_values(texts: Iterable[str | None]) -> list[str]:
    """The different texts that are not missing, stripped, in their order."""
    stripped = (text.strip() for text in texts if text is not None)
    return [
        text for text in dict.fromkeys(stripped) if text.lower() not in MISSING_WORDS
    ]


def decimal_style(columns: Mapping[str, Sequence[str]]) -> Style | None:
    """Whether decimals of a table come after a point or after a comma.

    Parameters
    ----------
    columns : mapping of str to list of str
        Different values of columns, see `different_values`.

    Returns
    -------
    str or None
        None if every column can be read both ways, as "1,234", or in neither.

    Raises
    ------
    DecimalsError
        If one column can only be read with points, and another only with commas.
    """
    examples: dict[Style, tuple[str, str]] = {}
    for name, texts in columns.items():
        style = _sure_style(texts)
        if style is not None:
            other_style: Style = "comma" if style == "point" else "point"
            form = _FORMS[other_style]
            text = next(text for text in texts if not form.fullmatch(text))
            examples.setdefault(style, (name, text))
    if len(examples) == 2:
        point = examples["point"]
        comma = examples["comma"]
        raise DecimalsError(
            f"column {point[0]!r} has decimal points ({point[1]!r}) and column "
            f"{comma[0]!r} decimal commas ({comma[1]!r})"
        )
    return next(iter(examples), None)


def _sure_style(texts: Sequence[str]) -> Style | None:
    """The only style in which texts are numbers; None if there are two, or none."""
    finite = [text for text in texts if not _INFINITE.fullmatch(text)]
    fitting = [
        style
        for style, form in _FORMS.items()
        if all(form.fullmatch(text) for text in finite)
    ]
    return fitting[0] if len(fitting) == 1 else None


def doubtful_value(texts: Sequence[str], style: Style) -> str | None:
    """The first number whose mark may stand before thousands or before decimals."""
    mark = "." if style == "comma" else ","
    if not all(form.fullmatch(text) for text in texts for form in _FORMS.values()):
        return None
    return next((text for text in texts if mark in text), None)


def kind_of(texts: Sequence[str], style: Style) -> Verdict:
    """Kind of a column, from its different values."""
    if not texts:
        return Verdict("text", [])
    if all(read_boolean(text) is not None for text in texts):
        return Verdict("boolean", [])
    if all(read_date(text) is not None for text in texts):
        return Verdict("date", [])
    bad = [text for text in texts if plain_number(text, style) is None]
    n_numbers = len(texts) - len(bad)
    # A column of texts may have numbers among its values, but hardly more than 50.
    if not bad or (n_numbers > 50 and len(bad) < n_numbers):
        return Verdict("number", bad)
    return Verdict("text", [])


def plain_number(text: str, style: Style) -> str | None:
    """A number as machines write it; None for other texts."""
    if _FORMS[style].fullmatch(text):
        return text.translate(_AS_PLAIN[style])
    return text if _INFINITE.fullmatch(text) else None


def is_number(text: str) -> bool:
    """Whether a text is a number in one of the styles."""
    return any(form.fullmatch(text) for form in _FORMS.values())


def whole_number(text: str) -> int | None:
    """The number of a text like "7"; None for "007" and "+7", which are other names."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        return None
    number = int(text)
    return number if str(number) == text else None


def read_boolean(text: str) -> bool | None:
    """Value of "true" and "false"; None for other texts."""
    return {_TRUE: True, _FALSE: False}.get(text.lower())


def read_answer(text: str) -> bool | None:
    """True for words like yes, False for no and missing; None for other texts."""
    word = text.strip().lower()
    if word in _YES:
        return True
    return False if word in _NO or word in MISSING_WORDS else None


def read_date(text: str, form: str | None = None) -> datetime | None:
    """A time without a zone, in UTC if the text has one; None for other texts.

    Parameters
    ----------
    text : str
    form : str or None
        Format of the text, as ``"%m/%d/%Y %H:%M"``. None: a date whose order of day and
        month is certain, with or without a time and a zone.
    """
    try:
        when = _parsed_date(text) if form is None else datetime.strptime(text, form)
    except ValueError:
        return None
    if when is None or when.tzinfo is None:
        return when
    return when.astimezone(UTC).replace(tzinfo=None)


def _parsed_date(text: str) -> datetime | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    fields = match.groups()
    year, _, month, day = fields[0:4]
    if year is None:
        day, month, year = fields[4:7]
    hour, minute, second, fraction, zone = fields[7:]
    microsecond = f"{fraction or '.'}000000"[1:7]
    when = datetime(
        int(year),
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int(microsecond),
    )
    if zone is None:
        return when
    return datetime.fromisoformat(f"{when.isoformat()}{zone}")


def has_zone(text: str) -> bool:
    """Whether a text is a date with a time zone."""
    match = _DATE.fullmatch(text)
    return match is not None and match.groups()[-1] is not None


def value_of(text: str, kind: Kind, style: Style) -> float:
    """A number, 0 or 1, or seconds since 1970; NaN where a text is missing or bad."""
    stripped = text.strip()
    if kind == "number":
        plain = plain_number(stripped, style)
        return math.nan if plain is None else float(plain)
    if kind == "boolean":
        answer = read_boolean(stripped)
        return math.nan if answer is None else float(answer)
    when = read_date(stripped)
    return math.nan if when is None else when.replace(tzinfo=UTC).timestamp()
