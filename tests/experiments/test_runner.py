"""Cells: what is planned, what is done to the rows, what is kept."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from manyone import IndependentOCKSR, JointOCKSR, LinearOCKSR, NonlinearOCKSR, SparseOCKSR
from manyone.estimators import METHODS
from manyone.experiments import Plan, methods, run, runner
from manyone.experiments.runner import Cell
from manyone.experiments.tables import summarise


def test_damaged_cells_are_computed_again(tmp_path, monkeypatch):
    computed = []

    def compute(cell, data_home=None):
        computed.append(cell)
        return {"auc": [0.5]}

    monkeypatch.setattr(runner, "compute", compute)
    monkeypatch.setattr(runner, "code_version", lambda: "test")
    plan = Plan(repeats=1)
    run(plan, tmp_path)
    assert computed == plan.cells()
    run(plan, tmp_path)
    assert len(computed) == len(plan.cells())
    (tmp_path / "cells" / f"{computed[3].key}.json").write_text("{")
    run(plan, tmp_path)
    assert computed[len(plan.cells()) :] == [computed[3]]


def test_key_depends_on_everything_declared(monkeypatch):
    monkeypatch.setattr(runner, "code_version", lambda: "1")
    cell = Cell("mnist", "seen", "A", "A", "tuned", 0, 0)
    changes = {"dataset": "face", "protocol": "unseen", "method": "B", "family": "B"}
    changes |= {
        "setting": "alpha=1",
        "seed": 1,
        "repetition": 1,
        "shrink": 2,
        "corruption": "labels=0.1",
    }
    keys = {cell.key} | {replace(cell, **{name: value}).key for name, value in changes.items()}
    monkeypatch.setattr(runner, "code_version", lambda: "2")
    assert len(keys | {cell.key}) == len(changes) + 2


def test_methods_that_fail_leave_the_others_alone(tmp_path, monkeypatch):
    def compute(cell, data_home=None):
        if cell.method == "C-OCKSR":
            raise FloatingPointError("lost")
        return {"auc": [0.5 + cell.repetition / 10]}

    monkeypatch.setattr(runner, "compute", compute)
    outcomes = run(Plan(repeats=2), tmp_path)
    failed = {o.cell.method for o in outcomes if o.error}
    assert failed == {"C-OCKSR"} and "lost" in next(o.error for o in outcomes if o.error)
    assert {row.method for row in summarise(outcomes)} == set(methods()) - failed


@pytest.fixture
def spoilable():
    rng = np.random.default_rng(0)
    task = np.repeat(["a", "b", "c", "d"], [10, 10, 10, 7])
    return rng.normal(size=(37, 50)) + (task == "b")[:, None], task, rng


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_labels_are_wrong_as_often_as_declared(spoilable, share):
    X, task, rng = spoilable
    ((mixed, labels),) = runner.corrupt(X, task, f"labels={share}", rng)
    assert np.array_equal(labels, task)
    moved = np.flatnonzero(np.any(mixed != X, axis=1))
    assert len(moved) == round(share * 37)
    source = np.array([int(np.flatnonzero(np.all(row == X, axis=1))[0]) for row in mixed])
    assert sorted(source) == list(range(37)) and np.all(task[moved] != task[source][moved])
    counts = np.array([np.sum(task[moved] == label) for label in "abcd"])
    assert np.all(np.abs(counts - share * np.array([10, 10, 10, 7])) < 1)


def test_noise_is_as_wide_as_declared(spoilable):
    X, task, rng = spoilable
    ((noisy, _),) = runner.corrupt(X, task, "features=0.5", rng)
    assert np.std(noisy - X) == pytest.approx(0.5 * np.std(X - X.mean(axis=0)), rel=0.1)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_share_of_the_pairs_of_tasks_never_meets(share):
    task = np.repeat(np.arange(10), 3)
    X = np.arange(30.0)[:, None]
    parts = runner.corrupt(X, task, f"relations={share}", np.random.default_rng(0))
    together = np.zeros((10, 10), bool)
    for rows, labels in parts:
        assert np.array_equal(task[rows[:, 0].astype(int)], labels)
        together[np.ix_(labels, labels)] = True
    assert np.mean(~together) == pytest.approx(share)
    assert np.array_equal(np.sort(np.concatenate([rows[:, 0] for rows, _ in parts])), X[:, 0])


def test_every_line_of_a_study_starts_at_clean_rows():
    cells = Plan(repeats=3, protocols=("seen", "unseen")).cells()
    assert len(set(cells)) == len(cells)
    spoilt = {(c.family, c.setting, c.repetition) for c in cells if c.corruption}
    clean = {
        (c.family, c.setting, c.repetition)
        for c in cells
        if not c.corruption and c.protocol == "seen"
    }
    assert spoilt and spoilt <= clean
    for kind in runner.CORRUPTION_KINDS:
        families = {c.family for c in cells if c.corruption.startswith(kind)}
        assert {"OCKSR", "OCKSR-N", "OCKSR-NS"} <= families <= set(METHODS)


@pytest.fixture
def three():
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], [8, 9, 10])
    return rng.normal(size=(27, 3)) + 2 * np.eye(3)[task], task


@pytest.mark.filterwarnings("ignore")
def test_squared_errors_of_ridge_regressions(three):
    X, task = three
    K, R = rbf_kernel(X, gamma=0.2), np.eye(3)[task]
    joint = JointOCKSR(gamma=0.2, alpha=0.3).fit(X, task=task)
    residual = R - K @ np.linalg.solve(K + 0.3 * np.eye(27), R)
    assert runner.sum_of_squared_errors(joint) == pytest.approx(np.sum(residual**2))
    alone = IndependentOCKSR(gamma=0.2, alpha=0.3).fit(X, task=task)
    total = 0.0
    for t in range(3):
        block = K[np.ix_(task == t, task == t)]
        ones = np.ones(len(block))
        total += np.sum(
            (ones - block @ np.linalg.solve(block + 0.3 * np.eye(len(ones)), ones)) ** 2
        )
    assert runner.sum_of_squared_errors(alone) == pytest.approx(total)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [NonlinearOCKSR, SparseOCKSR])
def test_squared_errors_of_two_layers(three, kind):
    X, task = three
    model = kind(gamma=0.2, alpha=0.3).fit(X, task=task)
    Y = rbf_kernel(X, gamma=0.2) @ model.dual_coef_
    F = rbf_kernel(Y, model.centres_, gamma=model.theta_) @ model.second_coef_
    expected = np.sum((F - np.eye(3)[task]) ** 2)
    assert runner.sum_of_squared_errors(model) == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_weaker_ridges_fit_closer(three):
    X, task = three
    for kind in (IndependentOCKSR, JointOCKSR, LinearOCKSR):
        errors = [
            runner.sum_of_squared_errors(kind(alpha=alpha).fit(X, task=task))
            for alpha in (1.0, 0.1, 0.01)
        ]
        assert errors == sorted(errors, reverse=True)


def test_kept_with_a_cell():
    def keys(family, setting, repetition=0):
        name = family if setting == "tuned" else f"{family} (as in the paper)"
        return set(runner.compute(Cell("mnist", "seen", name, family, setting, 0, repetition, 15)))

    assert "sse" in keys("C-OCKSR", "alpha=1", 4)
    assert not {"sse", "alarms"} & keys("SVDD", "alpha=1")
    tuned = keys("OCKSR-N", "tuned")
    assert {"auc", "chosen", "alarms", "tasks", "structure", "second_kernel"} <= tuned
    assert not {"second_kernel", "tasks"} & keys("OCKSR-N", "alpha=1", 1)
    assert "alarms" not in keys("C-OCKSR", "tuned", 9)


def test_second_kernel_is_the_one_between_responses():
    cell = Cell("mnist", "unseen", "OCKSR-N", "OCKSR-N", "tuned", 0, 0, 15)
    J = np.array(runner.compute(cell)["second_kernel"])
    assert J.shape == (75, 75)
    assert np.array_equal(J, J.T) and np.all(np.diag(J) == 1) and J.min() >= 0
    assert np.array_equal(J, J.round(3))
