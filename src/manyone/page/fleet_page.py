"""The page of a model and a scored table: values in, one self-contained page out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from manyone._types import Array, Codes
from manyone.alerts.incidents import Findings
from manyone.alerts.values import Rows
from manyone.page.fleet import Bin, FleetReport, task_map, time_line, totals_of
from manyone.page.html import packed_json, templates

_STATIC = 12  # lines of a list without script
#: Rows that a page holds at most, alarms and the lowest p-values first.
MOST_ROWS = 100_000
# Steps that are drawn below the threshold; one step is that to a typical normal row.
_WIDEST = 6.0


def fleet_page(report: FleetReport) -> str:
    """HTML that loads nothing from elsewhere.

    Parameters
    ----------
    report : FleetReport

    Returns
    -------
    str
        Readable without script. With it, lists of any length are searched and sorted,
        and a task opens on a click.
    """
    findings = report.findings
    totals: dict[str, float] = {}
    bins: list[Bin] = []
    worst = np.arange(len(report.tasks.names))
    if findings is not None:
        totals = totals_of(findings, report.rate)
        worst = np.lexsort((-findings.counts[1], findings.by_chance))
        if findings.rows.time is not None:
            bins = time_line(findings, report.drift)
    square = None
    if report.relations is not None and len(report.relations.weight):
        square = task_map(report.relations, report.tasks.names)
    template = templates("manyone.page").get_template("fleet_page.html")
    text = template.render(
        report=report,
        totals=totals,
        bins=bins,
        worst=worst.tolist(),
        square=square,
        lines=_STATIC,
        most_rows=MOST_ROWS,
        data=packed_json(embedded(report)),
    )
    return text.lstrip()


def embedded(report: FleetReport) -> dict[str, Any]:
    """What the script of the page works on: plain lists of short numbers."""
    tasks = report.tasks
    data: dict[str, Any] = {
        "rate": report.rate,
        "tasks": {
            "name": list(tasks.names),
            "basis": list(tasks.basis),
            "trained": tasks.trained.tolist(),
            "threshold": _short(tasks.threshold),
            "unit": _short(tasks.unit),
            "starts": tasks.starts.tolist(),
        },
        "left": _short(tasks.left_out),
        "domain": _domain(report),
    }
    if report.relations is not None:
        data["near"] = {
            "first": report.relations.first.tolist(),
            "second": report.relations.second.tolist(),
            "weight": _short(report.relations.weight, 3),
        }
    findings = report.findings
    if findings is None:
        return data
    rows = findings.rows
    order = np.lexsort((rows.depth_p, rows.p_value, ~rows.alarm))[:MOST_ROWS]
    explained = [row for row in order.tolist() if rows.notes[row]]
    data["tasks"] |= _task_counts(findings)
    data["reasons"] = [list(rows.reasons[row]) for row in explained]
    data["notes"] = [rows.notes[row] for row in explained]
    data["rows"] = _row_values(rows, order, explained)
    if rows.time is not None:
        data["dated"] = rows.dated
    data["incidents"] = _incident_values(findings, order)
    # Answers that a browser keeps belong to this very page.
    data["key"] = sha256(json.dumps(data).encode()).hexdigest()[:16]
    return data


def _task_counts(findings: Findings) -> dict[str, list[Any]]:
    """What the rows of a table say about tasks."""
    outstanding = {incident.task for incident in findings.outstanding}
    return {
        "rows": findings.counts[0].tolist(),
        "alarms": findings.counts[1].tolist(),
        "chance": _short(findings.by_chance, 3),
        "outstanding": [
            task in outstanding for task in range(len(findings.tasks.names))
        ],
    }


def _row_values(
    rows: Rows, shown: Codes, explained: Sequence[int]
) -> dict[str, list[Any]]:
    """Rows that are shown, in order; `reason` is a place among those explained."""
    reason = np.full(len(rows.task), -1)
    reason[explained] = np.arange(len(explained))
    values: dict[str, list[Any]] = {
        "number": rows.number[shown].tolist(),
        "task": rows.task[shown].tolist(),
        "score": _short(rows.score[shown]),
        "p": _short(rows.p_value[shown]),
        "alarm": rows.alarm[shown].astype(int).tolist(),
        "reason": reason[shown].tolist(),
    }
    if rows.ids is not None:
        values["id"] = [rows.ids[row] for row in shown.tolist()]
    if rows.answers:
        values["answer"] = [rows.answers[row] for row in shown.tolist()]
    if rows.time is not None:
        values["time"] = rows.time[shown].tolist()
    return values


def _incident_values(findings: Findings, shown: Codes) -> dict[str, list[Any]]:
    """Incidents, with the places of their alarms among the rows that are shown."""
    incidents = findings.incidents
    place = np.full(len(findings.rows.task), -1)
    place[shown] = np.arange(len(shown))
    return {
        "task": [incident.task for incident in incidents],
        "column": [", ".join(incident.columns) for incident in incidents],
        "count": [len(incident.alarms) for incident in incidents],
        "chance": _short(np.array([incident.by_chance for incident in incidents]), 3),
        "outstanding": [incident.is_outstanding for incident in incidents],
        "rows": [
            [row for row in place[[*incident.alarms]].tolist() if row >= 0]
            for incident in incidents
        ],
        "begin": [incident.begin for incident in incidents],
        "end": [incident.end for incident in incidents],
    }


def _domain(report: FleetReport) -> list[float]:
    """Range of scores that is drawn; 0 is the threshold and 1 a typical normal row."""
    tasks = report.tasks
    owner = np.repeat(np.arange(len(tasks.names)), np.diff(tasks.starts))
    drawn = (tasks.left_out - tasks.threshold[owner]) / tasks.unit[owner]
    if report.findings is not None:
        rows = report.findings.rows
        new = (rows.score - tasks.threshold[rows.task]) / tasks.unit[rows.task]
        drawn = np.concatenate([drawn, new])
    drawn = drawn[np.isfinite(drawn)]  # some tasks have no threshold
    if len(drawn) == 0:
        return [-1.0, 2.0]
    low, high = np.quantile(drawn, [0.005, 0.999])
    return [float(np.clip(low, -_WIDEST, -1.0)), float(np.clip(high, 1.5, 4.0))]


def _short(values: Array, digits: int = 5) -> list[float | None]:
    """Numbers for JSON, to a few digits; None for those that JSON does not have."""
    return [
        float(f"{value:.{digits}g}") if np.isfinite(value) else None
        for value in values.tolist()
    ]
