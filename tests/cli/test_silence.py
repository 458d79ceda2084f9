"""``manyone watch`` says which tasks went silent."""

import json

import polars as pl
import pytest

from manyone.cli import main
from streams import WATCH, calm_rows, query


def hourly(hours, first=0):
    """A row of every machine at every full hour."""
    machines = [f"pump {number}" for number in range(6)]
    values = pl.read_csv("events.csv").select("a", "b", "c", "d")
    when = pl.datetime(2026, 3, 1) + pl.duration(hours="hour")
    rows = [
        (machine, hour) for hour in range(first, first + hours) for machine in machines
    ]
    table = pl.DataFrame(rows, schema=["machine", "hour"], orient="row")
    means = pl.read_csv("events.csv").group_by("machine").agg(pl.mean(*values.columns))
    table = table.join(means, on="machine", maintain_order="left")
    return table.with_columns(when=when.dt.strftime("%Y-%m-%d %H:%M"))


def watch(table, capsys, *options):
    table.drop("hour").write_csv("today.csv")
    capsys.readouterr()
    assert main([*WATCH, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_machine_that_stops_is_told_until_it_comes_back(here, capsys):
    quiet = watch(hourly(60), capsys)
    assert quiet["silent"] == [] and quiet["newly_silent"] == []
    dead = pl.col("machine") == "pump 4"
    # One hour late is not yet silent, three hours are.
    more = hourly(4, 60).filter(~dead)
    found = watch(more, capsys)
    assert [one["task"] for one in found["silent"]] == ["pump 4"]
    assert found["newly_silent"] == ["pump 4"]
    assert found["silent"][0]["latest"] == "2026-03-03 11:00"
    assert found["silent"][0]["p_value"] <= 0.01
    assert query("SELECT task FROM tasks WHERE silent IS NOT NULL") == [("pump 4",)]
    again = watch(hourly(2, 64).filter(~dead), capsys)
    assert [one["task"] for one in again["silent"]] == ["pump 4"]
    assert again["newly_silent"] == []
    back = watch(hourly(2, 66), capsys)
    assert back["silent"] == []
    assert query("SELECT count(*) FROM tasks WHERE silent IS NOT NULL") == [(0,)]


def test_it_is_said_to_people_on_the_page_and_to_prometheus(here, capsys):
    dead = pl.col("machine") == "pump 4"
    table = pl.concat([hourly(60), hourly(5, 60).filter(~dead)]).drop("hour")
    table.write_csv("today.csv")
    assert main([*WATCH, "--metrics", "m.prom"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Silent for longer than usual" in out and "pump 4" in out
    assert "manyone_silent_tasks 1" in (here / "m.prom").read_text()
    report = ["report", "fleet.manyone", "--state", "s", "--out", "page.html"]
    assert main(report) == 0
    page = (here / "page.html").read_text()
    assert "pump 4 (last row 2026-03-03 11:00)" in page and "still sends rows" in page


def test_the_level_is_asked_for(here, capsys, refused):
    refused([*WATCH, "--silence-level", "1"], "--silence-level 1", "between 0 and 1")
    table = hourly(30)
    late = hourly(5, 30).filter(pl.col("machine") != "pump 4")
    assert watch(pl.concat([table, late]), capsys)["newly_silent"] == ["pump 4"]
    watch(table, capsys, "--state", "t")
    # Six tasks of thirty gaps cannot say one in ten thousand.
    strict = watch(late, capsys, "--state", "t", "--silence-level", "0.0001")
    assert strict["silent"] == []


@pytest.mark.parametrize("cut", [7, 50])
def test_gaps_do_not_depend_on_batches(here, capsys, monkeypatch, cut):
    table = pl.concat([hourly(20), hourly(3, 24), hourly(1, 23), hourly(2, 30)])
    watch(table, capsys)
    wanted = query("SELECT name, hex(gaps) FROM task ORDER BY name")
    assert len(wanted) == 6
    monkeypatch.setattr("manyone.cli.watching._BATCH", cut)
    watch(table, capsys, "--state", "t")
    assert query("SELECT name, hex(gaps) FROM task ORDER BY name", "t") == wanted


def test_without_times_nothing_is_silent(here, capsys):
    fit = ["fit", "events.csv", "--task", "machine", "--ignore", "when", "--no-tune"]
    assert main([*fit, "--anomalies", "faults", "--out", "fleet.manyone"]) == 0
    calm_rows().write_csv("today.csv")
    capsys.readouterr()
    assert main([*WATCH, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["silent"] == []
