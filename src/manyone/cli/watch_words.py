"""What ``manyone watch`` says: a summary for machines, tables for people, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
from manyone.cli.watching import WatchRun, plain_time
from manyone.messages import label_text, plural, shortlist, warn_user
from manyone.tablefiles import Source
from manyone.watch import MonitorState
from manyone.watch.arrivals import Silent
from manyone.watch.drift import weights_of_rows
from manyone.watch.incidents import incidents_of, outstanding
from manyone.watch.store import Line, codes_by_name

_ALIKE = 0.5  # rows that count for less resemble the one before
_MOST_SHOWN = 20  # lines of a table on the screen
_INCIDENTS_IN_JSON = 100  # the most telling ones


@dataclass(frozen=True)
class Outcome:
    """What one command has found.

    Attributes
    ----------
    run : WatchRun
    tasks : list of Line
        Tasks of its rows, in their order: ``task``, whether it is ``new`` to the model,
        and its ``rows``, ``alarms``, ``first_alarm`` and ``muted`` alarms.
    incidents : list of Line
        Those of stretches that its alarms have joined, the least likely by chance first.
    drifting : list of Line
        ``task``, ``since`` when, and when it was ``flagged``.
    """

    run: WatchRun
    tasks: list[Line]
    incidents: list[Line]
    drifting: list[Line]

    @classmethod
    def of(cls, run: WatchRun) -> Outcome:
        """Of a command that has written its rows."""
        tasks = run.store.query(
            "SELECT task, basis = 'unknown' AS new, count(*) AS rows, "
            "sum(alarm AND muted IS NULL) AS alarms, "
            "min(number) FILTER (WHERE alarm AND muted IS NULL) AS first_alarm, "
            "sum(alarm AND muted IS NOT NULL) AS muted FROM judged_row "
            "WHERE number > :since GROUP BY task, new ORDER BY min(number)",
            since=run.since,
        )
        drifting = run.store.query(
            "SELECT task, drift_since AS since, drift_flagged AS flagged FROM tasks "
            "WHERE drift_flagged IS NOT NULL ORDER BY task"
        )
        return cls(run, tasks, incidents_of(run.store, since=run.since), drifting)

    def total(self, name: str) -> int:
        """Rows, alarms or muted alarms of all tasks."""
        return sum(line[name] for line in self.tasks)

    @property
    def unknown(self) -> list[Line]:
        """Tasks that the model has never seen."""
        return [line for line in self.tasks if line["new"]]

    @property
    def outstanding(self) -> list[Line]:
        """Incidents that stand out, and that nobody has answered."""
        return outstanding(self.incidents)

    @property
    def stands_out(self) -> bool:
        """Whether somebody should look."""
        is_new = len(self.outstanding) > 0 or self.run.drift_stands_out
        return is_new or self.more_than_chance

    @cached_property
    def more_than_chance(self) -> bool:
        """Whether chance does not explain the number of alarms of known tasks."""
        state = self.run.monitor.state
        codes = codes_by_name(self.run.monitor.model.tasks_.tolist())
        references = np.count_nonzero(~np.isnan(state.window), axis=1)
        laws = []
        alarms = 0
        for line in self.tasks:
            if not line["new"]:
                reference = float(references[codes[line["task"]]])
                rate = highest_rate(state.rate, reference)
                laws.append(alarm_law(line["rows"], reference, rate))
                alarms += line["alarms"]
        return chance_of(alarms, total_law(laws)) < STANDS_OUT

    def as_json(self) -> dict[str, object]:
        """For machines."""
        run = self.run
        state = run.monitor.state
        alarmed = [line for line in self.tasks if line["alarms"]]
        alarmed.sort(key=lambda line: (-line["alarms"], line["first_alarm"]))
        return {
            "rows": self.total("rows"),
            "repeated": run.repeated,
            "unknown": sum(line["rows"] for line in self.unknown),
            "alarms": self.total("alarms"),
            "muted": self.total("muted"),
            "alarm_rate": state.rate,
            "expected_false_alarms": round(state.rate * self.total("rows"), 1),
            "alarms_by_task": {
                label_text(line["task"]): line["alarms"]
                for line in alarmed[:_MOST_SHOWN]
            },
            "drifting": self.drifting,
            "newly_drifting": run.newly_drifting,
            "silent": [
                {"task": one.task, "latest": one.latest, "p_value": one.p_value}
                for one in run.silent
            ],
            "newly_silent": [one.task for one in run.silent if one.new],
            "more_alarms_than_chance": self.more_than_chance,
            "incidents_standing_out": len(self.outstanding),
            "incidents": self.incidents[:_INCIDENTS_IN_JSON],
            "stands_out": self.stands_out,
        }


def show_totals(outcome: Outcome) -> None:
    """Rows and alarms."""
    rows = outcome.total("rows")
    alarms = outcome.total("alarms")
    muted = outcome.total("muted")
    repeated = outcome.run.repeated
    rate = outcome.run.monitor.state.rate
    share = f", {100 * alarms / rows:.1f} %" if rows else ""
    counts = f"{plural(rows, 'new row')}, {plural(alarms, 'alarm')}{share}"
    typer.echo(f"{counts} ({100 * rate:g} % promised)")
    if muted:
        typer.echo(f"{plural(muted, 'alarm')} more, muted")
    if repeated:
        words = "with an id that came before, counted once"
        typer.echo(f"{plural(repeated, 'row')} {words}")
    if outcome.unknown:
        names = shortlist([label_text(line["task"]) for line in outcome.unknown], 3)
        number = sum(line["rows"] for line in outcome.unknown)
        typer.echo(
            f"{plural(number, 'row')} of tasks never seen ({names}): compared "
            "with all tasks, nothing is learned from them; manyone enroll makes tasks known"
        )


def show_incidents(outcome: Outcome) -> None:
    """Incidents that stand out, or that none does."""
    lines = [
        (
            line["task"],
            line["column"],
            f"{line['alarms']:,}",
            plain_time(str(line["begin"])),
            plain_time(str(line["end"])),
            line["reason"],
        )
        for line in outcome.outstanding
    ]
    if lines:
        heads = ("task", "column", "alarms", "begin", "end", "reason")
        _show_first("Incidents that stand out", heads, lines)
    elif outcome.more_than_chance:
        typer.echo("More alarms than chance explains, in no single incident.")
    else:
        typer.echo("No new incident stands out from chance.")


def show_drift(outcome: Outcome) -> None:
    """What drifts since when, and what to do about it."""
    if not outcome.drifting:
        typer.echo("Nothing drifts.")
        return
    state = outcome.run.monitor.state
    tasks = outcome.run.monitor.model.tasks_
    codes = codes_by_name(tasks.tolist())
    clearest_first = sorted(
        outcome.drifting, key=lambda line: -state.most[codes[line["task"]]]
    )
    lines = [
        (*line.values(), _advice(state, codes[line["task"]])) for line in clearest_first
    ]
    _show_first("Drifting", ("task", "since about", "flagged", "what to do"), lines)
    if np.median(weights_of_rows(state.neighbours)) < _ALIKE:
        typer.echo(
            "Rows resemble the one before them, so flags are less sure: watch fewer, every tenth "
            "or means over a longer time."
        )
    fleet = f"Taken together, the {len(tasks):,} tasks"
    chance = f"chance, which flags one quiet task in {1 / state.drift_level:.0f}."
    if state.fleet_flagged[0] < 0:
        typer.echo(f"{fleet} do not drift: a flag may be {chance}")
    elif 2 < len(tasks) < 2 * len(lines):
        typer.echo("Most tasks drift: look at what they share (a sensor, an import).")
    else:
        typer.echo(f"{fleet} drift too: this is not {chance}")


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


def show_silent(silent: list[Silent]) -> None:
    """Tasks that send no rows any more."""
    lines = [
        (
            one.task,
            plain_time(one.latest),
            f"{one.p_value:.3g}",
            "since this run" if one.new else "as before",
        )
        for one in silent
    ]
    if lines:
        heads = ("task", "last row", "share of gaps as long", "told")
        _show_first("Silent for longer than usual", heads, lines)


def _show_first(
    title: str, heads: tuple[str, ...], lines: Sequence[tuple[str, ...]]
) -> None:
    """A table of the first lines, and how many more there are."""
    print_lines(title, heads, lines[:_MOST_SHOWN])
    more = len(lines) - _MOST_SHOWN
    if more > 0:
        typer.echo(f"And {more:,} more.")


def warn(run: WatchRun, source: Source, answers: int, lost: list[str]) -> None:
    """Say on stderr what looks wrong.

    Parameters
    ----------
    run : WatchRun
    source : Source
    answers : int
        Answers that were given.
    lost : list of str
        Ids of those whose rows have not come.
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
            f"{source}: the last line has no line end, so it may be incomplete. It waits "
            "until the line is ended."
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
