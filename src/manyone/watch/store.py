"""Store of ``manyone watch``: rows, answers, incidents and state in one SQLite file.

A batch of rows is one transaction: the rows, their scores and alarms, how far their
file was read, and the state of the monitor. So after a kill at any moment each row has
been counted once or not at all, and the next run goes on from there.

The file is in write-ahead mode: a dashboard reads the last whole batch, and neither it
nor the writer waits. One process writes. It holds the write lock from beginning to end,
but for the moment of a commit. If another process commits in that moment, the first one
notices it and stops.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from manyone._types import Mask
from manyone.alerts.metrics import Metric
from manyone.data.groups import MISSING
from manyone.tablefiles.tail import Consumed
from manyone.tables import TableModel
from manyone.tables.past import TablePast
from manyone.watch.database import (
    StoreError,
    has_tables,
    make_file,
    make_tables,
    sound,
    with_remedies,
)
from manyone.watch.memory import Id, RememberedRows, find_rows
from manyone.watch.model import WatchedModel, estimator_of
from manyone.watch.monitor import Monitor
from manyone.watch.state import MonitorState, state_from_bytes, state_to_bytes

# Seconds that a process waits for the write lock, which a reader may hold as it closes.
_PATIENCE = 2.0
#: Name of a note: the last row that a model before the present one has judged.
MODEL_SINCE = "model_since"
#: Values of a statement, by place or by name.
Values = Sequence[object] | Mapping[str, object]
#: A line of a result, by the names of its columns. SQLite declares no types of values.
Line = dict[str, Any]


@dataclass(frozen=True)
class ReadFile:
    """A file that was read, and how much of it."""

    number: int
    consumed: Consumed


# Counts since the store was made, and present numbers: name, meaning, query.
_METRICS = [
    (
        "rows_total",
        "Rows judged.",
        "SELECT coalesce(max(number), 0) FROM judged_row",
    ),
    (
        "alarms_total",
        "Rows that raised an alarm.",
        "SELECT count(*) FROM judged_row WHERE alarm = 1",
    ),
    (
        "incidents_total",
        "Incidents that stood out.",
        "SELECT count(*) FROM incident WHERE stands_out = 1",
    ),
    (
        "drifting_tasks",
        "Tasks that drift.",
        "SELECT count(*) FROM task WHERE drift_flagged IS NOT NULL",
    ),
    (
        "silent_tasks",
        "Tasks that went silent.",
        "SELECT count(*) FROM task WHERE silent IS NOT NULL",
    ),
]


class StoredRows:
    """The rows of a store as the memory of a monitor."""

    def __init__(self, store: Store, tasks: Sequence[object]) -> None:
        self._store = store
        self._codes = codes_by_name(tasks)

    @property
    def count(self) -> int:
        """Rows in the store."""
        return self._store.last_row

    def find(self, ids: Sequence[Id]) -> tuple[Mask, RememberedRows]:
        """Which ids are in the store (n,), and their rows (n,), zeros without one."""
        texts = [str(row_id) for row_id in ids]
        cursor = self._store.execute(
            "SELECT id, task, score, p_value, raised, drift, weight, answer "
            "FROM judged_row WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps(texts)],
        )
        by_id = {
            row_id: (self._codes.get(task, MISSING), *values)
            for row_id, task, *values in cursor
        }
        with sound(self._store.path):
            return find_rows(texts, by_id)

    def add(self, ids: Sequence[Id], rows: RememberedRows) -> None:
        """Do nothing: `Store.add_rows` adds them, and more about them."""

    def correct(self, row_id: Id, weight: float, answer: int) -> None:
        """Change weight and answer of a row."""
        self._store.execute(
            "UPDATE judged_row SET weight = ?, answer = ? WHERE id = ?",
            [weight, answer, str(row_id)],
        )


class Store:
    """An open store, inside a transaction. Use `open_store` or `read_store`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        #: Whether the tables were made here, and nothing has been committed since.
        self.is_unsaved = False

    # --------------------------------------------------------------------- transactions

    def begin(self) -> None:
        """Take the write lock; make the tables if there are none."""
        self.execute("BEGIN IMMEDIATE")
        if not has_tables(self._connection, self.path):
            self.is_unsaved = True
            make_tables(self._connection)

    def commit(self, monitor: Monitor | None = None) -> None:
        """Save everything since the last commit, and the state of a monitor."""
        if monitor is not None:
            self._save(monitor.state)
        # Nobody else can commit until we do.
        before = self._data_version()
        self.execute("COMMIT")
        self.is_unsaved = False
        self.execute("BEGIN IMMEDIATE")
        if self._data_version() != before:
            raise StoreError(
                f"{self.path} was written by another process in between. What was done "
                "until then is saved: run the same command again."
            )

    def _save(self, state: MonitorState) -> None:
        self.execute(
            "INSERT OR REPLACE INTO monitor VALUES (1, ?)", [state_to_bytes(state)]
        )

    def _data_version(self) -> int:
        """A number that changes when another process commits."""
        (version,) = self.execute("PRAGMA data_version").fetchone()
        return int(version)

    def execute(self, sql: str, values: Values = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._connection.execute(sql, values)

    def execute_many(self, sql: str, lines: Iterable[Values]) -> None:
        """Run a statement for each line of values."""
        self._connection.executemany(sql, lines)

    def query(self, sql: str, **values: object) -> list[Line]:
        """Lines of the result of a statement, by the names of its columns."""
        cursor = self.execute(sql, values)
        names = [name for name, *_ in cursor.description]
        return [dict(zip(names, line, strict=True)) for line in cursor]

    # -------------------------------------------------------------------------- monitor

    def monitor(self, model: WatchedModel, drift_level: float | None = None) -> Monitor:
        """The monitor as it was saved, or a new one.

        Parameters
        ----------
        model : TableModel
        drift_level : float or None
            None: that of the saved monitor, or the default of a new one.
        """
        state = self._saved_state()
        if state is None:
            state = MonitorState.start(model)
        if drift_level is not None:
            state.drift_level = drift_level
        state.memory = StoredRows(self, estimator_of(model).tasks_.tolist())
        return Monitor(model, state=state)

    def past(self, model: TableModel) -> TablePast | None:
        """Last rows of the tasks so far, as the past of rows that come next.

        None if there are no rows, or if the model does not use the past.

        Raises
        ------
        StoreError
            If another model has filled the store.
        """
        state = self._saved_state()
        if state is None:
            return None
        trained = model.training_.past
        if state.past is None and trained is None:
            return None
        if state.past is None or trained is None or not state.past.is_like(trained):
            raise StoreError(f"{self.path} is of another model.")
        return state.past.ended()

    def _saved_state(self) -> MonitorState | None:
        """The state of the monitor as it was saved."""
        saved = self.execute("SELECT state FROM monitor").fetchone()
        if saved is None:
            return None
        if not isinstance(saved[0], bytes):
            raise ValueError("its state is of another type. Use a copy of it.")
        return state_from_bytes(saved[0], "its state")

    def start_again(self, model: TableModel, past: TablePast | None = None) -> None:
        """Go on with another model: levels and drift start anew, all else stays.

        Rows that were judged before keep their scores and alarms, so an incident that
        they are part of goes on. Answers about them are kept, but the thresholds of the
        new model do not learn from them.

        Parameters
        ----------
        model : TableModel
        past : TablePast or None
            Last rows of the tasks so far, if the model uses the past.
        """
        before = self._saved_state()
        if before is None:
            return
        state = MonitorState.start(model, drift_level=before.drift_level)
        if past is not None:
            state.past = past.of_tasks(model.tasks_)
        self.execute(
            "UPDATE task SET drift_since = NULL, drift_flagged = NULL, drift_moment = "
            "NULL"
        )
        self.set_note(MODEL_SINCE, str(self.last_row))
        self._save(state)

    def note(self, name: str) -> str | None:
        """A fact about the store."""
        line = self.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchone()
        return None if line is None else str(line[0])

    def set_note(self, name: str, value: str) -> None:
        """Keep a fact about the store."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, value])

    # ---------------------------------------------------------------------------- files

    def last_file(self, path: str) -> ReadFile | None:
        """The file that was read last under a full path."""
        line = self.execute(
            "SELECT number, rows, bytes, digest, form FROM file WHERE path = ? "
            "ORDER BY number DESC LIMIT 1",
            [path],
        ).fetchone()
        if line is None:
            return None
        number, rows, size, digest, form = line
        with sound(self.path):
            consumed = Consumed(int(rows), size=int(size), **json.loads(form))
            return ReadFile(number, replace(consumed, digest=str(digest)))

    def add_file(self, path: str) -> int:
        """Add a file of which nothing has been read yet; return its number."""
        cursor = self.execute(
            "INSERT INTO file (path, rows, bytes, digest, form, read) "
            "VALUES (?, 0, 0, '', '{}', ?)",
            [path, now_text()],
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def set_consumed(self, number: int, consumed: Consumed) -> None:
        """Note how much of a file was read."""
        form = json.dumps(consumed.form())
        self.execute(
            "UPDATE file SET rows = ?, bytes = ?, digest = ?, form = ?, read = ? "
            "WHERE number = ?",
            [consumed.rows, consumed.size, consumed.digest, form, now_text(), number],
        )

    # ----------------------------------------------------------------------------- rows

    @property
    def last_row(self) -> int:
        """Number of the last row, which is the number of rows."""
        (last,) = self.execute("SELECT max(number) FROM judged_row").fetchone()
        return last or 0

    def add_rows(
        self, columns: Mapping[str, Sequence[object]], values: Sequence[str] | None
    ) -> range:
        """Write rows that a monitor has judged, and count those of their tasks.

        Parameters
        ----------
        columns : dict of str to sequence
            Values of the columns of ``judged_row``, but for the number of the row.
        values : sequence of str or None
            All values of the rows in JSON; None: they are not kept.

        Returns
        -------
        range
            Numbers of the rows.
        """
        first = self.last_row + 1
        numbers = range(first, first + len(columns["id"]))
        seen = [now_text()] * len(numbers)
        stored = {"number": numbers, "seen": seen, **columns}
        self.execute_many(
            f"INSERT INTO judged_row ({', '.join(stored)}) "
            f"VALUES ({', '.join('?' * len(stored))})",
            zip(*stored.values(), strict=True),
        )
        if values is not None:
            self.execute_many(
                "INSERT INTO row_values VALUES (?, ?, ?)",
                zip(numbers, values, seen, strict=True),
            )
        self._count_tasks(first)
        return numbers

    def _count_tasks(self, first: int) -> None:
        """Count rows and alarms of tasks from a row on, and note their last times."""
        # In a query with one maximum SQLite takes other columns, here the time, from
        # the row with that maximum.
        self.execute(
            "INSERT INTO task (name, rows, alarms, first_row, latest, latest_moment) "
            "SELECT counted.task, rows, alarms, first_row, time, moment FROM "
            "(SELECT task, count(*) AS rows, sum(alarm) AS alarms, min(number) AS "
            "first_row FROM judged_row WHERE number >= :first AND task IS NOT NULL "
            "GROUP BY task) AS counted LEFT JOIN (SELECT task, time, max(moment) AS "
            "moment FROM judged_row WHERE number >= :first GROUP BY task) AS last "
            "ON last.task = counted.task WHERE true ON CONFLICT (name) DO UPDATE SET "
            "rows = task.rows + excluded.rows, alarms = task.alarms + excluded.alarms, "
            "latest = CASE WHEN excluded.latest_moment < latest_moment "
            "THEN latest ELSE coalesce(excluded.latest, latest) END, "
            "latest_moment = max(coalesce(latest_moment, excluded.latest_moment), "
            "coalesce(excluded.latest_moment, latest_moment))",
            {"first": first},
        )

    def set_drift(self, task: str, since: str, flagged: str, moment: float) -> None:
        """Note that a task drifts, since when, and when it was flagged.

        The last is the same time as a number, NaN where there is none.
        """
        self.execute(
            "UPDATE task SET drift_since = ?, drift_flagged = ?, drift_moment = ? "
            "WHERE name = ?",
            [since, flagged, none_of_nan(moment), task],
        )

    def metrics(self) -> list[Metric]:
        """Counts for Prometheus."""
        return [
            Metric(name, meaning, self.execute(sql).fetchone()[0])
            for name, meaning, sql in _METRICS
        ]

    def prune_values(self, days: int) -> None:
        """Delete values of rows that were seen more than so many days ago."""
        oldest = as_text(datetime.now(UTC) - timedelta(days=days))
        self.execute("DELETE FROM row_values WHERE seen < ?", [oldest])


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """Open a store, or make one, and lock it against other writers.

    What was not committed is undone at the end. A file that was just made is removed
    again, unless something has been committed, here or by another process.

    Raises
    ------
    StoreError
        If it is no store, another process writes to it, or the disk refuses.
    """
    is_new = make_file(path)
    store: Store | None = None
    try:
        with (
            with_remedies(path),
            closing(sqlite3.connect(path, _PATIENCE, isolation_level=None)) as link,
        ):
            link.execute("PRAGMA trusted_schema = OFF")
            if not is_new:
                has_tables(link, path)  # before anything is changed
            link.execute("PRAGMA journal_mode = WAL")
            link.execute("PRAGMA synchronous = FULL")
            store = Store(path, link)
            store.begin()
            yield store
            link.execute("ROLLBACK")
    finally:
        if is_new and (store is None or store.is_unsaved):
            for ending in ("", "-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)


@contextmanager
def read_store(path: Path) -> Iterator[Store]:
    """Open a store to read its last whole batch, while others may write.

    Raises
    ------
    StoreError
        If there is none, or it is no store.
    """
    if not path.exists():
        raise StoreError(f"{path} is not there. manyone watch makes it.")
    address = f"{path.resolve().as_uri()}?mode=ro"
    if not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
        # SQLite cannot write locks beside the file, and nobody can change it.
        address += "&immutable=1"
    with (
        with_remedies(path),
        closing(sqlite3.connect(address, _PATIENCE, uri=True)) as link,
    ):
        link.execute("PRAGMA trusted_schema = OFF")
        link.execute("BEGIN")  # so that all reads see the same batch
        if not has_tables(link, path):
            raise StoreError(f"{path} is empty. manyone watch fills it.")
        yield Store(path, link)


def codes_by_name(tasks: Sequence[object]) -> dict[str, int]:
    """Numbers of the tasks of a model by the names that a store has."""
    return {str(task): code for code, task in enumerate(tasks)}


def is_number(text: str | None) -> bool:
    """Whether a time, as a table had it, is a number and no date."""
    try:
        float(text or "")
    except ValueError:
        return False
    return True


def none_of_nan(value: float) -> float | None:
    """A number, or nothing: SQLite has no NaN."""
    return None if np.isnan(value) else value


def as_text(moment: datetime) -> str:
    """A moment of UTC as stores have it; texts sort as moments do."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def now_text() -> str:
    """The present moment, as stores have it."""
    return as_text(datetime.now(UTC))
