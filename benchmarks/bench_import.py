"""Importing a method beside what it cannot do without, each in fresh processes, in turns.

(``import manyone`` itself imports nothing.) Exits with 1 where the ratio of the medians is above
what is promised.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

MOST, TURNS = 1.2, 15
STATEMENTS = ("import sklearn, scipy.linalg, scipy.spatial", "from manyone import JointOCKSR")


def seconds(statement: str) -> float:
    """Time that `statement` takes in a fresh interpreter, whose own start is not counted."""
    script = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    return float(subprocess.check_output([sys.executable, "-c", script]))


def main() -> int:
    turns = [[seconds(statement) for statement in STATEMENTS] for _ in range(TURNS + 1)]
    base, ours = np.median(turns[1:], axis=0)  # the first turn warms the disk cache
    for statement, median in zip(STATEMENTS, (base, ours), strict=True):
        print(f"{statement:<46}{1e3 * median:7.0f} ms")
    print(f"ratio {ours / base:.2f} (at most {MOST} promised)")
    return int(ours / base > MOST)


if __name__ == "__main__":
    sys.exit(main())
