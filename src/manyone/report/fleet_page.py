"""The page of a model and a scored table: values in, one self-contained page out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from manyone._types import Array
from manyone.plots.structure import clustered
from manyone.report.advice import STANDS_OUT, advice
from manyone.report.chance import band_of, chance_of
from manyone.report.fleet import FleetReport, Relations
from manyone.report.page import Page, Section, render, sentence, templates

_STATIC = 12  # lines of a list without script
_BINS = 60
_ON_MAP = 32
#: Rows that a page holds at most, alarms and the lowest p-values first.
MOST_ROWS = 100_000
_WIDEST = 6.0  # steps that are drawn below the threshold; one step is that to a typical normal row


def fleet_page(report: FleetReport) -> str:
    """HTML that loads nothing from elsewhere.

    Parameters
    ----------
    report : FleetReport

    Returns
    -------
    str
        Readable without script; with it, lists of any length are searched and sorted, and a task
        opens on a click.
    """
    say: Any = templates("manyone.report").get_template("fleet.html").module
    sections = []
    if report.rows is not None:
        summary = Summary.of(report)
        over_time = (
            say.over_time(time_line(report), report)
            if report.rows.time is not None
            else ""
        )
        said = say.gaps(report.gaps), say.remarks(report.remarks)
        shown = (say.alarms(summary, report), over_time, *said)
        sections.append(Section("alarms", "Alarms", shown))
        lines = say.incidents(report.incidents[:_STATIC], report, len(report.incidents))
        sections.append(Section("incidents", "Incidents", (lines,)))
        title = sentence("manyone.report", "fleet.html", "headline", summary)
    else:
        sections.append(Section("model", "The model", (say.model(report),)))
        title = sentence("manyone.report", "fleet.html", "model_headline", report)
    worst = np.lexsort((-report.counts[1], report.by_chance))[:_STATIC].tolist()
    sections.append(Section("tasks", "Tasks", (say.tasks(worst, report),)))
    if report.rows is not None:
        sections.append(Section("rows", "Rows", (say.rows(report, MOST_ROWS),)))
    if report.relations is not None and len(report.relations.weight):
        shown = say.relations(task_map(report), report)
        sections.append(Section("related", "Related tasks", (shown,)))
    for section, introduction, table in report.tables:
        sections.append(
            Section(section.split()[0].lower(), section, (introduction, table))
        )
    sections.append(
        Section("next", "What to do next", (say.next_steps(advice(report)),))
    )
    return render(
        Page(title, say.intro(report), tuple(sections), "fleet", embedded(report))
    )


def embedded(report: FleetReport) -> dict[str, Any]:
    """What the script of the page works on: plain lists, with as many digits as the eye needs."""
    tasks, rows, counts = report.tasks, report.rows, report.counts
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
        "task": [i.task for i in report.incidents],
        "column": [", ".join(i.columns) for i in report.incidents],
        "count": [len(i.alarms) for i in report.incidents],
        "chance": _short(np.array([i.by_chance for i in report.incidents]), 3),
        "depth": _short(np.array([i.depth for i in report.incidents]), 3),
        "rows": [
            [int(place[k]) for k in i.alarms if place[k] >= 0] for i in report.incidents
        ],
        "begin": [i.begin for i in report.incidents],
        "end": [i.end for i in report.incidents],
    }
    return data


def _domain(report: FleetReport) -> list[float]:
    """Range of the scores that is drawn; 0 is the threshold and 1 a typical normal row."""
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
    """Numbers for JSON, to a few digits; None for those that JSON does not have."""
    return [
        float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values.tolist()
    ]


@dataclass(frozen=True)
class Summary:
    """Alarms of a table beside what was promised; places are percent of the axis."""

    rows: int
    alarms: int
    promised: float
    low: int
    high: int
    chance: float
    tasks: int
    incidents: int
    outstanding: int
    axis: float

    @classmethod
    def of(cls, report: FleetReport) -> Summary:
        """Of a report."""
        (rows, alarms), (low, high) = report.counts, band_of(report.law)
        total = int(alarms.sum())
        promised = report.rate * rows.sum()
        return cls(
            rows=int(rows.sum()),
            alarms=total,
            promised=float(promised),
            low=low,
            high=high,
            chance=chance_of(total, report.law),
            tasks=int(np.count_nonzero(rows)),
            incidents=len(report.incidents),
            outstanding=sum(i.by_chance < STANDS_OUT for i in report.incidents),
            axis=1.06 * max(total, high, promised, 1.0),
        )

    def place(self, count: float) -> float:
        """Place of a count on the axis, in percent."""
        return 100.0 * count / self.axis


@dataclass(frozen=True)
class Bin:
    """A stretch of time: its rows and alarms, and the most alarms that chance explains."""

    begin: str
    end: str
    rows: int
    alarms: int
    high: int
    drift: str = ""

    @property
    def share(self) -> float:
        """Alarms among its rows."""
        return self.alarms / max(self.rows, 1)


def time_line(report: FleetReport) -> list[Bin]:
    """Alarms over time, in stretches of equal length."""
    rows = report.rows
    assert rows is not None
    assert rows.time is not None
    number = min(_BINS, max(1, len(rows.time) // 25))
    edges = np.linspace(rows.time.min(), rows.time.max(), number + 1)
    labels = [moment(edge, rows.dated) for edge in edges.tolist()]
    place = np.digitize(rows.time, edges[1:-1])
    drift = np.digitize([time for time, _ in report.drift], edges[1:-1])
    bins = []
    for k in range(number):
        mine = place == k
        tasks = np.bincount(rows.task[mine], minlength=len(report.tasks.names))
        alarms, high = int(rows.alarm[mine].sum()), band_of(report.law_of(tasks))[1]
        words = [report.drift[flag][1] for flag in np.flatnonzero(drift == k)]
        bins.append(
            Bin(labels[k], labels[k + 1], int(mine.sum()), alarms, high, _few(words))
        )
    return bins


@dataclass(frozen=True)
class TaskMap:
    """Cells (line, column, strength from -1 to 1, words) of a square over some tasks."""

    names: tuple[str, ...]
    cells: tuple[tuple[int, int, float, str], ...]


def task_map(report: FleetReport) -> TaskMap:
    """The tasks with the strongest relations, those that belong together side by side."""
    relations, names = report.relations, report.tasks.names
    assert relations is not None
    strength = np.abs(relations.weight)
    total = np.bincount(relations.first, strength, len(names))
    total += np.bincount(relations.second, strength, len(names))
    shown = np.sort(
        np.argsort(-total, kind="stable")[: min(_ON_MAP, np.count_nonzero(total))]
    )
    square = _square(relations, shown)
    order = clustered(np.abs(square))
    shown, square = shown[order], square[np.ix_(order, order)]
    top = float(np.abs(square).max()) or 1.0
    called = tuple(names[t] for t in shown)
    cells = tuple(
        (
            a,
            b,
            float(square[a, b] / top),
            f"{called[a]}, {called[b]}: {square[a, b]:.3g}",
        )
        for a, b in np.argwhere(square).tolist()
    )
    return TaskMap(called, cells)


def _square(relations: Relations, shown: Any) -> Array:
    known = np.isin(relations.first, shown) & np.isin(relations.second, shown)
    a = np.searchsorted(shown, relations.first[known])
    b = np.searchsorted(shown, relations.second[known])
    square = np.zeros((len(shown), len(shown)))
    square[a, b] = square[b, a] = relations.weight[known]
    return square


def moment(time: float, dated: bool) -> str:
    """A time as text; dates are in UTC."""
    if not dated:
        return f"{time:g}"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


def _few(words: list[str]) -> str:
    """The first three, and how many more there are."""
    more = [f"{len(words) - 3} more"] if len(words) > 3 else []
    return ", ".join([*words[:3], *more])
