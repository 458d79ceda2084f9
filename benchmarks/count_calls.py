"""Number of functions of the package that a call enters, beside its upper limit.

Run ``python benchmarks/count_calls.py [--list]``. A function counts if it has a name
and is entered at least once, in any thread; lambdas and generator expressions belong to
the function around them. A first call, which is not counted, does lazy imports and
fills caches. Files are shown, not counted. Exits with 1
where a call enters more functions than its ratchet allows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

import manyone
from manyone import JointOCKSR, NonlinearOCKSR
from manyone.cli import main as run_command
from manyone.tables import forecast

SOURCE = str(Path(manyone.__file__).parent)


@dataclass(frozen=True)
class Limit:
    """How many functions a call may enter.

    Attributes
    ----------
    aim : int
        What is promised.
    ratchet : int
        What was reached: more is refused. It only goes down, and ends at the aim.
    """

    aim: int
    ratchet: int


# Ratchets were set anew with the rule that tasks borrow by (some 40 functions of
# calibration), with history, forward checks, silent tasks and seasons of tables, and
# with units that a left-out row has no part in (three to six functions). Then again:
# rows made ready for a kernel once for all tasks, and runs in time (five to ten
# functions); and columns of the past in fewer passes (eight functions of a fit). And
# with left-out scores on equal terms in closed form, and limits inside of borrowed
# p-values (four to six functions). And with two layers that iterate in the order of
# content (five functions).
LIMITS = {
    "JointOCKSR().fit": Limit(48, 102),
    "NonlinearOCKSR().fit": Limit(75, 147),
    "JointOCKSR(landmarks=).fit": Limit(80, 170),
    "manyone fit": Limit(230, 627),
    "manyone score": Limit(125, 306),
}


def entered(call: Callable[[], object]) -> set[CodeType]:
    """Code objects of the named functions of the package that `call` enters."""
    codes: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        named = not code.co_name.startswith("<")
        if event == "call" and named and code.co_filename.startswith(SOURCE):
            codes.add(code)

    threading.setprofile(profile)  # of threads that the call starts
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return codes


def command(*words: str) -> None:
    """Run a command of ours, without its words on the terminal."""
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        code = run_command(words)
    if code:
        raise RuntimeError(f"manyone {' '.join(words)}: {silence.getvalue()}")


def calls_to_count(folder: Path) -> dict[str, Callable[[], object]]:
    """The calls by their names in `LIMITS`; commands run on the tables of the demo."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), 25)
    X = rng.normal(size=(10, 8))[task] * 6.0 + rng.normal(size=(250, 8))
    joint = JointOCKSR(landmarks=50, random_state=0)
    command("demo", "--out", str(folder))
    events = str(folder / "events.csv")
    today = str(folder / "today.csv")
    model = str(folder / "fleet.manyone")
    scores = str(folder / "scores.csv")
    # Whether a fit is announced depends on how busy the machine is.
    forecast._LEAST_SECONDS = float("inf")
    return {
        "JointOCKSR().fit": lambda: JointOCKSR().fit(X, task=task),
        "NonlinearOCKSR().fit": lambda: NonlinearOCKSR().fit(X, task=task),
        "JointOCKSR(landmarks=).fit": lambda: joint.fit(X, task=task),
        "manyone fit": lambda: command(
            "fit", events, "--task", "machine", "--time", "when", "--out", model
        ),
        "manyone score": lambda: command(
            "score", model, today, "--explain", "3", "--out", scores
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--list", action="store_true", help="also print the names, file by file"
    )
    listed = parser.parse_args().list
    warnings.simplefilter("ignore")
    broken = False
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls_to_count(Path(folder)).items():
            call()  # not counted
            codes = entered(call)
            files = sorted({code.co_filename for code in codes})
            limit = LIMITS[name]
            verdict = "met" if len(codes) <= limit.aim else "not yet met"
            if len(codes) > limit.ratchet:
                verdict = f"WORSE than the {limit.ratchet} that were reached"
                broken = True
            print(
                f"{name:<28}{len(codes):>4} functions, at most {limit.aim} promised: "
                f"{verdict} ({len(files)} files)"
            )
            for file in files if listed else ():
                names = sorted(c.co_qualname for c in codes if c.co_filename == file)
                print(f"    {Path(file).relative_to(SOURCE)}: {', '.join(names)}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
