"""``manyone watch`` on a store that grows: CPU time of a batch, memory, size.

    python benchmarks/bench_store.py [files|growing] [BATCHES]

A batch is 1,000 rows of 1,000 entities: a new file each, or the end of one growing
file. CPU time is that of the command in this process, without the start of Python.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import tempfile
import time

import numpy as np
import polars as pl

from manyone.cli import main as cli

KINDS = ("files", "growing")
ENTITIES = 1000
COLUMNS = 6
ROWS = 1000


class Fleet:
    """Entities about centres of their own, and rows of them with ids."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.centres = 2.0 * self.rng.normal(size=(ENTITIES, COLUMNS))
        self.count = 0

    def table(self, entity: np.ndarray) -> pl.DataFrame:
        """One new row of each entity that is named."""
        X = self.centres[entity] + self.rng.normal(size=(len(entity), COLUMNS))
        numbers = range(self.count, self.count + len(entity))
        self.count += len(entity)
        return pl.DataFrame(
            {
                "reading": [f"r{number}" for number in numbers],
                "shop": [f"shop {number}" for number in entity],
                **{f"x{k}": X[:, k] for k in range(COLUMNS)},
            }
        )


def run(args: list[str]) -> None:
    """A command that has to succeed, without what it prints."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        assert cli(args) == 0


def measure(kind: str, batches: int) -> None:
    """Watch batch after batch; print what the first and the last tenth took."""
    fleet = Fleet()
    fleet.table(np.repeat(np.arange(ENTITIES), 20)).write_csv("normal.csv")
    fit = ["fit", "normal.csv", "--task", "shop", "--ignore", "reading", "--no-tune"]
    run([*fit, "--anomalies", "faults", "--out", "model"])
    seconds = []
    for number in range(batches):
        rows = fleet.table(fleet.rng.integers(ENTITIES, size=ROWS))
        name = f"{number}.csv" if kind == "files" else "growing.csv"
        is_new = kind == "files" or number == 0
        with open(name, "ab") as stream:
            stream.write(rows.write_csv(include_header=is_new).encode())
        begin = time.process_time()
        run(["watch", "model", name, "--state", "store", "--id", "reading"])
        seconds.append(time.process_time() - begin)
        if kind == "files":
            os.unlink(name)
    tenth = max(batches // 10, 1)
    first = float(np.median(seconds[:tenth]))
    last = float(np.median(seconds[-tenth:]))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = os.path.getsize("store") / (batches * ROWS)
    print(
        f"{kind}, {batches} batches: {first:.3f} s CPU a batch in the first tenth, "
        f"{last:.3f} s in the last (ratio {last / first:.2f}); {memory:.0f} MB; "
        f"{size:.0f} bytes a row",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="default: both")
    parser.add_argument("batches", nargs="?", type=int, default=1000)
    arguments = parser.parse_args()
    total = arguments.batches
    for chosen in KINDS if arguments.kind is None else [arguments.kind]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            measure(chosen, total)
