"""False-alarm rates on digits and simulated tasks, beside the rates asked for.

Run ``python benchmarks/bench_alarm_rate.py [--splits N] [--rate R] [method ...]``. It
fits methods at their defaults to 20 digits of MNIST per task, and scores 200 held-out
digits of each. Other studies, each instead of this one:

``--simulated SETS [--rows N ...]``: combinations of detectors, at their defaults and as
`auto` chooses them for each data set. A data set has four related tasks with 8, 20 or
80 rows. One new normal row of each task is scored, so that the number of alarms has a
known law. 300 sets take twenty minutes of one processor.

``--training DRAWS``: thresholds at the quantile of the scores of the training rows
themselves, which a model fits too well, beside thresholds of manyone. Rows are of
machines of ``make_fleet`` with 15 rows, the method is JointOCKSR.

``--worst DRAWS``: the worst rate of 50 tasks with ten rows. Scores are minus
half-normal, and spreads of tasks are log-normal. Printed are thresholds of manyone, the
lowest score of each task (the largest of 50 rates has the law of the largest of 50
Beta(1, 10)), and the best threshold of an oracle that knows the laws of scores and
spreads, and ten scores of the task. With methods named, these are fitted instead: ten
rows a task, five columns, centres with a standard deviation of 3, log-normal spreads
with a standard deviation of 1, and 200 new rows a task.

``--unknown DRAWS``: rows of tasks that a table has never seen, of the same law as the
known ones. There are 1 to 30 known tasks of 20 rows, whose centres lie 2 or 5 standard
deviations apart.

``--updates DRAWS``: tasks that a model had before it enrolled another task, or forgot
one, and tasks whose thresholds come from 19 held-out rows.

``--seed S`` is the seed of the first draw of the last two.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import joblib
import numpy as np
import polars as pl
from scipy.special import softmax
from scipy.stats import beta, binom, norm
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR, TableModel, auto
from manyone._types import Array
from manyone.calibration.thresholds import Calibration
from manyone.datasets import load_mnist, make_fleet
from manyone.estimators import METHODS

N_TRAIN = 20
N_TEST = 200


def measured_rate(name: str, rate: float, seed: int) -> float:
    """Share of held-out normal digits that raise an alarm."""
    digits = load_mnist()
    X = normalize(digits.data)
    y = digits.target
    order = np.random.default_rng(seed).permutation(len(X))
    rows_of_digit = [order[y[order] == digit] for digit in range(10)]
    train = np.concatenate([rows[:N_TRAIN] for rows in rows_of_digit])
    test = np.concatenate([rows[N_TRAIN : N_TRAIN + N_TEST] for rows in rows_of_digit])
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tasks that overlap are no news here
        model = METHODS[name](alarm_rate=rate).fit(X[train], task=y[train])
    return float(np.mean(model.predict(X[test], task=y[test]) == -1))


def related_tasks(seed: int, n_rows: int) -> tuple[Any, ...]:
    """Rows and tasks to fit, one row a task to score: skewed laws, related centres."""
    rng = np.random.default_rng(seed)
    centres = 1.5 * rng.normal(size=(4, 3))
    drawn: list[Any] = []
    for k in (n_rows, 1):
        noise = rng.normal(size=(4, k, 3)) * rng.gamma(2.0, 0.5, size=(4, k, 1))
        drawn += [(centres[:, None] + noise).reshape(-1, 3), np.repeat(np.arange(4), k)]
    return tuple(drawn)


def simulated(data_sets: int, sizes: list[int]) -> None:
    """Alarms on new normal rows beside the exact band of chance about the promise."""
    warnings.simplefilter("ignore")
    for n_rows in sizes:
        alarms: dict[tuple[str, float], list[Any]] = {}
        for seed in range(data_sets):
            X, task, Z, claim = related_tasks(seed, n_rows)
            chosen = auto(X, task=task)
            models = {"combined": CombinedOneClass().fit(X, task=task), "auto": chosen}
            models |= {f"auto's {name}": view for name, view in chosen.views_.items()}
            for name, model in models.items():
                for rate in (0.05, 0.1, 0.2):
                    alarm = model.recalibrate(rate).predict(Z, task=claim) == -1
                    alarms.setdefault((name, rate), []).append(alarm)
        for (name, rate), rates_of_seeds in alarms.items():
            count = np.sum(rates_of_seeds)
            size = np.size(rates_of_seeds)
            # Of n rows a rate of k / (n + 1) can be promised, or one from the pool of
            # all tasks.
            resolvable = np.floor(rate * (n_rows + 1) + 1e-9) / (n_rows + 1)
            low = binom.ppf(0.001, size, 0.75 * resolvable)
            high = binom.ppf(0.999, size, rate)
            inside = "inside" if low <= count <= high else "OUTSIDE"
            print(
                f"{n_rows:3d} rows {name:17s} asked {100 * rate:2.0f} %, measured "
                f"{100 * count / size:5.2f} %, {inside} {100 * low / size:.1f} to "
                f"{100 * high / size:.1f} %",
                flush=True,
            )


def informed_thresholds(D: Array, sigma: float, rate: float) -> Array:
    """The distance (T,) that a new row exceeds at this rate, both laws known."""
    log_spread = np.linspace(-5.0, 5.0, 81) * sigma
    spread = np.exp(log_spread)
    likelihood = (
        -0.5 * (D**2).sum(axis=1)[:, None] / spread**2 - D.shape[1] * log_spread
    )
    posterior = softmax(likelihood + norm.logpdf(np.linspace(-5.0, 5.0, 81)), axis=1)
    low = np.zeros(len(D))
    high = 50.0 * D.max(axis=1)
    for _ in range(40):
        middle = 0.5 * (low + high)
        often = (posterior * 2.0 * norm.sf(middle[:, None] / spread)).sum(axis=1) > rate
        low = np.where(often, middle, low)
        high = np.where(often, high, middle)
    return high


def worst_of_many(draws: int, rate: float, n_tasks: int = 50, n_rows: int = 10) -> None:
    """Mean rate and that of the worst task, by how unlike the spreads are."""
    law = 100 * beta.ppf(np.array([0.5, 0.95, 0.999]) ** (1 / n_tasks), 1, n_rows)
    print(
        f"worst of {n_tasks} of Beta(1, {n_rows}): 50, 95 and 99.9 % quantile "
        f"{law.round(1)} %"
    )
    codes = np.repeat(np.arange(n_tasks), n_rows)
    for sigma in (0.0, 0.5, 1.0, 1.5):
        rng = np.random.default_rng(0)
        measured = []
        for _ in range(draws):
            spread = np.exp(sigma * rng.normal(size=n_tasks))
            D = np.abs(rng.normal(size=(n_tasks, n_rows))) * spread[:, None]
            ours = (
                Calibration.from_scores(
                    -D.ravel(), codes, np.ones(D.size), n_tasks, "held-out"
                )
                .at(rate)
                .offsets()[0]
            )
            limits = np.array(
                [-ours, D.max(axis=1), informed_thresholds(D, sigma, rate)]
            )
            measured.append(200 * norm.sf(limits / spread))
        names = ("ours", "worst own", "informed")
        for name, rates in zip(names, np.swapaxes(measured, 0, 1), strict=True):
            half, most = np.quantile(rates.max(axis=1), [0.5, 0.95])
            print(
                f"log-normal spreads, sigma {sigma:.1f}, asked {100 * rate:.0f} %, "
                f"{name:9s}: mean {rates.mean():5.2f} %, worst task {half:4.1f} % in "
                f"half of the draws, {most:4.1f} % in one of twenty",
                flush=True,
            )


def worst_of_fitted(name: str, draws: int, rate: float, n_tasks: int = 50) -> None:
    """The same of a method fitted to rows."""
    warnings.simplefilter("ignore")
    codes = np.repeat(np.arange(n_tasks), 10)
    claim = np.repeat(np.arange(n_tasks), 200)
    measured = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        centres = 3.0 * rng.normal(size=(n_tasks, 5))
        spread = np.exp(rng.normal(size=(n_tasks, 1)))
        X, Z = (
            centres[t] + spread[t] * rng.normal(size=(len(t), 5))
            for t in (codes, claim)
        )
        alarm = (
            METHODS[name](alarm_rate=rate).fit(X, task=codes).predict(Z, task=claim)
            == -1
        )
        measured.append(100 * alarm.reshape(n_tasks, -1).mean(axis=1))
    worst = np.max(measured, axis=1)
    print(
        f"{name}, {draws} draws, asked {100 * rate:.0f} %: mean "
        f"{np.mean(measured):.1f} %, worst task {np.median(worst):.0f} % in half of "
        f"the draws, {worst.max():.0f} % in one",
        flush=True,
    )


def from_training_scores(draws: int, rate: float) -> None:
    """Alarms on normal rows, by thresholds from scores of training rows."""
    warnings.simplefilter("ignore")
    measured = []
    for seed in range(draws):
        fleet = make_fleet(n_samples=15, n_test=40, fault_rate=0.0, random_state=seed)
        model = JointOCKSR(alarm_rate=rate).fit(fleet.data, task=fleet.task)
        seen, new = (
            model.score_samples(X, task=task)
            for X, task in (
                (fleet.data, fleet.task),
                (fleet.test_data, fleet.test_task),
            )
        )
        limit = np.array(
            [np.quantile(seen[fleet.task == t], rate) for t in model.tasks_]
        )
        measured.append(
            [np.mean(new < at[fleet.test_task]) for at in (limit, model.offset_)]
        )
    naive, held = 100 * np.mean(measured, axis=0)
    print(
        f"asked {100 * rate:.0f} %: from training scores {naive:.1f} %, ours "
        f"{held:.1f} %"
    )


def show_rates(name: str, measured: list[list[float]], promised: list[float]) -> None:
    """Print the mean of each rate over draws, with its standard error."""
    rates = 100.0 * np.array(measured)
    error = rates.std(axis=0, ddof=1) / np.sqrt(len(rates))
    cells = [
        f"{mean:5.2f} +- {of_mean:.2f} of {100 * most:.3g} %"
        for mean, of_mean, most in zip(rates.mean(axis=0), error, promised, strict=True)
    ]
    print(f"{name:34s} {'; '.join(cells)}", flush=True)


def never_seen(seeds: range) -> None:
    """Alarms on rows of tasks that a table has never seen."""
    warnings.simplefilter("ignore")
    for apart in (2.0, 5.0):
        for n_tasks in (1, 2, 3, 5, 10, 30):
            measured = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                train, new = (
                    _table_of_tasks(rng, apart, name, count)
                    for name, count in (("known", n_tasks), ("new", 20))
                )
                model = TableModel("task", method=IndependentOCKSR())
                model.fit(train)
                of_draw = []
                promised = []
                for rate in (0.05, 0.1, 0.2):
                    model.recalibrate(rate)
                    of_draw.append(float(np.mean(model.predict(new) < 0)))
                    promised.append(model.unknown_.rate(rate))
                measured.append(of_draw)
            show_rates(f"{n_tasks} tasks, {apart:g} sd apart", measured, promised)


def _table_of_tasks(
    rng: np.random.Generator, apart: float, name: str, n_tasks: int
) -> pl.DataFrame:
    task = np.repeat(np.arange(n_tasks), 20)
    X = apart * rng.normal(size=(n_tasks, 6))[task] + rng.normal(size=(len(task), 6))
    columns = {f"x{number}": X[:, number] for number in range(6)}
    return pl.DataFrame(columns | {"task": [f"{name} {code}" for code in task]})


def updated(seeds: range) -> None:
    """Alarms of tasks that were there before an update, and after a calibration."""
    warnings.simplefilter("ignore")
    alarm_rates = [0.05, 0.1, 0.2]
    old = np.arange(5)
    for method in (JointOCKSR, IndependentOCKSR):
        measured: dict[str, list[list[float]]] = {}
        for seed in seeds:
            rng = np.random.default_rng(seed)
            centre = 2.0 * rng.normal(size=(7, 6))
            first, joined, held_out, new = (
                np.repeat(tasks, count)
                for tasks, count in ((np.arange(6), 20), (6, 20), (old, 19), (old, 200))
            )
            X, X_joined, X_held_out, X_new = (
                centre[task] + rng.normal(size=(len(task), 6))
                for task in (first, joined, held_out, new)
            )
            model = method().fit(X, task=first).enroll(X_joined, task=joined)
            measured.setdefault("enrolled", []).append(
                rates_of(model, alarm_rates, X_new, new)
            )
            model.forget(5)
            measured.setdefault("forgotten", []).append(
                rates_of(model, alarm_rates, X_new, new)
            )
            model.calibrate(X_held_out, task=held_out)
            measured.setdefault("held-out", []).append(
                rates_of(model, alarm_rates, X_new, new)
            )
        for name, rates in measured.items():
            show_rates(f"{method.__name__}, {name}", rates, alarm_rates)


def rates_of(
    model: Any, alarm_rates: list[float], X: Array, task: Array
) -> list[float]:
    """Shares of rows that raise an alarm, for each rate."""
    return [
        float(np.mean(model.recalibrate(rate).predict(X, task=task) < 0))
        for rate in alarm_rates
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", metavar="method", help=", ".join(METHODS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--simulated", type=int, metavar="SETS")
    parser.add_argument(
        "--rows", type=int, nargs="*", default=[8, 20, 80], help="a simulated task"
    )
    parser.add_argument("--training", type=int, metavar="DRAWS")
    parser.add_argument("--worst", type=int, metavar="DRAWS")
    parser.add_argument("--unknown", type=int, metavar="DRAWS")
    parser.add_argument("--updates", type=int, metavar="DRAWS")
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    args = parser.parse_args()
    if args.unknown:
        return never_seen(range(args.seed, args.seed + args.unknown))
    if args.updates:
        return updated(range(args.seed, args.seed + args.updates))
    if args.training:
        return from_training_scores(args.training, args.rate)
    if args.worst:
        for name in args.methods:
            worst_of_fitted(name, args.worst, args.rate)
        return None if args.methods else worst_of_many(args.worst, args.rate)
    if args.simulated:
        return simulated(args.simulated, args.rows)
    for name in args.methods or METHODS:
        jobs = (
            joblib.delayed(measured_rate)(name, args.rate, s)
            for s in range(args.splits)
        )
        rates = 100 * np.array(joblib.Parallel(n_jobs=-1)(jobs))
        error = rates.std(ddof=1) / np.sqrt(len(rates))
        print(
            f"{name:9s} asked {100 * args.rate:.0f} %, measured {rates.mean():5.2f} +- "
            f"{error:.2f} % over {len(rates)} splits (from {rates.min():.2f} to "
            f"{rates.max():.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
