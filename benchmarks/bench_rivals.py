"""Time of the rivals' solvers beside others, and AUC of MORVR on images.

Run ``python benchmarks/bench_rivals.py``. Images are looked for as
:mod:`manyone.datasets` does (``$MANYONE_DATA``). Exits with 1 where SVDD takes longer
than promised.
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.svm import OneClassSVM
from threadpoolctl import threadpool_limits
from timing import in_turns, seconds, shortest, timed

from manyone import MORVR, SVDD, CalibrationWarning
from manyone.datasets import DatasetNotFoundError
from manyone.experiments.data import DATASETS, draw
from manyone.solvers.eigenbasis import eigenbasis
from manyone.solvers.morvr import published_start, solve_morvr
from manyone.solvers.nullspace import solve_null_space
from manyone.solvers.output_kernel import solve_output_kernel
from manyone.solvers.task_svm import solve_task_svm

Floats = NDArray[np.float64]


def bench_svdd(n: int = 2000) -> bool:
    print(
        f"SVDD.fit with its thresholds, {n} rows, RBF: milliseconds, and the ratio to "
        "OneClassSVM.fit (promise: at most 1.5)"
    )
    worst = 0.0
    for d in (5, 20, 100):
        X = np.random.default_rng(0).normal(size=(n, d))
        for nu in (0.05, 0.1, 0.5):
            ours = SVDD(gamma=1 / d, nu=nu)
            theirs = OneClassSVM(gamma=1 / d, nu=nu)
            calls = {"ours": partial(ours.fit, X), "theirs": partial(theirs.fit, X)}
            times = in_turns(calls, repeats=15)
            ratio = times["ours"] / times["theirs"]
            worst = max(worst, ratio)
            print(
                f"  d={d:3d} nu={nu:4.2f}  OneClassSVM {1e3 * times['theirs']:6.1f}  "
                f"SVDD {1e3 * times['ours']:6.1f} ({ratio:4.2f}x)  "
                f"{ours.support_.sum()} support vectors, {ours.n_iter_} steps"
            )
    print(
        f"  largest ratio {worst:.2f}, promised 1.5: "
        f"{'kept' if worst <= 1.5 else 'BROKEN'}"
    )
    for size in (7, 15, 50):
        X, task = clusters(50, size, d=10)
        each = (
            in_turns({"fit": partial(SVDD().fit, X, task=task)}, repeats=2)["fit"] / 50
        )
        print(
            f"  50 tasks of {size:2d} rows, left out one by one: {1e3 * each:.2f} per "
            "task"
        )
    return worst <= 1.5


def clusters(n_tasks: int, size: int, d: int = 20) -> tuple[Floats, NDArray[np.intp]]:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), size)
    return rng.normal(size=(n_tasks, d))[task] + rng.normal(size=(len(task), d)), task


def output_kernel(K: Floats, Y: Floats, ridge: float) -> object:
    """Decomposition and solution."""
    basis = eigenbasis(K.copy(), ridge, np.ones(len(K)))
    return solve_output_kernel(*basis, Y, ridge)


def bench_others() -> None:
    print("Other solvers: milliseconds")
    for n_tasks, size in ((10, 15), (50, 20)):
        X, task = clusters(n_tasks, size)
        K = rbf_kernel(X)
        Y = np.eye(n_tasks)[task]
        upper = np.full(len(K), 1 / (0.1 * size))
        cases: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
            "null space": (solve_null_space, (K, task)),
            "output kernel, ridge 0.1": (output_kernel, (K, Y, 0.1)),
            "output kernel, ridge 0.001": (output_kernel, (K, Y, 1e-3)),
            "output kernel, linear, 0.001": (output_kernel, (X @ X.T, Y, 1e-3)),
            "task SVM, mu 0.1": (solve_task_svm, (K, task, 0.1, upper)),
            "task SVM, mu 10": (solve_task_svm, (K, task, 10.0, upper)),
        }
        for name, (function, args) in cases.items():
            elapsed = 1e3 * shortest(partial(function, *args), 3)
            print(f"  {n_tasks} tasks x {size}: {name:28s} {elapsed:8.1f}")


def with_bias(K: Floats) -> Floats:
    return np.column_stack([np.ones(len(K)), K])


def bench_morvr() -> None:
    print("MORVR, 2,000 rows: seconds")
    rng = np.random.default_rng(0)
    x = rng.uniform(-10, 10, size=(2000, 1))
    Y = np.column_stack([np.sinc(x / 3), np.cos(x), np.sin(x / 2)])
    design = with_bias(np.exp(-((x - x.T) ** 2) / 1.6**2))
    cases = {"three smooth curves": (design, Y + 0.1 * rng.normal(size=Y.shape))}
    X, task = clusters(10, 200)
    cases["ten clusters, one-hot"] = with_bias(rbf_kernel(X)), np.eye(10)[task]
    for name, (Phi, responses) in cases.items():
        solution, taken = timed(partial(solve_morvr, Phi, responses))
        print(
            f"  {name:22s} {taken:6.2f}  {solution.n_iter} iterations, "
            f"{len(solution.active)} bases"
        )
    X, task = clusters(10, 50)
    model, total = timed(partial(MORVR().fit, X, task=task))
    once = seconds(
        lambda: solve_morvr(
            model.kernel_.gram(X),
            np.eye(10)[task],
            shrinkage=model.shrinkage,
            tol=model.tol,
        )
    )
    print(
        f"  MORVR.fit, 10 x 50 rows {total:6.2f}, of which {once:.2f} for the solution "
        "and the rest for thresholds from ten refits"
    )


def score_morvr(repeats: int = 5) -> None:
    print(f"MORVR on one-hot responses, mean AUC over {repeats} splits (min, max)")
    for name in ("mnist", "coil100"):
        results: dict[str, list[float]] = {"guarded": [], "as published": []}
        bases = []
        for seed in range(repeats):
            try:
                X, split = draw(name, DATASETS[name].protocols["seen"], seed)
            except DatasetNotFoundError as error:
                print(f"  {name}: skipped. {error}")
                break
            train = X[split.train]
            test = X[split.test]
            labels = split.task[:, None] == split.tasks
            distances2 = euclidean_distances(train, squared=True)
            width = distances2[np.triu_indices(len(train), 1)].mean()
            design = with_bias(np.exp(-distances2 / width))
            new = with_bias(
                np.exp(-euclidean_distances(test, train, squared=True) / width)
            )
            Y = labels.astype(float)
            for kind, scores in results.items():
                if kind == "guarded":
                    solution = solve_morvr(design, Y)
                    bases.append(len(solution.active))
                else:
                    start = published_start(Y)
                    solution = solve_morvr(
                        design, Y, shrinkage=0.0, noise=start, max_iter=1000
                    )
                fitted = design[:, solution.active] @ solution.mean
                predicted = new[:, solution.active] @ solution.mean
                centre = (fitted * Y).sum(axis=0) / Y.sum(axis=0)
                gaps = np.abs(predicted - centre)[np.arange(len(test)), split.codes]
                scores.append(100 * float(split.aucs(-gaps).mean()))
        for kind, scores in results.items():
            if scores:
                spread = f"({min(scores):.2f}, {max(scores):.2f})"
                print(f"  {name:8s} {kind:13s} {np.mean(scores):6.2f} {spread}")
        if bases:
            print(f"  {name:8s} bases kept: {np.mean(bases):.0f} of {len(train) + 1}")


if __name__ == "__main__":
    # One thread: on a busy machine a second one mostly waits, and ratios are what
    # matters.
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        promise_kept = bench_svdd()
        bench_others()
        bench_morvr()
        score_morvr()
    sys.exit(int(not promise_kept))
