"""Times of several calls in one run, taken in turns so that a noisy machine hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def in_turns(calls: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Shortest time of each call in seconds; one warm-up round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: float(np.min(taken)) for name, taken in times.items()}


def shortest(call: Callable[[], Any], repeats: int = 5) -> float:
    """Shortest time of one call, after a warm-up."""
    return in_turns({"it": call}, repeats)["it"]
