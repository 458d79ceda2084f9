"""From a model and rows that it has scored to the values that evidence rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Labels
from manyone.alerts.evidence import Runs
from manyone.alerts.incidents import Findings
from manyone.alerts.values import Rows, Tasks
from manyone.calibration.thresholds import NEVER
from manyone.data.labels import as_labels, lookup
from manyone.data.rows import MISSING
from manyone.estimators.base import OneClassEstimator
from manyone.messages import label_text
from manyone.tables.answers import BASES, Answers
from manyone.tables.explain import explain_answers
from manyone.tables.frames import Frame, Table, like
from manyone.tables.rows import TableRows

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

#: Alarms of a block that get reasons, those farthest below their threshold first.
MOST_EXPLAINED = 20_000
#: Reasons for each alarm, unless more are asked for.
REASONS = 3
# What it means that a view finds a row unusual.
_VIEWS = {
    "strangers": "looks like a row of another task",
    "faults": "unlike the rows of its own task",
    "range": "a value beyond all that was seen",
    "unknown": "a task never seen",
}


def scored_rows(
    model: TableModel,
    rows: TableRows,
    answers: Answers,
    first_row: int = 0,
    *,
    top: int = REASONS,
) -> Rows:
    """Rows of a table, or of a part of it, with all that incidents need of them.

    Parameters
    ----------
    model : TableModel
    rows : TableRows
        Those that were skipped included.
    answers : Answers
        Of the model about them.
    first_row : int
        Number of the first of them in the table.
    top : int
        Reasons for each alarm.
    """
    codes = answers.codes
    counts = answers.counts
    depth_p = np.ones(len(codes))
    leading = [""] * len(codes)
    reasons: list[tuple[str, ...]] = [()] * len(codes)
    notes = [""] * len(codes)
    alarms = np.flatnonzero(answers.alarm)
    by_p_value = np.lexsort((answers.score[alarms], answers.p_value[alarms]))
    explained = alarms[np.sort(by_p_value[:MOST_EXPLAINED])]
    if len(explained):
        why = explain_answers(model, rows, answers, explained, top)
        reference = model._reference()
        depth_p[explained] = reference.depth_pvalues(why.depth, codes[explained])
        columns = why.leading()
        sentences = why.sentences().tolist()
        for number, row in enumerate(explained.tolist()):
            leading[row] = columns[number]
            reasons[row] = tuple(filter(None, sentences[number]))
            view = _VIEWS[why.view[number]]
            closest = why.nearest[number]
            notes[row] = f"{view}; closest training rows {closest}" if closest else view
    time, dated, _ = times_in(model, rows)
    new_labels = answers.labels[codes == MISSING].tolist()
    return Rows(
        number=answers.rows + first_row,
        task=codes,
        score=answers.score,
        p_value=answers.p_value,
        rank_p=np.where(counts, answers.rank_p, 1.0),
        depth_p=np.where(counts, depth_p, 1.0),
        alarm=answers.alarm & counts,
        leading=tuple(leading),
        reasons=tuple(reasons),
        notes=tuple(notes),
        time=None if time is None else time[answers.rows],
        dated=dated,
        unknown=tuple(label_text(label) for label in new_labels),
    )


def findings_of(
    model: TableModel, parts: Sequence[Rows], *, by_rate: bool = True
) -> Findings:
    """What all parts of a table show together.

    Parameters
    ----------
    model : TableModel
    parts : sequence of Rows
        At least one, see `scored_rows`.
    by_rate : bool
        Whether alarms were raised at the promised rate.

    Returns
    -------
    Findings
    """
    rows = Rows.joined(parts)
    names, numbers = np.unique(
        np.array(rows.unknown, dtype=object), return_inverse=True
    )
    task = rows.task.copy()
    task[task == MISSING] = len(model.tasks_) + numbers
    tasks = tasks_of(model, names.tolist())
    rate = model.promised_rate_ if by_rate else None
    return Findings(tasks, replace(rows, task=task, unknown=()), rate)


def tasks_of(model: TableModel, new_names: Sequence[str] = ()) -> Tasks:
    """The tasks of a model, and tasks that it has never seen."""
    estimator = model.model_
    rate = estimator._check_calibrated()
    calibration = estimator.calibration_
    unknown = model.unknown_.calibration
    new = len(new_names)
    typical = [
        np.median(calibration.scores[start:end]) if end > start else np.nan
        for start, end in pairwise(calibration.starts)
    ]
    threshold = np.append(estimator.offset_, [unknown.at(rate).offsets()[0][0]] * new)
    threshold[threshold <= NEVER] = np.nan
    steps = np.append(typical, [np.median(unknown.scores)] * new) - threshold
    left_out = np.diff(calibration.starts)
    # The score of the only row of a task was not left out.
    counted = np.where(left_out > 1, calibration.counts, 0.0)
    basis = BASES[calibration.borrows(rate).astype(int)].tolist()
    starts = [*calibration.starts, *[calibration.starts[-1]] * new]
    return Tasks(
        names=tuple(_name(label) for label in (*model.tasks_.tolist(), *new_names)),
        trained=np.append(rows_of_tasks(estimator), np.zeros(new)).astype(np.intp),
        basis=(*basis, *["unknown"] * new),
        counted=np.append(counted, np.zeros(new)),
        threshold=threshold,
        unit=_units(steps),
        left_out=calibration.scores,
        starts=np.array(starts, dtype=np.intp),
        runs=Runs(_sequences(model)),
        with_past=bool(model.encoder_.layout.with_past),
    )


def _sequences(model: TableModel) -> Iterator[Array]:
    """P-values of left-out rows of each task in the order of time, where that is known.

    If the rows are a sample, those between two of them are taken to be like the first.
    """
    thresholds = model.model_.thresholds_
    calibration = thresholds.calibration
    if model.time_column is None or (calibration.place < 0).any():
        return
    p = thresholds.left_out_pvalues()
    codes = lookup(model.training_.labels, model.tasks_)
    kept_rows = np.bincount(codes[codes != MISSING])
    apart = model.training_.task_rows(model.tasks_) / kept_rows
    for task, (start, end) in enumerate(pairwise(calibration.starts.tolist())):
        in_time = p[start:end][np.argsort(calibration.place[start:end])]
        number = int(apart[task] * (end - start))
        yield in_time[(np.arange(number) / apart[task]).astype(np.intp)]


def incident_table(model: TableModel, frame: Frame, findings: Findings) -> Table:
    """Incidents as a table of the library that `frame` is of, most telling first."""
    incidents = findings.incidents
    labels = [*model.tasks_.tolist(), *findings.tasks.names[len(model.tasks_) :]]
    if len({type(label) for label in labels}) > 1:
        # A column has one type, and names of unknown tasks are texts.
        labels = [label_text(label) for label in labels]
    tasks = [incident.task for incident in incidents]
    counts = [(len(incident.alarms), incident.rows) for incident in incidents]
    alarms, rows = np.array(counts, dtype=np.int64).reshape(-1, 2).T
    number = np.int64 if findings.rows.ids is None else object
    columns: dict[str, Labels] = {
        "task": as_labels(labels)[np.array(tasks, dtype=np.intp)],
        "column": _texts(", ".join(incident.columns) for incident in incidents),
        "alarms": alarms,
        "rows": rows,
        "begin": _moments([incident.begin for incident in incidents], findings.rows),
        "end": _moments([incident.end for incident in incidents], findings.rows),
        "by_chance": np.array([incident.by_chance for incident in incidents]),
        "stands_out": np.array([i.stands_out for i in incidents], dtype=bool),
        "worst_row": np.array([i.worst_row for i in incidents], dtype=number),
        "reason": _texts(incident.reason for incident in incidents),
    }
    return like(frame, columns)


def _texts(texts: Iterable[str]) -> Labels:
    return np.array([*texts], dtype=object)


def _moments(moments: Sequence[float], rows: Rows) -> Labels:
    """Times of incidents as dates, numbers, or whole numbers of rows."""
    when = np.array(moments, dtype=np.float64)
    if rows.time is None:
        return when.astype(np.int64)
    if rows.dated:
        return np.round(when * 1e6).astype(np.int64).astype("datetime64[us]")
    return when


def times_in(model: TableModel, rows: TableRows) -> tuple[Array | None, bool, str]:
    """Time of each row (n,), whether times are dates, and why there are none."""
    if model.time_column is None:
        return None, False, ""
    reason = "the table has no such column"
    times = rows.times
    if times is not None:
        values = times.values
        missing = int(np.sum(~np.isfinite(values)))
        if missing == 0:
            return values, times.are_dates, ""
        reason = f"{missing:,} of {len(values):,} rows have no date or number there"
    remark = f"Nothing is shown over time: {reason} ({model.time_column!r})."
    return None, False, remark


def rows_of_tasks(estimator: OneClassEstimator) -> Array:
    """Normal rows that each task was fitted to, counted by weights, (T,)."""
    rows = estimator.training_
    is_normal = ~rows.outlier
    weight = rows.weight[is_normal]
    return np.bincount(rows.codes[is_normal], weight, rows.n_tasks).astype(np.float64)


def _name(label: object) -> str:
    """A label as text that can be encoded."""
    return str(label).encode("utf-8", "replace").decode()


def _units(steps: Array) -> Array:
    """Distance from the threshold to a typical normal row; the usual one elsewhere."""
    is_sound = np.isfinite(steps) & (steps > 0)
    usual = float(np.median(steps[is_sound])) if is_sound.any() else 1.0
    units = np.where(is_sound, steps, usual)
    return np.maximum(units, 0.1 * usual)
