"""Do rows far from everything raise an alarm? Every method, on blobs that overlap and on real data.

``python benchmarks/bench_far_rows.py [--data NAME ...] [--methods NAME ...] [--tuned] [--rate R]``

Normal test rows are made into gross outliers: times five; ten standard deviations off in a third of
the columns; noise of three times the spread; 1e6 everywhere; 1e308 everywhere. Printed are the
shares that raise an alarm, the false alarms, and the AUC with and without what lowers the scores of
such rows. Of blobs only rows outside the 99.9 % region of every task are counted.
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
from sklearn.preprocessing import QuantileTransformer

from manyone import datasets, tune
from manyone.estimators import METHODS
from manyone.experiments import data as sets

FAULTS = ("servers", "spacecraft", "turbofan", "products", "valves")
KINDS = ("times 5", "10 sd", "noise", "1e6", "1e308")


def blobs(apart: float) -> tuple[Any, ...]:
    """20 tasks of 25 rows in 8 columns, all claims right."""
    rng = np.random.default_rng(0)
    centres = apart * rng.normal(size=(20, 8))
    task = np.repeat(np.arange(20), 25)
    X, Z = (rng.normal(size=(500, 8)) + centres[task] for _ in range(2))
    return X, task, Z, task, np.zeros(500, dtype=bool)


def strangers(name: str) -> tuple[Any, ...]:
    """Training rows, their tasks, test rows, claimed tasks, and which claims are wrong."""
    rng = np.random.default_rng(0)
    X, y, n_tasks, n_rows = {
        "keystrokes": lambda: (*_xy(datasets.load_keystrokes()), 30, 10),
        "mnist": lambda: (*_xy(datasets.load_mnist()), 5, 15),
        "coil100": lambda: (*_xy(datasets.load_coil100()), 50, 7),
        "faces": lambda: (*_xy(datasets.load_faces(features="pixels")), 8, 15),
    }[name]()
    tasks = rng.permutation(np.unique(y))[:n_tasks]
    drawn = {t: rng.permutation(np.flatnonzero(y == t))[: n_rows + 20] for t in tasks}
    train = np.concatenate([drawn[t][:n_rows] for t in tasks])
    own = np.concatenate([drawn[t][n_rows:] for t in tasks])
    if name in ("mnist", "faces"):
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    elif name == "keystrokes":
        X = QuantileTransformer(n_quantiles=len(train)).fit(X[train]).transform(X)
    other = rng.permutation(np.flatnonzero(~np.isin(y, tasks)))[:400]
    test = np.concatenate([own, other])
    claim = np.concatenate([y[own], rng.choice(tasks, len(other))])
    return X[train], y[train], X[test], claim, np.arange(len(test)) >= len(own)


def _xy(bunch: Any) -> tuple[Any, Any]:
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)


def entities(name: str) -> tuple[Any, ...]:
    """The same of a set with labelled faults, columns standardised on the training rows."""
    X, task, roles = sets.load(name)
    split = sets.DATASETS[name].protocols["faults"].split(X, task, roles, seed=0)
    X = sets.prepared(name, X, split.train)
    return X[split.train], split.task, X[split.test], split.owner, split.fault


def centres(task: Any, X: Any) -> Any:
    """Mean of each task's rows."""
    return np.array([X[task == t].mean(axis=0) for t in np.unique(task)])


def gross(Z: Any, spread: Any, rng: np.random.Generator) -> list[Any]:
    """Rows made into gross outliers, kind by kind."""
    shifted = Z.copy()
    for row in shifted:
        columns = rng.permutation(len(row))[: max(1, len(row) // 3)]
        row[columns] += 10.0 * spread[columns] * rng.choice([-1.0, 1.0], len(columns))
    centre = Z.mean(axis=0)
    noise = centre + 3.0 * spread * rng.normal(size=Z.shape)
    return [5.0 * Z, shifted, noise, np.full_like(Z, 1e6), np.full_like(Z, 1e308)]


def auc_by_task(scores: Any, claim: Any, wrong: Any) -> float:
    """Mean over tasks of the area under the curve."""
    if not wrong.any():
        return np.nan
    found = [
        roc_auc_score(~wrong[claim == t], scores[claim == t])
        for t in np.unique(claim)
        if 0 < wrong[claim == t].sum() < np.sum(claim == t)
    ]
    return 100.0 * float(np.mean(found))


def main() -> None:
    """Print one line for each data set, method and rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = ("blobs", "blobs1", "keystrokes", "faces", "coil100", "mnist", *FAULTS)
    parser.add_argument("--data", nargs="*", default=everything)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--rates", nargs="*", type=float, default=(0.05, 0.1))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("data method rate false " + " ".join(f"[{kind}]" for kind in KINDS) + " auc without")
    for name in asked.data:
        if name.startswith("blobs"):
            X, task, Z, claim, wrong = blobs(1.0 if name == "blobs1" else 0.5)
        else:
            X, task, Z, claim, wrong = (entities if name in FAULTS else strangers)(name)
        good, mine = Z[~wrong], claim[~wrong]
        bad = gross(good, X.std(axis=0), np.random.default_rng(1))
        counted = [np.ones(len(good), dtype=bool)] * len(bad)
        if name.startswith("blobs"):  # some are among normal rows still
            nearest = [cdist(rows, centres(task, X), "sqeuclidean").min(axis=1) for rows in bad]
            counted = [apart > chi2.ppf(0.999, X.shape[1]) for apart in nearest]
        for method in asked.methods:
            model = METHODS[method]()
            model = tune(model, X, task=task) if asked.tuned else model.fit(X, task=task)
            bare = replace(model.solution_, presence=None, lowered=None)
            codes = np.searchsorted(model.tasks_, claim)
            aucs = [auc_by_task(s.own(Z, codes), claim, wrong) for s in (model.solution_, bare)]
            for rate in asked.rates:
                model.recalibrate(rate)
                false = np.mean(model.predict(good, task=mine) == -1)
                caught = [
                    np.mean(model.predict(rows[kept], task=mine[kept]) == -1)
                    for rows, kept in zip(bad, counted, strict=True)
                ]
                shown = " ".join(f"{100 * share:6.1f}" for share in caught)
                print(
                    f"{name:11s} {method:9s} {rate:4.2f} {100 * false:5.1f} {shown} "
                    f"{aucs[0]:6.2f} {aucs[1] - aucs[0]:+6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
