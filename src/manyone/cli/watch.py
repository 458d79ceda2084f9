"""``manyone watch``: rows in the order of time.

In a shell::

  manyone watch fleet.manyone monday.csv --state fleet.state --out watched.csv
  manyone watch fleet.manyone tuesday.csv --state fleet.state --out watched.csv
  manyone watch fleet.manyone rows.csv --state fleet.state --feedback answers.csv
  manyone watch fleet.manyone rows.csv --state fleet.state --exit-code   for cron
  manyone watch fleet.manyone rows.csv --state fleet.state --notify '$HOOK'

STATE is one SQLite file with all that was seen; dashboards read its views scores,
alarms, incidents, tasks, rates_by_day, answers, files and messages. The feedback table
has the columns id and normal, or id and answer (normal, fault, later); incident instead
of id answers all its alarms. Thresholds forget rows that were called faults. A command
that was killed goes on where it was: run it again. Exit codes: 0; 3 if something stands
out and --exit-code asks; 2 bad input; 1 error in manyone.
"""

from __future__ import annotations

import json
import time as clock
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from manyone.alerts.metrics import Metric, prometheus_text
from manyone.alerts.silence import LEVEL
from manyone.cli import watch_words
from manyone.cli.answers import read_feedback, read_mutes
from manyone.cli.common import STANDS_OUT, InputError
from manyone.cli.models import (
    AsJson,
    AtLeast,
    BadCells,
    Database,
    Directions,
    ExitCode,
    Explain,
    Keep,
    Model,
    Rows,
    Sql,
    about,
    load_model,
    refuse_same,
    source_of,
    worth_of,
)
from manyone.cli.notify import channel_of, send_test, warn_of_messages
from manyone.cli.watching import WatchRun
from manyone.files import write_atomically
from manyone.tablefiles import Source, check_place
from manyone.watch.answers import add_answers, without_rows
from manyone.watch.mutes import set_mutes
from manyone.watch.outbox import deliver, unsent_messages
from manyone.watch.store import Store, open_store


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
        str | None,
        typer.Option(
            help="Column that names each row once. Without it, id is the number of the "
            "row among all that came, from 0."
        ),
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(help="Table of answers: columns id and normal, or id and answer."),
    ] = None,
    bad_values: BadCells = "refuse",
    keep: Keep = None,
    keep_days: Annotated[
        int,
        typer.Option(help="Days that values of rows are kept; 0: not at all.", min=0),
    ] = 90,
    explain: Explain = 0,
    drift_level: Annotated[
        float | None,
        typer.Option(help="Probability that an unchanged task is ever flagged [0.01]."),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send new incidents to a webhook, or to an address of Apprise; "
            "'$NAME' is a variable of the environment that holds the address.",
        ),
    ] = None,
    notify_test: Annotated[
        bool, typer.Option("--notify-test", help="Send a test message and stop.")
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
            metavar="MINUTES",
            help="Least time between messages about one task.",
            min=0.0,
        ),
    ] = 60.0,
    silence_level: Annotated[
        float,
        typer.Option(
            help="A task is silent if at most this share of its earlier gaps was "
            "as long."
        ),
    ] = LEVEL,
    mute: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Table of what to mute: columns entity, from, until, why.",
        ),
    ] = None,
    at_least: AtLeast = None,
    direction: Directions = None,
    metrics: Annotated[
        Path | None, typer.Option(help="File for numbers, as Prometheus reads them.")
    ] = None,
    as_json: AsJson = False,
    exit_code: ExitCode = False,
) -> None:
    """Score new rows, say which tasks drift since when, and learn from answers.

    With answers about alarms, thresholds follow the rows and the promised rate is held
    while things drift. Without answers nobody can tell faults from a new normal: the
    rate is a guess.
    """
    source = source_of(table, sql, db)
    _check_places(model, source, state, out, feedback, metrics)
    _check_level("--drift-level", drift_level)
    _check_level("--silence-level", silence_level)
    if notify_later and notify is None:
        raise InputError("--notify-later needs --notify URL.")
    channel = None if notify is None else channel_of(notify)
    if notify_test:
        send_test(channel, state)
        return

    begin = clock.monotonic()
    fitted = load_model(model)
    names = [name.strip() for text in keep or [] for name in text.split(",")]
    worth = worth_of(fitted, at_least, direction)
    feedback_table = read_feedback(feedback)
    mutes = None if mute is None else read_mutes(mute, fitted)
    with open_store(state) as store:
        with about(state):
            monitor = store.monitor(fitted, drift_level)
        _refuse_other_ids(store, state, id)
        if mutes is not None:
            set_mutes(store, mutes)
        run = WatchRun(
            store,
            monitor,
            fitted,
            source,
            id_column=id,
            keep=tuple(names),
            explain=explain,
            keep_days=keep_days,
            silence_level=silence_level,
            bad_values=bad_values,
            worth=worth,
            out=out,
            cool_down=None if notify is None else timedelta(minutes=cool_down),
        )
        answers = feedback_table.of_rows(store)
        new_answers = add_answers(store, answers)
        run.watch_new_rows()
        run.finish()
        if channel is not None and not notify_later:
            deliver(store, channel)
        lost = without_rows(store, answers)
        counts = store.metrics()
        unsent = unsent_messages(store)
        summary = watch_words.summary_of(run)
    seconds = round(clock.monotonic() - begin, 3)
    if metrics is not None:
        _write_metrics(metrics, counts, seconds)
    watch_words.warn(run, source, len(answers), lost)
    if channel is not None and not notify_later:
        warn_of_messages(unsent)
    summary["answers"] = {
        "given": len(answers),
        "new": new_answers,
        "without_row": len(lost),
    }
    if as_json:
        about_run = {"model": str(model), "table": str(source), "state": str(state)}
        typer.echo(json.dumps({**about_run, **summary, "seconds": seconds}))
    else:
        watch_words.show(summary)
        if out is not None:
            typer.echo(f"Scores: {out}")
    if exit_code and summary["stands_out"]:
        raise typer.Exit(STANDS_OUT)


def _check_places(
    model: Path,
    source: Source,
    state: Path,
    out: Path | None,
    feedback: Path | None,
    metrics: Path | None,
) -> None:
    """Refuse places that cannot be written, or that are something else."""
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
    if metrics is not None:
        check_place("--metrics", metrics)
        refuse_same("--metrics", metrics, *inputs, state, *([out] if out else []))


def _check_level(option: str, level: float | None) -> None:
    """Refuse a number that is no probability."""
    if level is not None and not 0.0 < level < 1.0:
        raise InputError(
            f"{option} {level:g}: give a probability between 0 and 1, as 0.01."
        )


def _refuse_other_ids(store: Store, state: Path, id: str | None) -> None:
    """Refuse ids of another column: the same id would mean two rows."""
    before = store.note("id_column") or ""
    now = "" if id is None else id
    if store.last_row > 0 and before != now:
        remedy = f"Give --id {before}" if before else "Leave --id out"
        raise InputError(
            f"{state}: its rows have {f'ids by {before}' if before else 'no ids'}. "
            f"{remedy}, or start another --state."
        )
    store.set_note("id_column", now)


def _write_metrics(path: Path, counts: list[Metric], seconds: float) -> None:
    """Numbers for Prometheus, in a file that its node exporter reads."""
    run = [
        Metric("watch_seconds", "Seconds of the last run.", seconds),
        Metric("watch_time_seconds", "When it ended, since 1970.", clock.time()),
    ]
    text = prometheus_text([*counts, *run])
    write_atomically(path, text.encode())
