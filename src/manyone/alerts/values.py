"""What evidence is computed from: tasks of a model, rows of a scored table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.alerts.evidence import Runs


@dataclass(frozen=True, eq=False)
class Tasks:
    """The T tasks of a table. Tasks never seen in training come last.

    Attributes
    ----------
    names : tuple of str
    trained : ndarray of shape (T,)
        Training rows.
    basis : tuple of str
        ``"own"``, ``"pooled"`` or ``"unknown"``: the rows behind the p-values.
    counted : ndarray of shape (T,)
        Left-out rows of the task itself. Rows that resemble others of their block of
        time count as fewer. 0: nothing is known about the task.
    threshold, unit : ndarray of shape (T,)
        Score below which a row raises the alarm, NaN for a task that cannot raise one,
        and the unit in which scores are drawn.
    left_out : ndarray of shape (n,)
        Scores of training rows by models without them, task by task.
    starts : ndarray of shape (T + 1,)
        Where each task begins in `left_out`.
    runs : Runs
        Of low p-values in left-out rows.
    with_past : bool
        Whether rows are compared with earlier rows of their task.
    """

    names: tuple[str, ...]
    trained: Codes
    basis: tuple[str, ...]
    counted: Array
    threshold: Array
    unit: Array
    left_out: Array
    starts: Codes
    runs: Runs
    with_past: bool = False

    def take(self, numbers: Sequence[int]) -> Tasks:
        """Some of the tasks, which may repeat, without their left-out scores."""
        chosen = np.array(numbers, dtype=np.intp)
        return Tasks(
            names=tuple(self.names[number] for number in numbers),
            trained=self.trained[chosen],
            basis=tuple(self.basis[number] for number in numbers),
            counted=self.counted[chosen],
            threshold=self.threshold[chosen],
            unit=self.unit[chosen],
            left_out=np.empty(0),
            starts=np.zeros(len(chosen) + 1, dtype=np.intp),
            runs=self.runs,
            with_past=self.with_past,
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """The m rows of a scored table.

    Attributes
    ----------
    number : ndarray of shape (m,)
        Of the row in its table.
    task : ndarray of shape (m,)
        Number in the tasks; -1 where it has none yet, as in a part of a table.
    score, p_value : ndarray of shape (m,)
    rank_p : ndarray of shape (m,)
        P-value by the model, which knows nothing of a drift since; 1 where
        the task is not known.
    depth_p : ndarray of shape (m,)
        P-value of the row's distance from its task, which goes on falling beyond all
        left-out rows (see `manyone.alerts.evidence.depth_pvalues`); 1 where the
        distance says nothing.
    alarm : ndarray of bool of shape (m,)
    leading : tuple of str
        Column that explains most; empty where a row has no reason.
    reasons : tuple of tuple of str
        In words.
    notes : tuple of str
        Further words about a row.
    time : ndarray of shape (m,) or None
        Numbers, or seconds since 1970 where `dated`.
    dated : bool
    ids : tuple of str or None
        Names that people answer rows by; None: their numbers.
    answers : tuple of str
        What somebody has said of each row: normal, fault, later or nothing.
    unknown : tuple of str
        Names of the tasks that have no number yet, one for each such row.
    """

    number: Codes
    task: Codes
    score: Array
    p_value: Array
    rank_p: Array
    depth_p: Array
    alarm: Mask
    leading: tuple[str, ...]
    reasons: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    time: Array | None = None
    dated: bool = False
    ids: tuple[str, ...] | None = None
    answers: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts of a table; they have times if all parts have."""
        arrays = ("number", "task", "score", "p_value", "rank_p", "depth_p", "alarm")
        texts = ("leading", "reasons", "notes", "unknown")
        times = [rows.time for rows in parts if rows.time is not None]
        has_times = len(times) == len(parts)
        fields: dict[str, Any] = {
            name: np.concatenate([getattr(rows, name) for rows in parts])
            for name in arrays
        }
        for name in texts:
            listed = (getattr(rows, name) for rows in parts)
            fields[name] = tuple(chain.from_iterable(listed))
        return cls(
            **fields,
            time=np.concatenate(times) if has_times else None,
            dated=has_times and parts[0].dated,
        )
