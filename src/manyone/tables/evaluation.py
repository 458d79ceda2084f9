"""How good the answers were, where the truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Mask
from manyone.data.rows import MISSING
from manyone.selection.criteria import task_aucs
from manyone.tables.answers import Answers
from manyone.tables.frames import Frame, Table, like

if TYPE_CHECKING:
    from manyone.tables.model import TableModel


def evaluate_answers(
    frame: Frame, answers: Answers, outlier: Mask, model: TableModel
) -> Table:
    """How well rows are told apart, see :meth:`manyone.TableModel.evaluate`."""
    truth = outlier[answers.rows]
    rates = model.model_.alarm_rate_
    lines = []
    for code in np.unique(answers.codes):
        is_task = answers.codes == code
        name = "(unknown)" if code == MISSING else str(model.tasks_[code])
        promised = rates[code]
        if code == MISSING:
            promised = model.unknown_.rate(model.alarm_rate)
        area = auc(answers.score[is_task], truth[is_task])
        alarm = answers.alarm[is_task]
        lines.append(_line(name, truth[is_task], alarm, area, area, promised))
    areas = np.array([line["auc"] for line in lines])
    mean = np.nanmean(areas) if np.isfinite(areas).any() else np.nan
    over_rows = auc(answers.p_value, truth)
    line = _line("(all)", truth, answers.alarm, mean, over_rows, rates.max())
    table = [line, *lines]
    return like(frame, {name: [row[name] for row in table] for name in line})


def _line(
    task: str,
    truth: Mask,
    alarm: Mask,
    area: float,
    area_over_rows: float,
    promised: float,
) -> dict[str, str | int | float]:
    """One task, or all: rows (n,), and which of them raise an alarm (n,)."""
    return {
        "task": task,
        "rows": len(truth),
        "anomalies": int(truth.sum()),
        "auc": float(area),
        "auc_over_rows": area_over_rows,
        "caught": float(alarm[truth].mean()) if truth.any() else np.nan,
        "false_alarms": float(alarm[~truth].mean()) if not truth.all() else np.nan,
        "promised": float(promised),
    }


def auc(scores: Array, truth: Mask) -> float:
    """Chance that a normal row scores above an anomaly; NaN without both."""
    plain = scores[:, None] + 0.0  # -0.0 is 0.0
    return float(task_aucs(plain, np.where(truth, MISSING, 0))[0])
