"""Where plain detectors are ahead: simulated faults in eleven regimes.

Run ``python benchmarks/bench_regimes.py [--draws N] [--metric] [REGIME ...]``; none is
all. Printed is the mean over tasks of the area under the ROC curve in percent, and
false alarms of ``auto(anomalies="faults")`` where 10 % were asked for. ``--metric``
adds everything that could judge rows in the adaptive metric. Rows are Gaussian (or
Student's t) about the centre of their task, with two common factors; half of the faults
are spikes of four standard deviations, half have three columns of another row.
"""

from __future__ import annotations

import argparse
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import manyone
from manyone import SVDD, IndependentOCKSR, TaskWhitener

COLUMNS = 10
NEW = 40


class Regime(NamedTuple):
    """Tasks, rows of each, distance of centres, share of factors, what is special."""

    tasks: int = 20
    rows: int = 25
    apart: float = 1.5
    factors: float = 0.5
    freedom: float = np.inf  # of Student's t
    unlike: bool = False  # factors and scales of its own for each task
    drift: float = 0.0  # of the centres, in the time that training takes
    levels: int = 0  # of each of four categories beside the numbers


REGIMES = {
    "25 rows": Regime(),
    "6 rows": Regime(rows=6),
    "15 rows": Regime(rows=15),
    "30 rows": Regime(rows=30),
    "200 rows": Regime(tasks=8, rows=200),
    "correlated": Regime(factors=0.98),
    "heavy tails": Regime(freedom=2.0),
    "tasks alike": Regime(apart=0.0),
    "tasks unlike": Regime(apart=6.0, unlike=True),
    "drift": Regime(drift=1.5),
    "categories": Regime(levels=5),
}


class Fleet:
    """Tasks of a regime, to draw rows of."""

    def __init__(self, regime: Regime, seed: int) -> None:
        self.regime = regime
        self.rng = np.random.default_rng(seed)
        T = regime.tasks
        d = COLUMNS
        rng = self.rng
        self.centre = regime.apart * rng.normal(size=(T, d))
        self.way = regime.drift * rng.normal(size=(T, d))
        factors = [np.linalg.qr(rng.normal(size=(d, d)))[0][:2] for _ in range(T)]
        self.factor = factors if regime.unlike else [factors[0]] * T
        self.scale = (
            np.exp(rng.normal(size=(T, d))) if regime.unlike else np.ones((T, d))
        )
        self.share = rng.dirichlet(np.ones(max(regime.levels, 1)), size=(T, 4))

    def noise(self, n: int, d: int) -> np.ndarray:
        """Independent values, shape (n, d)."""
        if np.isinf(self.regime.freedom):
            return self.rng.normal(size=(n, d))
        return self.rng.standard_t(self.regime.freedom, size=(n, d))

    def numbers(self, t: int, when: np.ndarray) -> np.ndarray:
        """Measured columns of normal rows, one for each time."""
        n = len(when)
        share = self.regime.factors
        common = 3.0 * np.sqrt(share) * self.noise(n, 2) @ self.factor[t]
        rows = common + np.sqrt(1.0 - share) * self.noise(n, COLUMNS)
        return self.centre[t] + self.scale[t] * rows + when[:, None] * self.way[t]

    def categories(self, t: int, n: int) -> np.ndarray:
        """Levels of the categories as columns of 0 and 1, by shares of the task."""
        k = self.regime.levels
        drawn = [
            np.eye(k)[self.rng.choice(k, n, p=share)] for share in self.share[t] if k
        ]
        return np.hstack(drawn) if drawn else np.empty((n, 0))

    def faults(self, t: int, when: np.ndarray) -> np.ndarray:
        """Measured columns of faults."""
        rows = self.numbers(t, when)
        redrawn = self.numbers(t, when)
        rng = self.rng
        deviation = self.numbers(t, np.zeros(500)).std(axis=0)
        for i in range(len(rows)):
            if i % 2:
                chosen = rng.choice(COLUMNS, 3, replace=False)
                rows[i, chosen] = redrawn[i, chosen]
            else:
                column = rng.integers(COLUMNS)
                rows[i, column] += rng.choice([-4.0, 4.0]) * deviation[column]
        return rows

    def tables(self) -> tuple[np.ndarray, ...]:
        """Training rows, their tasks, new rows, their tasks, and which are faults."""
        T = self.regime.tasks
        n = self.regime.rows
        later = np.linspace(1.0, 2.0, NEW)
        train = []
        new = []
        for t in range(T):
            normal = self.numbers(t, np.linspace(0.0, 1.0, n))
            train.append(np.hstack([normal, self.categories(t, n)]))
            rows = np.vstack([self.numbers(t, later), self.faults(t, later)])
            new.append(np.hstack([rows, self.categories(t, 2 * NEW)]))
        fault = np.tile(np.repeat([False, True], NEW), T)
        scaler = StandardScaler().fit(np.vstack(train))
        X = scaler.transform(np.vstack(train))
        Z = scaler.transform(np.vstack(new))
        return X, np.repeat(np.arange(T), n), Z, np.repeat(np.arange(T), 2 * NEW), fault


def nearest(train: np.ndarray, new: np.ndarray) -> np.ndarray:
    return -NearestNeighbors(n_neighbors=1).fit(train).kneighbors(new)[0][:, 0]


ALONE = {
    "nearest neighbour": nearest,
    "Mahalanobis": lambda train, new: -LedoitWolf().fit(train).mahalanobis(new),
    "OneClassSVM": lambda train, new: OneClassSVM(nu=0.1).fit(train).score_samples(new),
    "IsolationForest": lambda a, b: (
        IsolationForest(random_state=0).fit(a).score_samples(b)
    ),
}


def pooled(
    X: np.ndarray, task: np.ndarray, Z: np.ndarray, who: np.ndarray
) -> np.ndarray:
    """Mahalanobis distance by the covariance inside all tasks."""
    mean = np.array([X[task == t].mean(axis=0) for t in range(task.max() + 1)])
    estimate = LedoitWolf(assume_centered=True).fit(X - mean[task])
    return -estimate.mahalanobis(Z - mean[who])


def in_the_metric(
    X: np.ndarray, task: np.ndarray, Z: np.ndarray, who: np.ndarray
) -> dict[str, np.ndarray]:
    """Scores of everything that could judge rows in the adaptive metric."""
    kernel = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
    distance = SVDD(metric="adaptive", kernel="linear", nu=1.0)
    scores = {}
    standardised = []
    for name, method in (("kernel", kernel), ("distance to the mean", distance)):
        model = method.fit(X, task=task)
        scores[name] = model.score_samples(Z, task=who)
        left_out = model.calibration_.scores
        standardised.append(scores[name] / left_out.std())
    scores["mean of both"] = np.mean(standardised, axis=0)
    whitener = TaskWhitener(adaptive=True).fit(X, task=task)
    whitened = whitener.transform(X, task=task)
    new = whitener.transform(Z, task=who)
    for k in (1, 3):
        name = f"{k} neighbours (L1)"
        scores[name] = np.empty(len(Z))
        for t in set(who):
            rows = NearestNeighbors(n_neighbors=k, metric="l1").fit(whitened[task == t])
            scores[name][who == t] = -rows.kneighbors(new[who == t])[0].mean(axis=1)
    return {f"adaptive: {name}": values for name, values in scores.items()}


def measured(regime: Regime, seed: int, metric: bool) -> tuple[dict[str, float], float]:
    """AUC of all, and false alarms of ``auto(anomalies="faults")``, in percent."""
    X, task, Z, who, fault = Fleet(regime, seed).tables()
    scores = {name: np.empty(len(Z)) for name in ALONE}
    for name, score in ALONE.items():
        for t in range(regime.tasks):
            scores[name][who == t] = score(X[task == t], Z[who == t])
    scores["Mahalanobis, pooled"] = pooled(X, task, Z, who)
    if metric:
        scores |= in_the_metric(X, task, Z, who)
    for kind in ("any", "faults"):
        model = manyone.auto(X, task=task, anomalies=kind, alarm_rate=0.1)
        scores[f"auto ({kind})"] = model.score_samples(Z, task=who)
    alarm = model.predict(Z[~fault], task=who[~fault]) == -1
    aucs = {
        name: 100
        * np.mean(
            [roc_auc_score(~fault[who == t], score_of_row[who == t]) for t in set(who)]
        )
        for name, score_of_row in scores.items()
    }
    return aucs, 100 * alarm.mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("regimes", nargs="*", metavar="REGIME", help=", ".join(REGIMES))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument(
        "--metric", action="store_true", help="also all that could judge rows in it"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for unknown in set(options.regimes) - {*REGIMES}:
        parser.error(f"{unknown}: there are {', '.join(REGIMES)}")
    for name in options.regimes or REGIMES:
        draws = [
            measured(REGIMES[name], seed, options.metric)
            for seed in range(options.draws)
        ]
        print(f"{name}: {np.mean([alarms for _, alarms in draws]):.1f} % false alarms")
        for method in draws[0][0]:
            values = [aucs[method] for aucs, _ in draws]
            error = (
                np.std(values, ddof=1) / np.sqrt(len(values))
                if len(values) > 1
                else np.nan
            )
            print(f"    {method:30s} {np.mean(values):5.1f} ± {error:.1f}", flush=True)


if __name__ == "__main__":
    main()
