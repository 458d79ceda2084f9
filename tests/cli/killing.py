"""Kill ``manyone watch`` at random moments and run it again until it is done.

    python tests/cli/killing.py FOLDER KILLS SEED

FOLDER has fleet.manyone and today.csv. This process imports everything once and forks: a child
then starts in milliseconds. It must not score rows itself, because the threads that do so would
not be there after a fork.
"""

import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import manyone.alerts.evidence
import manyone.cli.watching
import manyone.tables.explain
import manyone.tables.incidents
import manyone.watch.incidents
import manyone.watch.score_copy
import manyone.watch.store
from manyone.cli import main

BATCH = 20
DEADLINE = 60.0


def watch(name):
    """The arguments of a command whose files begin with a name."""
    files = ["--state", f"{name}.state", "--out", f"{name}.csv"]
    more = ["--feedback", "answers.csv", "--keep", "when", "--explain", "1"]
    muted = ["--mute", "mute.csv"] if Path("mute.csv").exists() else []
    return ["watch", "fleet.manyone", "today.csv", *files, *more, *muted]


def start(name):
    """Start a command in a child process."""
    child = os.fork()
    if child:
        return child
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    manyone.cli.watching._BATCH = BATCH
    os._exit(main(watch(name)))


def outcome(child, seconds):
    """Exit code of a child, or None if it had to be killed after some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def check_store(name, rows):
    """What must hold after every kill."""
    if not Path(f"{name}.state").exists() or not Path(f"{name}.state").stat().st_size:
        return
    with closing(sqlite3.connect(f"{name}.state")) as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if not store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return
        counts = "SELECT count(*), count(DISTINCT id) FROM scores"
        seen, ids = store.execute(counts).fetchone()
        (read,) = store.execute("SELECT coalesce(sum(rows), 0) FROM files").fetchone()
        assert seen == ids == read <= rows, (seen, ids, read)


def content(name):
    """All that a run leaves behind, without the moments at which it ran."""
    with closing(sqlite3.connect(f"{name}.state")) as store:
        wanted = (
            "id, task, score, p_value, alarm, muted, drift, weight, answer, reasons, "
            "incident"
        )
        rows = store.execute(f"SELECT {wanted} FROM judged_row ORDER BY number")
        answers = store.execute("SELECT id, answer, used FROM answers")
        values = store.execute("SELECT content FROM row_values ORDER BY number")
        state = store.execute("SELECT state FROM monitor")
        wanted = (
            'id, task, "column", alarms, rows, "begin", "end", by_chance, worst_row'
        )
        incidents = store.execute(f"SELECT {wanted} FROM incidents ORDER BY id")
        open_rows = store.execute("SELECT * FROM open_row")
        gaps = store.execute("SELECT task, gaps, silent FROM arrival ORDER BY task")
        queries = (rows, answers, values, state, incidents, open_rows, gaps)
        found = [query.fetchall() for query in queries]
    return found, Path(f"{name}.csv").read_bytes()


def run(kills, seed):
    """Kill so many times; returns how many runs were completed in between."""
    rng = random.Random(seed)
    rows = len(Path("today.csv").read_text().splitlines()) - 1
    begin = time.monotonic()
    assert outcome(start("whole"), DEADLINE) == 0
    duration = time.monotonic() - begin
    expected = content("whole")
    completed = 0
    left = kills
    while left:
        code = outcome(start("part"), rng.uniform(0.3, 1.1) * duration)
        check_store("part", rows)
        if code is None:
            left -= 1
        if code == 0 or left == 0:
            assert outcome(start("part"), DEADLINE) == 0
            assert content("part") == expected
            completed += 1
            for path in Path().glob("part.*"):
                path.unlink()
        assert code in (None, 0), code
    return completed


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    with suppress(BrokenPipeError):
        print(run(int(sys.argv[2]), int(sys.argv[3])), "runs completed")
