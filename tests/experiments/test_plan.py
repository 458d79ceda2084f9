"""What is declared, and what a stored cell is known by."""

from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.svm import OneClassSVM

import manyone
from manyone import JointOCKSR
from manyone.capabilities import Capabilities
from manyone.estimators import METHODS
from manyone.experiments import Cell, Plan, methods
from manyone.experiments import plan as declared
from manyone.experiments.cells import compute
from manyone.experiments.figures import drawings
from manyone.experiments.methods import PAPER_AUC
from manyone.experiments.results import Results
from manyone.experiments.runner import Outcome


def test_key_depends_on_everything_declared(monkeypatch):
    monkeypatch.setattr(declared, "code_version", lambda: "1")
    cell = Cell("mnist", "seen", "A", "A", "tuned", 0, 0)
    changes = {"dataset": "face", "protocol": "unseen", "method": "B", "family": "B"}
    changes |= {
        "setting": "alpha=1",
        "seed": 1,
        "repetition": 1,
        "shrink": 2,
    }
    keys = {cell.key} | {
        replace(cell, **{name: value}).key for name, value in changes.items()
    }
    monkeypatch.setattr(declared, "code_version", lambda: "2")
    assert len(keys | {cell.key}) == len(changes) + 2


def test_a_study_has_every_ridge_and_few_repetitions():
    cells = Plan(repeats=10, protocols=("seen", "unseen")).cells()
    assert len(set(cells)) == len(cells)
    ridges = {(c.protocol, c.setting, c.repetition) for c in cells if c.family == "OKL"}
    studied = {("seen", ridge, r) for ridge in declared.RIDGES for r in range(3)}
    tuned = {(kind, "tuned", r) for kind in ("seen", "unseen") for r in range(10)}
    assert ridges == studied | tuned


def test_a_first_look_leaves_out_what_takes_long():
    plan = Plan(repeats=1, quick=True)
    names = {method.name for method in plan.methods()}
    slow = {"OKL", "MT-OCSVM", "KNFST"}
    slow |= {"OneClassSVM", "KPCA (PyOD)"}
    assert names == set(methods()) - slow
    assert set(PAPER_AUC["mnist"]) <= names  # the table has all names of the paper
    weak = [cell.family for cell in plan.cells() if cell.setting == declared.RIDGES[6]]
    assert weak == ["OCKSR", "C-OCKSR", "OCKSR-L", "OCKSR-N"]


def test_methods_that_are_named_run_alone():
    plan = Plan(repeats=2, only=("C-OCKSR", "LDA"))
    cells = {(cell.method, cell.setting) for cell in plan.cells()}
    assert cells == {("C-OCKSR", "tuned"), ("LDA", "tuned")}
    assert plan.missing == []


def test_a_method_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match=r"no method 'C-OCKRS'.* 'C-OCKSR'"):
        Plan(only=("C-OCKRS",))


class Newcomer(JointOCKSR):
    """A method that somebody registers: it has only its declaration."""

    can = Capabilities(learns=("structure_",), regression=True)


def test_a_registered_method_takes_part_in_everything(monkeypatch):
    monkeypatch.setitem(METHODS, "OCKSR-X", Newcomer)
    for plan in (Plan(repeats=1), Plan(repeats=1, quick=True)):
        mine = [cell for cell in plan.cells() if cell.family == "OCKSR-X"]
        tuned = [cell for cell in mine if cell.setting == "tuned"]
        assert [cell.protocol for cell in tuned] == ["seen", "unseen"]
        assert {cell.setting for cell in mine} == {"tuned", *declared.RIDGES}
    wanted = ("tuned", declared.RIDGES[0], declared.RIDGES[2])
    cells = [
        replace(cell, shrink=15)
        for cell in mine
        if cell.protocol == "seen" and cell.setting in wanted
    ]
    results = Results([Outcome(cell, compute(cell)) for cell in cells])
    assert [row.method for row in results.rows] == ["OCKSR-X"]
    drawn = {drawing.name: drawing.figure for drawing in drawings(results)}
    assert {"auc", "alarm_rate", "regulariser", "squared_error"} <= set(drawn)
    for name in ("alarm_rate", "regulariser", "squared_error"):
        lines = drawn[name].axes[0].get_lines()
        assert "OCKSR-X" in {line.get_label() for line in lines}
    assert drawn["structure_mnist"].axes[0].get_title().startswith("OCKSR-X")


def test_a_class_that_declares_nothing_is_refused(monkeypatch):
    monkeypatch.setitem(METHODS, "mine", OneClassSVM)
    for protocol in ("seen", "faults"):
        with pytest.raises(ValueError, match=r"METHODS\['mine'\].*MultiTaskOneClass"):
            Plan(protocols=(protocol,))


def copy_of(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def test_stored_cells_are_known_by_every_file_that_may_change_them(tmp_path):
    files = {
        "experiments/figures.py": b"drawn",
        "experiments/cells.py": b"computed",
        "experiments/templates/prose.html": b"said",
        "page/html.py": b"shown",
        "plots/scores.py": b"shown",
        "cli/common.py": b"asked",
        "tables/page.py": b"computed",
        "solvers/ridge.py": b"computed",
        "datasets/mnist/digits.npz": b"data",
        "solvers/__pycache__/ridge.pyc": b"compiled",
    }
    shown = {
        "experiments/figures.py",
        "experiments/templates/prose.html",
        "page/html.py",
    }
    shown |= {"plots/scores.py", "cli/common.py", "solvers/__pycache__/ridge.pyc"}
    before = declared.fingerprint(copy_of(tmp_path / "before", files))
    for k, name in enumerate(files):
        changed = declared.fingerprint(
            copy_of(tmp_path / f"{k}", files | {name: b"other"})
        )
        assert (changed == before) == (name in shown), name
    # The names of what is only shown mean nothing elsewhere: by path, not by base name.
    for k, name in enumerate(
        ("solvers/figures.py", "tables/report.py", "html.py", "cli.py")
    ):
        found = declared.fingerprint(
            copy_of(tmp_path / f"new{k}", files | {name: b"new"})
        )
        assert found != before
        changed = declared.fingerprint(
            copy_of(tmp_path / f"newer{k}", files | {name: b"newer"})
        )
        assert changed not in (before, found)
    moved = {
        name.replace("ridge.py", "path.py"): content for name, content in files.items()
    }
    assert declared.fingerprint(copy_of(tmp_path / "moved", moved)) != before


def test_every_path_that_is_left_out_exists():
    root = Path(manyone.__file__).parent
    assert all((root / name).exists() for name in declared._PRESENTATION)
    assert declared.code_version().startswith(manyone.__version__)
