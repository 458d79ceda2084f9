"""What is declared, and what a stored cell is known by."""

from dataclasses import replace

from manyone.estimators import METHODS
from manyone.experiments import Cell, Plan, plan
from manyone.experiments.corruption import CORRUPTION_KINDS


def test_key_depends_on_everything_declared(monkeypatch):
    monkeypatch.setattr(plan, "code_version", lambda: "1")
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
    monkeypatch.setattr(plan, "code_version", lambda: "2")
    assert len(keys | {cell.key}) == len(changes) + 2


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
    for kind in CORRUPTION_KINDS:
        families = {c.family for c in cells if c.corruption.startswith(kind)}
        assert {"OCKSR", "OCKSR-N", "OCKSR-NS"} <= families <= set(METHODS)
