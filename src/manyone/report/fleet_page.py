"""The page of a model and a scored table: values in, one self-contained page out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from manyone._types import Array
from manyone.plots.structure import clustered
from manyone.report.advice import STANDS_OUT, advice
from manyone.report.chance import band_of, chance_of
from manyone.report.fleet import FleetReport, Relations
from manyone.report.fleet_data import MOST_ROWS, embedded
from manyone.report.incidents import Incident, find_incidents
from manyone.report.page import App, Page, Section, render, templates

_STATIC = 12  # lines of a list without script
_BINS = 60
_ON_MAP = 32


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
    incidents = find_incidents(report.tasks, report.rows, report.rate) if report.rows else ()
    sections = []
    if report.rows is not None:
        summary = Summary.of(report, incidents)
        over_time = say.over_time(time_line(report), report) if report.rows.time is not None else ""
        shown = (say.alarms(summary, report), over_time, say.remarks(report.remarks))
        sections.append(Section("alarms", "Alarms", shown))
        lines = say.incidents(incidents[:_STATIC], report, len(incidents))
        sections.append(Section("incidents", "Incidents", (lines,)))
        title, intro = say.headline(summary), say.intro(report)
    else:
        sections.append(Section("model", "The model", (say.model(report),)))
        title, intro = say.model_headline(report), say.intro(report)
    worst = np.lexsort((-report.counts[1], report.by_chance))[:_STATIC].tolist()
    sections.append(Section("tasks", "Tasks", (say.tasks(worst, report),)))
    if report.rows is not None:
        sections.append(Section("rows", "Rows", (say.rows(report, MOST_ROWS),)))
    if report.relations is not None and len(report.relations.weight):
        shown = say.relations(task_map(report), report)
        sections.append(Section("related", "Related tasks", (shown,)))
    for section, introduction, table in report.tables:
        sections.append(Section(section.split()[0].lower(), section, (introduction, table)))
    sections.append(
        Section("next", "What to do next", (say.next_steps(advice(report, incidents)),))
    )
    app = App("fleet", embedded(report, incidents))
    return render(Page(_line(title), intro, tuple(sections), app))


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
    def of(cls, report: FleetReport, incidents: Sequence[Incident]) -> Summary:
        """Of a report and its incidents."""
        (rows, alarms), (low, high) = report.counts, band_of(report.law)
        total = int(alarms.sum())
        promised = report.rate * rows.sum()
        return cls(
            *(int(rows.sum()), total, float(promised), low, high),
            chance=chance_of(total, report.law),
            tasks=int(np.count_nonzero(rows)),
            incidents=len(incidents),
            outstanding=sum(i.by_chance < STANDS_OUT for i in incidents),
            axis=1.06 * max(total, high, promised, 1.0),
        )

    def place(self, count: float) -> float:
        """Of a count on the axis, in percent."""
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
    begin, end = float(rows.time.min()), float(rows.time.max())
    number = min(_BINS, max(1, len(rows.time) // 25))
    edges = np.linspace(begin, end, number + 1)
    place = np.clip(np.searchsorted(edges, rows.time, side="right") - 1, 0, number - 1)
    bins, counts = range(number), np.bincount(place, minlength=number)
    alarms = np.bincount(place[rows.alarm], minlength=number)
    tasks = [np.bincount(rows.task[place == k], minlength=len(report.tasks.names)) for k in bins]
    high = [band_of(report.law_of(each))[1] for each in tasks]
    flags: dict[int, list[str]] = {}
    for time, words in report.drift:
        where = int(np.clip(np.searchsorted(edges, time, side="right") - 1, 0, number - 1))
        flags.setdefault(where, []).append(words)
    labels = [moment(edge, rows.dated) for edge in edges.tolist()]
    return [
        Bin(
            *(labels[k], labels[k + 1]),
            *(int(counts[k]), int(alarms[k]), high[k]),
            drift=_few(flags.get(k, [])),
        )
        for k in bins
    ]


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
    shown = np.sort(np.argsort(-total, kind="stable")[: min(_ON_MAP, np.count_nonzero(total))])
    square = _square(relations, shown)
    order = clustered(np.abs(square))
    shown, square = shown[order], square[np.ix_(order, order)]
    top = float(np.abs(square).max()) or 1.0
    called = tuple(names[t] for t in shown)
    cells = tuple(
        (a, b, float(square[a, b] / top), f"{called[a]}, {called[b]}: {square[a, b]:.3g}")
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
    """A time in words; dates are those of UTC."""
    if not dated:
        return f"{time:g}"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


def _few(words: list[str]) -> str:
    """Some of them, and how many there are beyond."""
    more = [f"{len(words) - 3} more"] if len(words) > 3 else []
    return ", ".join([*words[:3], *more])


def _line(words: Any) -> str:
    """What a macro says, as plain text on one line."""
    return " ".join(words.unescape().split())
