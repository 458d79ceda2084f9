"""Runs can be killed and repeated; tables do not depend on workers."""

import csv
import importlib
import json
import multiprocessing
import subprocess
import sys
import time

import numpy as np
import pytest

from manyone.experiments import plan
from manyone.experiments.methods import PAPER_AUC

# A run that is over in seconds: the cheap methods on a handful of test rows. The
# version of the code is fixed, so that somebody who edits it meanwhile does not change
# the outcome.
TINY = """
import manyone.experiments.plan as declared
from manyone.experiments import Plan, run
from manyone.experiments.reproduce import reproduce

only = (
    "OCKSR (as in the paper)",
    "C-OCKSR (as in the paper)",
    "OneClassSVM (defaults)",
)
plan = Plan(repeats=2, seed=5, quick=True, only=(*only, "Mahalanobis (pooled)"))

def nothing():
    pass

def tiny(out, workers=1):
    declared.code_version = lambda: "test"
    reproduce(plan, out, workers=workers)
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start the tiny run in a process forked from one that imported everything."""
    folder = tmp_path_factory.mktemp("module")
    (folder / "tiny_run.py").write_text(TINY)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["manyone.experiments.reproduce"])
    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module("tiny_run")
        finish(
            begin(context.Process(target=module.nothing))
        )  # the server has imported now
        yield lambda *args: begin(context.Process(target=module.tiny, args=args))
    finally:
        sys.path.remove(str(folder))


def begin(process):
    process.start()
    return process


def finish(process):
    process.join(180)
    process.kill()
    process.join()
    assert process.exitcode == 0


@pytest.fixture(scope="module")
def timed(start, tmp_path_factory):
    """Folder of an uninterrupted run, and how long it took."""
    out = tmp_path_factory.mktemp("finished")
    began = time.monotonic()
    finish(start(out))
    return out, time.monotonic() - began


@pytest.fixture
def finished(timed):
    return timed[0]


def stamps(out):
    """When each finished cell was written, and into which file."""
    found = {}
    for path in (out / "cells").glob("*.json"):
        stat = path.stat()
        found[path.name] = (stat.st_mtime_ns, stat.st_ino)
    return found


def assert_same(out, finished, names=("table.csv",)):
    for name in names:
        assert (out / name).read_bytes() == (finished / name).read_bytes()
    assert stamps(out).keys() == stamps(finished).keys()
    assert not list(out.rglob("*.part"))


@pytest.mark.slow
def test_runs_killed_at_twenty_moments_go_on_and_repeat_nothing(start, timed, tmp_path):
    finished, duration = timed
    total = len(stamps(finished))
    rng = (
        np.random.default_rng()
    )  # any moment will do: what is asserted holds at all of them
    kills = 0
    half_done = 0
    folder = tmp_path / "run"
    while kills < 20:
        before = stamps(folder)
        process = start(folder)
        process.join(rng.uniform(0, duration / 4))
        if process.is_alive():
            process.kill()
            kills += 1
        process.join()
        after = stamps(folder)
        assert before.items() <= after.items()
        half_done += 0 < len(after) < total
        for path in folder.glob("cells/*.json"):
            json.loads(path.read_text())
        if (
            process.exitcode == 0
        ):  # finished before it was killed: the next one starts anew
            assert_same(folder, finished)
            folder = folder.with_name(folder.name + "+")
    assert half_done
    before = stamps(folder)
    finish(start(folder))
    assert before.items() <= stamps(folder).items()
    assert_same(folder, finished)


@pytest.mark.slow
def test_workers_of_a_killed_run_leave_its_cells_alone(finished, tmp_path):
    script = tmp_path / "two.py"
    script.write_text(
        f"""{TINY}
from pathlib import Path
declared.code_version = lambda: "test"
run(plan, Path({str(tmp_path)!r}), workers=2)
"""
    )
    process = subprocess.Popen([sys.executable, script])
    end = time.monotonic() + 300
    while len(stamps(tmp_path)) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = stamps(tmp_path)
    assert len(before) >= 3
    subprocess.run([sys.executable, script], check=True, timeout=300)
    assert before.items() <= stamps(tmp_path).items()
    assert stamps(tmp_path).keys() == stamps(finished).keys()
    for path in (tmp_path / "cells").iterdir():
        mine, other = (
            json.loads((out / "cells" / path.name).read_text())["result"]
            for out in (tmp_path, finished)
        )
        assert mine == other


@pytest.mark.slow
def test_two_workers_give_the_same_table(start, finished, tmp_path, monkeypatch):
    # In this process: the children of the fork server cannot have workers of their own.
    monkeypatch.setattr(plan, "code_version", plan.code_version)
    importlib.import_module("tiny_run").tiny(tmp_path, workers=2)
    assert_same(tmp_path, finished, ("table.csv", "report.html"))


def test_table_has_the_columns_of_the_contract(finished):
    with open(finished / "table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    contract = "dataset,protocol,method,auc_mean,auc_std,repeats,paper_auc"
    assert ",".join(rows[0]) == contract
    keys = [(row["dataset"], row["protocol"], row["method"]) for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert 40 < float(row["auc_mean"]) <= 100 and int(row["repeats"]) == 2
        printed = PAPER_AUC["mnist"].get(row["method"].split(" (")[0])
        expected = f"{printed:.2f}" if printed and row["protocol"] == "seen" else ""
        assert row["paper_auc"] == expected
