"""The page of a fitted model says what the model says."""

import json
from copy import deepcopy

import numpy as np
import pytest

from manyone import TableModel
from manyone.datasets import make_fleet
from manyone.page.fleet_page import embedded
from manyone.tables.page import _strongest, report_of

pd = pytest.importorskip("pandas")

NAMES = ["load", "flow", "heat"]


@pytest.fixture(scope="module")
def tables():
    """Normal rows of six machines, one with four rows; rows with a broken sensor."""
    fleet = make_fleet(6, 30, 3, n_test=30, fault_rate=0.0, random_state=0)

    def frame(X, task, day):
        when = pd.Timestamp(day) + pd.to_timedelta(np.tile(np.arange(30), 6), "h")
        made = pd.DataFrame(X, columns=NAMES).assign(when=when, site="north")
        return made.assign(machine=[f"m{t}" for t in task])

    train = frame(fleet.data, fleet.task, "2026-10-01")
    train = train.drop(index=train.index[train.machine == "m5"][4:])
    new = frame(fleet.test_data, fleet.test_task, "2026-11-01")
    broken = new.index[new.machine == "m2"][10:15]
    new.loc[broken, "heat"] += 60.0
    new.loc[new.index[new.machine == "m4"][:3], "machine"] = 'new "<b>"'
    return train, new, broken


@pytest.fixture(scope="module")
def model(tables):
    return TableModel(
        "machine", method="default", time="when", history=None, alarm_rate=0.1
    ).fit(tables[0])


def test_rows_are_those_of_score(model, tables):
    report = report_of(model, tables[1], "fleet.manyone", "today.csv")
    scored = model.score(tables[1], explain=3)
    rows = report.findings.rows
    names = np.array(report.tasks.names, dtype=object)
    assert rows.number.tolist() == scored.row.tolist()
    assert names[rows.task].tolist() == scored.task.tolist()
    assert np.array(report.tasks.basis)[rows.task].tolist() == scored.basis.tolist()
    for mine, theirs in ((rows.score, scored.score), (rows.p_value, scored.p_value)):
        np.testing.assert_array_equal(mine, theirs)
    assert rows.alarm.tolist() == scored.alarm.tolist()
    # The threshold that is drawn is the one that raises the alarm.
    assert ((rows.score < report.tasks.threshold[rows.task]) == rows.alarm).all()
    said = [
        tuple(filter(None, line))
        for line in scored[["reason_1", "reason_2", "reason_3"]].values
    ]
    assert list(rows.reasons) == said
    assert rows.dated and rows.time[0] == pd.Timestamp("2026-11-01").timestamp()


def test_a_broken_sensor_is_the_first_incident(model, tables):
    _, new, broken = tables
    findings = report_of(model, new, "fleet.manyone", "today.csv").findings
    first = findings.incidents[0]
    assert findings.tasks.names[first.task] == "m2" and first.columns[0] == "heat"
    assert set(broken) <= set(findings.rows.number[list(first.alarms)])
    # Five rows of one task with few rows of its own: heavy tails might explain them.
    assert first.by_chance < 0.05


def test_model_alone_and_every_column(model):
    report = report_of(model, None, "fleet.manyone", "")
    assert report.findings is None and set(report.tasks.basis) == {"pooled"}
    assert {row.name for row in report.columns.rows} == {*NAMES, "site"}
    dropped = next(row for row in report.columns.rows if row.name == "site")
    assert dropped.soft and "constant" in dropped.cells[-1].text
    facts = dict(report.facts)
    assert facts["forecast"] == model.forward_.sentence(model.promised_rate_)
    chosen = set(model.choice_["view"][model.choice_["chosen"]]) - {"all"}
    assert {f"method for {view}" for view in chosen} <= facts.keys()


def test_the_page_promises_what_the_rows_allow(model, tables):
    """A threshold below all left-out rows raises alarms, which the page expects."""
    rare = deepcopy(model)
    with pytest.warns(UserWarning, match="cannot promise"):
        rare.recalibrate(1e-4)
    report = report_of(rare, tables[1], "", "")
    allowed = rare.model_.alarm_rate_.max()
    assert report.rate == allowed > 1e-4
    assert (
        f"at most {100.0 * allowed:.4g} % of normal rows"
        in dict(report.facts)["promised"]
    )
    law = report.findings.law
    mean = float(law @ np.arange(len(law)))
    assert mean >= allowed * len(tables[1])


def test_report_writes_one_page_for_every_library(model, tables, tmp_path):
    polars = pytest.importorskip("polars")
    for table in (tables[1], polars.from_pandas(tables[1])):
        path = tmp_path / "page.html"
        model.report(path, table)
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<!doctype html>") and 'new "<b>"' not in text
        path.unlink()
    model.report(tmp_path / "model.html")
    assert [path.name for path in tmp_path.iterdir()] == ["model.html"]


def test_what_is_embedded_is_json_whatever_the_scores(model, tables):
    wild = tables[1].copy()
    wild.loc[0, "flow"] = np.inf
    wild.loc[1, "heat"] = 1e300
    wild.loc[2, NAMES] = np.nan
    report = report_of(model, wild, "", "")
    json.dumps(embedded(report), allow_nan=False)
    assert report.findings.rows.alarm[1]


def test_one_task_and_one_row(tables):
    alone = tables[0][tables[0].machine == "m0"].drop(columns="when")
    model = TableModel("machine", method="default", anomalies="faults").fit(alone)
    report = report_of(model, alone.head(1), "", "")
    assert report.relations is None and len(report.findings.rows.task) == 1


def test_pairs_are_the_strongest_of_each_task_and_named_once():
    structure = np.random.default_rng(0).normal(size=(9, 9))
    structure.flags.writeable = False
    pairs = {tuple(pair) for pair in _strongest(structure).T.tolist()}
    expected = set()
    for task in range(9):
        others = sorted(set(range(9)) - {task}, key=lambda k: -abs(structure[task, k]))
        expected |= {tuple(sorted((task, other))) for other in others[:5]}
    assert pairs == expected


def test_tasks_without_a_threshold_are_on_the_page(tmp_path):
    """Of one row and at a low rate nothing says when to raise the alarm."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(41, 2)), columns=["x", "y"])
    table["machine"] = ["a"] * 40 + ["b"]
    model = TableModel(
        "machine", anomalies="faults", method="default", alarm_rate=0.001
    ).fit(table)
    assert np.isnan(report_of(model, None, "", "").tasks.threshold).tolist() == [
        False,
        True,
    ]
    model.report(tmp_path / "model.html")
    model.report(tmp_path / "table.html", table)
    assert ">none<" in (tmp_path / "model.html").read_text("utf-8")
