"""Commands killed at random moments leave what commands without kills leave."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import manyone


@pytest.mark.slow
@pytest.mark.parametrize("kills", [15, 200], ids=["some", "many"])
@pytest.mark.parametrize("what", ["commands", "watch", "month"])
def test_kills_lose_nothing(tmp_path, what, kills):
    script = Path(__file__).parents[1] / "killing.py"
    done = subprocess.run(
        [sys.executable, str(script), what, str(tmp_path), str(kills), "0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"{kills} kills: the same as without them" in done.stdout


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
