"""NonlinearOCKSR beside JointOCKSR beyond one kernel matrix, both with 500 landmarks.

``python benchmarks/bench_two_layers.py [fleet] [mnist] [--quick]``; without names,
both. One BLAS thread, processor time.

fleet   200,000 rows of 100 machines, tested on readings of other machines: AUC,
        memory below 3 GB
mnist   60,000 digits, each digit a task, tested on 10,000 (needs the data set, see
        ``manyone.datasets``)

Exits with 1 where the second layer does not help, memory is exceeded, or alarms are not
as promised.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from timing import seconds

from manyone import JointOCKSR, NonlinearOCKSR
from manyone.datasets import load_mnist, make_fleet

QUICK = "--quick" in sys.argv
LANDMARKS = 100 if QUICK else 500


def compared(
    name: str, X: np.ndarray, task: np.ndarray, judged: Callable[..., Any]
) -> bool:
    """Fit both; ``judged(model)`` gives scores, claimed tasks, and who lies."""
    aucs = []
    for method in (JointOCKSR, NonlinearOCKSR):
        model = method(landmarks=LANDMARKS, random_state=0)
        taken = seconds(partial(model.fit, X, task=task))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        scores, claim, stranger = judged(model)
        claimed = [claim == code for code in range(len(model.tasks_))]
        aucs.append(
            np.mean([roc_auc_score(~stranger[rows], scores[rows]) for rows in claimed])
        )
        rate = np.mean((scores < model.offset_[claim])[~stranger])
        print(
            f"{name}: {method.__name__} AUC {100 * aucs[-1]:.3f} %, {taken:.0f} s, "
            f"{memory:.2f} GB, false alarms {100 * rate:.1f} % (5 promised)",
            flush=True,
        )
    return aucs[1] > aucs[0] and memory < 3.0 and abs(rate - 0.05) < 0.02


def fleet() -> bool:
    number = 20 if QUICK else 100
    made = make_fleet(
        number, 1500 if QUICK else 2000, n_test=100, fault="stranger", random_state=0
    )
    claim = np.searchsorted(np.unique(made.task), made.test_task)

    def judged(model: JointOCKSR) -> tuple:
        scores = model.score_samples(made.test_data, task=made.test_task)
        return scores, claim, made.test_fault

    return compared("fleet", made.data, made.task, judged)


def mnist() -> bool:
    digits = load_mnist(subset=False)
    X = digits.data
    task = digits.target
    train = digits.split == "train"
    claim = np.tile(
        np.arange(10), int(np.sum(~train))
    )  # every digit claims to be each of them
    stranger = np.repeat(task[~train], 10) != claim

    def judged(model: JointOCKSR) -> tuple:
        return model.score_tasks(X[~train]).ravel(), claim, stranger

    return compared("mnist", X[train], task[train], judged)


def main() -> int:
    cases = {"fleet": fleet, "mnist": mnist}
    wanted = [name for name in sys.argv[1:] if name in cases] or list(cases)
    return 0 if all([cases[name]() for name in wanted]) else 1


if __name__ == "__main__":
    sys.exit(main())
