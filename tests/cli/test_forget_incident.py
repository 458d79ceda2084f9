"""An incident that is called a fault: thresholds are as if its rows had not come."""

import numpy as np
import polars as pl
import pytest

import manyone
from manyone.cli import main
from manyone.watch.memory import ROW, UNANSWERED
from manyone.watch.store import read_store
from streams import WATCH, broken, calm_rows, query


def thresholds(state):
    model = manyone.load("fleet.manyone")
    with read_store(state) as store:
        return store.monitor(model).thresholds


def stream():
    """A quiet time, a slight fault that thresholds learn from, a quiet time."""
    calm = calm_rows()
    fault = broken(calm_rows(2), by=2.0)
    table = pl.concat([calm, fault, calm]).with_row_index("reading")
    return table


def watch(table, state, *options):
    table.write_csv("today.csv")
    assert main([*WATCH[:4], state, "--id", "reading", *options]) == 0


@pytest.mark.parametrize("by", ["incident", "id"])
def test_thresholds_are_as_if_the_rows_had_not_come(here, by, capsys):
    table = stream()
    watch(table, "s")
    learned = thresholds(here / "s")
    (worst,) = query(
        "SELECT id FROM incidents WHERE task = 'pump 2' ORDER BY alarms DESC LIMIT 1"
    )[0]
    alarms = [i for (i,) in query(f"SELECT id FROM alarms WHERE incident = '{worst}'")]
    assert len(alarms) > 3
    ids = [worst] if by == "incident" else alarms
    pl.DataFrame({by: ids, "answer": "fault"}).write_csv("answers.csv")
    watch(table, "s", "--feedback", "answers.csv")
    assert f"{len(alarms)} of {len(alarms)} answers were new" in capsys.readouterr().out
    without = table.filter(~pl.col("reading").cast(str).is_in(alarms))
    watch(without, "t")
    pump = 2
    forgotten = thresholds(here / "s")
    assert forgotten[pump] == thresholds(here / "t")[pump] != learned[pump]
    np.testing.assert_array_equal(np.delete(forgotten, pump), np.delete(learned, pump))
    assert query("SELECT answer FROM incidents WHERE id = " + repr(worst)) == [
        ("fault",)
    ]


def test_learning_again_from_all_rows_changes_nothing(here):
    watch(stream(), "s")
    model = manyone.load("fleet.manyone")
    found = query(
        "SELECT CASE task WHEN 'pump 1' THEN 1 ELSE 2 END, score FROM judged_row "
        "WHERE task IN ('pump 1', 'pump 2') ORDER BY number"
    )
    rows = np.zeros(len(found), dtype=ROW)
    rows["task"] = [code for code, _ in found]
    rows["score"] = [score for _, score in found]
    rows["answer"] = UNANSWERED
    with read_store(here / "s") as store:
        monitor = store.monitor(model)
        again = store.monitor(model)
    again.relearn(np.array([1, 2]), rows, np.ones(len(rows), dtype=bool))
    for name in ("window", "confirmed", "head", "level", "run"):
        np.testing.assert_array_equal(
            getattr(again.state, name), getattr(monitor.state, name)
        )


def test_answers_called_normal_stay_learned(here):
    """Of a task with both kinds of answers only the faults are forgotten."""
    table = stream()
    watch(table, "s")
    ids = [
        i for (i,) in query("SELECT id FROM alarms WHERE task = 'pump 2' ORDER BY row")
    ]
    half = len(ids) // 2
    answers = ["normal"] * half + ["fault"] * (len(ids) - half)
    pl.DataFrame({"id": ids, "answer": answers}).write_csv("answers.csv")
    watch(table, "s", "--feedback", "answers.csv")
    model = manyone.load("fleet.manyone")
    with read_store(here / "s") as store:
        state = store.monitor(model).state
    scores = dict(query("SELECT id, score FROM scores"))
    normal = {scores[i] for i in ids[:half]}
    assert normal <= {*state.window[2][state.confirmed[2]].tolist()}
    faults = {scores[i] for i in ids[half:]}
    faults -= {scores[i] for i in scores.keys() - {*ids[half:]}}  # some rows repeat
    assert faults and not faults & {*state.window[2].tolist()}


def test_an_incident_that_is_not_there_is_refused(here, refused):
    watch(stream(), "s")
    (here / "answers.csv").write_text("incident,answer\nnothing,fault\n")
    args = [*WATCH, "--id", "reading", "--feedback", "answers.csv"]
    refused(args, "--feedback: s has no incident nothing")
