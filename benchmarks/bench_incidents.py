"""How often something stands out in tables of normal rows, and in tables with a fault.

    python benchmarks/bench_incidents.py [--fits 10] [--tables 20] [--seed 0] [--quick]
        [--in-time]

Promise: `stands_out` (an incident, or more alarms than chance explains) is true in at
most 1 % of tables of normal rows, whatever the sizes and tails of the tasks. Tables of
one fit share its luck, so every line draws several fits. The faults are a column
shifted by 4 standard deviations of its task for 10 rows, a single row with one column
shifted by 10, and a single row with all columns shifted by 10.

``--in-time``: machines with rows an hour apart, 100 each in a table, that resemble the
row before or do not, with their past and without: 6 machines of 300 rows to learn from,
and 24 of 100 or 40. Faults are a column shifted by 4 for 10, 20 and 40 rows. Promise:
at most 0.05 incidents that stand out a normal table.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.signal import lfilter

from manyone import IndependentOCKSR, TableModel
from manyone.alerts.incidents import Findings
from manyone.tables.incidents import findings_of, scored_rows

PROMISE = 0.01
COLUMNS = 4
# Training rows and new rows of each task.
SIZES = {
    "15 x 30": ([30] * 15, [13] * 15),
    "15 x 12": ([12] * 15, [13] * 15),
    "1 x 300 + 20 x 3": ([300] + [3] * 20, [20] + [10] * 20),
    "5 to 80": ([5, 8, 12, 20, 30, 40, 60, 80] * 2, [13] * 16),
    "5 x 40": ([40] * 5, [40] * 5),
}


def normal(rng: np.random.Generator, task: np.ndarray) -> np.ndarray:
    return rng.normal(size=(len(task), COLUMNS))


def heavy(rng: np.random.Generator, task: np.ndarray) -> np.ndarray:
    """Multivariate t with two degrees of freedom."""
    length = np.sqrt(rng.chisquare(2, len(task)) / 2)
    return normal(rng, task) / length[:, None]


def one_heavy_in_five(rng: np.random.Generator, task: np.ndarray) -> np.ndarray:
    is_heavy = task[:, None] % 5 == 0
    return np.where(is_heavy, heavy(rng, task), normal(rng, task))


def yes_no(rng: np.random.Generator, task: np.ndarray) -> np.ndarray:
    rows = normal(rng, task)
    rows[:, 0] = rows[:, 0] > 0
    return rows


KINDS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "normal": normal,
    "t2": heavy,
    "one t2 in five": one_heavy_in_five,
    "yes/no": yes_no,
}


@dataclass(frozen=True, eq=False)
class Fleet:
    """Tasks with places and scales of their own."""

    kind: str
    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator, kind: str, tasks: int) -> Fleet:
        """So many tasks."""
        mean = 3.0 * rng.normal(size=(tasks, COLUMNS))
        scale = np.exp(0.3 * rng.normal(size=(tasks, COLUMNS)))
        if kind == "yes/no":
            mean[:, 0] = 0.0
            scale[:, 0] = 1.0
        return cls(kind, mean, scale)

    def rows(
        self, rng: np.random.Generator, sizes: list[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tasks and values of as many rows of each task."""
        task = np.repeat(np.arange(len(sizes)), sizes)
        standard = KINDS[self.kind](rng, task)
        return task, self.mean[task] + self.scale[task] * standard


def frame(task: np.ndarray, values: np.ndarray) -> pl.DataFrame:
    columns = {f"c{number}": values[:, number] for number in range(COLUMNS)}
    return pl.DataFrame(columns | {"machine": [f"m{code:02d}" for code in task]})


def findings(model: TableModel, table: pl.DataFrame) -> Findings:
    rows, _ = model.read(table)
    return findings_of(model, [scored_rows(model, rows, model._answer(rows))])


def faulty_tables(
    fleet: Fleet, task: np.ndarray, values: np.ndarray, code: int
) -> list[pl.DataFrame]:
    """The three faults in a task."""
    rows = np.flatnonzero(task == code)[:10]
    shifted = values.copy()
    shifted[rows, 1] += 4.0 * fleet.scale[code, 1]
    one_column = values.copy()
    one_column[rows[0], 1] += 10.0 * fleet.scale[code, 1]
    all_columns = values.copy()
    all_columns[rows[0], 1:] += 10.0 * fleet.scale[code, 1:]
    return [frame(task, table) for table in (shifted, one_column, all_columns)]


def measure(kind: str, sizes: str, seeds: range, tables: int) -> np.ndarray:
    """Shares: stands out, incident, more than chance; the three faults found."""
    trained, new = SIZES[sizes]
    # The smallest task of 20 rows or more, or else the largest; no heavy one.
    tasks = [(size, code) for code, size in enumerate(trained) if code % 5]
    enough = [task for task in tasks if task[0] >= 20]
    code = min(enough)[1] if enough else max(tasks)[1]
    results = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        fleet = Fleet.draw(rng, kind, len(trained))
        model = TableModel("machine", method="default", random_state=0)
        model.fit(frame(*fleet.rows(rng, trained)))
        for _ in range(tables):
            task, values = fleet.rows(rng, new)
            calm = findings(model, frame(task, values))
            faults = [
                any(calm.tasks.names[i.task] == f"m{code:02d}" for i in f.outstanding)
                for f in (
                    findings(model, table)
                    for table in faulty_tables(fleet, task, values, code)
                )
            ]
            any_incident = len(calm.outstanding) > 0
            results.append(
                [calm.stands_out, any_incident, calm.more_than_chance, *faults]
            )
    return np.mean(results, axis=0)


def in_time(
    history: int | None,
    likeness: float,
    t3: bool,
    seeds: range,
    fleet: tuple[int, int] = (6, 300),
) -> np.ndarray:
    """Incidents that stand out a normal table, more than chance; three faults found.

    `fleet` is the number of machines, and their training rows.
    """
    tasks, trained = fleet
    end = trained + 600
    method = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
    results = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        shape = (tasks, end + 50, COLUMNS)
        noise = rng.standard_t(3, shape) if t3 else rng.normal(size=shape)
        scale = np.sqrt(1.0 - likeness**2)
        values = lfilter([scale], [1.0, -likeness], noise, axis=1)[:, 50:]

        def table(rows: slice, values: np.ndarray = values) -> pl.DataFrame:
            when = np.arange(end)[rows]
            chosen = values[:, rows].reshape(-1, COLUMNS)
            made = frame(np.repeat(np.arange(tasks), len(when)), chosen)
            start = np.datetime64("2026-01-01", "us")
            moments = start + np.tile(when, tasks).astype("timedelta64[h]")
            return made.with_columns(when=moments)

        model = TableModel("machine", time="when", history=history, method=method)
        model.fit(table(slice(0, trained)))
        for first in range(trained, end, 100):
            part = slice(first, first + 100)
            calm = findings(model, table(part))
            caught = []
            for length in (10, 20, 40):
                shifted = values.copy()
                shifted[1, first + 40 : first + 40 + length, 1] += 4.0
                outstanding = findings(model, table(part, shifted)).outstanding
                caught.append(any(incident.task == 1 for incident in outstanding))
            results.append([len(calm.outstanding), calm.more_than_chance, *caught])
    return np.mean(results, axis=0)


def show_in_time(seeds: range) -> None:
    """Print a line for each kind of rows in time."""
    print("incidents that stand out a normal table, more alarms than chance;")
    print("share of faults of 10, 20 and 40 rows that stand out")
    kinds = ((0.0, False), (0.6, False), (0.9, False), (0.6, True))
    lines = [((6, 300), past, *kind) for past in (None, 12) for kind in kinds]
    lines += [((24, 100), past, 0.6, False) for past in (None, 12)]
    lines += [((24, 40), None, 0.6, False)]
    for fleet, history, likeness, t3 in lines:
        shares = in_time(history, likeness, t3, seeds, fleet)
        kind = "t3" if t3 else "normal"
        shown = " ".join(f"{share:6.3f}" for share in shares)
        size = f"{fleet[0]} x {fleet[1]}"
        print(
            f"{size} history={history} {kind} correlation {likeness}: {shown}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the first fit")
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="3 fits, 10 tables each")
    parser.add_argument("--kind", choices=list(KINDS), help="one kind of rows only")
    parser.add_argument("--sizes", choices=list(SIZES), help="one line only")
    parser.add_argument("--in-time", action="store_true", help="rows in time only")
    arguments = parser.parse_args()
    fits = 3 if arguments.quick else arguments.fits
    tables = 10 if arguments.quick else arguments.tables
    seeds = range(arguments.seed, arguments.seed + fits)
    warnings.simplefilter("ignore")
    if arguments.in_time:
        show_in_time(seeds)
        return
    print(f"{fits} fits, {tables} tables each; percent of tables")
    print(f"{'rows':15}{'training rows':18}", end="")
    print(f"{'stands out':>11}{'incident':>10}{'alarms':>8}   found: ", end="")
    print(f"{'10 x 4 sd':>10}{'10 sd':>8}{'10 sd, all':>12}")
    broken = []
    for kind in [arguments.kind] if arguments.kind else list(KINDS):
        for sizes in [arguments.sizes] if arguments.sizes else list(SIZES):
            shares = 100.0 * measure(kind, sizes, seeds, tables)
            print(f"{kind:15}{sizes:18}{shares[0]:11.1f}{shares[1]:10.1f}", end="")
            print(f"{shares[2]:8.1f}          {shares[3]:10.0f}", end="")
            print(f"{shares[4]:8.0f}{shares[5]:12.0f}", flush=True)
            # Two standard errors of a share of the promised size.
            error = np.sqrt(PROMISE * (1.0 - PROMISE) / (fits * tables))
            if shares[0] > 100.0 * (PROMISE + 2.0 * error):
                broken.append(f"{kind}, {sizes}")
    if broken:
        sys.exit(f"promise broken: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
