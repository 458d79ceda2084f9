"""Alarms are grouped by task, column and time, and ranked by what chance does not explain."""

from dataclasses import replace

import numpy as np
import pytest

from manyone.report.advice import advice
from manyone.report.incidents import find_incidents


@pytest.mark.parametrize("timed", [True, False])
def test_every_alarm_is_in_one_incident_of_its_task_and_column(fleet_report, timed):
    report = fleet_report(timed=timed)
    found = report.incidents
    placed = sorted(row for incident in found for row in incident.alarms)
    assert placed == np.flatnonzero(report.rows.alarm).tolist()
    for incident in found:
        assert {report.rows.task[row] for row in incident.alarms} == {incident.task}
        assert {report.rows.leading[row] for row in incident.alarms} == set(
            incident.columns
        )
        if timed:
            times = report.rows.time[list(incident.alarms)]
            assert (incident.begin, incident.end) == (times.min(), times.max())
    keys = [(incident.by_chance, -incident.depth) for incident in found]
    assert keys == sorted(keys)


@pytest.mark.parametrize("timed", [True, False])
def test_what_was_planted_comes_first_and_only_that_stands_out(fleet_report, timed):
    planted = fleet_report.planted
    found = fleet_report(timed=timed).incidents
    wanted = {(task, fleet_report.columns[column]) for task, column, _, _ in planted}
    assert {(i.task, i.columns[0]) for i in found[: len(planted)]} == wanted
    outstanding = {(i.task, i.columns[0]) for i in found if i.by_chance < 0.05}
    # Without times three and four alarms of forty rows may be a task that differs.
    assert outstanding <= wanted and len(outstanding) == (4 if timed else 2)


def test_few_deep_alarms_come_before_many_shallow_ones(fleet_report):
    report = fleet_report(planted=())
    rows = report.rows
    alarm, tail = np.zeros(len(rows.alarm), dtype=bool), np.full(len(rows.alarm), 0.5)
    shallow, deep = (
        np.flatnonzero(rows.task == 5)[:4],
        np.flatnonzero(rows.task == 9)[:2],
    )
    alarm[shallow], alarm[deep], tail[shallow], tail[deep] = True, True, 0.049, 1e-7
    made = replace(rows, alarm=alarm, tail=tail, leading=("",) * len(alarm), time=None)
    assert [i.task for i in find_incidents(report.tasks, made, report.rate)] == [9, 5]


def test_a_long_calm_parts_incidents(fleet_report):
    report = fleet_report(T=1, n=30, m=400, planted=())
    rows = report.rows
    order = np.argsort(rows.time)
    alarm = np.zeros(400, bool)
    alarm[order[[10, 12, 15, 200, 203]]] = True
    made = replace(rows, alarm=alarm, leading=("load",) * 400)
    found = find_incidents(report.tasks, made, report.rate)
    assert sorted(len(incident.alarms) for incident in found) == [2, 3]
    untimed = find_incidents(report.tasks, replace(made, time=None), report.rate)
    assert [len(incident.alarms) for incident in untimed] == [5]


def test_alarms_led_by_many_columns_are_one_incident_if_only_together_they_tell(
    fleet_report,
):
    report = fleet_report(planted=(), timed=False)
    rows, columns = report.rows, fleet_report.columns
    alarm, tail = np.zeros(len(rows.alarm), dtype=bool), np.full(len(rows.alarm), 0.5)
    loud, quiet = (
        np.flatnonzero(rows.task == 5)[:12],
        np.flatnonzero(rows.task == 9)[:2],
    )
    alarm[loud], alarm[quiet], tail[loud], tail[quiet] = True, True, 0.04, 0.04
    leading = np.full(len(alarm), "", dtype=object)
    leading[loud], leading[quiet] = np.resize(columns, 12), columns[:2]
    made = replace(rows, alarm=alarm, tail=tail, leading=tuple(leading))
    first, *rest = find_incidents(report.tasks, made, report.rate)
    assert (
        first.task == 5
        and len(first.alarms) == 12
        and set(first.columns) == set(columns)
    )
    assert [(i.task, len(i.columns)) for i in rest] == [(9, 1), (9, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("timed", [True, False])
def test_normal_rows_seldom_show_an_incident(fleet_report, timed):
    # 0.05 tasks of a table are expected to by chance.
    tables = [
        fleet_report(n=40, seed=seed, timed=timed, planted=()) for seed in range(60)
    ]
    hits = [sum(i.by_chance < 0.05 for i in report.incidents) for report in tables]
    assert np.mean(hits) < 0.05 + 2 * np.sqrt(0.05 / len(tables))


def test_measured_rate_stays_in_its_band(fleet_report):
    tables = [fleet_report(n=40, m=20, seed=seed, planted=()) for seed in range(60)]
    kept = 0
    for report in tables:
        tail = np.cumsum(report.law)
        kept += (
            tail[report.counts[1].sum()] > 0.05
            and tail[report.counts[1].sum() - 1] < 0.95
        )
    assert kept >= 48  # 54 expected


def test_advice_names_what_stands_out_and_says_whether_the_rest_is_chance(fleet_report):
    report = fleet_report()
    found = report.incidents
    said = [text for text, _ in advice(report)]
    assert (
        report.tasks.names[found[0].task] in said[0] and found[0].columns[0] in said[0]
    )
    assert any("chance alone explains up to" in text for text in said)
    assert any("fewer than the 19 normal rows" in text for text in said)
    calm = fleet_report(planted=())
    assert "No incident stands out" in advice(calm)[0][0]
    everywhere = replace(calm.rows, alarm=calm.rows.alarm | (calm.rows.number % 4 == 0))
    loud = advice(replace(calm, rows=everywhere))
    assert any(
        "changed since training" in text and "enroll" in command
        for text, command in loud
    )


@pytest.mark.parametrize(
    ("n", "words"), [(4, "1 more task stands out"), (5, "2 more tasks stand out")]
)
def test_advice_counts_tasks_beyond_the_first_three(fleet_report, n, words):
    report = fleet_report(planted=[(4 + t, 0, 5, 35) for t in range(n)])
    assert any(words in text for text, _ in advice(report))
