"""Values missing more often than in training are told, and no others."""

import numpy as np
import pytest

from manyone import TableModel
from manyone.page.fleet_page import fleet_page
from manyone.tables.page import report_of

pd = pytest.importorskip("pandas")


DEAD = "<i>m3"


def rows_of(n, rng, gaps=0.04, tasks=12):
    made = pd.DataFrame(
        rng.normal(size=(tasks * n, 3)), columns=["load", "flow", "heat"]
    )
    made[rng.random(made.shape) < gaps] = np.nan
    names = [DEAD if t == 3 else f"m{t}" for t in range(tasks)]
    return made.assign(machine=np.repeat(names, n))


def gaps_of(model, table):
    return report_of(model, table, "MODEL", "TABLE").gaps


@pytest.fixture(scope="module")
def model():
    train = rows_of(30, np.random.default_rng(0))
    train.loc[train.machine == "m7", "flow"] = np.nan  # never had one
    return TableModel("machine", method="default").fit(train)


def test_a_dead_sensor_is_told(model):
    table = rows_of(16, np.random.default_rng(1))
    table.loc[table.machine.isin([DEAD, "m7"]), "flow"] = np.nan
    table.loc[table.index[:3], "machine"] = "new"
    report = report_of(model, table, "MODEL", "TABLE")
    (words,) = report.gaps
    before = model.training_.take(np.flatnonzero(model.training_.labels == DEAD))
    missing = int(np.isnan(before.columns["flow"].values).sum())
    told = f"flow is missing in 16 of 16 rows of {DEAD} (training: {missing} of 30)"
    assert words == f"{told}: is it still measured?"
    assert words in [step.text for step in report.advice()]
    assert "16 rows of &lt;i&gt;m3 (training" in fleet_page(report)


def test_usual_gaps_are_seldom_told(model):
    found = [
        gaps_of(model, rows_of(16, np.random.default_rng(k))) for k in range(100, 140)
    ]
    # One table in two hundred by chance; m7 has values now, which is no gap.
    assert sum(map(bool, found)) <= 2


def test_many_are_counted(model):
    table = rows_of(16, np.random.default_rng(2))
    table["heat"] = np.nan
    *told, more = gaps_of(model, table)
    assert len(told) == 3
    assert more == "9 more columns of tasks are missing more often, too."
