"""Times of several calls in one run, taken in turns so that a noisy machine hits all alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manyone.bench.workers import in_turns as rounds


def in_turns(calls: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Shortest time of each call in seconds; one warm-up round is not counted."""
    return {name: min(taken[1:]) for name, taken in rounds(calls, repeats + 1).items()}


def shortest(call: Callable[[], Any], repeats: int = 5) -> float:
    """Shortest time of one call, after a warm-up."""
    return in_turns({"it": call}, repeats)["it"]
