"""Write tables: CSV, gzipped CSV or Parquet by the end of the name, block by block."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from manyone.files import written_beside
from manyone.tablefiles.reading import STREAM
from manyone.tablefiles.text import TableFileError

if TYPE_CHECKING:
    import polars as pl

_SUFFIXES = (".csv", ".csv.gz", ".parquet")
# Fractions of a second only where there are any.
_MOMENT = "%Y-%m-%d %H:%M:%S%.f"


def check_output(option: str, path: Path) -> None:
    """Raise if a table cannot be written to a path, before anything is computed.

    Parameters
    ----------
    option : str
        Option of the path, for messages.
    path : Path
        ``-`` is stdout.
    """
    if str(path) == STREAM:
        return
    if not path.name.endswith(_SUFFIXES):
        raise TableFileError(
            f"{option} {path}: give it a name that ends in {', '.join(_SUFFIXES[:-1])} "
            f"or {_SUFFIXES[-1]}, or - for stdout."
        )
    check_place(option, path)


def check_place(option: str, path: Path) -> None:
    """Raise if a file cannot be written, before anything is computed."""
    if path.is_dir() or str(path) == STREAM:
        raise TableFileError(f"{option} {path} is a folder, or stdout. Name a file.")
    if not path.parent.is_dir():
        raise TableFileError(
            f"{option} {path}: there is no folder {path.parent}. Make it first."
        )
    if not os.access(path.parent, os.W_OK):
        raise TableFileError(
            f"{option} {path}: cannot write in {path.parent}. Name another place."
        )


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Write a table block by block; it appears when all went well, or not at all.

    CSV is written block by block; blocks of Parquet are in memory until the end. Dates
    without a zone have the form of the store in CSV, "2026-04-28 06:00:00".

    Parameters
    ----------
    path : Path
        ``-`` is stdout, as CSV.

    Yields
    ------
    callable
        Takes the next rows, a polars.DataFrame.
    """
    import polars as pl

    moments = pl.selectors.datetime(time_zone=None)
    blocks: list[pl.DataFrame] = []
    with _stream(path) as stream:

        def add(table: pl.DataFrame) -> None:
            if path.suffix != ".parquet":
                texts = table.with_columns(moments.dt.to_string(_MOMENT))
                texts.write_csv(stream, include_header=not blocks)
                table = table.clear()
            blocks.append(table)

        yield add
        if path.suffix == ".parquet":
            pl.concat(blocks, how="vertical_relaxed").write_parquet(stream)


@contextmanager
def _stream(path: Path) -> Iterator[IO[bytes]]:
    """The stream for the bytes of a table."""
    if str(path) == STREAM:
        with tempfile.TemporaryFile() as stream:
            yield stream
            stream.seek(0)
            shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.flush()
    elif path.suffix == ".gz":
        with (
            written_beside(path) as file,
            gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped,
        ):
            yield cast("IO[bytes]", zipped)
    else:
        with written_beside(path) as stream:
            yield stream
