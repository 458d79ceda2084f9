"""200 fits, enrolments and scores killed at random moments: ``python benchmarks/kill_commands.py``.

Half of them with SIGKILL, half with SIGTERM. After each the model file must load, and score as the
file before or as what a finished command writes; scores must be whole or absent. Takes ten minutes;
another number of kills can be given.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import polars as pl

from manyone import TableModel, load, save
from manyone.datasets import make_fleet

COMMANDS = (
    ("fit", "events.csv", "--task", "machine", "--out", "fleet.manyone", "--anomalies", "faults"),
    ("enroll", "fleet.manyone", "today.csv"),
    ("score", "fleet.manyone", "today.csv", "--out", "scores.csv"),
)


def main(kills: int = 200) -> int:
    rng, outcome = random.Random(0), Counter[str]()
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
    save(TableModel("machine", anomalies="faults").fit(pl.read_csv("events.csv")), "fleet.manyone")
    longest = {}
    for command in COMMANDS:  # how long each takes when nobody kills it
        before, start = Path("fleet.manyone").read_bytes(), time.monotonic()
        subprocess.run([sys.executable, "-m", "manyone", *command], check=True, capture_output=True)
        longest[command] = time.monotonic() - start
        Path("fleet.manyone").write_bytes(before)
    wanted = load("fleet.manyone").score(table)
    for number in range(kills):
        command = COMMANDS[number % len(COMMANDS)]
        Path("scores.csv").unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "manyone", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0.3, 1.2) * longest[command])
        process.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
        process.wait()
        replaced = Path("fleet.manyone").read_bytes() != before
        scores = load("fleet.manyone").score(table)  # loads, whatever happened
        if Path("scores.csv").exists() and len(pl.read_csv("scores.csv")) != len(table):
            outcome["half-written scores"] += 1
        elif not replaced and not scores.equals(wanted):
            outcome["other scores"] += 1
        else:
            outcome[f"{command[0]}: {'finished' if replaced else 'nothing changed'}"] += 1
        Path("fleet.manyone").write_bytes(before)
        if number % 20 == 19:
            print(f"{number + 1} killed: {dict(outcome)}", flush=True)
    for words, times in sorted(outcome.items()):
        print(f"{words}: {times}")
    left = [path.name for path in Path().iterdir() if path.name.endswith(".part")]
    print(f"temporary files left behind by SIGKILL: {len(left)}")
    return int(outcome["half-written scores"] + outcome["other scores"] > 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        code = main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
        os.chdir(Path(folder).parent)
    sys.exit(code)
