"""Tables that a query selects from a DuckDB database, or from files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from manyone.tablefiles.text import TableFileError, missing_package

if TYPE_CHECKING:
    import polars as pl
    from duckdb import DuckDBPyRelation


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
        """Name of the table on pages."""
        return "query" if self.database is None else self.database.name

    def resolve(self) -> str:
        """A text that is the same in every run."""
        place = "" if self.database is None else str(self.database.resolve())
        return f"{place}: {self.sql}"


def selected(query: Query) -> pl.DataFrame:
    """The rows that a query selects. The database is opened for reading only."""
    import polars as pl
    from polars import selectors

    try:
        import duckdb
        import pyarrow  # noqa: F401 - duckdb needs it to give rows
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
            _refuse_columns(query, relation)
            # Without pyarrow, duckdb 2.0 leaks, and says so on stderr.
            table = relation.pl()
    except duckdb.Error as error:
        why = " ".join(str(error).split()).rstrip(".!")
        raise TableFileError(f"{query}: {why}.") from error
    # Sums and decimals of databases are wider than any number that models take.
    wide = selectors.decimal() | selectors.by_dtype(pl.Int128)
    return table.with_columns(wide.cast(pl.Float64))


def _refuse_columns(query: Query, relation: DuckDBPyRelation) -> None:
    """Raise if columns share a name, or have a type that polars does not know."""
    for column, kind in zip(relation.columns, relation.types, strict=True):
        if relation.columns.count(column) > 1:
            raise TableFileError(
                f"{query} selects several columns {column!r}. Select one, or rename "
                "them by AS."
            )
        if any(word in str(kind) for word in ("INTERVAL", "UNION")):
            raise TableFileError(
                f"{query}: column {column!r} holds values of type {kind}, which cannot "
                "be read. Leave it out, or convert it (an INTERVAL by epoch() to "
                "seconds)."
            )
