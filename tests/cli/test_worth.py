"""``--at-least`` and ``--direction`` of score and watch."""

import json

import polars as pl

from manyone.cli import main
from streams import WATCH, broken, calm_rows, query

SCORE = ["score", "fleet.manyone", "today.csv", "--out", "scores.csv"]


def both_ways():
    """A machine whose b is far too high, then far too low."""
    calm = calm_rows()
    return pl.concat([calm, broken(calm, by=9.0), broken(calm, by=-9.0)])


def test_score_and_watch_take_the_same_alarms_away(here, capsys):
    both_ways().write_csv("today.csv")
    assert main(SCORE) == 0
    plain = pl.read_csv("scores.csv")
    worth = ["--at-least", "b=4", "--direction", "b=down"]
    assert main([*SCORE, *worth, "--incidents", "incidents.csv"]) == 0
    asked = pl.read_csv("scores.csv")
    assert asked.drop("alarm").equals(plain.drop("alarm"))
    gone = plain["alarm"] & ~asked["alarm"]
    assert not (asked["alarm"] & ~plain["alarm"]).any()
    third = len(plain) // 3
    is_pump = plain["task"] == "pump 2"
    assert (gone & is_pump)[third : 2 * third].sum() > 15  # up
    assert (gone & is_pump)[2 * third :].sum() == 0  # down
    assert pl.read_csv("incidents.csv")["alarms"].sum() == asked["alarm"].sum()
    assert main(WATCH) == 0
    assert main([*WATCH[:4], "t", *worth]) == 0
    columns = "SELECT id, score, p_value, raised FROM judged_row"
    assert query(columns) == query(columns, "t")
    fewer = query("SELECT alarm <= raised, alarm < raised FROM judged_row", "t")
    assert all(less for less, _ in fewer) and any(gone for _, gone in fewer)
    assert query("SELECT alarm = raised FROM judged_row GROUP BY 1") == [(1,)]
    # What was taken away is in no incident.
    assert query(
        "SELECT count(*) FROM judged_row WHERE incident AND NOT alarm", "t"
    ) == [(0,)]
    monitors = [query("SELECT hex(state) FROM monitor", store) for store in "st"]
    assert monitors[0] == monitors[1]  # thresholds are the same


def test_a_change_that_is_not_worth_it_does_not_stand_out(here, capsys):
    pl.concat([calm_rows(), broken(calm_rows())]).write_csv("today.csv")
    assert main([*WATCH, "--exit-code", "--drift-level", "1e-9"]) == 3
    capsys.readouterr()
    args = [*WATCH[:4], "t", "--json", "--at-least", "b=1000%", "--at-least", "a=50"]
    assert main(args) == 0
    summary = json.loads(capsys.readouterr().out)
    assert not any(line["task"] == "pump 2" for line in summary["incidents"])


def test_bad_amounts_are_refused(refused):
    for start in (SCORE, WATCH):
        refused([*start, "--at-least", "b"], "--at-least b", "COLUMN=VALUE")
        refused(
            [*start, "--at-least", "z=5"], "--at-least: 'z' is no column of numbers"
        )
        refused([*start, "--at-least", "b=x"], "--at-least: give 'b' a number")
        refused([*start, "--direction", "b=left"], "--direction: 'b'", "up")
        refused([*start, "--direction", "b=up", "--direction", "b=up"], "named twice")
