"""CONTRIBUTING's promise: a solver, an estimator, a line are a whole method."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import manyone
from manyone import ModelFileError

TESTS = Path(__file__).parent
CHECKED = (
    "estimators/test_common.py",
    "estimators/test_solution.py",
    "test_properties.py",
    "test_torture.py",
    "test_messages.py",
    "test_persistence.py",
    "selection/test_tune.py",
    "test_plots.py",
)


@pytest.mark.slow
def test_a_method_written_elsewhere_gets_every_check(tmp_path):
    """Written into a module of its own, loaded before the tests are collected."""
    shutil.copy(TESTS / "toy_method.py", tmp_path / "a_method_of_mine.py")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "a_method_of_mine"),
            *("-p", "no:cacheprovider", "-k", "TOY or KernelMean"),
            *(str(TESTS / name) for name in CHECKED),
        ],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    summary = done.stdout.splitlines()[-1]
    assert int(summary.split(" passed")[0].split()[-1]) > 400, summary


def test_a_method_written_elsewhere_has_its_row_in_the_experiments(tmp_path):
    shutil.copy(TESTS / "toy_method.py", tmp_path / "a_method_of_mine.py")
    program = """
import a_method_of_mine
from manyone.experiments.cells import compute
from manyone.experiments.plan import Plan
cells = Plan(protocols=("seen",), repeats=1, quick=True, only=("TOY",)).cells()
assert [cell.method for cell in cells] == ["TOY"], cells
print(min(compute(cells[0])["auc"]))
"""
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.5


def test_a_file_of_a_method_written_elsewhere_asks_for_its_module(tmp_path):
    shutil.copy(TESTS / "toy_method.py", tmp_path / "a_method_of_mine.py")
    program = """
import numpy as np
import manyone
from a_method_of_mine import KernelMean
X = np.random.default_rng(0).normal(size=(40, 3))
model = KernelMean().fit(X, task=np.repeat(["a", "b"], 20))
manyone.save(model, "mine.manyone")
manyone.load("mine.manyone")
"""
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=True,
    )
    with pytest.raises(ModelFileError, match=r"KernelMean.*import its module first"):
        manyone.load(tmp_path / "mine.manyone")
