"""Thirty days end to end: a model is fitted once, and ``manyone run`` does the rest."""

import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import fleet_days as fleet
import manyone
from manyone.cli import main
from receivers import Receiver

PAGE = Path(__file__).parents[2] / "docs" / "everyday.rst"
CONFIG = """
[data]
model = "fleet.manyone"
state = "fleet.state"
table = "rows.csv"
[watch]
id = "reading"
feedback = "answers.csv"
out = "scores.csv"
metrics = "fleet.prom"
[notify]
url = "$HOOK"
cool_down = 0
[report]
out = "page.html"
[refit]
every_days = 7
train_days = 21
"""


def query(sql):
    with closing(sqlite3.connect("file:fleet.state?mode=ro", uri=True)) as store:
        return store.execute(sql).fetchall()


class Month:
    """The folder of a fleet, day by day."""

    def __init__(self, folder):
        self.folder = folder
        self.codes = []
        self.said = []
        self.truth = {}
        self.answered = set()

    def begin(self):
        (self.folder / "fleet.toml").write_text(CONFIG)
        fleet.training_rows().drop("reading", "fault").write_csv("events.csv")
        (self.folder / "answers.csv").write_text("id,answer\n")
        fit = ["fit", "events.csv", "--task", "pump", "--time", "when"]
        more = ["--anomalies", "faults", "--no-tune", "--out", "fleet.manyone"]
        assert main([*fit, *more]) == 0

    def add_rows(self, day):
        """Rows come into the file, which is rotated once."""
        rows = fleet.rows_of_day(day)
        self.truth.update(rows.select("reading", "fault").iter_rows())
        text = rows.drop("fault").write_csv()
        if day in (0, fleet.ROTATED):
            (self.folder / "rows.csv").write_text(text)
        else:
            with open("rows.csv", "a") as file:
                file.write(text.partition("\n")[2])

    def answer(self):
        """Somebody looks at the alarms of the last days."""
        alarms = query("SELECT id FROM alarms ORDER BY time, id")
        with open("answers.csv", "a") as file:
            for (row,) in alarms:
                if row not in self.answered:
                    self.answered.add(row)
                    file.write(f"{row},{'fault' if self.truth[row] else 'normal'}\n")

    def kill(self, seconds):
        """Start a run, and kill it."""
        process = subprocess.Popen(
            [sys.executable, "-m", "manyone", "run", "fleet.toml"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def month(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    receiver = Receiver()
    monkeypatch.setenv("HOOK", receiver.address)
    month = Month(tmp_path)
    month.receiver = receiver
    yield month
    receiver.die()


@pytest.mark.slow
def test_a_month_of_a_fleet(month, capsys):
    rng = random.Random(0)
    month.begin()
    for day in range(fleet.DAYS):
        month.add_rows(day)
        if day in fleet.KILLED:
            month.kill(rng.uniform(2.0, 4.0))
        if day in fleet.ANSWERS:
            month.answer()
        capsys.readouterr()
        month.codes.append(main(["run", "fleet.toml"]))
        month.said.append(capsys.readouterr())
    check_rows(month)
    check_rates(month)
    check_what_happened(month)
    check_messages(month)
    check_files(month)
    check_documentation(month)


def check_documentation(month):
    """docs/everyday.rst shows what this month prints; ``pytest -rP`` prints it all."""
    for day in (*fleet.ANSWERS, *range(0, fleet.DAYS, 7)):
        print(f"day {day}, exit code {month.codes[day]}:\n{month.said[day].out}")
    first = month.receiver.delivered[0][1]
    print(json.dumps(first, indent=1))
    for path in sorted(month.folder.glob("fleet.manyone.versions/*.json")):
        print(path.read_text())
    page = " ".join(PAGE.read_text("utf-8").split())
    assert first["text"] in page and first["worst_row"] in page
    assert " ".join(month.said[1].out.split()) in page
    (refitted,) = re.findall("A new model of .*", month.said[14].out)
    assert refitted in page


def check_rows(month):
    """Every row once, in the store and in the copy."""
    assert {*month.codes} <= {0, 3}, [said.err for said in month.said]
    ids = [row for (row,) in query("SELECT id FROM scores")]
    print(f"{len(ids)} rows")
    assert Counter(ids) == Counter(month.truth.keys())
    assert pl.read_csv("scores.csv")["id"].to_list() == ids
    assert "taken for a new file" in month.said[fleet.ROTATED].err


def check_rates(month):
    """Normal rows of machines that nothing happened to raise what was promised."""
    changed = fleet.date_of(fleet.FIRMWARE[2])
    rows = query("SELECT id, task, time, alarm, basis FROM scores")
    quiet = [
        alarm
        for row, task, when, alarm, basis in rows
        if not month.truth[row]
        and basis != "unknown"
        and not (task in fleet.FIRMWARE[0] and when >= changed)
    ]
    rate = sum(quiet) / len(quiet)
    print(f"rate of {len(quiet)} normal rows: {rate:.4f}")
    assert 0.02 < rate < 0.075


def check_what_happened(month):
    dead, column, days = fleet.DEAD
    incidents = query(
        "SELECT task, [column], [begin], stands_out FROM incidents WHERE stands_out"
    )
    print(incidents)
    begin = fleet.date_of(min(days))
    assert any(
        task == dead and column in columns and when.startswith(begin)
        for task, columns, when, _ in incidents
    )
    assert month.codes[min(days)] == 3
    # The firmware raises alarms at first; in the last week its rows are normal.
    first = share_of_alarms(fleet.FIRMWARE[2], fleet.FIRMWARE[2] + 1)
    last = share_of_alarms(fleet.DAYS - 7, fleet.DAYS)
    print(f"firmware: {first:.3f} of rows at first, {last:.3f} in the last week")
    assert first > 0.3 and last < 0.15
    silent = query("SELECT task FROM tasks WHERE silent IS NOT NULL")
    assert (fleet.SILENT[0],) in silent
    tasks = manyone.load("fleet.manyone").tasks_.tolist()
    assert {*fleet.NEW} <= {*tasks}


def share_of_alarms(begin, end):
    """Of the rows of pumps with the new firmware, from a day to another."""
    days = f"time >= '{fleet.date_of(begin)}' AND time < '{fleet.date_of(end)}'"
    ((share,),) = query(
        f"SELECT avg(alarm) FROM scores WHERE task IN {fleet.FIRMWARE[0]} AND {days}"
    )
    return share


def check_messages(month):
    """Every incident that stood out was told, once for each id but for kills."""
    contents = [content for _, content in month.receiver.delivered]
    times = Counter(content["id"] for content in contents)
    assert max(times.values()) <= 1 + len(fleet.KILLED)
    assert sum(times.values()) - len(times) <= 2 * len(fleet.KILLED)
    assert query("SELECT id FROM messages WHERE sent IS NULL") == []
    outstanding = {row for (row,) in query("SELECT id FROM incidents WHERE stands_out")}
    told = {content["id"] for content in contents if content["kind"] == "incident"}
    print(len(outstanding), len(told), [content["text"] for content in contents])
    assert outstanding <= told
    silent = [c for c in contents if c["kind"] == "silent" and c["task"] == "pump 7"]
    last = fleet.date_of(fleet.SILENT[1] - 1)
    assert any(content["begin"].startswith(last) for content in silent)
    about = {content["task"] for content in contents}
    happened = {fleet.DEAD[0], *fleet.FIRMWARE[0], fleet.SILENT[0]}
    assert about <= happened and about >= {fleet.DEAD[0], fleet.SILENT[0]}
    assert about & {*fleet.FIRMWARE[0]}


def check_files(month):
    versions = sorted(month.folder.glob("fleet.manyone.versions/*"))
    names = [path.name for path in versions]
    models = [name for name in names if name.endswith(".manyone")]
    print(names)
    assert 2 <= len(models) <= 5
    assert names == sorted([*models, *(m.replace(".manyone", ".json") for m in models)])
    facts = json.loads(versions[-2].read_text())
    assert facts["rows"] > 1000 and facts["alarms"] >= 0
    assert (month.folder / "fleet.manyone").read_bytes() == versions[-1].read_bytes()
    assert "pump 11" in (month.folder / "page.html").read_text()
    metrics = (month.folder / "fleet.prom").read_text()
    assert f"manyone_rows_total {len(month.truth)}\n" in metrics
    assert not list(month.folder.glob(".*.part"))
