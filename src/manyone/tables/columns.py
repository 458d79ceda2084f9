"""Columns as plain arrays, free of the library of their table; what texts stand for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyone._types import Array, Codes
from manyone.data.checks import plain_label
from manyone.history.seasons import level_of
from manyone.tablefiles.values import (
    DecimalsError,
    Kind,
    Style,
    decimal_style,
    different_values,
    doubtful_value,
    is_missing,
    kind_of,
    plain_number,
    value_of,
)
from manyone.tables.errors import MixedColumnError, TableError


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
            # Of each text 53 bits of a hash, which a float holds.
            texts = [text.encode(errors="surrogatepass") for text in self.levels]
            digests = [hashlib.blake2b(text, digest_size=8).digest() for text in texts]
            words = self.by_level([int.from_bytes(each) >> 11 for each in digests])
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


def text_column(values: Iterable[object]) -> Column:
    """Texts as numbers of their levels; None, NaN, NA and words as "NA" are missing."""
    plain = map(plain_label, values)
    texts = [None if value is None else str(value) for value in plain]
    present = {text for text in texts if text is not None and not is_missing(text)}
    levels = sorted(present)
    index: dict[str | None, float] = {
        text: float(number) for number, text in enumerate(levels)
    }
    codes = np.array([index.get(text, np.nan) for text in texts], dtype=np.float64)
    return Column("text", codes, np.array(levels, dtype=np.str_))


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
