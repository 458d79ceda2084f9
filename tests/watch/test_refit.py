"""Refits: who may take the champion's place, and what the store and the files keep."""

import json
from copy import deepcopy

import numpy as np
import polars as pl
import pytest

from manyone import TableModel, load, save
from manyone.cli import main
from manyone.watch.answers import Answer, add_answers, use_answers
from manyone.watch.incidents import incidents_of
from manyone.watch.refit import KeptRows, _judged, challenge, kept_rows_of, latest_day
from manyone.watch.store import open_store, read_store
from manyone.watch.versions import complete, replace_model

TASKS = [f"m{k}" for k in range(6)]
DAYS = 30


def rows(days, seed, spread=1.0, per_day=6):
    """Rows of all machines over some days; the last column is the day."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, task in enumerate(TASKS):
        n = per_day * len(days)
        X = 5 * number + spread * rng.normal(size=(n, 3))
        columns = dict(zip("abc", X.T, strict=True))
        day = np.repeat(np.asarray(days, dtype=float), per_day)
        parts.append(pl.DataFrame({"machine": [task] * n, **columns, "day": day}))
    return pl.concat(parts).sort("day", maintain_order=True)


@pytest.fixture(scope="module")
def champion():
    model = TableModel("machine", anomalies="faults", method="default", random_state=0)
    return model.fit(rows(range(20), 0).drop("day"))


def kept(table, is_fault=None, is_normal=None):
    fault = np.zeros(len(table), dtype=bool) if is_fault is None else is_fault
    return KeptRows(
        table=table.drop("day"),
        ids=np.arange(len(table)).astype(str).astype(object),
        tasks=table["machine"].to_numpy().astype(object),
        day=table["day"].to_numpy() + 20_000.0,
        is_fault=fault,
        is_normal=~fault if is_normal is None else is_normal,
    )


def test_a_model_of_the_same_fleet_takes_its_place(champion):
    verdicts = [
        challenge(champion, kept(rows(range(DAYS), seed)), 30.0) for seed in range(1, 9)
    ]
    assert all(verdict.challenger is not None for verdict in verdicts)
    facts = verdicts[0].facts
    assert facts["rows"] == facts["new_rows"] == 23 * 6 * len(TASKS)
    assert facts["shadow_rows"] == 7 * 6 * len(TASKS)
    assert facts["begin"].startswith("2024-10-04") and "took its place" in str(verdicts)


def test_one_that_raises_more_than_promised_does_not(champion):
    """Its rows hardly differ, those of the last week do as they always did."""
    narrow = rows(range(23), 1, spread=0.3)
    table = pl.concat([narrow, rows(range(23, DAYS), 2)])
    verdict = challenge(champion, kept(table), 30.0)
    assert verdict.challenger is None and "chance explains" in verdict.sentence
    assert verdict.facts["alarms"] > verdict.facts["alarms_by_chance"]


def test_one_that_raises_more_than_the_champion_does_not(champion):
    """Within its promise, but more than the model before by more than chance."""
    quiet = deepcopy(champion).recalibrate(0.005)
    loud = rows(range(DAYS), 3, per_day=24)
    assert challenge(champion, kept(loud), 30.0).challenger is not None
    challenger = deepcopy(quiet)
    challenger.alarm_rate = 0.05
    shadow = kept(loud)
    challenger.refit(loud.filter(pl.col("day") < 23).drop("day"))
    last_week = shadow.day > shadow.now - 7
    verdict = _judged(quiet, challenger, shadow, last_week, {"rows": 1})
    assert verdict.challenger is None
    assert "more than chance explains" in verdict.sentence


def test_one_that_misses_a_fault_does_not(champion):
    """Somebody has called rows normal that look like a fault that was found before."""
    table = rows(range(DAYS), 4)
    place = np.arange(len(table))
    is_odd = (table["machine"] == "m2").to_numpy() & (place % 5 == 0)
    odd = table.with_columns(
        a=pl.when(pl.Series(is_odd)).then(pl.col("a") + 30.0).otherwise("a")
    )
    fault = is_odd & (odd["day"].to_numpy() == 25)
    assert champion.predict(odd.drop("day").filter(fault)).max() == -1
    verdict = challenge(champion, kept(odd, fault), 30.0)
    assert (
        verdict.challenger is None and "misses rows called faults" in verdict.sentence
    )
    assert verdict.facts["faults_caught"] < verdict.facts["faults_caught_before"]


def test_too_few_rows_are_no_model(champion):
    verdict = challenge(champion, kept(rows([1], 0)), 30.0)
    assert verdict.challenger is None and "not yet enough rows" in verdict.sentence


def test_a_task_with_few_recent_rows_keeps_those_of_before(champion):
    table = rows(range(DAYS), 5).filter(
        (pl.col("machine") != "m0") | (pl.col("day") < 2)
    )
    verdict = challenge(champion, kept(table), 30.0)
    assert verdict.challenger is not None
    sizes = dict(
        zip(
            verdict.challenger.tasks_.tolist(),
            verdict.challenger.task_rows_.tolist(),
            strict=True,
        )
    )
    assert sizes["m0"] == 20 * 6 + 12 and sizes["m1"] == 23 * 6


def test_a_model_without_rows_stays_one(champion):
    bare = deepcopy(champion).drop_rows()
    verdict = challenge(bare, kept(rows(range(DAYS), 1)), 30.0)
    assert not verdict.challenger.training_.has_values
    few = rows(range(DAYS), 1, per_day=3)
    verdict = challenge(bare, kept(few), 30.0)
    assert verdict.challenger is None and "--no-rows" in verdict.sentence


def test_columns_that_nobody_looks_at_need_not_be_there():
    """A store has no columns that --ignore and --outlier named."""
    table = rows(range(20), 0).drop("day")
    table = table.with_columns(note=pl.lit("x"), broken=pl.lit(False))
    model = TableModel(
        "machine", method="SVDD", ignore=["note"], outlier="broken", groups="shift"
    )
    shift = pl.Series("shift", np.arange(len(table)) // 9)
    model.fit(table.with_columns(shift))
    recent = rows(range(DAYS), 1)
    recent = recent.with_columns(shift=np.arange(len(recent)) // 9)
    verdict = challenge(model, kept(recent), 30.0)
    assert "rows" in verdict.facts and "fitted" not in verdict.sentence
    more = recent.drop("day").with_columns(broken=pl.lit(False))
    assert model.enroll(more).n_rows_ == len(table) + len(more)


# --- Rows of a store.


@pytest.fixture
def watched(champion, tmp_path, monkeypatch):
    """A store that has seen rows, some of them faults."""
    monkeypatch.chdir(tmp_path)
    save(champion, "fleet.manyone")
    table = rows(range(10), 6)
    is_fault = ((table["machine"] == "m3") & (table["day"] >= 6)).to_numpy()
    table = table.with_columns(
        a=pl.when(pl.Series(is_fault)).then(pl.col("a") + 30.0).otherwise("a")
    )
    table.drop("day").write_csv("rows.csv")
    args = ["watch", "fleet.manyone", "rows.csv", "--state", "s", "--explain", "1"]
    assert main(args) == 0
    return tmp_path / "s", table, is_fault


def test_incidents_and_faults_are_not_learned_and_other_alarms_are(watched, champion):
    state, table, is_fault = watched
    with open_store(state) as store:
        found = kept_rows_of(store, champion)
        assert found.table["a"].to_list() == pytest.approx(table["a"].to_list())
        alarms = store.query(
            "SELECT number - 1 AS row, incident FROM judged_row WHERE alarm = 1"
        )
        outstanding = {line["id"] for line in incidents_of(store) if line["stands_out"]}
        others = [a["row"] for a in alarms if a["incident"] not in outstanding]
        assert outstanding and others
        assert not found.is_normal[is_fault].any() and found.is_normal[others].all()
        monitor = store.monitor(champion, None)
        row = int(np.flatnonzero(is_fault)[0])
        add_answers(
            store, [Answer(str(row), "normal"), Answer(str(others[0]), "fault")]
        )
        use_answers(store, monitor)
        found = kept_rows_of(store, champion)
        assert found.is_normal[row] and not found.is_normal[others[0]]
        assert found.is_fault.sum() == 1
        day = latest_day(store)
        assert abs(day - found.now) < 0.01


def test_rows_without_a_task_are_not_learned(watched, champion):
    state, table, _ = watched
    bare = table.drop("day").head(4).with_columns(machine=pl.lit(None, pl.String))
    bare.write_csv("bare.csv")
    assert main(["watch", "fleet.manyone", "bare.csv", "--state", str(state)]) == 0
    with read_store(state) as store:
        found = kept_rows_of(store, champion)
    assert len(found.ids) == len(table) + 4
    assert not found.is_normal[-4:].any() and found.is_normal[:-4].any()


def test_answers_to_rows_before_a_refit_are_kept_and_move_nothing(watched, champion):
    state, table, _ = watched
    other = deepcopy(champion).refit(table.drop("day"))
    with open_store(state) as store:
        before = store.query("SELECT id, answer FROM judged_row ORDER BY number")
        store.start_again(other)
        monitor = store.monitor(other, None)
        level = monitor.state.level.copy()
        window = monitor.state.window.copy()
        assert monitor.state.rows.sum() == 0 and (monitor.state.flagged == -1).all()
        alarm = store.query("SELECT id FROM judged_row WHERE alarm = 1")[0]["id"]
        add_answers(store, [Answer(alarm, "fault")])
        assert use_answers(store, monitor) == 1
        assert np.array_equal(monitor.state.level, level)
        assert np.array_equal(monitor.state.window, window, equal_nan=True)
        after = store.query("SELECT id, answer FROM judged_row ORDER BY number")
        changed = [new for old, new in zip(before, after, strict=True) if old != new]
        assert changed == [{"id": alarm, "answer": 0}]


def test_models_are_kept_and_a_kill_in_between_is_made_good(
    watched, champion, monkeypatch
):
    state, table, _ = watched
    path = state.parent / "fleet.manyone"
    first = path.read_bytes()
    for number in range(2, 8):
        model = deepcopy(champion).refit(rows(range(10), number).drop("day"))
        with open_store(state) as store:
            if number == 4:  # killed before the file is replaced
                with monkeypatch.context() as patch:
                    step = "manyone.watch.versions._bring_into_use"
                    patch.setattr(step, lambda *_: None)
                    replace_model(store, path, model, {"rows": number})
            elif number == 5:  # killed after that
                with monkeypatch.context() as patch:
                    patch.setattr(store, "start_again", lambda *_: 1 / 0)
                    with pytest.raises(ZeroDivisionError):
                        replace_model(store, path, model, {"rows": number})
            else:
                replace_model(store, path, model, {"rows": number})
        with open_store(state) as store:
            assert complete(store, path) == (number in (4, 5))
        with open_store(state) as store:
            assert not complete(store, path)
            monitor = store.monitor(
                load(path), None
            )  # refuses a state of another model
            assert monitor.state.rows.sum() == 0
        if number == 2:
            kept_first = state.parent / "fleet.manyone.versions" / "0001.manyone"
            assert kept_first.read_bytes() == first
    names = sorted(p.name for p in (state.parent / "fleet.manyone.versions").iterdir())
    assert names == [
        f"{n:04}.{kind}" for n in range(3, 8) for kind in ("json", "manyone")
    ]
    facts = json.loads((state.parent / "fleet.manyone.versions/0007.json").read_text())
    assert facts["rows"] == 7 and facts["replaces"] == "0006.manyone"
    with read_store(state) as store:
        assert store.last_row == len(table)


def test_an_incident_goes_on_under_another_model(watched, champion):
    """A fault that began before a refit, and lasts, is one incident with one id."""
    state, table, _ = watched
    path = state.parent / "fleet.manyone"
    fault = rows(range(DAYS, DAYS + 6), 5).with_columns(
        a=pl.when(pl.col("machine") == "m1").then(pl.col("a") + 12.0).otherwise("a")
    )
    before = pl.col("day") < DAYS + 3
    watch = ["watch", "fleet.manyone", "fault.csv", "--state", str(state)]
    fault.filter(before).drop("day").write_csv("fault.csv")
    assert main(watch) == 0
    wanted = "SELECT id, alarms FROM incidents WHERE task = 'm1' AND stands_out = 1"
    with open_store(state) as store:
        ((first),) = store.query(wanted)
        other = deepcopy(champion).refit(table.drop("day"))
        replace_model(store, path, other, {})
    fault.filter(~before).drop("day").write_csv("fault.csv")
    assert main(watch) == 0
    with read_store(state) as store:
        ((later),) = store.query(wanted)
    assert later["id"] == first["id"] and later["alarms"] == first["alarms"] + 18
