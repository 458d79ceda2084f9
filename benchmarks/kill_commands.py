"""200 fits, enrolments and scores killed at random moments: ``python benchmarks/kill_commands.py``.

Half of the moments are uniform over the life of the process, in processor time, so that the load of
the machine does not matter; half are in the time in which it writes. Half of the signals are
SIGKILL, half SIGTERM. After each the model file must load, and score as the file before or as what
a finished command writes; scores must be whole or absent. Takes five minutes; another number of
kills can be given.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from manyone import TableModel, load, save
from manyone.cli import main as cli
from manyone.datasets import make_fleet

COMMANDS = (
    (
        "fit",
        "events.csv",
        "--task",
        "machine",
        "--out",
        "fleet.manyone",
        "--anomalies",
        "faults",
    ),
    ("enroll", "fleet.manyone", "today.csv"),
    ("score", "fleet.manyone", "today.csv", "--out", "scores.csv"),
)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["polars", "skops.io", "rich.progress", "manyone.cli"])
MODEL = Path("fleet.manyone")
SCORES = Path("scores.csv")


def run(command: tuple[str, ...]) -> None:
    """The command in this process, without its words."""
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    sys.exit(cli(command))


def start(command: tuple[str, ...]) -> Any:
    """A process of its own, in which everything is imported: that part of a life is dull."""
    process = PROCESSES.Process(target=run, args=(command,))
    process.start()
    return process


def spent(process: Any) -> float:
    """Seconds of processor time; infinite once it has ended."""
    try:
        stat = (
            Path(f"/proc/{process.pid}/stat").read_text() if process.is_alive() else ""
        )
    except (FileNotFoundError, ProcessLookupError):
        stat = ""
    if not stat:
        return float("inf")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parts() -> list[Path]:
    """What is being written, or was when it was killed."""
    return [path for path in Path().iterdir() if path.name.endswith(".part")]


def life_of(command: tuple[str, ...]) -> tuple[float, float]:
    """Processor time of a whole run, and seconds in which it writes."""
    process = start(command)
    used = 0.0
    writes = []
    while (now := spent(process)) < float("inf"):
        used = now
        if parts():
            writes.append(time.monotonic())
    return used, max(0.005, writes[-1] - writes[0] if writes else 0.0)


def wait_for(process: Any, moment: float | None, pause: float) -> None:
    """Wait for a processor time, or, without one, for the writing and some seconds of it."""
    if moment is None:
        while process.is_alive() and not parts():
            pass
        time.sleep(pause)
    else:
        while spent(process) < moment:
            time.sleep(0.002)


def main(kills: int = 200) -> int:
    rng = random.Random(0)
    outcome = Counter[str]()
    fleet = make_fleet(8, 15, 4, n_test=10, random_state=0)
    names = [f"x{k}" for k in range(4)]
    for name, X, task in (
        ("events", fleet.data, fleet.task),
        ("today", fleet.test_data, fleet.test_task),
    ):
        table = pl.DataFrame(X, schema=names).with_columns(
            machine=pl.Series([f"m{k}" for k in task])
        )
        table.write_csv(f"{name}.csv")
    save(
        TableModel("machine", anomalies="faults").fit(pl.read_csv("events.csv")), MODEL
    )
    before = MODEL.read_bytes()
    wanted = load(MODEL).score(table)
    lives = {}
    for command in COMMANDS:  # when nobody kills it
        lives[command] = life_of(command)
        print(
            f"{command[0]}: {lives[command][0]:.2f} s, writes for {lives[command][1]:.4f} s"
        )
        MODEL.write_bytes(before)
    for number in range(kills):
        command = COMMANDS[number % len(COMMANDS)]
        SCORES.unlink(missing_ok=True)
        used, writing = lives[command]
        process = start(command)
        wait_for(
            process,
            rng.uniform(0, used) if number % 2 else None,
            rng.uniform(0, writing),
        )
        alive = process.is_alive()
        started = bool(parts())
        if alive:
            os.kill(process.pid, rng.choice((signal.SIGKILL, signal.SIGTERM)))
        process.join()
        replaced = MODEL.read_bytes() != before
        scores = load(MODEL).score(table)  # loads, whatever happened
        if SCORES.exists() and len(pl.read_csv(SCORES)) != len(table):
            outcome["WRONG: half-written scores"] += 1
        elif not replaced and not scores.equals(wanted):
            outcome["WRONG: other scores"] += 1
        else:
            new = replaced or SCORES.exists()
            when = (
                "after its end"
                if not alive
                else "after it wrote"
                if new
                else "before it wrote"
            )
            done = "new file" if new else "nothing changed"
            outcome[
                f"{command[0]}, killed {'while it wrote' if started else when}: {done}"
            ] += 1
        outcome["temporary files that SIGKILL left behind"] += len(parts())
        for path in parts():
            path.unlink()
        MODEL.write_bytes(before)
        if number % 20 == 19:
            print(f"{number + 1} killed", flush=True)
    for words, times in sorted(outcome.items()):
        print(f"{words}: {times}")
    return int(any(words.startswith("WRONG") for words in outcome))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        code = main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
        os.chdir(Path(folder).parent)
    sys.exit(code)
