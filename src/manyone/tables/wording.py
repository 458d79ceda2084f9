"""Values, what was expected of them, and what is unusual, as a user writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Mask
from manyone.tables.columns import Column
from manyone.tables.maps import Map, NumberMap

#: What is written for a value that is not there.
NO_VALUE = "missing"


class Words(NamedTuple):
    """A value of a column beside the one that was expected.

    Attributes
    ----------
    value, expected : str
    number, expected_number : float
        The same of columns of numbers; NaN elsewhere, and where there is none.
    sentence : str
        What is unusual about the past of the value; empty where it is the value itself.
    """

    value: str
    expected: str
    number: float
    expected_number: float
    sentence: str = ""


def words_of(
    column: Column, column_map: Map, coordinates: Array, is_usually_empty: Mask
) -> list[Words]:
    """Values of rows beside those that were expected.

    Parameters
    ----------
    column : Column
        Of the rows.
    column_map : map
    coordinates : ndarray of shape (n, width)
        That were expected.
    is_usually_empty : ndarray of bool of shape (n,)
        Where no value was expected.
    """
    values = _value_texts(column)
    number = np.full(len(values), np.nan)
    expected_number = number
    if isinstance(column_map, NumberMap):
        part = "level" if column_map.has_past else "value"
        undone = column_map.undo(coordinates, part)
        if column_map.has_past and column.usual is not None:
            undone = undone + np.where(
                np.isnan(column.usual), column.values, column.usual
            )
        texts = [_text(value, column.kind, 3) for value in undone.tolist()]
        if column.kind == "number":
            number = column.values
            expected_number = np.where(is_usually_empty, np.nan, undone)
    else:
        texts = column_map.texts(coordinates)
    expected = np.where(is_usually_empty, NO_VALUE, texts).tolist()
    return [
        Words(*each)
        for each in zip(
            values, expected, number.tolist(), expected_number.tolist(), strict=True
        )
    ]


class AboutPast(NamedTuple):
    """The past of a column in n rows, and which part of it is unusual.

    Attributes
    ----------
    past : ndarray of shape (n, 3)
        Difference, swing, and rows without a movement.
    parts : sequence of str
        Which of `PARTS` is unusual about each row.
    swings : ndarray of shape (n,)
        Swing that was expected; NaN where swings are not used.
    when : sequence of str
        "on Sundays", where the column has a season; else empty.
    """

    past: Array
    parts: Sequence[str]
    swings: Array
    when: Sequence[str]


def past_words(name: str, plain: Sequence[Words], about: AboutPast) -> list[Words]:
    """What is unusual about values, or about their past where it is that.

    Parameters
    ----------
    name : str
        Of the column.
    plain : sequence of Words
        Values of n rows, and what was expected of them.
    about : AboutPast
    """
    lines = zip(
        *(plain, about.past.tolist(), about.parts, about.swings.tolist(), about.when),
        strict=True,
    )
    return [_past_word(name, *line) for line in lines]


def _past_word(
    name: str,
    plain: Words,
    past: tuple[float, float, float],
    part: str,
    usual_swing: float,
    when: str,
) -> Words:
    """`past_words` of one row."""
    difference, swing, still = past
    value = plain.number
    now = plain_text(value, 6)
    if value != value:
        return plain
    if part == "difference" and abs(difference) > 0.0:
        recent = plain_text(value - difference, 3)
        verb = "rose" if difference > 0 else "fell"
        by = plain_text(abs(difference), 3)
        sentence = f"{name} {verb} by {by} from its recent {recent}"
        if when:
            sentence = f"{name} = {now}, lately about {recent} {when}"
        return Words(now, recent, value, value - difference, sentence)
    if part == "level" and when and plain.value != plain.expected:
        sentence = f"{name} = {now}, usually about {plain.expected} {when}"
        return plain._replace(sentence=sentence)
    if part != "swing":
        return plain
    if swing < usual_swing and still > 1:
        rows = f"for {still:.0f} rows"
        sentence = f"{name} has not moved {rows}"
        return Words(f"{now} {rows}", "moves", value, np.nan, sentence)
    now_by = plain_text(swing, 2)
    usually_by = plain_text(max(usual_swing, 0.0), 2)
    sentence = f"{name} swings by {now_by} a row, usually by {usually_by}"
    steps = (f"steps of {now_by}", f"steps of {usually_by}")
    return Words(*steps, value, np.nan, sentence)


def reason(name: str, value: str, expected: str) -> str:
    """A reason; it begins with the name of the column."""
    if value == NO_VALUE:
        return f"{name} is empty (usually about {expected})"
    if expected == NO_VALUE:
        return f"{name} = {value} (usually empty)"
    return f"{name} = {value}, expected about {expected}"


def plain_text(value: float, digits: int) -> str:
    """A number to some digits, or to the unit if it has more before its point."""
    text = format(value, f".{digits}g")
    return format(value, ".0f") if "e+" in text and abs(value) < 1e15 else text


def _value_texts(column: Column) -> list[str]:
    """Values as a user writes them."""
    if column.levels is not None:
        return [NO_VALUE if text is None else text for text in column.texts()]
    return [
        NO_VALUE if value != value else _text(value, column.kind, 6)
        for value in column.values.tolist()
    ]


def _text(value: float, kind: str, digits: int) -> str:
    if value != value:
        return "a number"
    if kind == "boolean":
        return "true" if value > 0.5 else "false"
    if kind == "date":
        return str(np.datetime64(int(value), "s")).replace("T", " ")
    return plain_text(value, digits)
