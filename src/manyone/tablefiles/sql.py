"""Tables that a query selects from a DuckDB database, or from files by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from manyone.tablefiles.text import TableFileError, missing_package

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Query:
    """A query and the database that it reads.

    Parameters
    ----------
    sql : str
    database : Path or None
        None: the query names files, as in ``select * from 'events/*.parquet'``.
    """

    sql: str
    database: Path | None = None

    def __str__(self) -> str:
        return f"--sql {self.sql!r}"

    @property
    def name(self) -> str:
        """What a page calls the table."""
        return "query" if self.database is None else self.database.name

    def resolve(self) -> str:
        """Text that stays the same from run to run."""
        place = "" if self.database is None else str(self.database.resolve())
        return f"{place}: {self.sql}"


def selected(query: Query) -> pl.DataFrame:
    """The rows that a query selects. The database is opened for reading only."""
    import polars as pl
    from polars import selectors

    try:
        import duckdb
    except ImportError as error:
        raise TableFileError(missing_package("a query", error, "sql")) from error
    if query.database is not None and not query.database.is_file():
        raise TableFileError(f"--db {query.database}: there is no such file.")
    database = ":memory:" if query.database is None else str(query.database)
    try:
        with duckdb.connect(
            database, read_only=query.database is not None
        ) as connection:
            relation = connection.sql(query.sql)
            if relation is None:
                raise TableFileError(f"{query} selects no rows. Give a SELECT.")
            table = pl.DataFrame(relation)
    except duckdb.Error as error:
        why = " ".join(str(error).split())
        raise TableFileError(f"{query}: {why}.") from error
    # Sums and decimals of databases are wider than any number that models take.
    wide = selectors.decimal() | selectors.by_dtype(pl.Int128)
    return table.with_columns(wide.cast(pl.Float64))
