"""Commands killed at random moments: the model file is always whole and says what it said."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import manyone
from manyone.cli import main

KILLS = 12
COMMANDS = [
    ["fit", "events.csv", "--task", "machine", "--out", "fleet.manyone", "--no-tune"],
    ["enroll", "fleet.manyone", "today.csv"],
    ["score", "fleet.manyone", "today.csv", "--out", "scores.csv"],
]


@pytest.mark.slow
def test_killed_commands_leave_the_model_as_it_was_or_finished(here):
    """Each of the commands is killed somewhere between its start and a little after its end."""
    table = pl.read_csv("today.csv", try_parse_dates=True)
    rng = random.Random(0)
    whole = 0
    for number in range(KILLS):
        before = (here / "fleet.manyone").read_bytes()
        wanted = manyone.load("fleet.manyone").score(table)
        command = [sys.executable, "-m", "manyone", *COMMANDS[number % 3]]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.0, 4.0))
        process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        process.wait(60)
        model = manyone.load("fleet.manyone")  # whole, whatever happened
        if (here / "fleet.manyone").read_bytes() == before:
            assert model.score(table).equals(wanted)
        else:
            whole += 1
            (here / "fleet.manyone").write_bytes(before)
        if (here / "scores.csv").exists():
            assert len(pl.read_csv("scores.csv")) == len(table)
    assert (
        main(["score", "fleet.manyone", "today.csv", "--out", "scores.csv"]) == 0
    )  # no lock left
    assert whole < KILLS


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [15, pytest.param(200, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_a_watch_that_is_killed_counts_every_row_once(here, kills):
    """Whenever it is killed, what it leaves in the end is what a run without kills leaves."""
    ids = [3, 50, 120, 9999]
    answers = {"id": ids, "answer": ["normal", "fault", "normal", "later"]}
    pl.DataFrame(answers).write_csv("answers.csv")
    (here / "mute.csv").write_text("entity,until\npump 1,2026-01-20\n")
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(script), str(here), str(kills), "0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "runs completed" in done.stdout


def test_enrolments_at_the_same_time_are_both_there(here):
    table = pl.read_csv("today.csv")
    for number in (1, 2, 3):
        new = table[:10].with_columns(machine=pl.lit(f"new {number}"))
        new.write_csv(f"new{number}.csv")
    command = [sys.executable, "-m", "manyone", "enroll", "fleet.manyone"]
    running = [subprocess.Popen([*command, f"new{number}.csv"]) for number in (1, 2, 3)]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    tasks = manyone.load("fleet.manyone").tasks_.tolist()
    assert {"new 1", "new 2", "new 3"} <= set(tasks) and len(tasks) == 9
