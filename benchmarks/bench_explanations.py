"""How often ``TableModel.explain`` names the column that was made wrong.

Run ``python benchmarks/bench_explanations.py [--rows N] [--shap N] [keystrokes]
[servers] ...``. In held-out normal rows one column that varies in the task is made
wrong: it moves by 8 or 4 of its standard deviations within the task, or it takes the
farthest of the task's own training values, which is normal for the column and wrong for
the row. All such rows count, also those without an alarm. Beside it: the column with
the largest |z| (task's mean, pooled within-task deviation), and on few rows KernelSHAP
on an IsolationForest per task (``--shap N``; needs shap).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest

from manyone import TableModel
from manyone._types import Array, Codes
from manyone.datasets import (
    load_keystrokes,
    load_servers,
    load_telemetry,
    load_turbofan,
    make_fleet,
)
from manyone.metric.shrinkage import task_means

PLANTS = ("8 sd", "4 sd", "wrong for the row")


class Rows(NamedTuple):
    """Normal rows, their tasks, and how many of each task to train on."""

    X: Array
    task: Codes
    number: int
    anomalies: str


def keystrokes(rng: np.random.Generator) -> Rows:
    data = load_keystrokes()
    chosen = np.isin(data.target, rng.permutation(56)[:30])
    return Rows(data.data[chosen], data.target[chosen], 10, "strangers")


def servers(rng: np.random.Generator) -> Rows:
    data = load_servers()
    return Rows(data.data, data.target, 30, "faults")


def turbofan(rng: np.random.Generator) -> Rows:
    data = load_turbofan()
    chosen = (data.cycle <= 80) & np.isin(data.target, rng.permutation(100)[:50])
    return Rows(data.data[chosen], data.target[chosen], 15, "faults")


def spacecraft(rng: np.random.Generator) -> Rows:
    data = load_telemetry(features="values", step=25)
    return Rows(data.data, data.target, 20, "faults")


def fleet(rng: np.random.Generator) -> Rows:
    data = make_fleet(20, 70, 8, random_state=0)
    return Rows(data.data, data.task, 20, "any")


SETS: dict[str, Callable[[np.random.Generator], Rows]] = {
    "keystrokes": keystrokes,
    "servers": servers,
    "turbofan": turbofan,
    "spacecraft": spacecraft,
    "fleet": fleet,
}


class Planted(NamedTuple):
    """Training rows and tasks; rows with a wrong column; which, for each plant."""

    train: Array
    codes: Codes
    task: Codes
    column: Codes
    rows: dict[str, Array]


def plant(data: Rows, n_rows: int, rng: np.random.Generator) -> Planted:
    chosen: list[Codes] = []
    held: list[Codes] = []
    for label in np.unique(data.task):
        order = rng.permutation(np.flatnonzero(data.task == label))
        if len(order) >= data.number + 5:
            chosen.append(order[: data.number])
            held.append(order[data.number :])
    train = data.X[np.concatenate(chosen)]
    codes = np.repeat(np.arange(len(chosen)), data.number)
    varying = np.ptp(train, axis=0) > 0
    train = train[:, varying]
    means = task_means(train, codes, np.ones(len(train)))
    squares = np.zeros_like(means)
    np.add.at(squares, codes, (train - means[codes]) ** 2)
    scale_of_task = np.sqrt(squares / (data.number - 1))
    # A column that differs by rounding only is constant.
    varies = scale_of_task > 1e-6 * np.sqrt(
        squares.sum(axis=0) / (len(train) - len(means))
    )
    test = np.concatenate(held)
    task = np.repeat(np.arange(len(held)), [len(rows) for rows in held])
    order = rng.permutation(len(test))
    order = order[varies[task[order]].any(axis=1)][:n_rows]
    base = data.X[test[order]][:, varying]
    task = task[order]
    column = np.array([rng.choice(np.flatnonzero(varies[label])) for label in task])
    place = np.arange(len(task))
    sign = rng.choice([-1.0, 1.0], size=len(task))
    rows = {}
    for name, size in (("8 sd", 8.0), ("4 sd", 4.0)):
        rows[name] = base.copy()
        rows[name][place, column] += size * sign * scale_of_task[task, column]
    rows[PLANTS[2]] = base.copy()
    for i in place:
        values = train[codes == task[i], column[i]]
        farthest = np.argmax(np.abs(values - base[i, column[i]]))
        rows[PLANTS[2]][i, column[i]] = values[farthest]
    return Planted(train, codes, task, column, rows)


def as_frame(X: Array, task: Codes) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).assign(
        task=task
    )


def ours(planted: Planted, anomalies: str) -> Iterator[tuple[str, Array, float]]:
    """Columns named by us, the first three, for each plant; and seconds for a row."""
    train = as_frame(planted.train, planted.codes)
    model = TableModel("task", anomalies=anomalies, method="default").fit(train)
    for name, X in planted.rows.items():
        begin = time.perf_counter()
        explained = model.explain(as_frame(X, planted.task), top=3)
        seconds = (time.perf_counter() - begin) / len(X)
        yield (
            name,
            explained.column.str[1:].astype(int).to_numpy().reshape(len(X), -1),
            seconds,
        )


def largest_z(planted: Planted) -> Iterator[tuple[str, Array, float]]:
    train = planted.train
    codes = planted.codes
    means = task_means(train, codes, np.ones(len(train)))
    spread = np.sqrt(
        ((train - means[codes]) ** 2).sum(axis=0) / (len(train) - len(means))
    )
    for name, X in planted.rows.items():
        z = np.abs(X - means[planted.task]) / np.where(spread > 0, spread, np.inf)
        yield name, np.argsort(-z, axis=1)[:, :3], 0.0


def kernel_shap(planted: Planted, n_rows: int) -> Iterator[tuple[str, Array, float]]:
    import shap

    for name, X in planted.rows.items():
        shares = []
        begin = time.perf_counter()
        for x, task in zip(X[:n_rows], planted.task[:n_rows], strict=True):
            task_rows = planted.train[planted.codes == task]
            forest = IsolationForest(random_state=0).fit(task_rows)
            explainer = shap.KernelExplainer(forest.score_samples, task_rows)
            values = explainer.shap_values(x[None], silent=True)[0]
            shares.append(np.argsort(values)[:3])  # what lowers the score most
        yield name, np.array(shares), (time.perf_counter() - begin) / len(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--shap", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("first / among the first three (%), ms a row")
    for name in arguments.data or SETS:
        rng = np.random.default_rng(0)
        data = SETS[name](rng)
        planted = plant(data, arguments.rows, rng)
        ways = {
            "TableModel": ours(planted, data.anomalies),
            "largest |z|": largest_z(planted),
        }
        if arguments.shap:
            ways["KernelSHAP"] = kernel_shap(planted, arguments.shap)
        for way, answers in ways.items():
            for kind, named, seconds in answers:
                hit = named == planted.column[: len(named), None]
                first = 100 * hit[:, 0].mean()
                three = 100 * hit.any(axis=1).mean()
                line = f"{name:11s} {kind:18s} {way:12s} {first:5.1f} / {three:5.1f}"
                print(
                    f"{line}   {1e3 * seconds:7.2f} ms  ({len(named)} rows)", flush=True
                )


if __name__ == "__main__":
    main()
