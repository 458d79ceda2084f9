"""Messages that wait in a store until somebody has got them.

A message is written in the transaction that finds its incident, sent after the commit,
and then noted as sent. So a kill loses none. One that falls between sending and noting
lets a message be sent again, under the same id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from manyone.alerts.notify import PATIENCE, Channel, Message, Sender
from manyone.messages import label_text, plural
from manyone.watch.database import sound
from manyone.watch.monitor import Monitor
from manyone.watch.store import Line, Store, as_text

#: After so long nobody is told any more.
GIVE_UP = timedelta(days=7)


class Notice(NamedTuple):
    """Something that people should hear of once.

    Attributes
    ----------
    task : str
        Messages about a task keep a distance in time.
    content : dict
        For the message, as JSON has it. Its ``id`` is the same whenever it is found again.
    """

    task: str
    content: dict[str, object]


class Unsent(NamedTuple):
    """Messages that wait, and those that were given up; the problem of the last try."""

    waiting: int
    given_up: int
    problem: str


class Messenger:
    """The messages of a store: written inside its transactions, sent between them.

    Parameters
    ----------
    store : Store
    channel : Channel or None
        None: messages are written, and another command sends them.
    cool_down : timedelta
        Between messages about one task.
    """

    def __init__(
        self, store: Store, channel: Channel | None, cool_down: timedelta
    ) -> None:
        self._store = store
        self._sender = None if channel is None else Sender(channel)
        self._cool_down = cool_down
        self._found: list[Notice] = []

    def announce(self, notices: Iterable[Notice]) -> None:
        """Tell of something that was found in this transaction."""
        self._found += notices

    def _write(self) -> None:
        """Make a message of every notice that is new.

        Where the last message about a task is younger than the cool-down, further ones
        wait until it is not. Those of one transaction are sent together.
        """
        by_task: dict[str, list[Notice]] = {}
        for notice in self._found:
            by_task.setdefault(notice.task, []).append(notice)
        self._found = []
        now = datetime.now(UTC)
        for task, of_task in by_task.items():
            due = as_text(self._due(task, now))
            contents = [n.content | {"state": self._store.path.name} for n in of_task]
            self._store.execute_many(
                "INSERT OR IGNORE INTO message (id, task, content, made, due) "
                "VALUES (?, ?, ?, ?, ?)",
                [
                    (content["id"], task, json.dumps(content), as_text(now), due)
                    for content in contents
                ],
            )

    def _due(self, task: str, now: datetime) -> datetime:
        """When the next message about a task may be sent."""
        (last,) = self._store.execute(
            "SELECT max(due) FROM message WHERE task = ?", (task,)
        ).fetchone()
        if last is None:
            return now
        before = datetime.fromisoformat(last)
        return before if before > now else max(now, before + self._cool_down)

    def commit(self, monitor: Monitor | None) -> None:
        """Commit the store with the messages so far, and send those that are due."""
        self._write()
        self._note_outcomes()
        self._withdraw()
        self._store.commit(monitor)
        if self._sender is not None:
            self._sender.offer(self._waiting())

    def finish(self, seconds: float = PATIENCE) -> None:
        """Wait for what is on its way, see `Sender.finish`, and commit what became of it."""
        if self._sender is not None:
            self._sender.finish(seconds)
            self._note_outcomes()
        self._store.commit(None)

    def _withdraw(self) -> None:
        """Take back messages that wait for their time and have become needless.

        Somebody has answered the incident, or its alarms have joined another one.
        """
        self._store.execute(
            "DELETE FROM message WHERE tries = 0 AND due > ? AND "
            "json_extract(content, '$.kind') = 'incident' AND "
            "NOT EXISTS (SELECT 1 FROM incidents WHERE incidents.id = message.id "
            "AND incidents.answer IS NULL)",
            (as_text(datetime.now(UTC)),),
        )

    def _waiting(self) -> list[Message]:
        """Messages that are to be sent now, the oldest first."""
        now = datetime.now(UTC)
        cursor = self._store.execute(
            "SELECT number, content FROM message WHERE sent IS NULL "
            "AND due <= ? AND made >= ? ORDER BY number",
            (as_text(now), as_text(now - GIVE_UP)),
        )
        with sound(self._store.path):
            return [Message(number, json.loads(content)) for number, content in cursor]

    def _note_outcomes(self) -> None:
        """Keep how tries have ended."""
        if self._sender is None:
            return
        now = as_text(datetime.now(UTC))
        self._store.execute_many(
            "UPDATE message SET tries = tries + 1, problem = ?, "
            "sent = coalesce(sent, ?) WHERE number = ?",
            [
                (outcome.problem, None if outcome.problem else now, outcome.number)
                for outcome in self._sender.outcomes()
            ],
        )


def unsent_messages(store: Store) -> Unsent:
    """What has been tried and not been delivered."""
    oldest = as_text(datetime.now(UTC) - GIVE_UP)
    tried = "FROM message WHERE sent IS NULL AND tries > 0"
    waiting, given_up = store.execute(
        f"SELECT count(*) FILTER (WHERE made >= :oldest), "
        f"count(*) FILTER (WHERE made < :oldest) {tried}",
        {"oldest": oldest},
    ).fetchone()
    last = store.execute(
        f"SELECT problem {tried} ORDER BY number DESC LIMIT 1"
    ).fetchone()
    return Unsent(waiting, given_up, "" if last is None else str(last[0]))


def deliver(store: Store, channel: Channel) -> None:
    """Send what waits in a store."""
    messenger = Messenger(store, channel, timedelta(0))
    messenger.commit(None)
    messenger.finish()


def incident_notice(incident: Line) -> Notice:
    """What to tell of an incident, a line of the view ``incidents``."""
    told = ("task", "column", "alarms", "rows", "begin", "end", "by_chance")
    task = label_text(incident["task"])
    alarms = plural(incident["alarms"], "alarm")
    times = f"{incident['begin']} to {incident['end']}"
    if incident["begin"] == incident["end"]:
        times = str(incident["begin"])
    reason = incident["reason"] or "no single column explains it"
    content = {
        "id": incident["id"],
        "kind": "incident",
        "text": f"{task}: {alarms}, {times}: {reason}",
        **{name: incident[name] for name in (*told, "worst_row", "reason")},
    }
    return Notice(task, content)


def drift_notice(task: str, since: str, rows: int) -> Notice:
    """What to tell of a task that drifts, found when the store had so many rows."""
    text = f"{task}: its rows have changed since {since}"
    return _task_notice("drift", task, since, text, str(rows))


def silent_notice(task: str, latest: str) -> Notice:
    """What to tell of a task whose last row came too long ago."""
    text = f"{task}: no row since {latest}, longer than its usual gaps"
    return _task_notice("silent", task, latest, text, latest)


def _task_notice(kind: str, task: str, begin: str, text: str, moment: str) -> Notice:
    notice_id = f"{kind} {task} {moment}"
    content = {"id": notice_id, "kind": kind, "text": text, "task": task}
    return Notice(task, {**content, "begin": begin})
