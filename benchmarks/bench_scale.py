"""Rows beyond one kernel matrix: what docs/scale.rst promises, as ratios in one run.

``python benchmarks/bench_scale.py [NAME ...] [--quick]``; without names, all of them.
One BLAS thread and processor time; on two threads, and for `workers`, time that passes,
on two free cores.

scoring   rows scored against their own task, beside the bare kernel and exponential
rival     100,000 rows beside scikit-learn's Nystroem + Ridge, on one thread and on two
million   a million rows of 1,000 tasks beside the bare arithmetic, on 1 and 2 threads
tasks     a million rows as 10,000 tasks of 100, beside 1,000 tasks of 1,000
workers   a million rows on two Dask workers against one, beside bare processes
forests   planted faults and strangers: AUC and time beside one IsolationForest per task
large     one task with 100,000 rows beside small ones: time, memory and alarms
table     TableModel, not tuned, on Parquet files of 100,000 rows each: time and memory

Exits with 1 where a promise is broken.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import subprocess
import sys
import tempfile
import warnings
from functools import partial

import numpy as np
import polars as pl
from contenders import CONTENDERS, FLOOR, OURS, Data, fleet, task_auc
from timing import seconds, timed
from workers import Load, times_of

from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR, TableModel

QUICK = "--quick" in sys.argv
COLUMNS = 32
LANDMARKS = 1000


def made(n_tasks: int, per_task: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows about the centres of their tasks, shuffled."""
    rng = np.random.default_rng(0)
    task = rng.permutation(np.repeat(np.arange(n_tasks), per_task))
    X = rng.normal(size=(len(task), COLUMNS))
    X += (2.0 * rng.normal(size=(n_tasks, COLUMNS)))[task]
    return X, task


def bare_kernel(X: np.ndarray, Z: np.ndarray, gamma: float) -> None:
    """One product and one exponential for every kernel value."""
    right = np.column_stack(
        [2 * gamma * Z, np.full(len(Z), -gamma), -gamma * (Z**2).sum(axis=1)]
    )
    for start in range(0, len(X), 2048):
        rows = X[start : start + 2048]
        left = np.column_stack([rows, (rows**2).sum(axis=1), np.ones(len(rows))])
        values = np.minimum(left @ right.T, 0.0)
        np.exp(values, out=values)


def scoring() -> bool:
    X, task = made(1000, 20 if QUICK else 100)
    model = JointOCKSR(landmarks=LANDMARKS, random_state=0).fit(X[::2], task=task[::2])
    shares = []
    for _ in range(5):
        ours = seconds(lambda: model.score_samples(X, task=task))
        bare = seconds(partial(bare_kernel, X, model.X_fit_, model.gamma_))
        shares.append(bare / ours)
    share = float(np.median(shares))
    print(
        f"scoring: {share:.2f} of the bare rate ({min(shares):.2f} to "
        f"{max(shares):.2f}), 0.70"
    )
    return share >= 0.7


def alone(threads: int, *words: object) -> list[float]:
    """Numbers that a process of its own prints: its whole time and memory count."""
    command = [sys.executable, __file__, *map(str, words)]
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    run = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **limits},
    )
    return [float(number) for number in run.stdout.split()]


def rival() -> bool:
    """Everybody in one process, in turns, after a round that is not counted."""
    rows = 20_000 if QUICK else 100_000
    slowest = []
    for threads in (1, 2):
        *ratios, ours, theirs = alone(threads, "one-rival", rows)
        slowest.append(float(np.median(ratios)))
        spread = (
            f"{slowest[-1]:.2f} of it ({min(ratios):.2f} to {max(ratios):.2f}), below 1"
        )
        print(
            f"rival: {threads} threads: {ours:.1f} s, Nystroem + Ridge {theirs:.1f} s: "
            f"{spread}"
        )
    return max(slowest) < 1.0


def one_rival(rows: int) -> None:
    data = fleet(rows, 100, COLUMNS)
    names = (OURS, "Nystroem + Ridge")
    times = []
    for _ in range(4):
        times.append(
            [seconds(partial(CONTENDERS[name], data, LANDMARKS)) for name in names]
        )
    counted = np.array(times[1:])
    print(*counted[:, 0] / counted[:, 1], *np.median(counted, axis=0))


def million() -> bool:
    rows = 100_000 if QUICK else 1_000_000
    good = True
    for threads in (1, 2):
        ours, memory, bare = alone(threads, "one-fit", 1_000, rows // 1_000, "bare")
        figures = (
            f"{ours:.0f} s, bare {bare:.0f} s: {ours / bare:.2f} of it (at most 1.5)"
        )
        print(
            f"million: {threads} threads: {figures}, {memory:.2f} GB (below 1.5)",
            flush=True,
        )
        good = good and ours <= 1.5 * bare and memory < 1.5
    return good


def tasks() -> bool:
    rows = 100_000 if QUICK else 1_000_000
    by_tasks = {}
    for n_tasks in (1_000, 10_000):
        by_tasks[n_tasks] = alone(1, "one-fit", n_tasks, rows // n_tasks)
        taken, memory = by_tasks[n_tasks]
        print(
            f"tasks: {n_tasks:,} with {rows // n_tasks:,} rows: {taken:.1f} s, "
            f"{memory:.2f} GB"
        )
    ratio = by_tasks[10_000][0] / by_tasks[1_000][0]
    print(
        f"tasks: ratio {ratio:.2f} (at most 1.3), {by_tasks[10_000][1]:.2f} GB (below "
        "2)"
    )
    return ratio <= 1.3 and by_tasks[10_000][1] < 2.0


def one_fit(n_tasks: int, per_task: int) -> None:
    """Seconds and memory of a fit; if asked, seconds of the bare arithmetic."""
    X, task = made(n_tasks, per_task)
    model = JointOCKSR(landmarks=LANDMARKS, random_state=0)
    figures = [seconds(lambda: model.fit(X, task=task))]
    figures.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
    if "bare" in sys.argv:
        data = Data(X, task, X[:1], task[:1], np.zeros(1, dtype=bool))
        figures.append(seconds(partial(CONTENDERS[FLOOR], data, LANDMARKS)))
    print(*figures)


def workers() -> bool:
    rows = 40_000 if QUICK else 1_000_000
    rounds = 2 if QUICK else 1
    best = {}
    for number in (1, 2):
        load = Load(rows, 100, COLUMNS, LANDMARKS, workers=number)
        taken = times_of(load, rounds)
        best[number] = [min(taken[name]) for name in (OURS, FLOOR)]
        ours, bare = best[number]
        print(
            f"workers: {number}: Dask {ours:.1f} s, bare processes {bare:.1f} s",
            flush=True,
        )
    ours, bare = (slow / fast for slow, fast in zip(best[1], best[2], strict=True))
    print(
        f"workers: bare {bare:.2f}x, Dask {ours:.2f}x: {ours / bare:.2f} of it (at "
        "least 0.9)"
    )
    return ours >= 0.9 * bare


def both(data: Data, landmarks: int) -> np.ndarray:
    """A joint model and each task alone, one alarm."""
    alone = IndependentOCKSR(kernel="laplacian", width=3.0, metric="whitened")
    joint = JointOCKSR(landmarks=landmarks, random_state=0)
    model = CombinedOneClass([("strangers", joint), ("faults", alone)])
    model.fit(data.X, task=data.task)
    return model.score_samples(data.X_test, task=data.task_test)


def forests() -> bool:
    data = fleet(5_000 if QUICK else 20_000, 50 if QUICK else 200, COLUMNS)
    rival = "IsolationForest per task"
    aucs = {}
    taken = {}
    ours = {"JointOCKSR": CONTENDERS["JointOCKSR"], "CombinedOneClass": both}
    for name, contender in {rival: CONTENDERS[rival], **ours}.items():
        scores, taken[name] = timed(partial(contender, data, 500))
        aucs[name] = task_auc(data, scores)
        print(f"forests: {name}: AUC {aucs[name]:.3f}, {taken[name]:.1f} s", flush=True)
    return all(
        aucs[name] > aucs[rival] and taken[name] < 0.5 * taken[rival] for name in ours
    )


def large() -> bool:
    rows = 20_000 if QUICK else 100_000
    good = True
    for landmarks in (300, 1_000):
        taken, memory, alarms = alone(1, "one-large", rows, landmarks)
        figures = f"{taken:.1f} s, {memory:.2f} GB beside the rows"
        print(
            f"large: {landmarks} landmarks: {figures}, {100 * alarms:.1f} % alarms (5)",
            flush=True,
        )
        good = good and alarms < 0.06
    rng = np.random.default_rng(0)
    codes = np.append(np.zeros(rows, dtype=int), np.repeat(np.arange(1, 21), 30))
    centres = 4.0 * rng.normal(size=(21, 5))
    claim = np.repeat(np.arange(1, 21), 100)
    X, Z = (
        centres[owners] + rng.normal(size=(len(owners), 5)) for owners in (codes, claim)
    )
    model = JointOCKSR(landmarks=100, random_state=0).fit(X, task=codes)
    small = float(np.mean(model.predict(Z, task=claim) == -1))
    print(f"large: tasks of 30 beside it: {100 * small:.1f} % (5)")
    return good and small < 0.08


def one_large(rows: int, landmarks: int) -> None:
    """Seconds and memory of a fit, and alarms on new rows of the large task."""
    rng = np.random.default_rng(0)
    task = np.append(np.zeros(rows, dtype=int), np.arange(1, 1_001))
    X, Z = (rng.normal(size=(n, COLUMNS)) for n in (len(task), 10_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    model = JointOCKSR(landmarks=landmarks, random_state=0)
    figures = [seconds(lambda: model.fit(X, task=task))]
    figures.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20 - before)
    print(*figures, np.mean(model.predict(Z, task=np.zeros(len(Z), dtype=int)) == -1))


def table() -> bool:
    """Ten times the rows may take no more than the time to read them."""
    for files in (1, 2) if QUICK else (1, 10):
        taken, memory = alone(1, "one-table", files)
        print(
            f"table: {files} files of 100,000 rows: {taken:.0f} s (below 150), "
            f"{memory:.2f} GB (below 2.5)",
            flush=True,
        )
    return memory < 2.5 and taken < 150.0


def one_table(files: int) -> None:
    """Seconds and memory of a fit to Parquet files of 16 tasks and 8 columns."""
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(16, 8))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            task = rng.integers(0, 16, 100_000)
            X = centres[task] + rng.normal(size=(len(task), 8))
            rows = pl.DataFrame(X, schema=[f"x{k}" for k in range(8)])
            rows.with_columns(task=pl.Series(task)).write_parquet(
                f"{folder}/{number}.parquet"
            )
        del task, X, rows
        model = TableModel("task", method="default", random_state=0)
        taken = seconds(lambda: model.fit(folder))
    print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def main() -> int:
    warnings.simplefilter("ignore")
    if "one-fit" in sys.argv:
        one_fit(*(int(word) for word in sys.argv[2:4]))
        return 0
    children = {"one-rival": one_rival, "one-large": one_large, "one-table": one_table}
    if sys.argv[1:] and sys.argv[1] in children:
        children[sys.argv[1]](*(int(word) for word in sys.argv[2:]))
        return 0
    parts = (scoring, rival, million, tasks, workers, forests, large, table)
    studies = {study.__name__: study for study in parts}
    chosen = [name for name in studies if name in sys.argv] or list(studies)
    return int(not all([studies[name]() for name in chosen]))


if __name__ == "__main__":
    sys.exit(main())
