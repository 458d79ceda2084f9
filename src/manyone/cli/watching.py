"""One ``manyone watch``: reads new rows, judges them, and writes them to the store."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from manyone._types import Array, Mask
from manyone.alerts.evidence import STANDS_OUT
from manyone.alerts.values import Rows
from manyone.cli.common import progress
from manyone.cli.models import about, chosen_columns, refuse_gaps
from manyone.tablefiles import STREAM, BadValues, Block, Source, Tail, open_tail
from manyone.tables import TableModel
from manyone.tables.answers import BASES, Answers
from manyone.tables.frames import as_table, times_of
from manyone.tables.incidents import REASONS, scored_rows
from manyone.tables.inputs import file_columns
from manyone.tables.rows import TableRows
from manyone.tables.worth import Worth
from manyone.watch import Monitor, MonitorState, Watched
from manyone.watch.answers import use_answers
from manyone.watch.arrivals import Arrivals, Silent
from manyone.watch.incidents import IncidentFinder, incidents_of, outstanding
from manyone.watch.model import answer_rows
from manyone.watch.mutes import Mutes
from manyone.watch.outbox import (
    Notice,
    drift_notice,
    incident_notice,
    silent_notice,
    write_messages,
)
from manyone.watch.score_copy import ScoreCopy
from manyone.watch.store import ReadFile, Store, none_of_nan

_BATCH = 5000  # rows of one transaction
# Texts of dates that sort as the dates do.
_SORTED_DATE = r"^\d{4}-\d{2}-\d{2}"


@dataclass(eq=False)
class WatchRun:
    """One command on an open store.

    Parameters
    ----------
    store : Store
    monitor : Monitor
    model : TableModel
    source : Path or Query
    id_column : str or None
    keep : tuple of str
        Columns that are copied to the scores.
    explain : int
        Reasons for each alarm.
    keep_days : int
        Days that values of rows are kept.
    silence_level : float
        Share of gaps between rows that may count as silence by chance.
    bad_values : {"refuse", "missing"}
    worth : Worth or None
        Changes that are worth an alarm; None: all.
    out : Path or None
        CSV file for a copy of the scores.
    cool_down : timedelta or None
        Between messages about one task; None: no messages are written.

    Attributes
    ----------
    since : int
        Number of the last row before the command.
    tail : Tail or None
        The new part of the table.
    repeated : int
        Rows with an id that came before.
    late : list of int
        Rows of the table that are older than a row of their task before them.
    newly_drifting : list of str
        Tasks whose drift this command has found.
    drift_stands_out : bool
        Whether one of them drifts more clearly than chance explains in a fleet.
    silent : list of Silent
        Tasks of which no rows come any more.
    """

    store: Store
    monitor: Monitor
    model: TableModel
    source: Source
    _: KW_ONLY
    id_column: str | None
    keep: tuple[str, ...]
    explain: int
    keep_days: int
    silence_level: float
    bad_values: BadValues
    worth: Worth | None
    out: Path | None
    cool_down: timedelta | None

    def __post_init__(self) -> None:
        self.since = self.store.last_row
        self.tail: Tail | None = None
        self.repeated = 0
        self.late: list[int] = []
        self.newly_drifting: list[str] = []
        self.drift_stands_out = False
        self.silent: list[Silent] = []
        self._finder = IncidentFinder(self.store, self.model)
        self._arrivals = Arrivals(self.store)
        self._mutes = Mutes(self.store)
        self._notices: list[Notice] = []
        self._copy: ScoreCopy | None = None
        if self.out is not None:
            self._copy = ScoreCopy(self.store, self.out, self.keep, self.explain)

    def watch_new_rows(self) -> None:
        """Judge new rows of the table, batch by batch."""
        is_stream = str(self.source) == STREAM
        path = str(self.source if is_stream else self.source.resolve())
        before = self.store.last_file(path)
        consumed = None if before is None else before.consumed
        columns = file_columns(self.model)
        bad_values = self.bad_values
        with (
            open_tail(
                self.source, before=consumed, bad_values=bad_values, **columns
            ) as tail,
            progress("watching", "rows") as update,
        ):
            self.tail = tail
            number: int | None = None
            for block in tail.blocks(_BATCH):
                if number is None:
                    number = self._number_of_file(path, before)
                self._watch_block(block, number)
                self.store.set_consumed(number, tail.consumed)
                self._commit()
                update(tail.consumed.rows, None)
            if number is None and tail.fate == "grown":
                number = self._number_of_file(path, before)
            if number is not None:
                self.store.set_consumed(number, tail.consumed)  # to its end

    def _number_of_file(self, path: str, before: ReadFile | None) -> int:
        """Number of the file in the store: as before, if it has only grown."""
        if before is not None and self.tail is not None and self.tail.fate == "grown":
            return before.number
        return self.store.add_file(path)

    def finish(self) -> None:
        """Use answers about new rows, look for silent tasks, delete old values."""
        use_answers(self.store, self.monitor)
        silent = self._arrivals.silent(self.silence_level)
        self.silent = [each for each in silent if not self._is_muted(each.task)]
        self._notices += [
            silent_notice(each.task, each.latest) for each in self.silent if each.new
        ]
        self.store.prune_values(self.keep_days)
        self._commit()
        self.store.commit()  # how far a copy was written, too

    def _is_muted(self, task: str) -> bool:
        """Whether a task is muted at the time of the latest row."""
        return self._mutes.why(task, self._arrivals.now) is not None

    def _commit(self) -> None:
        if self.cool_down is not None:
            write_messages(self.store, self._notices, self.cool_down)
        self._notices.clear()
        self.store.commit(self.monitor)
        if self._copy is not None:
            self._copy.catch_up()

    def _watch_block(self, block: Block, file_number: int) -> None:
        """Judge the rows of a block; hand them and incidents to the store."""
        # Before each batch, so that a run that was killed resumes with the same state.
        use_answers(self.store, self.monitor)
        state = self.monitor.state
        flagged = state.flagged >= 0
        most = state.most.copy()
        with about(self.source, block.first_row):
            ids = self._ids(block)
            read = self.monitor.read(block.table, ids)
            times = self._times(block.table)
            watched = self.monitor.judge(
                answer_rows(self.model, read, None),
                time=None if times is None else times.to_list(),
                id=ids,
            )
            moments = _moments(times, len(block.table))
            answers, muted = self._without_muted(watched.answers(), read, moments)
            top = max(REASONS, self.explain)
            scored = scored_rows(self.model, read, answers, top=top)
        self.repeated += len(watched.new) - len(answers.rows)
        file_rows = (block.first_row + answers.rows).tolist()
        rows = block.table[answers.rows.tolist()]
        written = block.written[answers.rows.tolist()]
        judged_fields = ("score", "p_value", "drift", "weight")
        columns = {
            "id": [ids[row] for row in answers.rows.tolist()],
            "file": [file_number] * len(rows),
            "file_row": file_rows,
            "raised": watched.alarm[answers.rows].tolist(),
            **{
                name: getattr(watched, name)[answers.rows].tolist()
                for name in judged_fields
            },
            **self._columns(rows, moments[answers.rows], answers, scored, muted),
            "kept": self._copied_columns(written),
            **self._finder.columns(state, scored),
        }
        values = _as_json(rows) if self.keep_days else None
        numbers = self.store.add_rows(columns, values)
        late = self._arrivals.add(_names(answers), moments[answers.rows])
        self.late += [file_rows[row] for row in late]
        self._finder.find(numbers)
        joined = incidents_of(self.store, since=numbers.start - 1)
        self._notices += [incident_notice(line) for line in outstanding(joined)]
        self._note_drift(flagged, most, watched, moments)

    def _without_muted(
        self, answers: Answers, rows: TableRows, moments: Array
    ) -> tuple[Answers, list[str | None]]:
        """Answers of which only rows that count are evidence; why each row is muted.

        Changes that are not worth an alarm raise none.
        """
        if self.worth is not None:
            answers = self.worth.applied(self.model, rows, answers)
        muted = self._mutes.of_rows(_names(answers), moments[answers.rows])
        is_evidence = np.array([why is None for why in muted], dtype=bool)
        return replace(answers, counts=answers.counts & is_evidence), muted

    def _ids(self, block: Block) -> list[str]:
        """Ids of the rows of a block; numbers if no column holds ids."""
        column = self.id_column
        if column is None:
            start = self.store.last_row
            return [str(start + row) for row in range(len(block.table))]
        chosen_columns("--id", [column], block.table.columns, self.source)
        refuse_gaps(column, block.table, self.source, block.first_row)
        return block.table[column].cast(str).to_list()

    def _times(self, table: pl.DataFrame) -> pl.Series | None:
        """The time column, if the model has one and the table too."""
        name = self.model.time_column
        return table[name] if name is not None and name in table.columns else None

    def _columns(
        self,
        rows: pl.DataFrame,
        moments: Array,
        answers: Answers,
        scored: Rows,
        muted: list[str | None],
    ) -> dict[str, Sequence[object]]:
        """Columns of the store for new rows that follow from time and answers."""
        times = self._times(rows)
        alarms = answers.alarm.tolist()
        pairs = zip(muted, alarms, strict=True)
        return {
            "task": _names(answers),
            "time": [None] * len(rows)
            if times is None
            else _time_texts(times, moments),
            "moment": [none_of_nan(moment) for moment in moments.tolist()],
            "alarm": alarms,
            "basis": BASES[answers.basis].tolist(),
            "muted": [why if alarm else None for why, alarm in pairs],
            "reasons": [
                json.dumps(texts) if texts else None for texts in scored.reasons
            ],
        }

    def _copied_columns(self, written: pl.DataFrame) -> Sequence[str | None]:
        """Columns of --keep in JSON, as they are written in the table."""
        keep = self.keep
        names = chosen_columns("--keep", keep, written.columns, self.source)
        return _as_json(written.select(names)) if names else [None] * len(written)

    def _note_drift(
        self, flagged: Mask, most: Array, watched: Watched, moments: Array
    ) -> None:
        """Note tasks whose drift was found in this batch.

        `flagged` and `most` (T,) are flags and evidence before it. Of many quiet tasks
        some are flagged by chance. Drift stands out if chance explains such evidence in
        none of the tasks of the fleet.
        """
        state = self.monitor.state
        names = [str(task) for task in self.model.tasks_.tolist()]
        needed = np.log(len(most) / STANDS_OUT)
        outstanding = [
            t
            for t in np.flatnonzero((state.most >= needed) & (most < needed)).tolist()
            if not self._is_muted(names[t])
        ]
        self.drift_stands_out |= len(outstanding) > 0
        self._notices += [
            drift_notice(names[t], when_it_drifts(state, t)[0], self.store.last_row)
            for t in outstanding
        ]
        for t in np.flatnonzero((state.flagged >= 0) & ~flagged).tolist():
            row = int(np.argmax(watched.drift & watched.new & (watched.codes == t)))
            since, when = when_it_drifts(state, t)
            self.store.set_drift(names[t], since, when, float(moments[row]))
            self.newly_drifting.append(names[t])


def when_it_drifts(state: MonitorState, t: int) -> tuple[str, str]:
    """Times at which the drift of a task began, and was flagged."""
    return (
        plain_time(str(state.since_time[t])) or f"its row {state.since[t]}",
        plain_time(str(state.flagged_time[t])) or f"its row {state.flagged[t]}",
    )


def plain_time(text: str) -> str:
    """A time without parts of a second that are zero."""
    return re.sub(r"\.0+$", "", text.replace("T", " "))


def _names(answers: Answers) -> list[str | None]:
    """Names of the tasks of rows."""
    labels = answers.labels.tolist()
    return [None if label is None else str(label) for label in labels]


def _as_json(table: pl.DataFrame) -> list[str]:
    """Each row as an object in JSON."""
    encoded = table.select(row=pl.struct(pl.all()).struct.json_encode())
    return encoded["row"].to_list()


def _moments(times: pl.Series | None, rows: int) -> Array:
    """Times as numbers, NaN where there is none."""
    if times is None:
        return np.full(rows, np.nan)
    return times_of(as_table(times.to_frame()).get_column(times.name)).values


def _time_texts(times: pl.Series, moments: Array) -> list[str | None]:
    """Times as texts that sort, as 2026-01-31 12:00:00; numbers as they are."""
    texts: list[str | None] = times.cast(pl.String).to_list()
    is_number = times.cast(pl.Float64, strict=False).is_not_null().any()
    if times.dtype != pl.String or is_number or times.str.contains(_SORTED_DATE).all():
        return texts
    dates = [
        None if np.isnan(moment) else datetime.fromtimestamp(moment, UTC)
        for moment in moments.tolist()
    ]
    return [
        text if date is None else f"{date:%Y-%m-%d %H:%M:%S}"
        for text, date in zip(texts, dates, strict=True)
    ]
