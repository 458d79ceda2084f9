"""What the page of a model and a scored table shows, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from manyone._types import Array, Codes
from manyone.alerts.advice import Step, advice_on_model, advice_on_table, is_quiet
from manyone.alerts.evidence import STANDS_OUT, most_by_chance
from manyone.alerts.incidents import Findings
from manyone.alerts.values import Tasks
from manyone.page.html import Table
from manyone.plots.structure import clustered


@dataclass(frozen=True, eq=False)
class Relations:
    """What the model has learned about pairs of tasks: the strongest only.

    Attributes
    ----------
    first, second : ndarray of shape (r,)
        Numbers of tasks.
    weight : ndarray of shape (r,)
    meaning : str
        What a weight says.
    """

    first: Codes
    second: Codes
    weight: Array
    meaning: str


@dataclass(frozen=True)
class Drift:
    """A task that was found to drift.

    Attributes
    ----------
    time : float
        When there was enough evidence.
    text : str
        Which task, and since when.
    """

    time: float
    text: str


@dataclass(frozen=True, eq=False)
class FleetReport:
    """A model, and what it says about a table.

    Attributes
    ----------
    model, table : str
        What they are called; `table` is empty for a page of the model alone.
    method : str
    rate : float
        Promised share of alarms among normal rows.
    tasks : Tasks
    columns : Table
        What the encoder did with each column.
    findings : Findings or None
        What the table shows; None without a table.
    relations : Relations or None
    facts : tuple of (str, str)
        About the model, in words.
    drift : tuple of Drift
    remarks : tuple of str
        What the page does not show, and why.
    gaps : tuple of str
        What is missing more often than in training.
    silent : tuple of (str, str)
        Tasks that send no rows any more, and when the last came.
    """

    model: str
    table: str
    method: str
    rate: float
    tasks: Tasks
    columns: Table
    findings: Findings | None = None
    relations: Relations | None = None
    facts: tuple[tuple[str, str], ...] = ()
    drift: tuple[Drift, ...] = ()
    remarks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    silent: tuple[tuple[str, str], ...] = ()

    def advice(self) -> list[Step]:
        """What to do next."""
        if self.findings is None:
            return advice_on_model(self.model, self.tasks, self.rate)
        words = [flag.text for flag in self.drift]
        names = [name for name, _ in self.silent]
        return advice_on_table(
            self.model, self.findings, self.rate, self.gaps, words, names
        )


def totals_of(findings: Findings, rate: float) -> dict[str, float]:
    """Counts of a table beside what was promised, and the end of an axis for them."""
    rows, alarms = findings.counts.sum(axis=1).tolist()
    answered = [i for i in findings.incidents if i.stands_out and i.answer]
    promised = rate * rows
    return {
        "rows": rows,
        "tasks": int(np.count_nonzero(findings.counts[0])),
        "alarms": alarms,
        "open_alarms": int(np.count_nonzero(findings.open_alarms)),
        "promised": promised,
        "answered": len(answered),
        "is_quiet": is_quiet(findings),
        "axis": 1.06 * max(alarms, findings.most_by_chance, promised, 1.0),
    }


@dataclass(frozen=True)
class Bin:
    """A stretch of time: its rows and alarms, and the most alarms by chance."""

    begin: str
    end: str
    rows: int
    alarms: int
    most_by_chance: int
    drift: str = ""

    @property
    def share(self) -> float:
        """Alarms among its rows."""
        return self.alarms / max(self.rows, 1)


def time_line(
    findings: Findings,
    drift: tuple[Drift, ...],
    most_bins: int = 60,
    rows_of_a_bin: int = 25,
) -> list[Bin]:
    """Alarms over time, in stretches of equal length."""
    rows = findings.rows
    assert rows.time is not None
    number = min(most_bins, max(1, len(rows.time) // rows_of_a_bin))
    edges = np.linspace(rows.time.min(), rows.time.max(), number + 1)
    labels = [moment(edge, rows.dated) for edge in edges.tolist()]
    place = np.digitize(rows.time, edges[1:-1])
    flagged = np.digitize([flag.time for flag in drift], edges[1:-1])
    bins = []
    for k in range(number):
        in_bin = place == k
        counts = np.bincount(rows.task[in_bin], minlength=len(findings.tasks.names))
        most = most_by_chance(findings.law_of(counts), STANDS_OUT / number)
        is_unknown = ~findings.is_known[rows.task]
        unknown_alarms = int((rows.alarm & in_bin & is_unknown).sum())
        words = [drift[flag].text for flag in np.flatnonzero(flagged == k)]
        bins.append(
            Bin(
                begin=labels[k],
                end=labels[k + 1],
                rows=int(in_bin.sum()),
                alarms=int(rows.alarm[in_bin].sum()),
                most_by_chance=most + unknown_alarms,
                drift=_first_words(words),
            )
        )
    return bins


@dataclass(frozen=True)
class TaskMap:
    """Cells (line, column, strength from -1 to 1, words) of a square of tasks."""

    names: tuple[str, ...]
    cells: tuple[tuple[int, int, float, str], ...]


def task_map(
    relations: Relations, names: tuple[str, ...], most_tasks: int = 32
) -> TaskMap:
    """The tasks with the strongest relations, related ones side by side."""
    strength = np.abs(relations.weight)
    total = np.bincount(relations.first, strength, len(names))
    total += np.bincount(relations.second, strength, len(names))
    number = min(most_tasks, np.count_nonzero(total))
    shown = np.sort(np.argsort(-total, kind="stable")[:number])
    square = _square(relations, shown)
    order = clustered(np.abs(square))
    shown = shown[order]
    square = square[np.ix_(order, order)]
    strongest = float(np.abs(square).max()) or 1.0
    shown_names = tuple(names[task] for task in shown)
    cells = []
    for line, column in np.argwhere(square).tolist():
        weight = float(square[line, column])
        words = f"{shown_names[line]}, {shown_names[column]}: {weight:.3g}"
        cells.append((line, column, weight / strongest, words))
    return TaskMap(shown_names, tuple(cells))


def _square(relations: Relations, shown: Codes) -> Array:
    """Weights between the tasks that are shown, shape (t, t)."""
    is_shown = np.isin(relations.first, shown) & np.isin(relations.second, shown)
    first = np.searchsorted(shown, relations.first[is_shown])
    second = np.searchsorted(shown, relations.second[is_shown])
    square = np.zeros((len(shown), len(shown)))
    square[first, second] = relations.weight[is_shown]
    square[second, first] = relations.weight[is_shown]
    return square


def moment(time: float, dated: bool) -> str:
    """A time as text; dates are in UTC."""
    if not dated:
        return f"{time:g}"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


def _first_words(words: list[str], most: int = 3) -> str:
    """The first few, and how many more there are."""
    more = len(words) - most
    shown = words[:most]
    return ", ".join([*shown, f"{more} more"] if more > 0 else shown)
