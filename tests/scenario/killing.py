"""Kill ``manyone watch`` and ``manyone run`` at random moments, with a receiver of messages.

    python tests/scenario/killing.py FOLDER KILLS SEED

FOLDER gets all files. The days of `fleet_days` come one after the other, and every day is
run until a run ends by itself. Then what the store holds is compared with a month without
kills: every row once, no message lost, one sent again only with the same id.

This process imports everything once and forks, so that a child starts in milliseconds. It
must not score rows itself: the threads that do so would not be there after a fork.
"""

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

sys.path.insert(0, str(Path(__file__).parents[1]))

import polars as pl

import fleet_days as fleet
import manyone.cli.watching
import manyone.tables.explain
import manyone.watch.outbox
import manyone.watch.refit
import manyone.watch.score_copy
import manyone.watch.versions
from manyone.cli import main
from receivers import Receiver

BATCH = 40
DEADLINE = 120.0
DAYS = 16
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


def commands(name, day):
    """A run on even days, a watch of the same files on odd ones."""
    if day % 2 == 0:
        return ["run", f"{name}.toml"]
    files = ["--state", f"{name}.state", "--out", f"{name}.scores.csv"]
    more = ["--id", "reading", "--notify", "$HOOK", "--cool-down", "0"]
    return ["watch", f"{name}.manyone", f"{name}.csv", *files, *more]


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


def begin(name):
    Path(f"{name}.toml").write_text(CONFIG.format(name=name))
    Path(f"{name}.manyone").write_bytes(Path("fleet.manyone").read_bytes())


def add_rows(name, day):
    """Rows come into the file; how many there are of them."""
    text = Path(f"day{day}.csv").read_text()
    if day in (0, fleet.ROTATED):
        Path(f"{name}.csv").write_text(text)
    else:
        with open(f"{name}.csv", "a") as file:
            file.write(text.partition("\n")[2])
    return text.count("\n") - 1


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
    """What a month leaves behind, without the moments at which it ran."""
    wanted = "id, task, score, p_value, alarm, drift, answer, incident"
    return (
        query(name, f"SELECT {wanted} FROM judged_row ORDER BY number"),
        query(name, "SELECT id, task, kind, text FROM messages ORDER BY id"),
        query(name, "SELECT id, alarms, stands_out FROM incidents ORDER BY id"),
        Path(f"{name}.scores.csv").read_bytes(),
    )


def month(name, receiver, kills, rng):
    """Run a month; kill so many times."""
    begin(name)
    rows = 0
    left = kills
    duration = 1.0
    for day in range(DAYS):
        rows += add_rows(name, day)
        # What is left is shared by the days that are left.
        today = -(-left // (DAYS - day))
        while True:
            begun = time.monotonic()
            limit = rng.uniform(0.02, 1.1) * duration if today else DEADLINE
            code = outcome(start(commands(name, day)), limit)
            check_store(name, rows)
            if code is not None:
                assert code in (0, 3), (code, Path("log.txt").read_text()[-2000:])
                duration = max(0.3, time.monotonic() - begun)
                if not today:
                    break
                continue
            today -= 1
            left -= 1
            assert limit < DEADLINE, "it hangs"
    assert left == 0
    check_messages(name, receiver, kills)


def check_messages(name, receiver, kills):
    """No message lost; one that came twice has the same id and says the same."""
    sent = dict(query(name, "SELECT id, text FROM messages WHERE sent IS NOT NULL"))
    assert query(name, "SELECT id FROM messages WHERE sent IS NULL") == []
    came = [content for _, content in receiver.delivered if name in content["state"]]
    assert {content["id"] for content in came} == {*sent}
    for message in came:
        assert message["text"] == sent[message["id"]]
    times = Counter(message["id"] for message in came)
    again = sum(times.values()) - len(times)
    assert again <= kills
    print(f"{name}: {len(times)} messages, {again} sent again")


def prepare():
    """Write the rows of all days, and fit the model."""
    for day in range(DAYS):
        # Every day a sensor of another pump is dead, so that there is much to tell.
        is_dead = pl.col("pump") == f"pump {1 + day % 10}"
        pressure = pl.when(is_dead).then(0.0).otherwise("pressure")
        rows = fleet.rows_of_day(day).drop("fault").with_columns(pressure=pressure)
        rows.write_csv(f"day{day}.csv")
    fleet.training_rows().drop("reading", "fault").write_csv("events.csv")
    fit = ["fit", "events.csv", "--task", "pump", "--time", "when"]
    more = ["--anomalies", "faults", "--no-tune", "--out", "fleet.manyone"]
    assert main([*fit, *more]) == 0


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    if sys.argv[2] == "prepare":
        prepare()
        sys.exit()
    # In another process, see above.
    command = [sys.executable, __file__, ".", "prepare"]
    subprocess.run(command, check=True, capture_output=True)
    receiver = Receiver()
    os.environ["HOOK"] = receiver.address
    rng = random.Random(int(sys.argv[3]))
    month("whole", receiver, 0, rng)
    month("part", receiver, int(sys.argv[2]), rng)
    assert content("part") == content("whole")
    print(f"{sys.argv[2]} kills: the same as without them")
