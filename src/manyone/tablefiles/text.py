"""Text with delimiters, read block by block; errors name the line."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from manyone._types import Codes, Mask
from manyone.messages import warn_user

if TYPE_CHECKING:
    import polars as pl

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_SNIFFED = 200  # records from which the delimiter is found
_MARKS = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF8: "utf-8",
}


class TableFileError(ValueError):
    """A file is no table that can be read; the message names place and remedy."""


def missing_package(what: str, error: ImportError, extra: str) -> str:
    """A sentence: a table needs a package that is not installed."""
    return (
        f"{what} cannot be read: {error}. Install: pip install '.[{extra}]' in the "
        "checkout of manyone."
    )


def read_text(chunks: Iterable[bytes], name: str) -> Iterator[tuple[pl.DataFrame, str]]:
    """Tables of strings, in the order of the file.

    Parameters
    ----------
    chunks : iterable of bytes
        The content of the file.
    name : str
        The file, for messages.

    Yields
    ------
    table : polars.DataFrame
        All columns are strings; empty fields are null. The first may have no rows.
    delimiter : str
        The same for all.
    """
    reader = None
    line = 1
    for records in whole_records(as_text(chunks, name), name):
        if reader is None:
            lines = records.content.count(b"\n")
            reader, records = find_header(records, name, line)
            line += lines
        if reader is not None:
            yield reader.parse(records), reader.delimiter
    if reader is None:
        raise TableFileError(f"{name} is empty. Give a table with a header and rows.")


class Records(NamedTuple):
    """Whole records: their bytes, the end of each, and which bytes are quoted.

    Quotes inside a quoted field are doubled. So a byte is quoted if the number of
    quotes before it is odd.
    """

    content: bytes
    end: Codes
    quoted: Mask
    unfinished: bool = False  # the last one had no line end

    @property
    def start(self) -> Codes:
        """Where each record begins."""
        return np.concatenate([[0], self.end[:-1] + 1])[: len(self.end)]

    def part(self, first: int, last: int | None = None) -> Records:
        """The records from number `first` on, up to number `last`."""
        begin = int(self.end[first - 1]) + 1 if first else 0
        end = self.end[first:last] - begin
        size = int(end[-1]) + 1 if len(end) else 0
        bytes_of_part = slice(begin, begin + size)
        return Records(
            self.content[bytes_of_part],
            end,
            self.quoted[bytes_of_part],
            self.unfinished and len(end) == len(self.end) - first,
        )

    def widths(self, delimiter: str) -> Codes:
        """Number of fields of each record."""
        is_delimiter = _codes(self.content) == ord(delimiter)
        places = np.flatnonzero(is_delimiter & ~self.quoted)
        starts = np.searchsorted(places, self.start)
        return np.searchsorted(places, self.end) - starts + 1

    def blank(self) -> Mask:
        """Which records are empty lines."""
        start = self.start
        length = self.end - start
        return (length == 0) | (
            (length == 1) & (_codes(self.content)[start] == _RETURN)
        )


def _codes(content: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Bytes as numbers."""
    return np.frombuffer(content, np.uint8)


def whole_records(
    chunks: Iterable[bytes], name: str, line: int = 1, rest: bytes = b""
) -> Iterator[Records]:
    """Cut text into whole records, chunk by chunk; the last one may be unfinished.

    Parameters
    ----------
    chunks : iterable of bytes
        See `as_text`.
    name : str
        The file, for messages.
    line : int
        Number of the first line.
    rest : bytes
        Text before them.
    """
    for chunk in chain([b""], chunks):
        content = rest + chunk
        records, end = cut_records(content)
        rest = content[end:]
        line += records.content.count(b"\n")
        if len(records.end):
            yield records
        if len(rest) > 2**26:  # longer than any record: a quote never closes
            raise _open_quote(name, line)
    if rest.strip(b"\r\n\x1a"):  # an end-of-file mark of old editors
        last = rest + b"\n"
        yield Records(last, np.array([len(rest)]), _in_quotes(last), unfinished=True)


def _open_quote(name: str, line: int) -> TableFileError:
    return TableFileError(
        f"{name}, line {line}: a quote opens here and never closes. Copy the file "
        "again if it was cut off; else close the quote, or double it where it is part "
        "of the text."
    )


def find_header(
    records: Records, name: str, line: int, delimiter: str | None = None
) -> tuple[TextReader | None, Records]:
    """A reader for the header, if there is one yet, and the records after it."""
    n_blank = int(np.argmin(np.append(records.blank(), False)))
    records = records.part(n_blank)
    if not len(records.end):
        return None, records
    return TextReader(records, name, line + n_blank, delimiter), records.part(1)


def cut_records(content: bytes) -> tuple[Records, int]:
    """The whole records at the beginning of `content`, and where they end."""
    quoted = _in_quotes(content)
    lines = np.flatnonzero((_codes(content) == _NEWLINE) & ~quoted)
    end = int(lines[-1]) + 1 if len(lines) else 0
    return Records(content[:end], lines, quoted[:end]), end


def _in_quotes(content: bytes) -> Mask:
    """Which bytes are quoted."""
    if b'"' not in content:
        return np.zeros(len(content), dtype=bool)
    # Sums wrap around at 256, which is even.
    is_odd = np.cumsum(_codes(content) == _QUOTE, dtype=np.uint8) & 1
    return is_odd.astype(bool)


def begin_of_text(beginning: bytes) -> int | None:
    """Place where text begins that `as_text` does not change; None: it changes it."""
    mark = _mark_of(beginning)
    return len(mark) if _MARKS.get(mark, "utf-8") == "utf-8" else None


def _mark_of(beginning: bytes) -> bytes:
    """The byte order mark that a text begins with, or nothing."""
    return next((mark for mark in _MARKS if beginning.startswith(mark)), b"")


def as_text(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Text in UTF-8, or another superset of ASCII, without a byte order mark."""
    decoder = None
    encoding = ""
    for chunk in chunks:
        text = chunk
        if not encoding:
            mark = _mark_of(chunk)
            text = chunk[len(mark) :]
            encoding = _MARKS.get(mark, "utf-8")
            if encoding != "utf-8":
                decoder = codecs.getincrementaldecoder(encoding)()
        if decoder is not None:
            try:
                text = decoder.decode(text).encode()
            except UnicodeError as error:
                raise TableFileError(
                    f"{name} begins as {encoding} and does not go on so: {error}. Copy "
                    "it again, or save it as UTF-8."
                ) from error
        if b"\0" in text:
            raise TableFileError(
                f"{name} is neither text nor Parquet: it holds zero bytes. Save it as "
                "CSV in UTF-8, or as Parquet."
            )
        yield text
    if decoder is not None and decoder.getstate()[0]:
        raise TableFileError(
            f"{name} ends in the middle of a character. Copy it again."
        )


class TextReader:
    """Delimiter, names and encoding of a file, and numbers of the next line and row."""

    def __init__(
        self, records: Records, name: str, line: int, delimiter: str | None = None
    ) -> None:
        self.name = name
        self.line = line
        self.row = 0
        self.encoding = ""
        self.delimiter = _find_delimiter(records) if delimiter is None else delimiter
        first = records.part(0, 1)
        header = first.content[:-1]
        self._refuse_stray_quotes(first)
        text = self._decoded(header).decode().rstrip("\r")
        try:
            (fields,) = csv.reader([text], delimiter=self.delimiter)
        except csv.Error as error:
            raise TableFileError(
                f"{name}, line {line}: the header cannot be read ({error}). Save the "
                "file with ordinary line ends."
            ) from error
        self.names = [
            field.strip() or f"column_{k}" for k, field in enumerate(fields, 1)
        ]
        twice = [field for field, times in Counter(self.names).items() if times > 1]
        if twice:
            at = [k for k, field in enumerate(self.names, 1) if field == twice[0]]
            raise TableFileError(
                f"{name}: columns {at[0]} and {at[1]} are both called {twice[0]!r}. "
                "Rename one."
            )
        self.line += header.count(b"\n") + 1

    def parse(self, records: Records) -> pl.DataFrame:
        """The records as a table of strings."""
        import polars as pl

        schema = dict.fromkeys(self.names, pl.String)
        self._refuse_stray_quotes(records)
        self._refuse_other_widths(records)
        is_blank = records.blank()
        lines = records.content.count(b"\n")
        rows = int(np.sum(~is_blank))
        content = records.content
        if is_blank.any():
            is_kept = np.repeat(~is_blank, records.end - records.start + 1)
            content = _codes(content)[is_kept].tobytes()
        content = self._decoded(content)
        table = pl.DataFrame(schema=schema)
        if rows:
            table = pl.read_csv(
                content,
                has_header=False,
                schema=schema,
                separator=self.delimiter,
                null_values=[""],
            )
        if len(table) != rows:  # two readers disagree: trust neither
            raise TableFileError(
                f"{self.name}, lines {self.line} to {self.line + lines - 1}: {rows} "
                f"rows by their line ends, {len(table)} by their fields. Look at the "
                "quotes there."
            )
        self.line = self.line + lines
        self.row = self.row + rows
        return table

    def _refuse_stray_quotes(self, records: Records) -> None:
        """Refuse quotes inside plain fields, and one that never closes."""
        if len(records.quoted) and records.quoted[-1]:
            raise _open_quote(self.name, self.line)
        codes = _codes(records.content)
        places = np.flatnonzero(codes == _QUOTE)
        edges = [ord(self.delimiter), _NEWLINE, _QUOTE]
        opening = places[::2]
        closing = places[1::2]
        opens = (opening == 0) | np.isin(codes[opening - 1], edges)
        closes = np.isin(codes[closing + 1], [*edges, _RETURN])
        stray = np.concatenate([opening[~opens], closing[~closes]])
        if len(stray):
            line = self._line(records, int(stray.min()))
            raise TableFileError(
                f"{self.name}, line {line}: a quote inside a field. Put the whole "
                "field in quotes and double the quotes inside it."
            )

    def _refuse_other_widths(self, records: Records) -> None:
        """Refuse records that are too short or too long."""
        widths = records.widths(self.delimiter)
        wanted = len(self.names)
        blank = records.blank()
        wrong = np.flatnonzero((widths != wanted) & ~blank)
        if not len(wrong):
            return
        k = int(wrong[0])
        row = self.row + k - int(np.sum(blank[:k]))
        remedy = (
            f"Mend it; put fields that hold a {_DELIMITERS[self.delimiter]} in quotes."
        )
        if records.unfinished and k == len(widths) - 1 and widths[k] < wanted:
            remedy = "The file is cut off there: copy it again."
        raise TableFileError(
            f"{self.name}, row {row} (line "
            f"{self._line(records, int(records.start[k]))}) has {widths[k]} fields, "
            f"the header {wanted}. {remedy}"
        )

    def _line(self, records: Records, at: int) -> int:
        return self.line + records.content.count(b"\n", 0, at)

    def _decoded(self, content: bytes) -> bytes:
        """Text in UTF-8; the first text that is not ASCII decides on the encoding."""
        if content.isascii():
            return content
        try:
            content.decode(self.encoding or "utf-8")
            self.encoding = self.encoding or "utf-8"
        except UnicodeDecodeError as error:
            line = self.line + content.count(b"\n", 0, error.start)
            if not self.encoding and content[: error.start].isascii():
                self.encoding = "cp1252"
                warn_user(
                    f"{self.name} is not in UTF-8 (line {line}); it is read as "
                    "Windows-1252, which includes Latin-1. If letters look wrong, save "
                    "it as UTF-8.",
                    UserWarning,
                )
                return self._decoded(content)
            is_either = self.encoding == "cp1252"
            encodings = "text in UTF-8 or Windows-1252" if is_either else "UTF-8"
            raise TableFileError(
                f"{self.name}, line {line}: byte {content[error.start]:#04x} is not "
                f"{encodings}. "
                "Save the file as UTF-8."
            ) from error
        return (
            content
            if self.encoding == "utf-8"
            else content.decode(self.encoding).encode()
        )


def _find_delimiter(records: Records) -> str:
    """The delimiter that cuts the header, and most records into as many fields."""

    def fitness(delimiter: str) -> tuple[bool, float, int]:
        widths = records.widths(delimiter)[: _SNIFFED + 1]
        alike = (widths == widths[0])[~records.blank()[: _SNIFFED + 1]]
        return bool(widths[0] > 1), float(alike.mean()), int(widths[0])

    return max(_DELIMITERS, key=fitness)
