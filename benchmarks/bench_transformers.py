"""False alarms behind transformers, in columns that a single row may shape.

    python benchmarks/bench_transformers.py [--draws 12] [--seed 0] [--quick]
        [CASE ...]

Promise: pipelines with a scaler, and tables, raise at most the rate that was asked for,
on average over draws. Columns are 0 in 98 % of rows, or Cauchy, in five tasks of 20
rows; or rows are raw images of digits, in ten tasks of 20. Pipelines refit transformers
without the rows that are left out. Encoders of tables are not refitted: their scales
are ranks, and thresholds allow for values never seen.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl
from sklearn.preprocessing import StandardScaler

from manyone import IndependentOCKSR, JointOCKSR, TableModel, make_pipeline
from manyone.datasets import load_mnist

RATES = (0.01, 0.05, 0.1)
TRAINED = 20
NEW = 60
Judge = Callable[[np.ndarray, np.ndarray], list[float]]
#: Training rows, and new ones, of tasks that follow each other.
Drawn = tuple[np.ndarray, np.ndarray]


def rare(columns: int, rng: np.random.Generator) -> Drawn:
    shape = (5 * (TRAINED + NEW), columns)
    X = (rng.random(shape) < 0.02) * rng.normal(size=shape)
    return X[: 5 * TRAINED], X[5 * TRAINED :]


def cauchy(columns: int, rng: np.random.Generator) -> Drawn:
    X = rng.standard_t(1, (5 * (TRAINED + NEW), columns))
    return X[: 5 * TRAINED], X[5 * TRAINED :]


def digits(rng: np.random.Generator) -> Drawn:
    images = load_mnist()
    order = rng.permutation(len(images.data))
    rows = [order[images.target[order] == digit] for digit in range(10)]
    return (
        images.data[np.concatenate([of_digit[:TRAINED] for of_digit in rows])],
        images.data[np.concatenate([of_digit[TRAINED:][:NEW] for of_digit in rows])],
    )


def tasks(X: np.ndarray, count: int) -> np.ndarray:
    return np.repeat([f"m{number}" for number in range(len(X) // count)], count)


def pipeline(method: type[JointOCKSR | IndependentOCKSR]) -> Judge:
    def judge(X: np.ndarray, new: np.ndarray) -> list[float]:
        model = make_pipeline(StandardScaler(), method()).fit(X, task=tasks(X, TRAINED))
        claims = tasks(new, NEW)
        return [
            float(np.mean(model.recalibrate(rate).predict(new, task=claims) < 0))
            for rate in RATES
        ]

    return judge


def table(anomalies: str) -> Judge:
    def frame(X: np.ndarray, count: int) -> pl.DataFrame:
        columns = {f"c{number}": X[:, number] for number in range(X.shape[1])}
        return pl.DataFrame(columns | {"machine": tasks(X, count)})

    def judge(X: np.ndarray, new: np.ndarray) -> list[float]:
        model = TableModel("machine", method="default", anomalies=anomalies)
        model.fit(frame(X, TRAINED))
        rows = frame(new, NEW)
        return [
            float(np.mean(model.recalibrate(rate).predict(rows) < 0)) for rate in RATES
        ]

    return judge


CASES = {
    "scaler, Joint, 50 rare columns": (pipeline(JointOCKSR), partial(rare, 50)),
    "scaler, Joint, 300 rare columns": (pipeline(JointOCKSR), partial(rare, 300)),
    "scaler, Independent, 300 rare columns": (
        pipeline(IndependentOCKSR),
        partial(rare, 300),
    ),
    "scaler, Joint, 30 Cauchy columns": (pipeline(JointOCKSR), partial(cauchy, 30)),
    "scaler, Joint, digits": (pipeline(JointOCKSR), digits),
    "scaler, Independent, digits": (pipeline(IndependentOCKSR), digits),
    "table, faults, 50 rare columns": (table("faults"), partial(rare, 50)),
    "table, faults, 30 Cauchy columns": (table("faults"), partial(cauchy, 30)),
    "table, faults, 60 Cauchy columns": (table("faults"), partial(cauchy, 60)),
    "table, any, 50 rare columns": (table("any"), partial(rare, 50)),
    "table, any, 30 Cauchy columns": (table("any"), partial(cauchy, 30)),
    "table, faults, digits": (table("faults"), digits),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", choices=[[], *CASES])
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--quick", action="store_true", help="4 draws")
    arguments = parser.parse_args()
    draws = 4 if arguments.quick else arguments.draws
    warnings.simplefilter("ignore")
    rates = ", ".join(f"{100 * rate:g} %" for rate in RATES)
    print(f"{draws} draws; false alarms in percent where {rates} were asked")
    broken = []
    for name in arguments.cases or CASES:
        judge, drawn = CASES[name]
        raised = [
            judge(*drawn(np.random.default_rng(arguments.seed + draw)))
            for draw in range(draws)
        ]
        mean = np.mean(raised, axis=0)
        error = np.std(raised, axis=0) / np.sqrt(draws)
        cells = [
            f"{100 * share:6.1f} ± {100 * scatter:.1f}"
            for share, scatter in zip(mean, error, strict=True)
        ]
        print(f"{name:40}{'   '.join(cells)}", flush=True)
        if np.any(mean > np.array(RATES) + 3.0 * error):
            broken.append(name)
    if broken:
        sys.exit(f"promise broken: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
