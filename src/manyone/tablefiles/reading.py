"""Read tables, whole or block by block.

Tables are CSV, gzipped CSV, Parquet and xlsx, from a file or stdin, and results of
queries.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from manyone.progress import counted
from manyone.tablefiles.columns import BadValues, TextColumns, label_column
from manyone.tablefiles.sql import Query, selected
from manyone.tablefiles.text import TableFileError, missing_package, read_text
from manyone.tablefiles.values import Kind

if TYPE_CHECKING:
    import polars as pl

STREAM = "-"  # stdin or stdout
_CHUNK = 2**23  # bytes of text at a time
_ROWS = 2**16  # rows of Parquet at a time
_LARGEST_WORKBOOK = 2**31  # bytes, unpacked
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_ZIP = b"PK\x03\x04"
_OTHERS = {
    b"manyone archive": "a model or a state",
    b'{"format": "manyone': "a model",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"(\xb5/\xfd": "compressed with zstd",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"ARROW1": "an Arrow file",
    **dict.fromkeys((b'{"', b"[{"), "JSON"),
}


#: Where a table comes from.
Source = Path | Query
#: Rows with typed values, and the share of the table that has been read so far.
TypedBlock = tuple["pl.DataFrame", float]


class Block(NamedTuple):
    """Consecutive rows of a table.

    Attributes
    ----------
    table : polars.DataFrame
    written : polars.DataFrame
        The same rows as they are in the file: of a text file, strings.
    first_row : int
        Number of rows before it.
    done : float or None
        Share of the file that has been read; None: it is not known.
    """

    table: pl.DataFrame
    written: pl.DataFrame
    first_row: int
    done: float | None


def read_table(
    source: Source | bytes,
    *,
    kinds: Mapping[str, Kind] = MappingProxyType({}),
    find: Collection[str] | None = None,
    labels: Collection[str] = (),
    time_formats: Mapping[str, str] = MappingProxyType({}),
    bad_values: BadValues = "refuse",
    need_rows: bool = True,
) -> pl.DataFrame:
    """Read a whole table.

    Parameters
    ----------
    source : Path, Query or bytes
        CSV, gzipped CSV, Parquet or xlsx, whatever it is called, or a folder of Parquet
        files; ``-`` is stdin. Bytes are the content of such a file.
    kinds : mapping
        Known kinds of columns of a text file.
    find : collection of str or None
        Columns of a text file whose kind is found from their values; others stay texts.
        None: all that neither `kinds` nor `labels` names.
    labels : collection of str
        Columns of names: integers if all are written as such, else texts.
    time_formats : mapping
        Formats of dates by column, as ``{"when": "%m/%d/%Y"}``.
    bad_values : {"refuse", "missing"}
        What happens to values that are not of the kind of their column. A warning says
        how many were taken as missing.
    need_rows : bool
        Whether to refuse a header without rows.

    Returns
    -------
    polars.DataFrame

    Raises
    ------
    TableFileError
        If it is not a table, or has no rows.
    OSError
        If there is no such file, or it cannot be read.
    """
    import polars as pl

    with opened(source) as file:
        columns = file.columns(kinds, time_formats, bad_values)
        parts = list(file.tables())
    table = pl.concat([part for part, _, _ in parts])
    delimiter = parts[0][1]
    _refuse_no_rows(len(table), file.name, need_rows)
    names = table.columns if file.typed is None else []
    unknown = [
        name
        for name in names
        if name not in columns.kinds
        and name not in labels
        and (find is None or name in find)
    ]
    columns.find_style(table, delimiter, unknown)
    columns.find_kinds(table, unknown)
    converted = columns.convert(table)
    columns.warn_of_bad()
    return converted.with_columns(
        label_column(table[name]) for name in names if name in labels
    )


def read_blocks(
    source: Source,
    kinds: Mapping[str, Kind],
    *,
    time_formats: Mapping[str, str] = MappingProxyType({}),
    bad_values: BadValues = "refuse",
    need_rows: bool = True,
) -> Iterator[Block]:
    """Read a table block by block, so that memory does not grow with it.

    Parameters
    ----------
    source : Path
        As in `read_table`, and so are the other parameters.
    kinds : mapping
        Kinds of the columns of a text file; other columns stay texts.
    need_rows : bool
        Whether to refuse a header without rows. Else it is one block without rows.

    Yields
    ------
    Block
    """
    with opened(source) as file:
        columns = file.columns(kinds, time_formats, bad_values)
        first_row = 0
        for table, delimiter, done in file.tables():
            if len(table) and not first_row:
                columns.find_style(table, delimiter)
            converted = columns.convert(table, first_row)
            if len(table):
                yield Block(converted, table, first_row, done)
            first_row += len(table)
        _refuse_no_rows(first_row, file.name, need_rows)
        if not first_row:
            yield Block(converted, table, 0, None)
        columns.warn_of_bad()


class ParquetTable:
    """A Parquet file, or a folder of them, as a table that is read part by part.

    A call yields the parts: data frames of polars, in the order of the files' names.

    Parameters
    ----------
    source : Path
    time_formats, bad_values
        As in `read_table`.

    Attributes
    ----------
    columns : list of str
    """

    def __init__(
        self,
        source: Path,
        time_formats: Mapping[str, str] = MappingProxyType({}),
        bad_values: BadValues = "refuse",
    ) -> None:
        import polars as pl

        self._files = parquet_files(source)
        self._time_formats = time_formats
        self._bad_values = bad_values
        with _reading_parquet(str(self._files[0])):
            self.columns = list(pl.read_parquet_schema(self._files[0]))

    def __call__(self) -> Iterator[pl.DataFrame]:
        """Read the table from its first row on."""
        for path in counted(self._files):
            parts = read_blocks(
                path,
                {},
                time_formats=self._time_formats,
                bad_values=self._bad_values,
                need_rows=False,
            )
            for block in parts:
                yield block.table


def parquet_files(source: Path) -> list[Path]:
    """A Parquet file, or those of a folder."""
    if not source.is_dir():
        return [source]
    files = sorted(source.glob("*.parquet"))
    if not files:
        raise TableFileError(
            f"{source} is a folder without Parquet files. Name a file, or a folder of "
            "files whose names end in .parquet."
        )
    return files


def is_parquet(source: Source) -> bool:
    """Whether a table is a folder, or a file that begins as Parquet does."""
    if isinstance(source, Query) or str(source) == STREAM:
        return False
    if source.is_dir():
        return True
    with open(source, "rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def _in_blocks(table: pl.LazyFrame) -> Iterator[TypedBlock]:
    """Blocks of a table, with the share that has been read so far."""
    import polars as pl

    rows = table.select(pl.len()).collect().item()
    for start in range(0, max(rows, 1), _ROWS):
        share = min(1.0, (start + _ROWS) / max(rows, 1))
        yield table.slice(start, _ROWS).collect(), share


def _parquet_blocks(
    name: str, source: Path | list[Path] | IO[bytes]
) -> Iterator[TypedBlock]:
    """Blocks of a Parquet file, of several one after the other, or of a stream."""
    import polars as pl

    with _reading_parquet(name):
        if isinstance(source, Path | list):
            table = pl.scan_parquet(source)
        else:
            table = pl.read_parquet(source).lazy()
        yield from _in_blocks(table)


@contextmanager
def _reading_parquet(name: str) -> Iterator[None]:
    """Name the file in errors of reading Parquet."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise TableFileError(
            f"{name} cannot be read as Parquet: {_first_line(error)}. Copy it again if "
            "it was cut off."
        ) from error


def _sheet_blocks(name: str, stream: IO[bytes]) -> Iterator[TypedBlock]:
    """Blocks of the first sheet of a workbook; its first row names the columns."""
    content = stream.read()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            is_workbook = "xl/workbook.xml" in archive.namelist()
            unpacked = sum(part.file_size for part in archive.infolist())
    except zipfile.BadZipFile as error:
        raise TableFileError(
            f"{name} is damaged or cut off: {error}. Copy it again."
        ) from error
    if not is_workbook:
        raise TableFileError(
            f"{name} is a zip archive and no workbook. Give a table in CSV (gzipped "
            "or not), Parquet or xlsx."
        )
    if unpacked > _LARGEST_WORKBOOK:
        raise TableFileError(
            f"{name} unpacks to {unpacked / 2**30:.1f} GB. Save the sheet as CSV."
        )
    import polars as pl

    try:
        import fastexcel
    except ImportError as error:
        raise TableFileError(missing_package(name, error, "excel")) from error
    try:
        sheet = fastexcel.read_excel(content).load_sheet(0, schema_sample_rows=None)
    except fastexcel.FastExcelError as error:
        raise TableFileError(
            f"{name} cannot be read as xlsx: {_first_line(error)}."
        ) from error
    yield from _in_blocks(pl.DataFrame(sheet).lazy())


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


class OpenFile(NamedTuple):
    """An open table: text, or blocks of typed values.

    Attributes
    ----------
    name : str
        For messages.
    raw : stream
        Its bytes, if it has any.
    size : int or None
        Bytes of the file; None: it is not known.
    is_packed : bool
        Whether it is gzipped.
    typed : iterator or None
        Blocks of typed values; None: it is text.
    """

    name: str
    raw: IO[bytes]
    size: int | None = None
    is_packed: bool = False
    typed: Iterator[TypedBlock] | None = None

    def done(self) -> float | None:
        """Share of the file that has been read."""
        return self.raw.tell() / max(self.size, 1) if self.size is not None else None

    def columns(
        self,
        kinds: Mapping[str, Kind],
        time_formats: Mapping[str, str],
        bad_values: BadValues,
    ) -> TextColumns:
        """How to read its columns; of typed values only times may be strings."""
        dates: dict[str, Kind] = dict.fromkeys(time_formats, "date")
        kinds_of_texts = {**kinds, **dates} if self.typed is None else dates
        return TextColumns(self.name, kinds_of_texts, time_formats, bad_values)

    def tables(self) -> Iterator[tuple[pl.DataFrame, str, float | None]]:
        """Blocks of rows, with the delimiter of a text and the share read so far."""
        for table, done in self.typed or ():
            yield table, "", done
        if self.typed is not None:
            return
        for table, delimiter in read_text(self.chunks(), self.name):
            yield table, delimiter, self.done()

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the file; those of a gzipped file are unpacked."""
        stream: IO[bytes] = self.raw
        if self.is_packed:
            stream = cast("IO[bytes]", gzip.GzipFile(fileobj=self.raw))
        try:
            while chunk := stream.read(_CHUNK):
                yield chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TableFileError(
                f"{self.name} is damaged or cut off: {error}. Copy it again."
            ) from error


@contextmanager
def opened(source: Source | bytes) -> Iterator[OpenFile]:
    """Open a file, a folder, stdin, bytes or a query; raises if it is no table."""
    if isinstance(source, Query):
        blocks = _in_blocks(selected(source).lazy())
        yield OpenFile(str(source), io.BytesIO(), typed=blocks)
        return
    if isinstance(source, Path) and source.is_dir():
        blocks = _parquet_blocks(str(source), parquet_files(source))
        yield OpenFile(str(source), io.BytesIO(), typed=blocks)
        return
    with _stream_of(source) as (stream, name, size):
        start = stream.peek(8)
        for mark, what in _OTHERS.items():
            if start.startswith(mark):
                raise TableFileError(
                    f"{name} is {what}. Give a table in CSV (gzipped or not), Parquet "
                    "or xlsx."
                )
        typed = None
        if start.startswith(_PARQUET):
            typed = _parquet_blocks(name, stream if size is None else Path(name))
        elif start.startswith(_ZIP):
            typed = _sheet_blocks(name, stream)
        yield OpenFile(name, stream, size, start.startswith(_GZIP), typed)


@contextmanager
def _stream_of(
    source: Path | bytes,
) -> Iterator[tuple[io.BufferedReader, str, int | None]]:
    """A stream of bytes, its name for messages, and its size if it is a file."""
    if isinstance(source, bytes):
        yield io.BufferedReader(io.BytesIO(source)), "the table", None
    elif str(source) != STREAM:
        with open(source, "rb") as stream:
            yield stream, str(source), os.fstat(stream.fileno()).st_size
    elif sys.stdin is None:
        raise TableFileError(
            "stdin is closed. Name a file, or let a command write into a pipe."
        )
    else:
        yield cast("io.BufferedReader", sys.stdin.buffer), "stdin", None


def _refuse_no_rows(rows: int, name: str, need_rows: bool) -> None:
    if need_rows and not rows:
        raise TableFileError(
            f"{name} has a header and no rows. Give a table with rows."
        )
