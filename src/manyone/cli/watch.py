"""``manyone watch``: rows in the order of time.

In a shell::

  manyone watch fleet.manyone monday.csv --state fleet.state --out watched.csv
  manyone watch fleet.manyone tuesday.csv --state fleet.state --out watched.csv   goes on
  manyone watch fleet.manyone rows.csv --state s --out watched.csv --id reading --feedback seen.csv

The feedback table has the columns ``id`` and ``normal``. A command that was killed goes on where it
was: run it again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from manyone.cli.common import InputError, examples, print_lines, progress
from manyone.cli.models import (
    Model,
    about,
    blocks_for,
    chosen_columns,
    load_model,
    refuse_same,
)
from manyone.files import locked
from manyone.messages import label_text, plural, shortlist, warn_user
from manyone.tablefiles import Block, check_place, read_table

if TYPE_CHECKING:
    import polars as pl

    from manyone.monitor import Monitor, Watched

_BATCH = 5000  # rows between two saves
_COLUMNS = ("id", "task", "score", "p_value", "alarm", "drift")
_HEADER = f"{','.join(_COLUMNS)}\n".encode()
_ALIKE = 0.5  # rows that count for less resemble the one before


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(epilog=examples(__doc__))(watch)


def watch(
    model: Model,
    table: Annotated[
        Path, typer.Argument(help="Rows in the order of time; - is stdin.")
    ],
    state: Annotated[
        Path, typer.Option(help="File for what has been seen; made if missing.")
    ],
    out: Annotated[Path, typer.Option(help="CSV file that scores are appended to.")],
    id: Annotated[
        str | None, typer.Option(help="Column that names each row once.")
    ] = None,
    feedback: Annotated[
        Path | None, typer.Option(help="Table of answers: the columns id and normal.")
    ] = None,
) -> None:
    """Raise alarms at the promised rate while things drift.

    And say which do, and since when.
    """
    for option, path in (("--state", state), ("--out", out)):
        check_place(option, path)
        refuse_same(option, path, model, table, *([feedback] if feedback else []))
    if out.suffix != ".csv":
        raise InputError(f"--out {out}: rows are appended, which needs a .csv file.")
    if out.absolute() == state.absolute():
        raise InputError(f"--out and --state are both {out}. Name two files.")
    from manyone.monitor import Monitor

    found = load_model(model)
    with ExitStack() as stack:
        begun = state.exists()
        if begun:
            stack.enter_context(locked(state))
        with about(state):
            monitor = Monitor(found, state=state if begun else None)
        answers = _answers(feedback)
        told = _tell(monitor, answers)
        scores, totals = _Scores(out, monitor), _Totals()
        with progress("watching", "rows") as update:
            for block in _new_rows(monitor, blocks_for(found, table), table):
                rows = _watched(monitor, block, table, id, totals)
                if not begun:
                    _begin(state, found, out)
                    stack.enter_context(locked(state))
                    begun = True
                scores.add(rows)
                seen = block.first_row + len(block.table)
                monitor.state.sources["tables"][table.name]["rows"] = seen
                monitor.save_state(state)
                update(seen, None)
        told += _tell(monitor, answers)
        monitor.save_state(state)
    totals.show(monitor, table)
    _show_answers(monitor, answers, told, out)
    _show_drift(monitor)
    if out.exists():
        typer.echo(f"Scores: {out}")


def _begin(state: Path, model: Any, out: Path) -> None:
    """The first state, which only one process can make; it knows the file of scores."""
    from manyone.monitor import MonitorState

    first = MonitorState.start(model)
    first.sources["scores"] = {out.name: 0}
    try:
        first.save(state, new=True)
    except FileExistsError:
        raise InputError(
            f"{state} has just been made by another process. Try again when that is done."
        ) from None


@dataclass
class _Totals:
    """What is told about the rows of one command."""

    rows: int = 0
    alarms: int = 0
    repeated: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    late: list[int] = field(default_factory=list)

    def count(self, found: Watched, labels: list[str]) -> None:
        """Count rows, those whose id was seen before apart."""
        new = found.new
        self.rows += int(new.sum())
        self.alarms += int(found.alarm[new].sum())
        self.repeated += int((~new).sum())
        self.unknown.update(
            labels[row] for row in np.flatnonzero(new & ~found.known).tolist()
        )

    def show(self, monitor: Monitor, source: Path) -> None:
        """Rows and alarms on stdout, what looks wrong with them on stderr."""
        share = f", {100 * self.alarms / self.rows:.1f} %" if self.rows else ""
        promised = f"{100 * monitor.state.rate:g} % promised"
        alarms = plural(self.alarms, "alarm")
        typer.echo(f"{plural(self.rows, 'new row')}, {alarms}{share} ({promised})")
        if self.repeated:
            typer.echo(
                f"{plural(self.repeated, 'row')} with an id that came before, counted once"
            )
        if self.unknown:
            names = shortlist(list(self.unknown), 3)
            typer.echo(
                f"{plural(self.unknown.total(), 'row')} of tasks never seen ({names}): compared "
                "with all tasks, nothing is learned from them; manyone enroll makes tasks known"
            )
        if self.late:
            warn_user(
                f"{source}: row {self.late[0]} is older than a row of its task before it "
                f"({plural(len(self.late), 'such row')}). Rows were taken as they came: sort the "
                f"table by {monitor.model.time}."
            )


def _new_rows(
    monitor: Monitor, blocks: Iterator[Block], source: Path
) -> Iterator[Block]:
    """Batches of rows that were not watched before; the same file is known by its first row."""
    tables = monitor.state.sources.setdefault("tables", {})
    done = -1
    for block in blocks:
        if done < 0:
            first = hashlib.sha256(repr(block.table.row(0)).encode()).hexdigest()[:16]
            known = tables.get(source.name, {})
            if known.get("first") != first or str(source) == "-":
                known = tables[source.name] = {"first": first, "rows": 0}
            done = known["rows"]
        for start in range(0, len(block.table), _BATCH):
            part = block.table[start : start + _BATCH]
            at = block.first_row + start
            if at + len(part) > done:
                skip = max(done - at, 0)
                yield Block(part[skip:], at + skip, block.done)


def _watched(
    monitor: Monitor, block: Block, source: Path, id: str | None, totals: _Totals
) -> pl.DataFrame:
    """What the monitor says of rows it has not seen before, as a table."""
    import polars as pl

    from manyone.tables.frames import as_table, task_labels

    table, start = block.table, monitor.state.memory.count
    ids = [str(start + row) for row in range(len(table))]
    if id is not None:
        chosen_columns("--id", [id], table, source)
        _refuse_gaps(id, table, source, block.first_row)
        ids = table[id].cast(str).to_list()
    time = monitor.model.time
    when = table.get_column(time).to_list() if time in table.columns else None
    with about(source, block.first_row):
        found = monitor.update(table, time=when, id=ids)
        known = task_labels(as_table(table), monitor.model.task_columns)
    labels = [label_text(label) for label in known.tolist()]
    totals.count(found, labels)
    if time in table.columns:
        late = _late(
            monitor, table, labels, np.flatnonzero(found.new & found.known).tolist()
        )
        totals.late += [block.first_row + row for row in late]
    said = found.score, found.p_value, found.alarm, found.drift
    tasks = [None if label is None else str(label) for label in known.tolist()]
    columns = dict(zip(_COLUMNS, (ids, tasks, *said), strict=True))
    return pl.DataFrame(columns).filter(pl.Series(found.new))


def _late(
    monitor: Monitor, table: pl.DataFrame, labels: list[str], rows: list[int]
) -> Iterator[int]:
    """Rows that are older than a row of their task before them."""
    from manyone.tables.frames import as_table, as_times, read_column

    times = as_times(
        read_column(as_table(table).get_column(monitor.model.time))
    ).tolist()
    latest = monitor.state.sources.setdefault("latest", {})
    for row in rows:
        if times[row] < latest.get(labels[row], -np.inf):
            yield row
        elif times[row] == times[row]:  # not missing
            latest[labels[row]] = times[row]


def _like_scores(path: Path) -> bool:
    """Whether a file begins as scores do, however little of them was written."""
    with open(path, "rb") as stream:
        return _HEADER.startswith(stream.read(len(_HEADER)))


class _Scores:
    """A CSV file that is appended to; what the state does not know of is cut off."""

    def __init__(self, path: Path, monitor: Monitor) -> None:
        self.path, self.sizes = path, monitor.state.sources.setdefault("scores", {})
        begun, known, there = (
            path.name in self.sizes,
            self.sizes.get(path.name, 0),
            path.exists(),
        )
        if known and not there:
            warn_user(
                f"--out {path} is gone: only new rows are written to it. For all of them, bring it "
                "back or start with a new --state."
            )
        self.sizes[path.name] = known = known if there else 0
        size = path.stat().st_size if there else 0
        if size < known:
            raise InputError(
                f"--out {path} is shorter than when it was last written. Name a new file, or bring "
                "the old one back."
            )
        if size and not known and not (begun and _like_scores(path)):
            raise InputError(
                f"--out {path} is there, and the state knows nothing of it. Name a new file."
            )
        if size > known:
            os.truncate(path, known)

    def add(self, rows: pl.DataFrame) -> None:
        """Append rows, down to the disk."""
        with open(self.path, "ab") as stream:
            stream.write(b"" if self.sizes[self.path.name] else _HEADER)
            stream.write(rows.write_csv(include_header=False).encode())
            stream.flush()
            os.fsync(stream.fileno())
            self.sizes[self.path.name] = stream.tell()


def _answers(path: Path | None) -> dict[str, bool]:
    """Answers by id."""
    if path is None:
        return {}
    from manyone.tables.frames import as_table, read_yes_no

    table = read_table(path, find=["normal"])
    chosen_columns("--feedback", ["id", "normal"], table, path)
    for name in ("id", "normal"):
        _refuse_gaps(name, table, path)
    with about(path):
        normal = read_yes_no(as_table(table), "normal").tolist()
    answers: dict[str, bool] = {}
    for row, (one, value) in enumerate(
        zip(table["id"].cast(str).to_list(), normal, strict=True)
    ):
        if answers.setdefault(one, value) != value:
            raise InputError(
                f"{path}: row {row}: id {one} is called normal and not. Keep one."
            )
    return answers


def _refuse_gaps(
    name: str, table: pl.DataFrame, source: Path, first_row: int = 0
) -> None:
    """Refuse a column with empty fields."""
    if len(lost := table[name].is_null().arg_true()):
        row = first_row + lost[0]
        raise InputError(
            f"{source}: row {row} has no value in the column {name}. Fill it in."
        )


def _tell(monitor: Monitor, answers: dict[str, bool]) -> int:
    """Answers about rows that are remembered; how many were used."""
    known = [one for one in answers if monitor.state.memory.find(one) >= 0]
    return (
        monitor.feedback(known, normal=[answers[one] for one in known]) if known else 0
    )


def _show_answers(
    monitor: Monitor, answers: dict[str, bool], told: int, out: Path
) -> None:
    """What became of the answers."""
    if answers:
        typer.echo(f"{told:,} of {len(answers):,} answers were new")
    lost = [one for one in answers if monitor.state.memory.find(one) < 0]
    if lost:
        warn_user(
            f"Of {len(answers):,} answers, {len(lost):,} name an id that is not among the last "
            f"100,000 rows, as {shortlist(lost, 3)}. Give the ids of {out}."
        )


def _show_drift(monitor: Monitor) -> None:
    """What drifts since when, and what to do about it."""
    from manyone.monitor.martingale import weights_of_rows

    state, tasks = monitor.state, monitor.model.tasks_
    drifting = np.flatnonzero(state.flagged >= 0)
    if not len(drifting):
        typer.echo("Nothing drifts.")
        return
    lines = []
    for t in drifting[np.argsort(-state.most[drifting])][:20]:
        when = [_when(state, t, what) for what in ("since", "flagged")]
        lines.append((str(tasks[t]), *when, _advice(state, t)))
    print_lines("Drifting", ("task", "since about", "flagged", "what to do"), lines)
    if len(drifting) > len(lines):
        typer.echo(f"The {len(lines)} clearest of {len(drifting)} tasks.")
    if np.median(weights_of_rows(state.neighbours)) < _ALIKE:
        typer.echo(
            "Rows resemble the one before them, so flags are less sure: watch fewer, every tenth "
            "or means over an hour."
        )
    whole = f"Taken together, the {len(tasks):,} tasks"
    chance = f"chance, which flags one quiet task in {1 / state.drift_level:.0f}."
    if state.fleet_flagged[0] < 0:
        typer.echo(f"{whole} do not drift: a flag may be {chance}")
    elif 2 < len(tasks) < 2 * len(drifting):
        typer.echo("Most tasks drift: look at what they share (a sensor, an import).")
    else:
        typer.echo(f"{whole} drift too: this is not {chance}")


def _when(state: Any, t: int, what: str) -> str:
    time = str(getattr(state, f"{what}_time")[t]).replace("T", " ")
    return re.sub(r"\.0+$", "", time) or f"its row {getattr(state, what)[t]}"


def _advice(state: Any, t: int) -> str:
    normal, abnormal = state.answers[t]
    if normal + abnormal < 1:
        return "look at its alarms, and answer some with --feedback"
    if normal >= abnormal:
        return (
            "if its rows since then are normal: manyone enroll them, start a new state"
        )
    return "its alarms are real: mend it"
