"""From a model of tables, and a table that it scores, to the values of a page."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manyone._types import Array, Codes
from manyone.files import write_atomically
from manyone.messages import label_text, plural
from manyone.models.resemblance import Resemblance
from manyone.report.advice import STANDS_OUT
from manyone.report.chance import tail_pvalues
from manyone.report.fleet import FleetReport, Relations, Rows, Tasks
from manyone.report.fleet_page import fleet_page, moment
from manyone.report.gaps import new_gaps
from manyone.report.page import Cell, Row, Table
from manyone.tables.answers import BASES, Answers
from manyone.tables.explain import explain_rows, plain_text
from manyone.tables.frames import as_table, as_times, read_column, task_labels
from manyone.watch import Monitor, MonitorState
from manyone.watch.model import Scored, rows_of_tasks

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

_NEAREST = 5  # relations kept of each task
_ALL_PAIRS = 2000  # tasks whose relations are all looked at
_REASONS = 3
_MOST_EXPLAINED = 20_000
# What it means that a view finds a row unusual.
_VIEWS = {
    "strangers": "looks like a row of another task",
    "faults": "unlike the rows of its own task",
    "range": "a value beyond all that was seen",
    "unknown": "a task never seen",
}


def write_report(
    model: TableModel,
    path: str | Path,
    table: Any = None,
    *,
    model_name: str = "MODEL",
    table_name: str = "TABLE",
) -> None:
    """Write the page of a model, and of a table that it scores.

    Parameters
    ----------
    model : TableModel
        Fitted.
    path : path
        Of the page; written whole or not at all.
    table : data frame or None
    model_name, table_name : str
        What the page calls them, in the commands that it suggests too.
    """
    page = fleet_page(report_of(model, table, model_name, table_name))
    write_atomically(Path(path), page.encode("utf-8", "replace"))


def report_of(
    model: TableModel, table: Any, model_name: str, table_name: str
) -> FleetReport:
    """The values of a page; `table` may be None."""
    report = FleetReport(
        model=model_name,
        table="",
        method=_method(model),
        rate=float(model.model_.alarm_rate_.max()),
        tasks=_tasks(model, []),
        relations=_relations(model),
        facts=_facts(model),
        tables=(_columns(model), _choice(model)),
    )
    if table is None:
        return report
    frame = as_table(table)
    answers = model._answer(frame, None, "pooled")
    codes, new = _task_numbers(model, answers, task_labels(frame, model.task_columns))
    time, dated, remark = _times(model, frame)
    rows = _rows(model, frame, answers, codes, time, dated)
    remarks = tuple(filter(None, [remark, _unexplained(rows)]))
    report = replace(
        report, table=table_name, tasks=_tasks(model, new), remarks=remarks
    )
    gaps = new_gaps(model, frame[answers.rows.tolist()], codes, report.tasks.names)
    return replace(report, rows=rows, drift=_drift(model, answers, rows), gaps=gaps)


def _task_numbers(
    model: TableModel, answers: Answers, labels: Any
) -> tuple[Codes, list[str]]:
    """Number of each row's task, and names of tasks never seen, which have the last numbers."""
    codes, unseen = answers.codes.copy(), answers.codes < 0
    texts = [label_text(label) for label in labels[answers.rows][unseen].tolist()]
    names, numbers = np.unique(texts, return_inverse=True)
    codes[unseen] = len(model.tasks_) + numbers
    return codes, names.tolist()


def _tasks(model: TableModel, new: list[str]) -> Tasks:
    estimator, rate = model.model_, model.model_._check_calibrated()
    calibration, unknown = estimator.calibration_, model.unknown_.calibration
    starts, scores = calibration.starts, calibration.scores
    pooled = calibration.pooled(rate)
    typical = np.array(
        [np.median(scores[a:b]) if b > a else np.nan for a, b in pairwise(starts)]
    )
    reference = np.where(pooled, calibration.pool_count, calibration.counts)
    threshold = np.append(estimator.offset_, [unknown.offsets(rate)[0][0]] * len(new))
    typical = np.append(typical, [np.median(unknown.scores)] * len(new))
    return Tasks(
        names=tuple(_name(label) for label in (*model.tasks_.tolist(), *new)),
        trained=np.append(rows_of_tasks(estimator), np.zeros(len(new))).astype(np.intp),
        basis=(*BASES[pooled.astype(int)].tolist(), *["unknown"] * len(new)),
        reference=np.append(reference, [unknown.counts[0]] * len(new)),
        # Of tasks never seen nothing is known.
        known_by=np.append(np.maximum(calibration.counts, 1.0), [0.0] * len(new)),
        threshold=np.where(threshold > -1e200, threshold, np.nan),
        unit=_units(typical - threshold),
        left_out=scores,
        starts=np.append(starts, [starts[-1]] * len(new)).astype(np.intp),
    )


def _name(label: Any) -> str:
    """A label as text that can be encoded."""
    return str(label).encode("utf-8", "replace").decode()


def _units(steps: Array) -> Array:
    """Distance from the threshold to a typical normal row; the usual one where there is none."""
    sound = np.isfinite(steps) & (steps > 0) & (steps < 1e200)
    usual = float(np.median(steps[sound])) if sound.any() else 1.0
    return np.where(
        sound, np.maximum(np.where(sound, steps, usual), 0.1 * usual), usual
    )


def _times(model: TableModel, frame: Any) -> tuple[Array | None, bool, str]:
    """Time of each row (n,) and whether times are dates; or None and why there are no times."""
    if model.time is None:
        return None, False, ""
    why = "the table has no such column"
    if model.time in frame.columns:
        column = read_column(frame.get_column(model.time))
        values = as_times(column)
        missing = int(np.sum(~np.isfinite(values)))
        if not missing:
            return values, column.kind != "number", ""
        why = f"{missing:,} of {len(values):,} rows have no date or number there"
    return (
        None,
        False,
        f"Nothing is shown over time, which {model.time!r} should tell: {why}.",
    )


def _rows(
    model: TableModel,
    frame: Any,
    answers: Answers,
    codes: Codes,
    time: Array | None,
    dated: bool,
) -> Rows:
    tail = _tails(model, answers)
    leading, reasons, notes = _reasons(model, frame, answers, tail)
    a = answers
    said = (a.rows, codes, a.score, a.p_value, tail, a.alarm)
    when = None if time is None else time[a.rows]
    return Rows(*said, leading, reasons, notes, when, dated)


def _unexplained(rows: Rows) -> str:
    """A remark if there are more alarms than the page explains."""
    alarms = int(rows.alarm.sum())
    if alarms <= _MOST_EXPLAINED:
        return ""
    return (
        f"Of {alarms:,} alarms the {_MOST_EXPLAINED:,} farthest out have reasons here; manyone "
        "score --explain 3 gives them for all."
    )


def _drift(
    model: TableModel, answers: Answers, rows: Rows
) -> tuple[tuple[float, str], ...]:
    """When tasks were found to drift, and since when they do, by a monitor of the rows."""
    if rows.time is None:
        return ()
    a, time, order = answers, rows.time, np.argsort(rows.time, kind="stable")
    scored = Scored(
        a.codes[order],
        a.score[order],
        a.p_value[order],
        a.alarm[order],
        a.basis[order],
    )
    state = MonitorState.start(model, drift_level=STANDS_OUT / len(model.tasks_))
    flagged = order[Monitor(model, state=state)._watch(scored, time[order]).drift]
    found = []
    for k in np.sort(np.unique(a.codes[flagged], return_index=True)[1]).tolist():
        code, when = a.codes[flagged[k]], float(time[flagged[k]])
        since = moment(float(state.since_time[code]), rows.dated)
        found.append((when, f"{_name(model.tasks_[code])} drifts since about {since}"))
    return tuple(found)


def _tails(model: TableModel, answers: Answers) -> Array:
    """P-values among the left-out rows of all tasks, in units of each task's scores."""
    known, calibration = answers.codes >= 0, model.model_.calibration_
    unseen = model.unknown_.calibration
    tail = np.empty(len(known))
    score = answers.score[known] / calibration.spread[answers.codes[known]]
    tail[known] = tail_pvalues(score, calibration.pool_scores, calibration.pool_weight)
    tail[~known] = tail_pvalues(answers.score[~known], unseen.scores, unseen.weight)
    return tail


def _reasons(
    model: TableModel, frame: Any, answers: Answers, tail: Array
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Leading column, reasons and a remark for every alarm, the most telling ones first."""
    n = len(answers.rows)
    leading, notes = [""] * n, [""] * n
    reasons: list[tuple[str, ...]] = [()] * n
    alarms = np.flatnonzero(answers.alarm)
    alarms = alarms[np.argsort(tail[alarms], kind="stable")[:_MOST_EXPLAINED]]
    if len(alarms):
        part = frame[answers.rows[alarms].tolist()]
        found = explain_rows(model, part, answers.codes[alarms], _REASONS)
        sentences = found.sentences().tolist()
        for k, place in enumerate(alarms.tolist()):
            leading[place] = str(found.column[k, 0])
            reasons[place] = tuple(filter(None, sentences[k]))
            notes[place] = (
                f"{_VIEWS[found.view[k]]}; closest training rows {found.nearest[k]}"
            )
    return tuple(leading), tuple(reasons), tuple(notes)


def _relations(model: TableModel) -> Relations | None:
    """The strongest relations of each task, where a view of the model has learned any."""
    views = getattr(model.model_, "views_", {"": model.model_})
    found = [view for view in views.values() if "structure_" in view.can.learns]
    if not found or len(model.tasks_) < 2:
        return None
    structure = found[0].solution_.learned["structure"]
    pairs = _strongest(structure, len(model.tasks_))
    there, back = (_entries(structure, *both) for both in (pairs, pairs[::-1]))
    weight = np.where(np.abs(there) >= np.abs(back), there, back)
    kept = np.abs(weight) > 1e-6 * np.abs(weight).max(initial=0.0)
    meaning = (
        f"What {type(found[0]).__name__} has learned about pairs of tasks: red pairs look alike to "
        "it, blue ones are set apart."
    )
    return Relations(pairs[0][kept], pairs[1][kept], weight[kept], meaning)


def _strongest(structure: Any, n_tasks: int) -> Codes:
    """Pairs (2, p) of different tasks, the strongest relations of each, every pair once."""
    if isinstance(structure, Resemblance) and n_tasks > _ALL_PAIRS:
        pairs = structure.strongest(_NEAREST)
    else:
        matrix = structure.matrix() if isinstance(structure, Resemblance) else structure
        strength, k = np.abs(matrix), min(_NEAREST, n_tasks - 1)
        np.fill_diagonal(strength, -1.0)
        near = np.argpartition(-strength, k - 1, axis=1)[:, :k]
        pairs = np.stack([np.repeat(np.arange(n_tasks), k), near.ravel()])
    return np.unique(np.sort(pairs, axis=0), axis=1)


def _entries(structure: Any, lines: Codes, columns: Codes) -> Array:
    if isinstance(structure, Resemblance):
        return structure.entries(lines, columns)
    return np.asarray(structure[lines, columns])


def _method(model: TableModel) -> str:
    views = getattr(model.model_, "views_", {"": model.model_})
    return " + ".join(type(view).__name__ for view in views.values())


def _facts(model: TableModel) -> tuple[tuple[str, str], ...]:
    done: dict[str, Any] = model.calibrated_
    kinds = {
        "any": "strangers (rows of somebody else) and faults (own rows gone wrong)",
        "strangers": "strangers: rows of somebody or something else",
        "faults": "faults: a task's own rows gone wrong",
    }
    return (
        ("Looks for", kinds[model.anomalies]),
        ("Method", _method(model)),
        (
            "Trained on",
            f"{plural(model.n_rows_, 'row')} of {plural(len(model.tasks_), 'task')}",
        ),
        ("Thresholds", f"set {done['when'][:10]} on {done['rows']:,} {done['on']}"),
        (
            "Promise",
            f"at most {model.model_.alarm_rate_.max():.3g} of normal rows raise an alarm",
        ),
    )


def _columns(model: TableModel) -> tuple[str, str, Table]:
    """What the encoder did with each column."""
    told = model.columns_
    lines = []
    for k, name in enumerate(told["name"]):
        low, high, missing = (float(told[key][k]) for key in ("low", "high", "missing"))
        shown = told["kind"][k] in ("number", "boolean") and np.isfinite(low)
        features = int(told["features"][k])
        cells = (
            Cell(str(told["kind"][k]), mark="text"),
            Cell(str(features) if features else "–", features),
            Cell(f"{missing:.1%}" if missing else "", missing),
            Cell(f"{plain_text(low, 4)} … {plain_text(high, 4)}", low)
            if shown
            else Cell(),
            Cell(str(told["note"][k]), mark="text"),
        )
        lines.append(Row(str(name), cells, soft=not told["used"][k]))
    used = int(np.sum(told["used"]))
    intro = f"{used} of {len(lines)} columns are features; task, time and label columns never are."
    heads = ("column", "kind", "features", "missing", "range seen", "note")
    return "Columns", intro, Table("What the encoder did", heads, tuple(lines))


def _choice(model: TableModel) -> tuple[str, str, Table]:
    """What was chosen for each view, and what was left out."""
    tried = model.choice_
    lines = []
    for k in np.flatnonzero(tried["chosen"] | (tried["reason"] != "")).tolist():
        score = float(tried["score"][k])
        judged = Cell(f"{100 * score:.1f}", score) if np.isfinite(score) else Cell()
        long = r"\d+\.\d{4,}"
        setting = re.sub(
            long, lambda found: f"{float(found[0]):.3g}", tried["setting"][k]
        )
        texts = (str(tried["method"][k]), str(setting), str(tried["reason"][k]))
        method, how, reason = (Cell(text, mark="text") for text in texts)
        lines.append(Row(str(tried["view"][k]), (method, how, judged, reason)))
    number = int(np.count_nonzero(tried["method"] != ""))
    intro = f"Chosen among {number} settings by how well rows left out of training are told apart."
    heads = ("view", "method", "setting", "AUC, %", "remark")
    return "Choice", intro, Table("What was chosen", heads, tuple(lines))
