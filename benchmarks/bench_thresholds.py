"""What thresholds cost: a calibrated fit of NonlinearOCKSR beside one without, in one run.

At the size of COIL-100 in the paper: 50 tasks of 7 rows. Five refits to five sixths of the rows
each run beside the fit itself, on as many threads as BLAS may use: on one thread nothing can run
beside anything, and they cost what they cost. Exits with 1 where the ratio is larger than promised.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from timing import in_turns

from manyone import NonlinearOCKSR
from manyone.threads import blas_threads

MOST = 3.0
MOST_ON_ONE = 5.0


def main() -> int:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(50), 7)
    X = rng.normal(size=(350, 64)) + 1.5 * rng.normal(size=(50, 64))[task]
    times = in_turns(
        {
            "bare": lambda: NonlinearOCKSR(alarm_rate=None).fit(X, task=task),
            "calibrated": lambda: NonlinearOCKSR().fit(X, task=task),
        }
    )
    ratio = times["calibrated"] / times["bare"]
    threads = blas_threads()
    most = MOST if threads > 1 else MOST_ON_ONE
    print(
        f"NonlinearOCKSR, n=350, T=50, {threads} thread(s): {times['bare']:.2f} s, with thresholds "
        f"{times['calibrated']:.2f} s: {ratio:.2f}x (at most {most:g}x promised)"
    )
    return int(ratio > most)


if __name__ == "__main__":
    sys.exit(main())
