"""``manyone report --state``: the page says what ``manyone watch`` has said."""

import sqlite3
from contextlib import closing

import polars as pl
import pytest

import manyone
from manyone.cli import main
from manyone.watch.incidents import incidents_of
from manyone.watch.record import report_of_store
from manyone.watch.store import read_store
from streams import WATCH, broken, calm_rows, query

REPORT = ["report", "fleet.manyone", "--state", "s", "--out", "page.html"]


def watched(here):
    """A store with a fault, a drift and answers."""
    calm = calm_rows(2)
    fault = broken(calm_rows(5))
    pl.concat([calm, fault]).write_csv("today.csv")
    assert main(WATCH) == 0
    ids = [row_id for (row_id,) in query("SELECT id FROM alarms ORDER BY id LIMIT 3")]
    answers = pl.DataFrame({"id": ids, "answer": ["normal", "fault", "later"]})
    answers.write_csv("answers.csv")
    assert main([*WATCH, "--feedback", "answers.csv"]) == 0
    return dict(zip(ids, answers["answer"], strict=True))


def test_the_page_shows_what_the_store_holds(here):
    answers = watched(here)
    model = manyone.load("fleet.manyone")
    report = report_of_store(here / "s", model, "fleet.manyone")
    rows = report.findings.rows
    with read_store(here / "s") as store:
        lines = incidents_of(store)
    shown = [(rows.ids[min(i.alarms)], i.by_chance) for i in report.findings.incidents]
    assert shown == [(line["id"], line["by_chance"]) for line in lines]
    counts = [(len(i.alarms), i.rows, i.worst_row) for i in report.findings.incidents]
    assert counts == [
        (line["alarms"], line["rows"], line["worst_row"]) for line in lines
    ]
    said = {
        row_id: word
        for row_id, word in zip(rows.ids, rows.answers, strict=True)
        if word
    }
    assert said == answers
    scores = query("SELECT id, score, p_value, alarm FROM scores ORDER BY row")
    assert [*zip(rows.ids, rows.score, rows.p_value, rows.alarm, strict=True)] == scores
    drifting = query("SELECT task FROM tasks WHERE drift_flagged IS NOT NULL")
    assert {flag.text.split(" drifts")[0] for flag in report.drift} == {
        task for (task,) in drifting
    }
    assert "pump 2" in {task for (task,) in drifting}
    begin = rows.time.min()
    end = rows.time.max()
    assert all(begin <= flag.time <= end for flag in report.drift)
    assert rows.dated


def test_one_page_for_a_store_and_for_a_file_of_it(here, refused, capsys):
    refused(REPORT, "s is not there", "manyone watch")
    watched(here)
    assert main(REPORT) == 0
    page = (here / "page.html").read_text()
    assert "incident 2" in page or "incident" in page
    assert "stands out among 6 tasks" in page or "stand out among 6 tasks" in page
    calm_rows()[:12].write_csv("more.csv")
    assert main([*WATCH[:2], "more.csv", *WATCH[3:]]) == 0
    assert main([*REPORT[:2], "more.csv", *REPORT[2:]]) == 0
    page = (here / "page.html").read_text()
    assert "12 rows" in page and "more.csv" in page
    refused([*REPORT[:2], "events.csv", *REPORT[2:]], "s has no rows of events.csv")
    refused([*REPORT, "--sql", "SELECT 1"], "--state and --sql")
    refused([*REPORT[:2], "--state", "today.csv"], "not a store of manyone watch")
    refused([*REPORT[:4], "--out", "s"], "Name another file")


def test_a_store_of_another_model_is_refused(here, capsys):
    watched(here)
    pl.read_csv("events.csv")[::2].write_csv("fewer.csv")
    fit = ["fit", "fewer.csv", "--task", "machine", "--no-tune", "--anomalies"]
    assert main([*fit, "faults", "--out", "other.manyone"]) == 0
    capsys.readouterr()
    assert main(["report", "other.manyone", *REPORT[2:]]) == 2
    err = capsys.readouterr().err
    assert err.startswith("manyone: s: The state belongs to another model")
    assert err.count("\n") == 1 and not (here / "page.html").exists()


def test_tasks_never_seen_are_on_the_page(here):
    table = calm_rows().with_columns(machine="machine" + pl.lit(""))
    odd = table[:6].with_columns(machine=pl.lit("pump 99"), a=pl.lit(900.0))
    pl.concat([table, odd]).write_csv("today.csv")
    assert main(WATCH) == 0
    assert main(REPORT) == 0
    assert "pump 99" in (here / "page.html").read_text()


@pytest.mark.parametrize("change", ["reasons = '{'", "incident = 'x'", "task = 'x'"])
def test_a_forged_store_is_one_line(here, change, capsys):
    watched(here)
    with closing(sqlite3.connect("s")) as connection, connection:
        connection.execute(f"UPDATE judged_row SET {change} WHERE alarm")
    capsys.readouterr()
    assert main(REPORT) in (0, 2)
    assert "mistake in manyone" not in capsys.readouterr().err


def test_answered_incidents_leave_the_headline(here):
    watched(here)
    model = manyone.load("fleet.manyone")
    before = report_of_store(here / "s", model, "fleet.manyone").findings
    assert len(before.outstanding) > 0 and before.stands_out
    ids = [row_id for (row_id,) in query("SELECT id FROM alarms WHERE muted IS NULL")]
    pl.DataFrame({"id": ids, "answer": "fault"}).write_csv("answers.csv")
    assert main([*WATCH, "--feedback", "answers.csv"]) == 0
    after = report_of_store(here / "s", model, "fleet.manyone").findings
    assert len(after.incidents) == len(before.incidents)
    assert after.outstanding == () and not after.stands_out
    assert {incident.answer for incident in after.incidents} == {"fault"}
    assert main(REPORT) == 0
    page = (here / "page.html").read_text()
    assert "Every incident that stands out is answered" in page
    assert "stands out among" not in page and "stand out among" not in page
    assert f"{len(ids)} answered" in page
    assert "Answered alarms do not count here." in page
