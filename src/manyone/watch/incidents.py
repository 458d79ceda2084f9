"""Incidents of a stream: found batch by batch, and kept in the store.

Alarms of a task that follow each other closely are a stretch (`manyone.watch.stretches`). The
store keeps the rows of stretches that may go on. An incident has the id of its first alarm,
which stays whatever joins it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from manyone._types import Array
from manyone.alerts.incidents import Incident, longest_calm
from manyone.alerts.values import Rows
from manyone.tables import TableModel
from manyone.tables.incidents import tasks_of
from manyone.watch.database import sound
from manyone.watch.model import resolved
from manyone.watch.state import MonitorState
from manyone.watch.store import Line, Store, now_text
from manyone.watch.stretches import (
    HORIZON,
    STREAM_ROW,
    StreamRows,
    Stretch,
    find_in_stretches,
    starts_of,
)


class IncidentFinder:
    """Finds incidents of a stream batch by batch, and keeps them in its store.

    Parameters
    ----------
    store : Store
    model : TableModel
    """

    def __init__(self, store: Store, model: TableModel) -> None:
        self._store = store
        self._model = model
        self._tasks = tasks_of(model, ["never seen"])
        self._rate = float(model.model_._check_calibrated())
        self._calm = longest_calm(self._rate)
        seen = store.query("SELECT name, rows, first_row FROM task")
        self._counts = {line["name"]: line["rows"] for line in seen}
        self._first_rows = sorted(line["first_row"] for line in seen)

    def add(
        self,
        numbers: range,
        names: Sequence[str | None],
        state: MonitorState,
        scored: Rows,
    ) -> None:
        """Take the next rows of the stream.

        Parameters
        ----------
        numbers : range
            Their numbers in it.
        names : sequence of str or None
            Of their tasks.
        state : MonitorState
            That has judged them.
        scored : Rows
        """
        rows = self._as_rows(state, scored)
        rows["number"] = numbers
        by_task: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            if name is not None:
                by_task.setdefault(name, []).append(row)
        for name, members in by_task.items():
            count = self._counts.get(name, 0)
            if count == 0:
                self._first_rows.append(int(rows["number"][members[0]]))
            rows["place"][members] = np.arange(count, count + len(members))
            self._counts[name] = count + len(members)
        self._first_rows.sort()
        joined: list[Stretch] = []
        open_before = self._open_rows(list(by_task))
        for name, members in by_task.items():
            before = open_before.get(name, rows[:0])
            new = rows[members]
            if len(before) or new["alarm"].any():
                code = int(scored.task[members[0]])
                joined += self._follow(name, code, before, new)
        incidents = find_in_stretches(self._tasks, joined, self._rate)
        self._keep_incidents(joined, incidents)

    def _as_rows(self, state: MonitorState, scored: Rows) -> StreamRows:
        """Rows as incidents need them, but for their numbers and places.

        A row that lies no farther out than one that a person has called normal is as
        likely as the monitor says: left-out rows of the training do not know what was
        normal since.
        """
        codes = np.where(scored.task < 0, len(self._model.tasks_), scored.task)
        below = self._tasks.threshold[codes] - scored.score
        is_normal = scored.score >= _lowest_confirmed(state)[codes]
        likely = np.maximum(scored.rank_p, scored.p_value)
        rows = np.zeros(len(codes), dtype=STREAM_ROW)
        rows["depth"] = np.nan_to_num(below / self._tasks.unit[codes])
        rows["rank_p"] = np.where(is_normal, likely, scored.rank_p)
        rows["depth_p"] = np.where(is_normal, 1.0, resolved(scored.depth_p))
        rows["alarm"] = scored.alarm
        rows["leading"] = scored.leading
        rows["reason"] = [next(iter(reasons), "") for reasons in scored.reasons]
        return rows

    def _follow(
        self, name: str, code: int, before: StreamRows, new: StreamRows
    ) -> list[Stretch]:
        """Stretches of a task that new rows join. The last may go on: its rows are kept."""
        rows = np.concatenate([before, new])
        alarms = np.flatnonzero(rows["alarm"])
        if len(alarms) == 0:  # all that there were have been called normal
            self._keep_open_rows(name, rows[:0], new)
            return []
        starts = starts_of(rows["place"][alarms], self._calm)
        joined = []
        for start, end in pairwise([*starts, len(alarms)]):
            last = int(alarms[end - 1])
            if last >= len(before):
                tasks = np.searchsorted(self._first_rows, rows["number"][last], "right")
                part = rows[alarms[start] : last + 1]
                joined.append(Stretch(name, code, part, int(tasks)))
        begin = int(alarms[starts[-1]])
        next_place = int(rows["place"][-1]) + 1
        goes_on = (
            next_place - rows["place"][alarms[-1]] <= self._calm
            and next_place - rows["place"][begin] < HORIZON
        )
        open_rows = rows[begin:] if goes_on else rows[:0]
        self._keep_open_rows(name, open_rows, new)
        return joined

    # ------------------------------------------------------------------------ in the store

    def _open_rows(self, tasks: Sequence[str]) -> dict[str, StreamRows]:
        """Rows of stretches that may go on, of some tasks, in their order."""
        names = ", ".join(STREAM_ROW.names or ())
        cursor = self._store.execute(
            f"SELECT task, {names} FROM open_row "
            "WHERE task IN (SELECT value FROM json_each(?)) ORDER BY task, number",
            [json.dumps(tasks)],
        )
        by_task: dict[str, list[tuple[object, ...]]] = {}
        for task, *values in cursor:
            by_task.setdefault(task, []).append(tuple(values))
        with sound(self._store.path):
            return {
                task: np.array(rows, dtype=STREAM_ROW) for task, rows in by_task.items()
            }

    def _keep_open_rows(self, task: str, rows: StreamRows, new: StreamRows) -> None:
        """Keep the rows of a stretch that may go on, of which some are new, and no other."""
        first = int(rows["number"][0]) if len(rows) else int(new["number"][-1]) + 1
        self._store.execute(
            "DELETE FROM open_row WHERE task = ? AND number < ?", [task, first]
        )
        fresh = rows[rows["number"] >= new["number"][0]]
        self._store.execute_many(
            "INSERT INTO open_row VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((task, *values) for values in fresh.tolist()),
        )

    def _keep_incidents(
        self, stretches: Sequence[Stretch], incidents: Sequence[Incident]
    ) -> None:
        """Keep the incidents of some stretches instead of those that they had.

        What stood out once stands out: more alarms explain away none before them.
        """
        store = self._store
        stretch_numbers = [stretch.number for stretch in stretches]
        first_alarms = [incident.alarms[0] for incident in incidents]
        store.execute(
            "DELETE FROM incident WHERE stretch IN (SELECT value FROM json_each(?)) "
            "AND id NOT IN (SELECT id FROM judged_row WHERE number IN "
            "(SELECT value FROM json_each(?)))",
            [json.dumps(stretch_numbers), json.dumps(first_alarms)],
        )
        when = "(SELECT coalesce(time, number - 1) FROM judged_row WHERE number = "
        store.execute_many(
            "INSERT INTO incident VALUES ("
            "(SELECT id FROM judged_row WHERE number = :first), :stretch, :task, "
            f":column, :alarms, :rows, {when} :first), {when} :last), :by_chance, "
            ":stands_out, (SELECT id FROM judged_row WHERE number = :worst), :reason, "
            ":now, :now) "
            'ON CONFLICT (id) DO UPDATE SET "column" = excluded."column", '
            "alarms = excluded.alarms, rows = excluded.rows, "
            '"end" = excluded."end", by_chance = min(by_chance, excluded.by_chance), '
            "stands_out = max(stands_out, excluded.stands_out), "
            "worst_row = excluded.worst_row, "
            "reason = excluded.reason, changed = excluded.changed",
            [
                {
                    "first": incident.alarms[0],
                    "stretch": stretches[incident.task].number,
                    "task": stretches[incident.task].task,
                    "column": ", ".join(incident.columns),
                    "alarms": len(incident.alarms),
                    "rows": incident.rows,
                    "last": incident.alarms[-1],
                    "by_chance": incident.by_chance,
                    "stands_out": incident.stands_out,
                    "worst": incident.worst_row,
                    "reason": incident.reason,
                    "now": now_text(),
                }
                for incident in incidents
            ],
        )
        store.execute_many(
            "UPDATE judged_row SET incident = "
            "(SELECT id FROM judged_row WHERE number = ?) WHERE number = ?",
            (
                (incident.alarms[0], number)
                for incident in incidents
                for number in incident.alarms
            ),
        )


def incidents_of(store: Store, *, since: int = 0, most: int = -1) -> list[Line]:
    """Incidents as dashboards see them, the least likely by chance first.

    Parameters
    ----------
    store : Store
    since : int
        Number of a row: only incidents of stretches that an alarm after it has joined.
        Such an alarm may also change how those before it are grouped.
    most : int
        -1: all.
    """
    joined = (
        "WHERE id IN (SELECT id FROM incident WHERE stretch IN (SELECT stretch "
        "FROM judged_row JOIN incident ON incident.id = judged_row.incident "
        "WHERE number > :since))"
    )
    lines = store.query(
        f"SELECT * FROM incidents {joined if since else ''} "
        "ORDER BY by_chance, id LIMIT :most",
        since=since,
        most=most,
    )
    return [{**line, "stands_out": bool(line["stands_out"])} for line in lines]


def outstanding(incidents: Iterable[Line]) -> list[Line]:
    """Those that stand out, and that nobody has answered."""
    return [line for line in incidents if line["stands_out"] and not line["answer"]]


def alarms_of(store: Store, incident: str) -> list[str]:
    """Ids of the alarms of an incident."""
    cursor = store.execute(
        "SELECT id FROM judged_row WHERE incident = ? ORDER BY number", [incident]
    )
    return [row_id for (row_id,) in cursor]


def _lowest_confirmed(state: MonitorState) -> Array:
    """Lowest score of each task that a person has called normal, or infinity.

    Its shape is (T + 1,): the last one stands for tasks never seen.
    """
    confirmed = state.confirmed & ~np.isnan(state.window)
    lowest = np.where(confirmed, state.window, np.inf).min(axis=1)
    return np.append(lowest, np.inf)
