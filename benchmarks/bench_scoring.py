"""``manyone score`` on 1,000,000 rows of Parquet: speed beside the bare kernel arithmetic, memory.

A default model of 20 machines with 20 rows each. The command is a process of its own, in whose
processor time (its start left out) and memory everything counts; beside it the kernel of all rows
against the training rows and one product. Exits with 1 where it is less than half as fast, takes
2 GB, or where one row takes a loaded model 3 ms.
"""

from __future__ import annotations

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

TASKS, ROWS, SENSORS, BLOCK = 20, 20, 8, 4096
QUICK = "--quick" in sys.argv
SCORED = 50_000 * TASKS // (10 if QUICK else 1)


def table(X: np.ndarray, task: np.ndarray) -> pl.DataFrame:
    names = np.array([f"pump {k}" for k in range(TASKS)])
    return pl.DataFrame(
        {"machine": names[task]} | {f"x{k}": column for k, column in enumerate(X.T)}
    )


def bare(X: np.ndarray, rows: np.ndarray, dual: np.ndarray) -> float:
    """Seconds that the Laplacian kernel of all rows and a product with coefficients take."""
    begin = time.process_time()
    for start in range(0, len(X), BLOCK):
        distances = cdist(X[start : start + BLOCK], rows, "cityblock")
        np.exp(np.multiply(distances, -0.1, out=distances), out=distances) @ dual
    return time.process_time() - begin


def run(command: list[object]) -> float:
    """Processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in command], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    fleet = make_fleet(TASKS, ROWS, SENSORS, n_test=SCORED // TASKS, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        model, rows, scores = (Path(folder) / name for name in ("m", "t.parquet", "s.parquet"))
        save(TableModel("machine").fit(table(fleet.data, fleet.task)), model)
        table(fleet.test_data, fleet.test_task).write_parquet(rows)
        dual = np.random.default_rng(0).normal(size=(len(fleet.data), TASKS))
        arithmetic = bare(fleet.test_data, fleet.data, dual)
        command = [sys.executable, "-m", "manyone"]
        taken = run([*command, "score", model, rows, "--out", scores, "--json"])
        taken -= run([*command, "info", model])
        arithmetic = (arithmetic + bare(fleet.test_data, fleet.data, dual)) / 2
        loaded, row = load(model), table(fleet.test_data[:1], fleet.test_task[:1])
        times = []
        for _ in range(50):
            start = time.perf_counter()
            loaded.score(row)
            times.append(time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    one = 1e3 * float(np.median(times))
    print(f"{SCORED:,} rows: {taken:.1f} s, bare kernel arithmetic {arithmetic:.1f} s")
    print(f"speed beside it {arithmetic / taken:.2f} (at least 0.5 promised)")
    print(f"memory {memory:.2f} GB (below 2 promised); one row {one:.2f} ms (below 3 promised)")
    return int(arithmetic / taken < 0.5 or memory >= 2.0 or one >= 3.0)


if __name__ == "__main__":
    sys.exit(main())
