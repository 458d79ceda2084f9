"""The SQLite file of a store: which files are one, and what to do about errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manyone.watch.schema import APPLICATION, FORMAT, TABLES, VIEWS

#: First bytes of every SQLite file.
SQLITE = b"SQLite format 3\0"
# First bytes of states that an older manyone, or Monitor.save_state, wrote.
_STATES = (b"manyone monitor state", b"manyone archive ")
_BUSY = "is being written by another process. Try again when that is done."
_CLOSED = "cannot be opened. Check its permissions and those of its folder."
# Names of errors of SQLite, and sentences for users after the name of the file.
_REMEDIES = {
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
    "SQLITE_READONLY": "cannot be written. Check permissions of it and its folder.",
    "SQLITE_CANTOPEN": _CLOSED,
    "SQLITE_PERM": _CLOSED,
    "SQLITE_IOERR": "cannot be read or written. Check the disk that it is on.",
    "SQLITE_NOTADB": "is not a store of manyone watch. Name another file.",
}


class StoreError(OSError):
    """A store cannot be used; the message names the file and the remedy."""


def make_file(path: Path) -> bool:
    """Make an empty file if there is none; refuse one that is no SQLite file."""
    try:
        path.open("xb").close()
    except FileExistsError:
        with open(path, "rb") as stream:
            start = stream.read(len(_STATES[0]))
        if start.startswith(_STATES):
            raise StoreError(
                f"{path} is a state of an older manyone, or one saved from Python; "
                "manyone watch needs its own. Name another file."
            ) from None
        if start and not start.startswith(SQLITE):
            raise StoreError(f"{path} {_REMEDIES['SQLITE_NOTADB']}") from None
        return False
    return True


def has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the tables of a store are there; other tables are refused."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not application:
        return False
    if application != APPLICATION:
        raise StoreError(f"{path} is a database of another program. Name another file.")
    if number != FORMAT:
        raise StoreError(
            f"{path} is a store of format {number}, and this manyone reads format "
            f"{FORMAT}. Watch the table again with a new file."
        )
    return True


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and views of a store, inside the present transaction."""
    statement = ""
    # One by one, as `executescript` would commit first.
    for line in (TABLES + VIEWS).splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


@contextmanager
def with_remedies(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into sentences that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = str(getattr(error, "sqlite_errorname", ""))
        if name.startswith("SQLITE_FULL"):
            full = "the disk is full. Make room, and give the command again."
            raise StoreError(full) from error
        for beginning, remedy in _REMEDIES.items():
            if name.startswith(beginning):
                raise StoreError(f"{path} {remedy}") from error
        raise _damaged(path, error) from error


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Say that a store is damaged if its values are of a wrong type or range."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"{path} is damaged ({error}). Use a copy of it, or name another file."
    )
