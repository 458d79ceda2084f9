"""What a monitor that starts with a table says about its tasks."""

from __future__ import annotations

import numpy as np

from manyone.alerts.incidents import Findings
from manyone.data.rows import MISSING
from manyone.page.fleet import Drift, moment
from manyone.tables import TableModel
from manyone.tables.answers import BASES, Answers
from manyone.watch import Monitor, MonitorState

# Probability of any flag in a table in which nothing changes.
_LEVEL = 0.05


def drift_of(model: TableModel, findings: Findings) -> tuple[Drift, ...]:
    """When tasks were found to drift, and since when; empty without times.

    Parameters
    ----------
    model : TableModel
    findings : Findings
        Of a table that it has scored.

    Returns
    -------
    tuple of Drift
        The first flag of each task, in the order of time.
    """
    rows = findings.rows
    if rows.time is None:
        return ()
    order = np.argsort(rows.time, kind="stable")
    names = np.array(findings.tasks.names, dtype=object)
    basis = np.searchsorted(BASES, np.array(findings.tasks.basis))
    by_model = Answers(
        rows=np.arange(len(rows.task)),
        labels=names[rows.task],
        codes=np.where(rows.task < len(model.tasks_), rows.task, MISSING),
        score=rows.score,
        p_value=rows.p_value,
        alarm=rows.alarm,
        basis=basis[rows.task],
        counts=np.ones(len(order), dtype=bool),
    ).take(order)
    state = MonitorState.start(model, drift_level=_LEVEL / len(model.tasks_))
    watched = Monitor(model, state=state)._watch(by_model, rows.time[order])
    flagged = np.flatnonzero(watched.drift)
    first = np.sort(np.unique(watched.codes[flagged], return_index=True)[1])
    drift = []
    for place in flagged[first].tolist():
        task = int(watched.codes[place])
        since = moment(float(state.since_time[task]), rows.dated)
        text = f"{findings.tasks.names[task]} drifts since about {since}"
        drift.append(Drift(float(rows.time[order[place]]), text))
    return tuple(drift)
