"""Scores, p-values and alarms of the rows of a table, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Codes, Labels, Mask
from manyone.calibration.discoveries import ReferenceScores, check_fdr, select_rows
from manyone.data.rows import MISSING
from manyone.messages import plural, warn_user
from manyone.progress import counted
from manyone.tables.columns import Columns, taken
from manyone.tables.frames import Frame, Table, Values, like
from manyone.tables.labels import refuse_unknown_tasks
from manyone.tables.rows import TableRows

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# Rows that are encoded and scored at a time.
_BLOCK = 16384
BASES = np.array(["own", "pooled", "unknown"])


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of rows.

    Parameters
    ----------
    rows : ndarray of shape (m,)
        Their positions in the table.
    labels : ndarray of shape (m,)
        Their tasks, as the table names them.
    codes : ndarray of shape (m,)
        Numbers of their tasks; -1 where a task is unknown.
    score, p_value : ndarray of shape (m,)
    rank_p : ndarray of shape (m,)
        P-value by the model alone, whatever a monitor has learned since; 1 where a task
        is unknown.
    alarm : ndarray of bool of shape (m,)
    basis : ndarray of shape (m,)
        Numbers among ``BASES``.
    counts : ndarray of bool of shape (m,)
        Whether a row is evidence: not where its alarm was taken away, nor where it is
        muted.
    """

    rows: Codes
    labels: Labels
    codes: Codes
    score: Array
    p_value: Array
    rank_p: Array
    alarm: Mask
    basis: Codes
    counts: Mask

    def take(self, places: Codes) -> Answers:
        """Answers for some of the rows, by their places among them."""
        return Answers(*(getattr(self, each.name)[places] for each in fields(self)))


def answer_rows(
    model: TableModel,
    rows: TableRows,
    fdr: float | None = None,
    unknown: str = "pooled",
) -> Answers:
    """What a model says of rows, see `TableModel.score`."""
    if fdr is not None:
        check_fdr(fdr)
    if unknown not in ("pooled", "error", "skip"):
        raise ValueError(
            f'unknown must be "pooled", "error" or "skip"; got {unknown!r}.'
        )
    codes = rows.codes
    if unknown == "error":
        refuse_unknown_tasks(rows.labels, codes, model.task_columns)
    is_answered = np.full(len(codes), unknown != "skip") | (codes != MISSING)
    places = np.flatnonzero(is_answered)
    codes = codes[places]
    score = np.empty(len(places))
    for start in counted(range(0, len(places), _BLOCK)):
        block = slice(start, start + _BLOCK)
        columns = taken(rows.columns, places[block])
        score[block] = scores_of(model, columns, codes[block])
    return _judged(model, places, rows.labels[places], codes, score, fdr)


def scores_of(model: TableModel, columns: Columns, codes: Codes) -> Array:
    """Score of each row (n,) against its task, or all where it is unknown."""
    Z = model.encoder_.encode(columns, codes)
    is_known = codes != MISSING
    scores = np.empty(len(Z))
    if is_known.any():
        scores[is_known] = model.model_.solution_.own(Z[is_known], codes[is_known])
    if not is_known.all():
        scores[~is_known] = model.unknown_.scores(Z[~is_known])
    return scores


def _judged(
    model: TableModel,
    rows: Codes,
    labels: Labels,
    codes: Codes,
    score: Array,
    fdr: float | None,
) -> Answers:
    """P-values, alarms and their basis from the scores of rows (m,)."""
    estimator = model.model_
    rate = estimator._check_calibrated()
    is_known = codes != MISSING
    known_codes = codes[is_known]
    p_value = np.empty(len(rows))
    alarm = np.empty(len(rows), dtype=bool)
    p_value[is_known] = estimator.thresholds_.pvalues(score[is_known], known_codes)
    alarm[is_known] = score[is_known] < estimator.offset_[known_codes]
    if not is_known.all():
        _warn_of_few_tasks(model, rate)
        judged = model.unknown_.judge(score[~is_known], rate)
        p_value[~is_known], alarm[~is_known] = judged
    if fdr is not None:
        # Rows of unknown tasks are one more task, compared with tasks left out.
        tasks = ReferenceScores.of(estimator.calibration_)
        unknown = ReferenceScores.of(model.unknown_.calibration)
        claimed = np.where(is_known, codes, tasks.n_tasks)
        alarm = select_rows(tasks.joined(unknown), score, claimed, fdr)
    pooled = np.append(estimator.calibration_.borrows(rate), False)
    basis = np.where(is_known, pooled[codes].astype(np.intp), 2)
    rank_p = np.where(is_known, p_value, 1.0)
    counts = np.ones(len(rows), dtype=bool)
    return Answers(rows, labels, codes, score, p_value, rank_p, alarm, basis, counts)


def _warn_of_few_tasks(model: TableModel, rate: float) -> None:
    """Warn where rows of unknown tasks raise more alarms than were asked for."""
    unknown_rate = model.unknown_.rate(rate)
    if unknown_rate == 0.0:
        warn_user(
            "Rows of tasks never seen: one known task says nothing of others, so these "
            "rows raise no alarm. Give rows of more tasks, or enroll the new ones."
        )
    elif unknown_rate > rate:
        warn_user(
            f"Rows of tasks never seen: {plural(len(model.tasks_), 'known task')} "
            f"cannot promise alarm_rate={rate:g} for new ones. Only rows beyond those "
            f"of every known task raise an alarm, at most {unknown_rate:.3g} of normal "
            "rows. Give rows of more tasks, or enroll the new ones."
        )


def thresholds_of(model: TableModel, codes: Codes) -> Array:
    """Score below which a row of each task (n,) raises an alarm."""
    rate = model.model_._check_calibrated()
    unknown = model.unknown_.calibration.at(rate).offsets()[0]
    return np.append(model.model_.offset_, unknown[0])[codes]


def as_output(
    frame: Frame,
    answers: Answers,
    kept: Frame,
    reasons: Sequence[Labels],
    task: Sequence[str],
) -> Table:
    """The answers as a table in the library of a frame, with the columns to keep."""
    rows = answers.rows
    columns: dict[str, Values] = {
        "row": rows,
        "task": answers.labels,
        "score": answers.score,
        "p_value": answers.p_value,
        "alarm": answers.alarm,
        "basis": BASES[answers.basis],
    }
    texts = {f"reason_{k + 1}": text for k, text in enumerate(reasons)}
    # The column "task" is among the answers already where it is the task column.
    names = [name for name in kept.columns if name != "task" or list(task) != [name]]
    hidden = set(names) & (columns | texts).keys()
    if hidden:
        raise ValueError(
            f"keep: {min(hidden)!r} is a column of the answers. Rename yours."
        )
    kept_columns = {}
    if names:
        taken = kept if len(rows) == len(kept) else kept[rows.tolist()]
        kept_columns = {name: taken.get_column(name) for name in names}
    return like(frame, columns | kept_columns | texts, rows)
