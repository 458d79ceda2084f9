"""Messages that wait in a store until somebody has got them.

A message is written in the transaction that finds its incident, sent after the commit,
and then noted as sent. So a kill loses none. One that falls between sending and noting
lets a message be sent again, under the same id.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from manyone.alerts.notify import PATIENCE, Channel, Message, Outcome, Sender
from manyone.messages import label_text, plural
from manyone.watch.store import Line, Store, as_text

#: After so long nobody is told any more.
GIVE_UP = timedelta(days=7)


class Notice(NamedTuple):
    """Something that people should hear of once.

    Attributes
    ----------
    id : str
        The same whenever it is found again.
    task : str
        Messages about a task keep a distance in time.
    content : dict
        For the message, as JSON has it.
    """

    id: str
    task: str
    content: dict[str, object]


class Unsent(NamedTuple):
    """Messages that wait, and those that were given up; the problem of the last try."""

    waiting: int
    given_up: int
    problem: str


class Outbox:
    """The messages of a store, inside its transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def announce(self, notices: Iterable[Notice], cool_down: timedelta) -> None:
        """Make a message of every notice that is new.

        Where the last message about a task is younger than `cool_down`, further ones
        wait until it is not.
        """
        by_task: dict[str, list[Notice]] = {}
        for notice in notices:
            if not self._is_announced(notice.id):
                by_task.setdefault(notice.task, []).append(notice)
        now = datetime.now(UTC)
        for task, new in by_task.items():
            due = as_text(self._due(task, cool_down, now))
            self._store.execute_many(
                "INSERT OR IGNORE INTO message (id, task, content, made, due) "
                "VALUES (?, ?, ?, ?, ?)",
                [
                    (notice.id, task, json.dumps(notice.content), as_text(now), due)
                    for notice in new
                ],
            )

    def _is_announced(self, notice_id: str) -> bool:
        found = self._store.execute("SELECT 1 FROM message WHERE id = ?", (notice_id,))
        return found.fetchone() is not None

    def _due(self, task: str, cool_down: timedelta, now: datetime) -> datetime:
        """When the next message about a task may be sent."""
        (last,) = self._store.execute(
            "SELECT max(due) FROM message WHERE task = ?", (task,)
        ).fetchone()
        if last is None:
            return now
        before = datetime.fromisoformat(last)
        return before if before > now else max(now, before + cool_down)

    def withdraw(self) -> None:
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

    def due(self) -> list[Message]:
        """Messages that are to be sent now, the oldest first."""
        now = datetime.now(UTC)
        cursor = self._store.execute(
            "SELECT number, content FROM message WHERE sent IS NULL "
            "AND due <= ? AND made >= ? ORDER BY number",
            (as_text(now), as_text(now - GIVE_UP)),
        )
        try:
            return [Message(number, json.loads(content)) for number, content in cursor]
        except ValueError as error:
            raise sqlite3.DatabaseError("a message is no JSON") from error

    def note(self, outcomes: Iterable[Outcome]) -> None:
        """Keep how tries have ended."""
        now = as_text(datetime.now(UTC))
        self._store.execute_many(
            "UPDATE message SET tries = tries + 1, problem = ?, "
            "sent = coalesce(sent, ?) WHERE number = ?",
            [
                (outcome.problem, None if outcome.problem else now, outcome.number)
                for outcome in outcomes
            ],
        )

    def unsent(self) -> Unsent:
        """What has been tried and not been delivered."""
        oldest = as_text(datetime.now(UTC) - GIVE_UP)
        tried = "FROM message WHERE sent IS NULL AND tries > 0"
        waiting, given_up = self._store.execute(
            f"SELECT count(*) FILTER (WHERE made >= :oldest), "
            f"count(*) FILTER (WHERE made < :oldest) {tried}",
            {"oldest": oldest},
        ).fetchone()
        last = self._store.execute(
            f"SELECT problem {tried} ORDER BY number DESC LIMIT 1"
        ).fetchone()
        return Unsent(waiting, given_up, "" if last is None else str(last[0]))


class Messenger:
    """Makes messages of what is found, and sends them between transactions.

    Parameters
    ----------
    outbox : Outbox
    channel : Channel or None
        None: messages are written, and another command sends them.
    cool_down : timedelta
        Between messages about one task.
    source : str
        Name of the store, for receivers of several.
    """

    def __init__(
        self, outbox: Outbox, channel: Channel | None, cool_down: timedelta, source: str
    ) -> None:
        self._outbox = outbox
        self._sender = None if channel is None else Sender(channel)
        self._cool_down = cool_down
        self._source = source
        self._found: list[Notice] = []

    def announce(self, notices: Iterable[Notice]) -> None:
        """Tell of something that was found in this transaction."""
        for notice in notices:
            content = notice.content | {"state": self._source}
            self._found.append(notice._replace(content=content))

    def before_commit(self) -> None:
        """Write messages, and how tries have ended."""
        self._outbox.announce(self._found, self._cool_down)
        self._found = []
        if self._sender is not None:
            self._outbox.note(self._sender.outcomes())
        self._outbox.withdraw()

    def after_commit(self) -> None:
        """Send what is due."""
        if self._sender is not None:
            self._sender.offer(self._outbox.due())

    def finish(self, seconds: float = PATIENCE) -> None:
        """Wait for what is on its way; see `Sender.finish`."""
        if self._sender is not None:
            self._sender.finish(seconds)
            self._outbox.note(self._sender.outcomes())


def deliver(store: Store, channel: Channel) -> None:
    """Send what waits in a store."""
    messenger = Messenger(Outbox(store), channel, timedelta(0), store.path.name)
    messenger.before_commit()
    store.commit(None)
    messenger.after_commit()
    messenger.finish()
    store.commit(None)


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
    return Notice(incident["id"], task, content)


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
    return Notice(notice_id, task, {**content, "begin": begin})
