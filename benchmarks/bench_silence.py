"""Silent tasks: gaps that are flagged by chance, and the delay until a dead task is.

    python benchmarks/bench_silence.py [DRAWS]

Arrivals are regular, Poisson, in bursts, and hourly without nights and weekends. Each
task has its own pace. The delay of a dead task is given in its median gaps and in its
99 % quantiles of gaps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from manyone.alerts.silence import LEVEL, gap_pvalues, gap_table

RNG = np.random.default_rng(0)
# Kinds of arrivals: so many gaps of a task, whose usual one is about 1.
Arrivals = Callable[[int], np.ndarray]


def regular(n: int) -> np.ndarray:
    """Within 5 % of one another."""
    return 1.0 + 0.05 * RNG.uniform(-1.0, 1.0, n)


def poisson(n: int) -> np.ndarray:
    """At random."""
    return RNG.exponential(size=n)


def bursts(n: int) -> np.ndarray:
    """Some ten rows, then a long pause."""
    is_long = RNG.uniform(size=n) < 0.1
    return RNG.exponential(size=n) * np.where(is_long, 30.0, 0.2)


def shifts(n: int) -> np.ndarray:
    """Hourly, off at night and at the end of the week."""
    hour = np.arange(n) + RNG.integers(50)
    gaps = regular(n)
    gaps[hour % 10 == 9] = RNG.uniform(13.5, 14.5)
    gaps[hour % 50 == 49] = RNG.uniform(61.0, 63.0)
    return gaps


def flagged_after(gaps: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Multiples of units after which each task is flagged, to 2 %."""
    after = np.full(len(gaps), np.inf)
    for factor in np.geomspace(200.0, 0.5, 300):
        is_flagged = gap_pvalues(gaps, factor * unit, LEVEL) <= LEVEL
        after[is_flagged] = factor
    return after


def measure(arrivals: Arrivals, low: int, high: int, draws: int) -> str:
    """A line about tasks with so many gaps."""
    share = []
    typical = []
    quantile = []
    for draw in range(draws):
        sizes = RNG.integers(low, high + 1, 100)
        lists = [np.exp(RNG.normal()) * arrivals(n + 1) for n in sizes]
        gaps = gap_table([each[:-1] for each in lists])
        current = np.array([each[-1] for each in lists])
        share.append(np.mean(gap_pvalues(gaps, current, LEVEL) <= LEVEL))
        if draw < 3:
            typical += flagged_after(gaps, np.nanmedian(gaps, axis=1)).tolist()
            quantile += flagged_after(gaps, np.nanquantile(gaps, 0.99, axis=1)).tolist()
    error = np.std(share) / np.sqrt(draws)
    return (
        f"{low:3d} to {high:3d} gaps: flagged by chance {100 * np.mean(share):.2f} ± "
        f"{100 * error:.2f} %; dead ones after {np.median(typical):.1f} median gaps, "
        f"{np.median(quantile):.2f} of the 99 % gap ({np.quantile(quantile, 0.95):.2f} "
        "in the 95th of 100 tasks)"
    )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for arrivals in (regular, poisson, bursts, shifts):
        for low, high in ((500, 500), (99, 99), (40, 98), (5, 30)):
            print(
                f"{arrivals.__name__:8s}",
                measure(arrivals, low, high, number),
                flush=True,
            )
