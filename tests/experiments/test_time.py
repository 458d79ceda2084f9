"""Machines in the course of time: which rows are drawn, and who gets the past."""

import numpy as np
import pytest

from manyone.experiments import data
from manyone.experiments.cells import ALARM_RATES, compute
from manyone.experiments.methods import (
    DEFAULT,
    WITHOUT_PAST,
    compared,
    is_of_package,
)
from manyone.experiments.plan import Cell, Plan
from manyone.experiments.protocols import (
    FAULT,
    LEARN,
    NORMAL,
    FaultProtocol,
    TimeProtocol,
)
from manyone.history.transformer import TaskHistory

PROTOCOL = TimeProtocol(40, n_test=50)


@pytest.fixture
def rows():
    """Three machines of 200 rows: 100 to learn from, faults at the end."""
    rng = np.random.default_rng(0)
    task = np.repeat(["a", "b", "c"], 200)
    place = np.tile(np.arange(200), 3)
    X = rng.normal(size=(600, 2)) + 4.0 * (place >= 180)[:, None]
    later = place >= 100
    fault = place >= 180
    roles = LEARN * ~later + NORMAL * (later & ~fault) + FAULT * fault
    return data.Rows(X, task, roles.astype(np.uint8))


def test_tasks_learn_from_a_stretch_and_are_tested_with_what_follows(rows):
    split = PROTOCOL.split(*rows, seed=0)
    for label in split.tasks:
        train = split.train[split.task == label]
        assert len(train) == 40 and np.all(np.diff(train) > 0)
        assert np.ptp(train) == 74  # three quarters of a hundred rows
        test = split.test[split.judged == label]
        assert len(test) == 50 and test.min() > train.max()
        assert np.all(rows.task[test] == label)
    np.testing.assert_array_equal(split.anomalous, rows.roles[split.test] == FAULT)
    other = PROTOCOL.split(*rows, seed=1)
    assert set(split.train) != set(other.train)
    assert PROTOCOL.smaller(5) == TimeProtocol(40, n_test=10)


def test_every_method_comes_with_the_past_and_without():
    names = [method.name for method in compared("time")]
    with_past = [name for name in names if not name.endswith(WITHOUT_PAST)]
    assert {name + WITHOUT_PAST for name in with_past} | set(with_past) == set(names)
    assert is_of_package("auto (faults)" + WITHOUT_PAST)
    assert not is_of_package("1-NN (L1)" + WITHOUT_PAST)


@pytest.fixture
def valves(rows, monkeypatch):
    """The machines, in place of the valves."""
    rows_in_time = rows._replace(X=TaskHistory().fit_transform(rows.X, task=rows.task))
    monkeypatch.setattr(data, "load", lambda name, home=None: rows)
    monkeypatch.setattr(data, "in_time", lambda name, home=None: rows_in_time)
    return rows_in_time


@pytest.mark.parametrize("name", ["OCKSR (adaptive)", "1-NN (L1), own scales"])
def test_without_the_past_nobody_looks_at_it(name, valves):
    cell = Cell("valves", "time", name + WITHOUT_PAST, name, DEFAULT, 0, 0)
    result = compute(cell)
    assert min(result["auc"]) > 0.9
    valves.X[:, 2:] = np.random.default_rng(1).normal(size=(600, 4))
    again = compute(cell)
    assert again["auc"] == result["auc"] and again["alarms"] == result["alarms"]


def test_alarm_rates_are_means_over_tasks(valves):
    cell = Cell("valves", "time", "OCKSR (adaptive)", "OCKSR", DEFAULT, 0, 0)
    result = compute(cell)
    assert len(result["auc"]) == 3 and min(result["auc"]) > 0.9
    method = next(m for m in compared("time") if m.name == "OCKSR (adaptive)")
    X, split = data.draw("valves", cell.sizes, (0, 0))
    model = method.fit(X[split.train], split.task, "time")
    rows = split.test[~split.anomalous]
    task = split.judged[~split.anomalous]
    for rate, share in zip(ALARM_RATES, result["alarms"], strict=True):
        alarm = model.recalibrate(rate).decision_function(X[rows], task=task) < 0
        shares = [np.mean(alarm[task == label]) for label in split.tasks]
        assert share == pytest.approx(np.mean(shares))


def test_the_plan_of_time_has_its_own_methods_and_no_studies():
    plan = Plan(("valves",), ("time",), 2)
    cells = plan.cells()
    assert {cell.method for cell in cells} == {m.name for m in compared("time")}
    assert len(cells) == 2 * len(compared("time"))
    assert data.names("time") == ("servers", "spacecraft", "turbofan", "valves")
    protocols = data.DATASETS["valves"].protocols
    assert isinstance(protocols["faults"], FaultProtocol)
    assert isinstance(protocols["time"], TimeProtocol)
