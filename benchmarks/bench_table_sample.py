"""What a fit to a sample of a large table costs: AUC, alarms and time.

Run ``python benchmarks/bench_table_sample.py [numbers] [levels] [--quick]``. A table of
16 tasks and 200,000 normal rows is fitted without tuning, with several limits of rows a
task. New rows are normal, faults (one to three values off by three standard
deviations), or strangers (rows of another task). 5 % of normal rows may raise an alarm.

numbers   8 columns of numbers: correlated, heavy tails, two of them with two modes
levels    5 such columns, and 3 of texts with 10, 100 and 400 levels, most of them rare
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import warnings

import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score
from timing import seconds

from manyone import TableModel
from manyone.tables import sampling

QUICK = "--quick" in sys.argv
TASKS = 16
ROWS = 20_000 if QUICK else 200_000
NEW = 8_000
LIMITS = (125, 500) if QUICK else (250, 500, 1_000)
SEEDS = (0,) if QUICK else (0, 1, 2)


class Fleet:
    """Tasks, each with its own centre, covariance and use of levels."""

    def __init__(self, levels: tuple[int, ...], n_numbers: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shape = (TASKS, n_numbers, n_numbers)
        self.centres = 1.5 * rng.normal(size=shape[:2])
        self.mixing = np.eye(n_numbers) + 0.4 * rng.normal(size=shape)
        self.weights = []
        for number in levels:
            common = 1.0 / np.arange(1, number + 1)
            task_weights = common * rng.gamma(1.0, size=(TASKS, number))
            self.weights.append(task_weights / task_weights.sum(axis=1, keepdims=True))

    def rows(
        self, task: np.ndarray, claim: np.ndarray, faults: np.ndarray, seed: int
    ) -> pl.DataFrame:
        """Rows of some tasks under the names of others, some of them broken."""
        rng = np.random.default_rng(seed)
        n_numbers = self.centres.shape[1]
        noise = rng.standard_t(4, size=(len(task), n_numbers))
        noise[:, :2] += 3.0 * rng.choice([-1.0, 1.0], size=(len(task), 2))
        spread = noise.std(axis=0)
        X = self.centres[task] + np.einsum("nij,nj->ni", self.mixing[task], noise)
        for row in np.flatnonzero(faults):
            places = rng.choice(n_numbers, rng.integers(1, 4), replace=False)
            sign = rng.choice([-1.0, 1.0], len(places))
            X[row, places] += 3.0 * sign * spread[places]
        columns = {f"x{k}": X[:, k] for k in range(n_numbers)}
        for weights in self.weights:
            reached = np.cumsum(weights, axis=1)
            draws = rng.uniform(size=len(task))
            levels = np.empty(len(task), dtype=np.intp)
            for number in range(TASKS):
                own = task == number
                levels[own] = np.searchsorted(reached[number], draws[own])
            most = weights.shape[1] - 1
            texts = [f"level {level}" for level in np.minimum(levels, most)]
            columns[f"of {weights.shape[1]}"] = texts
        names = [f"carrier {number}" for number in claim]
        return pl.DataFrame({"carrier": names, **columns})


def study(name: str, levels: tuple[int, ...], n_numbers: int) -> None:
    """Print a line for each limit: means over fleets."""
    print(f"{name}: rows a task, AUC of faults and strangers, alarms, seconds")
    for limit in LIMITS:
        sampling.MOST_TASK_ROWS = limit
        figures = [measured(Fleet(levels, n_numbers, seed), seed) for seed in SEEDS]
        faults, strangers, alarms, taken = np.mean(figures, axis=0)
        print(
            f"{limit:6,}  {100 * faults:5.1f}  {100 * strangers:5.1f}  "
            f"{100 * alarms:5.2f} %  {taken:5.1f}",
            flush=True,
        )


def measured(fleet: Fleet, seed: int) -> tuple[float, float, float, float]:
    """AUC of faults and of strangers, share of alarms, processor time of a fit."""
    rng = np.random.default_rng(seed)
    nothing = np.zeros(ROWS, dtype=bool)
    task = rng.integers(0, TASKS, ROWS)
    train = fleet.rows(task, task, nothing, 10 * seed + 1)
    claim = rng.integers(0, TASKS, NEW)
    kind = rng.choice(["normal", "fault", "stranger"], NEW, p=[0.6, 0.2, 0.2])
    stranger = (claim + rng.integers(1, TASKS, NEW)) % TASKS
    owner = np.where(kind == "stranger", stranger, claim)
    new = fleet.rows(owner, claim, kind == "fault", 10 * seed + 2)
    model = TableModel("carrier", method="default", random_state=0)
    taken = seconds(lambda: model.fit(train))
    scores = model.score(new)
    p_value = scores["p_value"].to_numpy()
    score = scores["score"].to_numpy() - thresholds(model, claim)
    normal = kind == "normal"
    aucs = []
    for wanted in ("fault", "stranger"):
        judged = normal | (kind == wanted)
        aucs.append(roc_auc_score(~normal[judged], -score[judged]))
    alarms = float(np.mean(p_value[normal] <= model.alarm_rate))
    return aucs[0], aucs[1], alarms, taken


def thresholds(model: TableModel, claim: np.ndarray) -> np.ndarray:
    """Threshold of the task that each row claims."""
    names = model.tasks_.tolist()
    places = [names.index(f"carrier {number}") for number in range(TASKS)]
    return model.model_.offset_[np.array(places)[claim]]


def main() -> int:
    """Run the studies that are named, or both."""
    warnings.simplefilter("ignore")
    studies = {"numbers": ((), 8), "levels": ((10, 100, 400), 5)}
    chosen = [name for name in studies if name in sys.argv] or list(studies)
    for name in chosen:
        study(name, *studies[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
