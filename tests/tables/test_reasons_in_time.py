"""Reasons for faults in time: the right column, and what is wrong with it."""

import numpy as np
import pandas as pd
import pytest

from manyone import IndependentOCKSR, TableModel

METHOD = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
SPREAD = {"flow": 8.0, "heat": 2.0, "volt": 0.5}
TRAINED = 300
# Rows of the fault, counted from the first later row.
FAULT = slice(50, 80)


def machines(seed=0, rows=TRAINED + 100):
    rng = np.random.default_rng(seed)
    tables = []
    for machine in "abcde":
        values = rng.normal(size=(rows, 3)) * [*SPREAD.values()] + [310.0, 20.0, 3.0]
        table = pd.DataFrame(values.round(3), columns=[*SPREAD])
        table["machine"] = machine
        table["when"] = pd.date_range("2026-01-01", periods=rows, freq="h")
        tables.append(table)
    return tables


def with_fault(values, kind, spread):
    """Values of a column with a fault, and its rows."""
    values = values.copy()
    rows = np.arange(len(values))[FAULT]
    noise = np.random.default_rng(1).normal(size=len(rows))
    if kind == "spike":
        rows = rows[:1]
        values[rows] += 8 * spread
    elif kind == "shift":
        values[rows] -= 6 * spread
    elif kind == "stuck":
        values[rows] = values[rows[0]]
    elif kind == "noise":
        values[rows] += 5 * spread * noise
    return values, rows


@pytest.fixture(scope="module")
def model():
    train = pd.concat([table[:TRAINED] for table in machines()], ignore_index=True)
    return TableModel("machine", time="when", history=12, method=METHOD).fit(train)


@pytest.mark.parametrize("column", SPREAD)
@pytest.mark.parametrize("kind", ["spike", "shift", "stuck", "noise"])
def test_the_first_reason_names_the_column_and_what_is_wrong(model, kind, column):
    later = machines()[1][TRAINED:].reset_index(drop=True)
    usual = later[column].mean()
    values, rows = with_fault(later[column].to_numpy(), kind, SPREAD[column])
    scores = model.score(later.assign(**{column: values}), explain=3)
    assert scores["alarm"][rows].any()
    reasons = scores["reason_1"][rows]
    told = reasons[scores["alarm"][rows] & (np.arange(len(rows)) >= len(rows) // 2)]
    assert told.str.startswith(column).mean() > 0.9
    apart = np.abs(values[told.index] - usual) / SPREAD[column]
    is_far = apart > 5
    about_value = told.str.contains("expected about|rose by|fell by")
    if kind == "stuck":
        assert told.str.contains("has not moved for").mean() > 0.9
    else:
        assert about_value[is_far].all() and is_far.any()
    if kind == "noise":
        assert told[apart < 2].str.contains("swings by").mean() > 0.8
    names = scores.filter(like="reason_").stack()
    assert not names.str.contains("\x1f|difference|_swing|deviation").any()


def test_no_reason_speaks_of_a_swing_that_is_not_known(model):
    later = pd.concat([table[TRAINED:] for table in machines()], ignore_index=True)
    firsts = later.groupby("machine").head(2)
    firsts = firsts.assign(machine=firsts["machine"] + " new")
    reasons = model.explain(firsts, top=3)
    assert len(reasons) == 3 * len(firsts)
    texts = reasons[["value", "expected"]].astype(str)
    assert not texts.apply(lambda each: each.str.contains("nan")).any(axis=None)
