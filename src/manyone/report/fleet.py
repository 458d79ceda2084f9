"""What the page of a model and a scored table shows, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.report.chance import alarm_law, attained, evidence, total_law
from manyone.report.incidents import Incident, alarms_by_task, find_incidents
from manyone.report.page import Table


@dataclass(frozen=True, eq=False)
class Tasks:
    """The T tasks that a page is about, those never seen in training at the end.

    Attributes
    ----------
    names : tuple of str
    trained : ndarray of shape (T,)
        Training rows.
    basis : tuple of str
        ``"own"``, ``"pooled"`` or ``"unknown"``: the rows behind the p-values.
    reference : ndarray of shape (T,)
        How many left-out rows those are.
    known_by : ndarray of shape (T,)
        Left-out rows of the task itself, which say how far its normal rows may differ from those
        of all tasks, behind `Rows.tail`.
    threshold, unit : ndarray of shape (T,)
        Score below which a row raises the alarm, and the unit in which scores are drawn.
    left_out : ndarray of shape (n,)
        Scores of training rows by models without them, task by task.
    starts : ndarray of shape (T + 1,)
        Where each task begins in `left_out`.
    """

    names: tuple[str, ...]
    trained: Codes
    basis: tuple[str, ...]
    reference: Array
    known_by: Array
    threshold: Array
    unit: Array
    left_out: Array
    starts: Codes


@dataclass(frozen=True, eq=False)
class Rows:
    """The m rows of a scored table.

    Attributes
    ----------
    number : ndarray of shape (m,)
        Of the row in its table.
    task : ndarray of shape (m,)
        Number in the tasks.
    score, p_value : ndarray of shape (m,)
    tail : ndarray of shape (m,)
        P-value among the left-out rows of all tasks, which goes on falling below the lowest of
        them: the evidence against a row (see `manyone.report.chance.tail_pvalues`).
    alarm : ndarray of bool of shape (m,)
    leading : tuple of str
        Column that explains most; empty where a row has no reason.
    reasons : tuple of tuple of str
        In words.
    notes : tuple of str
        What else there is to say of a row.
    time : ndarray of shape (m,) or None
        Numbers, or seconds since 1970 where `dated`.
    dated : bool
    """

    number: Codes
    task: Codes
    score: Array
    p_value: Array
    tail: Array
    alarm: Mask
    leading: tuple[str, ...]
    reasons: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    time: Array | None = None
    dated: bool = False


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
    rows : Rows or None
    relations : Relations or None
    facts : tuple of (str, str)
        About the model, in words.
    tables : tuple of (str, str, Table)
        Section, introduction and table: what the encoder did, what was tried.
    drift : tuple of (float, str)
        Times at which something changed, and what.
    remarks : tuple of str
        What the page does not show, and why.
    gaps : tuple of str
        What is missing more often than in training.
    """

    model: str
    table: str
    method: str
    rate: float
    tasks: Tasks
    rows: Rows | None = None
    relations: Relations | None = None
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[tuple[str, str, Table], ...] = ()
    drift: tuple[tuple[float, str], ...] = ()
    remarks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    @cached_property
    def counts(self) -> Codes:
        """Scored rows and alarms of each task, shape (2, T)."""
        if self.rows is None:
            return np.zeros((2, len(self.tasks.names)), dtype=np.intp)
        T = len(self.tasks.names)
        rows = np.bincount(self.rows.task, minlength=T)
        return np.stack(
            [rows, np.bincount(self.rows.task[self.rows.alarm], minlength=T)]
        )

    @cached_property
    def law(self) -> Array:
        """Probability of 0, 1, ... alarms in the whole table if every row is normal."""
        return self.law_of(self.counts[0])

    def law_of(self, rows: Codes) -> Array:
        """Probability of 0, 1, ... alarms among so many normal rows of each task (T,).

        The fewer rows a task has of its own, the more uncertain it is, even with a borrowed
        threshold.
        """
        tasks, seen = self.tasks, np.flatnonzero(rows)
        rates = [attained(self.rate, float(tasks.reference[t])) for t in seen]
        return total_law(
            alarm_law(int(rows[t]), float(tasks.known_by[t]), rate)
            for t, rate in zip(seen, rates, strict=True)
        )

    @cached_property
    def by_chance(self) -> Array:
        """For each task, how many tasks would show as much if all rows were normal, shape (T,)."""
        counts = self.counts[0]
        expected = np.full(len(counts), float(np.count_nonzero(counts)))
        if self.rows is not None:
            task, tail, known_by = self.rows.task, self.rows.tail, self.tasks.known_by
            for part in alarms_by_task(self.rows):
                t = task[part[0]]
                expected[t] *= evidence(tail[part], int(counts[t]), known_by[t])
        return expected

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """Alarms that belong together, most telling first."""
        return find_incidents(self.tasks, self.rows, self.rate) if self.rows else ()
