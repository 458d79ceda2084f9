"""Seasons of tables: chosen where they pay, alike at fit, in scores and in streams."""

from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import manyone
from manyone import IndependentOCKSR, Monitor, TableModel
from manyone.tables.summary import summary_of

METHOD = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
TRAINED = 168
DAYS = TRAINED + 42
SUNDAY = 6


def shops(seed=0, days=DAYS, is_seasonal=True):
    """Days of shops that sell a third on weekends; the heat has no season."""
    rng = np.random.default_rng(seed)
    when = pd.date_range("2026-01-05", periods=days, freq="D")
    usual = np.where((when.day_of_week >= 5) & is_seasonal, 100.0, 300.0)
    tables = [
        pd.DataFrame(
            {
                "shop": shop,
                "when": when,
                "sales": usual * (1 + 0.1 * number) + 8 * rng.normal(size=days),
                "heat": 20 + 2 * rng.normal(size=days),
            }
        )
        for number, shop in enumerate("abcd")
    ]
    return pd.concat(tables, ignore_index=True)


def split(table):
    """Training rows, and later ones."""
    is_early = table["when"] < table["when"].min() + pd.Timedelta(days=TRAINED)
    later = table[~is_early].sort_values("when", kind="stable")
    return table[is_early].reset_index(drop=True), later.reset_index(drop=True)


def unfitted(**options):
    usual = {"task": "shop", "time": "when", "method": METHOD, "anomalies": "faults"}
    return TableModel(**usual | options)


def said_of_seasons(model):
    """Lines of `choice_` about seasons: what was chosen, and why."""
    choice = pd.DataFrame(model.choice_)
    lines = choice[(choice["view"] == "seasons") & (choice["reason"] != "")]
    return lines["method"].tolist(), lines["reason"].tolist()


@pytest.fixture(scope="module")
def tables():
    return split(shops())


@pytest.fixture(scope="module")
def model(tables):
    return unfitted().fit(tables[0])


def test_columns_with_a_season_are_found_and_named(model):
    methods, reasons = said_of_seasons(model)
    assert methods == ["weekday"]
    assert reasons[0].startswith("later rows of 1 column are ")
    assert model.training_.past.seasonal == ("sales",)
    said = dict(summary_of(model))
    assert said["compared in time"].endswith("'sales', with the same weekday before")


def test_a_sunday_like_a_monday_raises_an_alarm_in_words(model, tables):
    later = tables[1].copy()
    row = np.flatnonzero(
        (later["shop"] == "b") & (later["when"].dt.day_of_week == SUNDAY)
    )[2]
    later.loc[row, "sales"] = 330.0
    scores = model.score(later, explain=1)
    assert scores.loc[row, "alarm"]
    reason = scores.loc[row, "reason_1"]
    assert reason.startswith("sales = 330, ")
    assert reason.endswith(" on Sundays")
    expected = float(reason.split(" about ")[1].split()[0])
    assert abs(expected - 110.0) < 8.0
    plain = unfitted(history=12).fit(tables[0])
    assert not plain.training_.past.season
    assert plain.score(later).loc[row, "p_value"] > scores.loc[row, "p_value"]
    assert model.score(tables[1])["alarm"].mean() < 0.1


def test_order_blocks_and_streams_do_not_matter(model, tables, tmp_path):
    later = tables[1]
    scores = model.score(later)["score"]
    shuffled = model.score(later.sample(frac=1, random_state=0))["score"]
    np.testing.assert_allclose(shuffled.sort_index(), scores, atol=1e-12)
    past = None
    parts = []
    for start in range(0, len(later), 23):
        rows, past = model.read(later[start : start + 23], past)
        parts.append(model._answer(rows).score)
    np.testing.assert_allclose(np.concatenate(parts), scores, atol=1e-12)
    whole = Monitor(model).update(later).score
    monitor = Monitor(model)
    streamed = []
    for start in range(0, len(later), 31):
        streamed.append(monitor.update(later[start : start + 31]).score)
        monitor.save_state(tmp_path / "state")
        monitor = Monitor.load_state(tmp_path / "state", model)
    np.testing.assert_allclose(np.concatenate(streamed), whole, rtol=1e-9)
    np.testing.assert_allclose(whole, scores, rtol=1e-9)
    before = model.training_.past.past.visit.copy()
    Monitor(model).update(later)
    np.testing.assert_array_equal(model.training_.past.past.visit, before)


def test_tables_in_parts_and_saved_models_are_the_same(model, tables, tmp_path):
    train, later = tables
    in_order = train.sort_values("when", kind="stable").reset_index(drop=True)
    read = unfitted().fit(lambda: iter([in_order[:301], in_order[301:]]))
    expected = model.score(later)["score"]
    assert read.training_.past.seasonal == ("sales",)
    np.testing.assert_allclose(read.score(later)["score"], expected, atol=1e-9)
    manyone.save(model, tmp_path / "model")
    loaded = manyone.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.score(later)["score"], expected)
    loaded.refit(train)
    np.testing.assert_allclose(loaded.score(later)["score"], expected, atol=1e-9)
    loaded.enroll(later[:40])
    assert loaded.training_.past.season == "weekday"


def test_a_table_that_begins_anew_still_knows_what_is_usual(model, tables):
    rows = tables[0][tables[0]["shop"] == "a"].iloc[[48, 50]].copy()
    assert rows["when"].dt.day_of_week.tolist() == [SUNDAY, 1]
    odd = rows.assign(sales=rows["sales"].to_numpy()[::-1])
    assert (model.score(odd)["score"] < model.score(rows)["score"]).all()


def test_gaps_missing_values_and_unknown_tasks_are_answered(model, tables):
    later = tables[1].copy()
    rng = np.random.default_rng(0)
    later.loc[rng.random(len(later)) < 0.2, "sales"] = np.nan
    later["shop"] = later["shop"].where(rng.random(len(later)) < 0.8, "new")
    later["when"] += np.where(
        np.arange(len(later)) > 80, pd.Timedelta(days=90), pd.Timedelta(0)
    )
    scores = model.score(later[rng.random(len(later)) < 0.7], explain=1)
    assert np.isfinite(scores["score"]).all()
    assert set(scores["basis"]) >= {"pooled", "unknown"}


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_time_zones_and_summer_time(zone):
    train, later = split(shops(seed=1))
    if zone is not None:
        train, later = (
            each.assign(when=each["when"].dt.tz_localize(zone))
            for each in (train, later)
        )
    model = unfitted().fit(train)
    assert model.training_.past.season in ("weekday", "hour of week")
    frame = pl.from_pandas(later)
    np.testing.assert_allclose(
        model.score(frame)["score"].to_numpy(), model.score(later)["score"]
    )


def test_numbers_have_no_hours(model, tables):
    train, later = (
        each.assign(when=(each["when"] - pd.Timestamp(0)).dt.days) for each in tables
    )
    in_numbers = unfitted().fit(train)
    assert said_of_seasons(in_numbers)[1] == [
        "none is used: times are numbers, which have no hours and weekdays"
    ]
    assert in_numbers.training_.past.season == ""
    with pytest.raises(ValueError, match="'when' holds numbers, and the rows before"):
        model.score(later)


def test_groups_that_come_again_leave_no_later_rows(tables):
    train = tables[0].assign(crew=lambda table: table["when"].dt.day % 2)
    model = unfitted(groups="crew").fit(train)
    methods, reasons = said_of_seasons(model)
    assert methods == [""]
    assert "every group has earlier rows" in reasons[0]


def test_where_no_season_pays_none_is_used_and_it_is_said(tables):
    train, _ = split(shops(seed=2, is_seasonal=False))
    assert said_of_seasons(unfitted().fit(train))[1] == [
        "none is used: values at the same hour or weekday are no closer than others"
    ]
    hours = tables[0].groupby("shop").head(120).copy()
    hours["when"] = pd.date_range("2026-01-05", periods=120, freq="h").tolist() * 4
    assert said_of_seasons(unfitted().fit(hours))[1] == [
        "none is used: a usual task shows fewer than 5 days or weeks"
    ]


def assert_same_past(model, other):
    """Two models, one of which was fitted at once, go on from the same rows."""
    past, wanted = model.training_.past, other.training_.past
    assert past.is_like(wanted)
    assert past.tasks.tolist() == wanted.tasks.tolist()
    for name, values in vars(wanted.past).items():
        np.testing.assert_allclose(getattr(past.past, name), values, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("history", ["auto", 12])
def test_upkeep_leaves_the_past_that_a_fit_would_have(tables, history):
    train, later = tables
    first = later[later["when"] < later["when"].median()]
    both = pd.concat([train, first], ignore_index=True)
    in_whole = unfitted(history=history).fit(both)
    assert bool(in_whole.training_.past.season) == (history == "auto")
    model = unfitted(history=history).fit(train)
    older = train.assign(when=train["when"] - pd.Timedelta(days=400))
    new = first[first["shop"] == "a"].assign(shop="new")
    assert_same_past(deepcopy(model).enroll(first), in_whole)
    assert_same_past(deepcopy(model).refit(both), in_whole)
    without = train[train["shop"] != "b"]
    forgotten = deepcopy(model).forget("b")
    assert_same_past(forgotten, clone(model).fit(without))
    # Nothing of it is left: its rows have no more past than those of a new shop.
    rows = first[first["shop"] == "b"]
    unlabelled = forgotten.score(rows.assign(shop="x"))
    np.testing.assert_array_equal(forgotten.score(rows)["score"], unlabelled["score"])
    enrolled = deepcopy(model).enroll(new)
    assert enrolled.training_.past.tasks.tolist() == [*"abcd", "new"]
    assert_same_past(enrolled.forget("new"), model)
    if history == 12:  # days that came before others change nothing but the season
        assert_same_past(deepcopy(model).enroll(older), model)
