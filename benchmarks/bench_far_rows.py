"""Whether rows far from everything raise an alarm, for every method.

``python benchmarks/bench_far_rows.py [--data NAME ...] [--methods NAME ...] [--tuned]
[--rates R ...] [--cut SEED] [--tasks N]``

Without ``--data``, in two minutes: 20, 100 and 500 simulated tasks in 8 columns, and
new rows that lie at least 7 within-task standard deviations from the mean of every
task. Exits with 1 where fewer than 98 % (Laplacian kernel: 95 %) of them raise an alarm
at 5 %.

With ``--data``, of each set (``all``: every one) at most twenty tasks and a thousand
test rows. Normal test rows are made gross outliers: times five; ten standard deviations
off in a third of the columns; noise of three times the spread; 1e6 everywhere; 1e308
everywhere. Printed are the shares that raise an alarm, the false alarms, and the AUC
with and without the guard that lowers the scores of such rows. Only rows count that
moved by three within-task standard deviations or more, in the root mean square over
columns: five times a row near zero is still near zero. Of blobs, which overlap, rows
outside the 99.9 % region of every task count.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import chi2
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from manyone import (
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    auto,
    datasets,
    tune,
)
from manyone.estimators import METHODS
from manyone.experiments.data import DATASETS, draw, names
from manyone.models.combined import CombinedScorer
from manyone.models.guards import unguarded

FAULTS = names("faults")
TASKS = 20
SEVERAL = 3.0  # standard deviations
FAR = 7.0  # standard deviations
LOW = "  *"  # after lines with fewer than promised, or than 99 %
KINDS = ("times 5", "10 sd", "noise", "1e6", "1e308")


def blobs(apart: float) -> tuple[Any, ...]:
    """20 tasks of 25 rows in 8 columns, all claims right."""
    rng = np.random.default_rng(0)
    centres = apart * rng.normal(size=(20, 8))
    task = np.repeat(np.arange(20), 25)
    X, Z = (rng.normal(size=(500, 8)) + centres[task] for _ in range(2))
    return X, task, Z, task, np.zeros(500, dtype=bool)


def strangers(name: str, seed: int) -> tuple[Any, ...]:
    """Training rows, their tasks, test rows, claimed tasks, which claims are wrong."""
    rng = np.random.default_rng(seed)
    X, y, n_tasks, n_rows = {
        "keystrokes": lambda: (*_xy(datasets.load_keystrokes()), 20, 10),
        "standardised": lambda: (*_xy(datasets.load_keystrokes()), 20, 10),
        "mnist": lambda: (*_xy(datasets.load_mnist()), 5, 15),
        "coil100": lambda: (*_xy(datasets.load_coil100()), 20, 7),
        "faces": lambda: (*_xy(datasets.load_faces(features="pixels")), 8, 15),
    }[name]()
    tasks = rng.permutation(np.unique(y))[:n_tasks]
    drawn = {t: rng.permutation(np.flatnonzero(y == t))[: n_rows + 20] for t in tasks}
    train = np.concatenate([drawn[t][:n_rows] for t in tasks])
    members = np.concatenate([drawn[t][n_rows:] for t in tasks])
    if name in ("mnist", "faces"):
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    elif name == "keystrokes":
        X = QuantileTransformer(n_quantiles=len(train)).fit(X[train]).transform(X)
    elif name == "standardised":
        X = StandardScaler().fit(X[train]).transform(X)
    strangers = rng.permutation(np.flatnonzero(~np.isin(y, tasks)))[:400]
    test = np.concatenate([members, strangers])
    claim = np.concatenate([y[members], rng.choice(tasks, len(strangers))])
    return X[train], y[train], X[test], claim, np.arange(len(test)) >= len(members)


def _xy(bunch: Any) -> tuple[Any, Any]:
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)


def entities(name: str, seed: int) -> tuple[Any, ...]:
    """The same of a set with labelled faults, columns standardised."""
    X, split = draw(name, DATASETS[name].protocols["faults"], seed)
    shown_tasks = np.unique(split.task)[:TASKS]
    train = np.isin(split.task, shown_tasks)
    test = np.isin(split.judged, shown_tasks)
    test &= np.random.default_rng(seed).random(len(test)) < 1000 / test.sum()
    Z = X[split.test][test]
    claim = split.judged[test]
    wrong = split.anomalous[test]
    return X[split.train][train], split.task[train], Z, claim, wrong


def centres(task: Any, X: Any) -> Any:
    """Mean of each task's rows."""
    return np.array([X[task == t].mean(axis=0) for t in np.unique(task)])


def are_gross(bad: Any, good: Any, X: Any, task: Any) -> Any:
    """Which rows were moved by several standard deviations within tasks."""
    residuals = X - centres(task, X)[np.unique(task, return_inverse=True)[1]]
    within = np.maximum(residuals.std(axis=0), 1e-9)
    with np.errstate(over="ignore"):
        return np.sqrt(np.mean(((bad - good) / within) ** 2, axis=1)) >= SEVERAL


def gross(Z: Any, spread: Any, rng: np.random.Generator) -> list[Any]:
    """Rows made into gross outliers, kind by kind."""
    shifted = Z.copy()
    for row in shifted:
        columns = rng.permutation(len(row))[: max(1, len(row) // 3)]
        row[columns] += 10.0 * spread[columns] * rng.choice([-1.0, 1.0], len(columns))
    centre = Z.mean(axis=0)
    noise = centre + 3.0 * spread * rng.normal(size=Z.shape)
    return [5.0 * Z, shifted, noise, np.full_like(Z, 1e6), np.full_like(Z, 1e308)]


def without_guards(solution: Any) -> Any:
    """A solution, or one of views, as it would be if nothing were lowered."""
    scorer = unguarded(solution.scorer)
    if isinstance(scorer, CombinedScorer):
        views = tuple(without_guards(view) for view in scorer.views)
        scorer = replace(scorer, views=views)
    return replace(solution, scorer=scorer)


def far_from_all(
    n_tasks: int, n_rows: int, apart: float
) -> tuple[Any, Any, Any, Any, Any]:
    """Rows, tasks; new rows; rows 7 deviations from every mean, and their claims."""
    rng = np.random.default_rng(0)
    means = apart * rng.normal(size=(n_tasks, 8))
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(task), 8)) + means[task]
    Z = rng.normal(size=(len(task), 8)) + means[task]
    step = rng.normal(size=(8000, 8))
    length = rng.uniform(FAR, FAR + 3.0, size=(8000, 1))
    step *= length / np.linalg.norm(step, axis=1, keepdims=True)
    rows = means[rng.integers(0, n_tasks, 8000)] + step
    rows = rows[cdist(rows, means).min(axis=1) >= FAR][:2000]
    return X, task, Z, rows, rng.integers(0, n_tasks, len(rows))


def many_tasks() -> bool:
    """Print a line for each number of tasks and method; whether promises are kept."""
    all_kept = True
    print("tasks rows apart method kernel: caught at 1, 5, 10 %, false at 1, 5, 10 %")
    for n_tasks, n_rows in ((20, 25), (100, 25), (500, 10)):
        for apart in (2.0, 4.0):
            X, task, Z, rows, claim = far_from_all(n_tasks, n_rows, apart)
            for kernel, promise in (("rbf", 0.98), ("laplacian", 0.95)):
                models = {
                    "joint": JointOCKSR(kernel=kernel),
                    "landmarks": JointOCKSR(
                        kernel=kernel, landmarks=300, random_state=0
                    ),
                    "alone": IndependentOCKSR(kernel=kernel),
                }
                for name, model in models.items():
                    model.fit(X, task=task)
                    caught = []
                    false = []
                    for rate in (0.01, 0.05, 0.1):
                        model.recalibrate(rate)
                        caught.append(np.mean(model.predict(rows, task=claim) == -1))
                        false.append(np.mean(model.predict(Z, task=task) == -1))
                    is_low = caught[1] < promise
                    all_kept = all_kept and not is_low
                    shares = " ".join(f"{100 * share:6.1f}" for share in caught)
                    alarms = " ".join(f"{100 * share:5.1f}" for share in false)
                    print(
                        f"{n_tasks:5d} {n_rows:4d} {apart:5.1f} {name:9s} "
                        f"{kernel:9s} {shares}  {alarms}{LOW if is_low else ''}",
                        flush=True,
                    )
    return all_kept


def auc_by_task(scores: Any, claim: Any, wrong: Any) -> float:
    """Mean over tasks of the area under the curve."""
    if not wrong.any():
        return np.nan
    shares = [
        roc_auc_score(~wrong[claim == t], scores[claim == t])
        for t in np.unique(claim)
        if 0 < wrong[claim == t].sum() < np.sum(claim == t)
    ]
    return 100.0 * float(np.mean(shares))


def main() -> int:
    """Print one line for each number of tasks, or each data set, method and rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = (
        "blobs",
        "blobs1",
        "keystrokes",
        "standardised",
        "faces",
        "coil100",
        "mnist",
        *FAULTS,
    )
    parser.add_argument("--data", nargs="*", choices=(*everything, "all"), default=())
    parser.add_argument("--methods", nargs="*", default=[*METHODS, "combined"])
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--rates", nargs="*", type=float, default=(0.05, 0.1))
    parser.add_argument(
        "--cut", type=int, default=0, help="seed of the cut of the real sets"
    )
    parser.add_argument(
        "--tasks", type=int, default=TASKS, help="at most so many of a set"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.data:
        return int(not many_tasks())
    print(
        "data method rate false "
        + " ".join(f"[{kind}]" for kind in KINDS)
        + " auc without"
    )
    for name in everything if "all" in options.data else options.data:
        if name.startswith("blobs"):
            X, task, Z, claim, wrong = blobs(1.0 if name == "blobs1" else 0.5)
        else:
            X, task, Z, claim, wrong = (entities if name in FAULTS else strangers)(
                name, options.cut
            )
        shown_tasks = np.unique(task)[: options.tasks]
        X = X[np.isin(task, shown_tasks)]
        task = task[np.isin(task, shown_tasks)]
        Z, wrong, claim = (
            values[np.isin(claim, shown_tasks)] for values in (Z, wrong, claim)
        )
        good = Z[~wrong]
        owners = claim[~wrong]
        bad = gross(good, X.std(axis=0), np.random.default_rng(1))
        counted = [are_gross(rows, good, X, task) for rows in bad]
        if name.startswith("blobs"):  # some are among normal rows still
            nearest = [
                cdist(rows, centres(task, X), "sqeuclidean").min(axis=1) for rows in bad
            ]
            counted = [apart > chi2.ppf(0.999, X.shape[1]) for apart in nearest]
        shares = " ".join(f"{100 * np.mean(alarms):6.1f}" for alarms in counted)
        print(f"{name:11s} {'(counted)':20s} {shares}", flush=True)
        for method in options.methods:
            if method == "combined":
                model = (
                    auto(X, task=task)
                    if options.tuned
                    else CombinedOneClass().fit(X, task=task)
                )
            elif options.tuned:
                model = tune(METHODS[method](), X, task=task)
            else:
                model = METHODS[method]().fit(X, task=task)
            bare = without_guards(model.solution_)
            codes = np.searchsorted(model.tasks_, claim)
            aucs = [
                auc_by_task(s.own(Z, codes), claim, wrong)
                for s in (model.solution_, bare)
            ]
            for rate in options.rates:
                model.recalibrate(rate)
                false = np.mean(model.predict(good, task=owners) == -1)
                caught = [
                    np.mean(model.predict(rows[alarms], task=owners[alarms]) == -1)
                    for rows, alarms in zip(bad, counted, strict=True)
                ]
                shown = " ".join(f"{100 * share:6.1f}" for share in caught)
                print(
                    f"{name:11s} {method:9s} {rate:4.2f} {100 * false:5.1f} {shown} "
                    f"{aucs[0]:6.2f} {aucs[1] - aucs[0]:+6.2f}"
                    + LOW
                    * bool(min(caught) < 0.99),
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
