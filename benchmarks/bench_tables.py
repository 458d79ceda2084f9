"""A table that nobody prepared: ``TableModel`` beside one detector per task.

Run ``python benchmarks/bench_tables.py [--seeds N] [keystrokes] [keystrokes-any]
[servers] [servers-any] [shops] [machines]``. Keystrokes: 30 users with 10 rows each;
all rows of 26 other users claim to be each of them. Servers: 8 servers with 30 rows
each, and faults of the later half of the time.

Shops and machines are simulated, without rivals, untuned and for faults, with 5 % of
alarms asked for. Shops: 100 with 15 rows each, four numbers, a weekday and a promotion;
faults are 6 standard deviations off in one number. Machines: 40 with 30 rows each, and
five sensors that follow the load; in a second run 4 % of the values of the last three
are missing. Faults are 1 off, ten times the noise of a sensor.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from manyone import TableModel
from manyone._types import Array, Codes, Mask
from manyone.datasets import load_keystrokes, load_servers
from manyone.metric.shrinkage import task_means, task_scales
from manyone.tables.evaluation import auc

RATE = 0.1


def keystrokes(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training rows, and test rows that claim to be somebody."""
    data = load_keystrokes()
    rng = np.random.default_rng(seed)
    users = rng.permutation(56)
    rows_of_user = [
        rng.permutation(np.flatnonzero(data.target == user)) for user in users[:30]
    ]
    impostors = np.flatnonzero(np.isin(data.target, users[30:]))
    table = pd.DataFrame(data.data, columns=data.feature_names)
    claims = pd.concat(
        [table.iloc[rows[10:]].assign(user=u) for u, rows in enumerate(rows_of_user)]
    )
    impostor_rows = pd.concat([table.iloc[impostors].assign(user=u) for u in range(30)])
    train = pd.concat(
        [table.iloc[rows[:10]].assign(user=u) for u, rows in enumerate(rows_of_user)]
    )
    test = pd.concat([claims.assign(bad=False), impostor_rows.assign(bad=True)])
    return train, test


def servers(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Few training rows of each server, and later rows with faults."""
    early = load_servers(split="train")
    late = load_servers(split="test")
    rng = np.random.default_rng(seed)
    parts: list[list[pd.DataFrame]] = [[], []]
    for server in range(8):
        first = rng.permutation(np.flatnonzero(early.target == server))[:30]
        then = np.flatnonzero(late.target == server)
        fine = rng.permutation(then[~late.label[then]])[:300]
        bad = rng.permutation(then[late.label[then]])[:150]
        table = pd.DataFrame(early.data[first], columns=early.feature_names)
        parts[0].append(table.assign(user=server))
        rows = np.concatenate([fine, bad])
        table = pd.DataFrame(late.data[rows], columns=late.feature_names)
        parts[1].append(table.assign(user=server, bad=late.label[rows]))
    return pd.concat(parts[0]), pd.concat(parts[1])


SETS = {
    "keystrokes": (keystrokes, "strangers"),
    "keystrokes-any": (keystrokes, "any"),
    "servers": (servers, "faults"),
    "servers-any": (servers, "any"),
}


def summary(
    score: Array, alarm: Mask, task: Codes, bad: Mask
) -> tuple[float, float, float]:
    """Mean AUC over tasks, false alarms, anomalies caught; all in percent."""
    areas = [auc(score[task == label], bad[task == label]) for label in np.unique(task)]
    return 100 * np.nanmean(areas), 100 * alarm[~bad].mean(), 100 * alarm[bad].mean()


def ours(
    train: pd.DataFrame, test: pd.DataFrame, anomalies: str
) -> tuple[float, float, float]:
    model = TableModel("user", anomalies=anomalies, alarm_rate=RATE).fit(train)
    answers = model.score(test.drop(columns="bad"))
    alarm = answers.alarm.to_numpy()
    return summary(
        answers.score.to_numpy(), alarm, test.user.to_numpy(), test.bad.to_numpy()
    )


def rivals(
    train: pd.DataFrame, test: pd.DataFrame
) -> dict[str, tuple[float, float, float]]:
    """One detector per task; the nearest neighbour with column scales of tasks."""
    task = test.user.to_numpy()
    bad = test.bad.to_numpy()
    scaler = StandardScaler().fit(train.drop(columns="user"))
    X = scaler.transform(train.drop(columns="user"))
    codes = train.user.to_numpy()
    Y = scaler.transform(test.drop(columns=["user", "bad"]))
    detectors: dict[str, Any] = {
        "OneClassSVM": OneClassSVM(nu=RATE),
        "IsolationForest": IsolationForest(contamination=RATE, random_state=0),
        "LocalOutlierFactor": LocalOutlierFactor(
            n_neighbors=5, novelty=True, contamination=RATE
        ),
    }
    figures = {}
    for name, detector in detectors.items():
        score = np.empty(len(Y))
        for label in np.unique(task):
            detector.fit(X[codes == label])
            score[task == label] = detector.decision_function(Y[task == label])
        figures[name] = summary(score, score < 0, task, bad)
    mean = task_means(X, codes, np.ones(len(X)))
    freedom = np.bincount(codes) - 1.0
    for prior in (0.0, 8.0):
        scale = task_scales(X - mean[codes], X, codes, np.ones(len(X)), freedom, prior)
        score = np.empty(len(Y))
        for label in np.unique(task):
            near = cdist(
                Y[task == label] / scale[label],
                X[codes == label] / scale[label],
                "cityblock",
            )
            score[task == label] = -near.min(axis=1)
        figures[f"1-NN L1, own scales (k={prior:g})"] = summary(
            score, score < -np.inf, task, bad
        )
    return figures


def shops(n: int, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """So many rows of each shop."""
    shop = np.repeat(np.arange(100), n)
    places = np.random.default_rng(1).normal(size=(100, 4))
    table = pd.DataFrame(
        3.0 * places[shop] + rng.normal(size=(100 * n, 4)), columns=list("abcd")
    )
    day = rng.choice(["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"], len(table))
    return table.assign(day=day, promotion=rng.random(len(table)) < 0.3, user=shop)


def machines(n: int, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """So many rows of each machine, a share of the values of three sensors missing."""
    machine = np.repeat(np.arange(40), n)
    places = np.random.default_rng(1).normal(size=(40, 5))
    load = rng.uniform(-2.0, 2.0, (40 * n, 1))
    noise = rng.normal(size=(40 * n, 5))
    table = pd.DataFrame(
        3.0 * places[machine] + load + 0.1 * noise, columns=list("abcde")
    )
    gaps = rng.random(table.shape) < np.where(np.arange(5) < 2, 0.0, share)
    return table.mask(gaps).assign(user=machine)


def simulated(name: str, seeds: int) -> None:
    """Alarms of normal rows, with and without a gap; faults caught, first and last."""
    make, size, fault, gap_shares = {
        "shops": (shops, 15, 6.0, (0.0,)),
        "machines": (machines, 30, 1.0, (0.0, 0.04)),
    }[name]
    for share in gap_shares:
        shares = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            model = TableModel(
                "user", anomalies="faults", method="default", random_state=0
            )
            model.fit(make(size, share, rng))
            new = make(20, share, rng)
            alarm = model.score(new).alarm.to_numpy()
            gap = new.isna().any(axis=1).to_numpy()
            numbers = new.select_dtypes("float").columns[[0, -1]]
            faulty = [
                new.assign(**{c: new[c] + fault})[new[c].notna()] for c in numbers
            ]
            caught = [model.score(rows).alarm.mean() for rows in faulty]
            shares.append(
                [alarm[~gap].mean(), alarm[gap].mean() if share else np.nan, *caught]
            )
        complete, gapped, first, last = 100 * np.mean(shares, axis=0)
        beside = f", {gapped:.1f} % of those with a gap" if share else ""
        print(
            f"{name}, {100 * share:.0f} % gaps, {seeds} seeds: alarms on "
            f"{complete:.1f} % of normal rows{beside}; caught {first:.1f} % in the "
            f"first number, {last:.1f} % in the last",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.data or (*SETS, "shops", "machines"):
        if name not in SETS:
            simulated(name, arguments.seeds)
            continue
        make, anomalies = SETS[name]
        lines: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(arguments.seeds):
            train, test = make(seed)
            lines.setdefault("TableModel", []).append(ours(train, test, anomalies))
            for rival, line in rivals(train, test).items():
                lines.setdefault(rival, []).append(line)
        print(
            f"{name} ({anomalies}, {arguments.seeds} seeds): AUC, false alarms, caught "
            "(%)"
        )
        for rival, draws in lines.items():
            area, false, caught = np.mean(draws, axis=0)
            error = np.std([draw[0] for draw in draws]) / np.sqrt(
                max(len(draws) - 1, 1)
            )
            print(
                f"  {rival:28s} {area:6.2f} +- {error:.2f}  {false:5.1f}  {caught:5.1f}"
            )


if __name__ == "__main__":
    main()
