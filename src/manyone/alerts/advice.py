"""What to do next, in plain sentences made from findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manyone.alerts.incidents import Findings
from manyone.alerts.values import Tasks
from manyone.calibration.thresholds import OWN_RANKS
from manyone.messages import plural, shortlist

_FIRST = 3
#: Independent rows below this share of the rows of a task are worth a word.
CLEARLY_FEWER = 0.9


@dataclass(frozen=True)
class Step:
    """A sentence, and a command to run, which may be empty."""

    text: str
    command: str = ""


def advice_on_model(model: str, tasks: Tasks, rate: float) -> list[Step]:
    """What to do with a model.

    Parameters
    ----------
    model : str
        What it is called in commands.
    tasks : Tasks
    rate : float
        Promised share of alarms among normal rows.

    Returns
    -------
    list of Step
    """
    score = Step(
        "Score new rows, with the columns that explain each alarm.",
        f"manyone score {model} TABLE --out scores.csv --explain 3",
    )
    page = Step(
        "Look at a table: its incidents and the rows behind them.",
        f"manyone report {model} TABLE --out page.html",
    )
    return [score, page, *_borrowing_tasks(model, tasks, rate)]


def advice_on_table(
    model: str,
    findings: Findings,
    rate: float,
    gaps: Sequence[str] = (),
    drift: Sequence[str] = (),
    silent: Sequence[str] = (),
) -> list[Step]:
    """What to do about a scored table.

    Parameters
    ----------
    model : str
        What it is called in commands.
    findings : Findings
    rate : float
    gaps : sequence of str
        Sentences about missing values.
    drift : sequence of str
        Tasks that drift, in words.
    silent : sequence of str
        Tasks that send no rows any more.

    Returns
    -------
    list of Step
    """
    return [
        *_outstanding_tasks(findings),
        *(Step(sentence) for sentence in gaps),
        *_silent_tasks(silent),
        *_other_alarms(model, findings, rate),
        *_drift(model, drift),
        *_unknown_tasks(model, findings),
        *_borrowing_tasks(model, findings.tasks, rate),
    ]


def _outstanding_tasks(findings: Findings) -> list[Step]:
    """The tasks whose incidents stand out."""
    columns: dict[int, list[str]] = {}
    for incident in findings.outstanding:
        columns.setdefault(incident.task, []).extend(incident.columns)
    if not columns:
        calm = "No incident stands out from chance. If in doubt, look at the first."
        return [Step(calm)]
    steps = []
    for task, names in list(columns.items())[:_FIRST]:
        rows = plural(int(findings.counts[0][task]), "row")
        alarms = plural(int(findings.counts[1][task]), "alarm")
        text = f"Look at {findings.tasks.names[task]}: {alarms} in {rows}"
        leading = list(dict.fromkeys(names))[:_FIRST]
        text += f", mostly because of {', '.join(leading)}." if leading else "."
        steps.append(Step(text))
    more = len(columns) - _FIRST
    if more > 0:
        verb = "stands" if more == 1 else "stand"
        steps.append(Step(f"{plural(more, 'more task')} {verb} out; see Incidents."))
    return steps


def _silent_tasks(names: Sequence[str]) -> list[Step]:
    """Tasks that send no rows any more."""
    if not names:
        return []
    verb = "sends" if len(names) == 1 else "send"
    text = f"See whether {shortlist(names, _FIRST)} still {verb} rows."
    return [Step(text)]


def _other_alarms(model: str, findings: Findings, rate: float) -> list[Step]:
    """What to do about alarms that are in no incident that stands out."""
    most = findings.most_by_chance
    total = int(findings.open_alarms.sum())
    outstanding = sum(len(incident.alarms) for incident in findings.outstanding)
    other_alarms = total - outstanding
    if other_alarms > most:
        text = (
            f"There are {other_alarms:,} alarms outside the incidents that stand out; "
            f"chance explains up to {most:,}. If these rows are normal, the tasks have "
            "changed since training: enroll recent normal rows."
        )
        return [Step(text, f"manyone enroll {model} NORMAL_ROWS")]
    if outstanding and other_alarms:
        text = f"Besides these incidents there are {plural(other_alarms, 'more alarm')}"
        return [Step(f"{text}; chance explains up to {most:,}.")]
    if findings.rate is not None and is_quiet(findings):
        text = (
            "Alarms are rarer than you asked for, so faults may be missed. A higher "
            "rate catches more."
        )
        higher = min(0.5, 2 * rate)
        return [Step(text, f"manyone recalibrate {model} --alarm-rate {higher:g}")]
    return []


def is_quiet(findings: Findings) -> bool:
    """Whether there are fewer than half of the alarms that the rate allows."""
    rate = 0.0 if findings.rate is None else findings.rate
    rows, alarms = findings.counts.sum(axis=1).tolist()
    allowed = rate * rows
    # With fewer allowed, half of them is often chance.
    return allowed >= 20.0 and alarms < allowed / 2


def _drift(model: str, drift: Sequence[str]) -> list[Step]:
    """What to do about tasks that change over time."""
    if not drift:
        return []
    more = f" and {len(drift) - _FIRST} more" if len(drift) > _FIRST else ""
    text = (
        f"Over time {', '.join(drift[:_FIRST])}{more}: later rows do not score as "
        "earlier ones. Watch rows in their order, with feedback, so that thresholds "
        "follow."
    )
    return [Step(text, f"manyone watch {model} TABLE --state STATE")]


def _unknown_tasks(model: str, findings: Findings) -> list[Step]:
    """Tasks of the table that the model has never seen."""
    rows = findings.counts[0]
    tasks = findings.tasks
    names = [
        name
        for task, name in enumerate(tasks.names)
        if tasks.basis[task] == "unknown" and rows[task]
    ]
    if not names:
        return []
    text = (
        f"{plural(len(names), 'task')} never seen in training "
        f"({shortlist(names, _FIRST)}). Their rows are compared with those of all "
        "tasks, and no rate is promised for them: enroll normal rows."
    )
    return [Step(text, f"manyone enroll {model} NORMAL_ROWS")]


def _borrowing_tasks(model: str, tasks: Tasks, rate: float) -> list[Step]:
    """Tasks with too few rows of their own for the promised rate."""
    borrows = np.array([basis == "pooled" for basis in tasks.basis], dtype=bool)
    number = int(borrows.sum())
    if number == 0:
        return []
    needed = int(np.ceil(OWN_RANKS / rate - 1e-9)) - 1
    trained = tasks.trained[borrows]
    counted = tasks.counted[borrows]
    verb = "borrows" if number == 1 else "borrow"
    text = (
        f"{number} of {plural(len(tasks.names), 'task')} {verb} scores of others, so "
        f"the rate of {rate:g} holds on average over them. A threshold of its own "
        f"takes {needed} independent normal rows of a task. These have "
        f"{trained.min():,} to {trained.max():,}"
    )
    if np.median(counted) < CLEARLY_FEWER * np.median(trained):
        text += (
            f", which count as about {np.median(counted):.0f}: rows of one time or "
            "group resemble each other"
        )
    text += ". Enroll more rows of them."
    return [Step(text, f"manyone enroll {model} NORMAL_ROWS")]
