"""``manyone demo``: the whole path on an example table, from readings to a page.

In a shell::

  manyone demo             about half a minute; everything lands in the folder demo
  manyone demo --out DIR   somewhere else
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import jinja2  # noqa: F401 - if it is missing, fail now and not at the last step
import numpy as np
import polars as pl
import typer

from manyone._types import Array, Codes
from manyone.cli.common import InputError, check_folder
from manyone.cli.fit import fit
from manyone.cli.run import run
from manyone.cli.score import evaluate, report, score
from manyone.datasets import make_fleet
from manyone.tablefiles import table_writer

_SENSORS = {  # name: usual value, size of an ordinary deviation
    "temperature": (62.0, 2.5),
    "pressure": (4.8, 0.12),
    "flow": (310.0, 9.0),
    "vibration": (1.9, 0.15),
    "current": (14.2, 0.6),
    "speed": (1480.0, 12.0),
}
_MACHINES = 16
_ROWS = 30
_TODAY = 20
_FEW = 10  # rows of the last machine that is known
_NEW = 2  # machines of which there is no row before today
_BROKEN = {  # machines, from the middle of today on
    2: ("vibration", "current"),
    6: ("temperature", "pressure"),
    9: ("flow", "speed"),
}

# Files and a folder that the demo writes anew.
_REPLACED = (
    *("events.csv", "today.csv", "fleet.manyone", "fleet.state", "fleet.toml"),
    *("scores.csv", "page.html", "week.html", "inbox"),
)
_CONFIG = """\
[data]
model = "fleet.manyone"
state = "fleet.state"
table = "inbox/*.csv"

[watch]
id = "reading"

[report]
out = "week.html"
"""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that it writes.")] = Path(
        "demo"
    ),
) -> None:
    """Run the whole path on an example table.

    Readings of a fleet, raw and with gaps: a model is fitted, today's readings are
    scored, a page shows the alarms, and the same readings are watched as they come.
    """
    check_folder("--out", out)
    config = out / "fleet.toml"
    _refuse_other_files(out, config)
    out.mkdir(parents=True, exist_ok=True)
    events = out / "events.csv"
    today = out / "today.csv"
    model = out / "fleet.manyone"
    scores = out / "scores.csv"
    page = out / "page.html"
    known, seen = example_tables()
    for table, path in ((known, events), (seen, today)):
        with table_writer(path) as add:
            add(table)
    machines = known["machine"].n_unique()
    new = seen["machine"].n_unique() - machines
    config.write_text(_CONFIG, encoding="utf-8")
    typer.echo(
        f"Readings of {machines} machines: {events}. {_TODAY} more of each, and of {new} "
        f"new ones: {today}\n"
    )
    _say("fit", events, "--task", "machine", "--time", "when", "--out", model)
    fit(task=["machine"], out=model, table=events, time="when")
    _say("score", model, today, "--out", scores, "--explain", 3, "--keep", "when")
    score(model, scores, today, explain=3, keep=["when"])
    _say("evaluate", model, today, "--outlier", "fault")
    evaluate(model, "fault", today)
    _say("report", model, today, "--out", page)
    report(model, today, page)
    _run_week(out, today, config)


def _refuse_other_files(out: Path, config: Path) -> None:
    """Refuse a folder with files of the same names that no demo has written."""
    if config.exists() and config.read_text("utf-8", "replace") == _CONFIG:
        return
    for name in _REPLACED:
        if (out / name).exists():
            raise InputError(
                f"--out {out}: the demo would replace {name}, which is there already. "
                "Name another folder."
            )


def _run_week(out: Path, today: Path, config: Path) -> None:
    """Watch the same readings day by day, as a scheduler would."""
    inbox = out / "inbox"
    inbox.mkdir(exist_ok=True)
    for name in ("fleet.state", "fleet.state-wal", "fleet.state-shm"):
        (out / name).unlink(missing_ok=True)
    readings = pl.read_csv(today).drop("fault")
    typer.echo(f"\nThe same readings as they come, day by day, by {config}:")
    for path in inbox.glob("*.csv"):
        path.unlink()
    for (day,), rows in readings.group_by(
        pl.col("when").str.slice(0, 10), maintain_order=True
    ):
        with table_writer(inbox / f"{day}.csv") as add:
            add(rows)
        _say("run", config)
        with suppress(typer.Exit):  # with code 3 if something stands out
            run(config)


def _say(*words: object) -> None:
    typer.echo(f"\n$ manyone {' '.join(shlex.quote(str(word)) for word in words)}")


def example_tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Normal readings of a fleet, and today's: single faults, three broken machines.

    Times, categories, a counter, a constant, free text and gaps: as a table nobody
    prepared. The last two machines have no reading before today, the one before them
    has few.

    Returns
    -------
    events, today : polars.DataFrame
    """
    fleet: Any = make_fleet(
        _MACHINES,
        _ROWS,
        len(_SENSORS),
        n_test=_TODAY,
        fault_rate=0.05,
        fault_size=8.0,
        fault="own",
        random_state=0,
    )
    for machine, sensors in _BROKEN.items():
        rows = np.flatnonzero(fleet.test_task == machine)[_TODAY // 2 :]
        for number in map(list(_SENSORS).index, sensors):
            spread = np.sqrt(fleet.covariance[machine, number, number])
            fleet.test_data[rows, number] += 8.0 * spread
        fleet.test_fault[rows] = True
    rng = np.random.default_rng(0)
    start = datetime(2026, 10, 5)
    events = _readings(fleet.data, fleet.task, fleet.machine_type, start, rng)
    today = _readings(
        fleet.test_data, fleet.test_task, fleet.machine_type, datetime(2026, 11, 2), rng
    )
    place = np.arange(len(events)) % _ROWS
    has_all = fleet.task < _MACHINES - _NEW - 1
    has_few = (fleet.task == _MACHINES - _NEW - 1) & (place < _FEW)
    events = events.filter(pl.Series(has_all | has_few))
    return events.sort("when"), today.with_columns(
        fault=pl.Series(fleet.test_fault)
    ).sort("when")


def _readings(
    X: Array, machine: Codes, kind: Codes, start: datetime, rng: np.random.Generator
) -> pl.DataFrame:
    """Rows of sensors as somebody would write them down, by machine and in order."""
    n = len(X)
    names = ("press", "lathe", "pump")
    minutes = rng.permutation(5 * 24 * 60)[:n]
    minutes = minutes[np.lexsort((minutes, machine))]
    columns: dict[str, object] = {
        "when": [(start + timedelta(minutes=int(m))).isoformat(" ") for m in minutes],
        "machine": [f"{names[kind[m]]} {m + 1}" for m in machine],
        "hall": "north",
        "shift": np.array(["early", "late", "night"])[minutes // 480 % 3],
    }
    for (name, (usual, deviation)), values in zip(_SENSORS.items(), X.T, strict=True):
        written = np.round(usual + deviation * values, 3).tolist()
        columns[name] = [v if rng.uniform() > 0.02 else None for v in written]
    notes = np.array(
        [None, "oil changed", "ok", "checked by Jo", "door open, closed it"]
    )
    columns["note"] = rng.choice(notes, n, p=[0.8, 0.05, 0.05, 0.05, 0.05]).tolist()
    return pl.DataFrame(columns).with_columns(
        pl.Series("reading", 7000 + np.argsort(np.argsort(minutes)))
    )
