"""All benchmarks, one after the other: ``make bench``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    broken = []
    for script in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"\n== {script.name}", flush=True)
        if subprocess.run([sys.executable, str(script), *sys.argv[1:]]).returncode:
            broken.append(script.name)
    if broken:
        sys.exit(f"\nnot finished, or a promise broken: {', '.join(broken)}")
