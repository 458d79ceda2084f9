"""Strangers and faults: what `auto` reaches beside rivals, and what it promises.

Run ``python benchmarks/bench_faults.py [--seeds N] [--workers K] [--out FOLDER]
[PART ...]``; the parts are

- ``faults``: mean AUC over five sets of entities gone wrong; rivals at their best fixed
  setting, with columns on one scale and with each task's own scales; what the hedge
  costs there;
- ``strangers``: four sets of other people, digits and objects, seen and unseen; beside
  a tuned NonlinearOCKSR; what the hedge costs there;
- ``choosing``: what ``criterion="faults"`` loses against the best setting of a grid by
  hindsight;
- ``contamination``: what 5 % of faults among the training rows of each task cost;
- ``speed``: seconds and memory of `auto`.

Real data are looked for as :mod:`manyone.datasets` does (``$MANYONE_DATA``). FOLDER
keeps what was computed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.preprocessing import QuantileTransformer, normalize
from threadpoolctl import threadpool_limits

from manyone import IndependentOCKSR, NonlinearOCKSR, auto, tune
from manyone._types import Array
from manyone.datasets import load_coil100, load_faces, load_keystrokes, load_mnist
from manyone.experiments import Plan, run
from manyone.experiments.data import DATASETS, draw, names
from manyone.experiments.methods import DEFAULT, Method, compared, is_of_package
from manyone.experiments.protocols import Protocol
from manyone.metrics import task_aucs

SETS = names("faults")
GRID = {
    "metric": ["plain", "whitened", "adaptive"],
    "kernel": ["rbf", "laplacian"],
    "width": [0.1, 0.3, 1.0, 3.0],
}
AS_USED = ("OneClassSVM (per task)", "IsolationForest (per task)", "LOF (per task)")
STRANGERS = {
    "MNIST 5+5": Protocol("unseen", 5, 15, 150, 1350, 5),
    "COIL-100 50+50": Protocol("unseen", 50, 7, 65, 585, 50),
    "grey faces 8+4": Protocol("unseen", 8, 15, 37, 200, 4),
    "keystrokes 30+26": Protocol("unseen", 30, 10, 41, 1066, 26),
}


def shown(values: Any) -> str:
    """Mean and standard error."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():6.2f} +- {error:.2f}"


def verdict(ok: bool, words: str) -> bool:
    print(f"{'ok ' if ok else 'LOW'} {words}", flush=True)
    return ok


# --- faults


def faults(seeds: int, out: Path) -> bool:
    """What `manyone reproduce --protocol faults` runs, without our other methods."""
    methods = compared("faults")
    only = tuple(
        m.name for m in methods if m.family == "auto" or not is_of_package(m.name)
    )
    workers = joblib.effective_n_jobs(None)
    outcomes = run(Plan(SETS, ("faults",), seeds, only=only), out, workers=workers)
    aucs: dict[tuple[str, str], Array] = {}
    alarms: dict[tuple[str, str], list[float]] = {}
    for o in outcomes:
        key = (o.cell.method, o.cell.setting)
        aucs.setdefault(key, np.full((len(SETS), seeds), np.nan))
        if o.error:
            print(f"failed: {o.cell.method} on {o.cell.dataset}: {o.error}")
        else:
            aucs[key][SETS.index(o.cell.dataset), o.cell.repetition] = o.auc
        if o.cell.family == "auto" and "alarms" in o.result:
            place = (o.cell.method, o.cell.dataset)
            alarms.setdefault(place, []).append(o.result["alarms"][1])
    best: dict[str, tuple[str, str]] = {}
    for key in aucs:
        if key[0] not in best or aucs[key].mean() > aucs[best[key[0]]].mean():
            best[key[0]] = key
    print(
        f"{'mean AUC over the sets, best fixed setting':50s} {'':15s}", *SETS, sep="  "
    )
    for key in sorted(best.values(), key=lambda key: -aucs[key].mean()):
        each = "  ".join(f"{value:6.2f}" for value in aucs[key].mean(axis=1))
        print(f"{', '.join(key):50.50s} {shown(aucs[key].mean(axis=0))}  {each}")
    for (method, name), rates in sorted(alarms.items()):
        print(
            f"{method} on {name}: 10 % false alarms asked for, {np.mean(rates):.1%} "
            "raised"
        )
    informed, hedge = (aucs[f"auto ({kind})", DEFAULT] for kind in ("faults", "any"))
    rivals = {key[0]: aucs[key] for key in best.values() if not is_of_package(key[0])}
    top = max(rivals, key=lambda name: rivals[name].mean())
    used = {name: aucs[name, DEFAULT].mean() for name in AS_USED}
    cost = (informed - hedge).mean(axis=0)
    engines = SETS.index("turbofan")
    gain = (informed - rivals[top]).mean(axis=0)
    least = informed.mean() - max(used.values())
    results = [
        verdict(
            informed.mean() >= 82.7,
            f"auto (faults) {shown(informed.mean(axis=0))}, 82.7 asked for",
        ),
        verdict(
            gain.mean() > 0,
            f"ahead of the best rival at its best, {top}, by {shown(gain)}",
        ),
        verdict(
            least >= 4.5, f"ahead of {AS_USED} as they are used by {least:.2f} or more"
        ),
        verdict(
            informed[engines].mean() >= 99.5, f"turbofans {shown(informed[engines])}"
        ),
        verdict(cost.mean() <= 1.8, f"the hedge costs {shown(cost)}, 1.8 allowed"),
        verdict(
            hedge[engines].mean() >= 99.0, f"hedged, turbofans {shown(hedge[engines])}"
        ),
    ]
    return all(results)


def fault_auc(
    name: str, seed: int, fit: Callable[..., Any], contamination: float = 0.0
) -> float:
    """Mean AUC over the tasks of what `fit` makes of the training rows and tasks."""
    protocol = replace(DATASETS[name].protocols["faults"], contamination=contamination)
    X, split = draw(name, protocol, (0, seed))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = split.scores(fit(X[split.train], split.task), X)
    return 100 * float(np.nanmean(split.aucs(scores)))


# --- choosing


def regret(name: str, seed: int) -> tuple[float, float]:
    """What the chosen setting of a grid, and the default one, lose against the best."""

    def fixed(setting: dict[str, Any]) -> Callable[..., Any]:
        return lambda X, task: IndependentOCKSR(**setting).fit(X, task=task)

    settings = [
        {"metric": metric, "kernel": kernel, "width": width}
        for metric in GRID["metric"]
        for kernel in GRID["kernel"]
        for width in GRID["width"]
    ]
    best = max(fault_auc(name, seed, fixed(setting)) for setting in settings)

    def chosen(X: Array, task: Array) -> Any:
        model = IndependentOCKSR()
        return tune(model, X, task=task, criterion="faults", grid=GRID, calibrate=False)

    return best - fault_auc(name, seed, chosen), best - fault_auc(name, seed, fixed({}))


def choosing(seeds: int, out: Path) -> bool:
    """Regret against the best setting of the grid for each set and seed."""
    lost: list[Array] = []
    for name in SETS:
        lines = _parallel(regret, [(name, seed) for seed in range(seeds)])
        lost.append(np.array(lines))
        print(
            f"{name:11s} chosen {shown(lost[-1][:, 0])}, default "
            f"{shown(lost[-1][:, 1])}"
        )
    mean = np.mean(lost, axis=0)[:, 0]
    return verdict(mean.mean() <= 1.3, f"regret {shown(mean)}, 1.3 allowed")


# --- contamination


def contamination(seeds: int, out: Path) -> bool:
    """AUC lost to faults among the training rows, of `auto` and of rivals."""
    aucs = {}
    for method in compared("faults"):
        is_compared = method.name == "auto (faults)" or not is_of_package(method.name)
        if method.setting == DEFAULT and is_compared and method.quick:
            jobs = [(name, seed, method) for name in SETS for seed in range(seeds)]
            drops = np.array(_parallel(drop, jobs)).reshape(len(SETS), seeds, 2)
            clean, dirty = drops.mean(axis=0).T
            aucs[method.name] = (clean, dirty)
            lost = shown(clean - dirty)
            print(f"{method.name:50s} lost {lost}, left {shown(dirty)}", flush=True)
    clean, dirty = aucs.pop("auto (faults)")
    losses = {name: (pair[0] - pair[1]).mean() for name, pair in aucs.items()}
    best = max(aucs, key=lambda name: aucs[name][0].mean())
    most = max(aucs, key=lambda name: aucs[name][1].mean())
    least = min(losses, key=lambda name: losses[name])
    words = f"auto (faults) loses {shown(clean - dirty)}; the best rival on clean rows"
    print(f"the rival that loses least, {least}, loses {losses[least]:.2f}")
    results = [
        verdict(
            (clean - dirty).mean() <= losses[best],
            f"{words}, {best}, {losses[best]:.2f}",
        ),
        verdict(
            dirty.mean() > aucs[most][1].mean(),
            f"{shown(dirty)} are left; of rivals {most} has most, "
            f"{shown(aucs[most][1])}",
        ),
    ]
    return all(results)


def drop(name: str, seed: int, method: Method) -> tuple[float, float]:
    return fault_auc(name, seed, method.fit), fault_auc(name, seed, method.fit, 0.05)


# --- strangers


def strangers_auc(name: str, seed: int) -> dict[str, tuple[float, float]]:
    """AUC on seen and unseen strangers, of a tuned NonlinearOCKSR and every `auto`."""
    X, labels = _stranger_rows(name)
    split = STRANGERS[name].split(X, labels, seed=(0, seed))
    if name.startswith("keystrokes"):
        scale = QuantileTransformer(n_quantiles=100, output_distribution="normal")
        X = scale.fit(X[split.train]).transform(X)
    normal = X[split.test[~split.anomalous]]
    codes = split.codes[~split.anomalous]
    rows = X[split.train]
    task = split.task
    fits: dict[str, Callable[[], Any]] = {
        "tuned": lambda: tune(NonlinearOCKSR(), rows, task=task, calibrate=False)
    }
    for kind in ("strangers", "any", "faults"):
        fits[kind] = lambda kind=kind: auto(rows, task=task, anomalies=kind)
    aucs_by_name = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, fit in fits.items():
            model = fit()
            seen = task_aucs(model.score_tasks(normal), codes)
            unseen = split.aucs(split.scores(model, X))
            aucs_by_name[kind] = (
                100 * float(np.mean(seen)),
                100 * float(np.mean(unseen)),
            )
    return aucs_by_name


def _stranger_rows(name: str) -> tuple[Array, Array]:
    if name.startswith("MNIST"):
        X, y = load_mnist(return_X_y=True)
        return normalize(X), y
    if name.startswith("COIL"):
        return load_coil100(return_X_y=True)
    if name.startswith("grey"):
        images, y = load_faces(features="pixels", return_X_y=True)
        means = images.reshape(-1, 32, 2, 32, 2).mean(axis=(2, 4))
        return normalize(means.reshape(len(means), -1)), y
    return load_keystrokes(return_X_y=True)


def strangers(seeds: int, out: Path) -> bool:
    """`auto` beside a tuned NonlinearOCKSR, set by set."""
    differences = []
    hedges = []
    low = True
    for name in STRANGERS:
        draws = _parallel(strangers_auc, [(name, seed) for seed in range(seeds)])
        table = {kind: np.array([draw[kind] for draw in draws]) for kind in draws[0]}
        for kind, aucs in table.items():
            print(
                f"{name:17s} {kind:10s} seen {shown(aucs[:, 0])}, unseen "
                f"{shown(aucs[:, 1])}"
            )
        gain = table["strangers"] - table["tuned"]
        low &= verdict(
            bool(gain.mean(axis=0).min() >= -0.1),
            f"{name}: auto (strangers) beside tuned: seen {shown(gain[:, 0])}, "
            f"unseen {shown(gain[:, 1])}",
        )
        differences.append(gain)
        hedges.append(table["strangers"] - table["any"])
    cost = np.mean(hedges, axis=0)
    words = (
        f"the hedge costs seen {shown(cost[:, 0])}, "
        f"unseen {shown(cost[:, 1])}, 0.4 allowed"
    )
    return verdict(bool(cost.mean(axis=0).max() <= 0.4), words) and low


# --- speed


def speed(seeds: int, out: Path) -> bool:
    """Seconds and memory of `auto`, on few and many rows of few and many tasks."""
    rng = np.random.default_rng(0)
    results = []
    sizes = (
        *((30, 20, "any", 10.0), (2000, 30, "faults", 60.0), (2000, 30, "any", 120.0)),
        *((300, 100, "any", 60.0), (50, 2000, "any", 120.0)),
    )
    for n_tasks, n_rows, kind, most in sizes:
        task = np.repeat(np.arange(n_tasks), n_rows)
        mixing = rng.normal(size=(20, 20))
        X = (
            rng.normal(size=(len(task), 20)) @ mixing
            + rng.normal(size=(n_tasks, 20))[task]
        )
        start = time.perf_counter()
        auto(X, task=task, anomalies=kind)
        taken = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        words = (
            f"auto ({kind}), {n_tasks} tasks x {n_rows} rows x 20: "
            f"{taken:.1f} s, {peak:.2f} GB"
        )
        results.append(
            verdict(taken < most and peak < 2.0, f"{words}, {most:.0f} s allowed")
        )
    return all(results)


def _parallel(call: Callable[..., Any], jobs: list[tuple[Any, ...]]) -> list[Any]:
    return list(joblib.Parallel()(joblib.delayed(call)(*job) for job in jobs))


PARTS = {
    "faults": faults,
    "strangers": strangers,
    "choosing": choosing,
    "contamination": contamination,
    "speed": speed,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    parser.add_argument("--seeds", type=int, default=3, help="random cuts of each set")
    parser.add_argument(
        "--workers", type=int, default=-1, help="processes; default one per core"
    )
    parser.add_argument(
        "--out", type=Path, help="keeps what was computed; default: nothing is"
    )
    arguments = parser.parse_args()
    promises_kept = True
    with (
        tempfile.TemporaryDirectory() as folder,
        joblib.parallel_config(n_jobs=arguments.workers),
    ):
        for name in arguments.parts or PARTS:
            print(f"\n-- {name}, {arguments.seeds} seeds", flush=True)
            promises_kept &= PARTS[name](arguments.seeds, arguments.out or Path(folder))
    return 0 if promises_kept else 1


if __name__ == "__main__":
    sys.exit(main())
