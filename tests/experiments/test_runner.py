"""Cells are stored at once, read again, and do not harm each other."""

import pytest

from manyone.experiments import Plan, methods, run, runner
from manyone.experiments.reproduce import reproduce
from manyone.experiments.results import Results


def test_damaged_cells_are_computed_again(tmp_path, monkeypatch):
    computed = []

    def compute(cell, data_home=None):
        computed.append(cell)
        return {"auc": [0.5]}

    monkeypatch.setattr(runner, "compute", compute)
    plan = Plan(repeats=1)
    run(plan, tmp_path)
    assert computed == plan.cells()
    run(plan, tmp_path)
    assert len(computed) == len(plan.cells())
    (tmp_path / "cells" / f"{computed[3].key}.json").write_text("{")
    run(plan, tmp_path)
    assert computed[len(plan.cells()) :] == [computed[3]]


def test_methods_that_fail_leave_the_others_alone(tmp_path, monkeypatch):
    def compute(cell, data_home=None):
        if cell.method == "C-OCKSR":
            raise FloatingPointError("lost")
        return {"auc": [0.5 + cell.repetition / 10]}

    monkeypatch.setattr(runner, "compute", compute)
    outcomes = run(Plan(repeats=2), tmp_path)
    failed = {o.cell.method for o in outcomes if o.error}
    assert failed == {"C-OCKSR"} and "lost" in next(
        o.error for o in outcomes if o.error
    )
    assert {row.method for row in Results(outcomes).rows} == set(methods()) - failed


def test_methods_that_fail_are_told_with_their_errors(tmp_path, monkeypatch):
    def compute(cell, data_home=None):
        if cell.method == "C-OCKSR":
            raise FloatingPointError("lost")
        return {"auc": [0.5]}

    monkeypatch.setattr(runner, "compute", compute)
    plan = Plan(repeats=2, only=("OCKSR", "C-OCKSR"))
    wanted = "^C-OCKSR failed in 4 cells: FloatingPointError: lost$"
    with pytest.warns(UserWarning, match=wanted):
        reproduce(plan, tmp_path)
