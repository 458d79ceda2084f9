"""Do rows far from everything raise an alarm? Every method, on blobs that overlap and on real data.

``python benchmarks/bench_far_rows.py [--data NAME ...] [--methods NAME ...] [--tuned]
[--rates R ...] [--cut SEED] [--tasks N]``

Of each set at most twenty tasks and a thousand test rows, so that all of it takes minutes.

Normal test rows are made into gross outliers: times five; ten standard deviations off in a third of
the columns; noise of three times the spread; 1e6 everywhere; 1e308 everywhere. Printed are the
shares that raise an alarm, the false alarms, and the AUC with and without what lowers the scores of
such rows. Counted are rows that were moved by three within-task standard deviations or more, in the
root mean square over columns (five times a row near zero is near zero still: that is no gross
outlier); of blobs, of which more overlap, rows outside the 99.9 % region of every task.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import chi2
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from manyone import CombinedOneClass, auto, datasets, tune
from manyone.estimators import METHODS
from manyone.experiments.data import DATASETS, draw, names

FAULTS = names("faults")
TASKS = 20
SEVERAL = 3.0  # standard deviations
LOW = "  *"  # after lines with less than 99 %
KINDS = ("times 5", "10 sd", "noise", "1e6", "1e308")


def blobs(apart: float) -> tuple[Any, ...]:
    """20 tasks of 25 rows in 8 columns, all claims right."""
    rng = np.random.default_rng(0)
    centres = apart * rng.normal(size=(20, 8))
    task = np.repeat(np.arange(20), 25)
    X, Z = (rng.normal(size=(500, 8)) + centres[task] for _ in range(2))
    return X, task, Z, task, np.zeros(500, dtype=bool)


def strangers(name: str, seed: int) -> tuple[Any, ...]:
    """Training rows, their tasks, test rows, claimed tasks, and which claims are wrong."""
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
    """The same of a set with labelled faults, columns standardised on the training rows."""
    X, split = draw(name, DATASETS[name].protocols["faults"], seed)
    shown_tasks = np.unique(split.task)[:TASKS]
    train = np.isin(split.task, shown_tasks)
    test = np.isin(split.owner, shown_tasks)
    test &= np.random.default_rng(seed).random(len(test)) < 1000 / test.sum()
    Z = X[split.test][test]
    claim = split.owner[test]
    wrong = split.fault[test]
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


def without_presence(solution: Any) -> Any:
    """A solution, or one of views, as it would be if nothing were lowered."""
    if hasattr(solution.scorer, "views"):
        views = tuple(without_presence(view) for view in solution.scorer.views)
        return replace(solution, scorer=replace(solution.scorer, views=views))
    return replace(solution, presence=None)


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


def main() -> None:
    """Print one line for each data set, method and rate."""
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
    parser.add_argument("--data", nargs="*", default=everything)
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
    print(
        "data method rate false "
        + " ".join(f"[{kind}]" for kind in KINDS)
        + " auc without"
    )
    for name in options.data:
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
        good, owners = Z[~wrong], claim[~wrong]
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
            bare = without_presence(model.solution_)
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


if __name__ == "__main__":
    main()
