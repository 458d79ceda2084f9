"""Single-threaded Dask workers beside as many bare processes.

``bench_scale.py`` imports this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import dask.array as da
import numpy as np
from contenders import FLOOR, OURS, Data, floor
from dask.distributed import Client, LocalCluster, wait
from timing import rounds

from manyone._types import Array, Codes
from manyone.estimators.joint import JointOCKSR
from manyone.threads import one_blas_thread

# Chunks of each fit: the same for any number of workers.
CHUNKS = 16


@dataclass(frozen=True)
class Load:
    """What is fitted, and by how many workers."""

    n_rows: int
    n_tasks: int
    n_features: int
    landmarks: int
    workers: int


def make_rows(numbers: Codes, n_tasks: int, n_features: int) -> Array:
    """Rows (n, d) with these numbers, about the centres of their tasks."""
    centres = 2.0 * np.random.default_rng(0).normal(size=(n_tasks, n_features))
    rng = np.random.default_rng(1 + numbers[0])
    noise = rng.normal(size=(len(numbers), n_features))
    return np.asarray(centres[numbers % n_tasks] + noise)


def bare(load: Load, numbers: Codes) -> None:
    """The arithmetic of a fit by hand, for the rows with these numbers."""
    X = make_rows(numbers, load.n_tasks, load.n_features)
    task = numbers % load.n_tasks
    data = Data(X, task, X[:1], task[:1], np.zeros(1, dtype=bool))
    with one_blas_thread():
        floor(data, load.landmarks)


def warm_up() -> None:
    """Import all that a fit needs."""
    X = np.random.default_rng(0).normal(size=(99, 2))
    JointOCKSR(landmarks=9, random_state=0).fit(X, task=np.arange(99) % 3)


def times_of(load: Load, repeats: int) -> dict[str, list[float]]:
    """Seconds of each round: JointOCKSR on Dask workers, the floor on processes."""
    numbers = np.arange(load.n_rows)
    run = partial(bare, load)
    with (
        ProcessPoolExecutor(load.workers) as pool,
        LocalCluster(
            n_workers=load.workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        # The first call imports: it is not counted.
        list(pool.map(run, [numbers[: 2 * load.landmarks]] * load.workers))
        places = da.arange(load.n_rows, chunks=-(-load.n_rows // CHUNKS))
        X = da.map_blocks(
            make_rows,
            places,
            load.n_tasks,
            load.n_features,
            new_axis=1,
            chunks=(places.chunks[0], (load.n_features,)),
            meta=np.empty((0, 0)),
        ).persist()
        wait(X)
        client.run(warm_up)
        warm_up()
        model = JointOCKSR(landmarks=load.landmarks, random_state=0)
        parts = np.array_split(numbers, load.workers)
        calls: dict[str, Callable[[], object]] = {
            OURS: lambda: model.fit(X, task=numbers % load.n_tasks),
            FLOOR: lambda: list(pool.map(run, parts)),
        }
        return rounds(calls, repeats, time.perf_counter)
