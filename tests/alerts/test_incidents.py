"""Alarms are grouped by task, column and time, and ranked by what chance leaves."""

from dataclasses import replace

import numpy as np
import pytest

from made_up import COLUMNS, PLANTED, made_up_findings
from manyone.alerts.advice import advice_on_table
from manyone.alerts.evidence import STANDS_OUT
from manyone.alerts.incidents import Past, find_incidents


def quiet_rows(findings):
    """The rows of findings without any alarm or low p-value."""
    n = len(findings.rows.alarm)
    return replace(
        findings.rows,
        alarm=np.zeros(n, dtype=bool),
        rank_p=np.random.default_rng(0).uniform(0.06, 1.0, n),
        depth_p=np.ones(n),
        leading=("",) * n,
    )


def with_alarms(rows, places, p, leading="load"):
    """Rows with further alarms of a given p-value, led by one column or several."""
    alarm = rows.alarm.copy()
    alarm[places] = True
    rank_p = rows.rank_p.copy()
    rank_p[places] = p
    names = np.array(rows.leading, dtype=object)
    names[places] = leading
    return replace(rows, alarm=alarm, rank_p=rank_p, leading=tuple(names))


@pytest.mark.parametrize("timed", [True, False])
def test_every_alarm_is_in_one_incident_of_its_task(timed):
    findings = made_up_findings(timed=timed)
    rows = findings.rows
    placed = sorted(row for i in findings.incidents for row in i.alarms)
    assert placed == np.flatnonzero(rows.alarm).tolist()
    for incident in findings.incidents:
        alarms = list(incident.alarms)
        assert set(rows.task[alarms]) == {incident.task}
        assert {rows.leading[row] for row in alarms} == set(incident.columns)
        when = rows.time[alarms] if timed else rows.number[alarms]
        assert (incident.begin, incident.end) == (when.min(), when.max())
        assert incident.rows == 40
        assert incident.worst_row in rows.number[alarms]
    keys = [(incident.by_chance, -incident.depth) for incident in findings.incidents]
    assert keys == sorted(keys)


@pytest.mark.parametrize("timed", [True, False])
def test_what_was_planted_comes_first_and_only_that_stands_out(timed):
    findings = made_up_findings(n=50, timed=timed)
    wanted = {(task, COLUMNS[column]) for task, column, _, _ in PLANTED}
    # Three alarms of forty rows may be a task that differs.
    many = {(task, COLUMNS[c]) for task, c, begin, end in PLANTED if end - begin > 10}
    outstanding = {(i.task, i.columns[0]) for i in findings.outstanding}
    assert many <= outstanding <= wanted
    assert findings.stands_out


def test_few_low_alarms_come_before_many_shallow_ones():
    findings = made_up_findings(planted=(), timed=False)
    shallow = np.flatnonzero(findings.rows.task == 5)[:4]
    low = np.flatnonzero(findings.rows.task == 9)[:2]
    rows = with_alarms(quiet_rows(findings), shallow, 0.049)
    rows = with_alarms(rows, low, 1e-7)
    incidents = find_incidents(findings.tasks, rows, findings.rate)
    assert [incident.task for incident in incidents] == [9, 5]


def test_a_deep_row_stands_out_by_itself():
    findings = made_up_findings(planted=(), timed=False)
    row = np.flatnonzero(findings.rows.task == 5)[:1]
    rows = with_alarms(quiet_rows(findings), row, 0.002)
    (incident,) = find_incidents(findings.tasks, rows, findings.rate)
    assert not incident.stands_out
    depth_p = rows.depth_p.copy()
    depth_p[row] = 1e-7
    rows = replace(rows, depth_p=depth_p)
    (incident,) = find_incidents(findings.tasks, rows, findings.rate)
    assert incident.stands_out


def test_a_long_calm_separates_incidents():
    findings = made_up_findings(T=1, n=30, m=400, planted=())
    order = np.argsort(findings.rows.time)
    places = order[[10, 12, 15, 200, 203]]
    rows = with_alarms(quiet_rows(findings), places, 0.02)
    incidents = find_incidents(findings.tasks, rows, findings.rate)
    assert sorted(len(incident.alarms) for incident in incidents) == [2, 3]
    untimed = replace(rows, time=None)
    (incident,) = find_incidents(findings.tasks, untimed, findings.rate)
    assert len(incident.alarms) == 5


def test_a_dense_run_tells_more_than_as_many_alarms_anywhere():
    findings = made_up_findings(T=1, n=900, m=400, planted=())
    order = np.argsort(findings.rows.time)
    calm = quiet_rows(findings)
    run = with_alarms(calm, order[50:58], 0.02)
    spread = with_alarms(calm, order[50:122:9], 0.02)
    (dense,) = find_incidents(findings.tasks, run, findings.rate)
    (thin,) = find_incidents(findings.tasks, spread, findings.rate)
    assert dense.by_chance < 0.01 * thin.by_chance


def test_alarms_led_by_many_columns_are_one_incident_if_only_together_they_tell():
    findings = made_up_findings(planted=(), timed=False)
    loud = np.flatnonzero(findings.rows.task == 5)[:12]
    quiet = np.flatnonzero(findings.rows.task == 9)[:2]
    rows = with_alarms(quiet_rows(findings), loud, 0.02, np.resize(COLUMNS, 12))
    rows = with_alarms(rows, quiet, 0.04, COLUMNS[:2])
    first, *others = find_incidents(findings.tasks, rows, findings.rate)
    assert first.task == 5
    assert len(first.alarms) == 12
    assert set(first.columns) == set(COLUMNS)
    assert [(i.task, len(i.columns)) for i in others] == [(9, 1), (9, 1)]


def test_columns_that_stand_out_at_the_same_time_are_one_incident():
    findings = made_up_findings(planted=())
    places = np.flatnonzero(findings.rows.task == 5)
    places = places[np.argsort(findings.rows.time[places])]
    rows = with_alarms(quiet_rows(findings), places[4:24:2], 1e-9, "load")
    rows = with_alarms(rows, places[5:25:2], 1e-9, "heat")
    rows = replace(rows, depth_p=np.where(rows.alarm, 1e-12, 1.0))
    (incident,) = find_incidents(findings.tasks, rows, findings.rate)
    assert {*incident.columns} == {"load", "heat"} and incident.stands_out
    assert sorted(incident.alarms) == sorted(places[4:24].tolist())
    assert (incident.begin, incident.end) == tuple(rows.time[places[[4, 23]]])
    # One that stands out after the other has ended is another one.
    apart = with_alarms(quiet_rows(findings), places[4:9], 1e-9, "load")
    apart = with_alarms(apart, places[12:17], 1e-9, "heat")
    apart = replace(apart, depth_p=np.where(apart.alarm, 1e-12, 1.0))
    assert len(find_incidents(findings.tasks, apart, findings.rate)) == 2


def test_low_rows_without_an_alarm_count_as_evidence():
    findings = made_up_findings(planted=(), timed=False)
    places = np.flatnonzero(findings.rows.task == 5)
    rows = with_alarms(quiet_rows(findings), places[:3], 0.01)
    (alone,) = find_incidents(findings.tasks, rows, findings.rate)
    rank_p = rows.rank_p.copy()
    rank_p[places[3:20]] = 0.06
    rows = replace(rows, rank_p=rank_p)
    (beside_others,) = find_incidents(findings.tasks, rows, findings.rate)
    assert beside_others.by_chance < 0.1 * alone.by_chance
    assert len(beside_others.alarms) == 3


def test_a_task_never_seen_does_not_stand_out_and_explains_any_number_of_alarms():
    findings = made_up_findings(T=2, planted=(), timed=False)
    counted = findings.tasks.counted.copy()
    counted[1] = 0.0
    tasks = replace(findings.tasks, counted=counted)
    places = np.flatnonzero(findings.rows.task == 1)
    rows = with_alarms(quiet_rows(findings), places, 1e-9)
    unseen = replace(findings, tasks=tasks, rows=rows)
    assert not unseen.stands_out
    # Rows of such tasks without an alarm do not make room for others.
    few = with_alarms(quiet_rows(findings), places[:2], 1e-9)
    calm = replace(findings, tasks=tasks, rows=few)
    assert unseen.most_by_chance - calm.most_by_chance == len(places) - 2


@pytest.mark.slow
@pytest.mark.parametrize("timed", [True, False])
def test_normal_rows_seldom_show_anything(timed):
    tables = [
        made_up_findings(n=40, seed=seed, timed=timed, planted=())
        for seed in range(100)
    ]
    assert sum(findings.stands_out for findings in tables) <= 3


def test_the_number_of_alarms_is_seldom_more_than_chance():
    tables = [made_up_findings(n=40, m=20, seed=k, planted=()) for k in range(60)]
    chances = np.array([findings.chance for findings in tables])
    assert np.mean(chances < 0.05) <= 0.1
    assert sum(findings.more_than_chance for findings in tables) <= 2


def test_alarms_chosen_in_another_way_are_not_counted_against_the_rate():
    findings = made_up_findings(planted=())
    every_row = replace(findings.rows, alarm=np.ones(len(findings.rows.alarm), bool))
    assert replace(findings, rows=every_row).more_than_chance
    assert not replace(findings, rows=every_row, rate=None).more_than_chance


def test_advice_names_what_stands_out_and_how_many_more_alarms_there_are():
    findings = made_up_findings()
    texts = [step.text for step in advice_on_table("m", findings, 0.05)]
    first = findings.incidents[0]
    assert findings.tasks.names[first.task] in texts[0]
    assert first.columns[0] in texts[0]
    assert any("chance explains up to" in text for text in texts)
    calm = made_up_findings(planted=())
    assert "No incident stands out" in advice_on_table("m", calm, 0.05)[0].text
    alarm = calm.rows.alarm | (calm.rows.number % 4 == 0)
    loud = replace(calm, rows=replace(calm.rows, alarm=alarm))
    steps = advice_on_table("m", loud, 0.05)
    assert any("changed since training" in step.text for step in steps)


def test_advice_on_tasks_that_borrow_says_how_many_rows_count():
    findings = made_up_findings(planted=())
    texts = [step.text for step in advice_on_table("m", findings, 0.05)]
    (text,) = [text for text in texts if "borrow scores" in text]
    assert "takes 99 independent normal rows" in text
    assert "These have 15 to 17" in text
    # Blocks of time: rows enough, but they resemble each other.
    tasks = replace(
        findings.tasks,
        trained=np.full_like(findings.tasks.trained, 113),
        counted=np.full_like(findings.tasks.counted, 9.0),
        basis=("pooled",) * len(findings.tasks.names),
    )
    blocks = replace(findings, tasks=tasks)
    texts = [step.text for step in advice_on_table("m", blocks, 0.05)]
    (text,) = [text for text in texts if "borrow scores" in text]
    assert "These have 113 to 113, which" in text
    assert "count as about 9" in text
    assert "fewer than" not in text


@pytest.mark.parametrize(
    ("n", "words"), [(4, "1 more task stands out"), (5, "2 more tasks stand out")]
)
def test_advice_counts_tasks_beyond_the_first_three(n, words):
    findings = made_up_findings(planted=[(4 + t, 0, 5, 35) for t in range(n)])
    assert sum(i.by_chance < STANDS_OUT for i in findings.incidents) >= n
    texts = [step.text for step in advice_on_table("m", findings, 0.05)]
    assert any(words in text for text in texts)


def test_rows_seen_before_count_as_rows_that_tell_nothing():
    """What is past is given by numbers, or by rows whose p-values are 1."""
    findings = made_up_findings(T=3, n=60, m=40, planted=())
    order = np.lexsort((findings.rows.time, findings.rows.task))
    calm = quiet_rows(findings)
    places = np.concatenate([order[30:36], order[72:75], order[110:120:4]])
    rows = with_alarms(calm, places, 0.004, np.resize(COLUMNS[:2], len(places)))
    is_late = np.zeros(len(order), dtype=bool)
    for task in range(3):
        is_late[order[40 * task + 25 : 40 * (task + 1)]] = True
    rank_p = np.where(is_late, rows.rank_p, 1.0)
    with_past = replace(rows, rank_p=rank_p)
    late = np.flatnonzero(is_late)
    per_row = ("number", "task", "score", "p_value", "rank_p", "depth_p", "alarm")
    only_late = replace(
        rows,
        **{name: getattr(rows, name)[late] for name in (*per_row, "time")},
        **{
            name: tuple(getattr(rows, name)[row] for row in late)
            for name in ("leading", "reasons", "notes")
        },
        ids=None,
        answers=(),
    )
    past = Past(rows=np.full(3, 25), tasks=np.full(3, 3))
    wanted = find_incidents(findings.tasks, replace(with_past, ids=None), 0.05)
    found = find_incidents(findings.tasks, only_late, 0.05, past)
    assert len(found) == len(wanted) > 3
    for one, other in zip(found, wanted, strict=True):
        assert late[list(one.alarms)].tolist() == list(other.alarms)
        assert replace(one, alarms=()) == replace(other, alarms=())


def test_rows_with_a_past_are_told_by_how_an_incident_began():
    """Its end is compared with the fault, and looks wrong in the other direction."""
    findings = made_up_findings(planted=(), timed=True)
    of_task = np.flatnonzero(findings.rows.task == 5)
    alarms = of_task[np.argsort(findings.rows.time[of_task])][:8]
    rows = with_alarms(quiet_rows(findings), alarms, 1e-4)
    score = rows.score.copy()
    score[alarms] = findings.tasks.threshold[5] - np.array([1, 3, 2, 1, 1, 4, 9, 8])
    rows = replace(rows, score=score)
    with_past = replace(findings.tasks, with_past=True)
    (whole,) = find_incidents(findings.tasks, rows, findings.rate)
    (begun,) = find_incidents(with_past, rows, findings.rate)
    assert whole.worst_row == rows.number[alarms[6]]
    assert begun.worst_row == rows.number[alarms[1]]
    assert replace(begun, worst_row=whole.worst_row, reason=whole.reason) == whole
