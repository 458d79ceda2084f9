"""``manyone watch``: rows in the order of time.

In a shell::

  manyone watch fleet.manyone monday.csv --state fleet.state --out watched.csv
  manyone watch fleet.manyone tuesday.csv --state fleet.state --out watched.csv   goes on
  manyone watch fleet.manyone rows.csv --state fleet.state --id reading --feedback answers.csv
  manyone watch fleet.manyone rows.csv --state fleet.state --json --exit-code   for a scheduler
  manyone watch fleet.manyone rows.csv --state fleet.state --notify '$HOOK' --metrics fleet.prom

STATE is one SQLite file with all that was seen; dashboards read its views scores, alarms,
incidents, tasks, rates_by_day, answers, files and messages. The feedback table has the columns id
and normal, or id and answer (normal, fault, later); incident instead of id answers all its
alarms. Thresholds forget rows that were called faults. A command that was killed goes on where
it was: run it again.
Exit codes: 0; 3 if something stands out and --exit-code asks; 2 for bad input; 1 for our mistakes.
"""

from __future__ import annotations

import json
import re
import time as clock
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from manyone._types import Array, Mask
from manyone.alerts.notify import AddressError, Channel, NotSentError, channel_to
from manyone.cli.common import STANDS_OUT, InputError, examples, print_lines, progress
from manyone.cli.models import (
    AtLeast,
    BadCells,
    Database,
    Directions,
    Model,
    Rows,
    Sql,
    about,
    asked_worth,
    chosen_columns,
    load_model,
    refuse_same,
    source_of,
    tail_for,
)
from manyone.files import write_atomically
from manyone.messages import label_text, plural, shortlist, warn_user
from manyone.tablefiles import (
    BadValues,
    Block,
    Source,
    Tail,
    check_place,
    read_table,
)

if TYPE_CHECKING:
    import polars as pl

    from manyone.tables import TableModel
    from manyone.tables.answers import Answers
    from manyone.tables.frames import Frame
    from manyone.tables.incidents import ScoredBlock
    from manyone.tables.worth import Worth
    from manyone.watch import Monitor, MonitorState, Watched
    from manyone.watch.arrivals import Silent
    from manyone.watch.incidents import StreamIncident
    from manyone.watch.mutes import Mute
    from manyone.watch.outbox import Messenger, Unsent
    from manyone.watch.score_copy import ScoreCopy
    from manyone.watch.store import Answer, RowDetails, Store, Totals

_BATCH = 5000  # rows of one transaction
_STREAM = Path("-")
_ALIKE = 0.5  # rows that count for less resemble the one before
_MOST_SHOWN = 20  # lines of a table on the screen
_INCIDENTS_IN_JSON = 100  # the most telling ones
_ANSWERS = ("normal", "fault", "later")
# Texts of dates that sort as the dates do.
_SORTED_DATE = r"^\d{4}-\d{2}-\d{2}"


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(epilog=examples(__doc__))(watch)


def watch(
    model: Model,
    state: Annotated[
        Path, typer.Option(help="SQLite file for all that was seen; made if missing.")
    ],
    table: Rows = None,
    sql: Sql = None,
    db: Database = None,
    out: Annotated[
        Path | None, typer.Option(help="CSV file for a copy of the scores.")
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="Column that names each row once.")
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(help="Table of answers: columns id and normal, or id and answer."),
    ] = None,
    bad_values: BadCells = "refuse",
    keep: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Columns to hand through.")
    ] = None,
    keep_days: Annotated[
        int,
        typer.Option(help="Days that values of rows are kept; 0: not at all.", min=0),
    ] = 90,
    explain: Annotated[int, typer.Option(help="Reasons for each alarm.", min=0)] = 0,
    drift_level: Annotated[
        float | None,
        typer.Option(help="Probability that a quiet task is ever flagged [0.01]."),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Tell a webhook, or what Apprise knows, of new incidents; '$NAME' is a "
            "variable of the environment that holds the address.",
        ),
    ] = None,
    notify_test: Annotated[
        bool, typer.Option("--notify-test", help="Send one message, and do no more.")
    ] = False,
    notify_later: Annotated[
        bool,
        typer.Option(
            "--notify-later", help="Keep messages for the next command to send."
        ),
    ] = False,
    cool_down: Annotated[
        float,
        typer.Option(
            metavar="MINUTES", help="Between messages about one task.", min=0.0
        ),
    ] = 60.0,
    silence_level: Annotated[
        float,
        typer.Option(help="Share of gaps between rows after which a task is silent."),
    ] = 0.01,
    mute: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="What is muted from now on: columns entity, from, until, why.",
        ),
    ] = None,
    at_least: AtLeast = None,
    direction: Directions = None,
    metrics: Annotated[
        Path | None, typer.Option(help="File for numbers, as Prometheus reads them.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary in JSON.")
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 3 if something stands out.")
    ] = False,
) -> None:
    """Score new rows, say which tasks drift since when, and learn from answers.

    With answers about alarms, thresholds follow the rows and the promised rate is held while
    things drift. Without answers nobody can tell faults from a new normal: the rate is a guess.
    """
    source = source_of(table, sql, db)
    _check_options(model, source, state, out, feedback, drift_level, silence_level)
    if metrics is not None:
        check_place("--metrics", metrics)
        outputs = [out] if out else []
        refuse_same("--metrics", metrics, model, source, state, *outputs)
    channel = None if notify is None else channel_of(notify)
    if notify_test:
        _send_test(channel, state)
        return
    from manyone.watch.store import open_store

    begin = clock.monotonic()
    fitted = load_model(model)
    worth = asked_worth(fitted, at_least, direction)
    given = _read_answers(feedback)
    mutes = None if mute is None else _read_mutes(mute, fitted)
    with open_store(state) as store:
        with about(state):
            monitor = store.monitor(fitted, drift_level)
        _refuse_other_ids(store, state, id)
        names = [name.strip() for text in keep or [] for name in text.split(",")]
        options = _Options(
            id, tuple(names), explain, keep_days, silence_level, bad_values, worth
        )
        if mutes is not None:
            store.set_mutes(mutes)
        run = _Run(store, monitor, fitted, source, options)
        if out is not None:
            run.copy_to(out)
        if channel is not None:
            run.tell(None if notify_later else channel, timedelta(minutes=cool_down))
        answers = given.of_rows(store)
        new_answers = store.add_answers(answers)
        run.watch_new_rows()
        run.finish()
        lost = store.without_rows([answer.row_id for answer in answers])
        stored = store.totals()
        unsent = store.outbox.unsent()
        summary = _summary(run.totals, monitor, store)
    totals = run.totals
    seconds = round(clock.monotonic() - begin, 3)
    if metrics is not None:
        _write_metrics(metrics, stored, seconds)
    _warn(totals, run, source, answers, lost)
    if channel is not None and not notify_later:
        warn_of_messages(unsent)
    if as_json:
        about_run = {
            "model": str(model),
            "table": str(source),
            "state": str(state),
            **summary,
            "answers": {"new": new_answers, "without_row": len(lost)},
            "seconds": seconds,
        }
        typer.echo(json.dumps(about_run))
    else:
        _show_totals(totals, monitor)
        _show_incidents(summary)
        if answers:
            typer.echo(f"{new_answers:,} of {len(answers):,} answers were new")
        _show_drift(monitor)
        _show_silent(totals.silent)
        if out is not None:
            typer.echo(f"Scores: {out}")
    if exit_code and summary["stands_out"]:
        raise typer.Exit(STANDS_OUT)


def _check_options(
    model: Path,
    source: Source,
    state: Path,
    out: Path | None,
    feedback: Path | None,
    drift_level: float | None,
    silence_level: float,
) -> None:
    """Refuse what cannot work before anything is read."""
    inputs = [model, source, *([feedback] if feedback else [])]
    check_place("--state", state)
    refuse_same("--state", state, *inputs)
    if out is not None:
        check_place("--out", out)
        refuse_same("--out", out, *inputs)
        if out.suffix != ".csv":
            raise InputError(
                f"--out {out}: rows are appended, which needs a .csv file."
            )
        if out.absolute() == state.absolute():
            raise InputError(f"--out and --state are both {out}. Name two files.")
    for option, level in (
        ("--drift-level", drift_level),
        ("--silence-level", silence_level),
    ):
        if level is not None and not 0.0 < level < 1.0:
            raise InputError(
                f"{option} {level:g}: give a probability between 0 and 1, as 0.01."
            )


def _refuse_other_ids(store: Store, state: Path, id: str | None) -> None:
    """Rows that were numbered and rows with ids of their own would be taken for one another."""
    before = store.note("id_column")
    now = "" if id is None else id
    if before is not None and before != now:
        remedy = f"Give --id {before}" if before else "Leave --id out"
        raise InputError(
            f"{state}: its rows have {f'ids by {before}' if before else 'no ids'}. "
            f"{remedy}, or start another --state."
        )
    store.set_note("id_column", now)


@dataclass
class _Totals:
    """What one command has seen."""

    rows: int = 0
    alarms: int = 0
    muted: int = 0
    repeated: int = 0
    rows_by_code: Counter[int] = field(default_factory=Counter)
    alarms_by_task: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    late: list[int] = field(default_factory=list)
    newly_drifting: list[str] = field(default_factory=list)
    drift_stands_out: bool = False
    known_alarms: int = 0
    first_alarms: dict[int, list[int]] = field(default_factory=dict)
    silent: list[Silent] = field(default_factory=list)

    def count(self, answers: Answers, counts: Mask, repeated: int) -> None:
        """Count new rows, and the alarms among them that count for something."""
        names = [label_text(label) for label in answers.labels.tolist()]
        self.rows += len(names)
        self.repeated += repeated
        known = answers.codes >= 0
        self.rows_by_code.update(answers.codes[known].tolist())
        self.unknown.update(names[row] for row in np.flatnonzero(~known).tolist())
        alarms = np.flatnonzero(answers.alarm & counts)
        self.alarms += len(alarms)
        self.muted += int(np.count_nonzero(answers.alarm & ~counts))
        self.known_alarms += int(np.count_nonzero(known[alarms]))
        self.alarms_by_task.update(names[row] for row in alarms.tolist())

    def add_incidents(self, incidents: list[StreamIncident]) -> None:
        """Note incidents that new alarms have joined, instead of what they were before."""
        for stretch in {incident.stretch for incident in incidents}:
            self.first_alarms[stretch] = []
        for incident in incidents:
            self.first_alarms[incident.stretch].append(incident.alarms[0])


@dataclass(frozen=True)
class _Options:
    """What was asked for about rows.

    Parameters
    ----------
    id_column : str or None
    keep : tuple of str
        Columns that are handed through.
    explain : int
        Reasons for each alarm.
    keep_days : int
        Days that values of rows are kept.
    silence_level : float
        Share of gaps between rows that may be flagged.
    bad_values : {"refuse", "missing"}
    worth : Worth or None
        What is worth an alarm.
    """

    id_column: str | None
    keep: tuple[str, ...]
    explain: int
    keep_days: int
    silence_level: float
    bad_values: BadValues
    worth: Worth | None


class _Run:
    """One command: reads new rows, judges them, writes them to the store."""

    def __init__(
        self,
        store: Store,
        monitor: Monitor,
        model: TableModel,
        source: Source,
        options: _Options,
    ) -> None:
        from manyone.watch.arrivals import Arrivals
        from manyone.watch.incidents import IncidentFinder
        from manyone.watch.mutes import Mutes

        self.totals = _Totals()
        self.tail: Tail | None = None
        self._finder = IncidentFinder(store, model)
        self._store = store
        self._monitor = monitor
        self._model = model
        self._source = source
        self._options = options
        self._copy: ScoreCopy | None = None
        self._messenger: Messenger | None = None
        self._arrivals = Arrivals(store)
        self._mutes = Mutes(store.mutes(), datetime.now(UTC).timestamp())

    def copy_to(self, out: Path) -> None:
        """Keep a copy of the scores in a file."""
        from manyone.watch.score_copy import ForeignFileError, ScoreCopy

        try:
            self._copy = ScoreCopy(
                self._store, out, self._options.keep, self._options.explain
            )
        except ForeignFileError as error:
            raise InputError(f"--out {out} {error}. Name a new file.") from error

    def tell(self, channel: Channel | None, cool_down: timedelta) -> None:
        """Tell people of new incidents and of drift that stands out."""
        from manyone.watch.outbox import Messenger

        self._messenger = Messenger(
            self._store.outbox, channel, cool_down, self._store.path.name
        )

    def watch_new_rows(self) -> None:
        """Judge what is new in the table, batch by batch."""
        is_stream = self._source == _STREAM
        path = str(self._source if is_stream else self._source.resolve())
        before = self._store.last_file(path)
        consumed = None if before is None else before.consumed
        with (
            tail_for(
                self._model,
                self._source,
                consumed,
                bad_values=self._options.bad_values,
            ) as tail,
            progress("watching", "rows") as update,
        ):
            self.tail = tail
            number: int | None = None
            for block in tail.blocks(_BATCH):
                if number is None and before is not None and tail.fate == "grown":
                    number = before.number
                elif number is None:
                    number = self._store.add_file(path)
                self._watch_block(block, number)
                self._store.set_consumed(number, tail.consumed)
                self._commit()
                update(tail.consumed.rows, None)
            if number is None and before is not None and tail.fate == "grown":
                number = before.number
            if number is not None:
                self._store.set_consumed(number, tail.consumed)  # to its end

    def finish(self) -> None:
        """Use answers to rows that have come now, and forget old values."""
        from manyone.watch.outbox import silent_notice

        used = self._store.use_answers(self._monitor)
        silent = self._arrivals.silent(self._options.silence_level)
        self.totals.silent = [one for one in silent if not self._is_muted(one.task)]
        self._store.prune_values(self._options.keep_days)
        if used or not self._store.saved:
            self._commit()
        if self._messenger is not None:
            self._messenger.announce(
                silent_notice(one.task, one.latest)
                for one in self.totals.silent
                if one.new
            )
            self._messenger.before_commit()
        self._store.commit(None)  # notes how far a copy was written, too
        if self._messenger is not None:
            self._messenger.after_commit()
            self._messenger.finish()
            self._store.commit(None)

    def _is_muted(self, task: str) -> bool:
        """Whether a task is muted at the time of the latest row."""
        return self._mutes.why(task, self._arrivals.now) is not None

    def _commit(self) -> None:
        if self._messenger is not None:
            self._messenger.before_commit()
        self._store.commit(self._monitor)
        if self._messenger is not None:
            self._messenger.after_commit()
        if self._copy is not None:
            self._copy.catch_up()

    def _watch_block(self, block: Block, file_number: int) -> None:
        """Judge the rows of a block, and hand them to the store with their incidents."""
        from manyone.tables.incidents import REASONS, scored_block

        # Before each batch, so that a run that was killed goes on as it would have.
        self._store.use_answers(self._monitor)
        state = self._monitor.state
        flagged = state.flagged >= 0
        most = state.most.copy()
        with about(self._source, block.first_row):
            ids = self._ids(block)
            frame = self._monitor.with_past(block.table, ids)
            watched = self._watched(frame, block.table, ids)
            answers = self._answers(watched, frame)
            counts = np.ones(len(answers.rows), dtype=bool)
            if self._options.worth is not None:
                taken = self._options.worth.taken_away(self._model, frame, answers)
                answers = replace(answers, alarm=answers.alarm & ~taken)
                counts &= ~taken
            moments = self._moments(block.table)
            muted = self._mutes.of_rows(_names(answers), moments[answers.rows])
            counts &= np.array([why is None for why in muted], dtype=bool)
            top = max(REASONS, self._options.explain)
            scored = scored_block(self._model, frame, answers, top=top, counts=counts)
        self.totals.count(answers, counts, len(watched.new) - len(answers.rows))
        details = self._details(block, scored, moments, muted, file_number)
        late = self._arrivals.add(details.task, details.moment)
        self.totals.late += [details.file_row[row] for row in late]
        numbers = self._store.add_rows(self._monitor, details)
        incidents = self._finder.add(numbers, details.task, state, scored)
        self.totals.add_incidents(incidents)
        self._announce(incidents)
        self._note_drift(flagged, most, watched, moments)

    def _announce(self, incidents: list[StreamIncident]) -> None:
        """Make messages of incidents that stand out and nobody has answered."""
        from manyone.watch.outbox import incident_notice

        if self._messenger is None:
            return
        first = [each.alarms[0] for each in incidents if each.stands_out]
        lines = self._store.incidents(len(first), first)
        self._messenger.announce(
            incident_notice(line) for line in lines if line["answer"] is None
        )

    def _watched(self, frame: Frame, table: pl.DataFrame, ids: list[str]) -> Watched:
        """What the monitor says of the rows of a block, which carry their past."""
        times = self._times(table)
        return self._monitor.update(
            frame.to_native(), time=None if times is None else times.to_list(), id=ids
        )

    def _answers(self, watched: Watched, frame: Frame) -> Answers:
        """The same of those that are new."""
        from manyone.tables.answers import BASES, Answers
        from manyone.tables.frames import task_labels

        new = np.flatnonzero(watched.new)
        basis = np.searchsorted(BASES, watched.basis[new])
        return Answers(
            rows=new,
            labels=task_labels(frame, self._model.task_columns)[new],
            codes=watched.codes[new],
            score=watched.score[new],
            p_value=watched.p_value[new],
            alarm=watched.alarm[new],
            basis=basis.astype(np.intp),
        )

    def _ids(self, block: Block) -> list[str]:
        """Ids of the rows of a block; numbers where no column holds ids."""
        if self._options.id_column is None:
            start = self._monitor.state.memory.count
            return [str(start + row) for row in range(len(block.table))]
        chosen_columns("--id", [self._options.id_column], block.table, self._source)
        _refuse_gaps(
            self._options.id_column, block.table, self._source, block.first_row
        )
        return block.table[self._options.id_column].cast(str).to_list()

    def _times(self, table: pl.DataFrame) -> pl.Series | None:
        """The time column, if the model has one and the table too."""
        name = self._model.time
        return table[name] if name is not None and name in table.columns else None

    def _moments(self, table: pl.DataFrame) -> Array:
        """Times as numbers, NaN where there is none."""
        from manyone.tables.frames import as_table, read_column, times_of

        name = self._model.time
        if name is None or name not in table.columns:
            return np.full(len(table), np.nan)
        return times_of(read_column(as_table(table).get_column(name)))[0]

    def _details(
        self,
        block: Block,
        scored: ScoredBlock,
        moments: Array,
        muted: list[str | None],
        file_number: int,
    ) -> RowDetails:
        """What the store keeps of the new rows of a block."""
        from manyone.tables.answers import BASES
        from manyone.watch.store import RowDetails

        answers = scored.answers
        new = answers.rows
        rows = block.table[new.tolist()]
        kept = chosen_columns("--keep", self._options.keep, block.table, self._source)
        times = self._times(rows)
        nothing: list[str | None] = [None] * len(rows)
        reasons = nothing.copy()
        alarms = np.flatnonzero(answers.alarm).tolist()
        for row, sentences in zip(alarms, scored.reasons, strict=True):
            reasons[row] = json.dumps(sentences)
        return RowDetails(
            file=file_number,
            file_row=(block.first_row + new).tolist(),
            task=_names(answers),
            time=nothing if times is None else _time_texts(times, moments[new]),
            moment=moments[new],
            basis=BASES[answers.basis].tolist(),
            alarm=answers.alarm,
            muted=[
                why if alarm else None
                for why, alarm in zip(muted, answers.alarm.tolist(), strict=True)
            ],
            kept=[*_as_json(rows.select(kept))] if kept else nothing,
            reasons=reasons,
            values=_as_json(rows) if self._options.keep_days else None,
        )

    def _note_drift(
        self, flagged: Mask, most: Array, watched: Watched, moments: Array
    ) -> None:
        """Note tasks that have just been found to drift, by what they were before.

        Some of many quiet tasks are flagged. Drift stands out where the bets of a task
        have won so much that no task of the fleet should by chance.
        """
        from manyone.alerts.evidence import STANDS_OUT as LEVEL
        from manyone.watch.outbox import drift_notice

        state = self._monitor.state
        codes = np.flatnonzero((state.flagged >= 0) & ~flagged)
        needed = np.log(len(most) / LEVEL)
        outstanding = [
            t
            for t in np.flatnonzero((state.most >= needed) & (most < needed)).tolist()
            if not self._is_muted(str(self._model.tasks_[t]))
        ]
        if outstanding:
            self.totals.drift_stands_out = True
        if self._messenger is not None:
            self._messenger.announce(
                drift_notice(
                    str(self._model.tasks_[t]),
                    _when_it_drifts(state, t)[0],
                    state.memory.count,
                )
                for t in outstanding
            )
        for t in codes.tolist():
            task = str(self._model.tasks_[t])
            row = int(np.argmax(watched.drift & watched.new & (watched.codes == t)))
            moment = float(moments[row])
            self._store.set_drift(task, *_when_it_drifts(state, t), moment)
            self.totals.newly_drifting.append(task)


def _names(answers: Answers) -> list[str | None]:
    """Names of the tasks of rows."""
    labels = answers.labels.tolist()
    return [None if label is None else str(label) for label in labels]


def _as_json(table: pl.DataFrame) -> list[str]:
    """Each row as an object in JSON."""
    import polars as pl

    encoded = table.select(row=pl.struct(pl.all()).struct.json_encode())
    return encoded["row"].to_list()


# ----------------------------------------------------------------------------------- messages


def channel_of(address: str, said_in: str = "--notify") -> Channel:
    """Where messages go; an address that cannot be used is refused and never shown."""
    try:
        return channel_to(address)
    except AddressError as error:
        raise InputError(f"{said_in}: {error}.") from None


def _send_test(channel: Channel | None, state: Path) -> None:
    """Send one message, to see whether it arrives."""
    if channel is None:
        raise InputError("--notify-test needs --notify URL.")
    text = "This is a test of manyone watch: new incidents arrive here."
    content = {"id": "test", "kind": "test", "text": text, "state": state.name}
    try:
        channel.send(content)
    except NotSentError as error:
        raise InputError(f"--notify: the test was not delivered: {error}.") from None
    typer.echo("The test message was delivered")


def warn_of_messages(unsent: Unsent) -> None:
    """Say on stderr what could not be delivered."""
    if unsent.waiting:
        warn_user(
            f"{plural(unsent.waiting, 'message')} could not be delivered "
            f"({unsent.problem}). The next command tries again."
        )
    if unsent.given_up:
        warn_user(
            f"{plural(unsent.given_up, 'message')} could not be delivered for a week "
            "and will not be tried again. The view messages of the state has them."
        )


# ------------------------------------------------------------------------------------ answers


@dataclass(frozen=True)
class _Given:
    """Answers as somebody gave them: of rows, or of incidents, by their ids."""

    words: dict[str, str]
    of_incidents: bool = False

    def of_rows(self, store: Store) -> list[Answer]:
        """One answer for each row."""
        from manyone.watch.store import Answer

        if not self.of_incidents:
            return [Answer(row_id, word) for row_id, word in self.words.items()]
        answers = []
        for incident, word in self.words.items():
            alarms = store.alarms_of(incident)
            if not alarms:
                raise InputError(
                    f"--feedback: {store.path} has no incident {incident}."
                )
            answers += [Answer(row_id, word) for row_id in alarms]
        return answers


def _read_answers(path: Path | None) -> _Given:
    """Answers of a table, one for each id, or for each incident."""
    if path is None:
        return _Given({})
    table = read_table(path, find=["normal"], need_rows=False)
    named = (
        "id" if "id" in table.columns or "incident" not in table.columns else "incident"
    )
    column = "answer" if "answer" in table.columns else "normal"
    chosen_columns("--feedback", [named, column], table, path)
    for name in (named, column):
        _refuse_gaps(name, table, path)
    words = _answer_words(table, column, path)
    answers: dict[str, str] = {}
    for row, (row_id, word) in enumerate(
        zip(table[named].cast(str).to_list(), words, strict=True)
    ):
        if answers.setdefault(row_id, word) != word:
            raise InputError(
                f"{path}: row {row}: {named} {row_id} is called {answers[row_id]} and "
                f"{word}. Keep one."
            )
    return _Given(answers, of_incidents=named == "incident")


def _answer_words(table: pl.DataFrame, column: str, path: Path) -> list[str]:
    """Normal, fault or later for each row."""
    from manyone.tables.frames import as_table, read_yes_no

    if column == "normal":
        with about(path):
            normal = read_yes_no(as_table(table), "normal").tolist()
        return ["normal" if is_normal else "fault" for is_normal in normal]
    words = [str(word).strip().lower() for word in table["answer"].to_list()]
    wrong = [word for word in dict.fromkeys(words) if word not in _ANSWERS]
    if wrong:
        raise InputError(
            f"{path}: column answer must say normal, fault or later; "
            f"got {shortlist(wrong, 3)}."
        )
    return words


def _read_mutes(path: Path, model: TableModel) -> list[Mute]:
    """What a table says is muted."""
    from manyone.tables.frames import as_table, read_column, times_of
    from manyone.watch.mutes import Mute

    table = read_table(path, find=(), need_rows=False)
    own = [name for name in model.task_columns if len(model.task_columns) == 1]
    entity = next((name for name in own if name in table.columns), "entity")
    chosen_columns("--mute", [entity], table, path)
    names = [name or None for name in table[entity].cast(str).to_list()]
    limits = {
        "from": np.full(len(table), -np.inf),
        "until": np.full(len(table), np.inf),
    }
    for name in limits.keys() & {*table.columns}:
        given = table[name].to_list()
        values = times_of(read_column(as_table(table).get_column(name)))[0]
        for row, (text, value) in enumerate(zip(given, values.tolist(), strict=True)):
            if text is not None and value != value:
                raise InputError(
                    f"{path}: row {row}: {text!r} in the column {name} is no time. "
                    "Write it as 2026-01-31 12:00."
                )
        limits[name] = np.where(np.isnan(values), limits[name], values)
    why = ["muted"] * len(table)
    if "why" in table.columns:
        why = [text or "muted" for text in table["why"].cast(str).to_list()]
    known = {str(label) for label in model.tasks_.tolist()}
    strange = [name for name in names if name is not None and name not in known]
    if strange:
        warn_user(f"{path}: the model does not know {shortlist(strange, 3)}.")
    columns = (names, limits["from"].tolist(), limits["until"].tolist(), why)
    return [Mute._make(line) for line in zip(*columns, strict=True)]


def _refuse_gaps(
    name: str, table: pl.DataFrame, source: Source, first_row: int = 0
) -> None:
    """Refuse a column with empty fields."""
    gaps = table[name].is_null().arg_true()
    if len(gaps):
        raise InputError(
            f"{source}: row {first_row + gaps[0]} has no value in the column {name}. "
            "Fill it in."
        )


# ---------------------------------------------------------------------------- what is reported


def _more_than_chance(totals: _Totals, monitor: Monitor) -> bool:
    """Whether chance does not explain the number of alarms of this command."""
    from manyone.alerts.evidence import STANDS_OUT as LEVEL
    from manyone.alerts.evidence import alarm_law, chance_of, highest_rate, total_law

    state = monitor.state
    references = np.count_nonzero(~np.isnan(state.window), axis=1)
    laws = []
    for code, rows in totals.rows_by_code.items():
        reference = float(references[code])
        laws.append(alarm_law(rows, reference, highest_rate(state.rate, reference)))
    return chance_of(totals.known_alarms, total_law(laws)) < LEVEL


def _summary(totals: _Totals, monitor: Monitor, store: Store) -> dict[str, Any]:
    """For machines."""
    state = monitor.state
    first_alarms = [n for numbers in totals.first_alarms.values() for n in numbers]
    joined = store.incidents(len(first_alarms), first_alarms)
    outstanding = sum(line["stands_out"] for line in joined)
    more_than_chance = _more_than_chance(totals, monitor)
    drifting = np.flatnonzero(state.flagged >= 0).tolist()
    return {
        "rows": totals.rows,
        "repeated": totals.repeated,
        "unknown": totals.unknown.total(),
        "alarms": totals.alarms,
        "muted": totals.muted,
        "alarm_rate": state.rate,
        "expected_false_alarms": round(state.rate * totals.rows, 1),
        "alarms_by_task": dict(totals.alarms_by_task.most_common(_MOST_SHOWN)),
        "drifting": [
            dict(
                zip(
                    ("task", "since", "flagged"),
                    (str(monitor.model.tasks_[t]), *_when_it_drifts(state, t)),
                    strict=True,
                )
            )
            for t in drifting
        ],
        "newly_drifting": totals.newly_drifting,
        "silent": [
            {"task": one.task, "latest": one.latest, "p_value": one.p_value}
            for one in totals.silent
        ],
        "newly_silent": [one.task for one in totals.silent if one.new],
        "more_alarms_than_chance": more_than_chance,
        "incidents_standing_out": outstanding,
        "incidents": joined[:_INCIDENTS_IN_JSON],
        "stands_out": outstanding > 0 or more_than_chance or totals.drift_stands_out,
    }


def _write_metrics(path: Path, stored: Totals, seconds: float) -> None:
    """Numbers for Prometheus, in a file that its node exporter reads."""
    from manyone.alerts.metrics import Metric, prometheus_text
    from manyone.watch.store import metrics_of

    run = [
        Metric("watch_seconds", "gauge", "Seconds of the last run.", seconds),
        Metric(
            "watch_time_seconds", "gauge", "When it ended, since 1970.", clock.time()
        ),
    ]
    text = prometheus_text([*metrics_of(stored), *run])
    write_atomically(path, text.encode())


def _show_totals(totals: _Totals, monitor: Monitor) -> None:
    """Rows and alarms, for people."""
    share = f", {100 * totals.alarms / totals.rows:.1f} %" if totals.rows else ""
    rows = plural(totals.rows, "new row")
    alarms = plural(totals.alarms, "alarm")
    typer.echo(f"{rows}, {alarms}{share} ({100 * monitor.state.rate:g} % promised)")
    if totals.muted:
        typer.echo(f"{plural(totals.muted, 'alarm')} more, muted")
    if totals.repeated:
        repeated = plural(totals.repeated, "row")
        typer.echo(f"{repeated} with an id that came before, counted once")
    if totals.unknown:
        names = shortlist(list(totals.unknown), 3)
        typer.echo(
            f"{plural(totals.unknown.total(), 'row')} of tasks never seen ({names}): compared "
            "with all tasks, nothing is learned from them; manyone enroll makes tasks known"
        )


def _time_texts(times: pl.Series, moments: Array) -> list[str | None]:
    """Times as texts that sort, as 2026-01-31 12:00:00; numbers as they are."""
    import polars as pl

    texts: list[str | None] = times.cast(pl.String).to_list()
    is_number = times.cast(pl.Float64, strict=False).is_not_null().any()
    if times.dtype != pl.String or is_number or times.str.contains(_SORTED_DATE).all():
        return texts
    dates = [
        None if moment != moment else datetime.fromtimestamp(moment, UTC)
        for moment in moments.tolist()
    ]
    return [
        text if date is None else f"{date:%Y-%m-%d %H:%M:%S}"
        for text, date in zip(texts, dates, strict=True)
    ]


def _show_incidents(summary: dict[str, Any]) -> None:
    """Incidents that stand out, or that none does."""
    outstanding = [line for line in summary["incidents"] if line["stands_out"]]
    lines = [
        (
            line["task"],
            line["column"],
            f"{line['alarms']:,}",
            _moment(str(line["begin"]), 0),
            _moment(str(line["end"]), 0),
            line["reason"],
        )
        for line in outstanding[:_MOST_SHOWN]
    ]
    if lines:
        heads = ("task", "column", "alarms", "begin", "end", "reason")
        print_lines("Incidents that stand out", heads, lines)
        more = summary["incidents_standing_out"] - len(lines)
        if more > 0:
            typer.echo(f"And {more:,} more.")
    elif summary["more_alarms_than_chance"]:
        typer.echo("More alarms than chance explains, in no single incident.")
    else:
        typer.echo("No new incident stands out from chance.")


def _warn(
    totals: _Totals,
    run: _Run,
    source: Source,
    answers: list[Answer],
    lost: list[str],
) -> None:
    """Say on stderr what looks wrong."""
    tail = run.tail
    if tail is not None and tail.fate in ("shorter", "changed"):
        why = (
            "is shorter than when it was read"
            if tail.fate == "shorter"
            else "does not begin as when it was read"
        )
        warn_user(
            f"{source} {why}. It was taken for a new file and read from its beginning."
        )
    if tail is not None and tail.waits:
        warn_user(
            f"{source}: the last line has no line end, so it may be incomplete. It waits "
            "until the line is ended."
        )
    if totals.late:
        warn_user(
            f"{source}: row {totals.late[0]} is older than a row of its task before it "
            f"({plural(len(totals.late), 'such row')}). Rows were taken as they came: sort "
            "the table by its time."
        )
    if lost:
        warn_user(
            f"Of {plural(len(answers), 'answer')}, {len(lost):,} name a row that has not "
            f"come, as {shortlist(lost, 3)}. They are kept until it comes."
        )


def _show_drift(monitor: Monitor) -> None:
    """What drifts since when, and what to do about it."""
    from manyone.watch.drift import weights_of_rows

    state = monitor.state
    tasks = monitor.model.tasks_
    drifting = np.flatnonzero(state.flagged >= 0)
    if not len(drifting):
        typer.echo("Nothing drifts.")
        return
    clearest = drifting[np.argsort(-state.most[drifting])][:_MOST_SHOWN]
    lines = [
        (str(tasks[t]), *_when_it_drifts(state, t), _advice(state, t))
        for t in clearest.tolist()
    ]
    print_lines("Drifting", ("task", "since about", "flagged", "what to do"), lines)
    if len(drifting) > len(lines):
        typer.echo(f"The {len(lines)} clearest of {len(drifting)} tasks.")
    if np.median(weights_of_rows(state.neighbours)) < _ALIKE:
        typer.echo(
            "Rows resemble the one before them, so flags are less sure: watch fewer, every tenth "
            "or means over a longer time."
        )
    fleet = f"Taken together, the {len(tasks):,} tasks"
    chance = f"chance, which flags one quiet task in {1 / state.drift_level:.0f}."
    if state.fleet_flagged[0] < 0:
        typer.echo(f"{fleet} do not drift: a flag may be {chance}")
    elif 2 < len(tasks) < 2 * len(drifting):
        typer.echo("Most tasks drift: look at what they share (a sensor, an import).")
    else:
        typer.echo(f"{fleet} drift too: this is not {chance}")


def _show_silent(silent: list[Silent]) -> None:
    """Tasks that send no rows any more."""
    lines = [
        (one.task, _moment(one.latest, 0), f"{one.p_value:.3g}", "new" * one.new)
        for one in silent[:_MOST_SHOWN]
    ]
    if lines:
        heads = ("task", "last row", "share of gaps as long", "")
        print_lines("Silent for longer than usual", heads, lines)
    if len(silent) > len(lines):
        typer.echo(f"The {len(lines)} clearest of {len(silent)} tasks.")


def _when_it_drifts(state: MonitorState, t: int) -> tuple[str, str]:
    """Since when a task drifts, and when it was flagged."""
    return (
        _moment(str(state.since_time[t]), int(state.since[t])),
        _moment(str(state.flagged_time[t]), int(state.flagged[t])),
    )


def _moment(time: str, row: int) -> str:
    """A time, or the number of the row where there is none."""
    return re.sub(r"\.0+$", "", time.replace("T", " ")) or f"its row {row}"


def _advice(state: MonitorState, t: int) -> str:
    normal, abnormal = state.answers[t]
    if not state.alarms[t]:
        return "no row raised an alarm, yet rows have changed: look at its latest rows"
    if normal + abnormal < 1:
        return "look at its alarms, and answer some with --feedback"
    if normal >= abnormal:
        return (
            "if its rows since then are normal: manyone enroll them, start a new state"
        )
    return "its alarms are real: mend it"
