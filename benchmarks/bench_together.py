"""All new rows of a task at once: whether its p-value holds, and which faults it finds.

    python benchmarks/bench_together.py [--draws 40] [--seed 0] [--quick]
        [--methods NAME ...]

Promise: `pvalues_together` of normal rows is at most a in at most a share a of tasks,
for 5 to 50 rows a task and 1 to 50 new ones, with normal and heavy tails and with ties.
That is a theorem for exact p-values; here it is measured for those from left-out
scores. Faults: all new rows of a task have one column shifted by two standard
deviations. Printed is the share of such tasks with p <= 1 %, beside the share of tasks
in which any row has p <= 1 % / m on its own.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np

from manyone import KNFST, SVDD, IndependentOCKSR, JointOCKSR

TASKS = 10
COLUMNS = 4
LEVELS = (0.01, 0.05, 0.2)
SIZES = ((5, 3), (5, 50), (12, 1), (12, 12), (12, 50), (30, 10), (50, 50))
METHODS = {
    "Joint, exact": JointOCKSR(),
    "Independent, exact": IndependentOCKSR(),
    "SVDD": SVDD(),
    "Independent, adaptive": IndependentOCKSR(
        metric="adaptive", kernel="laplacian", width=3.0
    ),
    "KNFST": KNFST(),
}


def rows(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    standard = rng.normal(size=(count, COLUMNS))
    if kind == "t2":
        return standard / np.sqrt(rng.chisquare(2, count) / 2)[:, None]
    if kind == "yes/no":
        return (standard > [1.0, 0.5, 1.5, 1.2]).astype(float)
    return standard


def measure(method: str, kind: str, n_train: int, new: int, seeds: range) -> np.ndarray:
    """P-values (draws, tasks) of normal rows, of shifted ones, of the lowest single."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([seed, n_train, new])
        centre = 2.0 * rng.normal(size=(TASKS, COLUMNS)) * (kind != "yes/no")
        task = np.repeat(np.arange(TASKS), n_train)
        claims = np.repeat(np.arange(TASKS), new)
        model = METHODS[method].fit(
            centre[task] + rows(rng, kind, len(task)), task=task
        )
        batch = centre[claims] + rows(rng, kind, len(claims))
        shifted = batch + 2.0 * np.eye(COLUMNS)[0]
        alone = model.pvalues(shifted, task=claims).reshape(TASKS, new).min(axis=1)
        normal = model.pvalues_together(batch, task=claims)[1]
        results.append(
            [normal, model.pvalues_together(shifted, task=claims)[1], new * alone]
        )
    return np.swapaxes(results, 0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--quick", action="store_true", help="5 draws")
    parser.add_argument("--methods", nargs="*", choices=list(METHODS))
    arguments = parser.parse_args()
    draws = 5 if arguments.quick else arguments.draws
    seeds = range(arguments.seed, arguments.seed + draws)
    warnings.simplefilter("ignore")
    print(f"{draws} draws of {TASKS} tasks; percent of tasks, normal rows and shifted")
    print(f"{'method':29}{'rows':8}{'known':>6}{'new':>5}   ", end="")
    print("".join(f"p <= {100 * a:g} %".rjust(12) for a in LEVELS), end="")
    print(f"{'found at 1 %':>15}{'by one row':>12}")
    broken = []
    for method in arguments.methods or METHODS:
        for kind in ("normal", "t2", "yes/no"):
            for known, new in SIZES:
                normal, shifted, alone = measure(method, kind, known, new, seeds)
                print(f"{method:29}{kind:8}{known:6}{new:5}   ", end="")
                for level in LEVELS:
                    share = (normal <= level).mean()
                    error = np.sqrt(level * (1.0 - level) / normal.size)
                    print(f"{100 * share:12.1f}", end="")
                    if share > level + 3.0 * error:
                        broken.append(f"{method}, {kind}, {known}/{new} at {level:g}")
                power = 100.0 * np.array([np.mean(p <= 0.01) for p in (shifted, alone)])
                print(f"{power[0]:15.0f}{power[1]:12.0f}", flush=True)
    if broken:
        sys.exit(f"promise broken: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
