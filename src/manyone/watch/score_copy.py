"""A copy of the scores as a CSV file, appended to after each commit of the store.

The store notes how far the file was written, and the hash of both ends of that. After a
kill the file may hold more than that: the beginning of what the store would write next.
Then the rest is appended. Whatever else stands in the file is not ours: it is refused,
and never cut off.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyone.tablefiles.ends import Ends
from manyone.watch.store import Output, ScoreRow, Store

#: Columns of every copy; then come those of --keep, and reasons.
COLUMNS = ("id", "task", "score", "p_value", "alarm", "basis", "drift")
_AT_ONCE = 10_000  # rows that are written at a time


class ForeignFileError(ValueError):
    """A file is not the copy that the store has written."""


class ScoreCopy:
    """The scores of a store in a CSV file.

    Parameters
    ----------
    store : Store
    path : Path
    kept : sequence of str
        Columns of the rows that are handed through.
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
        fresh = Output((*COLUMNS, *kept, *numbered))
        noted = store.output(self._name)
        is_there = path.exists() and path.stat().st_size > 0
        if is_there and noted is None:
            raise ForeignFileError("is there, and the state has not written it")
        if is_there and noted is not None and noted.columns != fresh.columns:
            columns = ",".join(noted.columns)
            raise ForeignFileError(f"has other columns ({columns}) than asked for now")
        self._output = noted if is_there and noted is not None else fresh
        self._ends = self._noted_ends()
        self._check_rest()
        store.set_output(self._name, self._output)

    def catch_up(self) -> None:
        """Append what the store holds and the file does not, down to the disk."""
        size = self._path.stat().st_size if self._path.exists() else 0
        already = size - self._output.size
        with open(self._path, "ab") as stream:
            for last_row, text in self._texts():
                stream.write(text[already:])
                already = max(already - len(text), 0)
                self._advance(last_row, text)
            stream.flush()
            os.fsync(stream.fileno())
        self._store.set_output(self._name, self._output)

    def _noted_ends(self) -> Ends:
        """Ends of what the store has noted, which must stand at the beginning."""
        if not self._output.size:
            return Ends()
        with open(self._path, "rb") as stream:
            ends = Ends.of_stream(stream, 0, self._output.size)
        if ends.digest != self._output.digest:
            raise ForeignFileError("was changed since it was last written")
        return ends

    def _check_rest(self) -> None:
        """Refuse bytes after those that are noted, unless the store would write them."""
        if not self._path.exists():
            return
        with open(self._path, "rb") as stream:
            stream.seek(self._output.size)
            for _, text in self._texts():
                written = stream.read(len(text))
                if not text.startswith(written):
                    raise ForeignFileError("was changed since it was last written")
                if len(written) < len(text):
                    return
            if stream.read(1):
                raise ForeignFileError("was changed since it was last written")

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        """What comes next in the file, and the last row of each piece."""
        if not self._output.size:
            yield self._output.last_row, _as_csv([self._output.columns])
        last_row = self._output.last_row
        while rows := self._store.scores_after(last_row, _AT_ONCE):
            last_row = rows[-1].number
            yield last_row, _as_csv([self._cells(row) for row in rows])

    def _cells(self, row: ScoreRow) -> list[Any]:
        reasons = [*row.reasons, *[""] * self._reasons][: self._reasons]
        return [
            row.id,
            row.task,
            row.score,
            row.p_value,
            "true" if row.alarm else "false",
            row.basis,
            "true" if row.drift else "false",
            *(row.kept.get(name) for name in self._kept),
            *reasons,
        ]

    def _advance(self, last_row: int, text: bytes) -> None:
        self._ends.add(text)
        self._output = Output(
            self._output.columns,
            last_row,
            self._output.size + len(text),
            self._ends.digest,
        )


def _as_csv(lines: list[Any]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(lines)
    return stream.getvalue().encode()
