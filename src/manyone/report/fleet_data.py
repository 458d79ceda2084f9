"""What the script of the page of a table works on: plain lists, as short as the eye needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manyone._types import Array
from manyone.report.fleet import FleetReport
from manyone.report.incidents import Incident

#: Rows that a page holds at most, alarms and the lowest p-values first.
MOST_ROWS = 100_000
_WIDEST = 6.0  # what is drawn below the threshold, in steps from it to a typical row


def embedded(report: FleetReport, incidents: Sequence[Incident]) -> dict[str, Any]:
    """What the script of the page works on."""
    tasks, rows = report.tasks, report.rows
    counts = report.counts
    data: dict[str, Any] = {
        "rate": report.rate,
        "tasks": {
            "name": list(tasks.names),
            "basis": list(tasks.basis),
            "trained": tasks.trained.tolist(),
            "threshold": _short(tasks.threshold),
            "unit": _short(tasks.unit),
            "rows": counts[0].tolist(),
            "alarms": counts[1].tolist(),
            "chance": _short(report.by_chance, 3),
            "starts": tasks.starts.tolist(),
        },
        "left": _short(tasks.left_out),
        "domain": _domain(report),
    }
    if report.relations is not None:
        r = report.relations
        data["near"] = {
            "first": r.first.tolist(),
            "second": r.second.tolist(),
            "weight": _short(r.weight, 3),
        }
    if rows is None:
        return data
    kept = np.lexsort((rows.tail, rows.p_value, ~rows.alarm))[:MOST_ROWS]
    place = np.full(len(rows.task), -1)
    place[kept] = np.arange(len(kept))
    told = [k for k in kept.tolist() if rows.reasons[k]]
    data["reasons"] = [list(rows.reasons[k]) for k in told]
    data["notes"] = [rows.notes[k] for k in told]
    reason = np.full(len(rows.task), -1)
    reason[told] = np.arange(len(told))
    data["rows"] = {
        "number": rows.number[kept].tolist(),
        "task": rows.task[kept].tolist(),
        "score": _short(rows.score[kept]),
        "p": _short(rows.p_value[kept]),
        "alarm": rows.alarm[kept].astype(int).tolist(),
        "reason": reason[kept].tolist(),
    }
    if rows.time is not None:
        data["rows"]["time"] = rows.time[kept].tolist()
        data["dated"] = rows.dated
    data["incidents"] = {
        "task": [i.task for i in incidents],
        "column": [", ".join(i.columns) for i in incidents],
        "count": [len(i.alarms) for i in incidents],
        "chance": _short(np.array([i.by_chance for i in incidents]), 3),
        "depth": _short(np.array([i.depth for i in incidents]), 3),
        "rows": [[int(place[k]) for k in i.alarms if place[k] >= 0] for i in incidents],
        "begin": [i.begin for i in incidents],
        "end": [i.end for i in incidents],
    }
    return data


def _domain(report: FleetReport) -> list[float]:
    """What part of the scores is drawn, 0 being the threshold and 1 a typical normal row."""
    tasks = report.tasks
    owner = np.repeat(np.arange(len(tasks.names)), np.diff(tasks.starts))
    drawn = (tasks.left_out - tasks.threshold[owner]) / tasks.unit[owner]
    if report.rows is not None:
        rows = report.rows
        new = (rows.score - tasks.threshold[rows.task]) / tasks.unit[rows.task]
        drawn = np.concatenate([drawn, new])
    if not len(drawn):
        return [-1.0, 2.0]
    low, high = np.quantile(drawn, [0.005, 0.999])
    return [float(np.clip(low, -_WIDEST, -1.0)), float(np.clip(high, 1.5, 4.0))]


def _short(values: Array, digits: int = 5) -> list[float | None]:
    """Numbers as JSON has them, to a few digits."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values.tolist()]
