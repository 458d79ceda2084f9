"""Stretches of a stream, and the incidents within them.

A *stretch* begins with an alarm of a task. It ends where the task is calm for longer
than an incident may be (`manyone.alerts.incidents.longest_calm`), or after `HORIZON`
rows of the task. Within a stretch alarms are grouped, and judged, by the same
computation as in a table.

Incidents follow from the rows of their task alone, so it does not matter how the stream
is cut into batches. A stretch stands out if chance does not explain it among the last
`HORIZON` rows of its task, of which only those of the stretch are evidence. So while
each task sends `HORIZON` rows, a fleet without faults shows at most as many incidents
that stand out as a table does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from manyone._types import Codes, Labels
from manyone.alerts.incidents import Incident, Past, find_incidents
from manyone.alerts.values import Rows, Tasks

#: Most rows of a stretch, and rows of a task among which chance may explain it.
HORIZON = 200
#: A row of a stretch.
STREAM_ROW = np.dtype(
    [
        ("number", np.int64),  # in the stream, from 1 on
        ("place", np.int64),  # among the rows of its task, from 0 on
        ("depth", np.float64),  # below the threshold, in units of the task's scores
        ("rank_p", np.float64),
        ("depth_p", np.float64),
        ("alarm", np.bool_),  # that is not muted
        ("leading", np.object_),
        ("reason", np.object_),
    ]
)
StreamRows = Labels  # structured, of dtype STREAM_ROW


@dataclass(frozen=True, eq=False)
class Stretch:
    """A stretch of a task.

    Attributes
    ----------
    task : str
    code : int
        Number of the task in the model, -1 for a task never seen.
    rows : ndarray of STREAM_ROW
        From its first alarm to its last.
    tasks : int
        Tasks that the stream has had by then.
    """

    task: str
    code: int
    rows: StreamRows
    tasks: int

    @property
    def number(self) -> int:
        """Number of its first row."""
        return int(self.rows["number"][0])


def starts_of(places: Codes, calm: float) -> list[int]:
    """Which alarms of a task begin a stretch, by the places of alarms in the task."""
    starts = [0]
    for alarm, (before, place) in enumerate(pairwise(places.tolist()), start=1):
        if place - before > calm or place - places[starts[-1]] >= HORIZON:
            starts.append(alarm)
    return starts


def find_in_stretches(
    tasks: Tasks, stretches: Sequence[Stretch], rate: float
) -> list[Incident]:
    """Incidents within stretches, least likely by chance first.

    Parameters
    ----------
    tasks : Tasks
        Of the model; the last one stands for tasks never seen.
    stretches : sequence of Stretch
    rate : float
        Promised share of alarms among normal rows.

    Returns
    -------
    list of Incident
        `task` is the place of the stretch. `alarms` are the numbers of the rows in the
        stream, in their order, and `worst_row` is one of them.
    """
    if len(stretches) == 0:
        return []
    rows = np.concatenate([stretch.rows for stretch in stretches])
    lengths = np.array([len(stretch.rows) for stretch in stretches])
    ends = np.array([stretch.rows["place"][-1] + 1 for stretch in stretches])
    past = Past(
        rows=np.minimum(ends, HORIZON) - lengths,
        tasks=np.array([stretch.tasks for stretch in stretches]),
    )
    chosen = tasks.take([stretch.code for stretch in stretches])
    stretch_of_row = np.repeat(np.arange(len(stretches)), lengths)
    depth = rows["depth"] * chosen.unit[stretch_of_row]
    table = Rows(
        number=rows["number"],
        task=stretch_of_row,
        score=chosen.threshold[stretch_of_row] - depth,
        p_value=rows["rank_p"],
        rank_p=rows["rank_p"],
        depth_p=rows["depth_p"],
        alarm=rows["alarm"],
        leading=tuple(rows["leading"].tolist()),
        reasons=tuple((reason,) for reason in rows["reason"].tolist()),
        notes=("",) * len(rows),
        time=rows["place"].astype(np.float64),
    )
    return [
        replace(
            incident,
            alarms=tuple(np.sort(rows["number"][[*incident.alarms]]).tolist()),
        )
        for incident in find_incidents(chosen, table, rate, past)
    ]
