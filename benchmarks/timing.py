"""Times of several calls in one run, in turns: a noisy machine hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Call = Callable[[], object]
Clock = Callable[[], float]


def rounds(
    calls: Mapping[str, Call], repeats: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each call in each round; a round makes every call once."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = clock()
            call()
            seconds[name].append(clock() - begin)
    return seconds


def in_turns(
    calls: Mapping[str, Call], repeats: int = 5, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Shortest time of each call in seconds; one warm-up round is not counted."""
    seconds = rounds(calls, repeats + 1, clock)
    return {name: min(times[1:]) for name, times in seconds.items()}


def shortest(call: Call, repeats: int = 5) -> float:
    """Shortest time of one call, after a warm-up."""
    return in_turns({"call": call}, repeats)["call"]
