"""Reasons name the column that was changed, and what it should have been."""

import numpy as np
import pandas as pd
import pytest

from fleets import machine_tables
from manyone import CombinedOneClass, IndependentOCKSR, TableModel
from manyone.metric.reasons import find_reasons, precision
from manyone.metric.shrinkage import task_whitenings
from manyone.tables.explain import Explanation
from manyone.tables.wording import plain_text

FAST = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
NAMES = list("abcdefgh")


@pytest.fixture(scope="module")
def fleet():
    table, _ = machine_tables(15, 60, 8)
    train = table.groupby("machine").head(20)
    test = table.groupby("machine").tail(40)
    spread = train.groupby("machine")[NAMES].std()
    return TableModel("machine", method=FAST, alarm_rate=0.1).fit(train), test, spread


def planted(test, spread, size, seed=0):
    """Rows with one column off by some within-task standard deviations, and which."""
    rng = np.random.default_rng(seed)
    rows = test.iloc[rng.permutation(len(test))[:300]].copy()
    column = rng.integers(len(NAMES), size=len(rows))
    sign = rng.choice([-1, 1], size=len(rows))
    values = rows[NAMES].to_numpy().copy()
    unit = spread.loc[rows.machine].to_numpy()
    place = np.arange(len(rows))
    truth = values[place, column].copy()
    values[place, column] += size * sign * unit[place, column]
    rows[NAMES] = values
    return rows, column, truth, unit[place, column]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1720.34, 6, "1720.34"),
        (1577.3, 3, "1577"),
        (-12345678.9, 6, "-12345679"),
        (0.1234, 3, "0.123"),
        (2.5e-9, 3, "2.5e-09"),
        (1e300, 6, "1e+300"),
        (0.0, 3, "0"),
        (np.inf, 3, "inf"),
    ],
)
def test_numbers_are_written_as_people_write_them(value, digits, text):
    assert plain_text(value, digits) == text


def test_a_column_far_off_is_named_first(fleet):
    model, test, spread = fleet
    rows, column, truth, unit = planted(test, spread, 8.0)
    found = model.explain(rows, top=3)
    first = found[found["rank"] == 1]
    right = first.column.to_numpy() == np.array(NAMES)[column]
    assert right.mean() > 0.95
    # The value that the other columns make one expect is close to what it was.
    error = np.abs(first.expected.astype(float).to_numpy() - truth) / unit
    assert np.median(error[right]) < 1.0


@pytest.mark.parametrize("widest", [np.inf, 0.5])
def test_a_correction_is_the_conditional_mean_within_what_was_seen(widest):
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5)) + codes[:, None]
    metric = task_whitenings(X, codes, np.ones(60), 2, 2.0, 20.0)
    Z = X[:4] + 1.0
    P = precision(metric, 0)
    source = np.array(
        [0, 1, 1, 2, -1]
    )  # a column of two coordinates, a coordinate of none
    low = metric.mean[0] - widest
    high = metric.mean[0] + widest
    reasons = find_reasons(metric, Z, np.zeros(4, dtype=np.intp), source, low, high)
    C = np.linalg.inv(P)
    for column in range(3):
        block = np.flatnonzero(source == column)
        rest = np.setdiff1d(np.arange(5), block)
        away = Z[:, rest] - metric.mean[0][rest]
        mean = away @ np.linalg.solve(C[np.ix_(rest, rest)], C[np.ix_(rest, block)])
        likely = np.clip(mean, -widest, widest) + metric.mean[0][block]
        np.testing.assert_allclose(reasons.expected[:, block], likely)
        better = Z.copy()
        better[:, block] = reasons.expected[:, block]
        far, near = (
            np.einsum("ij,jk,ik->i", a, P, a)
            for a in (Z - metric.mean[0], better - metric.mean[0])
        )
        np.testing.assert_allclose(reasons.gain[:, column], far - near)


def test_reasons_stand_beside_alarms_only(fleet):
    model, test, spread = fleet
    rows, column, _, _ = planted(test, spread, 8.0)
    scores = model.score(rows, explain=2)
    assert list(scores.columns[-2:]) == ["reason_1", "reason_2"]
    assert (scores.reason_1[~scores.alarm] == "").all()
    text = scores.reason_1[scores.alarm]
    assert text.str.fullmatch(r"[a-h] = \S+, expected about \S+").all()


@pytest.mark.parametrize("size", [60.0, 1e300])
@pytest.mark.parametrize("trained", [False, True])
def test_a_wild_value_makes_no_other_one_unexpected(size, trained):
    """Further reasons of a row are those of the row without the wild column."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    table["m"] = np.arange(300) % 5
    table["d"] = 2 * table.a + 0.01 * rng.normal(size=300)
    if trained:
        table.loc[7, "b"] = 1e300
    model = TableModel("m", method=FAST).fit(table)
    rows = table.head(20).assign(a=size)
    rows.loc[5:9, "c"] = 1e300
    found = model.explain(rows, top=4)
    beyond = found[found.column.isin(["a", "c"]) & (found.value.astype(float) >= size)]
    assert (beyond["rank"] <= 2).all() and len(beyond) == 25
    error = (
        beyond[beyond.column == "a"].expected.astype(float).to_numpy()
        - rows.d.to_numpy() / 2
    )
    assert np.abs(error).max() < 0.3  # what d says, and not what a wild c lets expect
    rest = found[found.column == "d"]
    near = rest.expected.astype(float).to_numpy() - rest.value.astype(float).to_numpy()
    assert np.abs(near).max() < 1.0
    assert (model.score(rows.head(5), explain=2).reason_2 == "").all()
    both = model.score(rows.head(5).assign(a=1e300, d=1e300), explain=2)
    assert both.reason_2.str.contains(" = 1e+300, expected about", regex=False).all()


def test_views_and_nearest_rows_are_named(fleet):
    _, test, _ = fleet
    table = test.copy()
    model = TableModel("machine", method=CombinedOneClass(), alarm_rate=0.1).fit(table)
    found = model.explain(table.iloc[[5]], top=1)
    assert set(found["view"]) <= {"strangers", "faults"}
    assert (
        found.nearest.iloc[0].split(", ")[0] == "5"
    )  # a training row is closest to itself


def test_words_for_levels_dates_gaps_and_truths():
    rng = np.random.default_rng(0)
    n = 400
    table = pd.DataFrame(
        {
            "m": rng.choice(["a", "b"], n),
            "x": rng.normal(size=n),
            "kind": rng.choice(["red", "blue"], n, p=[0.9, 0.1]),
            "on": rng.random(n) < 0.05,
            "when": pd.date_range("2024-01-01 08:00", periods=n, freq="24h")
            + pd.to_timedelta(rng.integers(0, 3, n), "h"),
        }
    )
    model = TableModel("m", method=FAST, alarm_rate=0.1).fit(table)
    rows = table.iloc[:3].assign(kind=["violet", "red", "red"], x=[0.0, np.nan, 0.0])
    rows["when"] = pd.to_datetime(
        ["2030-01-01 09:00", "2030-01-01 09:00", "2030-01-02 21:00"]
    )
    reasons = model.score(rows, explain=1)
    assert reasons.alarm.all()
    assert reasons.reason_1[0] == "kind = violet, expected about red"
    assert reasons.reason_1[1].startswith("x is empty (usually about ")
    assert reasons.reason_1[2].startswith("when = 2030-01-02 21:00:00, expected about ")


def test_nothing_is_expected_where_there_mostly_is_nothing():
    rng = np.random.default_rng(0)
    note = rng.choice(["", "ok", "oil"], 400, p=[0.9, 0.05, 0.05])
    table = pd.DataFrame(
        {"m": np.repeat(["a", "b"], 200), "x": rng.normal(size=400), "note": note}
    )
    model = TableModel("m", method=FAST).fit(table)
    rows = table.iloc[:1].assign(x=0.0, note="ok")
    (first,) = model.explain(rows, top=1).to_dict("records")
    assert (first["column"], first["value"], first["expected"]) == (
        "note",
        "ok",
        "missing",
    )
    told = Explanation(
        column=np.array([["note", "note", "x"]], dtype=object),
        value=np.array([["missing", "ok", "missing"]], dtype=object),
        expected=np.array([["missing", "missing", "2.5"]], dtype=object),
        number=np.full((1, 3), np.nan),
        expected_number=np.array([[np.nan, np.nan, 2.5]]),
        share=np.array([[0.5, 0.3, 0.2]]),
        view=np.array(["faults"]),
        nearest=np.array(["1"]),
        sentence=np.full((1, 3), "", dtype=object),
        depth=np.zeros(1),
    ).sentences()
    assert told.tolist() == [
        ["note = ok (usually empty)", "x is empty (usually about 2.5)", ""]
    ]


def test_fields_that_are_empty_together_are_told_from_fields_that_always_are():
    """A reason "y = missing, expected about missing" says nothing, and once led."""
    rng = np.random.default_rng(1)
    names = ["y", "z"]
    table = pd.DataFrame(rng.normal(5, 1, (400, 3)), columns=["x", *names])
    table["m"] = np.repeat(["a", "b"], 200)
    table.loc[table.m == "a", names] = np.nan
    model = TableModel("m", method=FAST, alarm_rate=0.1).fit(table)
    rows = table[table.m == "b"].head(40).assign(y=np.nan, z=np.nan)
    found = model.score(rows, explain=3)
    assert found.alarm.all()
    assert found.reason_1.str.fullmatch(r"[yz] is empty \(usually about \S+\)").all()
    rows = table[table.m == "a"].head(40).assign(x=20.0)
    found = model.score(rows, explain=3)
    assert found.alarm.all()
    assert found.reason_1.str.startswith("x = 20").all()
    assert (found[["reason_2", "reason_3"]] == "").all(axis=None)
