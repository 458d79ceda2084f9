"""What the past of rows is worth, and what it costs.

``bench_history.py [PART ...]``; the parts are

- ``accuracy``: mean AUC over tasks of servers, valves and spacecraft in time. A model of
  100 evenly spaced training rows a task, by values alone, by values and their past, and by
  the past alone; nearest neighbours and Mahalanobis distances in each task's own scales
  get the same columns;
- ``choice``: how well faults made in later training rows are found, by what is used of
  the past (`TableModel.choice_`), on real and simulated fleets;
- ``speed``: scoring tables with and without the past of their rows, as a ratio; what a
  row costs more in a monitor.

Real data are looked for as :mod:`manyone.datasets` does (``$MANYONE_DATA``).
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import bench_forward
import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score
from timing import in_turns

from manyone import IndependentOCKSR, Monitor, TableModel, TaskHistory
from manyone._types import Array, Codes, Mask
from manyone.datasets import load_servers, load_telemetry, load_valves

PARTS = ("accuracy", "choice", "speed")
MODEL = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
TRAINED = 100
TESTED = 1500
# Rows of each run of the valves that nothing has happened in yet.
FIRST = 400


class InTime(NamedTuple):
    """Rows of tasks in the order of time: those to learn from, then labelled ones."""

    X: Array
    task: Codes
    is_training: Mask
    label: Mask


def servers() -> InTime:
    """Eight servers, 38 metrics."""
    return _joined(load_servers(split="train"), load_servers(split="test"))


def spacecraft() -> InTime:
    """Channels of two spacecraft, windows of 50 values."""
    return _joined(load_telemetry(split="train"), load_telemetry(split="test"))


def _joined(first: object, second: object) -> InTime:
    is_training = np.repeat([True, False], [len(first.data), len(second.data)])
    label = np.concatenate([np.zeros(len(first.data), dtype=bool), second.label])
    return InTime(
        np.vstack([first.data, second.data]),
        np.concatenate([first.target, second.target]),
        is_training,
        label,
    )


def valves() -> InTime:
    """34 runs of a water circuit, eight sensors."""
    bunch = load_valves()
    starts = np.searchsorted(bunch.target, bunch.target)
    place = np.arange(len(bunch.target)) - starts
    is_training = (place < FIRST) & ~bunch.label
    return InTime(bunch.data, bunch.target, is_training, bunch.label)


def spaced(rows: Codes, number: int) -> Codes:
    """At most so many of some rows, evenly spaced."""
    places = np.linspace(0, len(rows) - 1, min(number, len(rows))).astype(np.intp)
    return rows[places]


def columns_of(data: InTime) -> dict[str, Array]:
    """Values, values with their past, and the past alone."""
    Z = TaskHistory().fit_transform(data.X, task=data.task)
    width = data.X.shape[1]
    return {"values": Z[:, :width], "values and past": Z, "past alone": Z[:, width:]}


def task_aucs(data: InTime, Z: Array) -> dict[str, list[float]]:
    """AUC of every task with both kinds of test rows, by method."""
    tasks = np.unique(data.task)
    trained = [
        spaced(np.flatnonzero((data.task == t) & data.is_training), TRAINED)
        for t in tasks
    ]
    rows = np.concatenate(trained)
    # Columns in common scales; constant ones are left out.
    spread = Z[rows].std(axis=0)
    Z = (Z[:, spread > 0] - Z[rows][:, spread > 0].mean(axis=0)) / spread[spread > 0]
    model = MODEL.fit(Z[rows], task=data.task[rows])
    aucs: dict[str, list[float]] = {"adaptive OCKSR": [], "nearest": [], "LW": []}
    for t, own in zip(tasks, trained, strict=True):
        tested = np.flatnonzero((data.task == t) & ~data.is_training)
        tested = spaced(tested, TESTED)
        label = data.label[tested]
        if label.all() or not label.any():
            continue
        scale = np.maximum(Z[own].std(axis=0), 1e-3)
        near = cdist(Z[tested] / scale, Z[own] / scale, "cityblock").min(axis=1)
        far = LedoitWolf().fit(Z[own] / scale).mahalanobis(Z[tested] / scale)
        scores = model.score_samples(Z[tested], task=np.repeat(t, len(tested)))
        for name, unusual in zip(aucs, (-scores, near, far), strict=True):
            aucs[name].append(100 * roc_auc_score(label, unusual))
    return aucs


def accuracy() -> None:
    """Print mean AUCs with standard errors over tasks."""
    for name, load in (
        ("servers", servers),
        ("valves", valves),
        ("spacecraft", spacecraft),
    ):
        data = load()
        for what, Z in columns_of(data).items():
            aucs = task_aucs(data, Z)
            shown = ", ".join(
                f"{method} {np.mean(values):.1f}"
                f" ± {np.std(values) / np.sqrt(len(values)):.1f}"
                for method, values in aucs.items()
            )
            print(f"{name:10} {what:16} {shown}", flush=True)


def choice() -> None:
    """Print the AUC of each candidate, and what is chosen."""
    tables = {
        "servers": next(bench_forward.server_periods())[0],
        "valves": next(bench_forward.valve_periods())[0],
    }
    for kind in bench_forward.KINDS:
        tables[kind] = bench_forward.fleet(kind, 12, 240, 0)
    for name, table in tables.items():
        train = table.drop(columns="bad", errors="ignore")
        tried = bench_forward.fitted(train).choice_
        lines = np.flatnonzero(tried["view"] == "rows in time")
        areas = ", ".join(
            f"{tried['method'][line]} {100 * tried['score'][line]:.1f}"
            for line in lines.tolist()
        )
        chosen = tried["method"][lines[tried["chosen"][lines]]].tolist()
        print(f"{name:10} {areas}; chosen: {', '.join(chosen)}", flush=True)


def fleet(rows: int, tasks: int = 50, columns: int = 8, start: int = 0) -> pd.DataFrame:
    """Rows of machines, one a minute, that resemble the one before."""
    rng = np.random.default_rng(start)
    each = rows // tasks
    values = np.cumsum(rng.normal(size=(tasks, each, columns)), axis=1) * 0.1
    values += rng.normal(size=values.shape)
    table = pd.DataFrame(
        values.reshape(-1, columns), columns=[f"x{k}" for k in range(columns)]
    )
    table["machine"] = np.repeat([f"m{k}" for k in range(tasks)], each)
    table["when"] = np.tile(np.arange(start, start + each), tasks)
    return table.sort_values("when", kind="stable").reset_index(drop=True)


def speed() -> None:
    """Print ratios of times."""
    train = fleet(10_000)
    later = fleet(1_000_000, start=200)
    models = {
        history: TableModel("machine", time="when", method=MODEL, history=history).fit(
            train
        )
        for history in (None, 12)
    }
    seconds = in_turns(
        {
            "without": lambda: models[None].score(later),
            "columns": lambda: models[12]._table(later),
            "with": lambda: models[12].score(later),
        },
        1,
    )
    base = seconds["without"]
    print(f"score of {len(later):,} rows: {base:.1f} s without a past")
    print(f"making the columns adds {seconds['columns'] / base:.0%} of that")
    print(f"all of it takes {seconds['with'] / base:.2f} times as long")
    monitors = {history: Monitor(model) for history, model in models.items()}
    steps = {history: iter(range(10**6)) for history in models}

    def one_row(history: int | None) -> None:
        place = next(steps[history])
        monitors[history].update(later.iloc[place : place + 1])

    times = in_turns(
        {str(history): lambda h=history: one_row(h) for history in models}, 300
    )
    more = times["12"] - times["None"]
    print(f"a row in a monitor: {1e3 * times['None']:.2f} ms, {1e3 * more:.2f} ms more")


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parts = parser.parse_args().parts or PARTS
    for part in parts:
        {"accuracy": accuracy, "choice": choice, "speed": speed}[part]()


if __name__ == "__main__":
    main()
