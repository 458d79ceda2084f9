"""Scores, p-values and alarms of the rows of a table, block by block."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.calibration.conformal import select_rows
from manyone.progress import counted
from manyone.rows import MISSING
from manyone.tables.frames import like, task_labels

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
        Their numbers in the table.
    codes : ndarray of shape (m,)
        Numbers of their tasks; -1 where it was never seen.
    score, p_value : ndarray of shape (m,)
    alarm : ndarray of bool of shape (m,)
    basis : ndarray of shape (m,)
        Numbers among ``BASES``.
    """

    rows: Codes
    codes: Codes
    score: Array
    p_value: Array
    alarm: Mask
    basis: Codes


def answer_rows(
    model: TableModel,
    frame: nw.DataFrame[Any],
    rows: Codes,
    codes: Codes,
    fdr: float | None,
) -> Answers:
    """Answers for some rows of a table, given the number of every row's task."""
    if fdr is not None and not 0 < fdr < 1:
        raise ValueError(f"fdr must lie between 0 and 1; got {fdr!r}.")
    n = len(frame)
    score = np.empty(n)
    for start in counted(range(0, n, _BLOCK)):
        part = slice(start, min(start + _BLOCK, n))
        block = frame if n <= _BLOCK else frame[part]
        Z = model.encoder_.encode(model.encoder_.read(block), codes[part])
        score[part] = scores_of(model, Z, codes[part])
    if len(rows) < n:
        print(f"Rows of unknown tasks, skipped: {n - len(rows)}.", file=sys.stderr)
    return judged(model, rows, codes[rows], score[rows], fdr)


def scores_of(model: TableModel, Z: Array, codes: Codes) -> Array:
    """Score of each encoded row (n, D) against its task, or against all where it is unknown."""
    known = codes != MISSING
    if known.all():
        return model.model_._own_scores(Z, codes)
    scores = np.empty(len(Z))
    if known.any():
        scores[known] = model.model_._own_scores(Z[known], codes[known])
    scores[~known] = model.unknown_.scores(Z[~known])
    return scores


def judged(
    model: TableModel, rows: Codes, codes: Codes, score: Array, fdr: float | None
) -> Answers:
    """P-values, alarms and their basis from scores."""
    estimator = model.model_
    rate = estimator.promised_rate_
    finest = rate if fdr is None else min(rate, fdr / max(len(rows), 1))
    p, alarm = np.empty(len(rows)), np.empty(len(rows), dtype=bool)
    known = codes != MISSING
    own = codes[known]
    p[known] = estimator.calibration_.pvalues(score[known], own, finest)
    alarm[known] = score[known] < estimator.offset_[own]
    if not known.all():
        p[~known], alarm[~known] = model.unknown_.judge(score[~known], rate, finest)
    if fdr is not None and len(rows):
        parts = (
            estimator.calibration_,
            model.unknown_.calibration,
        )  # tasks never seen are last
        floors = np.concatenate([part.smallest_pvalues(finest) for part in parts])
        alarm = select_rows(p, fdr, floors[codes].min())
    pooled = np.append(estimator.calibration_.pooled(finest), False)
    basis = np.where(known, pooled[codes].astype(np.intp), 2)
    return Answers(rows, codes, score, p, alarm, basis)


def as_output(
    frame: nw.DataFrame[Any],
    task: list[str],
    answers: Answers,
    keep: Sequence[str],
    reasons: Sequence[NDArray[Any]],
) -> Any:
    """The answers as a table of the library that the rows came in."""
    rows = answers.rows
    taken = frame if len(rows) == len(frame) else frame[rows.tolist()]
    columns: dict[str, Any] = {
        "row": rows,
        "task": task_labels(taken, task),
        "score": answers.score,
        "p_value": answers.p_value,
        "alarm": answers.alarm,
        "basis": BASES[answers.basis],
    }
    kept = {
        name: taken.get_column(name)
        for name in keep
        if name != "task" or task != [name]
    }
    why = {f"reason_{k + 1}": texts for k, texts in enumerate(reasons)}
    if hidden := kept.keys() & (columns | why).keys():
        raise ValueError(
            f"keep: {min(hidden)!r} is a column of the answers. Rename yours."
        )
    return like(frame, columns | kept | why)
