"""False-alarm rate on held-out digits beside the rate asked for.

MNIST, 20 training digits per task, 200 held-out ones each, methods at their defaults. Run
``python benchmarks/bench_alarm_rate.py [--splits N] [--rate R] [method ...]``.
"""

from __future__ import annotations

import argparse
import warnings

import joblib
import numpy as np
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from manyone.datasets import load_mnist
from manyone.estimators import METHODS

N_TRAIN, N_TEST = 20, 200


def measured_rate(name: str, rate: float, seed: int) -> float:
    """Share of held-out normal digits that raise an alarm."""
    digits = load_mnist()
    X, y = normalize(digits.data), digits.target
    order = np.random.default_rng(seed).permutation(len(X))
    mine = [order[y[order] == digit] for digit in range(10)]
    train = np.concatenate([rows[:N_TRAIN] for rows in mine])
    test = np.concatenate([rows[N_TRAIN : N_TRAIN + N_TEST] for rows in mine])
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tasks that overlap are no news here
        model = METHODS[name](alarm_rate=rate).fit(X[train], task=y[train])
    return float(np.mean(model.predict(X[test], task=y[test]) == -1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", metavar="method", help=", ".join(METHODS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.1)
    args = parser.parse_args()
    for name in args.methods or METHODS:
        jobs = (joblib.delayed(measured_rate)(name, args.rate, s) for s in range(args.splits))
        rates = 100 * np.array(joblib.Parallel(n_jobs=-1)(jobs))
        error = rates.std(ddof=1) / np.sqrt(len(rates))
        print(
            f"{name:9s} asked {100 * args.rate:.0f} %, measured {rates.mean():5.2f} +- {error:.2f} "
            f"% over {len(rates)} splits (from {rates.min():.2f} to {rates.max():.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
