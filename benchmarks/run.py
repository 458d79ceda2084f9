"""All promises in turn: ``make bench``, or ``python benchmarks/run.py [--studies]``.

Promises are ratios and bounds that one run shows; they take half an hour on two free
cores. ``--studies`` also runs the studies behind the figures of the documentation (real
data, many seeds, kills, streams). These take hours; the help of each says how long.
Exits with 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
PROMISES = (
    ("count_calls.py",),
    ("bench_import.py",),
    ("bench_latency.py",),
    ("bench_thresholds.py",),
    ("bench_checks.py",),
    ("bench_foundation.py",),
    ("bench_structure.py",),
    ("bench_rivals.py",),
    ("bench_scoring.py",),
    ("bench_landmarks.py",),
    ("bench_page.py",),
    ("bench_faults.py", "speed"),
    ("bench_scale.py",),
)
STUDIES = (
    ("bench_accuracy.py",),
    ("bench_alarm_rate.py",),
    ("bench_contenders.py",),
    ("bench_explanations.py",),
    ("bench_far_rows.py",),
    ("bench_faults.py",),
    ("bench_forward.py",),
    ("bench_history.py",),
    ("bench_incidents.py",),
    ("bench_promises.py",),
    ("bench_regimes.py",),
    ("bench_select.py",),
    ("bench_silence.py",),
    ("bench_store.py",),
    ("bench_table_sample.py",),
    ("bench_tables.py",),
    ("bench_time.py",),
    ("bench_together.py",),
    ("bench_transformers.py",),
    ("bench_two_layers.py",),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", action="store_true", help="the studies too: hours")
    studies = STUDIES if parser.parse_args().studies else ()
    broken = []
    for script, *words in (*PROMISES, *studies):
        print(f"\n== {' '.join([script, *words])}", flush=True)
        begin = time.monotonic()
        if subprocess.run([sys.executable, str(FOLDER / script), *words]).returncode:
            broken.append(script)
        print(f"({time.monotonic() - begin:.0f} s)", flush=True)
    if broken:
        print(f"\nnot finished, or a promise broken: {', '.join(broken)}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
