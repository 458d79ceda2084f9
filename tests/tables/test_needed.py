"""``explain(needed=True)``: an alarm starts at the value that is told."""

import numpy as np
import pandas as pd
import pytest

from manyone import TableModel


@pytest.fixture(scope="module", params=["faults", "any"])
def model(request):
    rng = np.random.default_rng(1)
    machine = np.repeat(["a", "b", "c", "d"], 50)
    centre = np.repeat(rng.normal(0.0, 30.0, 4), 50)
    table = pd.DataFrame(
        {
            "machine": machine,
            "flow": 300.0 + centre + rng.normal(0.0, 10.0, 200),
            "heat": 50.0 + centre / 10.0 + rng.normal(0.0, 1.0, 200),
            "mode": rng.choice(["x", "y"], 200),
        }
    )
    return TableModel("machine", anomalies=request.param, method="default").fit(table)


def rows_of(model, flows):
    columns = model.training_.columns
    is_b = model.training_.labels == "b"
    heat = float(np.nanmean(columns["heat"].values[is_b]))
    flow = float(np.nanmean(columns["flow"].values[is_b]))
    table = pd.DataFrame({"flow": flow + np.array(flows, float), "heat": heat})
    return table.assign(machine="b", mode="x")


def test_scoring_the_needed_value_changes_the_verdict(model):
    rows = rows_of(model, [0.0, 5.0, -8.0, 200.0, -300.0])
    verdict = model.score(rows)["alarm"].to_numpy()
    assert verdict.tolist() == [False, False, False, True, True]
    told = model.explain(rows, top=3, needed=True)
    assert told["needed"].notna().sum() >= 8
    for line in told[told["needed"].notna()].to_dict("records"):
        row = rows.iloc[[line["row"]]]
        value = float(row[line["column"]].iloc[0])
        at = model.score(row.assign(**{line["column"]: line["needed"]}))
        assert at["alarm"].iloc[0] != verdict[line["row"]]
        # A little nearer to what it was nothing changes.
        nearly = line["needed"] + 1e-6 * (value - line["needed"])
        nearer = model.score(row.assign(**{line["column"]: nearly}))
        assert nearer["alarm"].iloc[0] == verdict[line["row"]]


def test_the_closest_value_of_a_grid_is_not_closer(model):
    """An independent search, value by value."""
    rows = rows_of(model, [4.0])
    told = model.explain(rows, top=2, needed=True).set_index("column")
    flow = float(rows["flow"].iloc[0])
    grid = flow + np.linspace(-100.0, 100.0, 4001)
    table = pd.concat([rows] * len(grid), ignore_index=True).assign(flow=grid)
    alarmed = grid[model.score(table)["alarm"].to_numpy()]
    closest = np.abs(alarmed - flow).min()
    found = abs(told.loc["flow", "needed"] - flow)
    assert closest - 0.051 <= found <= closest + 1e-9


def test_only_numbers_have_a_needed_value_and_only_on_demand(model):
    rows = rows_of(model, [0.0])
    assert "needed" not in model.explain(rows).columns
    told = model.explain(rows, top=3, needed=True).set_index("column")
    assert np.isnan(told.loc["mode", "needed"])
    empty = model.explain(rows[:0], needed=True)
    assert len(empty) == 0 and "needed" in empty.columns


def test_a_missing_value_starts_from_what_was_expected(model):
    rows = rows_of(model, [0.0]).assign(flow=np.nan)
    before = bool(model.score(rows)["alarm"].iloc[0])
    told = model.explain(rows, top=3, needed=True).set_index("column")
    value = told.loc["flow", "needed"]
    assert np.isfinite(value)
    assert bool(model.score(rows.assign(flow=value))["alarm"].iloc[0]) != before
