"""Entities gone wrong: how rows are drawn, what is compared, the table."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manyone.cli import main
from manyone.datasets import make_fleet
from manyone.experiments import Plan, data
from manyone.experiments.cells import compute
from manyone.experiments.methods import DEFAULT, compared
from manyone.experiments.page import auc_table
from manyone.experiments.plan import Cell
from manyone.experiments.protocols import FAULT, LEARN, NORMAL, FaultProtocol
from manyone.experiments.results import HINDSIGHT, Results
from manyone.experiments.runner import Outcome
from manyone.metrics import task_aucs

SETS = ("servers", "spacecraft", "turbofan", "products", "valves")
PROTOCOL = FaultProtocol(10, n_normal=12, n_fault=6)


@pytest.fixture
def rows():
    """A fleet: half of the normal rows to learn from, and faults of its own."""
    fleet = make_fleet(6, 20, 5, n_test=40, fault="own", fault_size=12, random_state=0)
    roles = [np.full(120, LEARN | NORMAL), np.where(fleet.test_fault, FAULT, NORMAL)]
    machine = np.array([f"m{t}" for t in range(6)])
    task = machine[np.concatenate([fleet.task, fleet.test_task])]
    X = np.concatenate([fleet.data, fleet.test_data])
    return data.Rows(X, task, np.concatenate(roles).astype(np.uint8))


@pytest.fixture
def fleet_for_servers(rows, monkeypatch, tmp_path):
    """Lets the fleet stand for the servers; the folder to name for it."""
    monkeypatch.setitem(data.FAULT_ROWS, "servers", lambda data_home: rows)
    protocols = {"faults": FaultProtocol(10, n_normal=12)}
    dataset = replace(data.DATASETS["servers"], protocols=protocols)
    monkeypatch.setitem(data.DATASETS, "servers", dataset)
    return str(tmp_path)


def test_rows_are_drawn_for_what_they_may_be(rows):
    X, task, roles = rows
    split = PROTOCOL.split(*rows, seed=3)
    assert split.tasks.tolist() == [f"m{t}" for t in range(6)]
    for label in split.tasks:
        assert (split.task == label).sum() == 10
        mine = split.judged == label
        assert (mine & ~split.anomalous).sum() == 12 and (
            mine & split.anomalous
        ).sum() == 6
    assert np.all(roles[split.train] & LEARN)
    np.testing.assert_array_equal(roles[split.test] == FAULT, split.anomalous)
    np.testing.assert_array_equal(task[split.test], split.judged)
    assert not set(split.train) & set(split.test)
    assert len(set(split.train) | set(split.test)) == 6 * 28
    again, other = (PROTOCOL.split(*rows, seed=seed) for seed in (3, 4))
    np.testing.assert_array_equal(split.test, again.test)
    assert set(split.train) != set(other.train)
    normal = split.test[~split.anomalous]
    assert len(normal) == 72 and np.all(roles[normal] & NORMAL)


def test_test_rows_as_they_come_and_tasks_at_random(rows):
    split = FaultProtocol(10, n_tasks=4, n_test=20).split(*rows, seed=0)
    assert (
        len(split.tasks) == 4
        and (np.unique(split.judged, return_counts=True)[1] == 20).all()
    )
    assert 0.05 < split.anomalous.mean() < 0.5
    with pytest.raises(ValueError, match="needs 9 tasks; only 6"):
        FaultProtocol(10, n_tasks=9).split(*rows, seed=0)
    with pytest.raises(ValueError, match="labels"):
        PROTOCOL.split(rows[0], rows[1][1:], rows[2], seed=0)
    assert PROTOCOL.smaller(4) == FaultProtocol(10, n_normal=3, n_fault=1)


def test_tasks_without_enough_rows_are_left_out(rows):
    X, task, roles = rows
    roles = np.where((task == "m2") & (roles == FAULT), 0, roles).astype(np.uint8)
    assert "m2" not in PROTOCOL.split(X, task, roles, seed=0).tasks


def test_contaminated_rows_are_faults_that_are_not_tested_with(rows):
    roles = rows[2]
    split = replace(PROTOCOL, contamination=0.05).split(*rows, seed=0)
    bad = roles[split.train] == FAULT
    assert bad.sum() == 6 and len(split.train) == 60
    assert not set(split.train) & set(split.test)


def test_aucs_are_those_of_each_task_alone(rows):
    split = PROTOCOL.split(*rows, seed=0)
    scores = np.random.default_rng(0).normal(size=len(split.test))
    for t, label in enumerate(split.tasks):
        mine = split.judged == label
        codes = np.where(split.anomalous[mine], -1, 0)
        assert split.aucs(scores)[t] == task_aucs(scores[mine, None], codes)[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "method",
    [method for method in compared("faults") if method.setting == DEFAULT],
    ids=lambda method: method.name,
)
def test_every_method_finds_faults_and_sets_thresholds(method, rows):
    split = PROTOCOL.split(*rows, seed=0)
    X = rows[0]
    model = method.fit(X[split.train], split.task, "faults")
    scores = model.score_samples(X[split.test], task=split.judged)
    assert split.aucs(scores).mean() > 0.55
    loose, strict = (
        np.mean(
            model.recalibrate(rate).decision_function(X[split.test], task=split.judged)
            < 0
        )
        for rate in (0.4, 0.05)
    )
    assert loose >= strict


def test_rivals_come_in_every_setting_and_with_own_scales():
    names = {method.name for method in compared("faults")}
    assert {
        "auto (faults)",
        "auto (any)",
        "auto (strangers)",
        "OCKSR (tuned for faults)",
    } <= names
    assert {"1-NN (L1)", "1-NN (L1), own scales", "LOF (per task), own scales"} <= names
    settings = [m.setting for m in compared("faults") if m.name == "LOF (per task)"]
    assert settings == [DEFAULT, "n_neighbors=5", "n_neighbors=2"]


@pytest.mark.filterwarnings("ignore")
def test_a_cell_is_prepared_on_its_training_rows(fleet_for_servers):
    cell = Cell("servers", "faults", "1-NN (L2)", "1-NN (L2)", DEFAULT, 0, 0)
    found = compute(cell, fleet_for_servers)
    assert len(found["auc"]) == 6 and len(found["alarms"]) == 4
    Z, split = data.draw("servers", cell.sizes, (0, 0), fleet_for_servers)
    np.testing.assert_allclose(Z[split.train].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(Z[split.train].std(axis=0), 1.0)
    aucs = []
    for label in split.tasks:
        train = Z[split.train[split.task == label]]
        mine = split.judged == label
        near = np.linalg.norm(Z[split.test[mine]][:, None] - train, axis=2).min(axis=1)
        normal = near[~split.anomalous[mine]]
        fault = near[split.anomalous[mine]]
        aucs.append(np.mean(normal[:, None] < fault))
    np.testing.assert_allclose(found["auc"], aucs)


def outcome(method, setting, repetition, auc, **result):
    cell = Cell("valves", "faults", method, method, setting, 0, repetition)
    return Outcome(cell, {"auc": [auc], **result})


def test_the_best_setting_by_hindsight_is_marked_as_such():
    cells = [outcome("LOF (per task)", DEFAULT, r, 0.70 + r / 100) for r in range(3)]
    cells += [
        outcome("LOF (per task)", "n_neighbors=2", r, 0.80 - r / 100) for r in range(3)
    ]
    cells += [outcome("LOF (per task)", "n_neighbors=5", r, 0.60) for r in range(3)]
    cells += [outcome("auto (faults)", DEFAULT, r, 0.9 + r / 100) for r in range(3)]
    results = Results(cells)
    means = {row.method: round(row.mean, 6) for row in results.rows}
    assert means == {
        "LOF (per task)": 71,
        "LOF (per task)" + HINDSIGHT: 79,
        "auto (faults)": 91,
    }
    table = auc_table("valves", results)
    assert table.heads == ("method", "faults", "p")
    assert [row.soft for row in table.rows] == [False, True, False]


def test_reproduce_writes_the_same_table_and_a_page(
    fleet_for_servers, tmp_path, capsys
):
    args = ["reproduce", "--data", "servers", "--quick", "--workers", "1", "--out"]
    args += [str(tmp_path / "out"), "--data-home", fleet_for_servers]
    assert main(args) == 0
    assert "auto (faults)" in capsys.readouterr().out
    with open(tmp_path / "out" / "table.csv", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert list(lines[0]) == [
        "dataset",
        "protocol",
        "method",
        "auc_mean",
        "auc_std",
        "repeats",
        "paper_auc",
    ]
    assert {line["protocol"] for line in lines} == {"faults"}
    assert all(line["paper_auc"] == "" for line in lines)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Entities gone wrong" in page and "best by hindsight" in page
    assert "Where we differ from the paper" not in page and "Arashloo" not in page
    assert {p.name for p in (tmp_path / "out" / "figures").iterdir()} == {
        "auc.png",
        "alarm_rate.png",
    }


@pytest.mark.parametrize(
    ("args", "goes_with"),
    [
        (["--data", "mnist", "--protocol", "faults"], "servers, spacecraft"),
        (["--data", "valves", "--protocol", "seen"], "mnist, coil100, face, all"),
    ],
)
def test_protocols_and_data_that_do_not_go_together(args, goes_with, capsys, tmp_path):
    assert main(["reproduce", *args, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and goes_with in error
    assert not (tmp_path / "out").exists()


def test_faults_have_a_table_and_no_studies():
    assert data.names("faults") == SETS
    cells = Plan(SETS, ("faults",), 2).cells()
    assert {cell.protocol for cell in cells} == {"faults"} and len(set(cells)) == len(
        cells
    )
    quick = Plan(("valves",), ("faults",), quick=True)
    names = {method.name for method in quick.methods()}
    assert "auto (any)" in names and "KPCA (PyOD, per task)" not in names


@pytest.mark.parametrize(
    ("name", "n_tasks", "columns"),
    [
        ("servers", 8, 38),
        ("spacecraft", 75, 9),
        ("turbofan", 50, 15),
        ("products", 15, 512),
        ("valves", 34, 8),
    ],
)
def test_real_sets_are_cut_as_documented(name, n_tasks, columns, data_home: Path):
    X, task, roles = data.load(name, str(data_home))
    split = data.DATASETS[name].protocols["faults"].split(X, task, roles, seed=0)
    assert X.shape[1] == columns and len(split.tasks) == n_tasks
    assert np.all(roles[split.train] & LEARN) and not set(split.train) & set(split.test)
    counts = np.unique(split.task, return_counts=True)[1]
    assert np.ptp(counts) == 0
