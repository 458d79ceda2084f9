"""Times of calls in one run, in turns, so that a noisy machine disturbs all alike.

Other scripts import this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from manyone.threads import blas_threads

Call = Callable[[], object]
Clock = Callable[[], float]
Result = TypeVar("Result")


def timed(
    call: Callable[[], Result], clock: Clock | None = None
) -> tuple[Result, float]:
    """What a call returns, and its seconds.

    These are processor time on one BLAS thread; on more of them, time that passes.
    """
    if clock is None:
        clock = time.process_time if blas_threads() == 1 else time.perf_counter
    begin = clock()
    result = call()
    return result, clock() - begin


def seconds(call: Call, clock: Clock | None = None) -> float:
    """Seconds of a call, see `timed`."""
    return timed(call, clock)[1]


def rounds(
    calls: Mapping[str, Call], repeats: int, clock: Clock | None = None
) -> dict[str, list[float]]:
    """Seconds of each call in each round; a round makes every call once."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call, clock))
    return times


def in_turns(calls: Mapping[str, Call], repeats: int = 5) -> dict[str, float]:
    """Shortest time of each call in seconds; one warm-up round is not counted."""
    times = rounds(calls, repeats + 1)
    return {name: min(turns[1:]) for name, turns in times.items()}


def shortest(call: Call, repeats: int = 5) -> float:
    """Shortest time of one call, after a warm-up."""
    return in_turns({"call": call}, repeats)["call"]
