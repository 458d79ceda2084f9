"""Files with a forged checksum are refused, or loaded and harmless."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FORGING = Path(__file__).with_name("forging.py")
BATCH = 400


def outcomes(first, count):
    """What became of forged files, in a process of their own, which may crash."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(FORGING), str(first), str(count)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_forged_files_do_no_harm():
    counts = outcomes(0, BATCH)
    assert sum(counts.values()) == BATCH
    assert counts["refused"] > BATCH / 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(BATCH, 7 * BATCH, BATCH))
def test_two_thousand_forged_files_do_no_harm(first):
    assert sum(outcomes(first, BATCH).values()) == BATCH
