"""False-discovery rate and power of `select`, where tasks differ and tails are heavy.

    python benchmarks/bench_select.py [--draws 60] [--seed 0] [--quick]

Promise: at most 10 % of the selected rows are normal, on average over batches (0 where
none is selected), at ``fdr=0.1``. Bad rows have one column shifted by eight standard
deviations of their task.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from manyone import IndependentOCKSR, JointOCKSR

FDR = 0.1
SHARES = (0.0, 0.01, 0.05, 0.2)
METHODS = {"Independent": IndependentOCKSR(), "Joint": JointOCKSR()}


def normal(rng: np.random.Generator, task: np.ndarray) -> np.ndarray:
    return rng.normal(size=(len(task), 4))


def heavy(rng: np.random.Generator, task: np.ndarray) -> np.ndarray:
    """Multivariate t with two degrees of freedom."""
    return normal(rng, task) / np.sqrt(rng.chisquare(2, len(task)) / 2)[:, None]


def one_heavy(rng: np.random.Generator, task: np.ndarray) -> np.ndarray:
    is_heavy = task[:, None] % 5 == 0
    return np.where(is_heavy, rng.standard_t(1.5, (len(task), 4)), normal(rng, task))


class Case(NamedTuple):
    """Training rows and new rows of each task, their law, and how spreads differ."""

    trained: list[int]
    new: list[int]
    rows: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    spread: float = 0.0


CASES = {
    "normal, 5 x 200, batch 5,000": Case([200] * 5, [1000] * 5, normal),
    "one heavy in five, 5 x 200, batch 5,000": Case([200] * 5, [1000] * 5, one_heavy),
    "t2, 5 x 200, batch 5,000": Case([200] * 5, [1000] * 5, heavy),
    "unlike spreads, 1 x 300 + 20 x 3": Case(
        [300] + [3] * 20, [20] + [4] * 20, normal, 1.0
    ),
    "normal, 20 x 20, batch 200": Case([20] * 20, [10] * 20, normal),
    "one heavy in five, 20 x 20, batch 200": Case([20] * 20, [10] * 20, one_heavy),
    "heavy task alone, 5 x 20, batch 200": Case([20] * 5, [200, 0, 0, 0, 0], one_heavy),
    "normal, 40 x 20, one new row each": Case([20] * 40, [1] * 40, normal),
    "unlike spreads, 20 x 5, batch 400": Case([5] * 20, [20] * 20, normal, 0.7),
}


def measure(case: Case, method: str, share: float, seeds: range) -> np.ndarray:
    """Shares (draws, 2): false among the selected, selected among the bad."""
    results = []
    tasks = len(case.trained)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        centre = 2.0 * rng.normal(size=(tasks, 4))
        scale = np.exp(case.spread * rng.normal(size=(tasks, 1)))
        task = np.repeat(np.arange(tasks), case.trained)
        claims = np.repeat(np.arange(tasks), case.new)
        X = centre[task] + scale[task] * case.rows(rng, task)
        batch = centre[claims] + scale[claims] * case.rows(rng, claims)
        is_bad = rng.random(len(claims)) < share
        column = rng.integers(0, 4, len(claims))[is_bad]
        batch[is_bad] += 8.0 * scale[claims[is_bad]] * np.eye(4)[column]
        model = METHODS[method].fit(X, task=task)
        chosen = model.select(batch, task=claims, fdr=FDR)
        wrong = np.sum(chosen & ~is_bad) / max(1, chosen.sum())
        power = np.sum(chosen & is_bad) / max(1, is_bad.sum())
        results.append([wrong, power])
    return np.array(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--quick", action="store_true", help="10 draws")
    arguments = parser.parse_args()
    draws = 10 if arguments.quick else arguments.draws
    seeds = range(arguments.seed, arguments.seed + draws)
    warnings.simplefilter("ignore")
    print(f"{draws} draws; percent: false among selected / selected among bad")
    print(f"{'case':42}{'method':13}", end="")
    print("".join(f"{100 * share:g} % bad".rjust(18) for share in SHARES))
    broken = []
    for name, case in CASES.items():
        for method in METHODS:
            print(f"{name:42}{method:13}", end="", flush=True)
            for share in SHARES:
                shares = measure(case, method, share, seeds)
                wrong, found = 100.0 * shares.mean(axis=0)
                error = 100.0 * shares[:, 0].std() / np.sqrt(draws)
                cell = f"{wrong:.1f} ± {error:.1f} / {found:.0f}"
                print(f"{cell:>18}", end="", flush=True)
                # Where all draws agree, the error of a share of the promised size.
                least = 100.0 * np.sqrt(FDR * (1.0 - FDR) / draws)
                if wrong > 100.0 * FDR + 3.0 * max(error, least / 2.0):
                    broken.append(f"{name}, {method}, {share:g}")
            print()
    if broken:
        sys.exit(f"promise broken: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
