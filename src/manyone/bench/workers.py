"""Strong and weak scaling: single-threaded Dask workers against as many bare processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from manyone._types import Array, Codes
from manyone.bench.cases import Case
from manyone.bench.contenders import FLOOR, OURS, Data, floor
from manyone.estimators.joint import JointOCKSR
from manyone.threads import one_blas_thread

# Chunks of each fit: the same for any number of workers.
_CHUNKS = 16


def in_turns(
    calls: dict[str, Callable[[], Any]], repeats: int
) -> dict[str, list[float]]:
    """Seconds of each call in each round; a round makes every call once."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return times


def made(numbers: Codes, n_tasks: int, n_features: int) -> Array:
    """Rows (n, d) with these numbers, about the centres of their tasks."""
    centres = 2.0 * np.random.default_rng(0).normal(size=(n_tasks, n_features))
    noise = np.random.default_rng(1 + numbers[0]).normal(
        size=(len(numbers), n_features)
    )
    return np.asarray(centres[numbers % n_tasks] + noise)


def bare(case: Case, numbers: Codes) -> None:
    """The arithmetic of a fit by hand, for some of the rows."""
    X, task = made(numbers, case.n_tasks, case.n_features), numbers % case.n_tasks
    with one_blas_thread():
        floor(Data(X, task, X[:1], task[:1], np.zeros(1, dtype=bool)), case.landmarks)


def warm_up() -> None:
    """Import all that a fit needs."""
    X = np.random.default_rng(0).normal(size=(99, 2))
    JointOCKSR(landmarks=9, random_state=0).fit(X, task=np.arange(99) % 3)


def times_of(case: Case, repeats: int) -> dict[str, list[float]]:
    """Seconds of each round, of JointOCKSR on Dask workers and of the floor on processes.

    Parameters
    ----------
    case : Case
        With a number of workers.
    repeats : int
        Rounds that are counted.

    Returns
    -------
    dict of str to list of float
    """
    import dask.array as da
    from dask.distributed import Client, LocalCluster, wait

    numbers = np.arange(case.n_rows)
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True}
    with ProcessPoolExecutor(case.workers) as pool:
        run = partial(bare, case)
        list(pool.map(run, [numbers[: 2 * case.landmarks]] * case.workers))  # imports
        with (
            LocalCluster(
                n_workers=case.workers, dashboard_address=None, **options
            ) as cluster,
            Client(cluster) as client,
        ):
            places = da.arange(case.n_rows, chunks=-(-case.n_rows // _CHUNKS))
            X = da.map_blocks(
                made,
                places,
                case.n_tasks,
                case.n_features,
                new_axis=1,
                chunks=(places.chunks[0], (case.n_features,)),
                meta=np.empty((0, 0)),
            ).persist()
            wait(X)
            client.run(warm_up)
            warm_up()
            model = JointOCKSR(landmarks=case.landmarks, random_state=0)
            contenders: dict[str, Callable[[], Any]] = {
                OURS: lambda: model.fit(X, task=numbers % case.n_tasks),
                FLOOR: lambda: list(
                    pool.map(run, np.array_split(numbers, case.workers))
                ),
            }
            return in_turns(contenders, repeats)
