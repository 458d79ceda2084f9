"""The past of the rows of tables: made alike at fit, in scores and in streams."""

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import manyone
from manyone import IndependentOCKSR, Monitor, TableModel
from manyone.selection.search import Judged
from manyone.tables import in_time as in_time_module
from manyone.tables.encoder import _limits
from manyone.tables.wording import AboutPast, Words, past_words

METHOD = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
TASKS = 4
TRAINED = 300


def pumps(like, seed=0, rows=TRAINED + 100):
    """Hourly rows of pumps; `like` says how far each resembles the one before."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(TASKS, rows, 2))
    x = noise.copy()
    for k in range(1, rows):
        x[:, k] = like * x[:, k - 1] + np.sqrt(1 - like**2) * noise[:, k]
    table = pd.DataFrame(
        {
            "pump": np.repeat(list("abcd"), rows),
            "when": np.tile(pd.date_range("2026-01-01", periods=rows, freq="h"), TASKS),
            "flow": 300 + 10 * x[..., 0].ravel(),
            "pressure": 5 + x[..., 1].ravel(),
            "valve": rng.choice(["open", "shut"], TASKS * rows),
        }
    )
    place = np.tile(np.arange(rows), TASKS)
    train = table[place < TRAINED].reset_index(drop=True)
    return train, table[place >= TRAINED].reset_index(drop=True)


def in_time(**options):
    usual = {"task": "pump", "time": "when", "method": METHOD, "anomalies": "faults"}
    return TableModel(**usual | options)


@pytest.fixture(scope="module")
def tables():
    return pumps(0.9)


@pytest.fixture(scope="module")
def model(tables):
    return in_time().fit(tables[0])


def test_order_and_blocks_do_not_matter(model, tables):
    later = tables[1].sort_values("when", kind="stable").reset_index(drop=True)
    scores = model.score(later)
    shuffled = later.sample(frac=1, random_state=0)
    np.testing.assert_allclose(
        model.score(shuffled)["score"].sort_index(), scores["score"], atol=1e-12
    )
    past = None
    parts = []
    for start in range(0, len(later), 37):
        rows, past = model.read(later[start : start + 37], past)
        parts.append(model._answer(rows).score)
    np.testing.assert_allclose(np.concatenate(parts), scores["score"], atol=1e-12)


def test_a_past_that_is_not_used_is_not_kept(tables, tmp_path):
    train = tables[0].assign(on=lambda table: np.arange(len(table)) % 3 == 0)
    train["on"] = train["on"].astype(float)  # of two values only these are used
    model = in_time().fit(train)
    manyone.save(model, tmp_path / "m")
    kept = manyone.load(tmp_path / "m").training_.columns
    assert model.encoder_.layout.with_past == ["flow", "pressure"]
    assert [name for name in kept if kept[name].past is not None] == [
        "flow",
        "pressure",
    ]
    fewer = train[train["pump"] != "a"].reset_index(drop=True)
    without = in_time().fit(fewer).score(fewer)
    forgotten = model.forget("a").score(fewer)
    np.testing.assert_allclose(forgotten["score"], without["score"], atol=1e-9)


def test_the_past_of_later_rows_is_what_training_ended_with(model, tables):
    train, later = tables
    together = pd.concat([train, later], ignore_index=True)
    whole = model.score(together)["score"].to_numpy()
    np.testing.assert_allclose(model.score(later)["score"], whole[len(train) :])
    np.testing.assert_allclose(model.score(train)["score"], whole[: len(train)])


def test_streams_continue_however_they_are_cut(model, tables, tmp_path):
    known = tables[1]
    never_seen = known[known["pump"] == "a"].assign(pump="never seen")
    later = pd.concat([known, never_seen]).sort_values("when", kind="stable")
    later = later.reset_index(drop=True)
    whole = Monitor(model).update(later)
    monitor = Monitor(model)
    alarms = []
    for start in range(0, len(later), 29):
        monitor.update(later[:start].tail(3), id=np.arange(max(start - 3, 0), start))
        part = later[start : start + 29]
        ids = np.arange(start, start + len(part))
        alarms.append(monitor.update(part, id=ids).p_value)
        monitor.save_state(tmp_path / "state")
        monitor = Monitor.load_state(tmp_path / "state", model)
    np.testing.assert_array_equal(np.concatenate(alarms), whole.p_value)


def test_a_stream_begins_with_the_first_row_that_has_a_time(model, tables):
    train = tables[0]
    earlier = train[train["pump"] == "a"].head(20).reset_index(drop=True)
    earlier.loc[0, "when"] = pd.NaT
    whole = Monitor(model).update(earlier)
    monitor = Monitor(model)
    parts = [monitor.update(earlier[row : row + 1]).score for row in range(20)]
    np.testing.assert_allclose(np.concatenate(parts)[1:], whole.score[1:])


@pytest.mark.parametrize("like", [0.0, 0.9])
def test_a_column_that_stops_moving_alone_raises_an_alarm_soon(like):
    train, later = pumps(like, seed=3)
    model = in_time().fit(train)
    stuck = later.copy()
    rows = np.flatnonzero(stuck["pump"] == "b")[40:]
    stuck.loc[rows, "pressure"] = stuck.loc[rows[0], "pressure"]
    scores = model.score(stuck, explain=1).loc[rows]
    late = scores[25:]
    assert late["alarm"].all()
    assert late["reason_1"].str.fullmatch(r"pressure has not moved for \d+ rows").all()
    assert late["reason_1"].iloc[0] == "pressure has not moved for 25 rows"
    usual = model.score(later, explain=1)
    assert not usual["reason_1"].str.contains("has not moved").any()


def test_reasons_speak_of_the_past_and_no_made_column_is_named(tables):
    train, later = pumps(0.98, seed=1)
    model = in_time().fit(train)
    row = np.flatnonzero(later["pump"] == "c")[50]
    later.loc[row, "flow"] -= 40.0
    scores = model.score(later, explain=3, keep=["flow"])
    assert scores.loc[row, "alarm"]
    assert scores.loc[row, "reason_1"].startswith("flow fell by ")
    assert "from its recent" in scores.loc[row, "reason_1"]
    shown = [scores, model.explain(later), model.incidents(later)]
    for table in shown:
        text = table.to_csv()
        assert "\x1f" not in text and "difference" not in text


def test_what_is_saved_enrolled_forgotten_and_refitted_keeps_its_past(
    model, tables, tmp_path
):
    train, later = tables
    manyone.save(model, tmp_path / "model")
    loaded = manyone.load(tmp_path / "model")
    expected = model.score(later)
    pd.testing.assert_frame_equal(loaded.score(later), expected)
    cut = later["when"] < later["when"].median()
    loaded.enroll(later[cut])
    ended = loaded.training_.past.past.time
    latest = later[cut].groupby("pump")["when"].max()
    seconds = (latest - pd.Timestamp(0)).dt.total_seconds()
    np.testing.assert_allclose(ended, seconds)
    loaded.forget("a")
    assert loaded.training_.past.tasks.tolist() == ["b", "c", "d"]
    loaded.refit(train)
    np.testing.assert_allclose(loaded.score(later)["score"], expected["score"])


def test_tasks_stay_in_a_refit_beside_a_column_that_is_not_used(tables):
    train, later = tables
    with_serial = train.assign(serial=7)
    used = in_time().fit(with_serial).refit(with_serial[train["pump"] != "a"], keep="a")
    plain = in_time().fit(train).refit(train[train["pump"] != "a"], keep="a")
    pd.testing.assert_frame_equal(used.score(later), plain.score(later))


def test_frames_of_polars_and_whole_numbers_of_time(tables):
    train, later = (
        pl.from_pandas(table).with_columns(pl.col("when").dt.epoch("s"))
        for table in tables
    )
    model = in_time().fit(train)
    expected = in_time().fit(tables[0]).score(tables[1])["score"]
    np.testing.assert_allclose(model.score(later)["score"], expected)


def test_without_a_past_nothing_is_compared(tables):
    train, later = tables
    assert in_time(history=None).fit(train).training_.past is None
    assert in_time(anomalies="strangers").fit(train).training_.past is None
    assert in_time(history=5).fit(train).training_.past.span == 5
    with pytest.raises(ValueError, match=r"history=12 needs the order"):
        in_time(history=12, time=None).fit(train)
    with pytest.raises(ValueError, match='history must be "auto"'):
        in_time(history="yes").fit(train)
    with pytest.raises(ValueError, match="time: there is no column 'when'"):
        in_time().fit(train).score(later.drop(columns="when"))


def test_short_tasks_are_compared_in_time_only_if_somebody_asks(tables):
    short = tables[0].groupby("pump").head(60)
    model = in_time().fit(short)
    assert model.training_.past is None
    assert "fewer than 96 rows" in model.choice_["reason"][0]
    assert in_time(history=12).fit(short).training_.past is not None


@pytest.mark.parametrize("like", [0.0, 0.9])
def test_rows_without_a_past_raise_no_more_than_was_asked(like):
    """After a long gap, and where a table begins anew, values are judged alone."""
    train, later = pumps(like, seed=3)
    model = in_time(alarm_rate=0.1).fit(train)
    assert model.encoder_.layout.maps[0].parts == ("level", "difference", "swing")
    firsts = later.groupby("pump").head(12).index
    with_past = model.score(later)["alarm"][firsts].mean()
    gap = pd.Timedelta(days=200)
    for when in (later["when"] + gap, later["when"] - 3 * gap):
        table = later.assign(when=when)
        without = model.score(table)["alarm"][firsts].mean()
        # The same rows with a past show what chance does with so few.
        assert without <= max(0.1, with_past + 0.05)
    wild = table.copy()
    wild.loc[firsts, "flow"] += 150.0
    assert model.score(wild)["alarm"][firsts].all()


def test_rows_without_a_past_are_no_part_of_the_model(tables):
    train = tables[0]
    strange = train.copy()
    firsts = train.groupby("pump").head(12).index
    strange.loc[firsts, "valve"] = "shut"
    kept = in_time().fit(strange).model_
    assert kept.training_.X.shape[0] <= len(train) - len(firsts)


def test_a_counter_stays_dropped(tables):
    train = tables[0].copy()
    train["energy"] = 7.0 * train.groupby("pump").cumcount()
    columns = in_time().fit(train).columns_
    assert not columns["used"][columns["name"].tolist().index("energy")]


def test_a_counter_has_no_part_in_what_of_the_past_is_used(tables):
    train = tables[0].copy()
    train["energy"] = 7.0 * train.groupby("pump").cumcount()
    model = TableModel("pump", time="when", method="default", anomalies="faults")
    model.fit(train)
    reasons = model.choice_["reason"][model.choice_["chosen"]]
    assert not any("energy" in reason for reason in reasons)
    scores = model.score(tables[1].assign(energy=0.0))["score"]
    again = model.refit(train).score(tables[1].assign(energy=0.0))["score"]
    np.testing.assert_allclose(again, scores, rtol=1e-9)


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_what_of_the_past_is_used_is_chosen_by_faults_in_later_rows(memory):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 150, 3))
    values = noise.copy()
    for k in range(1, 150):
        values[:, k] = memory * values[:, k - 1] + noise[:, k]
    table = pd.DataFrame(values.reshape(-1, 3), columns=["a", "b", "c"])
    table["machine"] = np.repeat(["w", "x", "y", "z"], 150)
    table["when"] = np.tile(np.arange(150.0), 4)
    model = TableModel("machine", time="when", anomalies="faults", method="default")
    model.fit(table)
    choice = pd.DataFrame(model.choice_)
    tried = choice[choice["view"] == "rows in time"].set_index("method")
    assert tried.index.tolist() == ["values and past", "values", "past"]
    assert tried["score"].idxmin() == "values"
    assert tried["chosen"].tolist() == [True, False, False]
    parts = ("level", "difference", "swing")
    assert [each.parts for each in model.encoder_.layout.maps] == [parts] * 3
    again = model.refit(table)
    assert [each.parts for each in again.encoder_.layout.maps] == [parts] * 3
    shuffled = clone(model).fit(table.sample(frac=1, random_state=0))
    assert shuffled.choice_["score"].tolist()[:3] == tried["score"].tolist()


@pytest.mark.parametrize(
    ("best", "parts"), [("values", ("value",)), ("past", ("difference", "swing"))]
)
def test_what_finds_clearly_more_faults_is_used(best, parts, tables, monkeypatch):
    judged = [
        Judged({}, np.array([[0.7, 0.72, 0.71]]) + 0.1 * (name == best), "")
        for name in ("values and past", "values", "past")
    ]
    monkeypatch.setattr(in_time_module, "_judged", lambda *_: judged)
    model = in_time().fit(tables[0])
    chosen = model.choice_["method"][model.choice_["chosen"]]
    assert chosen[0] == best
    flow = model.encoder_.layout.maps[model.encoder_.layout.used.index("flow")]
    assert flow.parts == parts
    assert (model.training_.past is None) == (best == "values")
    assert model.score(tables[1])["alarm"].mean() < 0.15


def test_rows_of_few_days_have_no_past(tables):
    """Rows of one time have one past, however many they are."""
    train = tables[0].assign(when=lambda table: table["when"].dt.normalize())
    days = train["when"] < train["when"].min() + pd.Timedelta(days=10)
    model = TableModel("pump", time="when", method="default", anomalies="faults")
    model.fit(train[days])
    assert model.training_.past is None
    lines = model.choice_["reason"][model.choice_["view"] == "rows in time"]
    assert lines.tolist() == ["no row has 12 earlier times of its task"]


def test_numbers_that_are_objects_have_a_past(tables):
    train, later = (
        table.assign(flow=[Decimal(repr(value)) for value in table["flow"]])
        for table in tables
    )
    model = in_time().fit(train)
    assert model.encoder_.layout.with_past == ["flow", "pressure"]
    plain = in_time().fit(tables[0]).score(tables[1])["score"]
    np.testing.assert_array_equal(model.score(later)["score"], plain)


def test_columns_that_begin_to_move_late_are_used(tables):
    place = tables[0].groupby("pump").cumcount()
    train = tables[0].drop(columns=["pressure", "valve"])
    train.loc[place < 0.9 * TRAINED, "flow"] = 300.0
    model = TableModel("pump", time="when", method="default", anomalies="faults")
    with pytest.warns(UserWarning, match="constant"):  # of the forward check
        model.fit(train)
    assert model.encoder_.layout.used == ["flow"]


def with_drift(table, per_row):
    """The table with a column that moves away from where it was, by so much a row."""
    rng = np.random.default_rng(5)
    place = table.groupby("pump").cumcount()
    drift = per_row * place + rng.normal(size=len(table))
    return table.assign(price=drift)


def test_of_a_column_that_drifts_only_the_past_counts():
    train, later = pumps(0.5)
    both = with_drift(pd.concat([train, later]), 0.05).sort_values(["pump", "when"])
    ends = both.groupby("pump").cumcount() < TRAINED
    model = in_time().fit(both[ends])
    parts = dict(
        zip(model.encoder_.layout.used, model.encoder_.layout.maps, strict=True)
    )
    assert parts["price"].parts == ("difference", "swing")
    assert "level" in parts["flow"].parts
    reasons = model.choice_["reason"][model.choice_["chosen"]]
    assert "only their past counts, of 'price'" in reasons[0]
    # A fault of another column is found, though prices are where none has been.
    rows = both[~ends].copy()
    steady = model.score(rows)["alarm"].mean()
    rows["flow"] += 60.0 * (rows.groupby("pump").cumcount() == 50)
    spikes = (rows.groupby("pump").cumcount() == 50).to_numpy()
    assert steady < 0.15
    assert model.score(rows)["alarm"][spikes].all()


def test_values_that_stay_are_used():
    train, _ = pumps(0.9)
    training = in_time().fit(with_drift(train, 0.0)).training_
    assert in_time_module.drifting_columns(training) == ()


def test_reasons_speak_of_swings_beside_the_usual_ones():
    plain = [Words("7", "6", 7.0, 6.0)] * 3
    past = np.array([[0.0, 0.1, 9.0], [0.0, 3.0, 0.0], [0.0, 0.1, 0.0]])
    usual = np.array([1.5, 1.5, 1.5])
    about = AboutPast(past, ["swing"] * 3, usual, [""] * 3)
    words = past_words("flow", plain, about)
    assert words[0].sentence == "flow has not moved for 9 rows"
    assert words[1].sentence == "flow swings by 3 a row, usually by 1.5"
    assert words[2].sentence == "flow swings by 0.1 a row, usually by 1.5"


def test_reasons_speak_of_seasons():
    plain = [Words("12", "310", 12.0, 310.0)] * 3 + [Words("12", "12", 12.0, 12.0)]
    past = np.array([[-290.0, 1.0, 0.0]] * 4)
    parts = ["level", "difference", "level", "level"]
    when = ["on Sundays", "at 14:00", "", "on Sundays"]
    words = past_words("sales", plain, AboutPast(past, parts, np.ones(4), when))
    assert [each.sentence for each in words] == [
        "sales = 12, usually about 310 on Sundays",
        "sales = 12, lately about 302 at 14:00",
        "",
        "",
    ]


def test_a_row_without_a_past_has_not_stood_still(model, tables):
    alone = tables[0].groupby("pump").head(1)
    scores = model.score(alone, explain=1)
    assert not scores["alarm"].any()
    assert not model.score(alone.assign(pump="new"))["alarm"].any()


def test_a_level_that_stays_counts_up_to_a_limit_that_another_task_goes_beyond():
    train, later = pumps(0.0, seed=2)
    train.loc[train["pump"] == "a", "flow"] += 400.0
    later.loc[later["pump"] == "a", "flow"] += 400.0
    model = in_time().fit(train)
    encoder = model.encoder_
    place = encoder.layout.starts[encoder.layout.used.index("flow")]
    learned = model.training_.settled()
    Z = encoder.encode(learned.columns, learned.codes())
    own = Z[learned.labels == "b", place]
    limit = own.max() + 3.0 * own.std()

    def coordinates(flow, code):
        table = later[later["pump"] == "b"].assign(flow=flow)
        rows, _ = model.read(table)
        return encoder.encode(rows.columns, np.full(len(table), code))[:, place]

    tasks = model.tasks_.tolist()
    stays = coordinates(600.0, tasks.index("b"))
    np.testing.assert_allclose(stays, limit)
    # The other task has such values, those of a third are beyond all.
    assert coordinates(600.0, tasks.index("a")).min() > limit + 1.0
    assert coordinates(600.0, -1).min() > limit + 1.0
    assert coordinates(1000.0, tasks.index("b")).min() > Z[:, place].max()


def test_a_column_that_grows_raises_no_alarms_after_a_gap():
    """A mean from before the gap says nothing of what the column is now."""
    rng = np.random.default_rng(0)
    tasks, rows = 8, 240
    hour = np.tile(np.arange(rows), tasks)
    room = np.repeat(rng.uniform(20.0, 60.0, tasks), rows)
    table = pd.DataFrame(
        {
            "server": np.repeat([f"s{number}" for number in range(tasks)], rows),
            "when": hour,
            "cpu": rng.normal(40.0, 5.0, tasks * rows),
            "latency": rng.normal(8.0, 1.0, tasks * rows),
            "disk": room + 0.03 * hour + rng.normal(0.0, 0.02, tasks * rows),
        }
    )
    model = TableModel("server", time="when", method=METHOD, anomalies="faults")
    model.fit(table[table.when < 200])
    later = table[table.when >= 200]
    first = later[later.when < 212]
    moved = first.assign(when=first.when + 48, disk=first.disk + 0.03 * 48)
    assert model.score(moved).alarm.mean() <= 0.1


def test_a_column_that_stands_still_raises_alarms_though_it_moves_in_bursts():
    """Its swing is often small: in standard deviations none would be unusual."""
    rng = np.random.default_rng(0)
    tasks, rows = 10, 300
    phase = 2 * np.pi * (np.arange(rows) / 60 + rng.random((tasks, 1)))
    noise = rng.normal(size=(2, tasks, rows))
    table = pd.DataFrame(
        {
            "flow": (noise[0] * np.exp(1.5 * np.sin(phase))).ravel(),
            "pressure": noise[1].ravel(),
            "pump": np.repeat(np.arange(tasks), rows),
            "when": np.tile(np.arange(rows), tasks),
        }
    )
    later = table[table["when"] >= 240].reset_index(drop=True)
    model = in_time(alarm_rate=0.05).fit(table[table["when"] < 240])
    stuck = later.assign(flow=later.groupby("pump")["flow"].transform("first"))
    usual = model.score(later)["alarm"].to_numpy().reshape(tasks, 60)
    alarm = model.score(stuck)["alarm"].to_numpy().reshape(tasks, 60)
    assert usual.mean() <= 0.05
    assert alarm[:, 20:].mean() > 0.95


def test_alarms_end_with_the_fault_and_a_level_that_stays_is_learned():
    """However rows come, and what a monitor remembers is not the fault."""
    train, later = pumps(0.9)
    model = in_time().fit(train)
    place = later.groupby("pump").cumcount().to_numpy()
    usual = model.score(later)["alarm"].to_numpy()
    is_bad = (place >= 20) & (place < 32)
    flow = later["flow"].to_numpy()
    spoiled = later.assign(flow=flow + 200.0 * is_bad).sort_values("when")
    alarm = model.score(spoiled)["alarm"].sort_index().to_numpy()
    assert alarm[is_bad].all()
    assert (alarm & ~usual)[place >= 32].sum() <= 0.05 * (place >= 32).sum()
    monitor = Monitor(model)
    cuts = np.linspace(0, len(spoiled), 30).astype(int)
    parts = [monitor.update(spoiled[a:b]).p_value for a, b in pairwise(cuts)]
    whole = Monitor(model).update(spoiled).p_value
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    past = monitor.state.past
    sums = past.past.sums[:, :2, past.names.index("flow")]
    assert np.abs(sums[:, 0] / sums[:, 1] - 300.0).max() < 40.0
    moved = later.assign(flow=flow + 60.0 * (place >= 20))
    rows, _ = model.read(moved)
    difference = rows.columns["flow"].past[:, 0]
    assert np.abs(difference[(place >= 20) & (place < 30)]).min() > 20.0
    assert np.abs(np.median(difference[place >= 60])) < 10.0


def test_limits_of_differences_are_those_of_tasks_with_rows_enough():
    differences = np.concatenate([np.tile([-1.0, 1.0, 2.0], 20), [0.1, -0.1]])
    codes = np.repeat([0, 1], [60, 2])
    limits = _limits(differences[:, None], codes, 2)[..., 0]
    expected = np.array([[-1.5, -1.5, -1.5], [3.0, 3.0, 3.0]])
    np.testing.assert_allclose(limits, expected)
    twice = np.concatenate([differences, 2.0 * differences[:60]])[:, None]
    codes = np.append(codes, np.repeat(2, 60))
    limits = _limits(twice, codes, 3)[..., 0]
    np.testing.assert_allclose(limits[1], [3.0, 6.0, 6.0, 6.0])
    nothing = _limits(differences[60:, None], np.zeros(2, dtype=int), 1)[..., 0]
    assert np.isinf(nothing).all()
