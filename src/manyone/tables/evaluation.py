"""How good the answers were, where the truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from manyone._types import Array, Mask
from manyone.rows import MISSING
from manyone.tables.answers import Answers
from manyone.tables.frames import like

if TYPE_CHECKING:
    from manyone.tables.model import TableModel


def evaluate_answers(
    frame: nw.DataFrame[Any], answers: Answers, outlier: Mask, model: TableModel
) -> Any:
    """AUC, share of anomalies caught and of false alarms, over all and for each task."""
    truth = outlier[answers.rows]
    lines = []
    for code in np.unique(answers.codes):
        mine = answers.codes == code
        name = "(unknown)" if code == MISSING else str(model.tasks_[code])
        promised = float(model.model_.alarm_rate_[code]) if code != MISSING else model.alarm_rate
        area = auc(answers.score[mine], truth[mine])
        lines.append((name, *_rates(truth[mine], answers.alarm[mine]), area, promised))
    areas = np.array([line[5] for line in lines])
    mean = float(np.nanmean(areas)) if np.isfinite(areas).any() else np.nan
    promised = float(model.model_.promised_rate_)
    lines.insert(0, ("(all)", *_rates(truth, answers.alarm), mean, promised))
    names = ("task", "rows", "anomalies", "caught", "false_alarms", "auc", "promised")
    found = dict(zip(names, map(list, zip(*lines, strict=True)), strict=True))
    order = ("task", "rows", "anomalies", "auc", "caught", "false_alarms", "promised")
    return like(frame, {name: found[name] for name in order})


def _rates(truth: Mask, alarm: Mask) -> tuple[int, int, float, float]:
    """Rows, anomalies among them, share of these alarmed, share of the others alarmed."""
    bad, good = int(truth.sum()), int((~truth).sum())
    caught = float(alarm[truth].mean()) if bad else np.nan
    false = float(alarm[~truth].mean()) if good else np.nan
    return len(truth), bad, caught, false


def auc(scores: Array, truth: Mask) -> float:
    """Chance that a normal row scores above an anomaly; NaN where there are not both."""
    normal, bad = np.sort(scores[~truth]), scores[truth]
    if not len(normal) or not len(bad):
        return float("nan")
    below = np.searchsorted(normal, bad, side="left") + np.searchsorted(normal, bad, side="right")
    return float(1.0 - below.mean() / (2 * len(normal)))
