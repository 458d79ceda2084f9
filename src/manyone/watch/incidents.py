"""Incidents of a stream: found batch by batch, and kept in the store.

Alarms of a task that follow each other closely are a stretch
(`manyone.watch.stretches`). For a stretch that may go on, the store has the number of
its first alarm. An incident keeps the id of its first alarm when further alarms join.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np

from manyone._types import Array
from manyone.alerts.incidents import Incident, longest_calm
from manyone.alerts.values import Rows
from manyone.data.rows import MISSING
from manyone.tables import TableModel
from manyone.tables.incidents import tasks_of
from manyone.watch.database import sound
from manyone.watch.model import resolved
from manyone.watch.state import MonitorState
from manyone.watch.store import Line, Store, codes_by_name, now_text
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
        self._tasks = tasks_of(model, ["never seen"])
        self._codes = codes_by_name(model.tasks_.tolist())
        self._rate = float(model.model_._check_calibrated())
        self._calm = longest_calm(self._rate)

    def columns(self, state: MonitorState, scored: Rows) -> dict[str, Sequence[object]]:
        """Columns of the store for rows that a monitor has just judged.

        Where a person has called a row normal that lies as far out, the p-value of the
        monitor counts: the training rows do not contain what is normal since then.
        """
        codes = np.where(scored.task < 0, len(self._codes), scored.task)
        below = self._tasks.threshold[codes] - scored.score
        is_normal = scored.score >= _lowest_confirmed(state)[codes]
        likely = np.maximum(scored.rank_p, scored.p_value)
        rank_p = np.where(is_normal, likely, scored.rank_p)
        depth_p = np.where(is_normal, 1.0, resolved(scored.depth_p))
        return {
            "depth": np.nan_to_num(below / self._tasks.unit[codes]).tolist(),
            "rank_p": rank_p.tolist(),
            "depth_p": depth_p.tolist(),
            "leading": [name or None for name in scored.leading],
        }

    def find(self, numbers: range) -> None:
        """Find the incidents that the last rows of the store join.

        An alarm that was called normal stays in its incident, and is no evidence.
        """
        lines = self._store.execute(
            "SELECT name, number, rows, iif(answer = 1, 0.0, depth), "
            "iif(answer = 1, 1.0, rank_p), iif(answer = 1, 1.0, depth_p), "
            "alarm AND muted IS NULL, "
            "coalesce(leading, ''), coalesce(json_extract(reasons, '$[0]'), '') "
            "FROM task JOIN judged_row ON judged_row.task = name "
            "AND number >= coalesce(stretch, :first) "
            "WHERE name IN (SELECT task FROM judged_row WHERE number >= :first) "
            "AND (stretch IS NOT NULL OR name IN (SELECT task FROM judged_row "
            "WHERE number >= :first AND alarm AND muted IS NULL)) "
            "ORDER BY name, number",
            {"first": numbers.start},
        )
        seen = self._store.execute("SELECT first_row FROM task ORDER BY first_row")
        first_rows = [first for (first,) in seen]
        joined: list[Stretch] = []
        for name, of_task in groupby(lines, key=itemgetter(0)):
            with sound(self._store.path):
                rows = np.array([line[1:] for line in of_task], dtype=STREAM_ROW)
            # Until here the column held the number of rows of the task so far.
            rows["place"] += np.arange(-len(rows), 0)
            joined += self._follow(name, rows, numbers.start, first_rows)
        incidents = find_in_stretches(self._tasks, joined, self._rate)
        self._keep_incidents(joined, incidents)

    def _follow(
        self, name: str, rows: StreamRows, first: int, first_rows: Sequence[int]
    ) -> list[Stretch]:
        """Stretches of a task that have an alarm from row `first` on.

        The store keeps the beginning of the last one, if it may go on.
        """
        alarms = np.flatnonzero(rows["alarm"])
        goes_on = False
        joined = []
        if len(alarms):
            starts = starts_of(rows["place"][alarms], self._calm)
            for start, end in pairwise([*starts, len(alarms)]):
                last = rows["number"][alarms[end - 1]]
                if last >= first:
                    tasks = int(np.searchsorted(first_rows, last, "right"))
                    part = rows[alarms[start] : alarms[end - 1] + 1]
                    code = self._codes.get(name, MISSING)
                    joined.append(Stretch(name, code, part, tasks))
            begin = rows[alarms[starts[-1]]]
            next_place = rows["place"][-1] + 1
            goes_on = bool(
                next_place - rows["place"][alarms[-1]] <= self._calm
                and next_place - begin["place"] < HORIZON
            )
        self._store.execute(
            "UPDATE task SET stretch = ? WHERE name = ?",
            [int(begin["number"]) if goes_on else None, name],
        )
        return joined

    def _keep_incidents(
        self, stretches: Sequence[Stretch], incidents: Sequence[Incident]
    ) -> None:
        """Replace the stored incidents of stretches."""
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
            '"end" = excluded."end", by_chance = excluded.by_chance, '
            "stands_out = excluded.stands_out, worst_row = excluded.worst_row, "
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
    """Incidents as in the view ``incidents``, the least likely by chance first.

    Parameters
    ----------
    store : Store
    since : int
        Number of a row: only incidents of stretches with an alarm after it. Such an
        alarm may also regroup those before it.
    most : int
        Number of incidents; -1: all.
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
    """Incidents that stand out and that nobody has answered."""
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
