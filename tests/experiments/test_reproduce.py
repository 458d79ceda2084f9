"""Runs can be killed and repeated; tables do not depend on workers; the page stands alone."""

import csv
import importlib
import json
import multiprocessing
import re
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from manyone.experiments import Plan, methods, run, runner
from manyone.experiments.figures import draw
from manyone.experiments.methods import PAPER_AUC
from manyone.experiments.runner import Cell, Outcome
from manyone.experiments.tables import COLUMNS, compare, pairs_csv, summarise, table_csv

# A run that is over in seconds: the cheap methods on a handful of test rows. The version of the
# code is fixed, so that somebody who edits it meanwhile does not change the outcome.
TINY = """
from manyone.experiments import Plan, runner
from manyone.experiments.reproduce import reproduce

def tiny(out, workers=1):
    runner.code_version = lambda: "test"
    only = ("OCKSR (as in the paper)", "C-OCKSR (as in the paper)", "OneClassSVM (defaults)")
    plan = Plan(repeats=2, shrink=15, seed=5, only=(*only, "Mahalanobis (pooled)"))
    reproduce(plan, out, workers=workers)
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start the tiny run in a process of its own, forked from one that has imported everything."""
    folder = tmp_path_factory.mktemp("module")
    (folder / "tiny_run.py").write_text(TINY)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["manyone.experiments.reproduce"])
    sys.path.insert(0, str(folder))
    try:
        tiny = importlib.import_module("tiny_run").tiny

        def start_process(*args):
            process = context.Process(target=tiny, args=args)
            process.start()
            return process

        yield start_process
    finally:
        sys.path.remove(str(folder))


def finish(process):
    process.join(60)
    process.kill()
    assert process.exitcode == 0


@pytest.fixture(scope="module")
def finished(start, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    finish(start(out))
    return out


def stamps(out):
    """When each finished cell was written."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "cells").glob("*.json")}


def test_killed_runs_go_on_and_repeat_nothing(start, finished, tmp_path):
    total = len(stamps(finished))
    # Kill when so many cells are finished: moments that do not depend on the machine's speed.
    for goal in sorted(np.random.default_rng(0).integers(1, total - 2, size=6)):
        before, process = stamps(tmp_path), start(tmp_path)
        end = time.monotonic() + 60
        while len(stamps(tmp_path)) < goal and process.is_alive() and time.monotonic() < end:
            time.sleep(0.002)
        process.kill()
        process.join()
        assert before.items() <= stamps(tmp_path).items()
        assert not (tmp_path / "table.csv").exists()
        for path in (tmp_path / "cells").glob("*.json"):
            json.loads(path.read_text())
    before = stamps(tmp_path)
    assert 0 < len(before) < total
    finish(start(tmp_path))
    assert before.items() <= stamps(tmp_path).items()
    for name in ("table.csv", "pairs.csv"):
        assert (tmp_path / name).read_bytes() == (finished / name).read_bytes()
    assert not list(tmp_path.rglob("*.part"))


def test_two_workers_give_the_same_table(start, finished, tmp_path, monkeypatch):
    # In this process: the children of the fork server cannot have workers of their own.
    monkeypatch.setattr(runner, "code_version", runner.code_version)
    importlib.import_module("tiny_run").tiny(tmp_path, workers=2)
    for name in ("table.csv", "pairs.csv", "report.html"):
        assert (tmp_path / name).read_bytes() == (finished / name).read_bytes()


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


def test_table_has_the_columns_of_the_contract(finished):
    with open(finished / "table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == COLUMNS
    assert ",".join(COLUMNS) == "dataset,protocol,method,auc_mean,auc_std,repeats,paper_auc"
    keys = [(row["dataset"], row["protocol"], row["method"]) for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert 40 < float(row["auc_mean"]) <= 100 and int(row["repeats"]) == 2
        printed = PAPER_AUC["mnist"].get(row["method"].split(" (")[0])
        expected = f"{printed:.2f}" if printed and row["protocol"] == "seen" else ""
        assert row["paper_auc"] == expected


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


def test_corruption_is_as_strong_as_declared():
    rng = np.random.default_rng(0)
    task = np.repeat(["a", "b", "c"], [10, 10, 10])
    X = rng.normal(size=(30, 50)) + (task == "b")[:, None]
    mixed = runner.corrupt(X, task, "labels=0.2", rng)
    moved = np.flatnonzero(np.any(mixed != X, axis=1))
    assert np.array_equal(np.unique(task[moved], return_counts=True)[1], [2, 2, 2])
    source = [int(np.flatnonzero(np.all(row == X, axis=1))[0]) for row in mixed]
    assert sorted(source) == list(range(30)) and np.all(task[moved] != task[source][moved])
    noise = runner.corrupt(X, task, "features=0.5", rng) - X
    assert np.std(noise) == pytest.approx(0.5 * np.std(X - X.mean(axis=0)), rel=0.1)


def outcome(method, repetition, auc):
    cell = Cell("mnist", "seen", method, method, "tuned", 0, repetition)
    return Outcome(cell, {"auc": [auc]})


def test_paired_tests_agree_with_the_formula():
    a, b = [0.90, 0.92, 0.95, 0.91], [0.91, 0.95, 0.96, 0.93]
    outcomes = [outcome("A", r, v) for r, v in enumerate(a)]
    outcomes += [outcome("B", r, v) for r, v in enumerate(b)]
    (pair,) = compare(summarise(outcomes))
    gain = 100 * (np.array(b) - a)
    assert (pair.better, pair.worse, pair.repeats) == ("B", "A", 4)
    assert pair.difference == pytest.approx(gain.mean())
    assert pair.error == pytest.approx(gain.std(ddof=1) / 2)
    from scipy.stats import t

    assert pair.p == pytest.approx(2 * t.sf(gain.mean() / pair.error, 3))
    assert pairs_csv([pair]).count("\n") == 2


def test_one_repetition_has_no_spread():
    rows = summarise([outcome("A", 0, 0.9), outcome("B", 0, 0.9)])
    assert table_csv(rows).splitlines()[1] == "mnist,seen,A,90.0000,,1,"
    assert compare(rows)[0].p is None


def test_figures_of_models_that_iterate_and_relate():
    T = 4
    result = {"auc": [0.9] * T, "tasks": list("abcd"), "structure": np.eye(T).tolist()}
    result["objective"] = [3.0, 2.0, 1.5]
    outcomes = [replace(outcome("OCKSR-N", 0, 0.9), result=result)]
    pictures = draw(outcomes, summarise(outcomes))
    assert [p.name for p in pictures] == ["seen_unseen", "structure_mnist", "objective_mnist"]
    assert all(p.png.startswith(b"\x89PNG") for p in pictures)


class Loads(HTMLParser):
    """Everything a browser would fetch, and the tags that are left open."""

    def __init__(self):
        super().__init__()
        self.loads, self.images, self.open, self.rows = [], 0, [], 0

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.loads += [values[k] for k in ("src", "href", "srcset", "data") if k in values]
        self.images += tag == "img"
        self.rows += tag == "tr"
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_stands_alone(finished):
    text = (finished / "report.html").read_text(encoding="utf-8")
    page = Loads()
    page.feed(text)
    assert page.open == []
    assert all(link.startswith(("data:", "#")) for link in page.loads)
    assert not re.search(r"https?://|@import|url\(", text)
    pictures = sorted(path.stem for path in (finished / "figures").glob("*.png"))
    assert pictures == [
        "alarm_rate",
        "regulariser",
        "robustness_features",
        "robustness_labels",
        "seen_unseen",
    ]
    assert page.images == len(pictures)
    with open(finished / "table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert page.rows == 1 + len({row["method"] for row in rows})
    assert all(f"{float(row['auc_mean']):.2f}" in text for row in rows)
    assert "prefers-color-scheme" in text and "viewport" in text
