"""Mean AUC of the paper's methods on real data, tuned on training rows alone.

Run ``python benchmarks/bench_accuracy.py [--splits N] [mnist] [coil100] [mnist-unseen] [keys]``.
Real data are looked for as :mod:`manyone.datasets` does (``$MANYONE_DATA``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.preprocessing import QuantileTransformer

from manyone import CalibrationWarning, JointOCKSR, LinearOCKSR, NonlinearOCKSR, SparseOCKSR, tune
from manyone.datasets import load_keystrokes
from manyone.experiments.data import DATASETS, load
from manyone.experiments.protocols import Protocol, Split
from manyone.kernels import Array

METHODS = {
    "C-OCKSR": JointOCKSR,
    "OCKSR-L": LinearOCKSR,
    "OCKSR-N": NonlinearOCKSR,
    "OCKSR-NS": SparseOCKSR,
}
FLOORS = {
    "mnist": (96.4, 96.5, 97.6, 97.4),
    "coil100": (98.8, 98.8, 99.5, 98.8),
    "mnist-unseen": (None, None, 93.5, None),
    "keys": (None, None, 99.2, None),
}


def splits(name: str, number: int) -> Iterator[tuple[Array, Split]]:
    """Prepared rows and the split of each repetition."""
    if name == "keys":
        bunch = load_keystrokes()
        protocol = Protocol("unseen", 30, 10, 41, 500, n_unseen=26)
        for seed in range(number):
            split = protocol.split(bunch.data, bunch.target, seed)
            scale = QuantileTransformer(n_quantiles=100, output_distribution="normal")
            yield scale.fit(bunch.data[split.train]).transform(bunch.data), split
        return
    data, _, kind = name.partition("-")
    X, y = load(data)
    protocol = DATASETS[data].protocols[kind or "seen"]
    for seed in range(number):
        yield X, protocol.split(X, y, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=[], help="data sets; all by default")
    parser.add_argument("--splits", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", CalibrationWarning)
    for name in arguments.data or FLOORS:
        unseen = name in ("mnist-unseen", "keys")
        for (method, cls), floor in zip(METHODS.items(), FLOORS[name], strict=True):
            line = [f"{name:13s} {method:9s}"]
            for setting in ("default", "tuned"):
                aucs, start = [], time.perf_counter()
                for X, split in splits(name, arguments.splits):
                    rows = X[split.train]
                    if setting == "default":
                        model = cls().fit(rows, task=split.task)
                    else:
                        criterion = "unseen" if unseen else "seen"
                        model = tune(cls(), rows, task=split.task, criterion=criterion)
                    aucs.append(100 * split.aucs(model.score_tasks(X[split.test])).mean())
                taken = (time.perf_counter() - start) / len(aucs)
                error = np.std(aucs, ddof=1) / np.sqrt(len(aucs)) if len(aucs) > 1 else np.nan
                line.append(f"{setting} {np.mean(aucs):6.2f} +- {error:.2f} ({taken:.1f} s)")
            line.append("" if floor is None else f"floor {floor}")
            print("  ".join(line), flush=True)


if __name__ == "__main__":
    main()
