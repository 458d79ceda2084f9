"""The numeric tests as other machines would run them: ``make test-machines``.

Results must not depend on the processor, on the number of threads or on the examples
that hypothesis happens to draw. One axis is changed at a time: BLAS kernels
(``OPENBLAS_CORETYPE``), NumPy's own choice of instructions
(``NPY_DISABLE_CPU_FEATURES``), BLAS threads, and the seed of hypothesis. A kernel that
this processor cannot run is skipped, and the table at the end says so. On two cores all
of it takes less than half an hour.

``python tests/machines.py --sample`` takes one other kernel and one other seed, on the
solvers and the tests of order: a few minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
#: Where numbers are tested, and by which words: solvers against references, and
#: whatever says that two ways to the same model agree. Refits of whole methods that say
#: nothing new here are left out.
PATHS = (
    "tests/solvers",
    "tests/estimators",
    "tests/test_properties.py",
    "tests/test_torture.py",
)
NAMES = (
    *(
        "solvers",
        "order",
        "weight",
        "repetition",
        "removal",
        "twice",
        "translation",
        "rotation",
    ),
    *(
        "units",
        "constant",
        "left_out",
        "precomputed",
        "sparse_rows",
        "blocks",
        "independent",
    ),
)
#: What else than the solvers the sample takes.
FEW_NAMES = ("solvers", "order", "weight_one_task_huge")
#: Tests whose examples hypothesis draws.
DRAWN = ("tests/solvers", "tests/test_properties.py")
KERNELS = ("Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX")
# Enough to die of an instruction that the processor lacks.
PROBE = (
    "import numpy as np, scipy.linalg\n"
    "A = np.random.default_rng(0).normal(size=(300, 300))\n"
    "scipy.linalg.eigh(A @ A.T)\n"
)


class Machine(NamedTuple):
    """A configuration: its name, its environment, and what pytest runs."""

    name: str
    environment: dict[str, str]
    arguments: tuple[str, ...]


def chosen(paths: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return (*paths, "-k", " or ".join(names), "-m", "not slow")


def machines(sample: bool) -> list[Machine]:
    """All configurations, one axis at a time."""
    if sample:
        few = chosen(PATHS, FEW_NAMES)
        seed = "--hypothesis-seed=1"
        return [
            Machine("kernel Sandybridge", {"OPENBLAS_CORETYPE": "Sandybridge"}, few),
            Machine("seed 1", {}, (*chosen(DRAWN, FEW_NAMES), seed)),
        ]
    numeric = chosen(PATHS, NAMES)
    plain = {"NPY_DISABLE_CPU_FEATURES": " ".join(dispatched())}
    return [
        *(
            Machine(f"kernel {name}", {"OPENBLAS_CORETYPE": name}, numeric)
            for name in KERNELS
        ),
        Machine("NumPy without its dispatch", plain, numeric),
        Machine("1 BLAS thread", {"OPENBLAS_NUM_THREADS": "1"}, numeric),
        Machine(
            "2 BLAS threads", {"OPENBLAS_NUM_THREADS": "2"}, chosen(PATHS, FEW_NAMES)
        ),
        *(
            Machine(
                f"seed {seed}", {}, (*chosen(DRAWN, NAMES), f"--hypothesis-seed={seed}")
            )
            for seed in (1, 2, 3)
        ),
    ]


def dispatched() -> list[str]:
    """Features by which NumPy chooses instructions, if the processor has them."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]


def run(machine: Machine) -> str:
    """Run the tests of one configuration: "passed", "failed" or why it was skipped."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **machine.environment}
    probe = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True
    )
    if probe.returncode < 0:
        return f"skipped: this processor cannot run it (signal {-probe.returncode})"
    if probe.returncode:
        return f"failed: {probe.stderr.decode().strip().splitlines()[-1]}"
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]
    done = subprocess.run([*pytest, *machine.arguments], env=environment, cwd=ROOT)
    return (
        "passed"
        if done.returncode == 0
        else f"failed: pytest ended with {done.returncode}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", action="store_true", help="a few minutes' worth")
    results = []
    for machine in machines(parser.parse_args().sample):
        print(f"\n== {machine.name}", flush=True)
        start = time.perf_counter()
        results.append((machine.name, run(machine), time.perf_counter() - start))
    print("\n== machines")
    for name, outcome, seconds in results:
        print(f"{name:28s} {seconds:5.0f} s  {outcome}")
    return any(outcome.startswith("failed") for _, outcome, _ in results)


if __name__ == "__main__":
    sys.exit(main())
