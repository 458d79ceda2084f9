"""What thresholds cost: fits with and without them, and p-values of single rows.

Run ``python benchmarks/bench_thresholds.py``. Closed forms:
:class:`~manyone.JointOCKSR` and :class:`~manyone.IndependentOCKSR` with 2,000 and 4,000
rows. Folds: :class:`~manyone.NonlinearOCKSR` at the size of COIL-100 in the paper, 50
tasks of 7 rows, whose refits run beside the fit on as many threads as BLAS may use.
P-values: one row against 10^4 and 10^6 pooled left-out scores. Exits with 1 where a
figure is larger than promised.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from timing import in_turns

from manyone import IndependentOCKSR, JointOCKSR, NonlinearOCKSR
from manyone.calibration import Calibration
from manyone.threads import blas_threads

MOST_CLOSED_FORM = 2.0
# Two fits for each of the seven folds, and two more.
MOST_FOLDS = 16.0
MOST_GROWTH = 1.5
CLOSED_FORM = (JointOCKSR, IndependentOCKSR)
ROWS = (2000, 4000)
ROWS_OF_A_TASK = 20
POOLED = (10**4, 10**6)


def fit_ratio(
    method: Callable[..., JointOCKSR], n_tasks: int, size: int, columns: int
) -> float:
    """Time of a calibrated fit over that of one without thresholds."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), size)
    X = rng.normal(size=(len(task), columns))
    X += 1.5 * rng.normal(size=(n_tasks, columns))[task]
    times = in_turns(
        {
            "bare": lambda: method(alarm_rate=None).fit(X, task=task),
            "calibrated": lambda: method().fit(X, task=task),
        }
    )
    ratio = times["calibrated"] / times["bare"]
    print(
        f"{method.__name__}, {len(task)} rows, {n_tasks} tasks: {times['bare']:.2f} s, "
        f"with thresholds {times['calibrated']:.2f} s: {ratio:.2f}x"
    )
    return ratio


def pvalue_time(n_scores: int) -> float:
    """Seconds for the p-value of one row of a task that borrows."""
    rng = np.random.default_rng(0)
    size = 50
    codes = np.repeat(np.arange(n_scores // size), size)
    scores = -rng.gamma(2.0, size=len(codes))
    weight = np.ones(len(codes))
    n_tasks = n_scores // size
    calibration = Calibration.from_scores(scores, codes, weight, n_tasks, "folds")
    thresholds = calibration.at(0.05)
    row = np.array([-3.0])
    task = np.array([7])
    thresholds.pvalues(row, task)
    repeats = 200

    def many() -> None:
        for _ in range(repeats):
            thresholds.pvalues(row, task)

    seconds = in_turns({"p-value": many})["p-value"] / repeats
    print(f"p-value of one row, {n_scores} pooled scores: {1e6 * seconds:.0f} us")
    return seconds


def main() -> int:
    """Print the figures; 1 where one is too large."""
    warnings.simplefilter("ignore")
    print(f"{blas_threads()} thread(s)")
    ratios = [
        fit_ratio(method, rows // ROWS_OF_A_TASK, ROWS_OF_A_TASK, 8)
        for method in CLOSED_FORM
        for rows in ROWS
    ]
    by_folds = fit_ratio(NonlinearOCKSR, 50, 7, 64)
    few, many = (pvalue_time(number) for number in POOLED)
    missed = max(ratios) > MOST_CLOSED_FORM
    missed |= by_folds > MOST_FOLDS
    missed |= many > MOST_GROWTH * few
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
