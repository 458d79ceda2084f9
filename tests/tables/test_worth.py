"""Changes worth an alarm: how much, and which way."""

import numpy as np
import pandas as pd
import pytest

from manyone import TableModel


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    machine = np.repeat(["a", "b", "c"], 60)
    table = pd.DataFrame(
        {
            "machine": machine,
            "flow": rng.normal(300.0, 10.0, 180),
            "heat": rng.normal(50.0, 1.0, 180),
            "mode": rng.choice(["x", "y"], 180),
        }
    )
    table.loc[rng.choice(180, 5, replace=False), "heat"] = np.nan
    return TableModel("machine", anomalies="faults", method="default").fit(table)


@pytest.fixture(scope="module")
def rows():
    """Rows off by some amount, one column at a time."""
    off = np.array([-150.0, -100.0, -60.0, 60.0, 100.0, 150.0])
    flow = pd.DataFrame({"flow": 300.0 + off, "heat": 50.0})
    heat = pd.DataFrame({"flow": 300.0, "heat": 50.0 + off / 10.0})
    table = pd.concat([flow, heat], ignore_index=True)
    return table.assign(machine="b", mode="x")


def alarms(model, rows, **worth):
    return model.score(rows, **worth)["alarm"].to_numpy()


def test_only_alarms_of_enough_change_in_that_column_stay(model, rows):
    every = alarms(model, rows)
    assert every.all()
    by_flow = np.arange(12) < 6
    off = np.abs(rows["flow"].to_numpy() - 300.0)
    enough = alarms(model, rows, at_least={"flow": 80.0})
    assert enough.tolist() == (~by_flow | (off > 80.0)).tolist()
    third = alarms(model, rows, at_least={"flow": "25%"})
    assert third.tolist() == (~by_flow | (off > 75.0)).tolist()
    up = alarms(model, rows, direction={"flow": "up", "heat": "down"})
    assert up.tolist() == [False] * 3 + [True] * 3 + [True] * 3 + [False] * 3
    both = alarms(model, rows, at_least={"flow": 80}, direction={"flow": "down"})
    assert both.tolist() == [True, True, False, False, False, False] + [True] * 6


def test_alarms_are_taken_away_and_nothing_else_changes(model, rows):
    plain = model.score(rows, explain=2)
    asked = model.score(
        rows, explain=2, at_least={"flow": 80}, direction={"heat": "up"}
    )
    for name in ("row", "task", "score", "p_value", "basis"):
        assert plain[name].equals(asked[name])
    assert np.all(plain["alarm"] | ~asked["alarm"])
    assert np.all(asked.loc[~asked["alarm"], "reason_1"] == "")
    kept = asked["alarm"]
    assert asked.loc[kept, "reason_1"].equals(plain.loc[kept, "reason_1"])


def test_empty_fields_have_no_difference_and_stay(model):
    row = pd.DataFrame(
        {"machine": ["a"], "flow": [np.nan], "heat": [50.0], "mode": ["x"]}
    )
    assert alarms(model, row)[0]
    assert alarms(model, row, at_least={"flow": 1e9}, direction={"flow": "up"})[0]


def test_incidents_go_by_what_is_worth_an_alarm(model, rows):
    table = pd.concat([rows[:6]] * 4, ignore_index=True)
    assert model.incidents(table)["alarms"].sum() == 24
    worth = model.incidents(table, at_least={"flow": 120})
    assert worth["alarms"].sum() == 8
    nothing = model.incidents(table, at_least={"flow": 1000})
    assert len(nothing) == 0
    # Rows whose alarms were taken away are no evidence for those that stay.
    mixed = pd.concat([rows[2:4]] * 20 + [rows[:1]] * 2, ignore_index=True)
    alone = pd.concat([rows[:1]] * 2, ignore_index=True)
    by_chance = model.incidents(mixed, at_least={"flow": 120})["by_chance"].min()
    assert by_chance >= model.incidents(alone)["by_chance"].min()


@pytest.mark.parametrize(
    ("worth", "words"),
    [
        ({"at_least": {"flaw": 5}}, "'flaw' is no column of numbers"),
        ({"at_least": {"mode": 5}}, "'mode' is no column of numbers"),
        ({"at_least": {"flow": "much"}}, "got 'much'"),
        ({"at_least": {"flow": -1}}, "got -1"),
        ({"at_least": {"flow": "nan%"}}, "got 'nan%'"),
        ({"direction": {"flow": "left"}}, "'up' or 'down'; got 'left'"),
    ],
)
def test_what_makes_no_sense_is_refused(model, rows, worth, words):
    with pytest.raises(ValueError, match=words.replace("(", "\\(")):
        model.score(rows, **worth)


@pytest.mark.filterwarnings("ignore:asked 5")
def test_a_change_is_measured_from_the_recent_value_where_that_is_the_reason():
    rng = np.random.default_rng(2)
    steps = pd.date_range("2026-01-01", periods=300, freq="h")
    parts = []
    for machine in "abc":
        flow = 300.0 + np.cumsum(rng.normal(0.0, 4.0, 300))
        heat = 50.0 + rng.normal(0.0, 1.0, 300)
        parts.append(
            pd.DataFrame(
                {"machine": machine, "when": steps, "flow": flow, "heat": heat}
            )
        )
    table = pd.concat(parts)
    model = TableModel(
        "machine", time="when", anomalies="faults", method="default", history=12
    ).fit(table)
    rows = pd.concat(
        [
            part.tail(40).assign(when=steps[-40:] + pd.Timedelta(days=13))
            for part in parts
        ]
    ).reset_index(drop=True)
    jumps = np.arange(30, len(rows), 40)
    rows.loc[jumps, "flow"] += np.array([60.0, -80.0, 100.0])
    scores = model.score(rows, explain=1)
    told = scores.loc[scores["alarm"], "reason_1"].str.extract(
        r"^(?P<name>\w+) (?P<verb>rose|fell) by (?P<by>\S+) from its recent"
    )
    told = told.dropna()
    assert len(told) >= 2
    for place, line in told.iterrows():
        by = float(line["by"])
        way = {"rose": "up", "fell": "down"}[line["verb"]]
        for factor, stays in ((0.95, True), (1.05, False)):
            asked = model.score(rows, at_least={line["name"]: factor * by})
            assert asked["alarm"][place] == stays
        assert model.score(rows, direction={line["name"]: way})["alarm"][place]
        other = {"up": "down", "down": "up"}[way]
        assert not model.score(rows, direction={line["name"]: other})["alarm"][place]
