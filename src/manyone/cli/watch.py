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
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from manyone.cli.common import InputError, examples, print_lines, progress
from manyone.cli.models import about, blocks_for, chosen_columns, load_model, refuse_same
from manyone.files import locked
from manyone.tablefiles import Block, check_place, read_table

if TYPE_CHECKING:
    import polars as pl

    from manyone.monitor import Monitor

_BATCH = 5000  # rows between two saves


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(epilog=examples(__doc__))(watch)


def watch(
    model: Annotated[Path, typer.Argument(help="File that manyone fit wrote.")],
    table: Annotated[Path, typer.Argument(help="Rows in the order of time; - is stdin.")],
    state: Annotated[Path, typer.Option(help="File for what has been seen; made if missing.")],
    out: Annotated[Path, typer.Option(help="CSV file that scores are appended to.")],
    id: Annotated[str | None, typer.Option(help="Column that names each row once.")] = None,
    feedback: Annotated[
        Path | None, typer.Option(help="Table of answers: the columns id and normal.")
    ] = None,
) -> None:
    """Raise alarms at the promised rate while things drift, and say that they do."""
    for option, path in (("--state", state), ("--out", out)):
        check_place(option, path)
        refuse_same(option, path, model, table, *([feedback] if feedback else []))
    if out.suffix != ".csv":
        raise InputError(f"--out {out}: rows are appended, which needs a .csv file.")
    if out.absolute() == state.absolute():
        raise InputError(f"--out and --state are both {out}. Name two files.")
    from manyone.monitor import Monitor

    found = load_model(model)
    with locked(state) if state.exists() else nullcontext():
        with about(state):
            monitor = Monitor(found, state=state)
        answers = _answers(feedback)
        told = _tell(monitor, answers)
        scores = _Scores(out, monitor)
        before = monitor.state.alarms.sum(), monitor.state.rows.sum()
        with progress("watching", "rows") as update:
            for block in _new_rows(monitor, blocks_for(found, table), table):
                scores.add(_watched(monitor, block, table, id))
                monitor.state.sources["tables"][table.name]["rows"] = block.first_row + len(
                    block.table
                )
                monitor.save_state(state)
                update(block.first_row + len(block.table), None)
        told += _tell(monitor, answers)
        monitor.save_state(state)
    alarms, rows = monitor.state.alarms.sum() - before[0], monitor.state.rows.sum() - before[1]
    _show(monitor, int(alarms), int(rows), told, len(answers))
    typer.echo(f"Scores: {out}")


def _new_rows(monitor: Monitor, blocks: Iterator[Block], source: Path) -> Iterator[Block]:
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


def _watched(monitor: Monitor, block: Block, source: Path, id: str | None) -> pl.DataFrame:
    """What the monitor says of rows it has not seen before, as a table."""
    import polars as pl

    from manyone.cli.models import task_columns
    from manyone.tables.frames import as_table, task_labels

    table, start = block.table, monitor.state.memory.count
    ids = [str(start + row) for row in range(len(table))]
    if id is not None:
        chosen_columns("--id", [id], table, source)
        column = table.get_column(id)
        if column.null_count():
            row = block.first_row + int(np.argmax(column.is_null().to_numpy()))
            raise InputError(f"{source}: row {row} has no value in the column {id}. Fill it in.")
        ids = column.cast(pl.String).to_list()
    time = monitor.model.time
    when = table.get_column(time).to_list() if time in table.columns else None
    first = {one: row for row, one in reversed(list(enumerate(ids)))}
    new = [monitor.state.memory.find(one) < 0 and first[one] == k for k, one in enumerate(ids)]
    with about(source, block.first_row):
        found = monitor.update(table, time=when, id=ids)
        labels = task_labels(as_table(table), task_columns(monitor.model))
    columns = {"id": ids, "task": [str(label) for label in labels], "score": found.score}
    columns |= {"p_value": found.p_value, "alarm": found.alarm, "drift": found.drift}
    return pl.DataFrame(columns).filter(pl.Series(new, dtype=pl.Boolean))


class _Scores:
    """A CSV file that is appended to; what the state does not know of is cut off."""

    def __init__(self, path: Path, monitor: Monitor) -> None:
        self.path, self.sizes = path, monitor.state.sources.setdefault("scores", {})
        known = self.sizes.get(path.name, 0) if path.exists() else 0
        size = path.stat().st_size if path.exists() else 0
        if size < known:
            raise InputError(
                f"--out {path} is shorter than when it was last written. Name a new file, or bring "
                "the old one back."
            )
        if size and not known:
            raise InputError(
                f"--out {path} is there, and the state knows nothing of it. Name a new file."
            )
        if size > known:
            os.truncate(path, known)
        self.sizes[path.name] = known

    def add(self, rows: pl.DataFrame) -> None:
        """Append rows, down to the disk."""
        begin = self.sizes[self.path.name] == 0
        with open(self.path, "ab") as stream:
            stream.write(rows.write_csv(include_header=begin).encode())
            stream.flush()
            os.fsync(stream.fileno())
            self.sizes[self.path.name] = stream.tell()


def _answers(path: Path | None) -> dict[str, bool]:
    """Answers by id."""
    if path is None:
        return {}
    table = read_table(path, find=["normal"])
    chosen_columns("--feedback", ["id", "normal"], table, path)
    normal = table.get_column("normal").to_list()
    for row, value in enumerate(normal):
        if value not in (0, 1, True, False):
            raise InputError(f"{path}: row {row}: normal is {value!r}. Give true or false.")
    return dict(zip(map(str, table.get_column("id").to_list()), map(bool, normal), strict=True))


def _tell(monitor: Monitor, answers: dict[str, bool]) -> int:
    """Answers about rows that are remembered; how many were used."""
    known = [one for one in answers if monitor.state.memory.find(one) >= 0]
    return monitor.feedback(known, normal=[answers[one] for one in known]) if known else 0


def _show(monitor: Monitor, alarms: int, rows: int, told: int, answers: int) -> None:
    """What was seen, what drifts since when, and what to do about it."""
    state, tasks = monitor.state, monitor.model.tasks_
    share = f", {100 * alarms / rows:.1f} %" if rows else ""
    typer.echo(f"{rows:,} new rows, {alarms:,} alarms{share} ({100 * state.rate:g} % promised)")
    if answers:
        typer.echo(f"{told:,} of {answers:,} answers were new")
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
    if state.fleet_flagged[0] >= 0:
        typer.echo("All tasks together drift: look at what they share (a sensor, an import).")


def _when(state: Any, t: int, what: str) -> str:
    return str(getattr(state, f"{what}_time")[t]) or f"its row {getattr(state, what)[t]}"


def _advice(state: Any, t: int) -> str:
    normal, abnormal = state.answers[t]
    if normal + abnormal < 1:
        return "look at its alarms, and answer some with --feedback"
    if normal >= abnormal:
        return "its rows have changed and are normal: manyone enroll them, start a new state"
    return "its alarms are real: mend it"
