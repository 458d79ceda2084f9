"""A month in which runs are killed leaves what a month without kills leaves."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("kills", [15, 200], ids=["some", "many"])
def test_kills_lose_no_row_and_no_message(tmp_path, kills):
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(kills), "0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"{kills} kills: the same as without them" in done.stdout
