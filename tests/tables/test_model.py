"""Tables in, tables out: answers for every row, whatever library they come in."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import manyone
from manyone import IndependentOCKSR, TableModel
from manyone.datasets import make_fleet

COLUMNS = ["row", "task", "score", "p_value", "alarm", "basis"]
FAST = IndependentOCKSR(metric="whitened", kernel="laplacian")


def fleet(n_tasks=6, n_samples=25, seed=0):
    data = make_fleet(n_tasks, n_samples, 4, random_state=seed)
    train = pd.DataFrame(data.data, columns=list("abcd"))
    train["machine"] = [f"m{task}" for task in data.task]
    test = pd.DataFrame(data.test_data, columns=list("abcd"))
    test["machine"] = [f"m{task}" for task in data.test_task]
    test["fault"] = data.test_fault
    return train, test


@pytest.fixture(scope="module")
def fitted():
    train, test = fleet()
    return TableModel("machine", method=FAST, alarm_rate=0.1).fit(train), train, test


def test_the_same_library_comes_out(fitted):
    model, _, test = fitted
    pandas = model.score(test, keep=["fault"])
    polars = model.score(pl.from_pandas(test), keep=["fault"])
    arrow = model.score(pa.Table.from_pandas(test), keep=["fault"])
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert isinstance(arrow, pa.Table)
    assert list(pandas.columns) == polars.columns == arrow.column_names == [*COLUMNS, "fault"]
    for name in pandas.columns:
        assert pandas[name].tolist() == polars[name].to_list() == arrow[name].to_pylist()


def test_alarms_are_small_p_values(fitted):
    model, _, test = fitted
    scores = model.score(test)
    rate = model.model_.alarm_rate_.max()
    assert scores.alarm.equals(scores.p_value <= rate)
    assert scores.alarm[test.fault].mean() > 0.5 > 0.3 > scores.alarm[~test.fault].mean()


def test_a_saved_model_says_the_same(fitted, tmp_path):
    model, _, test = fitted
    manyone.save(model, tmp_path / "model.manyone")
    again = manyone.load(tmp_path / "model.manyone")
    pd.testing.assert_frame_equal(model.score(test), again.score(test))
    assert again.calibrated_ == model.calibrated_
    assert again.columns_["name"].tolist() == list("abcd")


def test_forget_is_a_fit_without_the_task(tmp_path):
    train, test = fleet()
    model = TableModel("machine", method=FAST, alarm_rate=0.1).fit(train).forget("m2")
    kept = train[train.machine != "m2"]
    without = TableModel("machine", method=FAST, alarm_rate=0.1).fit(kept)
    rows = test[test.machine != "m2"]
    pd.testing.assert_frame_equal(model.score(rows), without.score(rows))
    assert set(model.score(test[test.machine == "m2"]).basis) == {"unknown"}


def test_enroll_is_a_fit_with_the_rows():
    train, test = fleet()
    first, more = train.iloc[::2], train.iloc[1::2]
    model = TableModel("machine", method=FAST, alarm_rate=0.1).fit(first).enroll(more)
    at_once = TableModel("machine", method=FAST, alarm_rate=0.1).fit(train)
    pd.testing.assert_frame_equal(model.score(test), at_once.score(test))
    assert model.n_rows_ == len(train)


def test_recalibrate_changes_alarms_only(fitted):
    train, test = fleet()
    model = TableModel("machine", method=FAST, alarm_rate=0.1).fit(train)
    before = model.score(test)
    after = model.recalibrate(0.3).score(test)
    assert after.alarm.sum() > before.alarm.sum()
    assert after.score.equals(before.score)
    assert model.calibrated_["alarm_rate"] == 0.3
