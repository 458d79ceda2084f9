"""``manyone score`` on 1,000,000 rows of Parquet: memory, and speed beside kernels.

Run ``python benchmarks/bench_scoring.py [--quick]``. The model is a default one of 20
machines with 20 rows each. The command runs in a process of its own on one BLAS thread;
its memory and its processor time after the start are measured. Beside it is the bare
arithmetic: the kernel of all rows against the training rows and a product, for each
layer of the model's view of strangers. Exits with 1 where the command is less than half
as fast, takes 2 GB, or a loaded model takes 3 ms for one row. Also printed: the same
with ``--json``, which explains every alarm (a quarter of these rows).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy.spatial.distance import cdist

from manyone import TableModel, load, save
from manyone.datasets import make_fleet

TASKS = 20
ROWS = 20
SENSORS = 8
BLOCK = 4096
QUICK = "--quick" in sys.argv
SCORED = 50_000 * TASKS // (10 if QUICK else 1)


def table(X: np.ndarray, task: np.ndarray) -> pl.DataFrame:
    names = np.array([f"pump {k}" for k in range(TASKS)])
    return pl.DataFrame(
        {"machine": names[task]} | {f"x{k}": column for k, column in enumerate(X.T)}
    )


def bare(X: np.ndarray, rows: np.ndarray, dual: np.ndarray, layers: int) -> float:
    """Seconds of a Laplacian kernel and a product, a Gaussian one of responses."""
    begin = time.process_time()
    centres = np.column_stack([dual, -0.5 * np.square(dual).sum(axis=1)]).T
    for start in range(0, len(X), BLOCK):
        K = cdist(X[start : start + BLOCK], rows, "cityblock")
        Y = np.exp(np.multiply(K, -0.1, out=K), out=K) @ dual
        if layers == 2:  # exp(-|y - c|^2 / 2)
            J = np.column_stack([Y, np.ones(len(Y))]) @ centres
            J -= 0.5 * np.square(Y).sum(axis=1)[:, None]
            np.exp(J, out=J) @ dual
    return time.process_time() - begin


def run(command: list[object]) -> float:
    """Processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [str(word) for word in command]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    fleet = make_fleet(TASKS, ROWS, SENSORS, n_test=SCORED // TASKS, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        model, rows, scores = (
            Path(folder) / name for name in ("m", "t.parquet", "s.parquet")
        )
        fitted = TableModel("machine").fit(table(fleet.data, fleet.task))
        strangers = type(fitted.model_.views_["strangers"]).__name__
        layers = 2 if strangers == "NonlinearOCKSR" else 1
        save(fitted, model)
        table(fleet.test_data, fleet.test_task).write_parquet(rows)
        dual = np.random.default_rng(0).normal(size=(len(fleet.data), TASKS))
        arithmetic = bare(fleet.test_data, fleet.data, dual, layers)
        command = [sys.executable, "-m", "manyone"]
        start_up = run([*command, "info", model])
        score = [*command, "score", model, rows, "--out", scores]
        taken = run(score) - start_up
        with_incidents = run([*score, "--json"]) - start_up
        arithmetic = (arithmetic + bare(fleet.test_data, fleet.data, dual, layers)) / 2
        loaded = load(model)
        row = table(fleet.test_data[:1], fleet.test_task[:1])
        times = []
        for _ in range(50):
            start = time.perf_counter()
            loaded.score(row)
            times.append(time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    milliseconds = 1e3 * float(np.median(times))
    print(
        f"{SCORED:,} rows: {taken:.1f} s, bare kernel arithmetic of {layers} layer(s)"
        f" {arithmetic:.1f} s"
    )
    print(f"speed beside it {arithmetic / taken:.2f} (at least 0.5 promised)")
    print(f"with incidents of all alarms {arithmetic / with_incidents:.2f}")
    print(
        f"memory {memory:.2f} GB (below 2 promised); "
        f"one row {milliseconds:.2f} ms (below 3 promised)"
    )
    return int(arithmetic / taken < 0.5 or memory >= 2.0 or milliseconds >= 3.0)


if __name__ == "__main__":
    sys.exit(main())
