"""What comes back fits what was given: its index, its types, its rows, and its ids."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import is_outlier_detector
from sklearn.model_selection import GridSearchCV, cross_val_predict

from fleets import machine_tables
from manyone import IndependentOCKSR, TableModel
from manyone.tables.errors import SkippedRowsWarning, TableError
from manyone.tables.frames import as_table, read_column

COLUMNS = ["row", "task", "score", "p_value", "alarm", "basis"]
FAST = IndependentOCKSR(metric="whitened", kernel="laplacian")


def numbered_fleet():
    """Shops 8, 9, ...: numbers that name tasks."""
    tables = machine_tables(5, 25, 3)
    for table in tables:
        table["shop"] = table.pop("machine").str.removeprefix("m").astype(int) + 8
    return tables


@pytest.fixture(scope="module")
def fitted():
    train, test = numbered_fleet()
    return TableModel("shop", method=FAST, alarm_rate=0.1).fit(train), train, test


# ------------------------------------------------------------------------------- index


def test_the_index_of_pandas_is_kept(fitted):
    """Assigned by index, alarms landed on other rows."""
    model, _, test = fitted
    shuffled = test.sample(frac=1, random_state=0).set_axis(
        [f"r{k}" for k in range(len(test))]
    )
    scores = model.score(shuffled, keep=["fault"], explain=1)
    assert scores.index.equals(shuffled.index)
    assert scores.row.tolist() == list(range(len(test)))
    assert scores.fault.equals(shuffled.fault)
    assigned = shuffled.assign(alarm=scores.alarm)
    assert assigned.alarm.tolist() == scores.alarm.tolist()
    straight = model.score(shuffled.reset_index(drop=True))
    assert straight.alarm.tolist() == scores.alarm.tolist()


def test_rows_that_are_skipped_take_their_index_with_them(fitted):
    model, _, test = fitted
    rows = test.head(6).set_axis(list("uvwxyz"))
    rows["shop"] = [8, 999, 8, 9, 999, 9]
    with pytest.warns(SkippedRowsWarning, match="2 rows of unknown tasks skipped"):
        scores = model.score(rows, unknown="skip", keep=["a"])
    assert scores.index.tolist() == ["u", "w", "x", "z"]
    assert scores.row.tolist() == [0, 2, 3, 5]
    assert scores.a.tolist() == rows.a[["u", "w", "x", "z"]].tolist()


def test_explain_repeats_the_index(fitted):
    model, _, test = fitted
    rows = test.head(2).set_axis(["u", "v"])
    found = model.explain(rows, top=2)
    assert found.index.tolist() == ["u", "u", "v", "v"]
    assert found.row.tolist() == [0, 0, 1, 1]


# ----------------------------------------------------------------------------- no rows


@pytest.mark.parametrize(
    "library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas]
)
def test_no_rows_have_empty_answers_with_all_columns(fitted, library):
    model, train, test = fitted
    empty = library(test.iloc[:0])
    scores = model.score(empty, explain=2, keep=["a"], fdr=0.1)
    names = getattr(scores, "column_names", None) or list(scores.columns)
    assert names == [*COLUMNS, "a", "reason_1", "reason_2"]
    assert len(scores) == 0 and type(scores) is type(empty)
    full = model.score(library(test), explain=2, keep=["a"])
    kinds = [
        str(
            scores[name].dtype if library != pa.Table.from_pandas else scores[name].type
        )
        for name in names
    ]
    wanted = [
        str(full[name].dtype if library != pa.Table.from_pandas else full[name].type)
        for name in names
    ]
    assert kinds == wanted
    assert len(model.explain(empty, top=2)) == 0
    assert model.predict(empty).shape == model.pvalues(empty).shape == (0,)
    with pytest.raises(ValueError, match="table has no rows"):
        TableModel("shop").fit(library(train.iloc[:0]))


# ------------------------------------------------------------------------ scikit-learn


def test_what_scikit_learn_calls_agrees_with_the_table(fitted):
    model, _, test = fitted
    rows = pd.concat([test, test.head(9).assign(shop=999)], ignore_index=True)
    scores = model.score(rows)
    assert set(scores.basis) >= {"unknown"}
    assert np.array_equal(model.predict(rows) == -1, scores.alarm)
    assert np.array_equal(model.score_samples(rows), scores.score)
    assert np.array_equal(model.pvalues(rows), scores.p_value)
    assert np.array_equal(model.decision_function(rows) < 0, scores.alarm)
    assert is_outlier_detector(model)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3


def test_tools_of_scikit_learn_take_a_table_model():
    train, _ = numbered_fleet()
    y = np.ones(len(train))
    model = TableModel("shop", method="default", alarm_rate=0.1)
    found = cross_val_predict(model, train, y, cv=3)
    assert set(found) <= {-1, 1} and found.mean() > 0.5
    bad = np.arange(len(train)) % 9 == 0
    rows = train.assign(a=train.a + 40.0 * bad, bad=bad)
    model.set_params(outlier="bad")
    search = GridSearchCV(
        model, {"anomalies": ["faults", "any"]}, scoring="roc_auc", cv=3
    )
    search.fit(rows, np.where(bad, -1, 1))
    assert search.best_score_ > 0.9
    assert set(search.predict(rows)) == {-1, 1}
    assert model.fit_predict(rows).shape == (len(rows),)


# -------------------------------------------------------------------------------- ids


AS = {
    "int": lambda frame: frame,
    "str": lambda frame: frame.astype({"shop": str}),
    "object": lambda frame: frame.astype({"shop": object}),
    "category": lambda frame: frame.astype({"shop": "category"}),
    "text category": lambda frame: frame.astype({"shop": str}).astype(
        {"shop": "category"}
    ),
    "nullable": lambda frame: frame.astype({"shop": "Int64"}),
    "float": lambda frame: frame.astype({"shop": float}),
    "polars": pl.from_pandas,
    "polars texts": lambda frame: pl.from_pandas(frame.astype({"shop": str})),
    "pyarrow": pa.Table.from_pandas,
    "pyarrow texts": lambda frame: pa.Table.from_pandas(frame.astype({"shop": str})),
}


@pytest.mark.parametrize("fitted_as", ["int", "str", "nullable", "polars texts"])
@pytest.mark.parametrize("scored_as", AS)
def test_ids_are_the_same_in_every_type(fitted_as, scored_as):
    train, test = numbered_fleet()
    wanted = TableModel("shop", method=FAST, alarm_rate=0.1).fit(train).pvalues(test)
    model = TableModel("shop", method=FAST, alarm_rate=0.1).fit(AS[fitted_as](train))
    found = model.score(AS[scored_as](test), unknown="error")
    found = found.to_pandas() if hasattr(found, "to_pandas") else found
    assert found.p_value.to_numpy() == pytest.approx(wanted, rel=1e-9)
    assert [str(task) for task in found.task] == [str(shop) for shop in test.shop]


def test_ids_that_are_written_otherwise_are_refused(fitted):
    model, train, test = fitted
    with pytest.raises(TableError, match=r"held numbers when .* holds 'shop 8' now"):
        model.score(test.assign(shop="shop 8"))
    padded = train.assign(shop=[f"{shop:03}" for shop in train.shop])
    texts = TableModel("shop", method=FAST).fit(padded)
    with pytest.raises(TableError, match=r"held texts when .* Convert it"):
        texts.score(test)
    mixed = test.assign(shop=["8", "new"] * (len(test) // 2))
    assert set(model.score(mixed).basis[1::2]) == {"unknown"}


def test_upkeep_takes_ids_in_another_type(fitted):
    _, train, test = fitted
    model = TableModel("shop", method=FAST, alarm_rate=0.1).fit(train[::2])
    model.enroll(train[1::2].astype({"shop": str}))
    at_once = TableModel("shop", method=FAST, alarm_rate=0.1).fit(train)
    assert model.pvalues(test) == pytest.approx(at_once.pvalues(test))
    assert model.forget("8").tasks_.tolist() == at_once.forget(8).tasks_.tolist()


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_moments_are_seconds_since_1970_in_every_library(zone):
    texts = ["2026-01-31 12:00:00.123", "1960-03-01 00:00:00.5", None]
    moments = pd.Series(pd.to_datetime(texts, format="ISO8601")).dt.tz_localize(zone)
    hours = 0.0 if zone is None else 1.0
    wanted = [1769860800.123 - 3600 * hours, -310435199.5 - 3600 * hours, np.nan]
    arrow = pa.table({"when": pa.Array.from_pandas(moments)})
    frame = pd.DataFrame({"when": moments})
    for table in (frame, pl.from_pandas(frame), arrow):
        column = read_column(as_table(table).get_column("when"))
        np.testing.assert_allclose(column.values, wanted, rtol=0, atol=1e-6)
