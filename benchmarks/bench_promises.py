"""False alarms and faults caught, beside the rate that was asked for.

A cell is a law of rows, sizes of tasks and a method. Every draw makes a training set;
fresh rows of the same law, and rows with a fault, are scored at several rates. Printed
for each rate: false alarms in %, mean over tasks and draws, with the standard error
over draws; ``!`` where they are two of these above the promise. In brackets what is
caught, in % of what the same scores catch with a threshold for each task that an oracle
sets at the measured rate. After ``w`` the worst task's mean over draws. The last line
counts the rates that lie two and four standard errors above what was promised: what was
asked, or the smallest rate that so few tasks allow, which a warning states.

Run ``python benchmarks/bench_promises.py [cell ...] [--methods ...] [--draws N]
[--seed S] [--rates R ...] [--quick] [--out FILE]``; without names all named cells run,
each with its methods. ``--grid`` runs every law with every size instead, by methods
that leave rows out in closed form; ``--sample`` runs cells of that grid by the other
methods. ``--out`` writes the figures as CSV, for the page of evidence.

``--ceiling`` prints what no rule can exceed that has one quantile for all tasks, in
units that are a power of each task's mean root depth: the quantile is that of the fresh
rows themselves, and the power the best by hindsight. So nothing is lost to few tasks,
to left-out scores or to the choice of the unit. Printed after what is raised and caught
with thresholds: the ceiling at that rate, and at the rate asked, with and without the
limit of a task, and the power.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from manyone import (
    KNFST,
    MORVR,
    SVDD,
    AutoOneClass,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    LinearOCKSR,
    MultiTaskOneClassSVM,
    NonlinearOCKSR,
    OutputKernelOCKSR,
    SparseOCKSR,
    TableModel,
)
from manyone.datasets import (
    load_keystrokes,
    load_mnist,
    load_products,
    load_turbofan,
    make_fleet,
)
from manyone.models.scale import stretched

RATES = (0.01, 0.05, 0.1, 0.2)
FRESH_ROWS = 100
#: Fits to more rows are not cheap, and have a quarter of the draws.
CHEAP_ROWS = 450
Rows = NDArray[np.float64]
Tasks = NDArray[np.intp]


class Table:
    """A `TableModel` behind the methods of an estimator."""

    def __init__(self, anomalies: str) -> None:
        self.model = TableModel("task", anomalies=anomalies, random_state=0)

    def fit(self, X: Rows, *, task: Tasks) -> Table:
        """Fit the table of the rows."""
        self.model.fit(self._table(X, task))
        return self

    def score_samples(self, X: Rows, *, task: Tasks) -> Rows:
        """Scores of the rows of a table."""
        return self.model.score_samples(self._table(X, task))

    def recalibrate(self, rate: float) -> Table:
        """Promise another rate."""
        self.model.recalibrate(rate)
        return self

    @property
    def offset_(self) -> Rows:
        """Thresholds of the tasks."""
        return self.model.model_.offset_

    @property
    def alarm_rate_(self) -> Rows:
        """What is promised of the tasks."""
        return self.model.model_.alarm_rate_

    @staticmethod
    def _table(X: Rows, task: Tasks) -> pd.DataFrame:
        names = [f"x{k}" for k in range(X.shape[1])]
        return pd.DataFrame(X, columns=names).assign(task=task)


METHODS: dict[str, Callable[[], Table | IndependentOCKSR]] = {
    "Ind": IndependentOCKSR,
    "IndA": partial(IndependentOCKSR, metric="adaptive", kernel="laplacian", width=3.0),
    "Joint": JointOCKSR,
    "KNFST": KNFST,
    "Linear": LinearOCKSR,
    "Nonlinear": NonlinearOCKSR,
    "Sparse": SparseOCKSR,
    "SVDD": SVDD,
    "SVM": MultiTaskOneClassSVM,
    "MORVR": MORVR,
    "OKL": OutputKernelOCKSR,
    "Combined": CombinedOneClass,
    "faults": partial(AutoOneClass, "faults"),
    "strangers": partial(AutoOneClass, "strangers"),
    "any": partial(AutoOneClass, "any"),
    "table": partial(Table, "faults"),
    "table any": partial(Table, "any"),
}
FAST = ("Ind", "IndA", "Joint", "KNFST")
SLOW = ("Nonlinear", "SVM", "SVDD", "Combined", "faults", "any", "table")


class Draw(NamedTuple):
    """Training rows, fresh normal rows and rows with a fault, by task."""

    X: Rows
    task: Tasks
    fresh: Rows
    fresh_task: Tasks
    faults: Rows
    fault_task: Tasks


class Fleet(NamedTuple):
    """What tasks of one draw are like."""

    centre: Rows
    spread: Rows
    chance: Rows


#: Rows (n, d) of a law, of tasks given by number (n,).
Law = Callable[[np.random.Generator, Fleet, Tasks], Rows]


def gaussian(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Rows about the centre of their task."""
    return fleet.centre[task] + rng.normal(size=(len(task), fleet.centre.shape[1]))


def student(
    freedom: float, rng: np.random.Generator, fleet: Fleet, task: Tasks
) -> Rows:
    """Columns with Student's law."""
    shape = (len(task), fleet.centre.shape[1])
    return fleet.centre[task] + rng.standard_t(freedom, size=shape)


def exponential(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Columns that are skewed."""
    return fleet.centre[task] + rng.exponential(size=(len(task), fleet.centre.shape[1]))


def heavy_in_five(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """One task in five has heavy tails."""
    X = gaussian(rng, fleet, task)
    heavy = task % 5 == 0
    X[heavy] = student(1.5, rng, fleet, task[heavy])
    return X


def unlike(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Gaussian rows of tasks whose spreads differ, log-normal."""
    noise = rng.normal(size=(len(task), fleet.centre.shape[1]))
    return fleet.centre[task] + fleet.spread[task, None] * noise


def one_wider(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Every second task has three times the spread."""
    noise = rng.normal(size=(len(task), fleet.centre.shape[1]))
    return fleet.centre[task] + np.where(task % 2 == 1, 3.0, 1.0)[:, None] * noise


def yes_no(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Columns of zeros and ones."""
    return (rng.random((len(task), fleet.chance.shape[1])) < fleet.chance[task]) * 1.0


def categories(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Each of the columns has four levels, as one-hot columns."""
    level = rng.geometric(0.3 + fleet.chance[task]) - 1
    return np.eye(4)[np.minimum(level, 3)].reshape(len(task), -1)


def sparse_columns(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Columns that are 0 in four rows of five."""
    X = gaussian(rng, fleet, task)
    return np.where(rng.random(X.shape) < 0.2, X, 0.0)


def bimodal(rng: np.random.Generator, fleet: Fleet, task: Tasks) -> Rows:
    """Every task has two states."""
    is_second = rng.random(len(task)) < 0.3
    return gaussian(rng, fleet, task) + 4.0 * np.where(is_second, 1.0, 0.0)[:, None]


class Cell(NamedTuple):
    """What is simulated."""

    law: Law
    sizes: tuple[int, ...]
    columns: int = 6
    methods: tuple[str, ...] = FAST

    def drawn(self, seed: int, draw: int) -> Draw:
        """Training rows, fresh rows and 4-sd spikes in one column."""
        rng = np.random.default_rng([seed, draw])
        n_tasks = len(self.sizes)
        shape = (n_tasks, self.columns)
        fleet = Fleet(
            2.0 * rng.normal(size=shape),
            np.exp(rng.normal(size=n_tasks)),
            rng.uniform(0.02, 0.3, shape),
        )
        task = np.repeat(np.arange(n_tasks), self.sizes)
        fresh_task = np.repeat(np.arange(n_tasks), FRESH_ROWS)
        X = self.law(rng, fleet, task)
        fresh = self.law(rng, fleet, fresh_task)
        faults = self.law(rng, fleet, fresh_task)
        size = fleet.spread[fresh_task] if self.law is unlike else 1.0
        sign = rng.choice([-4.0, 4.0], len(faults))
        column = rng.integers(faults.shape[1], size=len(faults))
        faults[np.arange(len(faults)), column] += size * sign
        return Draw(X, task, fresh, fresh_task, faults, fresh_task)


class RealCell(NamedTuple):
    """Cuts of real rows, or of a made-up fleet."""

    cut: Callable[[np.random.Generator], Draw]
    methods: tuple[str, ...] = ("IndA", "Joint")

    def drawn(self, seed: int, draw: int) -> Draw:
        """Some rows to train on, the others to judge by."""
        return self.cut(np.random.default_rng([seed, draw]))


def cut_of_products(rng: np.random.Generator) -> Draw:
    """15 intact images of each of 15 products; defective ones are the faults."""
    data = load_products()
    normal = np.flatnonzero(~data.label)
    shuffled = normal[rng.permutation(len(normal))]
    order = shuffled[np.argsort(data.target[shuffled], kind="stable")]
    start = np.searchsorted(data.target[order], np.arange(15))
    place = np.arange(len(order)) - start[data.target[order]]
    return _cut(
        data.data, data.target, order[place < 15], order[place >= 15], data.label
    )


def cut_of_turbofans(rng: np.random.Generator) -> Draw:
    """15 of the first half of each engine's life; its last 10 cycles are the faults."""
    data = load_turbofan()
    late = np.zeros(len(data.target), dtype=bool)
    train = []
    fresh = []
    for code in np.unique(data.target)[:50]:
        rows = np.flatnonzero(data.target == code)
        early = rng.permutation(rows[: len(rows) // 2])
        late[rows[-10:]] = True
        train.append(early[:15])
        fresh.append(early[15:45])
    kept = late & np.isin(data.target, np.unique(data.target)[:50])
    return _cut(
        data.data, data.target, np.concatenate(train), np.concatenate(fresh), kept
    )


def _cut(X: Rows, task: Tasks, train: Tasks, fresh: Tasks, faults: Rows) -> Draw:
    task = np.unique(task, return_inverse=True)[1]
    bad = np.flatnonzero(faults)
    return Draw(X[train], task[train], X[fresh], task[fresh], X[bad], task[bad])


def cut_of_strangers(
    X: Rows, label: Tasks, n_tasks: int, rng: np.random.Generator
) -> Draw:
    """15 rows of each of some people or digits; rows of all others claim to be them."""
    train = []
    fresh = []
    for code in range(n_tasks):
        rows = rng.permutation(np.flatnonzero(label == code))
        train.append(rows[:15])
        fresh.append(rows[15 : 15 + FRESH_ROWS])
    rows_to_fit = np.concatenate(train)
    rows_to_judge = np.concatenate(fresh)
    strangers = rng.choice(np.flatnonzero(label >= n_tasks), 50 * n_tasks)
    claimed = np.repeat(np.arange(n_tasks), 50)
    return Draw(
        X[rows_to_fit],
        label[rows_to_fit],
        X[rows_to_judge],
        label[rows_to_judge],
        X[strangers],
        claimed,
    )


def cut_of_typists(rng: np.random.Generator) -> Draw:
    """30 people who type a password; the others are strangers."""
    data = load_keystrokes()
    return cut_of_strangers(data.data, data.target, 30, rng)


def cut_of_digits(rng: np.random.Generator) -> Draw:
    """Images of six digits; the other four are strangers."""
    digits = load_mnist()
    return cut_of_strangers(normalize(digits.data), digits.target, 6, rng)


def cut_of_fleet(n_samples: int, rng: np.random.Generator) -> Draw:
    """30 machines with faults of their own."""
    seed = int(rng.integers(2**31))
    made = make_fleet(30, n_samples, n_test=400, fault="own", random_state=seed)
    task = np.unique(made.task, return_inverse=True)[1]
    test_task = np.unique(made.test_task, return_inverse=True)[1]
    bad = made.test_fault
    return Draw(
        made.data,
        task,
        made.test_data[~bad],
        test_task[~bad],
        made.test_data[bad],
        test_task[bad],
    )


MIXED = (2, 3, 3, 5, 8, 12, 20, 50, 300)
ALL = (*FAST, *SLOW)
OF_STRANGERS = ("Joint", "KNFST", "Nonlinear", "strangers", "any")
CELLS: dict[str, Cell | RealCell] = {
    "gaussian 2": Cell(gaussian, (2,) * 20),
    "gaussian 3": Cell(gaussian, (3,) * 20),
    "gaussian 5": Cell(gaussian, (5,) * 20),
    "gaussian 8": Cell(gaussian, (8,) * 20, methods=ALL),
    "gaussian 12": Cell(gaussian, (12,) * 20),
    "gaussian 20": Cell(gaussian, (20,) * 20, methods=ALL),
    "gaussian 30": Cell(gaussian, (30,) * 20),
    "gaussian 50": Cell(gaussian, (50,) * 20),
    "gaussian 300": Cell(gaussian, (300,) * 5),
    "gaussian 8 x 10": Cell(gaussian, (8,) * 10),
    "gaussian 30 x 1": Cell(gaussian, (30,)),
    "one row": Cell(gaussian, (20,) * 5 + (1,)),
    "spreads 8": Cell(unlike, (8,) * 20, methods=ALL),
    "spreads 12": Cell(unlike, (12,) * 20),
    "spreads 20": Cell(unlike, (20,) * 20),
    "spreads 10 x 2": Cell(unlike, (10,) * 2),
    "one wider 10 x 2": Cell(one_wider, (10,) * 2, 30),
    "t2 8": Cell(partial(student, 2.0), (8,) * 20),
    "t2 20": Cell(partial(student, 2.0), (20,) * 20),
    "t2 200": Cell(partial(student, 2.0), (200,) * 5, methods=("Ind", "Joint")),
    "cauchy 8": Cell(partial(student, 1.0), (8,) * 20),
    "cauchy 20": Cell(partial(student, 1.0), (20,) * 20),
    "exponential 8": Cell(exponential, (8,) * 20, methods=ALL),
    "heavy in five 8": Cell(heavy_in_five, (8,) * 20, methods=ALL),
    "heavy in five 20": Cell(heavy_in_five, (20,) * 20),
    "1x300 + 20x3": Cell(gaussian, (300,) + (3,) * 20, methods=ALL),
    "1x300 + 20x2": Cell(gaussian, (300,) + (2,) * 20),
    "3x200 + 12x6": Cell(gaussian, (200,) * 3 + (6,) * 12),
    "mixed": Cell(gaussian, MIXED),
    "mixed spreads": Cell(unlike, MIXED * 3),
    "yes/no 1 x 50": Cell(yes_no, (50, 50), 1),
    "yes/no 6 x 12": Cell(yes_no, (12,) * 10, methods=ALL),
    "yes/no 6 x 50": Cell(yes_no, (50,) * 5),
    "categories 12": Cell(categories, (12,) * 20, 3),
    "sparse 12": Cell(sparse_columns, (12,) * 20, 20),
    "bimodal 12": Cell(bimodal, (12,) * 20),
    "wide 8": Cell(gaussian, (8,) * 20, 60),
    "products": RealCell(cut_of_products),
    "turbofans": RealCell(cut_of_turbofans),
    "typists": RealCell(cut_of_typists, OF_STRANGERS),
    "digits": RealCell(cut_of_digits, OF_STRANGERS),
    "fleet 8": RealCell(partial(cut_of_fleet, 8), ("IndA", "Joint", "faults", "any")),
    "fleet 15": RealCell(partial(cut_of_fleet, 15)),
    "fleet 25": RealCell(partial(cut_of_fleet, 25)),
}
#: Laws of the grid, and their columns.
LAWS: dict[str, tuple[Law, int]] = {
    "gaussian": (gaussian, 6),
    "t2": (partial(student, 2.0), 6),
    "cauchy": (partial(student, 1.0), 6),
    "yes/no": (yes_no, 6),
    "categories": (categories, 3),
    "sparse": (sparse_columns, 20),
    "bimodal": (bimodal, 6),
    "spreads": (unlike, 6),
    "wide": (gaussian, 60),
}
#: Sizes of the grid; "wide" has more columns than that.
SIZES: dict[str, tuple[int, ...]] = {
    **{str(n): (n,) * 20 for n in (1, 2, 3, 5, 8, 12, 20, 50)},
    "300": (300,) * 5,
    "mixed": MIXED,
}
CLOSED_FORM = ("Ind", "Joint")


def grid_cell(law_name: str, size_name: str) -> Cell:
    """A cell of the grid."""
    law, columns = LAWS[law_name]
    sizes = SIZES[size_name]
    if law_name == "wide" and max(sizes) >= columns:
        columns = max(sizes) + 100
    return Cell(law, sizes, columns, CLOSED_FORM)


GRID = {
    f"{law_name} {size_name}": grid_cell(law_name, size_name)
    for law_name in LAWS
    for size_name in SIZES
}
#: Cells for methods that are fitted in folds, or choose; those that take long come
#: last.
SAMPLE = (
    ("cauchy 8", "IndA"),
    ("spreads 5", "IndA"),
    ("bimodal 20", "IndA"),
    ("wide 12", "IndA"),
    ("mixed", "IndA"),
    ("gaussian 3", "KNFST"),
    ("cauchy 20", "KNFST"),
    ("spreads 12", "KNFST"),
    ("yes/no 12", "Linear"),
    ("bimodal 8", "OKL"),
    ("sparse 12", "Sparse"),
    ("t2 20", "SVDD"),
    ("cauchy 8", "SVDD"),
    ("exponential 8", "SVDD"),
    ("yes/no 12", "SVM"),
    ("t2 12", "MORVR"),
    ("cauchy 8", "MORVR"),
    ("wide 8", "Nonlinear"),
    ("spreads 8", "Combined"),
    ("cauchy 12", "Combined"),
    ("sparse 20", "Combined"),
    ("categories 12", "faults"),
    ("t2 8", "faults"),
    ("spreads 8", "table"),
    ("cauchy 8", "table"),
    ("spreads 12", "any"),
    ("gaussian 12", "table any"),
)
QUICK = ("gaussian 8", "spreads 8", "1x300 + 20x3", "yes/no 1 x 50", "one row")


class Result(NamedTuple):
    """What one draw showed.

    Attributes
    ----------
    false_alarms : ndarray of shape (rates, T)
    promised, caught : ndarray of shape (rates,)
    fresh, faults : list of ndarray
        Scores of normal and faulty rows, by task.
    """

    false_alarms: Rows
    promised: Rows
    caught: Rows
    fresh: list[Rows]
    faults: list[Rows]


def result_of(
    cell: Cell | RealCell, method: str, place: tuple[int, int], rates: tuple[float, ...]
) -> Result:
    """Fit to one draw, its seed and number given, and score fresh and faulty rows."""
    drawn = cell.drawn(*place)
    n_tasks = int(drawn.task.max()) + 1
    model = METHODS[method]().fit(drawn.X, task=drawn.task)
    fresh = model.score_samples(drawn.fresh, task=drawn.fresh_task)
    faults = model.score_samples(drawn.faults, task=drawn.fault_task)
    rows = np.bincount(drawn.fresh_task, minlength=n_tasks)
    false_alarms = np.empty((len(rates), n_tasks))
    promised = np.empty(len(rates))
    caught = np.empty(len(rates))
    for number, rate in enumerate(rates):
        offset = model.recalibrate(rate).offset_
        promised[number] = np.mean(model.alarm_rate_)
        alarm = fresh < offset[drawn.fresh_task]
        false_alarms[number] = np.bincount(drawn.fresh_task, alarm, n_tasks) / rows
        caught[number] = np.mean(faults < offset[drawn.fault_task])
    tasks = range(n_tasks)
    return Result(
        false_alarms,
        promised,
        caught,
        [fresh[drawn.fresh_task == t] for t in tasks],
        [faults[drawn.fault_task == t] for t in tasks],
    )


def oracle(results: list[Result], rate: float) -> float:
    """What is caught by a threshold for each task whose rate is known."""
    caught = []
    for result in results:
        below = [
            faults < np.quantile(fresh, rate)
            for fresh, faults in zip(result.fresh, result.faults, strict=True)
        ]
        caught.append(np.mean(np.concatenate(below)))
    return float(np.mean(caught))


class Figures(NamedTuple):
    """What all draws of a cell showed at one rate, in %.

    Attributes
    ----------
    promised, mean, error : float
        Rate promised, mean false alarms over tasks and draws, its standard error.
    worst : float
        Of the worst task.
    caught : float
        Of what an oracle catches.
    """

    promised: float
    mean: float
    error: float
    worst: float
    caught: float

    def above(self, errors: float) -> bool:
        """Whether the rate lies so many standard errors above the promise."""
        return self.mean > self.promised + errors * self.error

    def text(self) -> str:
        """One rate of a printed line."""
        high = "!" if self.above(2.0) else " "
        return (
            f"{self.mean:5.2f} ±{self.error:4.2f}{high}({self.caught:3.0f})"
            f" w{self.worst:3.0f}"
        )


class Depths(NamedTuple):
    """Stretched depths of the tasks of a draw, for ceilings.

    Attributes
    ----------
    fresh, faults : ndarray of shape (T, m)
        Of new normal rows, and of rows with a fault.
    left_out : ndarray of shape (T, n)
        Of training rows, ascending.
    unit : ndarray of shape (T,)
        Of the square of the mean root depth of training rows.
    """

    fresh: Rows
    faults: Rows
    left_out: Rows
    unit: Rows


def depths_of(
    cell: Cell, method: str, result: Result, place: tuple[int, int]
) -> Depths:
    """Depths of a draw whose tasks have equally many rows."""
    drawn = cell.drawn(*place)
    calibration = METHODS[method]().fit(drawn.X, task=drawn.task).calibration_
    size = calibration.sizes[:, None]
    left_out = -calibration.scores.reshape(len(size), -1) / size
    typical = np.mean(np.sqrt(left_out), axis=1) ** 2

    def deep(depth: Rows) -> Rows:
        return -stretched(-depth, calibration.bend)

    return Depths(
        deep(-np.array(result.fresh) / size),
        deep(-np.array(result.faults) / size),
        np.sort(deep(left_out)),
        deep(typical),
    )


def best_by_hindsight(
    drawn: list[Depths], rate: float, limit: float
) -> tuple[float, float]:
    """Share of faults caught with the best power of the unit, and that power."""
    rows = drawn[0].left_out.shape[1]
    rank = min(max(int(limit * (rows + 1) + 1e-9), 1), rows)
    best = (-np.inf, np.nan)
    for power in np.arange(-1.0, 1.51, 0.125):
        fresh, faults = (
            np.concatenate(
                [
                    np.where(
                        depth > draw.left_out[:, -rank, None],
                        depth / draw.unit[:, None] ** power,
                        -np.inf,
                    )
                    for draw, depth in pairs
                ]
            )
            for pairs in (
                [(draw, draw.fresh) for draw in drawn],
                [(draw, draw.faults) for draw in drawn],
            )
        )
        quantile = np.sort(fresh, axis=None)[::-1][int(rate * fresh.size)]
        best = max(best, (float(np.mean(faults > quantile)), float(power)))
    return best


def print_ceilings(
    name: str,
    cell: Cell,
    method: str,
    places: list[tuple[int, int]],
    rates: tuple[float, ...],
) -> None:
    """Print lines of ceilings, one for each rate."""
    results = [result_of(cell, method, place, rates) for place in places]
    drawn = [
        depths_of(cell, method, result, place)
        for place, result in zip(places, results, strict=True)
    ]
    for figures, rate in zip(figures_of(results), rates, strict=True):
        raised = figures.mean / 100.0
        words = [
            f"{name:16s} {method:6s} {100 * rate:2g} % asked: "
            f"{figures.mean:5.2f} ±{figures.error:.2f} raised, {figures.caught:3.0f} "
            "caught"
        ]
        for at, most in ((raised, 3.0 * rate), (rate, 3.0 * rate), (rate, 1.0)):
            caught, power = best_by_hindsight(drawn, at, most)
            share = 100.0 * caught / max(oracle(results, at), 1e-9)
            words.append(
                f"{share:4.0f} at {100 * at:.1f} %"
                f"{' unlimited' if most == 1.0 else ''} (power {power:g})"
            )
        print("; ".join(words), flush=True)


def figures_of(results: list[Result]) -> list[Figures]:
    """The figures of a cell and a method, for each rate."""
    raised = 100.0 * np.array([result.false_alarms for result in results])
    of_draws = raised.mean(axis=2)
    figures = []
    for place in range(raised.shape[1]):
        promised = 100.0 * float(
            np.mean([result.promised[place] for result in results])
        )
        mean = float(of_draws[:, place].mean())
        error = float(of_draws[:, place].std(ddof=1) / np.sqrt(len(results)))
        worst = float(raised[:, place].mean(axis=0).max())
        caught = np.mean([result.caught[place] for result in results])
        share = float(100.0 * caught / max(oracle(results, mean / 100.0), 1e-9))
        figures.append(Figures(promised, mean, error, worst, share))
    return figures


def verdict(figures: list[Figures]) -> str:
    """How many rates lie above what was promised."""
    two = sum(figure.above(2.0) for figure in figures)
    four = sum(figure.above(4.0) for figure in figures)
    return (
        f"{len(figures)} rates: {two} lie two standard errors above the promise "
        f"({100.0 * two / len(figures):.1f} %), {four} four."
    )


def runs_of(options: argparse.Namespace) -> list[tuple[str, Cell | RealCell, str]]:
    """Name, cell and method of everything that runs."""
    cells = {**GRID, **CELLS}
    if options.sample:
        return [(name, cells[name], method) for name, method in SAMPLE]
    named = CELLS
    if options.grid:
        named = GRID
    names = options.cells or (QUICK if options.quick else named)
    runs = []
    for name in names:
        cell = cells[name] if name not in named else named[name]
        methods = options.methods or (FAST if options.quick else cell.methods)
        runs += [(name, cell, method) for method in methods]
    return runs


def main() -> None:
    """Print a line for each cell and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="cell")
    parser.add_argument("--methods", nargs="*", choices=list(METHODS))
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rates", nargs="*", type=float, default=RATES)
    parser.add_argument("--quick", action="store_true", help="few cells, 5 draws")
    parser.add_argument("--grid", action="store_true", help="every law and size")
    parser.add_argument("--sample", action="store_true", help="the other methods")
    parser.add_argument("--ceiling", action="store_true", help="what no rule exceeds")
    parser.add_argument("--out", type=Path, help="CSV file for the figures")
    options = parser.parse_args()
    unknown = set(options.cells) - CELLS.keys() - GRID.keys()
    if unknown:
        parser.error(f"no cell {min(unknown)!r}; there are {', '.join(CELLS | GRID)}")
    warnings.simplefilter("ignore")
    draws = 5 if options.quick else options.draws
    rates = tuple(options.rates)
    places = [(options.seed, draw) for draw in range(draws)]
    if options.ceiling:
        for name, cell, method in runs_of(options):
            if isinstance(cell, Cell) and len(set(cell.sizes)) == 1:
                print_ceilings(name, cell, method, places, rates)
        return
    print(f"{'asked':26s}", " | ".join(f"{100 * rate:<21g}" for rate in rates))
    every: list[Figures] = []
    lines = [["rows", "method", *(f"{100 * rate:g} %" for rate in rates)]]
    for name, cell, method in runs_of(options):
        number = draws
        if isinstance(cell, Cell) and sum(cell.sizes) > CHEAP_ROWS:
            number = max(draws // 4, 2)
        results = [result_of(cell, method, place, rates) for place in places[:number]]
        figures = figures_of(results)
        every += figures
        marks = ["!" if one.above(2.0) else "" for one in figures]
        texts = [
            f"{one.mean:.2f} ± {one.error:.2f}{mark}"
            for one, mark in zip(figures, marks, strict=True)
        ]
        lines.append([name, method, *texts])
        line = " | ".join(one.text() for one in figures)
        print(f"{name:16s} {method:9s}", line, flush=True)
        if options.out is not None:
            with options.out.open("w", newline="") as file:
                csv.writer(file).writerows(lines)
    print(verdict(every))


if __name__ == "__main__":
    main()
