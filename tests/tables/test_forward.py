"""The forward check: against models fitted by hand to the earlier rows."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import manyone
from manyone import IndependentOCKSR, TableModel
from manyone.tables.forward import ForwardCheck, check_forward

METHOD = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)


def fleet(drift=0.0, tasks=5, rows=80, like=0.0, seed=0):
    """Hourly rows of machines, that move so many standard deviations in all."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(tasks, rows, 3))
    x = lfilter([np.sqrt(1 - like**2)], [1, -like], noise, axis=1)
    x += drift * np.linspace(0, 1, rows)[None, :, None]
    table = pd.DataFrame(x.reshape(-1, 3), columns=list("abc"))
    table["machine"] = np.repeat([f"m{k}" for k in range(tasks)], rows)
    hours = pd.date_range("2026-01-01", periods=rows, freq="h")
    table["when"] = np.tile(hours, tasks)
    return table


def fitted(table, **options):
    options = {"time": "when", "method": METHOD, "history": None} | options
    model = TableModel("machine", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(table)


@pytest.mark.parametrize("history", ["auto", None])
@pytest.mark.parametrize("drift", [0.0, 4.0])
def test_it_counts_what_a_model_of_the_earlier_rows_raises(drift, history):
    table = fleet(drift)
    is_earlier = table.groupby("machine").cumcount() < 60
    rate = 0.1
    options = {"alarm_rate": rate, "history": history}
    model = fitted(table.sample(frac=1, random_state=0), **options)
    by_hand = fitted(table[is_earlier], **options)
    alarms = by_hand.score(table[~is_earlier])
    assert model.forward_.raised(rate) == alarms["alarm"].mean()


def test_it_looks_ahead_as_far_as_the_model():
    """Estimates of drift from fewer rows differ, and would make the forecast differ."""
    table = fleet(4.0)
    model = fitted(table)
    assert model.model_.solution_.drift > 0.0
    far = model.forward_.p_value
    solution = model.model_.solution_
    model.model_.solution_ = replace(solution, drift=0.0)
    near = check_forward(model).p_value
    assert np.all(near <= far) and near.mean() < far.mean()


def test_only_drift_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableModel("machine", time="when", history=None, method=METHOD)
        model.fit(fleet(like=0.5))
    with pytest.warns(UserWarning, match="asked 5 %; on the last quarter .* drift"):
        TableModel("machine", time="when", history=None, method=METHOD).fit(fleet(8.0))


def test_rows_known_to_be_abnormal_are_not_counted():
    table = fleet()
    table["bad"] = False
    table.loc[[79, 70, 3], "bad"] = True
    table.loc[79, "a"] = 1e6
    check = fitted(table, outlier="bad").forward_
    assert len(check.codes) == 5 * 20 - 1  # of 78 normal rows the last 19
    assert check.raised(0.05) < 0.15


def test_rows_of_one_time_stay_together():
    table = fleet()
    table["when"] = table.groupby("machine").cumcount() // 16  # 48 to 63, 64 to 79
    assert len(fitted(table).forward_.codes) == 5 * 16


def test_a_group_with_earlier_rows_is_not_tested_with():
    table = fleet()
    table["batch"] = table.groupby("machine").cumcount() // 16
    check = fitted(table, groups="batch").forward_
    assert len(check.codes) == 5 * 16


def test_there_is_none_without_time_or_later_rows():
    table = fleet()
    timeless = TableModel("machine", method=METHOD).fit(table.drop(columns="when"))
    assert timeless.forward_ is None
    few = table[table.groupby("machine").cumcount() < 7]
    assert fitted(few).forward_ is None
    together = table.assign(when=table["when"].min())
    assert fitted(together).forward_ is None


def test_what_forbids_it_is_said():
    table = fleet()[["machine", "when", "a"]]
    table.loc[table.groupby("machine").cumcount() < 60, "a"] = 1.0
    with pytest.warns(
        UserWarning, match="cannot be forecast.*'a' is dropped: constant"
    ):
        model = TableModel("machine", time="when", method=METHOD).fit(table)
    assert model.forward_ is None


def test_it_follows_the_rows_of_the_model(tmp_path):
    table = fleet()
    model = fitted(table)
    manyone.save(model, tmp_path / "model")
    loaded = manyone.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.forward_.p_value, model.forward_.p_value)
    without = fitted(table[table["machine"] != "m0"])
    loaded.forget("m0")
    np.testing.assert_array_equal(loaded.forward_.p_value, without.forward_.p_value)


def test_chance_explains_rows_that_do_not_change():
    rng = np.random.default_rng(0)
    rows = 100
    tasks = 8
    found = []
    for _ in range(200):
        # Thresholds of 100 rows each; later rows resemble the one before.
        noise = lfilter([0.6], [1, -0.8], rng.normal(size=(tasks, 300)), axis=1)
        before = noise[:, :rows]
        later = noise[:, -rows:]
        rank = (before[:, :, None] <= later[:, None, :]).sum(axis=1)
        codes = np.repeat(np.arange(tasks), rows)
        p = (1 + rank.ravel()) / (1 + rows)
        # (1 + 0.8) / (1 - 0.8) rows of such a series count as one, at most.
        check = ForwardCheck(codes, p, tasks, tasks * rows / 9.0)
        found.append(check.differs(0.1))
    assert np.mean(np.array(found) != 0) <= 0.03


def test_the_page_shows_it(tmp_path):
    model = TableModel("machine", time="when", history=None, method=METHOD)
    with pytest.warns(UserWarning, match="drift"):
        model.fit(fleet(8.0))
    for table in (None, fleet(8.0)):
        model.report(tmp_path / "page.html", table)
        text = (tmp_path / "page.html").read_text("utf-8")
        assert "on the last quarter of your own rows" in text


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("ignore", [(), ("when",)])
def test_a_date_that_is_not_named_as_time_is_pointed_at(as_text, ignore):
    table = fleet()
    if as_text:
        table["when"] = table["when"].dt.strftime("%d/%m/%Y %H:%M")
    with pytest.warns(UserWarning, match=r"'when' holds dates.*--time when") as caught:
        TableModel("machine", method=METHOD, ignore=ignore).fit(table)
    assert len(caught) == 1
