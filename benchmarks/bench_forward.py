"""The forward check and thresholds in time, measured on simulated and on real fleets.

Run ``python benchmarks/bench_forward.py [part ...]``; without a part all of them run.
Figures are printed beside the promised ones. The parts:

- fleets: the forecast of the forward check beside the alarms of later rows, 50
  simulated fleets
- past: the same with columns of the past
- fresh: 50 other fleets without a past, on which no decision was based
- ceiling, past-ceiling: how often the best possible forecast would be as close, and
  which part of the errors of the check is chance, and which its thresholds
- rates: alarms on later rows, by rows a task and by how far rows resemble each other
- past-rates: the same with columns of the past
- ahead: alarms with columns of the past, over a time as long as that of the training
  rows
- forecasts: the forecast over 50 fleets and all real tables together, with the past of
  rows and without
- gaps: alarms of the first rows after a long gap, and of tables that begin anew
- stuck: rows until a column that stands still, alone, raises an alarm
- shops, fresh-shops: weekly figures of 45 shops (simulated), 113 weeks, faults planted
  in the 30 weeks after; three draws, and three others by which nothing was decided
- hours: hourly means of eight servers, the second half of the time after the first
- valves, servers, spacecraft: 10 % asked, no answers, several training periods, with
  the past of rows and without
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from manyone import IndependentOCKSR, TableModel
from manyone.datasets import load_servers, load_telemetry, load_valves
from manyone.tables.fitting import fit_again
from manyone.tables.in_time import LATER
from manyone.tables.sampling import kept_rows

RATE = 0.1
METHOD = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
TASKS = 60
# A forecast is good that is within this factor of what comes.
FACTOR = 1.5
KINDS = ("none", "slow drift", "jumps", "season", "AR rows")


class Forecast(NamedTuple):
    """What the forward check of a table said, and what later rows raised."""

    name: str
    forecast: float
    raised: float

    @property
    def ratio(self) -> float:
        """The larger over the smaller."""
        return ratio_of(self.raised, self.forecast)


def fleet(
    kind: str, tasks: int, rows: int, seed: int, begin: int | None = None, draw: int = 0
) -> pd.DataFrame:
    """Rows of machines in time; what happens goes on happening.

    From row `begin` on chance decides anew, by the number of the draw: what comes
    before is the same.
    """
    columns = 4
    rng = np.random.default_rng(seed)
    later_rng = np.random.default_rng([seed, draw])
    begin = rows if begin is None else begin
    correlation = 0.8 if kind == "AR rows" else 0.2
    noise = rng.normal(size=(tasks, rows + 100, columns))
    noise[:, 100 + begin :] = later_rng.normal(size=(tasks, rows - begin, columns))
    scale = np.sqrt(1 - correlation**2)
    x = lfilter([scale], [1, -correlation], noise, axis=1)[:, 100:]
    when = np.arange(rows)
    if kind == "slow drift":
        x += rng.normal(size=(tasks, 1, columns)) * when[:, None] / 160
    if kind == "season":
        phase = rng.uniform(0, 6.28, size=(tasks, 1, columns))
        x += 1.5 * np.sin(2 * np.pi * when[:, None] / 24 + phase)
    if kind == "jumps":
        for t in range(tasks):
            jumps = rng.random(rows) < 1 / 25
            levels = rng.normal(size=(jumps.sum() + 1, columns))
            jumps[begin:] = later_rng.random(rows - begin) < 1 / 25
            place = np.cumsum(jumps)
            known = jumps[:begin].sum() + 1
            more = later_rng.normal(size=(jumps[begin:].sum(), columns))
            x[t] += np.vstack([levels[:known], more])[place]
    x += 2.0 * rng.normal(size=(tasks, 1, columns))
    table = pd.DataFrame(x.reshape(-1, columns), columns=list("abcd"))
    table["task"] = np.repeat(np.arange(tasks), rows)
    table["when"] = np.tile(when, tasks)
    return table


def fitted(train: pd.DataFrame, rate: float = RATE, **options) -> TableModel:
    options = {"method": METHOD, "anomalies": "faults", "time": "when"} | options
    return TableModel("task", alarm_rate=rate, **options).fit(train)


def fleets(
    number: int = 50, history: Literal["auto"] | None = None, first: int = 0
) -> list[Forecast]:
    """The forecast beside what the rows after training raise.

    With a third of the tasks chance alone makes a factor of 1.5 in a third of the
    fleets.
    """
    measured = []
    for seed in range(first, first + number):
        kind, rows, table = numbered_fleet(seed)
        model = fitted(table[table.when < rows], history=history)
        raised = model.score(table[table.when >= rows]).alarm.mean()
        measured.append(
            Forecast(f"{kind}, {rows} rows", model.forward_.raised(RATE), raised)
        )
        print_forecast(measured[-1])
    print_share("fleets", measured)
    for kind in KINDS:
        print_share(kind, [each for each in measured if each.name.startswith(kind)])
    return measured


def print_forecast(measured: Forecast) -> None:
    print(
        f"  {measured.name:20s} forecast {measured.forecast:6.1%}, raised "
        f"{measured.raised:6.1%}",
        flush=True,
    )


def print_share(name: str, measured: list[Forecast]) -> None:
    """The share of tables whose forecast is good, and the worst of them."""
    good = sum(each.ratio <= FACTOR for each in measured)
    worst = max(measured, key=lambda each: each.ratio)
    print(
        f"{name}: forecast within a factor {FACTOR} in {good} of {len(measured)}, "
        f"{good / len(measured):.0%} (at least 80 %); worst: {worst.name}, forecast "
        f"{worst.forecast:.1%}, raised {worst.raised:.1%}",
        flush=True,
    )


def forecasts() -> None:
    """Fleets that go on as they began, and real tables, which may not."""
    for what, history in (("no past", None), ("past chosen", "auto")):
        simulated = fleets(history=history)
        real = []
        for name, periods in (
            ("servers", server_periods),
            ("valves", valve_periods),
            ("spacecraft", spacecraft_periods),
        ):
            for number, (train, later) in enumerate(periods()):
                model = fitted(train.drop(columns="bad"), history=history)
                raised = _measured(model, later)[1]
                forecast = model.forward_.raised(RATE)
                real.append(Forecast(f"{name}, period {number}", forecast, raised))
                print_forecast(real[-1])
        print_share(f"{what}, real tables", real)
        print_share(f"{what}, all", simulated + real)


def numbered_fleet(
    seed: int, begin: float | None = None, draw: int = 0
) -> tuple[str, int, pd.DataFrame]:
    """Kind, training rows a task and rows of one of the fleets, a third of them later.

    From `begin` on, in training rows, chance decides anew.
    """
    kind = KINDS[seed % len(KINDS)]
    rows = (80, 160, 240)[seed % 3]
    start = None if begin is None else int(begin * rows)
    return kind, rows, fleet(kind, TASKS, rows * 4 // 3, seed, start, draw)


def ratio_of(one: float, other: float) -> float:
    """The larger over the smaller."""
    return max(one, other) / max(min(one, other), 1e-9)


def ceiling(
    number: int = 50, draws: int = 10, history: Literal["auto"] | None = None
) -> None:
    """How often the best possible forecast, and that of the check, meet the factor.

    What comes after training is drawn again and again, and scored by the model: the
    mean is the rate that it truly raises. The same of the last quarter, scored by the
    model of the check.
    """
    lines = []
    for seed in range(number):
        kind, rows, table = numbered_fleet(seed)
        train = table[table.when < rows]
        model = fitted(train, history=history)
        check = earlier_model(model, train[train.when < rows * 3 // 4])
        raised = model.score(table[table.when >= rows]).alarm.mean()
        later = []
        quarters = []
        for draw in range(draws):
            drawn = numbered_fleet(seed, 1.0, draw)[2]
            later.append(model.score(drawn[drawn.when >= rows]).alarm.mean())
            drawn = numbered_fleet(seed, 0.75, draw)[2]
            quarter = drawn[(drawn.when >= rows * 3 // 4) & (drawn.when < rows)]
            quarters.append(check.score(quarter).alarm.mean())
        forecast = model.forward_.raised(RATE)
        lines.append(
            (kind, rows, raised, forecast, np.array(later), np.array(quarters))
        )
        print(
            f"  {kind:10s} {rows:3d} rows: truly {np.mean(later):6.1%} (a draw ± "
            f"{np.std(later, ddof=1):.1%}), check truly {np.mean(quarters):6.1%} (± "
            f"{np.std(quarters, ddof=1):.1%}); forecast {forecast:6.1%}, raised "
            f"{raised:6.1%}",
            flush=True,
        )
    for kind in ("", *KINDS):
        explain_ratios(kind or "all", [line for line in lines if kind in ("", line[0])])


def earlier_model(model: TableModel, earlier: pd.DataFrame) -> TableModel:
    """The model of the earlier rows that the forward check of a model fits."""
    past = model.training_.past
    compared = None if past is None else past.compared
    rows = kept_rows(earlier, model._roles(), [], compared)
    check = copy.copy(model)
    return check._become(fit_again(model, rows, 1.0 - LATER))


def explain_ratios(name: str, lines: list) -> None:
    """Print shares within the factor; means and spreads of log ratios."""
    measured = []
    known = []
    same_size = []
    for _, _, raised, forecast, later, _ in lines:
        measured.append(ratio_of(forecast, raised) <= FACTOR)
        for place, one in enumerate(later):
            others = np.delete(later, place)
            known.append(ratio_of(others.mean(), one) <= FACTOR)
            same_size += [ratio_of(other, one) <= FACTOR for other in others]
    truly = np.log([line[4].mean() for line in lines])
    check = np.log([line[5].mean() for line in lines])
    noise_later = [np.std(np.log(np.maximum(line[4], 1e-4)), ddof=1) for line in lines]
    noise_check = [np.std(np.log(np.maximum(line[5], 1e-4)), ddof=1) for line in lines]
    between = check - truly
    error = between.std(ddof=1) / np.sqrt(len(lines))
    print(
        f"{name}: the check is within the factor in {np.mean(measured):.0%}; the true "
        f"rate in {np.mean(known):.0%}, as many rows by the model itself in "
        f"{np.mean(same_size):.0%}. Logarithms: true rate of the check less that of "
        f"the model {between.mean():+.2f} ± {error:.2f}, spread between fleets "
        f"{between.std(ddof=1):.2f}; noise of the later rows "
        f"{np.sqrt(np.mean(np.square(noise_later))):.2f}, of the last quarter "
        f"{np.sqrt(np.mean(np.square(noise_check))):.2f}",
        flush=True,
    )


def rates(sets: int = 4, history: Literal["auto"] | None = None) -> None:
    """Alarms on later rows: at most what was asked where rows do not drift."""
    for rows in (40, 113, 250):
        for kind in KINDS:
            raised = []
            for seed in range(sets):
                table = fleet(kind, 12, rows + 200, seed)
                model = fitted(table[table.when < rows], history=history)
                raised.append(model.score(table[table.when >= rows]).alarm.mean())
            error = np.std(raised, ddof=1) / np.sqrt(sets)
            print(
                f"{rows} rows, {kind}: {np.mean(raised):.1%} ± {error:.1%} (10 asked)",
                flush=True,
            )


def ahead(sets: int = 5) -> None:
    """Alarms while as many rows come as there were to learn from."""
    for rows in (113, 250):
        for kind in ("none", "AR rows", "slow drift", "jumps"):
            raised = []
            for seed in range(70, 70 + sets):
                table = fleet(kind, 20, 2 * rows, seed)
                model = fitted(table[table.when < rows])
                raised.append(model.score(table[table.when >= rows]).alarm.mean())
            error = np.std(raised, ddof=1) / np.sqrt(sets)
            print(
                f"{rows} rows, {kind}: {np.mean(raised):.1%} ± {error:.1%}", flush=True
            )


def gaps(sets: int = 3, tasks: int = 40) -> None:
    """Alarms of the first 12 rows: at most what was asked, whatever came before.

    And those of rows with a shift of 3 in a column, without a gap and after one of 24
    rows, as a weekend is one where rows come in working hours.
    """
    for kind in ("none", "AR rows", "jumps", "slow drift"):
        raised = []
        for seed in range(sets):
            table = fleet(kind, tasks, 230, seed)
            model = fitted(table[table.when < 200])
            later = table[table.when >= 200]
            first = table[table.when < 30]
            shares = []
            for rows, moved in ((later, 0), (later, 2000), (first, -5000)):
                alarm = model.score(rows.assign(when=rows.when + moved)).alarm
                shares.append(alarm.to_numpy().reshape(tasks, 30)[:, :12].mean())
            for moved in (0, 24):
                shifted = later.assign(when=later.when + moved, a=later.a + 3.0)
                alarm = model.score(shifted).alarm
                shares.append(alarm.to_numpy().reshape(tasks, 30)[:, :12].mean())
            raised.append(shares)
        usual, after_gap, anew, caught, caught_after = np.mean(raised, axis=0)
        print(
            f"{kind}: {usual:.1%} with a past, {after_gap:.1%} after a gap, {anew:.1%} "
            f"anew (10 asked); of shifts {caught:.1%}, {caught_after:.1%} after 24 rows",
            flush=True,
        )


# Rows that a column stands still for, and from which on an alarm is to stay.
STUCK = 60
SOON = 20


def stuck() -> None:
    """One column of each task stands still at its first later value."""
    fleets_of = [(kind, fleet(kind, 40, 240 + STUCK, 900)) for kind in KINDS]
    tables = [
        (kind, table[table.when < 240], table[table.when >= 240])
        for kind, table in fleets_of
    ]
    for name, periods in (("valves", valve_periods), ("servers", server_periods)):
        table = next(periods())[0].drop(columns="bad")
        last = table.groupby("task").tail(STUCK).index
        tables.append((name, table.drop(last), table.loc[last]))
    for name, train, later in tables:
        measure_stuck(name, train, later.reset_index(drop=True))


def measure_stuck(name: str, train: pd.DataFrame, later: pd.DataFrame) -> None:
    """Print how soon alarms come, and what the same rows raise where nothing is."""
    features = [c for c in train.columns if c not in ("task", "when")]
    model = fitted(train)
    usual = model.score(later).alarm.to_numpy()
    moves = train.groupby("task")[features].agg(
        lambda values: (values.diff().iloc[1:] != 0).mean()
    )
    rows_of = later.groupby("task").indices
    soon = []
    ever = []
    lasting = []
    before = []
    for column in features:
        still = later.copy()
        for rows in rows_of.values():
            still.loc[rows, column] = still.loc[rows[0], column]
        alarm = model.score(still).alarm.to_numpy()
        for task, rows in rows_of.items():
            if moves.loc[task, column] < 0.9:  # it often stands still by itself
                continue
            soon.append(alarm[rows][:SOON].any())
            ever.append(alarm[rows].any())
            lasting.append(alarm[rows][STUCK // 2 :].mean())
            before.append(usual[rows][:SOON].any())
    print(
        f"{name}: of {len(soon)} columns {np.mean(soon):.0%} raise an alarm within "
        f"{SOON} rows ({np.mean(before):.0%} where nothing is), {np.mean(ever):.0%} "
        f"within {STUCK}; from row {STUCK // 2} on {np.mean(lasting):.0%} of rows",
        flush=True,
    )


# -------------------------------------------------------------------------- real tables


def compare(name: str, train: pd.DataFrame, later: pd.DataFrame, rate: float) -> None:
    """Alarms of later rows, and what everyday rivals catch with as many."""
    features = [c for c in train.columns if c not in ("task", "when", "bad")]
    is_bad = later["bad"].to_numpy()
    model = fitted(train.drop(columns="bad"), rate)
    alarm = model.score(later.drop(columns="bad")).alarm.to_numpy()
    mean = train.groupby("task")[features].mean()
    spread = train.groupby("task")[features].std().replace(0.0, 1.0).fillna(1.0)

    def scaled(table: pd.DataFrame) -> np.ndarray:
        task = table["task"]
        values = table[features].to_numpy()
        return (values - mean.loc[task].to_numpy()) / spread.loc[task].to_numpy()

    deviation = np.abs(scaled(later)).max(axis=1)
    isolation = np.empty(len(later))
    for label in later["task"].unique():
        is_task = (later["task"] == label).to_numpy()
        forest = IsolationForest(random_state=0)
        forest.fit(train.loc[train["task"] == label, features].to_numpy())
        isolation[is_task] = -forest.score_samples(
            later.loc[is_task, features].to_numpy()
        )
    rivals = {"max |z|": deviation, "IsolationForest": isolation}
    caught = equal_alarms(alarm, is_bad, rivals)
    # What a fault leaves behind in running means costs alarms, too.
    is_after = later["bad"].groupby(later["task"]).cummax().to_numpy() & ~is_bad
    rest = ~is_after
    of_rest = {rival: value[rest] for rival, value in rivals.items()}
    caught_of_rest = equal_alarms(alarm[rest], is_bad[rest], of_rest)
    borrowed = int(model.model_.calibration_.borrows(rate).sum())
    print(
        f"{name}: {rate:.0%} asked, forecast {model.forward_.raised(rate):.1%}, raised "
        f"{alarm[~is_bad].mean():.1%} of {np.sum(~is_bad)} normal rows; of "
        f"{is_bad.sum()} bad rows with {alarm.sum()} alarms: {caught}; {borrowed} of "
        f"{len(model.tasks_)} borrow\n  without normal rows that come after a fault of "
        f"their task: raised {alarm[rest & ~is_bad].mean():.1%} of "
        f"{np.sum(rest & ~is_bad)}; with {alarm[rest].sum()} alarms: {caught_of_rest}",
        flush=True,
    )


def equal_alarms(
    alarm: np.ndarray, is_bad: np.ndarray, rivals: dict[str, np.ndarray]
) -> str:
    """How many bad rows alarms catch, and as many rows with the largest values."""
    caught = [f"manyone {alarm[is_bad].sum()}"]
    for rival, value in rivals.items():
        most = np.argsort(-value, kind="stable")[: alarm.sum()]
        caught.append(f"{rival} {is_bad[most].sum()}")
    return ", ".join(caught)


def shops(first: int = 0, draws: int = 3) -> None:
    """Weekly figures of shops: season, creeping prices, sales, four kinds of faults."""
    for seed in range(first, first + draws):
        rng = np.random.default_rng(seed)
        weeks = 143
        when = np.arange(weeks)
        size = np.exp(rng.normal(13, 0.5, size=(45, 1)))
        year = 1 + 0.15 * np.sin(2 * np.pi * when / 52) + 0.4 * (when % 52 >= 49)
        sales = size * year * np.exp(0.06 * rng.normal(size=(45, weeks)))
        heat = 60 + 20 * np.sin(2 * np.pi * (when - 15) / 52)
        heat = heat + rng.normal(0, 4, size=(45, weeks)) + rng.normal(0, 8, (45, 1))
        price = 180 + 0.12 * when + rng.normal(0, 0.3, (45, weeks)).cumsum(axis=1)
        idle = 8 + np.cumsum(0.05 * rng.normal(size=(45, weeks)), axis=1)
        table = pd.DataFrame(
            {"sales": sales.ravel(), "heat": heat.ravel(), "price": price.ravel()}
        )
        table["idle"] = idle.ravel()
        table["task"] = np.repeat(np.arange(45), weeks)
        table["when"] = np.tile(when, 45)
        table["bad"] = False
        for shop in range(0, 40, 2):
            begin = shop * weeks + 113 + int(rng.integers(20))
            rows = slice(begin, begin + 3)
            column = ("sales", "heat", "sales", "price")[shop // 2 % 4]
            factor = (0.5, 0.55, 1.8, 1.3)[shop // 2 % 4]
            table.loc[table.index[rows], column] *= factor
            table.loc[table.index[rows], "bad"] = True
        train = table[table.when < 113]
        compare(f"shops, draw {seed}", train, table[table.when >= 113], 0.05)


def hours() -> None:
    """Hourly means of eight servers."""
    early = load_servers()
    late = load_servers(split="test")
    parts = []
    for part, bunch in enumerate((early, late)):
        table = pd.DataFrame(bunch.data, columns=[f"m{k}" for k in range(38)])
        table["task"] = bunch.target
        table["bad"] = bunch.label.astype(float) if part else 0.0
        table["hour"] = table.groupby("task").cumcount() // 12
        mean = table.groupby(["task", "hour"], as_index=False).mean()
        parts.append(mean.rename(columns={"hour": "when"}))
    later = parts[1]
    later["when"] += parts[0]["when"].max() + 1
    later["bad"] = later["bad"] > 0.5
    parts[0]["bad"] = False
    compare("hours", parts[0], later, 0.05)


def server_periods() -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    early = load_servers()
    late = load_servers(split="test")
    table = pd.DataFrame(np.vstack([early.data, late.data])).add_prefix("m")
    table["task"] = np.append(early.target, late.target)
    table["bad"] = np.append(np.zeros(len(early.data), bool), late.label.astype(bool))
    table["when"] = table.groupby("task").cumcount()
    sizes = np.bincount(early.target)[table["task"]]
    place = table["when"] / sizes
    for low, high in ((0.0, 1.0), (0.0, 0.75), (0.25, 1.0)):
        yield table[(place >= low) & (place < high)], table[place >= 1.0]


def valve_periods() -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    runs = load_valves()
    table = pd.DataFrame(runs.data).add_prefix("s")
    table["task"] = runs.target
    table["bad"] = runs.label.astype(bool)
    table["when"] = table.groupby("task").cumcount()
    for rows in (300, 340, 380):
        begin = table["when"] < rows
        yield table[begin & ~table["bad"]], table[~begin]


def spacecraft_periods() -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    early = load_telemetry(split="train")
    late = load_telemetry(split="test")
    table = pd.DataFrame(np.vstack([early.data, late.data])).add_prefix("v")
    table["task"] = np.append(early.target, late.target)
    table["bad"] = np.append(np.zeros(len(early.data), bool), late.label.astype(bool))
    is_early = np.arange(len(table)) < len(early.data)
    table["when"] = table.groupby("task").cumcount()
    yield table[is_early], table[~is_early]


def in_time(name: str, periods: Iterator[tuple[pd.DataFrame, pd.DataFrame]]) -> None:
    """Whole test periods without and with the chosen past, means over tasks."""
    found: dict[str, list[list[float]]] = {"no past": [], "past chosen": []}
    for train, later in periods:
        for what, history in (("no past", None), ("past chosen", "auto")):
            model = fitted(train.drop(columns="bad"), history=history)
            measured = _measured(model, later)
            found[what].append([*measured, model.forward_.raised(RATE)])
            shown = ", ".join(f"{100 * value:.1f}" for value in found[what][-1])
            print(f"  {what}: {shown}", flush=True)
    for what, lines in found.items():
        means = np.mean(lines, axis=0) * 100
        errors = np.std(lines, axis=0) * 100 / np.sqrt(len(lines))
        print(
            f"{name}, {what}: AUC {means[0]:.1f} ± {errors[0]:.1f}, false alarms "
            f"{means[1]:.1f} ± {errors[1]:.1f} % (worst task {means[2]:.1f}), caught "
            f"{means[3]:.1f} %, forecast {means[4]:.1f} %",
            flush=True,
        )


def _measured(model: TableModel, later: pd.DataFrame) -> list[float]:
    """AUC, false alarms, those of the worst task, and what is caught."""
    answers = model.score(later.drop(columns="bad"))
    areas = []
    false = []
    caught = []
    for rows in answers.groupby("task").indices.values():
        is_bad = later["bad"].to_numpy()[rows]
        alarm = answers["alarm"].to_numpy()[rows]
        if 0 < is_bad.sum() < len(is_bad):
            areas.append(roc_auc_score(~is_bad, answers["score"].to_numpy()[rows]))
            caught.append(alarm[is_bad].mean())
        if not is_bad.all():
            false.append(alarm[~is_bad].mean())
    return [np.mean(areas), np.mean(false), max(false), np.mean(caught)]


def valves() -> None:
    in_time("valves (at most 22 %, 62 % caught)", valve_periods())


def servers() -> None:
    in_time("servers (at most 24 %, 60 % caught)", server_periods())


def spacecraft() -> None:
    in_time("spacecraft", spacecraft_periods())


PARTS = {
    "fleets": fleets,
    "past": lambda: fleets(history="auto"),
    "fresh": lambda: fleets(first=50),
    "ceiling": ceiling,
    "past-ceiling": lambda: ceiling(history="auto"),
    "rates": rates,
    "past-rates": lambda: rates(history="auto"),
    "ahead": ahead,
    "forecasts": forecasts,
    "gaps": gaps,
    "stuck": stuck,
    "shops": shops,
    "fresh-shops": lambda: shops(first=40),
    "hours": hours,
    "valves": valves,
    "servers": servers,
    "spacecraft": spacecraft,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    warnings.simplefilter("ignore")
    for name in parser.parse_args().parts or PARTS:
        begin = time.perf_counter()
        PARTS[name]()
        print(f"  ({name}: {time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
