"""Incidents of a stream: those of the same rows as a table, and whole after answers."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyone import TableModel
from manyone.alerts.incidents import find_incidents
from manyone.alerts.values import Rows
from manyone.tables.incidents import tasks_of
from manyone.watch.incidents import IncidentFinder, incidents_of
from manyone.watch.store import open_store

TASKS = ("m0", "m1")
CALM = 10  # rows without an alarm that may lie within an incident, at 5 %
NORMAL, FAULT = 1, 0


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    names = np.repeat(TASKS, 30)
    table = {"machine": names, **dict(zip("ab", rng.normal(size=(2, 60)), strict=True))}
    pd = pytest.importorskip("pandas")
    chosen = TableModel("machine", anomalies="faults", method="default", random_state=0)
    return chosen.fit(pd.DataFrame(table))


@st.composite
def streams(draw):
    """Rows of two tasks as they come: task, p-value, leading column of an alarm.

    Both tasks begin with an alarm and end with one, and none is calm in between.
    """
    alarms = st.tuples(st.integers(0, CALM - 1), st.floats(1e-5, 0.05))
    led = st.tuples(alarms, st.sampled_from("ab"))
    of_task = []
    for task in range(len(TASKS)):
        rows = []
        for (calm, p_value), column in draw(st.lists(led, min_size=2, max_size=14)):
            rows += [(task, 0.5, "")] * (calm if rows else 0)
            rows.append((task, p_value, column))
        of_task.append(rows)
    first, second = of_task
    rest = draw(st.permutations([0] * (len(first) - 1) + [1] * (len(second) - 1)))
    following = [iter(rows) for rows in of_task]
    return [next(following[task]) for task in (0, 1, *rest)]


def watched(path, model, stream, cuts, answers=()):
    """Lines of the view ``incidents`` after batches that end at `cuts`.

    `answers`: after each batch, answers by the number of the row.
    """
    borders = [*sorted({cut for cut in cuts if 0 < cut < len(stream)}), len(stream)]
    with open_store(path) as store:
        file = store.add_file("rows")
        finder = IncidentFinder(store, model)
        begin = 0
        for end in borders:
            batch = stream[begin:end]
            tasks, p, leading = zip(*batch, strict=True)
            same = {"file": file, "score": 0.0, "basis": "own", "drift": 0, "weight": 1}
            numbers = store.add_rows(
                {
                    **{name: [value] * len(batch) for name, value in same.items()},
                    "id": [str(row) for row in range(begin, end)],
                    "file_row": list(range(begin, end)),
                    "task": [TASKS[task] for task in tasks],
                    "p_value": p,
                    "alarm": [value <= 0.05 for value in p],
                    "raised": [value <= 0.05 for value in p],
                    "depth": (-np.log(p)).tolist(),
                    "rank_p": p,
                    "depth_p": p,
                    "leading": [column or None for column in leading],
                    "reasons": [json.dumps([f"{column} = 1"]) for column in leading],
                },
                None,
            )
            finder.find(numbers)
            for row, answer in answers:
                if row < end:
                    store.execute(
                        "UPDATE judged_row SET answer = ? WHERE id = ?",
                        [answer, str(row)],
                    )
            begin = end
        alarms = store.query("SELECT id, incident, answer FROM judged_row WHERE alarm")
        lines = incidents_of(store)
        path.unlink()
    return lines, alarms


@settings(max_examples=40, deadline=None)
@given(stream=streams(), cuts=st.lists(st.integers(1, 100), max_size=8))
def test_incidents_of_a_stream_are_those_of_its_rows_as_a_table(
    model, tmp_path_factory, stream, cuts
):
    tasks = tasks_of(model)
    task, p, leading = (np.array(values) for values in zip(*stream, strict=True))
    rows = Rows(
        number=np.arange(len(stream)),
        task=task,
        score=tasks.threshold[task] + np.log(p) * tasks.unit[task],
        p_value=p,
        rank_p=p,
        depth_p=p,
        alarm=p <= 0.05,
        leading=tuple(leading.tolist()),
        reasons=tuple((f"{column} = 1",) for column in leading),
        notes=("",) * len(stream),
        time=np.arange(len(stream), dtype=float),
    )
    wanted = {
        str(min(incident.alarms)): (
            TASKS[incident.task],
            ", ".join(incident.columns),
            len(incident.alarms),
            incident.rows,
            incident.begin,
            incident.end,
            pytest.approx(incident.by_chance),
            incident.stands_out,
            str(incident.worst_row),
            incident.reason,
        )
        for incident in find_incidents(tasks, rows, model.promised_rate_)
    }
    path = tmp_path_factory.mktemp("store") / "s"
    lines, _ = watched(path, model, stream, cuts)
    names = "task column alarms rows begin end by_chance stands_out worst_row reason"
    assert wanted == {
        line["id"]: tuple(line[name] for name in names.split()) for line in lines
    }


@settings(max_examples=40, deadline=None)
@given(
    stream=streams(),
    cuts=st.lists(st.integers(1, 100), max_size=8),
    answers=st.lists(
        st.tuples(st.integers(0, 100), st.sampled_from([NORMAL, FAULT])), max_size=8
    ),
)
def test_every_alarm_is_in_one_incident_whatever_people_answer(
    model, tmp_path_factory, stream, cuts, answers
):
    path = tmp_path_factory.mktemp("store") / "s"
    lines, alarms = watched(path, model, stream, cuts, answers)
    counted = dict.fromkeys((line["id"] for line in lines), 0)
    for alarm in alarms:
        counted[alarm["incident"]] += 1
    assert counted == {line["id"]: line["alarms"] for line in lines}
    for line in lines:
        said = {row["answer"] for row in alarms if row["incident"] == line["id"]}
        if FAULT in said:
            assert line["answer"] == "fault"
        else:
            assert line["answer"] == ("normal" if said == {NORMAL} else None)
