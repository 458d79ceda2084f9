"""Alarms that belong together: of one task, led by one column, and close in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.alerts.evidence import (
    STANDS_OUT,
    alarm_law,
    chance_of,
    evidence,
    highest_rate,
    lowest_evidence,
    most_by_chance,
    total_law,
)
from manyone.alerts.values import Rows, Tasks

# All alarms of a task are one incident where that makes it so many times less likely by
# chance.
_TOGETHER = 10.0
# Alarms that tell how an incident began. (Of a shift that lasts, a mean of 12 rows has
# taken in less than half by then.)
_BEGINNING = 3


@dataclass(frozen=True)
class Incident:
    """Alarms of one task that share a leading column, or all alarms of the task.

    Attributes
    ----------
    task : int
        Its number in the tasks.
    columns : tuple of str
        Leading columns of its rows, the most frequent first.
    alarms : tuple of int
        Places of the rows, worst first.
    rows : int
        Rows of the task in the table.
    begin, end : float
        Times of the first and the last alarm; row numbers where there are no times.
    by_chance : float
        How many tasks of this table would show such an incident if all rows were
        normal, on average: far below 1 is not chance.
    depth : float
        How far the worst row lies below the threshold, in units of the task's scores.
    worst_row : int or str
        Number of the worst row in the table; its id where rows have ids. Where rows are
        compared with earlier ones, the worst of the first three alarms: later rows are
        compared with the fault, and may tell of its end.
    reason : str
        Of the worst row; empty where it has none.
    answer : str
        What somebody has said of it: normal, fault or nothing.
    """

    task: int
    columns: tuple[str, ...]
    alarms: tuple[int, ...]
    rows: int
    begin: float
    end: float
    by_chance: float
    depth: float
    worst_row: int | str
    reason: str
    answer: str = ""

    @property
    def stands_out(self) -> bool:
        """Whether chance does not explain it."""
        return self.by_chance < STANDS_OUT

    @property
    def is_outstanding(self) -> bool:
        """Whether it stands out, and nobody has answered it."""
        return self.stands_out and not self.answer


@dataclass(frozen=True, eq=False)
class Past:
    """What was seen before the rows that are looked at, where rows come in a stream.

    Attributes
    ----------
    rows : ndarray of shape (T,)
        Rows of each task that were looked at before. They count for what chance
        explains, and are evidence of nothing.
    tasks : ndarray of shape (T,)
        Tasks that the stream has had by the end of each task's rows.
    """

    rows: Codes
    tasks: Codes


@dataclass(frozen=True, eq=False)
class Findings:
    """What a scored table shows.

    Attributes
    ----------
    tasks : Tasks
    rows : Rows
    rate : float or None
        Promised share of alarms among normal rows; None if alarms were chosen in
        another way, so that their number says nothing.
    found : tuple of Incident or None
        Incidents where they are known already; None: to be found.
    """

    tasks: Tasks
    rows: Rows
    rate: float | None
    _: KW_ONLY
    found: tuple[Incident, ...] | None = None

    @cached_property
    def counts(self) -> Codes:
        """Scored rows and alarms of each task, shape (2, T)."""
        number = len(self.tasks.names)
        rows = np.bincount(self.rows.task, minlength=number)
        alarms = np.bincount(self.rows.task[self.rows.alarm], minlength=number)
        return np.stack([rows, alarms])

    @property
    def is_known(self) -> Mask:
        """Whether the left-out rows of a task tell anything about it, shape (T,)."""
        return np.asarray(self.tasks.counted > 0.0)

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """Alarms that belong together, most telling first."""
        if self.found is not None:
            return self.found
        return find_incidents(self.tasks, self.rows, self.rate)

    @cached_property
    def by_chance(self) -> Array:
        """The least `Incident.by_chance` of each task, shape (T,).

        The number of tasks in the table where there is no alarm.
        """
        watched = float(np.count_nonzero(self.counts[0]))
        least = np.full(len(self.tasks.names), watched)
        for incident in reversed(self.incidents):
            least[incident.task] = incident.by_chance
        return least

    @cached_property
    def law(self) -> Array:
        """Probability of 0, 1, ... alarms of known tasks if all rows are normal."""
        return self.law_of(self.counts[0])

    def law_of(self, rows: Codes) -> Array:
        """Probability of 0, 1, ... alarms among so many normal rows of each task (T,).

        It is an upper bound: every task raises the most that its own left-out rows
        allow, see `manyone.alerts.evidence.highest_rate`. Tasks of which nothing is
        known may raise any number and do not count.
        """
        rate = 1.0 if self.rate is None else self.rate
        laws = []
        for task in np.flatnonzero((rows > 0) & self.is_known).tolist():
            counted = float(self.tasks.counted[task])
            share = highest_rate(rate, counted)
            if self.tasks.basis[task] == "pooled":
                # How many alarms a threshold of others raises scatters more.
                counted = 0.5 * counted
            laws.append(alarm_law(int(rows[task]), counted, share))
        return total_law(laws)

    @cached_property
    def open_alarms(self) -> Mask:
        """Alarms that nobody has answered, nor their incident, shape (m,)."""
        is_open = self.rows.alarm.copy()
        if self.rows.answers:
            is_open &= ~np.isin(self.rows.answers, ("normal", "fault"))
        for incident in self.incidents:
            if incident.answer:
                is_open[[*incident.alarms]] = False
        return is_open

    @cached_property
    def chance(self) -> float:
        """Probability of so many open alarms or more if every row is normal."""
        is_known = self.is_known[self.rows.task]
        return chance_of(int(np.count_nonzero(self.open_alarms & is_known)), self.law)

    @cached_property
    def most_by_chance(self) -> int:
        """The largest number of alarms that chance explains.

        It explains all alarms of tasks of which nothing is known.
        """
        return most_by_chance(self.law) + int(self.counts[1][~self.is_known].sum())

    @property
    def more_than_chance(self) -> bool:
        """Whether there are more open alarms than chance explains."""
        return int(np.count_nonzero(self.open_alarms)) > self.most_by_chance

    @cached_property
    def outstanding(self) -> tuple[Incident, ...]:
        """Incidents that stand out, and that nobody has answered."""
        return tuple(each for each in self.incidents if each.is_outstanding)

    @property
    def stands_out(self) -> bool:
        """Whether an incident stands out or there are more alarms than by chance.

        What somebody has answered does not count.
        """
        return len(self.outstanding) > 0 or self.more_than_chance


def find_incidents(
    tasks: Tasks, rows: Rows, rate: float | None, past: Past | None = None
) -> tuple[Incident, ...]:
    """Group alarms, most telling incident first.

    Parameters
    ----------
    tasks : Tasks
    rows : Rows
        With times, a calm of more than 1 / (2 rate) rows of the task separates two
        incidents.
    rate : float or None
        Promised share of alarms among normal rows; None: no calm is long.
    past : Past or None
        Where the rows go on from others.

    Returns
    -------
    tuple of Incident
        By the evidence, `Incident.by_chance`, then by depth.
    """
    grouping = _Grouping(tasks, rows, rate, past)
    incidents: list[Incident] = []
    for alarms in alarms_by_task(rows):
        incidents += grouping.incidents_of_task(alarms)
    incidents.sort(key=lambda i: (i.by_chance, -i.depth, i.task, i.alarms))
    return tuple(incidents)


def longest_calm(rate: float | None) -> float:
    """Rows of a task without an alarm that may lie within an incident."""
    return np.inf if rate is None else 0.5 / rate


def alarms_by_task(rows: Rows) -> Iterator[Codes]:
    """Alarmed rows of each task that has any, in the order of time."""
    alarms = np.flatnonzero(rows.alarm)
    if len(alarms) == 0:
        return
    time = alarms if rows.time is None else rows.time[alarms]
    alarms = alarms[np.lexsort((time, rows.task[alarms]))]
    yield from np.split(alarms, np.flatnonzero(np.diff(rows.task[alarms])) + 1)


def _least(incidents: Sequence[Incident]) -> float:
    return min(incident.by_chance for incident in incidents)


def _overlap(first: Incident, second: Incident) -> bool:
    """Whether both stand out, and the second begins before the first has ended."""
    stand_out = first.stands_out and second.stands_out
    return stand_out and second.begin <= first.end


class _Grouping:
    """Groups the alarms of one table."""

    def __init__(
        self, tasks: Tasks, rows: Rows, rate: float | None, past: Past | None
    ) -> None:
        self.tasks = tasks
        self.rows = rows
        self.counts = np.bincount(rows.task, minlength=len(tasks.names))
        if past is None:
            watched = np.count_nonzero(self.counts)
            past = Past(np.zeros_like(self.counts), np.full_like(self.counts, watched))
        self.seen = self.counts + past.rows
        self.watched = past.tasks
        below = tasks.threshold[rows.task] - rows.score
        self.depth = np.nan_to_num(below / tasks.unit[rows.task])
        self.pause = np.inf if rows.time is None else longest_calm(rate)
        # Rows by task and time, and the number of each row among those of its task.
        time = np.zeros(len(rows.task)) if rows.time is None else rows.time
        self.order = np.lexsort((time, rows.task))
        self.starts = np.cumsum(self.counts) - self.counts
        self.place = np.empty(len(self.order), dtype=np.intp)
        places = np.arange(len(self.order)) - self.starts[rows.task[self.order]]
        self.place[self.order] = places

    def incidents_of_task(self, alarms: Codes) -> list[Incident]:
        """Incidents from the alarms of one task in the order of time.

        There is one for each leading column and stretch of time. All alarms are one
        incident if that is far less likely by chance, or if nothing stands out
        otherwise. Columns that stand out at the same time make one incident: a fault
        shows in related columns, too.
        """
        led: dict[str, list[int]] = {}
        for row in alarms.tolist():
            led.setdefault(self.rows.leading[row], []).append(row)
        by_column: list[Incident] = []
        for rows_of_column in led.values():
            stretches = self._split_at_pauses(np.array(rows_of_column))
            by_column += [self._incident(stretch) for stretch in stretches]
        by_time = [
            self._incident(stretch, with_quiet_rows=True)
            for stretch in self._split_at_pauses(alarms)
        ]
        together = [self._incident(alarms, with_quiet_rows=True)]
        for alternative in (by_time, together):
            tells_more = _TOGETHER * _least(alternative) < _least(by_column)
            only_it_tells = _least(alternative) < STANDS_OUT <= _least(by_column)
            if tells_more or only_it_tells:
                return alternative
        return by_column if self.rows.time is None else self._joined(by_column)

    def _joined(self, incidents: list[Incident]) -> list[Incident]:
        """Incidents of one task, those that stand out at the same time as one."""
        joined: list[Incident] = []
        for incident in sorted(incidents, key=lambda each: each.begin):
            before = next((each for each in joined if _overlap(each, incident)), None)
            if before is not None:
                joined.remove(before)
                alarms = np.array([*before.alarms, *incident.alarms])
                both = self._incident(alarms[np.argsort(self.place[alarms])])
                incident = replace(both, by_chance=_least([before, incident]))
            joined.append(incident)
        return joined

    def _split_at_pauses(self, alarms: Codes) -> list[Codes]:
        is_long = np.diff(self.place[alarms]) > self.pause
        return np.split(alarms, np.flatnonzero(is_long) + 1)

    def _incident(self, alarms: Codes, with_quiet_rows: bool = False) -> Incident:
        """One incident of some alarms.

        `with_quiet_rows`: rows of the task without an alarm count as evidence, too.
        """
        rows = self.rows
        task = int(rows.task[alarms[0]])
        worst_first = alarms[np.lexsort((alarms, -self.depth[alarms]))]
        worst = self._worst(alarms)
        leading = Counter(rows.leading[row] for row in alarms.tolist())
        when = rows.number if rows.time is None else rows.time
        return Incident(
            task=task,
            columns=tuple(name for name, _ in leading.most_common() if name),
            alarms=tuple(worst_first.tolist()),
            rows=int(self.seen[task]),
            begin=float(when[alarms].min()),
            end=float(when[alarms].max()),
            by_chance=int(self.watched[task])
            * self._chance(alarms, task, with_quiet_rows),
            depth=float(self.depth[worst_first[0]]),
            worst_row=int(rows.number[worst]) if rows.ids is None else rows.ids[worst],
            reason=next(iter(rows.reasons[worst]), ""),
        )

    def _worst(self, alarms: Codes) -> int:
        """The row that gives the incident its reason; `alarms` are in order of time."""
        if self.tasks.with_past:
            alarms = alarms[:_BEGINNING]
        return int(alarms[np.lexsort((alarms, -self.depth[alarms]))[0]])

    def _chance(self, alarms: Codes, task: int, with_quiet_rows: bool) -> float:
        """Probability that the task shows as much by chance.

        The least likely of two or three looks, times their number: the distance of the
        farthest row; the p-values of all rows, or of their runs where rows have times;
        and the p-value of a single run.
        """
        counted = float(self.tasks.counted[task])
        if counted <= 0.0:
            return 1.0
        count = int(self.seen[task])
        p = self.rows.rank_p[alarms]
        chances = [lowest_evidence(self.rows.depth_p[alarms], count, counted)]
        in_runs = self.tasks.runs.are_comparable(
            float(self.tasks.trained[task]), counted
        )
        if self.rows.time is not None and in_runs:
            stretches = self._split_at_pauses(alarms)
            runs = [self._runs(stretch, with_quiet_rows) for stretch in stretches]
            p = np.concatenate(runs)
            chances.append(lowest_evidence(p, count, counted))
        elif with_quiet_rows:
            p = self.rows.rank_p[self._window(alarms)]
        chances.append(evidence(p, count, counted))
        return min(1.0, len(chances) * min(chances))

    def _runs(self, alarms: Codes, with_quiet_rows: bool) -> Array:
        """P-values of the runs of rows from the first to the last of some alarms."""
        window = self._window(alarms)
        p = self.rows.rank_p[window]
        if not with_quiet_rows:
            p = np.where(np.isin(window, alarms), p, 1.0)
        return self.tasks.runs.pvalues(p)

    def _window(self, alarms: Codes) -> Codes:
        """Rows of the task from the first to the last alarm; all without times."""
        task = int(self.rows.task[alarms[0]])
        start = int(self.starts[task])
        in_task = self.order[start : start + int(self.counts[task])]
        if self.rows.time is None:
            return in_task
        return in_task[self.place[alarms[0]] : self.place[alarms[-1]] + 1]
