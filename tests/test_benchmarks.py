"""Benchmarks run, measure everybody alike, and say what is missing."""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
#: Modules that scripts share.
SHARED = {"contenders.py", "run.py", "timing.py", "workers.py"}


@pytest.fixture
def load(monkeypatch):
    """Function that imports a file of the folder by its name."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


def test_every_script_is_run(load):
    run = load("run")
    listed = {script for script, *_ in (*run.PROMISES, *run.STUDIES)}
    assert listed | SHARED == {path.name for path in FOLDER.glob("*.py")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.name)
def test_every_script_opens_with_how_it_is_run(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if path.name in SHARED - {"run.py"}:
        assert "import" in docstring
    else:
        assert f"benchmarks/{path.name}" in docstring


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.name)
def test_every_script_finds_what_it_imports(load, path):
    """Names of the package move, and no other test runs every script."""
    try:
        load(path.stem)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] == "manyone":
            raise
        pytest.skip(f"{error.name} is not installed")


def test_contenders_are_measured_and_who_is_missing_is_named(load, monkeypatch):
    contenders = load("contenders")
    bench = load("bench_contenders")

    def missing(data, landmarks):
        raise ImportError("no module named 'nowhere'")

    monkeypatch.setitem(contenders.CONTENDERS, "himalaya KernelRidge", missing)
    names = (contenders.OURS, contenders.FLOOR, "himalaya KernelRidge")
    lines = list(bench.measure(bench.Case(60, 3, 4, 10, names), 1))
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    by_name = {line[4]: line for line in cells}
    assert set(by_name) == set(names)
    assert {len(line) for line in cells} == {bench.HEAD.count("|") + 1}
    assert "nowhere" in by_name["himalaya KernelRidge"][5]
    assert by_name[contenders.OURS][6].startswith("1.00")
    assert float(by_name[contenders.OURS][7]) > 60
    assert by_name[contenders.FLOOR][7] == ""  # it is no model


def test_auc_is_the_mean_over_tasks(load):
    contenders = load("contenders")
    data = contenders.fleet(60, 3, 4)
    assert contenders.task_auc(data, np.where(data.outlier, 0.0, 1.0)) == 1.0
    assert contenders.task_auc(data, np.zeros(len(data.outlier))) == 0.5


def test_calls_are_made_in_turns_and_the_first_round_is_not_counted(load):
    timing = load("timing")
    made = []
    calls = {name: lambda name=name: made.append(name) for name in "ab"}
    seconds = timing.in_turns(calls, repeats=2)
    assert "".join(made) == "ababab"
    assert set(seconds) == set("ab") and min(seconds.values()) >= 0


def test_only_named_functions_of_the_package_are_counted(load):
    from manyone.messages import shortlist

    entered = load("count_calls").entered
    names = {code.co_name for code in entered(lambda: shortlist(["a", "b"], 1))}
    assert "shortlist" in names
    assert not any(name.startswith("<") for name in names)


def test_limits_only_go_down(load):
    for limit in load("count_calls").LIMITS.values():
        assert limit.aim <= limit.ratchet
