"""Time to import a method, beside the time to import the packages that it needs.

Run ``python benchmarks/bench_import.py``. Each import is in a fresh process, in turns.
(``import manyone`` itself imports nothing.) Bytecode is cached, as for installed
packages. The fastest turns count, as other work on the machine disturbs them least.
Exits with 1 where the ratio is above the promise.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

MOST = 1.2
TURNS = 7
STATEMENTS = (
    "import sklearn, scipy.linalg, scipy.spatial",
    "from manyone import JointOCKSR",
)


def seconds(statement: str) -> float:
    """Processor time of `statement` in a fresh interpreter, without its start."""
    script = (
        f"import time; t = time.process_time(); {statement}; "
        "print(time.process_time() - t)"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }
    return float(
        subprocess.check_output([sys.executable, "-c", script], env=environment)
    )


def main() -> int:
    turns = [[seconds(statement) for statement in STATEMENTS] for _ in range(TURNS + 1)]
    # The first turn writes bytecode and warms the disk cache.
    base, ours = np.min(turns[1:], axis=0)
    for statement, fastest in zip(STATEMENTS, (base, ours), strict=True):
        print(f"{statement:<46}{1e3 * fastest:7.0f} ms")
    print(f"ratio {ours / base:.2f} (at most {MOST} promised)")
    return int(ours / base > MOST)


if __name__ == "__main__":
    sys.exit(main())
