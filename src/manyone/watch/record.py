"""The page of a store: rows, answers, incidents and drift of ``manyone watch``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Codes
from manyone.alerts.incidents import Findings, Incident
from manyone.alerts.values import Rows, Tasks
from manyone.messages import plural
from manyone.page.fleet import Drift, FleetReport
from manyone.page.fleet_page import MOST_ROWS
from manyone.tables.incidents import tasks_of
from manyone.tables.page import fleet_report
from manyone.watch.database import StoreError, sound
from manyone.watch.store import Line, Store, codes_by_name, is_number, read_store

if TYPE_CHECKING:
    from manyone.tables import TableModel

_COLUMNS = (
    "number, judged_row.id, task, time, moment, score, p_value, alarm, muted, "
    "reasons, incident, coalesce((SELECT answer FROM answer "
    "WHERE answer.id = judged_row.id ORDER BY answer.number DESC LIMIT 1), '') AS said"
)


def report_of_store(
    path: Path, model: TableModel, model_name: str, source: Path | None = None
) -> FleetReport:
    """Values of a page, all from a store.

    Parameters
    ----------
    path : Path
        Of the store. Another process may write to it meanwhile.
    model : TableModel
    model_name : str
    source : Path or None
        Only rows that were read from this file.

    Raises
    ------
    StoreError
        If there is no store, or it has no rows, or none of the file.
    ValueError
        If it belongs to another model.
    """
    with read_store(path) as store:
        store.monitor(model)  # refuses another model
        rows = _latest_rows(store, source)
        if len(rows) == 0:
            of_source = "" if source is None else f" of {source}"
            raise StoreError(
                f"{path} has no rows{of_source}: run manyone watch on them first."
            )
        with sound(path):
            findings = _findings(store, model, rows)
            drift = _drift(store)
            silent = _silent(store)
        total = store.last_row
    remarks: tuple[str, ...] = ()
    if len(rows) == MOST_ROWS < total:
        remarks = (f"The last {MOST_ROWS:,} of {plural(total, 'row')} are shown.",)
    name = path.name if source is None else source.name
    report = fleet_report(model, findings, model_name, name)
    return replace(report, drift=drift, remarks=remarks, silent=silent)


def _latest_rows(store: Store, source: Path | None) -> list[Line]:
    """The last rows of a store, or of a file, in their order."""
    of_file = "WHERE file IN (SELECT number FROM file WHERE path = :path)"
    rows = store.query(
        f"SELECT {_COLUMNS} FROM judged_row {of_file if source else ''} "
        "ORDER BY number DESC LIMIT :most",
        most=MOST_ROWS,
        path="" if source is None else str(source.resolve()),
    )
    return rows[::-1]


def _findings(store: Store, model: TableModel, stored: Sequence[Line]) -> Findings:
    """Rows and incidents of a store, as a page takes them."""
    model_codes = codes_by_name(model.tasks_.tolist())
    names = [row["task"] or "" for row in stored]
    unknown = sorted({*names} - {*model_codes})
    codes = model_codes | {name: len(model_codes) + k for k, name in enumerate(unknown)}
    task = np.array([codes[name] for name in names], dtype=np.intp)
    rows = _as_rows(stored, task)
    tasks = tasks_of(model, unknown)
    places: dict[str, list[int]] = {}
    for place, row in enumerate(stored):
        if row["incident"] is not None:
            places.setdefault(row["incident"], []).append(place)
    lines = store.query("SELECT * FROM incidents ORDER BY by_chance, id")
    incidents = [
        _incident(line, np.array(places[line["id"]]), tasks, rows)
        for line in lines
        if line["id"] in places
    ]
    rate = model.promised_rate_
    return Findings(tasks, rows, rate, found=tuple(incidents))


def _as_rows(stored: Sequence[Line], task: Codes) -> Rows:
    """Rows of a store in the form of scored rows of a table."""
    score = _values(stored, "score")
    moment = _values(stored, "moment")
    has_times = not np.isnan(moment).any()
    return Rows(
        number=_values(stored, "number").astype(np.intp) - 1,
        task=task,
        score=score,
        p_value=_values(stored, "p_value"),
        # Only finding incidents would need these, and the store has found them.
        rank_p=np.ones(len(stored)),
        depth_p=np.ones(len(stored)),
        alarm=np.array([row["alarm"] and row["muted"] is None for row in stored], bool),
        leading=("",) * len(stored),
        reasons=tuple(tuple(json.loads(row["reasons"] or "[]")) for row in stored),
        notes=tuple(_note(row) for row in stored),
        time=moment if has_times else None,
        dated=has_times and not is_number(stored[0]["time"]),
        ids=tuple(row["id"] for row in stored),
        answers=tuple(row["said"] for row in stored),
    )


def _note(row: Line) -> str:
    """The remark beside a row that raised an alarm."""
    if row["muted"] is not None:
        return f"muted: {row['muted']}"
    return f"incident {row['incident']}" if row["incident"] is not None else ""


def _incident(line: Line, places: Codes, tasks: Tasks, rows: Rows) -> Incident:
    task = int(rows.task[places[0]])
    depth = (tasks.threshold[task] - rows.score[places]) / tasks.unit[task]
    worst_first = places[np.lexsort((places, -depth))]
    when = rows.number if rows.time is None else rows.time
    return Incident(
        task=task,
        columns=tuple(filter(None, line["column"].split(", "))),
        alarms=tuple(worst_first.tolist()),
        rows=line["rows"],
        begin=float(when[places].min()),
        end=float(when[places].max()),
        by_chance=line["by_chance"],
        depth=float(np.nan_to_num(depth.max())),
        worst_row=line["worst_row"],
        reason=line["reason"],
        answer=line["answer"] or "",
    )


def _drift(store: Store) -> tuple[Drift, ...]:
    """Tasks that drift, in the order in which that was found."""
    lines = store.query(
        "SELECT name, drift_since, drift_moment FROM task "
        "WHERE drift_flagged IS NOT NULL ORDER BY drift_moment, name"
    )
    return tuple(
        Drift(
            np.nan if line["drift_moment"] is None else line["drift_moment"],
            f"{line['name']} drifts since about {line['drift_since']}",
        )
        for line in lines
    )


def _silent(store: Store) -> tuple[tuple[str, str], ...]:
    """Tasks of which no rows come any more, and the time of their last row."""
    lines = store.query(
        "SELECT task, latest FROM tasks WHERE silent IS NOT NULL ORDER BY silent, task"
    )
    return tuple((line["task"], line["latest"]) for line in lines)


def _values(stored: Sequence[Line], name: str) -> Array:
    """Numbers of rows, NaN where there is none."""
    return np.array([row[name] for row in stored], dtype=np.float64)
