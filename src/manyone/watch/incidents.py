"""Incidents of a stream: alarms of a task that follow each other closely.

A *stretch* begins with an alarm of a task. It ends where the task is calm for longer than
an incident may be (`manyone.alerts.incidents.longest_calm`), or after `HORIZON` rows of the
task. Within a stretch alarms are grouped, and judged, by the same computation as in a table.

Which alarms are one incident follows from the rows of their task: it does not matter how
the stream is cut into batches. Chance has to explain the stretch among the
last `HORIZON` rows of the task, though only the rows of the stretch are evidence. So a fleet
without faults shows an incident that stands out at most once while each task sends
`HORIZON / STANDS_OUT` rows. An incident has the id of its first alarm, which stays whatever
joins it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Codes, Labels
from manyone.alerts.evidence import STANDS_OUT
from manyone.alerts.incidents import Incident, Past, find_incidents, longest_calm
from manyone.alerts.values import Rows, Tasks
from manyone.tables.incidents import ScoredBlock, rank_pvalues, tasks_of
from manyone.watch.model import resolved
from manyone.watch.state import MonitorState

if TYPE_CHECKING:
    from manyone.tables import TableModel
    from manyone.watch.store import Store

#: Rows of a task that a stretch has at most, and among which chance has to explain it.
HORIZON = 200
#: A row as incidents need it.
STREAM_ROW = np.dtype(
    [
        ("number", np.int64),  # in the stream, from 1 on
        ("place", np.int64),  # among the rows of its task, from 0 on
        ("depth", np.float64),  # below the threshold, in units of the task's scores
        ("rank_p", np.float64),
        ("depth_p", np.float64),
        ("alarm", np.bool_),  # that counts: not muted
        ("leading", np.object_),
        ("reason", np.object_),
    ]
)
StreamRows = Labels  # structured, of dtype STREAM_ROW


@dataclass(frozen=True, eq=False)
class Stretch:
    """A stretch of a task.

    Attributes
    ----------
    task : str
    code : int
        Number of the task in the model, -1 for one never seen.
    rows : ndarray of STREAM_ROW
        From its first alarm to its last.
    tasks : int
        Tasks that the stream has had by then.
    """

    task: str
    code: int
    rows: StreamRows
    tasks: int

    @property
    def number(self) -> int:
        """Number of its first row."""
        return int(self.rows["number"][0])


@dataclass(frozen=True)
class StreamIncident:
    """An incident of a stream; rows by their numbers in it.

    Attributes
    ----------
    stretch : int
        Number of its stretch.
    task, column : str
    alarms : tuple of int
        In the order of time.
    rows : int
        Of the task, among which chance has to explain it.
    by_chance : float
    worst : int
    reason : str
    """

    stretch: int
    task: str
    column: str
    alarms: tuple[int, ...]
    rows: int
    by_chance: float
    worst: int
    reason: str

    @property
    def stands_out(self) -> bool:
        """Whether chance does not explain it."""
        return self.by_chance < STANDS_OUT


def _lowest_confirmed(state: MonitorState) -> Array:
    """Lowest score of each task that a person has called normal, or infinity.

    Its shape is (T + 1,): the last one stands for tasks never seen.
    """
    confirmed = state.confirmed & ~np.isnan(state.window)
    lowest = np.where(confirmed, state.window, np.inf).min(axis=1)
    return np.append(lowest, np.inf)


class IncidentFinder:
    """Finds incidents of a stream batch by batch, and keeps them in its store.

    Parameters
    ----------
    store : Store
    model : TableModel
    """

    def __init__(self, store: Store, model: TableModel) -> None:
        self._store = store
        self._model = model
        self._tasks = tasks_of(model, ["never seen"])
        self._rate = float(model.model_._check_calibrated())
        self._calm = longest_calm(self._rate)
        seen = store.tasks_seen()
        self._counts = {name: count for name, count, _ in seen}
        self._first_rows = sorted(first for _, _, first in seen)

    def add(
        self,
        numbers: range,
        names: Sequence[str | None],
        state: MonitorState,
        block: ScoredBlock,
    ) -> list[StreamIncident]:
        """Take the next rows of the stream.

        Parameters
        ----------
        numbers : range
            Their numbers in it.
        names : sequence of str or None
            Of their tasks.
        state : MonitorState
            That has judged them.
        block : ScoredBlock

        Returns
        -------
        list of StreamIncident
            All those of stretches that one of the rows has joined.
        """
        rows = self._as_rows(state, block)
        rows["number"] = numbers
        by_task: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            if name is not None:
                by_task.setdefault(name, []).append(row)
        for name, members in by_task.items():
            count = self._counts.get(name, 0)
            if count == 0:
                self._first_rows.append(int(rows["number"][members[0]]))
            rows["place"][members] = np.arange(count, count + len(members))
            self._counts[name] = count + len(members)
        self._first_rows.sort()
        joined: list[Stretch] = []
        open_before = self._store.open_rows(list(by_task))
        for name, members in by_task.items():
            before = open_before.get(name, rows[:0])
            new = rows[members]
            if len(before) or new["alarm"].any():
                code = int(block.answers.codes[members[0]])
                joined += self._follow(name, code, before, new)
        incidents = find_in_stretches(self._tasks, joined, self._rate)
        self._store.set_incidents([stretch.number for stretch in joined], incidents)
        return incidents

    def _as_rows(self, state: MonitorState, block: ScoredBlock) -> StreamRows:
        """Rows as incidents need them, but for their numbers and places.

        A row that lies no farther out than one that a person has called normal is as
        likely as the monitor says: left-out rows of the training do not know what was
        normal since.
        """
        answers = block.answers
        alarms = np.flatnonzero(answers.alarm)
        codes = np.where(answers.codes < 0, len(self._model.tasks_), answers.codes)
        below = self._tasks.threshold[codes] - answers.score
        reference = self._model._reference()
        depth_p = reference.depth_pvalues(block.depth, answers.codes[alarms])
        rows = np.zeros(len(answers.score), dtype=STREAM_ROW)
        rows["depth"] = np.nan_to_num(below / self._tasks.unit[codes])
        rows["rank_p"] = rank_pvalues(self._model, answers.score, codes)
        rows["depth_p"] = 1.0
        rows["depth_p"][alarms] = resolved(depth_p)
        is_known_normal = answers.score >= _lowest_confirmed(state)[codes]
        rows["rank_p"] = np.where(
            is_known_normal, np.maximum(rows["rank_p"], answers.p_value), rows["rank_p"]
        )
        rows["depth_p"][is_known_normal] = 1.0
        rows["rank_p"][~block.counts] = 1.0
        rows["depth_p"][~block.counts] = 1.0
        rows["alarm"] = answers.alarm & block.counts
        rows["leading"] = ""
        rows["leading"][alarms] = block.leading
        rows["reason"] = ""
        rows["reason"][alarms] = [next(iter(reasons), "") for reasons in block.reasons]
        return rows

    def _follow(
        self, name: str, code: int, before: StreamRows, new: StreamRows
    ) -> list[Stretch]:
        """Stretches of a task that new rows join. The last may go on: its rows are kept."""
        rows = np.concatenate([before, new])
        alarms = np.flatnonzero(rows["alarm"])
        if len(alarms) == 0:  # all that there were have been called normal
            self._store.keep_open_rows(name, rows[:0], new)
            return []
        starts = _starts(rows["place"][alarms], self._calm)
        joined = []
        for start, end in pairwise([*starts, len(alarms)]):
            last = int(alarms[end - 1])
            if last >= len(before):
                tasks = np.searchsorted(self._first_rows, rows["number"][last], "right")
                part = rows[alarms[start] : last + 1]
                joined.append(Stretch(name, code, part, int(tasks)))
        begin = int(alarms[starts[-1]])
        next_place = int(rows["place"][-1]) + 1
        goes_on = (
            next_place - rows["place"][alarms[-1]] <= self._calm
            and next_place - rows["place"][begin] < HORIZON
        )
        open_rows = rows[begin:] if goes_on else rows[:0]
        self._store.keep_open_rows(name, open_rows, new)
        return joined


def _starts(places: Codes, calm: float) -> list[int]:
    """Which alarms, given by their places in their task, begin a stretch."""
    starts = [0]
    for alarm, (before, place) in enumerate(pairwise(places.tolist()), start=1):
        if place - before > calm or place - places[starts[-1]] >= HORIZON:
            starts.append(alarm)
    return starts


def find_in_stretches(
    tasks: Tasks, stretches: Sequence[Stretch], rate: float
) -> list[StreamIncident]:
    """Incidents within stretches, most telling first.

    Parameters
    ----------
    tasks : Tasks
        Of the model; the last one stands for tasks never seen.
    stretches : sequence of Stretch
    rate : float
        Promised share of alarms among normal rows.
    """
    if len(stretches) == 0:
        return []
    rows = np.concatenate([stretch.rows for stretch in stretches])
    lengths = np.array([len(stretch.rows) for stretch in stretches])
    ends = np.array([stretch.rows["place"][-1] + 1 for stretch in stretches])
    past = Past(
        rows=np.minimum(ends, HORIZON) - lengths,
        tasks=np.array([stretch.tasks for stretch in stretches]),
    )
    chosen = tasks.take([stretch.code for stretch in stretches])
    stretch_of_row = np.repeat(np.arange(len(stretches)), lengths)
    depth = rows["depth"] * chosen.unit[stretch_of_row]
    table = Rows(
        number=rows["number"],
        task=stretch_of_row,
        score=chosen.threshold[stretch_of_row] - depth,
        p_value=rows["rank_p"],
        rank_p=rows["rank_p"],
        depth_p=rows["depth_p"],
        alarm=rows["alarm"],
        leading=tuple(rows["leading"].tolist()),
        reasons=tuple((reason,) for reason in rows["reason"].tolist()),
        notes=("",) * len(rows),
        time=rows["place"].astype(np.float64),
    )
    found = find_incidents(chosen, table, rate, past)
    return [*_as_stream(found, stretches, rows)]


def _as_stream(
    found: Iterable[Incident], stretches: Sequence[Stretch], rows: StreamRows
) -> Iterator[StreamIncident]:
    for incident in found:
        stretch = stretches[incident.task]
        yield StreamIncident(
            stretch=stretch.number,
            task=stretch.task,
            column=", ".join(incident.columns),
            alarms=tuple(np.sort(rows["number"][list(incident.alarms)]).tolist()),
            rows=incident.rows,
            by_chance=incident.by_chance,
            worst=int(incident.worst_row),
            reason=incident.reason,
        )
