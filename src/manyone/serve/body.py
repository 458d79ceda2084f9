"""Rows from the body of a request, JSON or CSV. An error is one sentence."""

from __future__ import annotations

import json

import polars as pl

from manyone.tablefiles import TableFileError, read_table
from manyone.tables import TableModel
from manyone.tables.errors import TableError
from manyone.tables.inputs import (
    file_columns,
    names_of_columns,
    shown,
    table_of_records,
)

#: Most bytes of a body, and most rows.
MOST_BYTES = 16 * 2**20
MOST_ROWS = 100_000
# Most bytes of the first line of CSV, which names the columns.
_LONGEST_HEADER = 2**20
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_ZIP = b"PK\x03\x04"
# Whole numbers that a column can hold.
_INT64 = range(-(2**63), 2**63)


class RequestError(Exception):
    """A request cannot be answered; the message says what to change.

    Parameters
    ----------
    status : int
        Of HTTP, 400 to 499.
    message : str
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def rows_of_body(model: TableModel, body: bytes, content_type: str) -> pl.DataFrame:
    """Read the rows of a request.

    Parameters
    ----------
    model : TableModel
    body : bytes
    content_type : str
        ``application/json`` (also where none is named) or ``text/csv``.

    Raises
    ------
    RequestError
        If the body holds no rows, or too many.
    """
    kind = content_type.partition(";")[0].strip().lower() or "application/json"
    if kind in ("text/csv", "text/plain"):
        table = _rows_of_csv(model, body)
    elif kind == "application/json":
        table = _rows_of_json(model, body)
    else:
        raise RequestError(
            415,
            f"Content-Type {kind!r} is not known. Send application/json or text/csv.",
        )
    if len(table) > MOST_ROWS:
        raise RequestError(
            413,
            f"{len(table):,} rows are more than the {MOST_ROWS:,} of one request. "
            "Send them in parts.",
        )
    return table


def _rows_of_csv(model: TableModel, body: bytes) -> pl.DataFrame:
    if body.startswith((_GZIP, _PARQUET, _ZIP)):
        raise RequestError(
            415, "The body is no plain text. Send CSV that is not compressed."
        )
    if len(body[: _LONGEST_HEADER + 1].partition(b"\n")[0]) > _LONGEST_HEADER:
        raise RequestError(413, "The first line is too long to be names of columns.")
    try:
        return read_table(
            body,
            **file_columns(model),
            find=(),
            need_rows=False,
        )
    except TableFileError as error:
        raise RequestError(422, str(error)) from error


def _rows_of_json(model: TableModel, body: bytes) -> pl.DataFrame:
    try:
        content = json.loads(body, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise RequestError(400, f"The body is not JSON: {why}.") from error
    if not isinstance(content, list):
        raise RequestError(
            400, 'Send rows as a list of objects, as [{"machine": "a", "flow": 3.1}].'
        )
    for number, row in enumerate(content):
        if not isinstance(row, dict):
            raise RequestError(
                400, f"Row {number} is no object of names and values: {shown(row)}."
            )
    try:
        return table_of_records(content, names_of_columns(model))
    except TableError as error:
        raise RequestError(422, str(error)) from error


def _integer(digits: str) -> float:
    """A whole number of JSON, as a float if it is too large for a column."""
    if len(digits) <= len(str(_INT64.start)) and int(digits) in _INT64:
        return int(digits)
    return float(digits)
