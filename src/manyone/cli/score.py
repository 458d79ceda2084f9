"""``manyone score``, ``evaluate`` and ``report``: answers of a model to further rows.

In a shell::

  manyone score fleet.manyone today.csv --out scores.csv
  manyone score fleet.manyone today.parquet --out scores.csv --explain 3 --keep when
  manyone score fleet.manyone today.csv --out scores.csv --fdr 0.1    few false alarms
  manyone score fleet.manyone today.csv --out scores.csv --incidents incidents.csv
  manyone score fleet.manyone today.csv --out scores.csv --at-least flow=10%
  manyone score fleet.manyone today.csv --out scores.csv --exit-code   for cron
  cat today.csv | manyone score fleet.manyone - --out - | grep true
  manyone evaluate fleet.manyone labelled.csv --outlier was_broken
  manyone report fleet.manyone today.csv --out page.html
  manyone report fleet.manyone --state fleet.state --out page.html   of manyone watch

Exit codes: 0; 3 if something stands out and --exit-code asks; 2 bad input; 1 error in
manyone. Something stands out if chance does not explain an incident, or the number of
alarms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer

from manyone.alerts.incidents import Findings
from manyone.alerts.values import Rows as ScoredRows
from manyone.cli.common import (
    STANDS_OUT,
    InputError,
    print_lines,
    progress,
    shown,
    working,
)
from manyone.cli.models import (
    INCIDENTS_IN_JSON,
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
    chosen_columns,
    load_model,
    refuse_same,
    rows_for,
    source_of,
    worth_of,
)
from manyone.messages import label_text, plural, shortlist, warn_user
from manyone.tablefiles import (
    STREAM,
    BadValues,
    Block,
    Source,
    check_output,
    check_place,
    read_blocks,
    table_writer,
)
from manyone.tables import TableModel
from manyone.tables.answers import BASES
from manyone.tables.frames import as_table
from manyone.tables.incidents import findings_of, incident_table, scored_rows
from manyone.tables.inputs import file_columns
from manyone.tables.page import report_of, write_page
from manyone.tables.past import TablePast
from manyone.watch.record import report_of_store
from manyone.watch.store import read_store

Unknown = Literal["pooled", "error", "skip"]
#: Counts of a command, as --json prints them.
Summary = dict[str, Any]
_TOLD = 5  # incidents that are named where people read


def score(
    model: Model,
    out: Annotated[
        Path, typer.Option(help="File for scores, as .csv or .parquet; - is stdout.")
    ],
    table: Rows = None,
    sql: Sql = None,
    db: Database = None,
    explain: Explain = 0,
    fdr: Annotated[
        float | None,
        typer.Option(
            help="Choose alarms so that at most this share is false, on average (FDR)."
        ),
    ] = None,
    keep: Keep = None,
    unknown: Annotated[
        Unknown,
        typer.Option(help="Tasks never seen: compare with all, refuse or leave out."),
    ] = "pooled",
    incidents: Annotated[
        Path | None,
        typer.Option(help="File for incidents, as .csv or .parquet."),
    ] = None,
    at_least: AtLeast = None,
    direction: Directions = None,
    bad_values: BadCells = "refuse",
    as_json: AsJson = False,
    exit_code: ExitCode = False,
) -> None:
    """Give every row a score, a p-value and an alarm or none."""
    source = source_of(table, sql, db)
    _check_outputs([model, source], out, incidents, as_json)
    if fdr is not None and not 0.0 < fdr < 1.0:
        raise InputError(f"--fdr {fdr:g}: give a share between 0 and 1, as 0.1.")
    fitted = load_model(model)
    worth = worth_of(fitted, at_least, direction)
    needs_incidents = incidents is not None or as_json or exit_code
    past: TablePast | None = None
    parts: list[ScoredRows] = []
    counts: list[pl.DataFrame] = []
    rows = 0
    bar: AbstractContextManager[Callable[[int, int | None], None] | None] = (
        progress("scoring", "rows") if fdr is None else working("scoring")
    )
    with table_writer(out) as add, bar as update:
        for block in _blocks(fitted, source, fdr is not None, bad_values):
            names = chosen_columns("--keep", keep or [], block.table.columns, source)
            with about(source, block.first_row):
                frame = as_table(block.table)
                read, past = fitted.read(frame, past)
                answers = fitted._answer(read, fdr, unknown, worth)
                kept_columns = as_table(block.written.select(names))
                scores: pl.DataFrame = fitted._scores(
                    read, answers, explain, kept_columns, frame
                )
            if needs_incidents:
                parts.append(scored_rows(fitted, read, answers, block.first_row))
            counts.append(
                scores.group_by("task", "basis").agg(
                    rows=pl.len(), alarms=pl.col("alarm").sum()
                )
            )
            add(scores.with_columns(scores["row"] + block.first_row))
            rows += len(block.table)
            if update is not None:
                update(rows, round(rows / block.done) if block.done else None)
    rate = fitted.promised_rate_ if fdr is None else None
    summary = _summary(counts, rows, rate, out)
    _warn(summary, counts, fitted, source)
    findings = None
    if needs_incidents:
        findings = findings_of(fitted, parts, by_rate=fdr is None)
        incident_lines: pl.DataFrame = incident_table(fitted, frame, findings)
    if findings is not None and incidents is not None:
        with table_writer(incidents) as add:
            add(incident_lines)
    if findings is not None and as_json:
        about_files = {"model": str(model), "table": str(source)}
        everything = about_files | summary | _findings_summary(findings, incident_lines)
        typer.echo(json.dumps(everything, default=datetime.isoformat))
    else:
        _show(summary, out)
        if findings is not None:
            typer.echo(_told(findings, incident_lines), err=str(out) == STREAM)
        if incidents is not None:
            typer.echo(f"Incidents: {incidents}", err=str(out) == STREAM)
    if exit_code and findings is not None and findings.stands_out:
        raise typer.Exit(STANDS_OUT)


def _check_outputs(
    inputs: Sequence[Source], out: Path, incidents: Path | None, as_json: bool
) -> None:
    """Refuse places that cannot be written, and two outputs in one place."""
    check_output("--out", out)
    refuse_same("--out", out, *inputs)
    if as_json and str(out) == STREAM:
        raise InputError(
            "--json and --out - both want stdout. Name a file for the scores."
        )
    if incidents is not None:
        check_output("--incidents", incidents)
        refuse_same("--incidents", incidents, *inputs, out)
        if str(incidents) == STREAM or incidents == out:
            raise InputError(f"--incidents {incidents}: name another file.")


def _findings_summary(findings: Findings, lines: pl.DataFrame) -> dict[str, object]:
    """What stands out, for --json."""
    by_rate = findings.rate is not None
    return {
        "stands_out": findings.stands_out,
        "more_alarms_than_chance": findings.more_than_chance,
        "most_alarms_by_chance": findings.most_by_chance if by_rate else None,
        "incidents_standing_out": len(findings.outstanding),
        "incidents": lines.head(INCIDENTS_IN_JSON).to_dicts(),
    }


def _told(findings: Findings, incidents: pl.DataFrame) -> str:
    """What stands out, in a sentence, and a line for each of the first incidents."""
    outstanding = incidents.filter("stands_out")
    number = len(outstanding)
    if number > 0:
        verb = "stands" if number == 1 else "stand"
        lines = [f"{plural(number, 'incident')} {verb} out:"]
        for line in outstanding.head(_TOLD).to_dicts():
            told = f"{label_text(line['task'])}: {line['reason']}"
            lines.append(f"  {shown(told)} ({plural(line['alarms'], 'alarm')})")
        if number > _TOLD:
            lines.append(f"  and {number - _TOLD} more")
        return "\n".join(lines)
    if findings.more_than_chance:
        most = findings.most_by_chance
        return f"More alarms than chance explains: it explains up to {most:,}."
    return "Nothing stands out from chance."


def _blocks(
    model: TableModel, source: Source, at_once: bool, bad_values: BadValues
) -> Iterator[Block]:
    """The table in blocks; in one block if all its rows are needed at once."""
    columns = file_columns(model)
    blocks = read_blocks(source, **columns, bad_values=bad_values, need_rows=False)
    if not at_once:
        return blocks
    tables, written, *_ = zip(*blocks, strict=True)
    table = pl.concat(tables, how="vertical_relaxed")
    return iter([Block(table, pl.concat(written, how="vertical_relaxed"), 0, 1.0)])


def _summary(
    counts: Sequence[pl.DataFrame], rows: int, rate: float | None, out: Path
) -> Summary:
    """Counts for --json, from rows and alarms by task and basis."""
    total = pl.concat(counts, how="vertical_relaxed")
    scored = int(total["rows"].sum())
    basis = dict.fromkeys(BASES.tolist(), 0)
    basis |= dict(total.group_by("basis").agg(pl.col("rows").sum()).rows())
    by_task = total.group_by("task").agg(pl.col("alarms").sum())
    worst = by_task.filter(pl.col("alarms") > 0).sort("task", nulls_last=True)
    worst = worst.sort("alarms", descending=True, maintain_order=True)
    return {
        "scores": str(out),
        "rows": rows,
        "skipped": rows - scored,
        "tasks": total["task"].drop_nulls().n_unique(),
        "alarms": int(total["alarms"].sum()),
        "alarm_rate": rate,
        "expected_false_alarms": None if rate is None else round(rate * scored, 1),
        "basis": basis,
        "alarms_by_task": {
            label_text(task): alarms for task, alarms in worst.head(20).rows()
        },
    }


def _warn(
    summary: Summary, counts: Sequence[pl.DataFrame], model: TableModel, source: Source
) -> None:
    """Say on stderr what was left out, and that the model knows none of the tasks."""
    if summary["skipped"]:
        skipped = plural(summary["skipped"], "row")
        warn_user(f"{skipped} of tasks never seen skipped.", UserWarning)
    if summary["basis"]["unknown"] == summary["rows"] - summary["skipped"] > 0:
        tasks = counts[0]["task"].unique().sort().to_list()
        warn_user(
            f"{source}: the model knows none of its tasks ({shortlist(tasks, 3)}). It "
            f"knows {shortlist(model.tasks_.tolist(), 3)}. Are they written in the "
            "same way?",
            UserWarning,
        )


def _show(summary: Summary, out: Path) -> None:
    """Print counts; on stderr if the scores go to stdout."""
    rows = plural(summary["rows"] - summary["skipped"], "row")
    tasks = plural(summary["tasks"], "task")
    words = [f"{rows} of {tasks}, {plural(summary['alarms'], 'alarm')}"]
    if summary["alarm_rate"] is not None:
        most = f"{summary['expected_false_alarms']:,.0f}"
        words.append(f"at most {most} expected if all rows are normal")
    if summary["basis"]["unknown"]:
        words.append(
            f"{plural(summary['basis']['unknown'], 'row')} of tasks never seen"
        )
    if str(out) == STREAM:
        typer.echo("; ".join(words), err=True)
        return
    if summary["alarms"]:
        worst = list(summary["alarms_by_task"].items())[:10]
        lines = [(task, f"{alarms:,}") for task, alarms in worst]
        print_lines("Most alarms", ("task", "alarms"), lines)
    typer.echo("; ".join(words))
    typer.echo(f"Scores: {out}")


def evaluate(
    model: Model,
    outlier: Annotated[
        str, typer.Option(help="Column with yes, true or 1 for abnormal rows.")
    ],
    table: Rows = None,
    sql: Sql = None,
    db: Database = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all of it in JSON.")
    ] = False,
    bad_values: BadCells = "refuse",
) -> None:
    """Compare alarms with labelled rows.

    What is caught, and false alarms against the promise, over all and for each task.
    """
    source = source_of(table, sql, db)
    table_model = load_model(model)
    with about(source), working("evaluating"):
        rows = rows_for(table_model, source, [outlier], bad_values)
        chosen_columns("--outlier", [outlier], rows.columns, source)
        results: pl.DataFrame = table_model.evaluate(rows, outlier=outlier)
    anomalies = results["anomalies"][0]
    if anomalies in (0, results["rows"][0]):
        warn_user(
            f"{source}: the column {outlier} calls {'every' if anomalies else 'no'} row "
            "abnormal. AUC needs normal and abnormal rows.",
            UserWarning,
        )
    if as_json:
        typer.echo(json.dumps(results.fill_nan(None).to_dicts()))
    else:
        _show_results(results)


def _show_results(results: pl.DataFrame) -> None:
    """Print a line for all rows, and lines for the tasks with the lowest AUC."""
    most = 20
    tasks = results[1:].sort("auc", nulls_last=True, maintain_order=True)
    lines = []
    for line in (*results[:1].to_dicts(), *tasks.head(most).to_dicts()):
        counts = (f"{line['rows']:,}", f"{line['anomalies']:,}")
        names = ("auc", "caught", "false_alarms", "promised")
        lines.append((line["task"], *counts, *(_share(line[name]) for name in names)))
    heads = ("task", "rows", "anomalies", "AUC", "caught", "false alarms", "promised")
    print_lines("Anomalies and false alarms", heads, lines)
    over_rows = _share(results["auc_over_rows"][0])
    if over_rows:
        typer.echo(
            "The AUC of (all) is the mean of the tasks' AUCs. Over all rows together, "
            f"by their p-values, it is {over_rows}."
        )
    if len(tasks) > most:
        typer.echo(
            f"The {most} lowest AUCs of {len(tasks)} tasks; --json prints all of them."
        )


def _share(value: float | None) -> str:
    return "" if value is None or value != value else f"{100 * value:.1f}"


def report(
    model: Model,
    table: Rows = None,
    out: Annotated[Path, typer.Option(help="File for the page.")] = Path("report.html"),
    state: Annotated[
        Path | None,
        typer.Option(help="Store of manyone watch: show what it has seen."),
    ] = None,
    sql: Sql = None,
    db: Database = None,
    bad_values: BadCells = "refuse",
) -> None:
    """Write a page about a model and a table.

    One file that needs no network, with the alarms of the table if one is given. With
    --state it shows the rows, answers, incidents and drift of manyone watch; a TABLE
    then names the one of its files that the page is about.
    """
    if state is not None and (sql is not None or db is not None):
        raise InputError(
            "--state and --sql: name a table that watch has read, or none."
        )
    has_rows = table is not None or sql is not None or db is not None
    source = source_of(table, sql, db) if has_rows else None
    check_place("--out", out)
    sources = [each for each in (source, state) if each is not None]
    refuse_same("--out", out, model, *sources)
    table_model = load_model(model)
    with about(source or model), working("reporting"):
        if state is not None:
            _refuse_to_replace_table(out, state)
            with about(state):
                values = report_of_store(state, table_model, model.name, table)
        else:
            time_column = table_model.time_column
            times = [] if time_column is None else [time_column]
            rows = None
            if source is not None:
                rows = rows_for(table_model, source, times, bad_values)
            table_name = "" if source is None else source.name
            values = report_of(table_model, rows, model.name, table_name)
        write_page(out, values)
    typer.echo(f"Page: {out}")


def _refuse_to_replace_table(out: Path, state: Path) -> None:
    """Refuse to write a page over a table that a store has read."""
    with read_store(state) as store:
        if store.last_file(str(out.resolve())) is not None:
            raise InputError(
                f"--out {out} would be written over a table that {state} has read. "
                "Name another file."
            )
