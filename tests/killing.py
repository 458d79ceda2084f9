"""Kill commands at random moments, and run them again until they are done.

    python tests/killing.py commands|watch|month FOLDER KILLS SEED

FOLDER gets all files. What is left in the end is compared with the same without kills.

``commands``
    fit, enroll and score, by SIGKILL and SIGTERM, half of them while they write: the
    model is that of before or a finished one, scores are whole or absent, and no lock
    is left.
``watch``
    One table in batches, with answers and mutes: rows, levels, incidents and the copy
    of scores are the same.
``month``
    The days of `fleet_days`, a run and a watch in turn, with a receiver of messages:
    every row once, no message lost, one sent again only with the same id.

This process imports everything once and forks, so that a child starts in milliseconds.
It must not score or read tables itself: the threads that do so would not be there after
a fork.
"""

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import polars as pl

import fleet_days as fleet
import manyone.cli.fit
import manyone.cli.run
import manyone.cli.upkeep
import manyone.cli.watching
from manyone.cli import main
from receivers import Receiver

BATCH = 20
DEADLINE = 120.0
DAYS = 16
MODEL = Path("fleet.manyone")
SCORES = Path("scores.csv")
FIT = ["fit", "events.csv", "--task", "pump", "--time", "when", "--no-tune"]
COMMANDS = [
    [*FIT, "--anomalies", "faults", "--out", "fleet.manyone"],
    ["enroll", "fleet.manyone", "day0.csv"],
    ["score", "fleet.manyone", "day0.csv", "--out", "scores.csv"],
]
CONFIG = """
[data]
model = "{name}.manyone"
state = "{name}.state"
table = "{name}.csv"
[watch]
id = "reading"
out = "{name}.scores.csv"
[notify]
url = "$HOOK"
cool_down = 0
[report]
out = "{name}.html"
every_days = 3
[refit]
every_days = 4
train_days = 10
"""


# ----------------------------------------------------------------------------- children


def start(args):
    """Start a command in a child process."""
    child = os.fork()
    if child:
        return child
    log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    manyone.cli.watching._BATCH = BATCH
    os._exit(main(args))


def outcome(child, seconds, kill=signal.SIGKILL, begins=lambda: True):
    """Exit code of a child, or None if it was killed.

    That is some seconds after something has begun, at once if nothing is said.
    """
    until = None
    while until is None or time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if until is None and begins():
            until = time.monotonic() + seconds
        time.sleep(0.0005)
    os.kill(child, kill)
    os.waitpid(child, 0)
    return None


def whole(args):
    """Run a command to its end; returns the seconds that it took."""
    begin = time.monotonic()
    code = outcome(start(args), DEADLINE)
    assert code in (0, 3), (code, Path("log.txt").read_text()[-2000:])
    return time.monotonic() - begin


# ------------------------------------------------------------------------------- stores


def query(name, sql):
    with closing(sqlite3.connect(f"{name}.state")) as store:
        return store.execute(sql).fetchall()


def check_store(name, rows):
    """What must hold after every kill."""
    path = Path(f"{name}.state")
    if not path.exists() or not query(name, "SELECT count(*) FROM sqlite_master")[0][0]:
        return
    assert query(name, "PRAGMA integrity_check") == [("ok",)]
    ((seen, ids),) = query(name, "SELECT count(*), count(DISTINCT id) FROM scores")
    ((read,),) = query(name, "SELECT coalesce(sum(rows), 0) FROM files")
    assert seen == ids == read <= rows, (seen, ids, read, rows)


def content(name):
    """All that a store and its copy hold, without times of writing."""
    row = (
        "id, task, score, p_value, alarm, muted, drift, weight, answer, reasons, "
        "incident"
    )
    incident = 'id, task, "column", alarms, rows, "begin", "end", by_chance, worst_row'
    return [
        query(name, f"SELECT {row} FROM judged_row ORDER BY number"),
        query(name, "SELECT id, answer, used FROM answers"),
        query(name, "SELECT content FROM row_values ORDER BY number"),
        query(name, "SELECT state FROM monitor"),
        query(name, f"SELECT {incident} FROM incidents ORDER BY id"),
        query(name, "SELECT name, stretch, gaps, silent FROM task ORDER BY name"),
        query(name, "SELECT id, task, kind, text FROM messages ORDER BY id"),
        Path(f"{name}.scores.csv").read_bytes(),
    ]


# ----------------------------------------------------------------------------- commands


def kill_commands(kills, rng):
    """Kill fit, enroll and score."""
    before = MODEL.read_bytes()
    check = ["score", "fleet.manyone", "day0.csv", "--out", "check.csv"]
    whole(check)
    wanted = Path("check.csv").read_bytes()
    seconds = {}
    for command in COMMANDS:
        seconds[command[0]] = whole(command)
        MODEL.write_bytes(before)
    ends = Counter()
    for number in range(kills):
        command = COMMANDS[number % len(COMMANDS)]
        SCORES.unlink(missing_ok=True)
        sign = rng.choice((signal.SIGKILL, signal.SIGTERM))
        child = start(command)
        if number % 2:
            outcome(child, rng.uniform(0.0, 1.1) * seconds[command[0]], sign)
        else:
            outcome(child, rng.uniform(0.0, 0.01), sign, begins=unfinished_files)
        for path in unfinished_files():
            ends["temporary files left behind"] += 1
            path.unlink()
        whole(check)  # the model loads, and nobody holds its lock
        if MODEL.read_bytes() == before:
            assert Path("check.csv").read_bytes() == wanted
            ends["unchanged models"] += 1
        else:
            ends["finished models"] += 1
            MODEL.write_bytes(before)
        if SCORES.exists():
            assert SCORES.read_bytes() == wanted
            ends["finished scores"] += 1
    print(", ".join(f"{number} {what}" for what, number in sorted(ends.items())))


def unfinished_files():
    """What is being written, or was when it was killed."""
    return [path for path in Path().iterdir() if path.suffix == ".part"]


# -------------------------------------------------------------------------------- watch


def kill_watch(kills, rng):
    """Kill a watch of one table, again and again."""
    rows = add_rows("today", 0) + add_rows("today", 1)
    lines = Path("today.csv").read_text().splitlines()[1:]
    words = {3: "normal", 50: "fault", 120: "normal"}
    answers = [f"{lines[row].partition(',')[0]},{words[row]}" for row in words]
    text = "\n".join(["id,answer", *answers, "nobody,later", ""])
    Path("answers.csv").write_text(text)
    Path("mute.csv").write_text("entity,until\npump 1,2026-03-03\n")
    duration = whole(watch_command("whole"))
    completed = 0
    while kills:
        limit = rng.uniform(0.3, 1.1) * duration
        code = outcome(start(watch_command("part")), limit)
        check_store("part", rows)
        assert code in (None, 0), code
        kills -= code is None
        if code == 0 or kills == 0:
            whole(watch_command("part"))
            assert content("part") == content("whole")
            completed += 1
            for path in Path().glob("part.*"):
                path.unlink()
    print(f"{completed} watches completed")


def watch_command(name):
    """A watch with answers, mutes and a copy of the scores."""
    files = ["--state", f"{name}.state", "--out", f"{name}.scores.csv"]
    more = ["--feedback", "answers.csv", "--mute", "mute.csv", "--explain", "1"]
    table = ["today.csv", "--id", "reading", "--keep", "when"]
    return ["watch", "fleet.manyone", *table, *files, *more]


# -------------------------------------------------------------------------------- month


def kill_month(kills, rng):
    """Kill runs and watches over some days."""
    receiver = Receiver()
    os.environ["HOOK"] = receiver.address
    month("whole", receiver, 0, rng)
    month("part", receiver, kills, rng)
    assert content("part") == content("whole")


def month(name, receiver, kills, rng):
    """Run day after day; kill so many times."""
    Path(f"{name}.toml").write_text(CONFIG.format(name=name))
    Path(f"{name}.manyone").write_bytes(MODEL.read_bytes())
    rows = 0
    left = kills
    duration = 1.0
    for day in range(DAYS):
        rows += add_rows(name, day)
        # What is left is shared by the days that are left.
        today = -(-left // (DAYS - day))
        left -= today
        while today:
            begin = time.monotonic()
            child = start(day_command(name, day))
            code = outcome(child, rng.uniform(0.02, 1.1) * duration)
            check_store(name, rows)
            today -= code is None
            if code is not None:
                assert code in (0, 3), (code, Path("log.txt").read_text()[-2000:])
                duration = max(0.3, time.monotonic() - begin)
        duration = max(0.3, whole(day_command(name, day)))
        check_store(name, rows)
    check_messages(name, receiver, kills)


def day_command(name, day):
    """A run on even days, a watch of the same files on odd ones."""
    if day % 2 == 0:
        return ["run", f"{name}.toml"]
    files = ["--state", f"{name}.state", "--out", f"{name}.scores.csv"]
    more = ["--id", "reading", "--notify", "$HOOK", "--cool-down", "0"]
    return ["watch", f"{name}.manyone", f"{name}.csv", *files, *more]


def add_rows(name, day):
    """Rows come into the file; how many there are of them."""
    text = Path(f"day{day}.csv").read_text()
    if day in (0, fleet.ROTATED):
        Path(f"{name}.csv").write_text(text)
    else:
        with open(f"{name}.csv", "a") as file:
            file.write(text.partition("\n")[2])
    return text.count("\n") - 1


def check_messages(name, receiver, kills):
    """No message lost; one that came twice has the same id and says the same."""
    sent = dict(query(name, "SELECT id, text FROM messages WHERE sent IS NOT NULL"))
    assert query(name, "SELECT id FROM messages WHERE sent IS NULL") == []
    came = [message for _, message in receiver.delivered if name in message["state"]]
    assert {message["id"] for message in came} == {*sent}
    for message in came:
        assert message["text"] == sent[message["id"]]
    again = len(came) - len(sent)
    assert again <= kills
    print(f"{name}: {len(sent)} messages, {again} sent again")


def prepare():
    """Write the rows of all days, and fit the model."""
    for day in range(DAYS):
        # Every day a sensor of another pump is dead, so that there is much to tell.
        is_dead = pl.col("pump") == f"pump {1 + day % 10}"
        pressure = pl.when(is_dead).then(0.0).otherwise("pressure")
        rows = fleet.rows_of_day(day).drop("fault").with_columns(pressure=pressure)
        rows.write_csv(f"day{day}.csv")
    fleet.training_rows().drop("fault", "reading").write_csv("events.csv")
    assert main(COMMANDS[0]) == 0


if __name__ == "__main__":
    kinds = {"commands": kill_commands, "watch": kill_watch, "month": kill_month}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*kinds, "prepare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("kills", type=int, nargs="?", default=0)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    asked = parser.parse_args()
    os.chdir(asked.folder)
    if asked.what == "prepare":
        prepare()
        sys.exit()
    # In another process, see above.
    command = [sys.executable, str(Path(__file__).resolve()), "prepare", "."]
    subprocess.run(command, check=True, capture_output=True)
    kinds[asked.what](asked.kills, random.Random(asked.seed))
    print(f"{asked.kills} kills: the same as without them")
