"""Measure cases: all contenders in one process, in turns, after a warm-up round."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from manyone._types import Array
from manyone.bench.cases import Case
from manyone.bench.contenders import CONTENDERS, OURS, Data, fleet
from manyone.bench.workers import in_turns, times_of
from manyone.selection.judging import own_aucs


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
    cases: Sequence[Case],
    repeats: int,
    tell: Callable[[int, int], None] = lambda done, of: None,
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
            found += (
                _scaled(case, repeats) if case.workers else _measured(case, repeats)
            )
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
    times = in_turns(
        {n: partial(CONTENDERS[n], data, case.landmarks) for n in able}, repeats
    )
    found = {name: Measured(case, name, note=note) for name, note in notes.items()}
    for name in able:
        found[name] = replace(
            _timed(case, name, times), auc=aucs[name], peak_mb=peaks[name]
        )
    return [found[name] for name in case.contenders]


def _scaled(case: Case, repeats: int) -> list[Measured]:
    try:
        times = times_of(case, repeats)
    except ImportError as error:
        return [
            Measured(case, name, note=f"not installed: {error}")
            for name in case.contenders
        ]
    return [_timed(case, name, times) for name in times]


def _timed(case: Case, name: str, times: dict[str, list[float]]) -> Measured:
    """Seconds of a contender, and its time over ours in each round."""
    ratios = np.divide(times[name], times[OURS])
    return Measured(case, name, tuple(times[name]), tuple(ratios.tolist()))


def task_auc(data: Data, scores: Array) -> float:
    """Mean area under the curve over the tasks that have test rows of both kinds."""
    n_tasks = int(data.task_test.max()) + 1
    return float(np.nanmean(own_aucs(scores, data.task_test, data.outlier, n_tasks)))
