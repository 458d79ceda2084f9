"""Measure cases: all contenders in one process, in turns, after a warm-up round."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from manyone._types import Array
from manyone.bench.cases import Case
from manyone.bench.contenders import CONTENDERS, OURS, Data, fleet
from manyone.tables.evaluation import auc


@dataclass(frozen=True)
class Measured:
    """What one contender took in one case.

    Attributes
    ----------
    case : Case
    contender : str
    seconds : tuple of float
        Of each round.
    ratios : tuple of float
        Its time over ours, in each round.
    auc : float
        Mean over tasks, of test rows with faults and strangers; NaN for the floor.
    peak_mb : float
        Most memory that was held at a time beside the data.
    note : str
        Why it was not measured.
    """

    case: Case
    contender: str
    seconds: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    auc: float = float("nan")
    peak_mb: float = float("nan")
    note: str = ""


def measure(
    cases: Sequence[Case], repeats: int, tell: Callable[[int, int], None] = lambda done, of: None
) -> list[Measured]:
    """Measure cases.

    Parameters
    ----------
    cases : sequence of Case
    repeats : int
        Rounds that are counted.
    tell : callable
        Told how many cases are done, and of how many.

    Returns
    -------
    list of Measured
    """
    found: list[Measured] = []
    for done, case in enumerate(cases):
        tell(done, len(cases))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += _scaled(case, repeats) if case.workers else _measured(case, repeats)
    tell(len(cases), len(cases))
    return found


def _measured(case: Case, repeats: int) -> list[Measured]:
    data = fleet(case.n_rows, case.n_tasks, case.n_features)
    aucs, peaks, notes = {}, {}, {}
    for name in case.contenders:  # this round also warms up
        tracemalloc.start()
        try:
            scores = CONTENDERS[name](data, case.landmarks)
        except ImportError as error:
            notes[name] = f"not installed: {error}"
            continue
        finally:
            peaks[name] = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
        aucs[name] = float("nan") if scores is None else task_auc(data, scores)
    able = [name for name in case.contenders if name not in notes]
    times: dict[str, list[float]] = {name: [] for name in able}
    for _ in range(repeats):
        for name in able:
            begin = time.perf_counter()
            CONTENDERS[name](data, case.landmarks)
            times[name].append(time.perf_counter() - begin)
    return [
        Measured(case, name, note=notes[name])
        if name in notes
        else Measured(
            case,
            name,
            tuple(times[name]),
            tuple(mine / our for mine, our in zip(times[name], times[OURS], strict=True)),
            aucs[name],
            peaks[name],
        )
        for name in case.contenders
    ]


def _scaled(case: Case, repeats: int) -> list[Measured]:
    from manyone.bench.workers import times_of

    try:
        times = times_of(case, repeats)
    except ImportError as error:
        return [Measured(case, name, note=f"not installed: {error}") for name in case.contenders]
    ours = np.array(times[OURS])
    return [
        Measured(case, name, tuple(taken), tuple((np.array(taken) / ours).tolist()))
        for name, taken in times.items()
    ]


def task_auc(data: Data, scores: Array) -> float:
    """Mean area under the curve over the tasks that have test rows of both kinds."""
    rows = (np.flatnonzero(data.task_test == task) for task in np.unique(data.task_test))
    return float(np.nanmean([auc(scores[mine], data.outlier[mine]) for mine in rows]))
