"""How good the answers were, where the truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from manyone._types import Array, Mask
from manyone.rows import MISSING
from manyone.selection.judging import task_aucs
from manyone.tables.answers import Answers
from manyone.tables.frames import like

if TYPE_CHECKING:
    from manyone.tables.model import TableModel


def evaluate_answers(
    frame: nw.DataFrame[Any], answers: Answers, outlier: Mask, model: TableModel
) -> Any:
    """AUC, share of anomalies caught and of false alarms, over all and for each task."""
    truth, rates = outlier[answers.rows], model.model_.alarm_rate_
    lines = []
    for code in np.unique(answers.codes):
        mine = answers.codes == code
        known = code != MISSING
        name, promised = (
            (model.tasks_[code], rates[code]) if known else ("(unknown)", rates.max())
        )
        area = auc(answers.score[mine], truth[mine])
        lines.append(_line(str(name), truth[mine], answers.alarm[mine], area, promised))
    areas = np.array([line["auc"] for line in lines])
    mean = float(np.nanmean(areas)) if np.isfinite(areas).any() else np.nan
    lines.insert(0, _line("(all)", truth, answers.alarm, mean, rates.max()))
    return like(frame, {name: [line[name] for line in lines] for name in lines[0]})


def _line(
    task: str, truth: Mask, alarm: Mask, area: float, promised: float
) -> dict[str, Any]:
    return {
        "task": task,
        "rows": len(truth),
        "anomalies": int(truth.sum()),
        "auc": area,
        "caught": float(alarm[truth].mean()) if truth.any() else np.nan,
        "false_alarms": float(alarm[~truth].mean()) if not truth.all() else np.nan,
        "promised": float(promised),
    }


def auc(scores: Array, truth: Mask) -> float:
    """Chance that a normal row scores above an anomaly; NaN where there are not both."""
    plain = scores[:, None] + 0.0  # -0.0 is 0.0
    return float(task_aucs(plain, np.where(truth, MISSING, 0))[0])
