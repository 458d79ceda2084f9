"""Output of ``manyone watch``: a summary for --json, the same in words, warnings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import typer

from manyone.alerts.evidence import (
    STANDS_OUT,
    alarm_law,
    chance_of,
    highest_rate,
    total_law,
)
from manyone.cli.common import print_lines
from manyone.cli.models import INCIDENTS_IN_JSON
from manyone.cli.watching import WatchRun, plain_time
from manyone.messages import label_text, plural, shortlist, warn_user
from manyone.tablefiles import Source
from manyone.watch import MonitorState
from manyone.watch.incidents import incidents_of, outstanding
from manyone.watch.store import Line, codes_by_name

#: Findings of one command, as --json prints them.
Summary = dict[str, Any]
_MOST_SHOWN = 20  # lines of a table on the screen


def summary_of(run: WatchRun) -> Summary:
    """Findings of a command that has written its rows."""
    state = run.monitor.state
    incidents = incidents_of(run.store, since=run.since)
    answered = [line["id"] for line in incidents if line["answer"]]
    tasks = run.store.query(
        "SELECT task, basis = 'unknown' AS new, count(*) AS rows, "
        "sum(alarm AND muted IS NULL) AS alarms, "
        "sum(alarm AND muted IS NULL AND answer = -1 AND coalesce(incident, '') NOT IN "
        "(SELECT value FROM json_each(:answered))) AS open_alarms, "
        "min(number) FILTER (WHERE alarm AND muted IS NULL) AS first_alarm, "
        "sum(alarm AND muted IS NOT NULL) AS muted FROM judged_row "
        "WHERE number > :since GROUP BY task, new ORDER BY min(number)",
        since=run.since,
        answered=json.dumps(answered),
    )
    unknown = [line for line in tasks if line["new"]]
    alarmed = [line for line in tasks if line["alarms"]]
    alarmed.sort(key=lambda line: (-line["alarms"], line["first_alarm"]))
    rows = sum(line["rows"] for line in tasks)
    is_more = _is_more_than_chance(run, tasks)
    standing_out = outstanding(incidents)
    return {
        "rows": rows,
        "repeated": run.repeated,
        "unknown": sum(line["rows"] for line in unknown),
        "unknown_tasks": [label_text(line["task"]) for line in unknown[:_MOST_SHOWN]],
        "alarms": sum(line["alarms"] for line in tasks),
        "muted": sum(line["muted"] for line in tasks),
        "alarm_rate": state.rate,
        "expected_false_alarms": round(state.rate * rows, 1),
        "alarms_by_task": {
            label_text(line["task"]): line["alarms"] for line in alarmed[:_MOST_SHOWN]
        },
        "drifting": _drifting(run),
        "newly_drifting": run.newly_drifting,
        "drift_level": state.drift_level,
        "fleet_drifts": bool(state.fleet_flagged[0] >= 0),
        "silent": [
            {"task": gap.task, "latest": gap.latest, "p_value": gap.p_value}
            for gap in run.silent
        ],
        "newly_silent": [gap.task for gap in run.silent if gap.new],
        "more_alarms_than_chance": is_more,
        "incidents_standing_out": len(standing_out),
        "incidents": incidents[:INCIDENTS_IN_JSON],
        "stands_out": bool(standing_out) or run.drift_stands_out or is_more,
    }


def _is_more_than_chance(run: WatchRun, tasks: Sequence[Line]) -> bool:
    """Whether known tasks have more alarms than chance explains.

    Alarms that somebody has answered do not count, nor do others of their incident.
    """
    state = run.monitor.state
    codes = codes_by_name(run.monitor.model.tasks_.tolist())
    references = np.count_nonzero(~np.isnan(state.window), axis=1)
    laws = []
    alarms = 0
    for line in tasks:
        if not line["new"]:
            reference = float(references[codes[line["task"]]])
            rate = highest_rate(state.rate, reference)
            laws.append(alarm_law(line["rows"], reference, rate))
            alarms += line["open_alarms"]
    return chance_of(alarms, total_law(laws)) < STANDS_OUT


def _drifting(run: WatchRun) -> list[Line]:
    """Tasks that drift, with since when and the time of the flag, clearest first."""
    state = run.monitor.state
    codes = codes_by_name(run.monitor.model.tasks_.tolist())
    lines = run.store.query(
        "SELECT task, drift_since AS since, drift_flagged AS flagged FROM tasks "
        "WHERE drift_flagged IS NOT NULL ORDER BY task"
    )
    lines.sort(key=lambda line: -state.most[codes[line["task"]]])
    return [{**line, "advice": _advice(state, codes[line["task"]])} for line in lines]


def _advice(state: MonitorState, t: int) -> str:
    """What to do about a task that drifts."""
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


def show(summary: Summary) -> None:
    """Print a summary in words."""
    rows = summary["rows"]
    alarms = summary["alarms"]
    share = f", {100 * alarms / rows:.1f} %" if rows else ""
    counts = f"{plural(rows, 'new row')}, {plural(alarms, 'alarm')}{share}"
    typer.echo(f"{counts} ({100 * summary['alarm_rate']:g} % of normal rows promised)")
    if summary["muted"]:
        typer.echo(f"{plural(summary['muted'], 'alarm')} more, muted")
    if summary["repeated"]:
        words = "with an id that came before, counted once"
        typer.echo(f"{plural(summary['repeated'], 'row')} {words}")
    if summary["unknown"]:
        names = shortlist(summary["unknown_tasks"], 3)
        typer.echo(
            f"{plural(summary['unknown'], 'row')} of tasks never seen ({names}): "
            "compared with all tasks, nothing is learned from them; manyone enroll "
            "makes tasks known"
        )
    if summary["incidents_standing_out"]:
        heads = "task column alarms begin end reason"
        lines = outstanding(summary["incidents"])
        _show_first("Incidents that stand out", heads.split(), lines)
    elif summary["more_alarms_than_chance"]:
        where = "in no single incident"
        if any(line["stands_out"] for line in summary["incidents"]):
            where = "beside incidents that you have answered"
        typer.echo(f"More alarms than chance explains, {where}.")
    else:
        typer.echo("No new incident stands out from chance.")
    if summary["answers"]["given"]:
        new = summary["answers"]["new"]
        typer.echo(f"{new:,} of {summary['answers']['given']:,} answers were new")
    if summary["drifting"]:
        columns = ("task", "since", "flagged", "advice")
        _show_first("Drifting", columns, summary["drifting"])
        quiet = (
            f"chance, which flags one quiet task in {1 / summary['drift_level']:.0f}"
        )
        if summary["fleet_drifts"]:
            typer.echo(f"Taken together, all tasks drift too: this is not {quiet}.")
        else:
            typer.echo(f"Taken together, tasks do not drift: a flag may be {quiet}.")
    else:
        typer.echo("Nothing drifts.")
    if summary["silent"]:
        silent = summary["silent"]
        _show_first("Silent for longer than usual", ["task", "latest"], silent)


def _show_first(title: str, heads: Sequence[str], lines: Sequence[Line]) -> None:
    """Print values of the first lines as a table, and how many more there are."""
    times = ("begin", "end", "latest")
    texts = [
        [
            plain_time(str(line[head])) if head in times else label_text(line[head])
            for head in heads
        ]
        for line in lines[:_MOST_SHOWN]
    ]
    print_lines(title, heads, texts)
    left_out = len(lines) - _MOST_SHOWN
    if left_out > 0:
        typer.echo(f"And {left_out:,} more.")


def warn(run: WatchRun, source: Source, answers: int, lost: list[str]) -> None:
    """Warn of tables and answers that look wrong.

    Parameters
    ----------
    run : WatchRun
    source : Source
    answers : int
        Answers that were given.
    lost : list of str
        Ids of answers whose rows have not come.
    """
    fate = None if run.tail is None else run.tail.fate
    if fate in ("shorter", "changed"):
        why = {
            "shorter": "is shorter than when it was read",
            "changed": "does not begin as when it was read",
        }[fate]
        warn_user(
            f"{source} {why}. It was taken for a new file and read from its beginning."
        )
    if run.tail is not None and run.tail.waits:
        warn_user(
            f"{source}: the last line has no line end, so it may be incomplete. It "
            "waits until the line is ended."
        )
    late = run.late
    if late:
        warn_user(
            f"{source}: row {late[0]} is older than a row of its task before it "
            f"({plural(len(late), 'such row')}). Rows were taken as they came: sort "
            "the table by its time."
        )
    if lost:
        warn_user(
            f"No row has come yet for {len(lost):,} of {plural(answers, 'answer')}, as "
            f"{shortlist(lost, 3)}. They are kept until their rows come."
        )
