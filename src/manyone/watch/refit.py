"""Fit a new model to rows of a store, and decide whether it replaces the old one.

The *challenger* is fitted to recent normal rows before the last week. Then it and the
*champion* score the last week. The challenger takes its place only if three things
hold:

- it raises no more alarms than its promise allows, but for chance;
- it raises no more alarms than the champion on the same rows, but for chance;
- it catches every row called a fault that the champion catches.

The challenger does not learn rows that people have called faults, nor alarms of an
incident that stands out, unless somebody has called them normal. It learns other
alarms: most are false, and a model without them would be narrower after every fit. A
task with few recent rows also keeps the rows that the champion was fitted to.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from manyone._types import Array, Mask
from manyone.alerts.evidence import STANDS_OUT
from manyone.history.seasons import DAY
from manyone.messages import plural, shortlist
from manyone.tables.frames import names_of
from manyone.tables.incidents import findings_of, scored_rows
from manyone.tables.inputs import names_of_columns, table_of_records
from manyone.watch.memory import FAULT, NORMAL
from manyone.watch.store import Line, Store, is_number

if TYPE_CHECKING:
    import polars as pl

    from manyone.tables import TableModel

#: Counts and dates about a model, for a file beside it.
Facts = dict[str, int | str]
#: Models are compared on rows of the last so many days.
SHADOW_DAYS = 7.0
# So many of the last rows are used.
_MOST_ROWS = 200_000
# Tasks with fewer recent rows also keep the rows that the champion was fitted to.
_ENOUGH = 100


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Rows of a store whose values were kept, in the order in which they came.

    Attributes
    ----------
    table : polars.DataFrame
        Columns that the model uses.
    ids, tasks : ndarray of shape (n,)
        Texts.
    day : ndarray of shape (n,)
        Days since 1970, by the time of the row, or by when it was seen.
    is_fault : ndarray of bool of shape (n,)
        Whether somebody has called the row a fault.
    is_normal : ndarray of bool of shape (n,)
        Whether it is taken for normal.
    """

    table: pl.DataFrame
    ids: NDArray[np.object_]
    tasks: NDArray[np.object_]
    day: Array
    is_fault: Mask
    is_normal: Mask

    @property
    def now(self) -> float:
        """Day of the latest row, or today if that lies in the future."""
        today = datetime.now(UTC).timestamp() / DAY
        return float(min(self.day.max(), today))


@dataclass(frozen=True)
class Verdict:
    """Whether a challenger takes the champion's place, and why.

    Attributes
    ----------
    challenger : TableModel or None
        None where it may not take the champion's place.
    sentence : str
        The decision in words.
    facts : dict
        On what it was fitted, and how it compares.
    """

    challenger: TableModel | None
    sentence: str
    facts: Facts


def latest_day(store: Store) -> float | None:
    """Day of the latest row of a store, None where there is none."""
    (line,) = store.query(
        "SELECT max(latest_moment) AS moment, max(latest) AS time FROM task"
    )
    (last,) = store.query("SELECT max(read) AS seen FROM file")
    if last["seen"] is None:
        return None
    today = datetime.now(UTC).timestamp()
    seen = datetime.fromisoformat(last["seen"]).timestamp()
    dated = line["moment"] is not None and not is_number(line["time"])
    return min(line["moment"] if dated else seen, today) / DAY


def kept_rows_of(store: Store, model: TableModel) -> KeptRows | None:
    """The last rows whose values a store has kept, None where there are none."""
    # A row without a task is not learned, nor one without a time if the model has one.
    lines = store.query(
        "SELECT judged_row.id, coalesce(task, '') AS task, time, moment, "
        "judged_row.seen, content, answer = :fault AS is_fault, "
        "task IS NOT NULL AND (moment IS NOT NULL OR :timeless) "
        "AND (answer = :normal OR answer <> :fault AND NOT (alarm AND "
        "(muted IS NOT NULL OR EXISTS (SELECT 1 FROM incident WHERE stands_out = 1 "
        "AND incident.id = judged_row.incident)))) AS is_normal "
        "FROM row_values JOIN judged_row ON judged_row.number = row_values.number "
        "ORDER BY row_values.number DESC LIMIT :most",
        fault=FAULT,
        normal=NORMAL,
        timeless=model.time is None,
        most=_MOST_ROWS,
    )[::-1]
    if not lines:
        return None
    records = [json.loads(line["content"]) for line in lines]
    names = [*names_of_columns(model), *names_of(model.groups)]
    return KeptRows(
        table=table_of_records(records, names),
        ids=np.array([line["id"] for line in lines], dtype=object),
        tasks=np.array([line["task"] for line in lines], dtype=object),
        day=np.array([_day(line) for line in lines]),
        is_fault=np.array([line["is_fault"] for line in lines], dtype=bool),
        is_normal=np.array([line["is_normal"] for line in lines], dtype=bool),
    )


def _day(line: Line) -> float:
    """Day of a row, by its own time where that is a date."""
    if line["moment"] is not None and not is_number(line["time"]):
        return float(line["moment"]) / DAY
    return datetime.fromisoformat(line["seen"]).timestamp() / DAY


def challenge(champion: TableModel, rows: KeptRows, days: float) -> Verdict:
    """Fit a challenger, and judge it.

    Parameters
    ----------
    champion : TableModel
        It is not changed.
    rows : KeptRows
    days : float
        How far back rows are recent.
    """
    border = rows.now - SHADOW_DAYS
    shadow = rows.day > border
    train = rows.is_normal & (rows.day <= border) & (rows.day >= rows.now - days)
    facts: Facts = {
        "new_rows": int(train.sum()),
        "shadow_rows": int((shadow & rows.is_normal).sum()),
    }
    if not train.any() or not facts["shadow_rows"]:
        return Verdict(
            None,
            "There are not yet enough rows: some before the last week, some in it",
            facts,
        )
    facts["begin"] = _date(rows.day[train].min())
    facts["end"] = _date(rows.day[train].max())
    challenger = deepcopy(champion)
    table = _as_fit_takes_it(rows.table.filter(train), champion)
    recent = Counter(rows.tasks[train].tolist())
    thin = [task for task in champion.tasks_.tolist() if recent[str(task)] < _ENOUGH]
    facts["tasks_with_rows_of_before"] = len(thin)
    try:
        challenger.refit(table, keep=thin)
        if not champion.training_.has_values:
            challenger.drop_rows()
    except ValueError as error:
        reason = str(error).rstrip(".")
        return Verdict(None, f"The new model could not be fitted: {reason}", facts)
    facts |= {"rows": challenger.n_rows_, "tasks": len(challenger.tasks_)}
    return _judged(champion, challenger, rows, shadow, facts)


def _as_fit_takes_it(table: pl.DataFrame, champion: TableModel) -> pl.DataFrame:
    """Rows of a store with the columns that a fit needs and no model uses."""
    import polars as pl

    ignored = [pl.lit(None).alias(name) for name in names_of(champion.ignore)]
    outlier = [pl.lit(False).alias(name) for name in names_of(champion.outlier)]
    return table.with_columns(
        column
        for column in (*ignored, *outlier)
        if column.meta.output_name() not in table.columns
    )


def _judged(
    champion: TableModel,
    challenger: TableModel,
    rows: KeptRows,
    shadow: Mask,
    facts: Facts,
) -> Verdict:
    """Whether a challenger may take the champion's place."""
    # All rows in their order, as some columns depend on the rows before.
    read = challenger.read(rows.table)[0]
    read_before = champion.read(rows.table)[0]
    normal = np.flatnonzero(shadow & rows.is_normal)
    compared = read.take(normal)
    answers = challenger._answer(compared)
    findings = findings_of(challenger, [scored_rows(challenger, compared, answers)])
    before = champion._answer(read_before.take(normal)).alarm
    more = int(np.count_nonzero(answers.alarm & ~before))
    fewer = int(np.count_nonzero(before & ~answers.alarm))
    faults = np.flatnonzero(rows.is_fault)
    caught = champion._answer(read_before.take(faults)).alarm
    still = challenger._answer(read.take(faults)).alarm
    lost = rows.ids[rows.is_fault][caught & ~still].tolist()
    alarms = int(answers.alarm.sum())
    facts |= {
        "alarms": alarms,
        "alarms_before": int(before.sum()),
        "alarms_by_chance": findings.most_by_chance,
        "faults_caught": int(still.sum()),
        "faults_caught_before": int(caught.sum()),
    }
    week = (
        f"in the last week it raises {plural(alarms, 'alarm')}, the model "
        f"before {int(before.sum()):,}"
    )
    if findings.more_than_chance:
        problem = f"chance explains {findings.most_by_chance:,}"
    elif binom.sf(more - 1, more + fewer, 0.5) < STANDS_OUT:
        problem = "that is more than chance explains"
    elif lost:
        problem = f"it misses rows called faults, as {shortlist(lost, 3)}"
    else:
        text = (
            f"A new model of {plural(challenger.n_rows_, 'row')} took its place: {week}"
        )
        return Verdict(challenger, text, facts)
    return Verdict(None, f"The model stays. Of a new one: {week}; {problem}", facts)


def _date(day: float) -> str:
    moment = datetime.fromtimestamp(float(day) * DAY, UTC)
    return moment.strftime("%Y-%m-%d %H:%M")
