"""Store of ``manyone watch``: all that was seen, in one SQLite file.

A batch of rows is one transaction: the rows, what was said of them, how far their file
was read, and the state of the monitor. So after a kill at any moment each row has been
counted once or not at all, and the next run goes on from there.

The file is in write-ahead mode: a dashboard reads the last whole batch and never waits,
nor makes us wait. One process writes: it holds the write lock from its first look to its
end, and gives it up for the moment of a commit only. Should another process slip in
there, its commit is noticed, and we stop.
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
from typing import Any, NamedTuple

import numpy as np

from manyone._types import Array, Mask
from manyone.alerts.metrics import Metric
from manyone.tablefiles.tail import Consumed
from manyone.tables import TableModel
from manyone.tables.past import TablePast
from manyone.watch.incidents import STREAM_ROW, StreamIncident, StreamRows
from manyone.watch.memory import FAULT, NORMAL, ROW, Id, JudgedRows, Memory
from manyone.watch.model import WatchedModel
from manyone.watch.monitor import Monitor
from manyone.watch.mutes import Mute
from manyone.watch.outbox import Outbox, as_text
from manyone.watch.schema import APPLICATION, FORMAT, TABLES, VIEWS
from manyone.watch.state import MonitorState, state_from_bytes, state_to_bytes

# Seconds that a process waits for the write lock: a reader may hold it while it cleans up.
_PATIENCE = 2.0
_SQLITE = b"SQLite format 3\0"
# Note of the last row that a model before the present one has judged.
_MODEL_SINCE = "model_since"
# Note of the last row that came before anybody had answered an alarm.
_GUARDED_UNTIL = "guarded_until"
# How states begin that an older manyone, or Monitor.save_state, wrote.
_STATES = (b"manyone monitor state", b"manyone archive ")
# What SQLite says, and what a user can do about it.
_REMEDIES = {
    "SQLITE_FULL": "the disk is full. Make room, and give the command again.",
    "SQLITE_BUSY": "is being written by another process. Try again when that is done.",
    "SQLITE_LOCKED": "is being written by another process. Try again when that is done.",
    "SQLITE_READONLY": "cannot be written. Check its permissions and those of its folder.",
    "SQLITE_CANTOPEN": "cannot be opened. Check its permissions and those of its folder.",
    "SQLITE_PERM": "cannot be opened. Check its permissions and those of its folder.",
    "SQLITE_IOERR": "cannot be read or written. Check the disk that it is on.",
    "SQLITE_NOTADB": "is not a store of manyone watch. Name another file.",
}


class StoreError(OSError):
    """A store cannot be used; the message names the file and the remedy."""


class Answer(NamedTuple):
    """What somebody said of a row: normal, fault or later."""

    row_id: str
    answer: str


@dataclass(frozen=True)
class ReadFile:
    """A file that was read, and how much of it."""

    number: int
    consumed: Consumed


@dataclass(frozen=True, eq=False)
class RowDetails:
    """What a store keeps of new rows beside what the monitor said; one value for each row.

    Parameters
    ----------
    file : int
        Number of the file that they come from.
    file_row : list of int
        Their numbers in it.
    task : list of str or None
    time : list of str or None
        As the table has it.
    moment : ndarray of shape (n,)
        The time as a number, NaN where there is none.
    basis : list of str
    alarm : ndarray of bool of shape (n,)
        Alarms that are left of those of the monitor.
    muted : list of str or None
        Why an alarm is muted.
    kept, reasons : list of str or None
        In JSON.
    values : list of str or None
        All columns in JSON; None where they are not kept.
    """

    file: int
    file_row: list[int]
    task: list[str | None]
    time: list[str | None]
    moment: Array
    basis: list[str]
    alarm: Mask
    muted: list[str | None]
    kept: list[str | None]
    reasons: list[str | None]
    values: list[str] | None


class ScoreRow(NamedTuple):
    """A row of the store as a copy of the scores has it."""

    number: int
    id: str
    task: str | None
    score: float
    p_value: float
    alarm: int
    basis: str
    drift: int
    kept: dict[str, Any]
    reasons: list[str]


@dataclass(frozen=True)
class Output:
    """A copy of the scores: its columns, and how far it was written."""

    columns: tuple[str, ...]
    last_row: int = 0
    size: int = 0
    digest: str = ""


class Totals(NamedTuple):
    """What a store has counted since it was made.

    Attributes
    ----------
    rows, alarms : int
    incidents : int
        Those that stand out.
    drifting, silent : int
        Tasks that drift, and tasks that are silent, now.
    """

    rows: int
    alarms: int
    incidents: int
    drifting: int
    silent: int


class StoredRows:
    """The rows of a store as the memory of a monitor.

    The monitor adds rows before the store knows all about them. They stay in `added` until
    `Store.add_rows` writes them.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, n_tasks: int
    ) -> None:
        self._path = path
        self._connection = connection
        self._n_tasks = n_tasks
        self.added: tuple[list[str], JudgedRows] = ([], np.zeros(0, dtype=ROW))

    @property
    def count(self) -> int:
        """Rows in the store."""
        (last,) = self._connection.execute(
            "SELECT max(number) FROM judged_row"
        ).fetchone()
        return last or 0

    def find(self, ids: Sequence[Id]) -> tuple[Mask, JudgedRows]:
        """Which ids are in the store (n,), and their rows (n,); zeros for the others."""
        texts = [str(row_id) for row_id in ids]
        cursor = self._connection.execute(
            "SELECT id, code, score, p_value, raised, drift, weight, answer "
            "FROM judged_row WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(texts),),
        )
        by_id = {row_id: values for row_id, *values in cursor}
        remembered = np.array([text in by_id for text in texts], dtype=bool)
        rows = np.zeros(len(texts), dtype=ROW)
        with sound(self._path):
            for row in np.flatnonzero(remembered).tolist():
                rows[row] = tuple(by_id[texts[row]])
            if np.any((rows["task"] < -1) | (rows["task"] >= self._n_tasks)):
                raise ValueError("it has rows of tasks that the model does not have")
        return remembered, rows

    def add(self, ids: Sequence[Id], rows: JudgedRows) -> None:
        """Hold rows until the store writes them."""
        self.added = ([str(row_id) for row_id in ids], rows)

    def correct(self, row_id: Id, weight: float, answer: int) -> None:
        """Change what is known of a row."""
        self._connection.execute(
            "UPDATE judged_row SET weight = ?, answer = ? WHERE id = ?",
            (weight, answer, str(row_id)),
        )


class Store:
    """An open store, inside a transaction. Use `open_store`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._version = self._data_version()
        self._saved = False

    # ------------------------------------------------------------------------- transactions

    def begin(self) -> None:
        """Take the write lock; make the tables if there are none."""
        self._connection.execute("BEGIN IMMEDIATE")
        if not _is_store(self._connection, self.path):
            _execute_all(self._connection, TABLES + VIEWS)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {FORMAT}")

    def commit(self, monitor: Monitor | None) -> None:
        """Save all since the last commit, the monitor too if one is given, and go on."""
        if monitor is not None:
            # The rows that the monitor remembers are in the store already.
            self._save(replace(monitor.state, memory=Memory()))
        self._connection.execute("COMMIT")
        self._saved = True
        self._version = self._data_version()
        self._connection.execute("BEGIN IMMEDIATE")
        if self._data_version() != self._version:
            raise StoreError(
                f"{self.path} was written by another process in between. What was done "
                "until then is saved: run the same command again."
            )

    def _save(self, state: MonitorState) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO monitor VALUES (1, ?)", (state_to_bytes(state),)
        )

    @property
    def outbox(self) -> Outbox:
        """Messages on their way."""
        return Outbox(self._connection)

    @property
    def saved(self) -> bool:
        """Whether something has been committed."""
        return self._saved

    def _data_version(self) -> int:
        """A number that changes when another process commits."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    # ------------------------------------------------------------------------------ monitor

    def monitor(self, model: WatchedModel, drift_level: float | None = None) -> Monitor:
        """The monitor as it was saved, or a new one.

        Parameters
        ----------
        model : TableModel
        drift_level : float or None
            None: as it was, or that of a new monitor.
        """
        saved = self._connection.execute("SELECT state FROM monitor").fetchone()
        if saved is None:
            state = MonitorState.start(model)
        elif not isinstance(saved[0], bytes):
            raise ValueError("its state is of another type. Use a copy of it.")
        else:
            state = MonitorState(**state_from_bytes(saved[0], "its state"))
        if drift_level is not None:
            state.drift_level = drift_level
        state.memory = StoredRows(self.path, self._connection, len(state.level))
        return Monitor(model, state=state)

    def note(self, name: str) -> str | None:
        """A fact about the store."""
        found = self._connection.execute(
            "SELECT value FROM meta WHERE name = ?", (name,)
        ).fetchone()
        return None if found is None else str(found[0])

    def set_note(self, name: str, value: str) -> None:
        """Keep a fact about the store."""
        self._connection.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value)
        )

    # -------------------------------------------------------------------------------- files

    def last_file(self, path: str) -> ReadFile | None:
        """The file that was read last under a full path."""
        found = self._connection.execute(
            "SELECT number, rows, bytes, digest, form FROM file WHERE path = ? "
            "ORDER BY number DESC LIMIT 1",
            (path,),
        ).fetchone()
        if found is None:
            return None
        number, rows, size, digest, form = found
        with sound(self.path):
            return ReadFile(
                number,
                Consumed(
                    rows=int(rows),
                    size=int(size),
                    digest=str(digest),
                    **json.loads(form),
                ),
            )

    def add_file(self, path: str) -> int:
        """Number of a file that nothing was read of yet."""
        cursor = self._connection.execute(
            "INSERT INTO file (path, rows, bytes, digest, form, read) "
            "VALUES (?, 0, 0, '', '{}', ?)",
            (path, _now()),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def set_consumed(self, number: int, consumed: Consumed) -> None:
        """Note how much of a file was read."""
        form = json.dumps(consumed.form())
        self._connection.execute(
            "UPDATE file SET rows = ?, bytes = ?, digest = ?, form = ?, read = ? "
            "WHERE number = ?",
            (consumed.rows, consumed.size, consumed.digest, form, _now(), number),
        )

    # --------------------------------------------------------------------------------- rows

    def add_rows(self, monitor: Monitor, details: RowDetails) -> range:
        """Write the rows that the monitor has just judged, and their tasks.

        Returns
        -------
        range
            Their numbers.
        """
        memory = monitor.state.memory
        assert isinstance(memory, StoredRows)
        ids, rows = memory.added
        first = memory.count + 1
        numbers = range(first, first + len(ids))
        seen = _now()
        judged = (rows[name].tolist() for name in ROW.names or ())
        code, score, p_value, raised, drift, weight, answer = judged
        moment = _gaps_as_none(details.moment)
        self._connection.executemany(
            "INSERT INTO judged_row VALUES "
            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
            zip(
                numbers,
                ids,
                [details.file] * len(ids),
                details.file_row,
                details.task,
                code,
                details.time,
                moment,
                score,
                p_value,
                details.alarm.tolist(),
                raised,
                details.muted,
                details.basis,
                drift,
                weight,
                answer,
                details.kept,
                details.reasons,
                [seen] * len(ids),
                strict=True,
            ),
        )
        if details.values is not None:
            self._connection.executemany(
                "INSERT INTO row_values VALUES (?, ?, ?)",
                zip(numbers, details.values, [seen] * len(ids), strict=True),
            )
        self._count_tasks(numbers, details, moment)
        memory.add([], rows[:0])
        return numbers

    def _count_tasks(
        self, numbers: range, details: RowDetails, moments: list[float | None]
    ) -> None:
        """Count rows and alarms of tasks, and note when each was seen last."""
        self._connection.executemany(
            "INSERT INTO task (name, rows, alarms, first_row, latest, latest_moment) "
            "VALUES (?, 1, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "rows = rows + 1, alarms = alarms + excluded.alarms, "
            "latest = CASE WHEN excluded.latest_moment < latest_moment "
            "THEN latest ELSE coalesce(excluded.latest, latest) END, "
            "latest_moment = max(coalesce(latest_moment, excluded.latest_moment), "
            "coalesce(excluded.latest_moment, latest_moment))",
            (
                (task, alarm, number, time, moment)
                for task, alarm, number, time, moment in zip(
                    details.task,
                    details.alarm.tolist(),
                    numbers,
                    details.time,
                    moments,
                    strict=True,
                )
                if task is not None
            ),
        )

    def tasks_seen(self) -> list[tuple[str, int, int]]:
        """Name, rows and number of the first row of every task so far."""
        return self._connection.execute(
            "SELECT name, rows, first_row FROM task"
        ).fetchall()

    def set_drift(self, task: str, since: str, flagged: str, moment: float) -> None:
        """Note that a task drifts, since when, and when it was flagged.

        The last is the same time as a number, NaN where there is none.
        """
        self._connection.execute(
            "UPDATE task SET drift_since = ?, drift_flagged = ?, drift_moment = ? "
            "WHERE name = ?",
            (since, flagged, None if moment != moment else moment, task),
        )

    def latest_moments(self) -> dict[str, float]:
        """When each task was seen last, as a number."""
        return dict(
            self._connection.execute(
                "SELECT name, latest_moment FROM task WHERE latest_moment IS NOT NULL"
            )
        )

    def latest_times(self, tasks: Sequence[str]) -> dict[str, str]:
        """When some tasks were seen last, as the table had it."""
        return dict(
            self._connection.execute(
                "SELECT name, coalesce(latest, '') FROM task "
                "WHERE name IN (SELECT value FROM json_each(?))",
                (json.dumps(tasks),),
            )
        )

    def gaps(self, tasks: Sequence[str] | None = None) -> dict[str, Array]:
        """The last gaps between rows of some tasks, or of all."""
        which = ""
        if tasks is not None:
            which = "WHERE task IN (SELECT value FROM json_each(:tasks))"
        lines = self.query(
            f"SELECT task, gaps FROM arrival {which}", tasks=json.dumps(tasks)
        )
        with sound(self.path):
            return {
                line["task"]: np.frombuffer(line["gaps"], dtype="<f4").astype(float)
                for line in lines
            }

    def set_gaps(self, gaps: Mapping[str, Array]) -> None:
        """Keep the last gaps of some tasks, which are not silent."""
        self._connection.executemany(
            "INSERT INTO arrival (task, gaps) VALUES (?, ?) ON CONFLICT (task) "
            "DO UPDATE SET gaps = excluded.gaps, silent = NULL",
            ((task, values.astype("<f4").tobytes()) for task, values in gaps.items()),
        )

    def set_silent(self, tasks: Mapping[str, float]) -> set[str]:
        """Note which tasks are silent, with p-values; returns those that were before."""
        before = self.query("SELECT task, silent FROM arrival WHERE silent IS NOT NULL")
        was = {line["task"]: line["silent"] for line in before}
        changed = [
            (tasks.get(task), task)
            for task in was.keys() | tasks.keys()
            if tasks.get(task) != was.get(task)
        ]
        self._connection.executemany(
            "UPDATE arrival SET silent = ? WHERE task = ?", changed
        )
        return {*was}

    def totals(self) -> Totals:
        """What was counted since the store was made."""
        found = self._connection.execute(
            "SELECT (SELECT coalesce(max(number), 0) FROM judged_row), "
            "(SELECT count(*) FROM judged_row WHERE alarm = 1), "
            "(SELECT count(*) FROM incident WHERE stands_out = 1), "
            "(SELECT count(*) FROM task WHERE drift_flagged IS NOT NULL), "
            "(SELECT count(*) FROM arrival WHERE silent IS NOT NULL)"
        ).fetchone()
        return Totals._make(found)

    def prune_values(self, days: int) -> int:
        """Forget what stood in rows seen before so many days; how many rows these were."""
        oldest = as_text(datetime.now(UTC) - timedelta(days=days))
        cursor = self._connection.execute(
            "DELETE FROM row_values WHERE seen < ?", (oldest,)
        )
        return cursor.rowcount

    # ---------------------------------------------------------------------------- incidents

    def open_rows(self, tasks: Sequence[str]) -> dict[str, StreamRows]:
        """Rows of stretches that may go on, of some tasks, in their order."""
        cursor = self._connection.execute(
            "SELECT task, number, place, depth, rank_p, depth_p, alarm, leading, reason "
            "FROM open_row WHERE task IN (SELECT value FROM json_each(?)) "
            "ORDER BY task, number",
            (json.dumps(tasks),),
        )
        by_task: dict[str, list[tuple[Any, ...]]] = {}
        for task, *values in cursor:
            by_task.setdefault(task, []).append(tuple(values))
        with sound(self.path):
            return {
                task: np.array(rows, dtype=STREAM_ROW) for task, rows in by_task.items()
            }

    def keep_open_rows(self, task: str, rows: StreamRows, new: StreamRows) -> None:
        """Keep the rows of a stretch that may go on, of which some are new, and no other."""
        first = int(rows["number"][0]) if len(rows) else int(new["number"][-1]) + 1
        self._connection.execute(
            "DELETE FROM open_row WHERE task = ? AND number < ?", (task, first)
        )
        fresh = rows[rows["number"] >= new["number"][0]]
        self._connection.executemany(
            "INSERT INTO open_row VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((task, *values) for values in fresh.tolist()),
        )

    def set_incidents(
        self, stretches: Sequence[int], incidents: Sequence[StreamIncident]
    ) -> None:
        """Keep the incidents of some stretches instead of those that they had.

        What stood out once stands out: more alarms explain away none before them.
        """
        changed = _now()
        ids = self._ids([incident.alarms[0] for incident in incidents])
        self._connection.execute(
            "DELETE FROM incident WHERE stretch IN (SELECT value FROM json_each(?)) "
            "AND id NOT IN (SELECT value FROM json_each(?))",
            (json.dumps(list(stretches)), json.dumps(list(ids.values()))),
        )
        when = "(SELECT coalesce(time, number - 1) FROM judged_row WHERE number = ?)"
        self._connection.executemany(
            "INSERT INTO incident VALUES "
            f"(?, ?, ?, ?, ?, ?, {when}, {when}, ?, ?, "
            "(SELECT id FROM judged_row WHERE number = ?), ?, ?, ?) "
            'ON CONFLICT (id) DO UPDATE SET "column" = excluded."column", '
            "alarms = excluded.alarms, rows = excluded.rows, "
            '"end" = excluded."end", by_chance = min(by_chance, excluded.by_chance), '
            "stands_out = max(stands_out, excluded.stands_out), "
            "worst_row = excluded.worst_row, "
            "reason = excluded.reason, changed = excluded.changed",
            (
                (
                    ids[incident.alarms[0]],
                    incident.stretch,
                    incident.task,
                    incident.column,
                    len(incident.alarms),
                    incident.rows,
                    incident.alarms[0],
                    incident.alarms[-1],
                    incident.by_chance,
                    incident.stands_out,
                    incident.worst,
                    incident.reason,
                    changed,
                    changed,
                )
                for incident in incidents
            ),
        )
        self._connection.executemany(
            "UPDATE judged_row SET incident = ? WHERE number = ?",
            (
                (ids[incident.alarms[0]], number)
                for incident in incidents
                for number in incident.alarms
            ),
        )

    def _ids(self, numbers: Sequence[int]) -> dict[int, str]:
        """Ids of rows by their numbers."""
        return dict(
            self._connection.execute(
                "SELECT number, id FROM judged_row "
                "WHERE number IN (SELECT value FROM json_each(?))",
                (json.dumps(list(numbers)),),
            )
        )

    def incidents(
        self, most: int, first_alarms: Sequence[int] | None = None
    ) -> list[dict[str, Any]]:
        """Incidents as dashboards see them, the least likely by chance first.

        Parameters
        ----------
        most : int
        first_alarms : sequence of int or None
            Numbers of rows: only incidents that begin with one of them.
        """
        which = ""
        if first_alarms is not None:
            which = "WHERE id IN (SELECT value FROM json_each(:ids))"
        lines = self.query(
            f"SELECT * FROM incidents {which} ORDER BY by_chance, id LIMIT :most",
            most=most,
            ids=json.dumps([*self._ids(first_alarms or ()).values()]),
        )
        return [{**line, "stands_out": bool(line["stands_out"])} for line in lines]

    def query(self, sql: str, **values: object) -> list[dict[str, Any]]:
        """Lines that a statement finds, by the names of their columns."""
        cursor = self._connection.execute(sql, values)
        names = [name for name, *_ in cursor.description]
        return [dict(zip(names, line, strict=True)) for line in cursor]

    def mutes(self) -> list[Mute]:
        """What is muted."""
        lines = self._connection.execute('SELECT task, "from", until, why FROM mute')
        with sound(self.path):
            return [Mute._make(line) for line in lines]

    def set_mutes(self, mutes: Iterable[Mute]) -> None:
        """Mute this, and nothing else."""
        self._connection.execute("DELETE FROM mute")
        self._connection.executemany("INSERT INTO mute VALUES (?, ?, ?, ?)", mutes)

    # ------------------------------------------------------------------------------ answers

    def add_answers(self, answers: Iterable[Answer]) -> int:
        """Keep answers that differ from what was said of their rows; how many did."""
        new = 0
        for row_id, answer in answers:
            last = self._connection.execute(
                "SELECT answer FROM answer WHERE id = ? ORDER BY number DESC LIMIT 1",
                (row_id,),
            ).fetchone()
            if last is None or last[0] != answer:
                new += 1
                self._connection.execute(
                    "INSERT INTO answer (id, answer, given) VALUES (?, ?, ?)",
                    (row_id, answer, _now()),
                )
        return new

    def use_answers(self, monitor: Monitor) -> int:
        """Tell the monitor all answers whose rows have come; how many there were.

        A row that was called normal is no evidence of an incident that may go on. Rows
        that were called faults are forgotten: thresholds are as if they had not come.
        """
        unused = self._connection.execute(
            "SELECT answer.number, answer.id, answer.answer, task, judged_row.number "
            "FROM answer JOIN judged_row ON judged_row.id = answer.id "
            "WHERE used = 0 ORDER BY answer.number"
        ).fetchall()
        since = int(self.note(_MODEL_SINCE) or 0)
        if unused and not monitor.state.answers.any():
            # Until now thresholds were guarded.
            self.set_note(_GUARDED_UNTIL, str(monitor.state.memory.count))
        faults = []
        for number, row_id, answer, task, row in unused:
            if answer != "later" and row > since:
                faults += [row] if answer == "fault" else []
                monitor.feedback([row_id], normal=answer == "normal")
            elif answer != "later":
                # Another model judged it, so that its score says nothing of this one.
                is_normal = answer == "normal"
                monitor.state.memory.correct(
                    row_id, float(is_normal), NORMAL if is_normal else FAULT
                )
            if answer == "normal":
                self._connection.execute(
                    "UPDATE open_row SET alarm = 0, rank_p = 1.0, depth_p = 1.0 "
                    "WHERE task = ? AND number = ?",
                    (task, row),
                )
            self._connection.execute(
                "UPDATE answer SET used = 1 WHERE number = ?", (number,)
            )
        if faults:
            self._forget_faults(monitor, faults, since)
        return len(unused)

    def _forget_faults(
        self, monitor: Monitor, faults: Sequence[int], since: int
    ) -> None:
        """Let tasks of some rows learn their thresholds anew from rows after `since`."""
        wanted = json.dumps(list(faults))
        codes = self._connection.execute(
            "SELECT DISTINCT code FROM judged_row WHERE code >= 0 "
            "AND number IN (SELECT value FROM json_each(?))",
            (wanted,),
        ).fetchall()
        tasks = np.array([code for (code,) in codes], dtype=np.intp)
        found = self._connection.execute(
            "SELECT number, code, score, answer FROM judged_row WHERE answer <> 0 "
            "AND number > ? AND code IN (SELECT value FROM json_each(?)) "
            "ORDER BY number",
            (since, json.dumps(tasks.tolist())),
        ).fetchall()
        with sound(self.path):
            values = np.array(found, dtype=np.float64).reshape(-1, 4)
            rows = np.zeros(len(values), dtype=ROW)
            for column, name in enumerate(("task", "score", "answer"), start=1):
                rows[name] = values[:, column]
            guarded_until = int(self.note(_GUARDED_UNTIL) or 0)
        monitor.relearn(tasks, rows, values[:, 0] <= guarded_until)

    def alarms_of(self, incident: str) -> list[str]:
        """Ids of the alarms of an incident."""
        lines = self.query(
            "SELECT id FROM judged_row WHERE incident = :id ORDER BY number",
            id=incident,
        )
        return [line["id"] for line in lines]

    def without_rows(self, ids: Sequence[str]) -> list[str]:
        """Those of the ids that name no row of the store."""
        cursor = self._connection.execute(
            "SELECT value FROM json_each(?) WHERE value NOT IN "
            "(SELECT id FROM judged_row WHERE id = value)",
            (json.dumps(list(ids)),),
        )
        return [row_id for (row_id,) in cursor]

    # ------------------------------------------------------------------------------- copies

    def output(self, path: str) -> Output | None:
        """What is known of a copy of the scores."""
        found = self._connection.execute(
            "SELECT columns, last_row, bytes, digest FROM output WHERE path = ?",
            (path,),
        ).fetchone()
        if found is None:
            return None
        columns, last_row, size, digest = found
        with sound(self.path):
            names = tuple(str(name) for name in json.loads(columns))
            return Output(names, int(last_row), int(size), str(digest))

    def set_output(self, path: str, output: Output) -> None:
        """Note how far a copy of the scores was written."""
        self._connection.execute(
            "INSERT OR REPLACE INTO output VALUES (?, ?, ?, ?, ?)",
            (
                path,
                json.dumps(output.columns),
                output.last_row,
                output.size,
                output.digest,
            ),
        )

    # -------------------------------------------------------------------------- other models

    def start_again(self, model: TableModel, past: TablePast | None = None) -> None:
        """Go on with another model: levels and drift start anew, all else stays.

        Rows that were judged before keep what was said of them, so an incident that they
        are part of goes on. Answers to them are kept, and move no level of the new model.

        Parameters
        ----------
        model : TableModel
        past : TablePast or None
            What the rows so far have ended with, where the model asks for it.
        """
        saved = self._connection.execute("SELECT state FROM monitor").fetchone()
        if saved is None:
            return
        before = MonitorState(**state_from_bytes(saved[0], "its state"))
        state = MonitorState.start(model, drift_level=before.drift_level)
        if past is not None:
            state.past = past.of_tasks(model.tasks_)
        names = [str(task) for task in model.tasks_.tolist()]
        for statement in (
            "CREATE TEMP TABLE code_of (task TEXT PRIMARY KEY, code INTEGER)",
            "UPDATE task SET drift_since = NULL, drift_flagged = NULL, "
            "drift_moment = NULL",
        ):
            self._connection.execute(statement)
        self._connection.executemany(
            "INSERT INTO code_of VALUES (?, ?)",
            zip(names, range(len(names)), strict=True),
        )
        self._connection.execute(
            "UPDATE judged_row SET code = coalesce("
            "(SELECT code FROM code_of WHERE code_of.task = judged_row.task), -1)"
        )
        self._connection.execute("DROP TABLE code_of")
        (last,) = self._connection.execute(
            "SELECT coalesce(max(number), 0) FROM judged_row"
        ).fetchone()
        self.set_note(_MODEL_SINCE, str(last))
        self._save(state)

    def scores_after(self, number: int, most: int) -> list[ScoreRow]:
        """Rows after a row, at most so many."""
        cursor = self._connection.execute(
            "SELECT number, id, task, score, p_value, alarm, basis, drift, kept, reasons "
            "FROM judged_row WHERE number > ? ORDER BY number LIMIT ?",
            (number, most),
        )
        with sound(self.path):
            return [
                ScoreRow._make(
                    (*values, json.loads(kept or "{}"), json.loads(reasons or "[]"))
                )
                for *values, kept, reasons in cursor
            ]


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """Open a store, or make one, and keep other processes from writing to it.

    What was not committed is undone at the end. A store that was just made and never committed
    is removed again.

    Raises
    ------
    StoreError
        If it is no store, another process writes to it, or the disk refuses.
    """
    made = _make_file(path)
    store: Store | None = None
    try:
        with closing(sqlite3.connect(path, _PATIENCE, isolation_level=None)) as link:
            link.execute("PRAGMA trusted_schema = OFF")
            if not made:
                _is_store(link, path)  # before anything is changed
            link.execute("PRAGMA journal_mode = WAL")
            link.execute("PRAGMA synchronous = FULL")
            store = Store(path, link)
            store.begin()
            yield store
            link.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise StoreError(_what_to_mend(path, error)) from error
    finally:
        if made and (store is None or not store.saved):
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
        # Where nobody can write, SQLite has no place for its locks and needs none.
        address += "&immutable=1"
    try:
        with closing(sqlite3.connect(address, _PATIENCE, uri=True)) as link:
            link.execute("PRAGMA trusted_schema = OFF")
            link.execute("BEGIN")  # all that is read is of one batch
            if not _is_store(link, path):
                raise StoreError(f"{path} is empty. manyone watch fills it.")
            yield Store(path, link)
    except sqlite3.Error as error:
        raise StoreError(_what_to_mend(path, error)) from error


def metrics_of(totals: Totals) -> list[Metric]:
    """What a store has counted, for Prometheus."""
    return [
        Metric("rows_total", "counter", "Rows judged.", totals.rows),
        Metric("alarms_total", "counter", "Rows that raised an alarm.", totals.alarms),
        Metric(
            "incidents_total", "counter", "Incidents that stood out.", totals.incidents
        ),
        Metric("drifting_tasks", "gauge", "Tasks that drift.", totals.drifting),
        Metric("silent_tasks", "gauge", "Tasks that went silent.", totals.silent),
    ]


def _make_file(path: Path) -> bool:
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
        if start and not start.startswith(_SQLITE):
            raise StoreError(
                f"{path} is not a store of manyone watch. Name another file."
            ) from None
        return False
    return True


def _is_store(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether there are tables of ours; other tables are refused."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not application:
        return False
    if application != APPLICATION:
        raise StoreError(f"{path} is a database of another program. Name another file.")
    if number != FORMAT:
        raise StoreError(
            f"{path} has format {number}, and this manyone reads format {FORMAT}. "
            "Name another file to start anew."
        )
    return True


def _execute_all(connection: sqlite3.Connection, script: str) -> None:
    """Statements one by one: `executescript` would commit before them."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Say that a store is damaged where its values are not what they should be."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise StoreError(
            f"{path} is damaged ({error}). Use a copy of it, or name another file."
        ) from error


def _what_to_mend(path: Path, error: sqlite3.Error) -> str:
    """A sentence for the user."""
    name = str(getattr(error, "sqlite_errorname", ""))
    for beginning, remedy in _REMEDIES.items():
        if name.startswith(beginning):
            return remedy if remedy.startswith("the disk") else f"{path} {remedy}"
    return f"{path} is damaged ({error}). Use a copy of it, or name another file."


def _gaps_as_none(values: Array) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def _now() -> str:
    return as_text(datetime.now(UTC))
