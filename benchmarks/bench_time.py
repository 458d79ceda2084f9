"""The promise over time: drift flags, held rates, servers, an attack, kills, tasks.

Run ``python benchmarks/bench_time.py [part ...]`` with the parts exchangeable,
discrete, shift, listed, alike, blocks, clumps, servers, spacecraft, keystrokes, attack,
answered, kills, killed, size; without a part all of them run. Figures are printed
beside the promised ones.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import multiprocessing
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import binom
from sklearn.base import clone

from manyone import IndependentOCKSR, JointOCKSR, Monitor, TimeBlocks
from manyone.datasets import load_keystrokes, load_servers, load_telemetry, make_fleet

RATE = 0.1
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["polars", "skops.io", "rich.progress", "manyone.cli", "manyone"]
)


def streams(rows: int, sets: int, length: int, shift: float = 0.0) -> Iterator[tuple]:
    """Models of 25 related tasks; new rows (length, T, 8), moved from row 200 on."""
    T = 25
    d = 8
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        centres = 1.5 * rng.normal(size=(T, d))
        X = np.repeat(centres, rows, axis=0) + rng.normal(size=(T * rows, d))
        model = IndependentOCKSR(alarm_rate=RATE).fit(
            X, task=np.repeat(np.arange(T), rows)
        )
        new = centres + rng.normal(size=(length, T, d))
        new[200:] += shift
        yield model, new


def watch(
    monitor: Monitor, new: np.ndarray, answers: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Alarms and drift flags (length, T) of normal rows, refuted at once or never."""
    n, T, d = new.shape
    tasks = np.arange(T)
    if not answers:
        watched = monitor.update(new.reshape(-1, d), np.tile(tasks, n))
        return watched.alarm.reshape(n, T), watched.drift.reshape(n, T)
    alarm, drift = np.empty((2, n, T), dtype=bool)
    for i, rows in enumerate(new):
        watched = monitor.update(rows, tasks)
        alarm[i] = watched.alarm
        drift[i] = watched.drift
        monitor.feedback(watched.id[watched.alarm], normal=True)
    return alarm, drift


def exchangeable(sets: int = 40) -> None:
    for rows in (5, 20, 80):
        flags = 0
        fed = []
        fixed_rates = []
        for model, new in streams(rows, sets, 500):
            alarm, drift = watch(Monitor(model), new, answers=False)
            flags += int(drift[-1].sum())
            fixed_rates.append(alarm.mean())
            fed.append(watch(Monitor(model), new, answers=True)[0].mean())
        total = 25 * sets
        most = int(binom.ppf(0.999, total, 0.01))
        print(
            f"exchangeable, {rows:2d} rows: {flags} of {total} streams flagged (at "
            f"most {most}); alarms {100 * np.mean(fed):.2f} % with answers (9.5 to "
            f"10.5), {100 * np.mean(fixed_rates):.2f} % without (8 to 12)",
            flush=True,
        )


def discrete(sets: int = 8) -> None:
    """Drift flags of unchanged rows of yes and no."""
    tasks = np.arange(20)
    methods = {
        "joint": JointOCKSR(alarm_rate=RATE),
        "adaptive": IndependentOCKSR(metric="adaptive", alarm_rate=RATE),
    }
    for (name, method), columns in itertools.product(methods.items(), (1, 3, 6)):
        flags = 0
        for seed in range(sets):
            rng = np.random.default_rng(seed)
            rows = (rng.random((50 + 500, 20, columns)) < 0.3) * 1.0
            model = method.fit(rows[:50].reshape(-1, columns), task=np.tile(tasks, 50))
            flags += int(watch(Monitor(model), rows[50:], answers=False)[1][-1].sum())
        total = 20 * sets
        most = int(binom.ppf(0.999, total, 0.01))
        print(
            f"yes/no, {columns} columns, {name}: {flags} of {total} streams flagged "
            f"(at most {most})",
            flush=True,
        )


def shift(sets: int = 8) -> None:
    for size in (1.0, 2.0, 3.0):
        delays = []
        for model, new in streams(50, sets, 500, size):
            flagged = watch(Monitor(model), new, answers=False)[1][200:]
            delays += np.where(
                flagged.any(axis=0), flagged.argmax(axis=0) + 1, 1000
            ).tolist()
        wanted = " (at most 40)" if size == 2 else ""
        print(
            f"shift of {size:g} sd: flagged after {np.median(delays):g} rows{wanted}",
            flush=True,
        )


def listed(sets: int = 20) -> None:
    """Print shares of quiet tasks among those listed, and numbers of moved ones."""
    for moved in (0, 2, 5):
        quiet = []
        drifting = []
        for model, new in streams(50, sets, 500):
            new[200:, :moved] += 2.0
            monitor = Monitor(model)
            watch(monitor, new, answers=False)
            tasks = monitor.drifting(drift_fdr=0.1)
            quiet.append(np.sum(tasks >= moved) / max(len(tasks), 1))
            drifting.append(np.sum(tasks < moved))
        error = np.std(quiet) / np.sqrt(sets)
        print(
            f"{moved} of 25 tasks move by 2 sd: {100 * np.mean(quiet):.1f} ± "
            f"{100 * error:.1f} % of those listed are quiet (at most 10), "
            f"{np.mean(drifting):.1f} listed",
            flush=True,
        )


def resembling(
    rows: int, tasks: int, columns: int, like: float, seed: int
) -> np.ndarray:
    """Rows (n, T, d) around a centre of each task, each like the one before."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, tasks, columns))
    for i in range(1, rows):
        X[i] = like * X[i - 1] + np.sqrt(1 - like**2) * X[i]
    return X + 1.5 * rng.normal(size=(tasks, columns))


def alike(sets: int = 4) -> None:
    """Drift flags of quiet and moved streams, where rows resemble the one before."""
    T = 25
    d = 8
    rows = 100
    new = 500
    for like in (0.0, 0.3, 0.5, 0.8):
        flags = 0
        delays = []
        for seed in range(sets):
            X = resembling(rows + new, T, d, like, seed)
            when = np.repeat(np.arange(rows), T)
            task = np.tile(np.arange(T), rows + new)
            model = IndependentOCKSR(alarm_rate=RATE).fit(
                X[:rows].reshape(-1, d),
                task=task[: len(when)],
                groups=TimeBlocks(when, forward=0),
            )
            flags += int(watch(Monitor(model), X[rows:], answers=False)[1][-1].sum())
            X[rows + 200 :] += 2.0
            flagged = watch(Monitor(model), X[rows:], answers=False)[1][200:]
            delays += np.where(
                flagged.any(axis=0), flagged.argmax(axis=0) + 1, 1000
            ).tolist()
        print(
            f"correlation {like:g}: {flags} of {sets * T} quiet streams flagged; a "
            f"shift of 2 sd after {np.median(delays):g} rows",
            flush=True,
        )


def blocks(sets: int = 4) -> None:
    """Alarms on later rows, independent ones and ones like those before."""
    for rows, like in itertools.product((30, 100, 250), (0.0, 0.8)):
        rates = {"rows": [], "blocks": [], "earlier blocks": []}
        for seed in range(sets):
            T = 10
            d = 5
            new = 200
            X = resembling(rows + new, T, d, like, seed)
            when = np.repeat(np.arange(rows), T)
            for name, groups in zip(
                rates,
                (None, TimeBlocks(when, forward=False), TimeBlocks(when)),
                strict=True,
            ):
                model = IndependentOCKSR(
                    metric="adaptive", kernel="laplacian", width=3.0, alarm_rate=RATE
                ).fit(
                    X[:rows].reshape(-1, d),
                    task=np.tile(np.arange(T), rows),
                    groups=groups,
                )
                predicted = model.predict(
                    X[rows:].reshape(-1, d), task=np.tile(np.arange(T), new)
                )
                rates[name].append(np.mean(predicted == -1))
        text = ", ".join(
            f"{name} {100 * np.mean(rates_of_sets):.1f} %"
            for name, rates_of_sets in rates.items()
        )
        print(
            f"left out, {rows} rows a task, correlation {like:g}: {text} (10 asked)",
            flush=True,
        )


def clumps(sets: int = 50) -> None:
    """Alarms on rows of new clumps, where every reading comes with nine near-copies."""
    T = 4
    d = 3
    number = 12
    raised = {"rows": [], "groups": []}
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        centres = 1.5 * rng.normal(size=(T, d))
        code = np.repeat(np.arange(T), number)
        X = np.repeat(centres[code] + rng.normal(size=(len(code), d)), 10, axis=0)
        X += 0.05 * rng.normal(size=X.shape)
        new = np.repeat(centres, 20, axis=0) + rng.normal(size=(20 * T, d))
        for name, groups in (
            ("rows", None),
            ("groups", np.repeat(np.arange(len(code)), 10)),
        ):
            model = IndependentOCKSR(alarm_rate=RATE).fit(
                X, task=np.repeat(code, 10), groups=groups
            )
            predicted = model.predict(new, task=np.repeat(np.arange(T), 20))
            raised[name].append(np.mean(predicted == -1))
    text = ", ".join(
        f"{name} {100 * np.mean(shares):.1f} %" for name, shares in raised.items()
    )
    print(
        f"clumps of ten, left out: {text} (10 asked; 12 clumps allow 7.7)", flush=True
    )


class Stream(NamedTuple):
    """Rows of tasks in order: those to learn from, those after, which are bad."""

    X: np.ndarray
    task: np.ndarray
    Z: np.ndarray
    claim: np.ndarray
    bad: np.ndarray


def servers() -> None:
    """Eight servers, 100 evenly spaced training rows each, the weeks after."""
    train = load_servers()
    test = load_servers(split="test")
    spaced = [
        server_rows[np.linspace(0, len(server_rows) - 1, 100).astype(int)]
        for server_rows in (np.flatnonzero(train.target == t) for t in range(8))
    ]
    spaced = np.concatenate(spaced)
    stream = Stream(
        train.data[spaced],
        train.target[spaced],
        test.data,
        test.target,
        test.label.astype(bool),
    )
    side_by_side(
        stream, IndependentOCKSR(kernel="laplacian", metric="whitened", alarm_rate=RATE)
    )


def spacecraft() -> None:
    """Channels of the satellite SMAP with 20 training windows, and later windows."""
    train, test = (
        load_telemetry(spacecraft="SMAP", split=s) for s in ("train", "test")
    )
    enough = np.flatnonzero(np.bincount(train.target) >= 20)
    trained = np.isin(train.target, enough)
    later = np.isin(test.target, enough)
    stream = Stream(
        train.data[trained],
        np.searchsorted(enough, train.target[trained]),
        test.data[later],
        np.searchsorted(enough, test.target[later]),
        test.label[later].astype(bool),
    )
    side_by_side(
        stream, IndependentOCKSR(kernel="laplacian", metric="whitened", alarm_rate=RATE)
    )


def keystrokes() -> None:
    """First 20 rows of 40 users, then the rest, a stranger's after every second."""
    typing = load_keystrokes()
    rng = np.random.default_rng(0)
    strangers = np.flatnonzero(typing.target >= 40)
    X = []
    later = []
    for user in range(40):
        user_rows = np.flatnonzero(typing.target == user)
        X.append(user_rows[:20])
        rows = user_rows[20:]
        later.append(
            np.insert(rows, np.arange(2, len(rows), 2), rng.choice(strangers, 15))
        )
    task = np.repeat(np.arange(40), 20)
    claim = np.repeat(np.arange(40), list(map(len, later)))
    later = np.concatenate(later)
    bad = typing.target[later] >= 40
    stream = Stream(
        typing.data[np.concatenate(X)], task, typing.data[later], claim, bad
    )
    side_by_side(
        stream, JointOCKSR(kernel="laplacian", metric="whitened", alarm_rate=RATE)
    )


def side_by_side(stream: Stream, model: Any) -> None:
    """False alarms and what is caught: fixed thresholds, blocks of time, monitors."""
    X, task, Z, claim, bad = stream
    static = clone(model).fit(X, task=task)
    when = np.arange(len(X))
    scores = static.score_samples(Z, task=claim)
    alarms = {"static": scores < static.offset_[claim]}
    for name, ahead in (("static, blocks", False), ("static, forward blocks", True)):
        blocked = clone(model).fit(X, task=task, groups=TimeBlocks(when, forward=ahead))
        alarms[name] = scores < blocked.offset_[claim]
    for kind in ("full", "alarms", "half", "none"):
        alarms[f"monitor, answers: {kind}"] = in_time(static, Z, claim, bad, kind)
    for name, alarm in alarms.items():
        rates = []
        caught = []
        hindsight = []
        for t in np.unique(claim):
            task_rows = claim == t
            rates.append(alarm[task_rows & ~bad].mean())
            if (task_rows & bad).any():
                caught.append(alarm[task_rows & bad].mean())
                least = np.quantile(scores[task_rows & ~bad], rates[-1])
                hindsight.append(np.mean(scores[task_rows & bad] < least))
        print(
            f"{name:24s} false alarms {100 * np.mean(rates):.1f} % (worst "
            f"{100 * max(rates):.1f}), caught {100 * np.mean(caught):.1f} %, with "
            f"hindsight {100 * np.mean(hindsight):.1f} % (ratio "
            f"{np.mean(caught) / np.mean(hindsight):.2f})",
            flush=True,
        )


def in_time(model, Z, claim, bad, kind: str) -> np.ndarray:
    """Alarms row by row of each server, answered after every row or second alarm."""
    monitor = Monitor(model)
    alarm = np.zeros(len(Z), dtype=bool)
    tasks = np.unique(claim)
    rows = [np.flatnonzero(claim == t) for t in tasks]
    for i in range(max(map(len, rows))):
        now = np.array([task_rows[i] for task_rows in rows if i < len(task_rows)])
        watched = monitor.update(Z[now], claim[now], id=now)
        alarm[now] = watched.alarm
        answered = {"full": now, "alarms": now[watched.alarm], "none": now[:0]}.get(
            kind
        )
        if answered is None:
            answered = now[watched.alarm & (now % 2 == 0)]
        if len(answered):
            monitor.feedback(answered, normal=~bad[answered])
    return alarm


def attack() -> None:
    """Walk outwards in small steps, back after alarms, until 1,000 are accepted."""
    for answered in (False, True):
        moved = []
        allowed = []
        most = []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            model = IndependentOCKSR(alarm_rate=RATE).fit(rng.normal(size=(50, 8)))
            monitor = Monitor(model)
            radii = np.linspace(0.0, 12.0, 4000)
            way = radii[:, None] * np.full(8, 1 / np.sqrt(8))
            scores = model.score_samples(way)
            first = monitor.thresholds[0]
            accepted = 0
            at = 0
            lowest = first
            for _ in range(4000):
                if accepted == 1000:
                    break
                watched = monitor.update(way[[at]])
                accepted += int(~watched.alarm[0])
                at = max(at - 40, 0) if watched.alarm[0] else min(at + 10, len(way) - 1)
                if answered and watched.alarm[0]:
                    monitor.feedback(watched.id, normal=False)
                lowest = min(lowest, monitor.thresholds[0])
            reach = [radii[np.flatnonzero(scores >= s)[-1]] for s in (first, lowest)]
            most.append(accepted)
            moved.append(reach[1] / reach[0] - 1)
            allowed.append(
                radii[np.flatnonzero(scores >= monitor.anchors.low[0])[-1]] / reach[0]
                - 1
            )
        name = "alarms refused" if answered else "no answers"
        print(
            f"attack, {name}, {np.mean(most):.0f} rows accepted: border "
            f"{100 * np.mean(moved):.1f} % farther out on average, "
            f"{100 * max(moved):.1f} % at most; the cap allows "
            f"{100 * np.mean(allowed):.1f} %",
            flush=True,
        )


def answered(rate: float = 0.05) -> None:
    """A point that moves outwards for ever; every alarm is answered at once: normal."""
    for step in (0.004, 0.02, 0.1):
        rng = np.random.default_rng(0)
        model = IndependentOCKSR(alarm_rate=rate).fit(rng.normal(size=(50, 2)))
        monitor = Monitor(model)
        raised = 0
        shares = []
        for row in range(1, 4001):
            watched = monitor.update(np.array([[step * row, 0.0]]))
            raised += int(watched.alarm[0])
            monitor.feedback(watched.id[watched.alarm], normal=True)
            if row in (500, 1000, 4000):
                shares.append(f"{raised} of {row} (at most {rate * row + 51:.0f})")
        print(f"answered, {step:g} a row: alarms {', '.join(shares)}", flush=True)


def kills(number: int = 200) -> None:
    """Save after every batch, kill after random ones, and feed some rows again."""
    rng = np.random.default_rng(0)
    model, new = next(streams(20, 1, 400, 1.0))
    X = new.reshape(-1, 8)
    task = np.tile(np.arange(25), 400)
    cuts = np.unique(
        np.r_[0, np.sort(rng.choice(len(X), number, replace=False)), len(X)]
    )

    def answer(monitor: Monitor, found: np.ndarray) -> None:
        monitor.feedback(found.id[found.alarm], normal=found.id[found.alarm] % 3 > 0)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        uninterrupted = Monitor(model)
        parts = []
        for low, high in itertools.pairwise(cuts):
            watched = uninterrupted.update(
                X[low:high], task[low:high], id=np.arange(low, high)
            )
            answer(uninterrupted, watched)
            parts.append(watched)
            monitor = Monitor(model, state=path)
            again = max(low - 7, 0)  # some rows come twice
            seen = monitor.update(
                X[again:high], task[again:high], id=np.arange(again, high)
            )
            answer(monitor, watched)
            same = all(
                np.array_equal(
                    getattr(watched, name), getattr(seen, name)[low - again :]
                )
                for name in ("id", "p_value", "alarm", "drift")
            )
            assert same, (low, high)
            monitor.save_state(path)
            # Killed before it could save: this work is lost, and done again.
            lost = slice(high - 1, high + 5)
            Monitor.load_state(path, model).update(X[lost], task[lost])
    print(f"kills: {len(cuts) - 1} resumed runs equal the one without", flush=True)


def watch_rows(name: str, writes: int) -> None:
    """The command in this process, killed when it has written so often."""
    from manyone.cli import main as cli
    from manyone.cli import watching as command
    from manyone.watch.store import Store

    commit = Store.commit
    left = iter(range(writes, -1, -1))

    def commit_or_die(store: Store, monitor: Monitor | None) -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(store, monitor)
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    command._BATCH = 20
    Store.commit = commit_or_die  # type: ignore[method-assign]
    files = ["--state", f"{name}.state", "--out", f"{name}.csv", "--id", "id"]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        code = cli(["watch", "model", "new.csv", *files])
    os._exit(code)


def killed(number: int = 200) -> None:
    """The command itself, killed while it writes, and given again until it is done."""
    from manyone.cli import main as cli

    fleet = make_fleet(10, 30, 4, n_test=60, random_state=0)
    rng = np.random.default_rng(0)
    kills = runs = 0

    def done(name: str, writes: int) -> bool:
        """Whether the command was done before it was killed."""
        child = PROCESSES.Process(target=watch_rows, args=(name, writes))
        child.start()
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL), child.exitcode
        return child.exitcode == 0

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for path, X, task in (
            ("old.csv", fleet.data, fleet.task),
            ("new.csv", fleet.test_data, fleet.test_task),
        ):
            columns = dict(zip("abcd", X.T, strict=True))
            pl.DataFrame(
                {"id": np.arange(len(X)), "machine": task, **columns}
            ).write_csv(path)
        how = [
            "--task",
            "machine",
            "--ignore",
            "id",
            "--anomalies",
            "faults",
            "--no-tune",
        ]
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli(["fit", "old.csv", "--out", "model", *how]) == 0
        assert done("whole", 1000)
        while kills < number:
            while not done("part", int(rng.integers(12))):
                kills += 1
            assert Path("part.csv").read_bytes() == Path("whole.csv").read_bytes()
            runs += 1
            os.unlink("part.csv")
            for path in Path().glob("part.state*"):
                path.unlink()
    print(
        f"killed: watch, {kills} times; {runs} runs have the scores of one without",
        flush=True,
    )


def size() -> None:
    T = 10_000
    d = 4
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(T), 10)
    model = IndependentOCKSR(alarm_rate=RATE).fit(
        rng.normal(size=(10 * T, d)), task=task
    )
    monitor = Monitor(model)
    X = rng.normal(size=(T, d))
    everyone = np.arange(T)
    begin = time.process_time()
    for _ in range(100):
        monitor.update(X, everyone)
    seconds_of_all = time.process_time() - begin
    begin = time.process_time()
    for _ in range(100):
        model.score_samples(X, task=everyone)
    scoring = time.process_time() - begin
    with tempfile.TemporaryDirectory() as folder:
        monitor.save_state(Path(folder) / "state")
        mega = (Path(folder) / "state").stat().st_size / 1e6
    begin = time.process_time()
    for row in range(200):
        monitor.update(X[[row]], everyone[[row]])
    seconds_of_one = (time.process_time() - begin) / 200
    begin = time.process_time()
    for row in range(200):
        model.score_samples(X[[row]], task=everyone[[row]])
    alone = (time.process_time() - begin) / 200
    print(
        f"size: {T} tasks x 100 updates in {seconds_of_all:.1f} s (of a processor), "
        f"{scoring:.1f} of it scoring (under 60); state {mega:.0f} MB (under 100); "
        f"one row {1e3 * (seconds_of_one - alone):.2f} ms beyond scoring (under 1)",
        flush=True,
    )


PARTS = {
    "exchangeable": exchangeable,
    "discrete": discrete,
    "shift": shift,
    "listed": listed,
    "alike": alike,
    "blocks": blocks,
    "clumps": clumps,
    "servers": servers,
    "spacecraft": spacecraft,
    "keystrokes": keystrokes,
    "attack": attack,
    "answered": answered,
    "kills": kills,
    "killed": killed,
    "size": size,
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
