"""``manyone watch --notify``: every new incident reaches people once."""

import random
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from manyone.alerts import notify
from manyone.cli import main
from manyone.watch import outbox
from receivers import Receiver
from streams import WATCH, broken, calm_rows, in_time, query

SENT = "SELECT id FROM messages WHERE sent IS NOT NULL ORDER BY id"
OUTSTANDING = "SELECT id FROM incidents WHERE stands_out ORDER BY id"


@pytest.fixture
def receiver(monkeypatch):
    monkeypatch.setattr(notify, "TIMEOUT", 0.5)
    monkeypatch.setattr(notify, "_FIRST_PAUSE", 0.01)
    receiver = Receiver()
    monkeypatch.setenv("HOOK", receiver.address)
    yield receiver
    receiver.die()


def patience(monkeypatch, seconds):
    monkeypatch.setattr(
        "manyone.cli.watch.deliver",
        lambda store, send: outbox.deliver(store, send, seconds),
    )


def faults(*machines, calm=1):
    """Normal rows, then rows with broken machines, in the order of time."""
    fault = calm_rows(3)
    for machine in machines:
        fault = broken(fault, machine, "abcd", 20.0)
    return in_time(pl.concat([calm_rows(calm), fault]))


def later_rows(*machines):
    """Rows of the next month, a long calm and then faults."""
    rows = faults(*machines, calm=10)
    return rows.with_columns(pl.col("when").str.replace("2026", "2027"))


def tell(*more):
    return main([*WATCH, "--notify", "$HOOK", *more])


def test_every_incident_is_told_once(here, receiver, capsys):
    faults("pump 2", "pump 4").write_csv("today.csv")
    assert tell() == 0
    assert [(row,) for row in sorted(receiver.ids)] == query(OUTSTANDING)
    assert len(receiver.ids) >= 2
    told = {content["task"]: content for _, content in receiver.delivered}
    assert {"pump 2", "pump 4"} <= {*told}
    incident = query("SELECT * FROM incidents WHERE task = 'pump 2' AND stands_out")
    assert told["pump 2"]["reason"] in incident[0]
    assert "pump 2" in told["pump 2"]["text"]
    assert tell() == 0
    assert [(row,) for row in sorted(receiver.ids)] == query(OUTSTANDING)
    assert capsys.readouterr().err == ""


def test_a_calm_fleet_is_told_nothing(here, receiver):
    calm_rows(2).write_csv("today.csv")
    assert tell() == 0
    assert receiver.requests == 0 and query("SELECT * FROM messages") == []


def test_a_receiver_that_is_dead_gets_the_message_when_it_is_back(
    here, receiver, monkeypatch, capsys
):
    patience(monkeypatch, 0.5)
    faults("pump 2").write_csv("today.csv")
    receiver.die()
    begin = time.monotonic()
    assert tell() == 0
    assert time.monotonic() - begin < 10
    err = capsys.readouterr().err
    assert (
        "could not be delivered (it cannot be reached (ConnectionRefusedError))" in err
    )
    assert "tries again" in err and query(SENT) == []
    receiver.start()
    assert tell() == 0
    assert query(SENT) == query(OUTSTANDING) != []
    assert [(row,) for row in sorted(receiver.ids)] == query(OUTSTANDING)
    assert capsys.readouterr().err == ""


def test_a_receiver_that_refuses_half_loses_nothing(here, receiver):
    rng = random.Random(1)
    receiver.behaviour = lambda n: rng.choice([200, 500])
    faults("pump 1", "pump 2", "pump 3", "pump 4").write_csv("today.csv")
    assert tell() == 0
    assert [(row,) for row in sorted(receiver.ids)] == query(OUTSTANDING)
    assert len(receiver.ids) >= 4


def test_a_receiver_that_hangs_delays_no_row(here, receiver, monkeypatch):
    """All rows are judged and saved, and copied, before the first message is sent."""
    patience(monkeypatch, 1.0)
    monkeypatch.setattr("manyone.cli.watching._BATCH", 20)
    in_time(pl.concat([faults("pump 2"), calm_rows(3)])).write_csv("today.csv")
    rows = len(pl.read_csv("today.csv"))
    saved = []

    def hang(number):
        saved.append((query("SELECT count(*) FROM scores"), len(pl.read_csv("o.csv"))))
        return "hang"

    receiver.behaviour = hang
    begin = time.monotonic()
    assert tell("--out", "o.csv") == 0
    spent = time.monotonic() - begin
    assert {*map(str, saved)} == {str(([(rows,)], rows))}
    assert query(SENT) == [] and spent < 10


def test_messages_about_one_task_keep_a_distance(here, receiver, monkeypatch):
    """A second incident of a task waits for the end of the cool-down, and no longer."""
    faults("pump 2").write_csv("today.csv")
    assert tell("--cool-down", "30") == 0
    before = len(receiver.ids)
    later_rows("pump 2", "pump 4").write_csv("later.csv")
    later = [*WATCH[:2], "later.csv", *WATCH[3:], "--notify", "$HOOK"]
    assert main([*later, "--cool-down", "30"]) == 0
    told = {content["task"] for _, content in receiver.delivered[before:]}
    assert told == {"pump 4"}
    ((due,),) = query("SELECT DISTINCT due FROM messages WHERE sent IS NULL")
    wait = datetime.fromisoformat(due) - datetime.now(UTC)
    assert timedelta(minutes=28) < wait <= timedelta(minutes=30)
    with closing(sqlite3.connect("s")) as store, store:
        store.execute("UPDATE message SET due = made WHERE sent IS NULL")
    assert main(later) == 0
    assert query(SENT) == query("SELECT id FROM messages ORDER BY id")


def test_what_was_answered_while_it_waited_is_not_told(here, receiver):
    faults("pump 2").write_csv("today.csv")
    assert tell() == 0
    later_rows("pump 2").write_csv("later.csv")
    later = [*WATCH[:2], "later.csv", *WATCH[3:], "--notify", "$HOOK"]
    assert main(later) == 0
    waits = "SELECT id FROM messages WHERE sent IS NULL AND kind = 'incident'"
    waiting = query(waits)
    assert waiting
    alarms = query("SELECT id FROM alarms WHERE task = 'pump 2'")
    ids = [row_id for (row_id,) in alarms]
    pl.DataFrame({"id": ids, "answer": "fault"}).write_csv("answers.csv")
    assert main([*later, "--feedback", "answers.csv"]) == 0
    assert query(waits) == []
    assert not {row_id for (row_id,) in waiting} & {*receiver.ids}


def test_after_a_week_nobody_is_told_any_more(here, receiver, monkeypatch, capsys):
    patience(monkeypatch, 0.2)
    receiver.behaviour = lambda n: 500
    faults("pump 2").write_csv("today.csv")
    assert tell() == 0
    with closing(sqlite3.connect("s")) as store, store:
        store.execute("UPDATE message SET made = '2026-01-01T00:00:00Z'")
    receiver.behaviour = lambda n: 200
    capsys.readouterr()
    assert tell() == 0
    assert receiver.ids == [] and "for a week" in capsys.readouterr().err


def test_the_address_is_nowhere(here, receiver, monkeypatch, capsys):
    """Not in the store, not on the screen, whether messages arrive or not."""
    patience(monkeypatch, 0.2)
    faults("pump 2").write_csv("today.csv")
    address = receiver.address
    for what in (500, 200):
        receiver.behaviour = lambda n, what=what: what
        assert main([*WATCH, "--notify", address, "--json"]) == 0
    assert len(receiver.ids) >= 1
    out, err = capsys.readouterr()
    written = b"".join(path.read_bytes() for path in here.iterdir())
    for secret in ("very-secret", address.partition("/hook")[0]):
        assert secret not in out + err and secret.encode() not in written


def test_one_message_is_sent_to_try_it(here, receiver, capsys):
    assert tell("--notify-test") == 0
    ((_, content),) = receiver.delivered
    assert content["kind"] == "test" and "test" in content["text"]
    assert "delivered" in capsys.readouterr().out and not (here / "s").exists()
    receiver.behaviour = lambda n: 403
    assert tell("--notify-test") == 2
    err = capsys.readouterr().err
    assert "answered 403" in err and "very-secret" not in err


def test_addresses_that_cannot_be_used_are_refused(here, refused, monkeypatch):
    monkeypatch.delenv("HOOK", raising=False)
    refused([*WATCH, "--notify", "$HOOK"], "--notify", "no variable HOOK")
    said = refused([*WATCH, "--notify", "very-secret"], "--notify", "no address")
    assert "very-secret" not in said
    refused([*WATCH, "--notify-test"], "--notify URL")


def test_drift_that_stands_out_is_told(here, receiver):
    calm = calm_rows(4)
    moved = calm_rows(4).with_columns(
        pl.when(pl.col("machine") == "pump 2")
        .then(pl.col(name) + 9)
        .otherwise(name)
        .alias(name)
        for name in "abcd"
    )
    in_time(pl.concat([calm, moved])).write_csv("today.csv")
    assert tell() == 0
    kinds = {(c["task"], c["kind"]) for _, c in receiver.delivered}
    assert ("pump 2", "drift") in kinds


def test_a_machine_that_went_silent_is_told_once(here, receiver):
    calm = calm_rows(6)
    alive = calm.filter(
        (pl.col("machine") != "pump 2") | (pl.col("when") < "2026-03-01")
    )
    alive.write_csv("today.csv")
    for _ in range(2):
        assert tell() == 0
    silent = [c for _, c in receiver.delivered if c["kind"] == "silent"]
    assert [content["task"] for content in silent] == ["pump 2"]
    assert silent[0]["begin"].startswith("2026-02-28")


def test_a_damaged_message_is_one_line(here, receiver, capsys):
    faults("pump 2").write_csv("today.csv")
    assert main([*WATCH, "--notify", "$HOOK", "--notify-later"]) == 0
    assert receiver.requests == 0 and query("SELECT id FROM messages")
    with closing(sqlite3.connect("s")) as store, store:
        store.execute("UPDATE message SET content = 'nonsense'")
    capsys.readouterr()
    assert tell() == 2
    err = capsys.readouterr().err
    assert "s is damaged (Expecting value" in err and err.count("\n") == 1
