"""Incidents of a table are values of the library that the table came in."""

import numpy as np
import pytest

from fleets import machine_tables
from manyone import TableModel
from manyone.tables.incidents import findings_of, scored_rows

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")

COLUMNS = [
    *("task", "column", "alarms", "rows", "begin", "end"),
    *("by_chance", "stands_out", "worst_row", "reason"),
]


@pytest.fixture(scope="module")
def model_and_table():
    train, test = machine_tables(6, 30, 4, n_test=30, fault_rate=0.0)
    model = TableModel("machine", method="default", random_state=0).fit(train)
    table = test.drop(columns="fault")
    broken = table.index[table.machine == "m2"][5:25]
    table.loc[broken, "b"] += 40.0
    return model, table


def test_a_broken_column_stands_out_with_its_reason(model_and_table):
    model, table = model_and_table
    incidents = model.incidents(table)
    assert isinstance(incidents, pd.DataFrame)
    assert incidents.columns.tolist() == COLUMNS
    first = incidents.iloc[0]
    assert (first.task, first.column, first["rows"]) == ("m2", "b", 30)
    assert first.stands_out and first.by_chance < 0.005
    assert first.reason.startswith("b = ")
    scores = model.score(table)
    rows = scores.row[scores.alarm & (scores.task == "m2")]
    assert (first.begin, first.end) == (rows.min(), rows.max())
    assert incidents.alarms.sum() == scores.alarm.sum()
    assert incidents.by_chance.is_monotonic_increasing


def test_every_library_gets_its_own_table(model_and_table):
    model, table = model_and_table
    wanted = model.incidents(table)
    polars = model.incidents(pl.from_pandas(table))
    assert isinstance(polars, pl.DataFrame)
    assert polars["worst_row"].to_list() == wanted.worst_row.tolist()
    pa = pytest.importorskip("pyarrow")
    arrow = model.incidents(pa.Table.from_pandas(table, preserve_index=False))
    assert isinstance(arrow, pa.Table)
    assert arrow["by_chance"].to_pylist() == wanted.by_chance.tolist()


def test_blocks_of_scores_show_what_the_whole_table_shows(model_and_table):
    model, table = model_and_table
    frame = pl.from_pandas(table)
    blocks = []
    for first in range(0, len(frame), 70):
        block, _ = model.read(frame[first : first + 70])
        blocks.append(scored_rows(model, block, model._answer(block), first))
    joined = findings_of(model, blocks).incidents
    whole = model.incidents(frame)
    assert [i.worst_row for i in joined] == whole["worst_row"].to_list()
    by_chance = [incident.by_chance for incident in joined]
    np.testing.assert_allclose(by_chance, whole["by_chance"].to_list(), rtol=1e-9)


def test_unknown_tasks_and_whole_numbers_as_names(model_and_table):
    _, table = model_and_table
    numbered = table.assign(machine=table.machine.str[1:].astype(int))
    model = TableModel("machine", method="default", random_state=0).fit(numbered)
    new = numbered.assign(machine=numbered.machine.replace(2, 77))
    new.loc[new.machine == 77, "c"] += 99.0
    incidents = model.incidents(new)
    unknown = incidents[incidents.task.astype(str) == "77"]
    assert len(unknown) > 0
    assert not unknown.stands_out.any()
    polars = model.incidents(pl.from_pandas(new))
    assert polars.schema["task"] == pl.String
    assert polars["task"].to_list() == incidents.task.astype(str).tolist()


def test_incidents_go_by_the_p_values_of_the_model(model_and_table):
    model, table = model_and_table
    rows, _ = model.read(table)
    block = scored_rows(model, rows, model._answer(rows))
    rows = findings_of(model, [block]).rows
    np.testing.assert_array_equal(rows.rank_p, rows.p_value)
    assert rows.rank_p.min() < 1 / len(model.tasks_)
