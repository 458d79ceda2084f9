"""How good the answers were, where the truth is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array, Mask
from manyone.data.rows import MISSING
from manyone.selection.criteria import task_aucs
from manyone.tables.answers import Answers
from manyone.tables.frames import Frame, Table, like

if TYPE_CHECKING:
    from manyone.tables.model import TableModel


@dataclass(frozen=True)
class Evaluation:
    """How well a model tells apart the rows of one task, or of all.

    Attributes
    ----------
    task : str
    rows, anomalies : int
    auc : float
        Chance that a normal row scores above an anomaly of its task; of all tasks, the
        mean over tasks.
    auc_over_rows : float
        Of all tasks, the chance that any normal row has a larger p-value than any
        anomaly, ties counted half. Of one task, `auc`.
    caught, false_alarms : float
        Shares of anomalies and of normal rows that raise an alarm.
    promised : float
    """

    task: str
    rows: int
    anomalies: int
    auc: float
    auc_over_rows: float
    caught: float
    false_alarms: float
    promised: float


def evaluate_answers(
    frame: Frame, answers: Answers, outlier: Mask, model: TableModel
) -> Table:
    """AUC, share of anomalies caught and of false alarms, over all and per task."""
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
    areas = np.array([line.auc for line in lines])
    mean = float(np.nanmean(areas)) if np.isfinite(areas).any() else np.nan
    over_rows = auc(answers.p_value, truth)
    line = _line("(all)", truth, answers.alarm, mean, over_rows, rates.max())
    table = [asdict(evaluation) for evaluation in (line, *lines)]
    return like(frame, {name: [row[name] for row in table] for name in table[0]})


def _line(
    task: str,
    truth: Mask,
    alarm: Mask,
    area: float,
    area_over_rows: float,
    promised: float,
) -> Evaluation:
    return Evaluation(
        task=task,
        rows=len(truth),
        anomalies=int(truth.sum()),
        auc=area,
        auc_over_rows=area_over_rows,
        caught=float(alarm[truth].mean()) if truth.any() else np.nan,
        false_alarms=float(alarm[~truth].mean()) if not truth.all() else np.nan,
        promised=float(promised),
    )


def auc(scores: Array, truth: Mask) -> float:
    """Chance that a normal row scores above an anomaly; NaN where there are not both."""
    plain = scores[:, None] + 0.0  # -0.0 is 0.0
    return float(task_aucs(plain, np.where(truth, MISSING, 0))[0])
