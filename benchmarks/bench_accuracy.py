"""Mean AUC of the paper's methods on real data, with settings chosen on training rows.

Beside them is a balanced one-vs-rest SVC, tuned on the same rows by the same criterion.
Run ``python benchmarks/bench_accuracy.py [--splits N] [mnist] [coil100] [mnist-unseen]
[keys]``. The data are looked for as :mod:`manyone.datasets` does (``$MANYONE_DATA``).
"""

from __future__ import annotations

import argparse
import warnings

import joblib
import numpy as np
from sklearn.preprocessing import QuantileTransformer
from threadpoolctl import threadpool_limits

from manyone._types import Array
from manyone.datasets import load_keystrokes
from manyone.experiments.data import DATASETS, draw
from manyone.experiments.methods import methods
from manyone.experiments.protocols import Protocol, Split

METHODS = ("C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS", "SVC (one-vs-rest)")
FLOORS = {
    "mnist": (96.4, 96.5, 97.6, 97.4, None),
    "coil100": (98.8, 98.8, 99.5, 98.8, None),
    "mnist-unseen": (None, None, 93.5, None, None),
    "keys": (None, None, 99.2, None, None),
}


def prepare(name: str, seed: int) -> tuple[Array, Split, str]:
    """Prepared rows, the split of one repetition, and the kind of anomaly to expect."""
    if name == "keys":
        X, y = load_keystrokes(return_X_y=True)
        split = Protocol("unseen", 30, 10, 41, 500, n_unseen=26).split(X, y, seed=seed)
        scale = QuantileTransformer(n_quantiles=100, output_distribution="normal")
        return scale.fit(X[split.train]).transform(X), split, "unseen"
    data, _, kind = name.partition("-")
    kind = kind or "seen"
    return *draw(data, DATASETS[data].protocols[kind], seed), kind


def auc(name: str, method: str, seed: int) -> float:
    X, split, kind = prepare(name, seed)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = methods()[method].fit(X[split.train], split.task, kind, calibrate=False)
        return 100 * float(split.aucs(split.scores(model, X)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=[], help="data sets; all by default")
    parser.add_argument("--splits", type=int, default=10)
    arguments = parser.parse_args()
    with joblib.Parallel(n_jobs=-1) as parallel:
        for name in arguments.data or FLOORS:
            for method, floor in zip(METHODS, FLOORS[name], strict=True):
                jobs = (
                    joblib.delayed(auc)(name, method, seed)
                    for seed in range(arguments.splits)
                )
                aucs = np.array(parallel(jobs))
                error = (
                    np.std(aucs, ddof=1) / np.sqrt(len(aucs))
                    if len(aucs) > 1
                    else np.nan
                )
                verdict = (
                    "" if floor is None else "ok  " if aucs.mean() >= floor else "LOW "
                )
                figures = f"{aucs.mean():6.2f} +- {error:.2f}"
                line = f"{verdict:4s} {name:13s} {method:18s} {figures}"
                print(
                    line + ("" if floor is None else f"  (floor {floor})"), flush=True
                )


if __name__ == "__main__":
    main()
