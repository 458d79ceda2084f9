"""Seconds, accuracy and memory of ours, of rivals, and of the bare arithmetic.

Run ``python benchmarks/bench_contenders.py [--quick]``. It prints a Markdown table. All
contenders fit the same rows and score the same test rows, in turns, in one process and
on the same BLAS threads. "beside ours" is the median over rounds of a contender's
seconds over those of JointOCKSR, with the lowest and the highest. JointOCKSR also sets
thresholds in this time; rivals do not. The bare arithmetic is no model: it is the
kernel values, products and triangular solves by hand. MB is the most memory held at a
time beside the rows. AUC is the mean over tasks, of faults and strangers.
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from contenders import CONTENDERS, FLOOR, OURS, fleet, task_auc
from timing import rounds

EVERYBODY = tuple(CONTENDERS)
# The rival that holds all kernel values is left out of large cases.
LIGHT = tuple(name for name in EVERYBODY if name != "himalaya KernelRidge")
LANDMARKS_ONLY = (OURS, FLOOR, "Nystroem + Ridge")
HEAD = "| rows | tasks | landmarks | who | seconds | beside ours | AUC % | MB |"


@dataclass(frozen=True)
class Case:
    """Rows of a fleet, and who is fitted to them."""

    n_rows: int
    n_tasks: int
    n_features: int
    landmarks: int
    contenders: tuple[str, ...] = LANDMARKS_ONLY


QUICK = (
    Case(1_000, 20, 8, 100, EVERYBODY),
    Case(4_000, 20, 8, 100),
    Case(2_000, 100, 8, 100),
    Case(2_000, 20, 8, 25),
)
CASES = (
    Case(3_000, 100, 32, 1_000, EVERYBODY),
    Case(10_000, 100, 32, 1_000, LIGHT),
    Case(30_000, 100, 32, 1_000),
    Case(100_000, 100, 32, 1_000),
    Case(30_000, 30, 32, 500),
    Case(30_000, 3_000, 32, 500, (OURS, FLOOR)),
    Case(30_000, 100, 32, 50),
    Case(30_000, 100, 32, 150),
    Case(30_000, 100, 32, 1_500),
)


def measure(case: Case, repeats: int = 3) -> Iterator[str]:
    """Lines of the table for one case."""
    data = fleet(case.n_rows, case.n_tasks, case.n_features)
    sizes = f"| {case.n_rows:,} | {case.n_tasks:,} | {case.landmarks:,} |"
    aucs: dict[str, str] = {}
    peaks: dict[str, float] = {}
    for name in case.contenders:  # this round also warms up
        tracemalloc.start()
        try:
            scores = CONTENDERS[name](data, case.landmarks)
        except ImportError as error:
            yield f"{sizes} {name} | not installed: {error} | | | |"
            continue
        finally:
            peaks[name] = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
        aucs[name] = "" if scores is None else f"{100 * task_auc(data, scores):.1f}"
    calls = {name: partial(CONTENDERS[name], data, case.landmarks) for name in aucs}
    seconds = rounds(calls, repeats)
    for name, times in seconds.items():
        ratios = np.divide(times, seconds[OURS])
        spread = f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
        figures = (
            f"{np.median(times):.3f} | {spread} | {aucs[name]} | {peaks[name]:.0f}"
        )
        yield f"{sizes} {name} | {figures} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases, two minutes")
    cases = QUICK if parser.parse_args().quick else CASES
    warnings.simplefilter("ignore")
    print(HEAD)
    print("|---" * 8 + "|")
    for case in cases:
        for line in measure(case):
            print(line, flush=True)


if __name__ == "__main__":
    main()
