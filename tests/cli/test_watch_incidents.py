"""Incidents of ``manyone watch``: found as rows come, kept in the store."""

import json

import numpy as np
import polars as pl
import pytest

import manyone
from manyone.cli import main
from manyone.cli.watch_words import show
from manyone.watch.record import report_of_store
from manyone.watch.stretches import HORIZON, starts_of
from streams import WATCH, broken, calm_rows, query

KEPT = "id, stretch, task, [column], alarms, rows, [begin], [end], worst_row, reason"


@pytest.mark.parametrize("cut", [1, 7, 50])
def test_incidents_do_not_depend_on_batches(here, monkeypatch, cut):
    table = pl.concat([calm_rows(2), broken(calm_rows()), calm_rows()])
    table = table.with_row_index("reading")
    table.write_csv("today.csv")
    args = ["--id", "reading"]
    assert main([*WATCH, *args]) == 0
    wanted = query(f"SELECT {KEPT} FROM incident ORDER BY id")
    assert any(line[4] > 5 for line in wanted)
    monkeypatch.setattr("manyone.cli.watching._BATCH", cut)
    table[: len(table) // 3].write_csv("part.csv")
    for number in (1, 2, 3):
        table[: number * len(table) // 3].write_csv("part.csv")
        assert main(["watch", "fleet.manyone", "part.csv", "--state", "t", *args]) == 0
    assert query(f"SELECT {KEPT} FROM incident ORDER BY id", "t") == wanted
    alarms = "SELECT id, incident FROM judged_row WHERE alarm ORDER BY number"
    assert query(alarms, "t") == query(alarms)
    stretches = "SELECT name, stretch FROM task ORDER BY name"
    assert query(stretches, "t") == query(stretches)
    chance = "SELECT by_chance, stands_out FROM incident ORDER BY id"
    assert query(chance, "t") == query(chance)


def test_every_alarm_is_in_the_incident_that_says_so(here):
    calm = calm_rows(2)
    pl.concat([calm, broken(calm), calm]).write_csv("today.csv")
    assert main(WATCH) == 0
    assert query("SELECT count(*) FROM alarms WHERE incident IS NULL") == [(0,)]
    counted = query(
        "SELECT incidents.id, incidents.alarms, count(*), incidents.[begin], "
        "min(time), incidents.[end], max(time), min(incidents.task = alarms.task) "
        "FROM incidents JOIN alarms ON alarms.incident = incidents.id "
        "GROUP BY incidents.id"
    )
    assert len(counted) == len(query("SELECT id FROM incidents")) > 3
    for _, alarms, rows, begin, first, end, last, one_task in counted:
        assert (alarms, begin, end, one_task) == (rows, first, last, 1)
    worst = query(
        "SELECT min(score) = (SELECT score FROM scores WHERE id = worst_row) "
        "FROM incidents JOIN alarms ON alarms.incident = incidents.id "
        "GROUP BY incidents.id"
    )
    assert {value for (value,) in worst} == {1}


def test_an_incident_keeps_its_id_while_alarms_join_it(here, capsys):
    calm = calm_rows()
    fault = broken(calm).with_row_index("reading", offset=1000)
    half = len(fault) // 2
    calm.with_row_index("reading").write_csv("today.csv")
    args = ["--id", "reading", "--json", "--exit-code"]
    assert main([*WATCH, *args]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["incidents_standing_out"] == 0 and not summary["stands_out"]
    fault[:half].write_csv("today.csv")
    assert main([*WATCH, *args]) == 3
    first = json.loads(capsys.readouterr().out)["incidents"][0]
    fault.write_csv("today.csv")
    assert main([*WATCH, *args]) == 3
    summary = json.loads(capsys.readouterr().out)
    later = summary["incidents"][0]
    assert first["task"] == later["task"] == "pump 2" and "b" in first["column"]
    assert first["stands_out"] is later["stands_out"] is True
    assert first["id"] == later["id"] and first["begin"] == later["begin"]
    assert first["seen"] <= later["seen"] and first["alarms"] < later["alarms"]
    assert first["end"] < later["end"] and later["reason"].startswith("b = ")
    assert int(later["worst_row"]) >= 1000
    assert main([*WATCH, *args]) == 0  # nothing new
    assert json.loads(capsys.readouterr().out)["incidents"] == []


def test_without_times_incidents_begin_and_end_with_row_numbers(here):
    fit = ["fit", "events.csv", "--task", "machine", "--ignore", "when", "--no-tune"]
    assert main([*fit, "--anomalies", "faults", "--out", "fleet.manyone"]) == 0
    broken(calm_rows()).write_csv("today.csv")
    assert main(WATCH) == 0
    lines = query("SELECT [begin], [end], id, worst_row FROM incidents")
    for begin, end, row_id, worst in lines:
        assert begin == int(row_id) <= int(worst) <= end


def test_a_fault_that_does_not_end_is_told_again(here, monkeypatch):
    monkeypatch.setattr("manyone.watch.stretches.HORIZON", 30)
    pl.concat([calm_rows(), broken(calm_rows(4))]).write_csv("today.csv")
    assert main(WATCH) == 0
    incidents = query(
        "SELECT alarms, rows FROM incidents WHERE task = 'pump 2' AND stands_out"
    )
    assert len(incidents) >= 2
    assert max(alarms for alarms, _ in incidents) <= 30
    assert {rows for _, rows in incidents} <= {*range(31)}
    (followed,) = query(
        "SELECT count(*) FROM judged_row JOIN task ON name = judged_row.task "
        "WHERE name = 'pump 2' AND number >= stretch"
    )[0]
    assert followed < 30


def test_stretches_begin_after_a_calm_or_when_they_are_long():
    assert starts_of(np.array([0, 10, 20, 31, 41]), 10.0) == [0, 3]
    every_row = np.arange(3 * HORIZON)
    assert starts_of(every_row, 10.0) == [0, HORIZON, 2 * HORIZON]


def test_rows_called_normal_do_not_make_further_incidents(here, capsys):
    """A change that a person has called normal: later rows like it are no incident."""
    calm = calm_rows()
    moved = broken(calm_rows(3), columns="ab", by=2.5)
    moved.write_csv("more.csv")
    pl.concat([calm, moved]).write_csv("today.csv")
    assert main(WATCH) == 0
    ids = query("SELECT id FROM alarms WHERE task = 'pump 2'")
    pl.DataFrame({"id": [row_id for (row_id,) in ids], "answer": "normal"}).write_csv(
        "answers.csv"
    )
    assert main([*WATCH, "--feedback", "answers.csv"]) == 0
    assert query(
        "SELECT count(*) FROM incidents WHERE stands_out AND answer = 'normal'"
    ) != [(0,)]
    before = query("SELECT count(*) FROM scores")[0][0]
    capsys.readouterr()
    assert main([*WATCH[:2], "more.csv", *WATCH[3:], "--json"]) == 0
    later = json.loads(capsys.readouterr().out)["incidents"]
    assert query("SELECT count(*) FROM scores")[0][0] > before
    assert not any(line["task"] == "pump 2" and line["stands_out"] for line in later)


def test_alarms_of_answered_incidents_do_not_count(here, capsys):
    """While an answered fault goes on, it is neither an incident nor too many alarms."""
    fault = broken(calm_rows())
    fault[: len(fault) // 2].write_csv("today.csv")
    assert main([*WATCH, "--exit-code"]) == 3
    ((incident,),) = query("SELECT id FROM incidents WHERE stands_out")
    answer = pl.DataFrame({"incident": [incident], "answer": ["fault"]})
    answer.write_csv("answers.csv")
    fault.write_csv("today.csv")
    capsys.readouterr()
    assert main([*WATCH, "--feedback", "answers.csv", "--json", "--exit-code"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["alarms_by_task"]["pump 2"] > 8
    model = manyone.load("fleet.manyone")
    findings = report_of_store(here / "s", model, "fleet.manyone").findings
    assert not findings.stands_out and findings.open_alarms.sum() < 8
    show(summary)
    assert "No new incident stands out from chance." in capsys.readouterr().out
    show({**summary, "more_alarms_than_chance": True})
    words = "More alarms than chance explains, beside incidents that you have answered."
    assert words in capsys.readouterr().out


@pytest.mark.slow
def test_normal_rows_hardly_ever_stand_out(here):
    """Forty fleets of normal machines of unlike sizes, in five daily files each."""
    rng = np.random.default_rng(0)

    def rows(centre, counts):
        machine = np.repeat(np.arange(8), counts)
        values = centre[machine] + rng.standard_t(6, size=(len(machine), 4))
        columns = {name: values[:, k] for k, name in enumerate("abcd")}
        return pl.DataFrame({"machine": [f"m{k}" for k in machine], **columns})

    codes = []
    for draw in range(40):
        centre = rng.normal(size=(8, 4)) * 3
        sizes = np.array([15, 20, 25, 30, 40, 60, 80, 120])
        rows(centre, sizes).write_csv("events.csv")
        fit = ["fit", "events.csv", "--task", "machine", "--no-tune"]
        more = ["--anomalies", "faults", "--out", "fleet.manyone"]
        assert main([*fit, *more]) == 0
        for day in range(5):
            name = f"{draw}-{day}.csv"
            rows(centre, np.full(8, 24)).write_csv(name)
            args = ["watch", "fleet.manyone", name, "--state", f"s{draw}"]
            codes.append(main([*args, "--exit-code"]))
    assert codes.count(0) >= 195 and codes.count(0) + codes.count(3) == 200
