"""``manyone watch --mute``: alarms that are stored, marked, and count for nothing."""

import json

import polars as pl

import manyone
from manyone.cli import main
from manyone.watch.record import report_of_store
from streams import WATCH, broken, calm_rows, query


def faulty():
    """Calm rows, then pump 2 is broken from 23 February on."""
    calm = calm_rows(2)
    later = pl.col("when") >= "2026-02-23"
    return pl.concat([calm.filter(~later), broken(calm).filter(later)])


def watch(capsys, *options, state="s"):
    capsys.readouterr()
    code = main([*WATCH[:4], state, "--json", "--exit-code", *options])
    return code, json.loads(capsys.readouterr().out)


def test_a_muted_entity_counts_for_nothing(here, capsys):
    faulty().write_csv("today.csv")
    code, plain = watch(capsys, state="t")
    assert code == 3 and plain["muted"] == 0
    (here / "mute.csv").write_text("entity,until,why\npump 2,,worn out\n")
    code, muted = watch(capsys, "--mute", "mute.csv")
    assert code == 0 and not muted["stands_out"]
    assert muted["muted"] > 15 and muted["alarms"] + muted["muted"] == plain["alarms"]
    assert not any(line["task"] == "pump 2" for line in muted["incidents"])
    # Scores and alarms are the same; muted ones are marked.
    same = "SELECT id, score, p_value, alarm FROM judged_row"
    assert query(same) == query(same, "t")
    marked = query("SELECT task, muted, incident FROM alarms WHERE muted IS NOT NULL")
    assert len(marked) == muted["muted"]
    assert set(marked) == {("pump 2", "worn out", None)}
    others = "SELECT id, alarms, by_chance FROM incident WHERE task <> 'pump 2'"
    assert query(others) == query(others, "t")


def test_windows_of_maintenance_begin_and_end(here, capsys):
    faulty().write_csv("today.csv")
    (here / "mute.csv").write_text(
        "entity,from,until,why\n,2026-02-23,2026-03-01 00:00,maintenance\n"
    )
    _, summary = watch(capsys, "--mute", "mute.csv")
    assert summary["muted"] > 0
    times = query("SELECT min(time), max(time) FROM alarms WHERE muted = 'maintenance'")
    (first, last) = times[0]
    assert first >= "2026-02-23" and last < "2026-03-01"
    inside = "time >= '2026-02-23' AND time < '2026-03-01'"
    assert query(f"SELECT count(*) FROM alarms WHERE muted IS NULL AND {inside}") == [
        (0,)
    ]
    after = query(
        "SELECT min([begin]) FROM incidents WHERE task = 'pump 2' AND stands_out"
    )
    assert after[0][0] >= "2026-03-01"


def test_mutes_stay_until_another_table_replaces_them(here, capsys):
    table = faulty()
    table[:140].write_csv("today.csv")
    (here / "mute.csv").write_text("entity,why\npump 2,\n")
    assert watch(capsys, "--mute", "mute.csv")[0] == 0
    table[:200].write_csv("today.csv")
    code, summary = watch(capsys)
    assert code == 0 and summary["muted"] > 0
    (here / "mute.csv").write_text("entity,why\n")
    table.write_csv("today.csv")
    code, summary = watch(capsys, "--mute", "mute.csv")
    assert code == 3 and summary["muted"] == 0


def test_a_muted_entity_that_is_silent_is_not_told(here, capsys):
    gone = (pl.col("machine") == "pump 4") & (pl.col("when") > "2026-03-01")
    pl.concat([calm_rows(4)]).filter(~gone).write_csv("today.csv")
    assert watch(capsys, state="t")[1]["newly_silent"] == ["pump 4"]
    (here / "mute.csv").write_text("entity\npump 4\n")
    assert watch(capsys, "--mute", "mute.csv")[1]["silent"] == []


def test_muted_alarms_are_said_and_shown(here, capsys):
    faulty().write_csv("today.csv")
    (here / "mute.csv").write_text("entity,why\npump 2,worn out\n")
    assert main([*WATCH, "--mute", "mute.csv"]) == 0
    assert "alarms more, muted" in capsys.readouterr().out
    report = report_of_store(here / "s", manyone.load("fleet.manyone"), "fleet.manyone")
    rows = report.findings.rows
    muted = [
        place for place, note in enumerate(rows.notes) if note == "muted: worn out"
    ]
    assert len(muted) > 15 and not rows.alarm[muted].any()
    assert all(rows.reasons[place] for place in muted)


def test_bad_tables_are_refused(here, refused, capsys):
    (here / "mute.csv").write_text("name,until\npump 2,\n")
    refused([*WATCH, "--mute", "mute.csv"], "--mute mute.csv", "no column entity")
    (here / "mute.csv").write_text(
        "entity,from,until\npump 1,,\npump 2,2026-01-02,2026-01-02\n"
    )
    refused([*WATCH, "--mute", "mute.csv"], "mute.csv: row 1: until is not after from")
    (here / "mute.csv").write_text("entity,until\npump 2,soon\n")
    refused([*WATCH, "--mute", "mute.csv"], "mute.csv: row 0: 'soon'", "no time")
    (here / "mute.csv").write_text("entity\npump 99\n")
    assert main([*WATCH, "--mute", "mute.csv"]) == 0
    assert "does not know 'pump 99'" in capsys.readouterr().err
