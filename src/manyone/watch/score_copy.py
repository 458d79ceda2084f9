"""A copy of the scores in a CSV file, which grows after each commit of the store.

The store notes how far the file was written, and a hash of both ends of that part.
After a kill the file may hold more: the beginning of what comes next. Then the rest is
appended. A file with any other content is refused, and stays as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from manyone.files import csv_text
from manyone.tablefiles.ends import Ends
from manyone.watch.database import sound
from manyone.watch.store import Store

#: First columns of every copy. Columns of --keep and reasons follow.
COLUMNS = ("id", "task", "score", "p_value", "alarm", "basis", "drift")
_AT_ONCE = 10_000  # rows that are written at a time


_CHANGED = "was changed since it was last written"


class ForeignFileError(OSError):
    """A file is not the copy that the store has written; the message names it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"--out {path} {problem}. Name a new file.")


class ScoreCopy:
    """The scores of a store in a CSV file.

    Parameters
    ----------
    store : Store
    path : Path
    kept : sequence of str
        Columns of the rows that are copied.
    reasons : int
        Reasons for each alarm.

    Raises
    ------
    ForeignFileError
        If the file was written by somebody else, changed, or made with other columns.
    """

    def __init__(
        self, store: Store, path: Path, kept: tuple[str, ...], reasons: int
    ) -> None:
        self._store = store
        self._path = path
        self._name = str(path.resolve())
        self._kept = kept
        self._reasons = reasons
        numbered = tuple(f"reason_{k + 1}" for k in range(reasons))
        self._columns = [*COLUMNS, *kept, *numbered]
        # How far the file was written: rows, bytes, and the ends of these bytes.
        self._last_row = 0
        self._size = 0
        self._ends = Ends()
        if path.exists() and path.stat().st_size > 0:
            self._resume()
            self.catch_up()
        self._note()

    def _resume(self) -> None:
        """Resume after the part that the store has noted, and check that part."""
        line = self._store.execute(
            "SELECT columns, last_row, bytes, digest FROM output WHERE path = ?",
            [self._name],
        ).fetchone()
        if line is None:
            raise ForeignFileError(
                self._path, "is there, and the state has not written it"
            )
        with sound(self._store.path):
            columns = [str(name) for name in json.loads(line[0])]
            self._last_row = int(line[1])
            self._size = int(line[2])
        if columns != self._columns:
            names = ",".join(columns)
            raise ForeignFileError(
                self._path,
                f"has other columns ({names}) than --keep and --explain ask for now",
            )
        if not self._size:
            return
        with open(self._path, "rb") as stream:
            self._ends = Ends.of_stream(stream, 0, self._size)
        if self._ends.digest != line[3]:
            raise ForeignFileError(self._path, _CHANGED)

    def catch_up(self) -> None:
        """Append rows of the store that the file does not have, and flush to disk.

        Raises
        ------
        ForeignFileError
            If the file has other content after the part that is noted.
        """
        with open(self._path, "a+b") as stream:
            stream.seek(self._size)
            rest = stream.read()
            for last_row, text in self._texts():
                if not text.startswith(rest[: len(text)]):
                    raise ForeignFileError(self._path, _CHANGED)
                stream.write(text[len(rest) :])
                rest = rest[len(text) :]
                self._last_row = last_row
                self._size += len(text)
                self._ends.add(text)
            if rest:
                raise ForeignFileError(self._path, _CHANGED)
            stream.flush()
            os.fsync(stream.fileno())
        self._note()

    def _note(self) -> None:
        """Note in the store how far the file was written."""
        digest = self._ends.digest if self._size else ""
        columns = json.dumps(self._columns)
        self._store.execute(
            "INSERT OR REPLACE INTO output VALUES (?, ?, ?, ?, ?)",
            [self._name, columns, self._last_row, self._size, digest],
        )

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        """Yield the next pieces of the file, each with the number of its last row."""
        if not self._size:
            yield self._last_row, csv_text([self._columns]).encode()
        numbers, lines = self._rows_after(self._last_row)
        while numbers:
            yield numbers[-1], csv_text(lines).encode()
            numbers, lines = self._rows_after(numbers[-1])

    def _rows_after(self, number: int) -> tuple[list[int], list[list[object]]]:
        """The next rows after a row: their numbers, and their lines in the file."""
        cursor = self._store.execute(
            "SELECT number, id, task, score, p_value, iif(alarm, 'true', 'false'), "
            "basis, iif(drift, 'true', 'false'), kept, reasons "
            "FROM judged_row WHERE number > ? ORDER BY number LIMIT ?",
            [number, _AT_ONCE],
        )
        numbers = []
        lines = []
        with sound(self._store.path):
            for row, *values, kept_columns, reasons in cursor:
                columns = json.loads(kept_columns or "{}")
                texts = [*json.loads(reasons or "[]"), *[""] * self._reasons]
                copied = [columns.get(name) for name in self._kept]
                numbers.append(row)
                lines.append([*values, *copied, *texts[: self._reasons]])
        return numbers, lines
