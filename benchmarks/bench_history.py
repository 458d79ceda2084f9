"""What columns of the past of rows gain in AUC, and what they cost in time.

Run ``python benchmarks/bench_history.py [PART ...]``; the parts are

- ``accuracy``: mean AUC over tasks of servers, valves and spacecraft in time. A model
  of 100 evenly spaced training rows a task, by values alone, by values and their past,
  and by the past alone; nearest neighbours and Mahalanobis distances in each task's own
  scales get the same columns;
- ``choice``: AUC of faults made in later training rows, by the part of the past that
  is used (`TableModel.choice_`), on real and simulated fleets;
- ``views``: the same faults, by one model of values and past, and by the sum of two
  views. Tried and rejected: the mean over fleets is the same;
- ``rows``: the same for servers, by the number of training rows of a task;
- ``seasons``: simulated fleets with a season and without: AUC of planted faults and
  false alarms at 10 % asked, with seasons (``history="auto"``) and without
  (``history=12``);
- ``aftermath``: the same fleets: further alarms that normal rows raise after a fault,
  and those of a level that has changed for good;
- ``lasting``: running means that a row moves by a bounded step only, so that a fault
  that lasts is not learned. Tried and rejected: it gains half a point of AUC at most;
- ``speed``: scoring tables with and without the past of their rows, as a ratio of
  processor times; the additional time of a row in a monitor.

Real data are looked for as :mod:`manyone.datasets` does (``$MANYONE_DATA``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import bench_forward
import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score
from timing import in_turns

from manyone import IndependentOCKSR, Monitor, TableModel, TaskHistory
from manyone._types import Array, Codes, Mask
from manyone.datasets import load_servers, load_telemetry, load_valves
from manyone.selection.criteria import own_aucs
from manyone.tables import in_time, sampling
from manyone.tables.past import SPAN, Compared

PARTS = (
    "accuracy",
    "choice",
    "views",
    "rows",
    "seasons",
    "aftermath",
    "lasting",
    "speed",
)
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
    for t, task_rows in zip(tasks, trained, strict=True):
        tested = np.flatnonzero((data.task == t) & ~data.is_training)
        tested = spaced(tested, TESTED)
        label = data.label[tested]
        if label.all() or not label.any():
            continue
        scale = np.maximum(Z[task_rows].std(axis=0), 1e-3)
        near = cdist(Z[tested] / scale, Z[task_rows] / scale, "cityblock").min(axis=1)
        far = LedoitWolf().fit(Z[task_rows] / scale).mahalanobis(Z[tested] / scale)
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


def rows_learned() -> None:
    """Print the AUC at made faults by rows a task, mean over kinds and tasks."""
    table = next(bench_forward.server_periods())[0].drop(columns="bad")
    roles = {"task": ["task"], "time": ["when"], "outlier": [], "groups": []}
    sampling.MOST_ROWS_WITH_PAST = 2_000
    training = sampling.kept_rows(table, roles, [], Compared(SPAN))
    for number in (100, 250, 500, 1_000, 1_500):
        in_time._EARLIER_ROWS = number
        begin = time.process_time()
        score = in_time._judged(training)[0].score
        seconds = time.process_time() - begin
        print(f"{number:5,} rows: {100 * score:.1f}, {seconds:.0f} s", flush=True)


def training_tables() -> dict[str, pd.DataFrame]:
    """Training rows of two real fleets and of five simulated ones."""
    tables = {
        "servers": next(bench_forward.server_periods())[0].drop(columns="bad"),
        "valves": next(bench_forward.valve_periods())[0].drop(columns="bad"),
    }
    for kind in bench_forward.KINDS:
        tables[kind] = bench_forward.fleet(kind, 12, 240, 0)
    return tables


def views() -> None:
    """Print the AUC at made faults of one model, and of two views, values and past."""
    one_model = in_time._areas

    def two_views(columns, learned, codes, later, faulty):
        of_views = []
        for parts in (("level",), ("difference", "swing")):
            of_view_columns = {part: columns[part] for part in parts}
            of_views.append(
                depths_in_units(of_view_columns, learned, codes, later.codes)
            )

        def depth(rows):
            return sum(of_view(rows) for of_view in of_views)

        usual = depth(later.rows)
        n_tasks = int(later.codes.max()) + 1
        is_faulty = np.repeat([False, True], len(usual))
        twice = np.tile(later.codes, 2)
        scores = [-np.append(usual, depth(rows)) for rows in faulty]
        return np.stack([own_aucs(each, twice, is_faulty, n_tasks) for each in scores])

    def both(columns, *rest):
        areas = one_model(columns, *rest)
        if len(columns) == 3:
            print(
                f"  one model {100 * np.nanmean(areas):.1f}, two views "
                f"{100 * np.nanmean(two_views(columns, *rest)):.1f}",
                flush=True,
            )
        return areas

    roles = {"task": ["task"], "time": ["when"], "outlier": [], "groups": []}
    in_time._areas = both
    for name, table in training_tables().items():
        print(name)
        training = sampling.kept_rows(table, roles, [], Compared(SPAN))
        in_time._judged(training, in_time.drifting_columns(training))
    in_time._areas = one_model


def depths_in_units(columns, learned, codes, later_codes):
    """A view: depths of rows in units of the mean left-out depth of their task."""

    def joined(rows):
        return np.hstack([getattr(rows, part)[:, k] for part, k in columns.items()])

    X = joined(learned)
    mean = X.mean(axis=0)
    scale = X.std(axis=0)
    moves = scale > 0.0
    model = clone(MODEL).fit((X - mean)[:, moves] / scale[moves], task=codes)
    left_out = model.calibration_
    unit = np.bincount(left_out.codes, -left_out.scores) / np.bincount(left_out.codes)
    place = np.searchsorted(model.tasks_, later_codes)

    def depth(rows):
        standard = (joined(rows) - mean)[:, moves] / scale[moves]
        return -model.score_samples(standard, task=later_codes) / unit[place]

    return depth


def choice() -> None:
    """Print the AUC of each candidate, and what is chosen."""
    for name, train in training_tables().items():
        tried = bench_forward.fitted(train).choice_
        lines = np.flatnonzero(tried["view"] == "rows in time")
        areas = ", ".join(
            f"{tried['method'][line]} {100 * tried['score'][line]:.1f}"
            for line in lines.tolist()
        )
        chosen = tried["method"][lines[tried["chosen"][lines]]].tolist()
        print(f"{name:10} {areas}; chosen: {', '.join(chosen)}", flush=True)


# Weeks to learn from, and to plant faults in.
WEEKS = 8
LATER_WEEKS = 3


def seasonal_fleet(kind: str, seed: int, tasks: int = 6) -> pd.DataFrame:
    """Rows of machines every two hours, or once a day for the season of weekdays."""
    rng = np.random.default_rng(seed)
    weeks = WEEKS + LATER_WEEKS
    step = 24 if kind == "weekday" else 2
    # Days are few: three times as many weeks.
    when = np.arange(0, weeks * 168 * (3 if step == 24 else 1), step)
    names = ["a", "b", "c"]
    noise = rng.normal(size=(tasks, len(when) + 50, len(names)))
    x = lfilter([0.8], [1.0, -0.6], noise, axis=1)[:, 50:]
    hour = when % 24
    day = when // 24 % 7
    for task in range(tasks):
        for column in range(len(names)):
            by_hour = 4.0 * np.sin(2 * np.pi * (hour / 24 + rng.random()))
            by_day = rng.normal(scale=2.0, size=7)[day]
            shape = {
                "none": np.zeros(len(when)),
                "hour of day": by_hour,
                "weekday": 2.0 * by_day,
                "hour of week": np.where(day < 5, by_hour, -4.0),
            }[kind]
            x[task, :, column] += shape
    table = pd.DataFrame(x.reshape(-1, len(names)), columns=names)
    table["task"] = np.repeat(np.arange(tasks), len(when))
    hours = np.tile(when, tasks).astype("timedelta64[h]")
    table["when"] = np.datetime64("2026-01-05", "s") + hours
    return table


def planted(table: pd.DataFrame, begin: np.datetime64, seed: int) -> pd.DataFrame:
    """Later rows with faults; the column `fault` says of which kind.

    A value that is usual at another time, a spike, and a shift that lasts.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for _, own in table.groupby("task"):
        own = own.reset_index(drop=True)
        own["fault"] = ""
        values = own[["a", "b", "c"]].to_numpy(copy=True)
        first = int(np.searchsorted(own["when"].to_numpy(), begin))
        place = first + 5
        for kind in np.tile(["other time", "spike", "shift"], len(own)):
            length = {"other time": 2, "spike": 1, "shift": 20}[kind]
            if place + length > len(own):
                break
            rows = slice(place, place + length)
            column = int(rng.integers(3))
            size = 3.0 * rng.choice([-1.0, 1.0])
            if kind == "other time":
                back = int(rng.integers(3, 9))
                values[rows, column] = values[
                    place - back : place - back + length, column
                ]
            else:
                values[rows, column] += size
            own.loc[place : place + length - 1, "fault"] = kind
            place += length + int(rng.integers(6, 12))
        own[["a", "b", "c"]] = values
        parts.append(own[first:])
    return pd.concat(parts, ignore_index=True)


def seasons(draws: int = 2) -> None:
    """Print AUCs and false alarms with seasons and without."""
    for kind in ("none", "hour of day", "hour of week", "weekday"):
        figures: dict[str, list[list[float]]] = {"auto": [], "12": []}
        chosen = []
        for seed in range(draws):
            table = seasonal_fleet(kind, seed)
            first = table["when"].min()
            length = table["when"].max() - first
            begin = (first + length * WEEKS / (WEEKS + LATER_WEEKS)).to_datetime64()
            later = table[table["when"] >= begin].reset_index(drop=True)
            spoiled = planted(table, begin, seed)
            for history in figures:
                parameter = "auto" if history == "auto" else int(history)
                train = table[table["when"] < begin]
                model = bench_forward.fitted(train, history=parameter)
                figures[history].append(_by_fault(model, later, spoiled))
                if history == "auto":
                    past = model.training_.past
                    chosen.append((past is not None and past.season) or "none")
        for history, lines in figures.items():
            means = ", ".join(f"{value:.1f}" for value in np.mean(lines, axis=0))
            tried = f" (chosen: {', '.join(chosen)})" if history == "auto" else ""
            print(
                f"{kind:12} history={history:4} AUC other time, spike, shift; false "
                f"alarms: {means} %{tried}",
                flush=True,
            )


def _by_fault(
    model: TableModel, later: pd.DataFrame, spoiled: pd.DataFrame
) -> list[float]:
    """AUC of each kind of fault, a mean over tasks, and false alarms, in %."""
    usual = model.score(later)
    scores = model.score(spoiled.drop(columns="fault"))["score"].to_numpy()
    areas_by_kind = []
    for kind in ("other time", "spike", "shift"):
        areas = []
        for task in np.unique(later["task"]):
            is_fault = (spoiled["task"] == task) & (spoiled["fault"] == kind)
            faulty = scores[is_fault.to_numpy()]
            normal = usual["score"][later["task"] == task].to_numpy()
            label = np.repeat([True, False], [len(faulty), len(normal)])
            areas.append(roc_auc_score(label, -np.append(faulty, normal)))
        areas_by_kind.append(100 * np.mean(areas))
    return [*areas_by_kind, 100 * usual["alarm"].mean()]


def aftermath(draws: int = 2) -> None:
    """Print how many more of the normal rows after a fault raise an alarm.

    Every task has one fault in one column. Beside its rows the table stays the same, so
    alarms that the table without faults raises, too, are not counted.
    """
    for kind, history in (("none", 12), ("hour of day", "auto")):
        further: dict[tuple[float, int | str, str], list[list[int]]] = {}
        for seed in range(draws):
            table = seasonal_fleet(kind, seed)
            first = table["when"].min()
            length = table["when"].max() - first
            begin = first + length * WEEKS / (WEEKS + LATER_WEEKS)
            later = table[table["when"] >= begin].reset_index(drop=True)
            model = bench_forward.fitted(table[table["when"] < begin], history=history)
            usual = np.array(model.score(later)["alarm"], dtype=bool)
            place = later.groupby("task").cumcount().to_numpy()
            for size in (5.0, 20.0):
                for rows in (1, 12, len(later)):
                    bad = (place >= 20) & (place < 20 + rows)
                    spoiled = later.assign(a=later["a"] + size * bad)
                    for direction in ({}, {"a": "up"}):
                        answer = model.score(spoiled, direction=direction or None)
                        alarm = np.array(answer["alarm"], dtype=bool)
                        # Of a level that has changed for good its own rows count.
                        after = place - 20 - (rows if rows < len(later) else 0)
                        cuts = ((0, 12), (12, 36), (36, 96))
                        counts = [
                            int((alarm & ~usual & (after >= a) & (after < b)).sum())
                            for a, b in cuts
                        ]
                        lasts = rows if rows < len(later) else "for good"
                        key = (size, lasts, "up" if direction else "any")
                        further.setdefault(key, []).append(counts)
        tasks = later["task"].nunique()
        for (size, rows, way), counts in further.items():
            means = np.mean(counts, axis=0) / tasks
            words = ", ".join(f"{mean:.1f}" for mean in means)
            print(
                f"season {kind:12} size {size:4.0f} rows {rows:2} direction {way:3}: "
                f"further alarms in the next 12, 24, 60 rows: {words}; "
                f"together {means.sum():.0f}",
                flush=True,
            )


def bounded_differences(X: Array, task: Codes, bound: float) -> Array:
    """Differences from a running mean that follows a row so many usual ones at most."""
    short = 1.0 - 2.0 / (SPAN + 1.0)
    long = 1.0 - 2.0 / (50 * SPAN + 1.0)
    made = np.zeros_like(X)
    for own_task in np.unique(task):
        rows = np.flatnonzero(task == own_task)
        mean = X[rows[0]].copy()
        usual = np.zeros(X.shape[1])
        weight = long_weight = 0.0
        for row in rows.tolist():
            made[row] = X[row] - mean
            most = np.inf
            if long_weight > SPAN:
                most = bound * usual / long_weight
            step = np.clip(made[row], -most, most)
            weight = short * weight + 1.0
            mean += step / weight
            usual = long * usual + np.abs(made[row])
            long_weight = long * long_weight + 1.0
    return made


def shifted_fleet(drift: float) -> InTime:
    """Machines with one column in four shifted for 100 rows; levels may drift."""
    rng = np.random.default_rng(0)
    tasks, rows = 20, 800
    noise = rng.normal(size=(tasks, rows + 50, 4))
    x = lfilter([0.8], [1.0, -0.6], noise, axis=1)[:, 50:]
    x += drift * rng.normal(size=(tasks, 1, 4)) * np.arange(rows)[:, None] / rows
    label = np.zeros((tasks, rows), dtype=bool)
    label[:, 550:650] = True
    x[:, 550:650, 0] += 3.0 * rng.choice([-1.0, 1.0], size=(tasks, 1))
    is_training = np.tile(np.arange(rows) < rows // 2, tasks)
    task = np.repeat(np.arange(tasks), rows)
    return InTime(x.reshape(-1, 4), task, is_training, label.ravel())


def lasting() -> None:
    """Print mean AUCs of values and past, with a bounded running mean and without."""
    for name, load in (
        ("shifts", lambda: shifted_fleet(0.0)),
        ("and drift", lambda: shifted_fleet(6.0)),
        ("servers", servers),
        ("valves", valves),
    ):
        data = load()
        Z = TaskHistory().fit_transform(data.X, task=data.task)
        width = data.X.shape[1]
        for bound in (None, 4.0, 2.0):
            if bound is not None:
                made = bounded_differences(data.X, data.task, bound)
                Z[:, width : 2 * width] = made
            for what, columns in (("values and past", Z), ("past alone", Z[:, width:])):
                areas = task_aucs(data, columns)["adaptive OCKSR"]
                print(
                    f"{name:10} {what:16} bound {bound}: {np.mean(areas):.1f}",
                    flush=True,
                )


def fleet(
    rows: int,
    tasks: int = 50,
    columns: int = 8,
    start: int = 0,
    wandering: bool = True,
) -> pd.DataFrame:
    """Rows of machines, one a minute, that resemble the one before.

    Those that wander go farther and farther from where they began.
    """
    rng = np.random.default_rng(start)
    each = rows // tasks
    noise = rng.normal(size=(tasks, each + 100, columns))
    decay = 1.0 if wandering else 0.9
    values = lfilter([1.0], [1.0, -decay], noise, axis=1)[:, 100:]
    if wandering:
        values = 0.1 * (values - values[:, :1]) + rng.normal(size=values.shape)
    table = pd.DataFrame(
        values.reshape(-1, columns), columns=[f"x{k}" for k in range(columns)]
    )
    table["machine"] = np.repeat([f"m{k}" for k in range(tasks)], each)
    table["when"] = np.tile(np.arange(start, start + each), tasks)
    return table.sort_values("when", kind="stable").reset_index(drop=True)


def score_times(wandering: bool) -> tuple[dict[int | None, TableModel], pd.DataFrame]:
    """Print what scoring costs; returns models with and without a past, and rows."""
    train = fleet(10_000, wandering=wandering)
    later = fleet(1_000_000, start=200, wandering=wandering)
    models = {
        history: TableModel("machine", time="when", method=MODEL, history=history).fit(
            train
        )
        for history in (None, 12)
    }
    seconds = in_turns(
        {
            "without": lambda: models[None].score(later),
            "read": lambda: models[None].read(later),
            "columns": lambda: models[12].read(later),
            "with": lambda: models[12].score(later),
        },
        3,
    )
    base = seconds["without"]
    kind = "that wandered off" if wandering else "like those of training"
    print(f"score of {len(later):,} rows {kind}: {base:.1f} s without a past")
    made = seconds["columns"] - seconds["read"]
    print(f"making the columns adds {made / base:.0%} of that")
    print(f"all of it takes {seconds['with'] / base:.2f} times as long", flush=True)
    return models, later


def speed() -> None:
    """Print ratios of times."""
    score_times(wandering=True)
    models, later = score_times(wandering=False)
    monitors = {history: Monitor(model) for history, model in models.items()}
    steps = {history: iter(range(10**6)) for history in models}

    def one_row(history: int | None) -> None:
        place = next(steps[history])
        monitors[history].update(later.iloc[place : place + 1])

    times = in_turns(
        {str(history): lambda h=history: one_row(h) for history in models},
        300,
    )
    additional = times["12"] - times["None"]
    print(
        f"a row in a monitor: {1e3 * times['None']:.2f} ms, {1e3 * additional:.2f} ms "
        "more"
    )


CALLS = {
    "accuracy": accuracy,
    "choice": choice,
    "views": views,
    "rows": rows_learned,
    "seasons": seasons,
    "aftermath": aftermath,
    "lasting": lasting,
    "speed": speed,
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parts = parser.parse_args().parts or PARTS
    warnings.simplefilter("ignore")
    for part in parts:
        CALLS[part]()


if __name__ == "__main__":
    main()
