"""Messages that wait in a store until they are delivered.

A message is written in the transaction that finds its incident. It is sent when all
rows have been judged, and then noted as sent. So a kill loses no message. After a kill
between sending and noting, a message is sent again under the same id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from manyone.alerts.notify import PATIENCE, Message, Send, send_all
from manyone.messages import label_text, plural
from manyone.watch.database import sound
from manyone.watch.store import Line, Store, as_text, now_text

#: A message that waits for longer is not sent any more.
GIVE_UP = timedelta(days=7)
#: Content of a message, as JSON has it. Its ``id`` is the same whenever it is found
#: again, so it is sent once. Messages about one ``task`` keep a distance in time.
Notice = dict[str, object]


class Unsent(NamedTuple):
    """Numbers of messages that wait and that expired; the problem of the last try."""

    waiting: int
    expired: int
    problem: str


def write_messages(
    store: Store, notices: Iterable[Notice], cool_down: timedelta
) -> None:
    """Write a message for every new notice.

    If the last message about a task is younger than the cool-down, the next ones wait
    until it is not. Messages of one transaction are sent together.
    """
    now = datetime.now(UTC)
    due: dict[object, str] = {}
    for notice in notices:
        task = notice["task"]
        if task not in due:
            due[task] = as_text(_due(store, task, now, cool_down))
        content = json.dumps(notice | {"state": store.path.name})
        store.execute(
            "INSERT OR IGNORE INTO message (id, task, content, made, due) "
            "VALUES (?, ?, ?, ?, ?)",
            [notice["id"], task, content, as_text(now), due[task]],
        )


def _due(store: Store, task: object, now: datetime, cool_down: timedelta) -> datetime:
    """When the next message about a task may be sent."""
    (last,) = store.execute(
        "SELECT max(due) FROM message WHERE task = ?", [task]
    ).fetchone()
    if last is None:
        return now
    before = datetime.fromisoformat(last)
    return before if before > now else max(now, before + cool_down)


def deliver(store: Store, send: Send, seconds: float = PATIENCE) -> None:
    """Send waiting messages for at most so many seconds, and commit each outcome."""
    _withdraw(store)
    store.commit()
    for number, problem in send_all(send, _waiting(store), seconds):
        store.execute(
            "UPDATE message SET tries = tries + 1, problem = ?, sent = ? "
            "WHERE number = ?",
            [problem, None if problem else now_text(), number],
        )
        store.commit()


def _withdraw(store: Store) -> None:
    """Delete messages that wait for their time and are not needed any more.

    Somebody has answered their incident, its alarms have joined another one, or it does
    not stand out any more.
    """
    store.execute(
        "DELETE FROM message WHERE tries = 0 AND due > ? AND "
        "json_extract(content, '$.kind') = 'incident' AND "
        "NOT EXISTS (SELECT 1 FROM incidents WHERE incidents.id = message.id "
        "AND incidents.stands_out AND incidents.answer IS NULL)",
        [now_text()],
    )


def _waiting(store: Store) -> list[Message]:
    """Messages that are due, the oldest first."""
    cursor = store.execute(
        "SELECT number, content FROM message WHERE sent IS NULL "
        "AND due <= ? AND made >= ? ORDER BY number",
        [now_text(), as_text(datetime.now(UTC) - GIVE_UP)],
    )
    with sound(store.path):
        return [Message(number, json.loads(content)) for number, content in cursor]


def unsent_messages(store: Store) -> Unsent:
    """Messages that were tried and not delivered."""
    oldest = as_text(datetime.now(UTC) - GIVE_UP)
    tried = "FROM message WHERE sent IS NULL AND tries > 0"
    waiting, expired = store.execute(
        f"SELECT count(*) FILTER (WHERE made >= :oldest), "
        f"count(*) FILTER (WHERE made < :oldest) {tried}",
        {"oldest": oldest},
    ).fetchone()
    last = store.execute(
        f"SELECT problem {tried} ORDER BY number DESC LIMIT 1"
    ).fetchone()
    return Unsent(waiting, expired, "" if last is None else str(last[0]))


def incident_notice(incident: Line) -> Notice:
    """Content of a message about an incident, a line of the view ``incidents``."""
    fields = ("column", "alarms", "rows", "begin", "end", "by_chance", "worst_row")
    task = label_text(incident["task"])
    alarms = plural(incident["alarms"], "alarm")
    times = f"{incident['begin']} to {incident['end']}"
    if incident["begin"] == incident["end"]:
        times = str(incident["begin"])
    reason = incident["reason"] or "no single column explains it"
    return {
        "id": incident["id"],
        "kind": "incident",
        "text": f"{task}: {alarms}, {times}: {reason}",
        "task": task,
        **{name: incident[name] for name in (*fields, "reason")},
    }


def drift_notice(task: str, since: str, rows: int) -> Notice:
    """Content of a message about a task that drifts, by the rows of the store then."""
    text = f"{task}: its rows have changed since {since}"
    return _task_notice("drift", task, since, text, str(rows))


def silent_notice(task: str, latest: str) -> Notice:
    """Content of a message about a task whose last row came too long ago."""
    text = f"{task}: no row since {latest}, longer than its usual gaps"
    return _task_notice("silent", task, latest, text, latest)


def _task_notice(kind: str, task: str, begin: str, text: str, moment: str) -> Notice:
    notice_id = f"{kind} {task} {moment}"
    return {"id": notice_id, "kind": kind, "text": text, "task": task, "begin": begin}
