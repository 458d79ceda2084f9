"""What is declared, and what a stored cell is known by."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import manyone
from manyone import JointOCKSR
from manyone.capabilities import Capabilities
from manyone.estimators import METHODS
from manyone.experiments import Cell, Plan, methods
from manyone.experiments import plan as declared
from manyone.experiments.cells import compute
from manyone.experiments.figures import charts
from manyone.experiments.methods import PAPER_AUC
from manyone.experiments.plan import CORRUPTION_KINDS, corruptions
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
        "corruption": "labels=0.1",
    }
    keys = {cell.key} | {
        replace(cell, **{name: value}).key for name, value in changes.items()
    }
    monkeypatch.setattr(declared, "code_version", lambda: "2")
    assert len(keys | {cell.key}) == len(changes) + 2


def test_every_line_of_a_study_starts_at_clean_rows():
    cells = Plan(repeats=3, protocols=("seen", "unseen")).cells()
    assert len(set(cells)) == len(cells)
    corrupted = {(c.family, c.setting, c.repetition) for c in cells if c.corruption}
    clean = {
        (c.family, c.setting, c.repetition)
        for c in cells
        if not c.corruption and c.protocol == "seen"
    }
    assert corrupted and corrupted <= clean
    for kind in CORRUPTION_KINDS:
        families = {c.family for c in cells if c.corruption.startswith(kind)}
        assert {"OCKSR", "OCKSR-N", "OCKSR-NS"} <= families <= set(METHODS)


def test_a_first_look_leaves_out_what_takes_long():
    plan = Plan.quick(("mnist",), ("seen", "unseen"), 1, 0)
    slow = {"OKL", "MT-OCSVM", "KNFST"}
    slow |= {"OneClassSVM", "GroupedPredictor (scikit-lego)", "KPCA (PyOD)"}
    assert set(plan.only) == set(methods()) - slow
    assert set(PAPER_AUC["mnist"]) <= set(
        plan.only
    )  # the table has all names of the paper
    assert plan.studied == ("OCKSR", "C-OCKSR", "OCKSR-L", "OCKSR-N")


def test_studies_of_corrupted_rows_have_the_methods_of_the_paper_and_two_more():
    full = {"labels": 3, "features": 2, "relations": 2}
    for family in METHODS:
        kinds = Counter(corruption.split("=")[0] for corruption in corruptions(family))
        if family in ("MORVR", "OKL"):
            assert not kinds
        elif family == "SVDD":
            assert kinds == {"labels": 3, "features": 2}
        else:
            assert kinds == full


class Newcomer(JointOCKSR):
    """A method that somebody registers: it has only its declaration."""

    can = Capabilities(learns=("structure_",), regression=True)


def test_a_registered_method_takes_part_in_everything(monkeypatch):
    monkeypatch.setitem(METHODS, "OCKSR-X", Newcomer)
    for plan in (Plan(repeats=1), Plan.quick(("mnist",), ("seen", "unseen"), 1, 0)):
        mine = [cell for cell in plan.cells() if cell.family == "OCKSR-X"]
        tuned = [cell for cell in mine if cell.setting == "tuned"]
        assert [cell.protocol for cell in tuned] == ["seen", "unseen"]
        assert {cell.setting for cell in mine} == {"tuned", *declared.RIDGES}
        assert {cell.corruption.split("=")[0] for cell in mine} == {
            "",
            *CORRUPTION_KINDS,
        }
    wanted = ("tuned", declared.RIDGES[0], declared.RIDGES[2])
    cells = [
        replace(cell, shrink=15)
        for cell in mine
        if cell.protocol == "seen" and cell.setting in wanted and not cell.corruption
    ]
    results = Results([Outcome(cell, compute(cell)) for cell in cells])
    assert [row.method for row in results.rows] == ["OCKSR-X"]
    drawn = {chart.name: chart for chart in charts(results)}
    assert {"seen_unseen", "alarm_rate", "regulariser", "squared_error"} <= set(drawn)
    for name in ("alarm_rate", "regulariser", "squared_error"):
        curves = drawn[name].panels[0].curves
        assert "OCKSR-X" in {curve.name for curve in curves}
    (panel,) = drawn["structure_mnist"].panels
    assert panel.title.startswith("OCKSR-X")


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
