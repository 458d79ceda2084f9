"""Time of ``predict`` for one row, beside arithmetic and scikit-learn's validation.

Run ``python benchmarks/bench_latency.py``. There are 300 training rows of 10 tasks in
20 columns. Exits with 1 where `predict` takes longer than promised.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from manyone import IndependentOCKSR, JointOCKSR

MOST = 120.0  # microseconds
TASKS = 10
ROWS = 30
WIDTH = 20
LOOPS = 20
TURNS = 300


def microseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Time of one call in the fastest, undisturbed one of many short turns."""
    turns = [
        [1e6 * timeit.timeit(call, number=LOOPS) / LOOPS for call in calls.values()]
        for _ in range(TURNS + 1)
    ]
    return dict(zip(calls, np.min(turns[1:], axis=0).tolist(), strict=True))


def main() -> int:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), ROWS)
    X = 2.0 * rng.normal(size=(TASKS, WIDTH))[task] + rng.normal(
        size=(len(task), WIDTH)
    )
    row = X[:1] + 0.1
    label = task[:1]
    joint, alone = (
        cls(alarm_rate=0.1).fit(X, task=task) for cls in (JointOCKSR, IndependentOCKSR)
    )
    gamma = 0.05
    squares = np.einsum("ij,ij->i", X, X)
    coefficients = rng.normal(size=len(X))

    def arithmetic() -> bool:
        distances = squares - 2.0 * (X @ row[0]) + row[0] @ row[0]
        return bool(-abs(np.exp(-gamma * distances) @ coefficients - 1.0) < -0.5)

    times = microseconds(
        {
            "bare arithmetic": arithmetic,
            "scikit-learn's validate_data": lambda: validate_data(
                joint, row, reset=False
            ),
            "JointOCKSR.predict": lambda: joint.predict(row, task=label),
            "IndependentOCKSR.predict": lambda: alone.predict(row, task=label),
        }
    )
    for name, time in times.items():
        promise = f"  (at most {MOST:.0f} promised)" if name.endswith("predict") else ""
        print(f"{name:<30}{time:8.1f} microseconds{promise}")
    return int(
        max(time for name, time in times.items() if name.endswith("predict")) > MOST
    )


if __name__ == "__main__":
    sys.exit(main())
