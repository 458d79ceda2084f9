"""False alarms on fresh normal rows beside the rate that was asked for.

A cell is a law of rows, the sizes of the tasks and a method. Every draw makes a new
training set; fresh rows of the same law are scored at several rates. Printed is the
mean over tasks and draws, with its standard error over draws, and the worst task's mean
over draws. Run ``python benchmarks/bench_promises.py [--draws N] [--seed S] [cell ...]``;
without names all cells run.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyone import (
    KNFST,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    MultiTaskOneClassSVM,
    NonlinearOCKSR,
)
from manyone.estimators.base import OneClassEstimator

RATES = (0.01, 0.05, 0.1, 0.2)
FRESH_ROWS = 200
Rows = NDArray[np.float64]


def adaptive() -> OneClassEstimator:
    """What `auto` usually chooses for faults."""
    return IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)


METHODS: dict[str, Callable[[], OneClassEstimator]] = {
    "Independent": IndependentOCKSR,
    "adaptive": adaptive,
    "Joint": JointOCKSR,
    "KNFST": KNFST,
    "Nonlinear": NonlinearOCKSR,
    "SVM": MultiTaskOneClassSVM,
    "Combined": CombinedOneClass,
}


class Fleet(NamedTuple):
    """Centres and spreads of tasks, drawn once for a training set and its fresh rows."""

    centre: Rows
    spread: Rows
    chance: Rows

    @classmethod
    def drawn(cls, rng: np.random.Generator, n_tasks: int, n_columns: int) -> Fleet:
        """Centres of standard deviation 2, log-normal spreads, chances of a yes."""
        centre = 2.0 * rng.normal(size=(n_tasks, n_columns))
        spread = np.exp(rng.normal(size=n_tasks))
        return cls(centre, spread, rng.uniform(0.02, 0.3, (n_tasks, n_columns)))


def gaussian(rng: np.random.Generator, fleet: Fleet, task: NDArray[np.intp]) -> Rows:
    """Rows about the centre of their task."""
    noise = rng.normal(size=(len(task), fleet.centre.shape[1]))
    return fleet.centre[task] + noise


def heavy(rng: np.random.Generator, fleet: Fleet, task: NDArray[np.intp]) -> Rows:
    """Columns with Student's law of two degrees of freedom."""
    noise = rng.standard_t(2.0, size=(len(task), fleet.centre.shape[1]))
    return fleet.centre[task] + noise


def unlike(rng: np.random.Generator, fleet: Fleet, task: NDArray[np.intp]) -> Rows:
    """Gaussian rows of tasks whose spreads differ."""
    noise = rng.normal(size=(len(task), fleet.centre.shape[1]))
    return fleet.centre[task] + fleet.spread[task, None] * noise


def yes_no(rng: np.random.Generator, fleet: Fleet, task: NDArray[np.intp]) -> Rows:
    """Columns of zeros and ones."""
    chance = fleet.chance[task]
    return (rng.random(chance.shape) < chance).astype(np.float64)


class Cell(NamedTuple):
    """What is simulated."""

    law: Callable[[np.random.Generator, Fleet, NDArray[np.intp]], Rows]
    sizes: tuple[int, ...]
    n_columns: int = 6


CELLS = {
    "equal 8": Cell(gaussian, (8,) * 20),
    "equal 20": Cell(gaussian, (20,) * 20),
    "unlike 8": Cell(unlike, (8,) * 20),
    "heavy 8": Cell(heavy, (8,) * 20),
    "1x300 + 20x3": Cell(gaussian, (300,) + (3,) * 20),
    "1x300 + 20x2": Cell(gaussian, (300,) + (2,) * 20),
    "3x200 + 12x6": Cell(gaussian, (200,) * 3 + (6,) * 12),
    "mixed": Cell(gaussian, (2, 3, 3, 5, 8, 12, 20, 50, 300)),
    "one row": Cell(gaussian, (20,) * 5 + (1,)),
    "yes/no 1 x 50": Cell(yes_no, (50, 50), 1),
    "yes/no 6 x 12": Cell(yes_no, (12,) * 10),
    "yes/no 6 x 50": Cell(yes_no, (50,) * 5),
}


def measured(cell: Cell, method: str, draws: int, seed: int) -> Rows:
    """False-alarm rates, shape (draws, rates, tasks)."""
    n_tasks = len(cell.sizes)
    task = np.repeat(np.arange(n_tasks), cell.sizes)
    fresh_task = np.repeat(np.arange(n_tasks), FRESH_ROWS)
    rates = np.empty((draws, len(RATES), n_tasks))
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        fleet = Fleet.drawn(rng, n_tasks, cell.n_columns)
        model = METHODS[method]().fit(cell.law(rng, fleet, task), task=task)
        fresh = cell.law(rng, fleet, fresh_task)
        scores = model.score_samples(fresh, task=fresh_task)
        for place, rate in enumerate(RATES):
            alarm = scores < model.recalibrate(rate).offset_[fresh_task]
            rates[draw, place] = alarm.reshape(n_tasks, FRESH_ROWS).mean(axis=1)
    return rates


def main() -> None:
    """Print a line for each cell and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", choices=[[], *CELLS], metavar="cell")
    parser.add_argument("--methods", nargs="*", choices=list(METHODS))
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.cells or CELLS:
        for method in options.methods or METHODS:
            rates = measured(CELLS[name], method, options.draws, options.seed)
            of_draws = 100.0 * rates.mean(axis=2)
            mean = of_draws.mean(axis=0)
            error = of_draws.std(axis=0, ddof=1) / np.sqrt(options.draws)
            worst = 100.0 * rates.mean(axis=0).max(axis=1)
            texts = [
                f"{rate:g}: {m:5.2f} ±{e:4.2f} ({w:4.1f})"
                for rate, m, e, w in zip(RATES, mean, error, worst, strict=True)
            ]
            print(f"{name:15s} {method:12s}", "   ".join(texts), flush=True)


if __name__ == "__main__":
    main()
