"""Files that grow: read what is new in them, and know a file that is no longer the same.

How much of a file was read is a number of rows and bytes, and a hash of these bytes. A file whose
beginning has that hash has grown, and is read from there on. Any other file is new. A last line
without an end may still be written to: it waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from manyone.tablefiles.columns import BadValues, TextColumns
from manyone.tablefiles.reading import (
    STREAM,
    Block,
    OpenFile,
    Source,
    opened,
    typed_blocks,
)
from manyone.tablefiles.text import (
    LONGEST_RECORD,
    Records,
    TableFileError,
    TextReader,
    as_lines,
    cut_records,
)
from manyone.tablefiles.values import Kind, Style

if TYPE_CHECKING:
    import polars as pl

#: What became of a file since it was read last.
Fate = Literal["new", "grown", "shorter", "changed"]


@dataclass(frozen=True)
class Consumed:
    """How much of a file was read.

    Parameters
    ----------
    rows, lines, size : int
        Rows, lines of text, and bytes of the text as UTF-8; typed values have rows only.
    digest : str
        SHA-256 of what was read.
    header_size : int
        Bytes up to the end of the header.
    delimiter, encoding : str
        What was found in a text; empty where nothing was found yet.
    style : {"point", "comma"} or None
        What stands before decimals; None: no row was read.
    """

    rows: int = 0
    lines: int = 0
    size: int = 0
    digest: str = ""
    header_size: int = 0
    delimiter: str = ""
    encoding: str = ""
    style: Style | None = None

    def form(self) -> dict[str, object]:
        """All but rows, size and digest, as values of JSON."""
        values = asdict(self)
        for name in ("rows", "size", "digest"):
            del values[name]
        return values


class Tail:
    """What is new in an open file.

    Attributes
    ----------
    fate : {"new", "grown", "shorter", "changed"}
        Known when `blocks` has begun.
    consumed : Consumed
        How much has been read, the last block included.
    waits : bool
        Whether the last line is incomplete, and was left for later.
    """

    def __init__(
        self, file: OpenFile, columns: TextColumns, before: Consumed | None
    ) -> None:
        self.fate: Fate = "new"
        self.consumed = Consumed()
        self.waits = False
        self._file = file
        self._columns = columns
        self._before = before
        self._hash = hashlib.sha256()

    def blocks(self, most_rows: int) -> Iterator[Block]:
        """New rows, some at a time; `consumed` says how far each block goes."""
        if self._file.is_typed:
            yield from self._typed_rows(most_rows)
        else:
            yield from self._text_rows(most_rows)
        self._columns.warn_of_bad()

    # -------------------------------------------------------------------------- typed values

    def _typed_rows(self, most_rows: int) -> Iterator[Block]:
        import polars as pl

        tables: Iterator[pl.DataFrame] = (
            table for table, _ in typed_blocks(self._file)
        )
        if self._before is not None and self._before.rows:
            rows = pl.concat(list(tables))
            read_before = rows[: self._before.rows]
            self._hash.update(read_before.write_ndjson().encode())
            self.fate = self._compared(len(read_before) < self._before.rows)
            if self.fate == "grown":
                self.consumed = self._before
                rows = rows[self._before.rows :]
            else:
                self._hash = hashlib.sha256()
            tables = iter([rows])
        for table in tables:
            for start in range(0, len(table), most_rows):
                batch = table[start : start + most_rows]
                self._hash.update(batch.write_ndjson().encode())
                first_row = self.consumed.rows
                self.consumed = Consumed(
                    rows=first_row + len(batch), digest=self._hash.hexdigest()
                )
                yield Block(
                    self._columns.convert_times(batch, first_row), first_row, None
                )

    # ---------------------------------------------------------------------------------- text

    def _text_rows(self, most_rows: int) -> Iterator[Block]:
        lines = as_lines(self._file.chunks(), self._file.name)
        reader: TextReader | None = None
        rest = b""
        if self._before is not None and self._before.size:
            start, rest = self._pass_over(lines, self._before.size)
            if self.fate == "grown":
                self.consumed = self._before
                reader = self._reader_after(start[: self._before.header_size])
            else:
                # Nothing of it was used: begin again.
                self._file.raw.seek(0)
                self._hash = hashlib.sha256()
                lines = as_lines(self._file.chunks(), self._file.name)
                rest = b""
        for records in self._whole_records(lines, rest):
            if reader is None:
                reader, records = self._read_header(records)
            if reader is not None:
                for first in range(0, len(records.end), most_rows):
                    batch = _taken(records, first, first + most_rows)
                    block = self._parsed(reader, batch)
                    if len(block.table):  # or these were blank lines
                        yield block

    def _pass_over(self, lines: Iterator[bytes], size: int) -> tuple[bytes, bytes]:
        """The first `size` bytes, hashed, and what was read beyond them."""
        start = b""
        header_size = self._before.header_size if self._before else 0
        for chunk in lines:
            wanted = chunk[:size]
            self._hash.update(wanted)
            start += wanted[: max(header_size - len(start), 0)]
            size -= len(wanted)
            if not size:
                self.fate = self._compared(shorter=False)
                return start, chunk[len(wanted) :]
        self.fate = self._compared(shorter=True)
        return start, b""

    def _compared(self, shorter: bool) -> Fate:
        """What the hash of the beginning says of the file."""
        if shorter:
            return "shorter"
        assert self._before is not None
        same = self._hash.hexdigest() == self._before.digest
        return "grown" if same else "changed"

    def _whole_records(self, lines: Iterator[bytes], rest: bytes) -> Iterator[Records]:
        """Records with an end; of a stream that is over, the last one too."""
        for chunk in chain([b""], lines):
            content = rest + chunk
            records, end = cut_records(content)
            rest = content[end:]
            if len(records.end):
                yield records
            if len(rest) > LONGEST_RECORD:
                raise self._open_quote()
        if not rest.strip(b"\r\n\x1a"):  # an end-of-file mark of old editors
            return
        if self._file.size is not None:
            self.waits = True
            return
        records, end = cut_records(rest + b"\n")
        if end <= len(rest):
            raise self._open_quote()
        yield records

    def _open_quote(self) -> TableFileError:
        return TableFileError(
            f"{self._file.name}: a quote opens after line {self.consumed.lines} and never "
            "closes. Close it, or double it where it is part of the text."
        )

    def _read_header(self, records: Records) -> tuple[TextReader | None, Records]:
        """A reader that knows the header, and the records after it."""
        blank = int(np.argmin(np.append(records.blank(), False)))
        after_blank = records.after(blank)
        if not len(after_blank.end):
            self._consume(records.content)
            return None, after_blank
        line = self.consumed.lines + blank + 1
        reader = TextReader(after_blank, self._file.name, line)
        after_header = records.after(blank + 1)
        size = len(records.content) - len(after_header.content)
        self._consume(records.content[:size])
        self.consumed = replace(
            self.consumed,
            header_size=self.consumed.size,
            delimiter=reader.delimiter,
        )
        return reader, after_header

    def _reader_after(self, header: bytes) -> TextReader:
        """A reader that goes on where the file was read to."""
        before = self.consumed
        records, _ = cut_records(header)
        blank = int(np.argmin(np.append(records.blank(), False)))
        reader = TextReader(
            records.after(blank), self._file.name, blank + 1, before.delimiter
        )
        reader.line = before.lines + 1
        reader.row = before.rows
        reader.encoding = before.encoding
        return reader

    def _parsed(self, reader: TextReader, records: Records) -> Block:
        """Records as a table whose columns are what they are."""
        table = reader.parse(records)
        first_row = self.consumed.rows
        style = self.consumed.style
        if style is not None:
            self._columns.style = style
        elif len(table):
            self._columns.find_style(table, reader.delimiter)
            style = self._columns.style
        converted = self._columns.convert(table, first_row)
        self._consume(records.content)
        self.consumed = replace(
            self.consumed,
            rows=first_row + len(table),
            encoding=reader.encoding,
            style=style,
        )
        return Block(converted, first_row, self._file.done())

    def _consume(self, content: bytes) -> None:
        self._hash.update(content)
        self.consumed = replace(
            self.consumed,
            lines=self.consumed.lines + content.count(b"\n"),
            size=self.consumed.size + len(content),
            digest=self._hash.hexdigest(),
        )


def _taken(records: Records, first: int, last: int) -> Records:
    """Some records that follow one another."""
    later = records.after(first)
    count = min(last - first, len(later.end))
    size = int(later.end[count - 1]) + 1
    return Records(later.content[:size], later.end[:count], later.quoted[:size])


@contextmanager
def open_tail(
    source: Source,
    kinds: Mapping[str, Kind],
    before: Consumed | None,
    *,
    time_formats: Mapping[str, str],
    bad_values: BadValues,
) -> Iterator[Tail]:
    """Open a file to read what is new in it.

    Parameters
    ----------
    source : Path or Query
        CSV, gzipped CSV, Parquet or xlsx; ``-`` is stdin, which is always new.
    kinds : mapping
        What the columns of a text file are; those that it does not name stay texts.
    before : Consumed or None
        How much of the file of this name was read before.
    time_formats, bad_values
        As in :func:`manyone.tablefiles.read_table`.

    Yields
    ------
    Tail
    """
    with opened(source) as file:
        columns = TextColumns(file.name, dict(kinds), time_formats, bad_values)
        yield Tail(file, columns, None if str(source) == STREAM else before)
