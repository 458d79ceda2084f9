"""What to do next, in plain sentences made from the values of a page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyone.messages import plural, shortlist
from manyone.report.chance import band_of
from manyone.report.fleet import FleetReport

#: An incident stands out if fewer tasks than this would show one like it by chance.
STANDS_OUT = 0.05
_FIRST = 3


def advice(report: FleetReport) -> list[tuple[str, str]]:
    """Sentences, each with a command to run, or an empty string.

    Parameters
    ----------
    report : FleetReport

    Returns
    -------
    list of (str, str)
    """
    if report.rows is None:
        score = f"manyone score {report.model} TABLE --out scores.csv --explain 3"
        said = [("Score new rows, with the columns that explain each alarm.", score)]
        page = f"manyone report {report.model} TABLE --out page.html"
        said.append(("Look at a table: its incidents and the rows behind them.", page))
        return [*said, *_small_tasks(report)]
    gaps = [(words, "") for words in report.gaps]
    return [
        *_look_at(report),
        *gaps,
        *_rate(report),
        *_drift(report),
        *_tasks_to_enroll(report),
    ]


def _look_at(report: FleetReport) -> list[tuple[str, str]]:
    """The tasks whose incidents stand out."""
    columns: dict[int, list[str]] = {}
    for incident in (i for i in report.incidents if i.by_chance < STANDS_OUT):
        columns.setdefault(incident.task, []).extend(incident.columns)
    said = []
    for task, led in list(columns.items())[:_FIRST]:
        rows, alarms = report.counts[:, task]
        named = list(dict.fromkeys(led))[:_FIRST]
        text = f"Look at {report.tasks.names[task]}: {plural(int(alarms), 'alarm')} in "
        text += plural(int(rows), "row")
        text += f", led by {_listed(named)}." if named else "."
        if report.tasks.basis[task] == "pooled":
            trained = plural(int(report.tasks.trained[task]), "training row")
            text += f" It has {trained} only: if these rows are normal, enroll them."
        said.append((text, ""))
    if len(columns) > _FIRST:
        more = len(columns) - _FIRST
        verb = "stands" if more == 1 else "stand"
        said.append((f"{plural(more, 'more task')} {verb} out; see Incidents.", ""))
    if not said:
        text = "No incident stands out from chance; look at the first ones if in doubt."
        said.append((text, ""))
    return said


def _rate(report: FleetReport) -> list[tuple[str, str]]:
    """What to do if there are more or fewer alarms than promised."""
    low, high = band_of(report.law)
    total = int(report.counts[1].sum())
    telling = {
        row for i in report.incidents if i.by_chance < STANDS_OUT for row in i.alarms
    }
    assert report.rows is not None
    loud = report.rows.alarm & (report.by_chance < STANDS_OUT)[report.rows.task]
    rest = total - len(telling | set(np.flatnonzero(loud).tolist()))
    if rest > high:
        text = (
            f"{rest:,} alarms are left without what stands out, more than the {high:,} that chance "
            "explains. If these rows are normal, the tasks have changed since training: enroll "
            "recent normal rows."
        )
        return [(text, f"manyone enroll {report.model} NORMAL_ROWS")]
    if rest < total:
        left = plural(rest, "other alarm")
        return [(f"Let the {left} pass: chance alone explains up to {high:,}.", "")]
    if total < low:
        text = "Fewer alarms than promised: a higher rate would catch more at the cost agreed on."
        rate = min(0.5, 2 * report.rate)
        return [(text, f"manyone recalibrate {report.model} --alarm-rate {rate:g}")]
    return []


def _drift(report: FleetReport) -> list[tuple[str, str]]:
    """What to do about tasks that change over time."""
    if not report.drift:
        return []
    words = [words for _, words in report.drift]
    more = f" and {len(words) - _FIRST} more" if len(words) > _FIRST else ""
    text = (
        f"Over time {', '.join(words[:_FIRST])}{more}: later rows do not score as earlier ones. "
        "Watch rows in their order, with feedback, so that thresholds follow."
    )
    return [(text, f"manyone watch {report.model} TABLE --state STATE")]


def _tasks_to_enroll(report: FleetReport) -> list[tuple[str, str]]:
    """Tasks never seen, and those with too few rows."""
    rows = report.counts[0]
    unseen = [
        t
        for t, basis in enumerate(report.tasks.basis)
        if basis == "unknown" and rows[t]
    ]
    said = []
    if unseen:
        names = shortlist([report.tasks.names[t] for t in unseen], _FIRST)
        text = (
            f"{plural(len(unseen), 'task')} never seen in training ({names}), judged by all tasks "
            "together: enroll normal rows of them."
        )
        said.append((text, f"manyone enroll {report.model} NORMAL_ROWS"))
    return [*said, *_small_tasks(report)]


def _small_tasks(report: FleetReport) -> list[tuple[str, str]]:
    small = report.tasks.basis.count("pooled")
    if not small:
        return []
    needed = int(np.ceil(1 / report.rate - 1e-9)) - 1
    text = (
        f"{small} of {len(report.tasks.names)} tasks have fewer than the {needed} normal rows that "
        f"a rate of {report.rate:g} needs; they borrow the threshold of all tasks, and the rate "
        "holds on average over them. More rows give each its own."
    )
    return [(text, f"manyone enroll {report.model} NORMAL_ROWS")]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
