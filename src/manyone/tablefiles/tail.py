"""Files that grow: read what is new, and know a file that was replaced.

Of the part of a file that was read, the number of rows and bytes is kept, and a hash of
both ends (`manyone.tablefiles.ends`). If the file still begins with a part of that
hash, it has grown, and is read from there on. Any other file is new. A last line
without an end is read later, as it may still be written to.

Plain text is not read again: it takes no longer to go on in a long file than in a short
one. Compressed text, UTF-16 and typed values are read again from the beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

from manyone.tablefiles.columns import BadValues, TextColumns
from manyone.tablefiles.ends import SIZE, Ends
from manyone.tablefiles.reading import (
    STREAM,
    Block,
    OpenFile,
    Source,
    TypedBlock,
    opened,
)
from manyone.tablefiles.text import (
    Records,
    TextReader,
    as_text,
    begin_of_text,
    cut_records,
    find_header,
    whole_records,
)
from manyone.tablefiles.values import Kind, Style

if TYPE_CHECKING:
    import polars as pl

#: What has happened to a file since it was last read.
Fate = Literal["new", "grown", "shorter", "changed"]


@dataclass(frozen=True)
class Consumed:
    """The part of a file that was read.

    Parameters
    ----------
    rows, lines, size : int
        Rows, lines of text, and bytes of the text as UTF-8. Typed values have rows
        only.
    digest : str
        Hash of both ends.
    stamp : str
        See `stamp_of`; empty if the file was not read to its end.
    header_size : int
        Bytes up to the end of the header.
    delimiter, encoding : str
        Of a text; empty if not known yet.
    style : {"point", "comma"} or None
        Mark before decimals; None: no row was read.
    """

    rows: int = 0
    lines: int = 0
    size: int = 0
    digest: str = ""
    stamp: str = ""
    header_size: int = 0
    delimiter: str = ""
    encoding: str = ""
    style: Style | None = None

    def form(self) -> dict[str, object]:
        """All fields but rows, size and digest, as values of JSON."""
        values = asdict(self)
        for name in ("rows", "size", "digest"):
            del values[name]
        return values


def stamp_of(status: os.stat_result) -> str:
    """Size and time of a file, as a text that changes with every write."""
    return f"{status.st_size} {status.st_mtime_ns}"


class Tail:
    """The new rows of an open file.

    Attributes
    ----------
    fate : {"new", "grown", "shorter", "changed"}
        Known from the first block on.
    consumed : Consumed
        The part that has been read, up to the last block.
    waits : bool
        Whether the last line is incomplete, and will be read later.
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
        self._ends = Ends()

    def blocks(self, most_rows: int) -> Iterator[Block]:
        """Blocks of new rows; `consumed` tells where the last one ends."""
        is_file = self._file.size is not None
        stamp = stamp_of(os.fstat(self._file.raw.fileno())) if is_file else ""
        if self._file.typed is None:
            yield from self._text_rows(most_rows)
        else:
            yield from self._typed_rows(self._file.typed, most_rows)
        self.consumed = replace(self.consumed, stamp=stamp)
        self._columns.warn_of_bad()

    # --------------------------------------------------------------------- typed values

    def _typed_rows(
        self, typed: Iterator[TypedBlock], most_rows: int
    ) -> Iterator[Block]:
        import polars as pl

        tables: Iterator[pl.DataFrame] = (table for table, _ in typed)
        if self._before is not None and self._before.rows:
            rows = pl.concat(list(tables))
            read_before = rows[: self._before.rows]
            self._ends.add(read_before.write_ndjson().encode())
            self._compare(self._before, len(read_before) == self._before.rows)
            rows = rows[self.consumed.rows :]
            tables = iter([rows])
        for table in tables:
            for start in range(0, len(table), most_rows):
                batch = table[start : start + most_rows]
                self._ends.add(batch.write_ndjson().encode())
                first_row = self.consumed.rows
                self.consumed = Consumed(
                    rows=first_row + len(batch), digest=self._ends.digest
                )
                converted = self._columns.convert(batch, first_row)
                yield Block(converted, batch, first_row, None)

    # ----------------------------------------------------------------------------- text

    def _text_rows(self, most_rows: int) -> Iterator[Block]:
        reader: TextReader | None = None
        rest = b""
        lines = as_text(self._file.chunks(), self._file.name)
        if self._before is not None and self._before.size:
            begin = self._begin_of_text(self._before)
            if begin is None:
                header, rest = self._read_again(lines, self._before)
            else:
                header, lines = self._pass_over(begin, self._before)
            if self.fate == "grown":
                reader = self._reader_after(header)
            else:
                # The file is another one: begin again.
                self._file.raw.seek(0)
                lines = as_text(self._file.chunks(), self._file.name)
                rest = b""
        line = self.consumed.lines + 1
        for records in whole_records(lines, self._file.name, line, rest):
            if records.unfinished and self._file.size is not None:
                self.waits = True
                return
            if reader is None:
                reader, records = self._read_header(records)
            if reader is not None:
                for first in range(0, len(records.end), most_rows):
                    batch = records.part(first, first + most_rows)
                    block = self._parsed(reader, batch)
                    if len(block.table):  # else these were blank lines
                        yield block

    def _begin_of_text(self, before: Consumed) -> int | None:
        """Place where plain text begins in the file; None: it cannot be passed over."""
        beginning = self._file.raw.read(SIZE)
        self._file.raw.seek(0)
        begin = None if self._file.is_packed else begin_of_text(beginning)
        if begin is None or begin + before.header_size > len(beginning):
            return None
        return begin

    def _pass_over(self, begin: int, before: Consumed) -> tuple[bytes, Iterator[bytes]]:
        """The header of a plain text, and the text after what was read before."""
        raw = self._file.raw
        beginning = raw.read(SIZE)
        self._ends = Ends.of_stream(raw, begin, before.size)
        is_long_enough = raw.tell() == begin + before.size
        self._compare(before, is_long_enough)
        beginning_and_rest = chain([beginning], self._file.chunks())
        lines = as_text(beginning_and_rest, self._file.name)
        return next(lines)[: before.header_size], lines

    def _read_again(
        self, lines: Iterator[bytes], before: Consumed
    ) -> tuple[bytes, bytes]:
        """Read the text again: its header, and the rest of the last chunk."""
        header = b""
        rest = b""
        left = before.size
        for chunk in lines:
            self._ends.add(chunk[:left])
            header += chunk[: before.header_size - len(header)]
            rest = chunk[left:]
            left = max(left - len(chunk), 0)
            if left == 0:
                break
        self._compare(before, left == 0)
        return header, rest

    def _compare(self, before: Consumed, is_long_enough: bool) -> None:
        """Go on after what was read before, if the file still begins with it."""
        if is_long_enough and self._ends.digest == before.digest:
            self.fate = "grown"
            self.consumed = before
        else:
            self.fate = "changed" if is_long_enough else "shorter"
            self._ends = Ends()

    def _read_header(self, records: Records) -> tuple[TextReader | None, Records]:
        """A reader for the header, if it is complete, and the records after it."""
        line = self.consumed.lines + 1
        reader, rest = find_header(records, self._file.name, line)
        self._consume(records.content[: len(records.content) - len(rest.content)])
        if reader is not None:
            self.consumed = replace(
                self.consumed,
                header_size=self.consumed.size,
                delimiter=reader.delimiter,
            )
        return reader, rest

    def _reader_after(self, header: bytes) -> TextReader | None:
        """A reader that goes on where reading stopped."""
        before = self.consumed
        records = cut_records(header)[0]
        reader = find_header(records, self._file.name, 1, before.delimiter)[0]
        if reader is not None:
            reader.line = before.lines + 1
            reader.row = before.rows
            reader.encoding = before.encoding
        return reader

    def _parsed(self, reader: TextReader, records: Records) -> Block:
        """Records as a table of typed columns."""
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
        return Block(converted, table, first_row, self._file.done())

    def _consume(self, content: bytes) -> None:
        self._ends.add(content)
        self.consumed = replace(
            self.consumed,
            lines=self.consumed.lines + content.count(b"\n"),
            size=self.consumed.size + len(content),
            digest=self._ends.digest,
        )


@contextmanager
def open_tail(
    source: Source,
    kinds: Mapping[str, Kind],
    before: Consumed | None,
    *,
    time_formats: Mapping[str, str],
    bad_values: BadValues,
) -> Iterator[Tail]:
    """Open a file to read its new rows.

    Parameters
    ----------
    source : Path or Query
        CSV, gzipped CSV, Parquet or xlsx; ``-`` is stdin, which is always new.
    kinds : mapping
        Kinds of the columns of a text file; other columns stay texts.
    before : Consumed or None
        The part of the file of this name that was read before.
    time_formats, bad_values
        As in :func:`manyone.tablefiles.read_table`.

    Yields
    ------
    Tail
    """
    with opened(source) as file:
        columns = file.columns(kinds, time_formats, bad_values)
        yield Tail(file, columns, None if str(source) == STREAM else before)
