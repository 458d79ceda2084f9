"""What there is to say about a fitted model, in a terminal and on its page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from manyone.alerts.advice import CLEARLY_FEWER
from manyone.messages import plural, shortlist

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# What the AUC of each line of `choice_` was measured on.
_JUDGED_ON = {
    "rows in time": " on made-up faults",
    "faults": " on made-up faults",
    "strangers": " on left-out rows of other tasks",
}


def summary_of(model: TableModel) -> list[tuple[str, str]]:
    """What a model was fitted to, how, and what it promises: headings and words."""
    training = model.training_
    rows = f"{model.n_rows_:,}"
    if len(training.labels) < model.n_rows_:
        rows = f"a sample of {len(training.labels):,} of {rows}"
    if training.n_outliers:
        rows += f", of which {training.n_outliers:,} are known to be abnormal "
        rows += f"('{model.outlier}')"
    names = " and ".join(map(repr, model.task_columns))
    sizes = model.task_rows_
    each = f"{sizes.min():,}"
    if sizes.min() < sizes.max():
        each += f" to {sizes.max():,}"
    decisions = model.encoder_.decisions
    dropped = [
        f"{each.name} ({each.note.removeprefix('dropped: ')})"
        for each in decisions
        if not each.used
    ]
    most = 5
    named = "; ".join(dropped[:most])
    if len(dropped) > most:
        named += f" and {len(dropped) - most} more"
    used = len(decisions) - len(dropped)
    numbers = len(model.encoder_.layout.source)
    for_gaps = numbers - sum(each.features for each in decisions)
    return [
        ("rows", rows),
        ("tasks", f"{len(model.tasks_):,} by {names}, {each} rows each"),
        (
            "columns used",
            f"{used} of {len(decisions)}, as {plural(numbers, 'number')}, {for_gaps} "
            "of them for missing values",
        ),
        ("columns dropped", named or "none"),
        *_methods(model),
        *_promises(model),
    ]


def facts_of(model: TableModel) -> list[tuple[str, str]]:
    """The same, and when and on what thresholds were set."""
    calibrated = model.calibrated_
    when = datetime.fromisoformat(str(calibrated["when"]))
    words = f"set {when:%Y-%m-%d %H:%M} UTC on {calibrated['on']}"
    return [*summary_of(model), ("thresholds", words)]


def _methods(model: TableModel) -> Iterator[tuple[str, str]]:
    """What is compared with its past; method and setting of each view, and why."""
    past = model.training_.past
    if past is not None:
        words = f"{len(past.names)} columns, with the {past.span} rows before, of "
        words = f"{words}their task"
        if past.season:
            named = shortlist(past.seasonal, 3)
            words = f"{words}; {named}, with the same {past.season} before"
        yield "compared in time", words
    columns = [values.tolist() for values in model.choice_.values()]
    for values in zip(*columns, strict=True):
        line = dict(zip(model.choice_, values, strict=True))
        if line["method"] and not line["chosen"]:
            continue
        auc = ""
        if np.isfinite(line["score"]):
            auc = f", AUC {line['score']:.3f}{_JUDGED_ON.get(line['view'], '')}"
        setting = f" ({line['setting']})" if line["setting"] else ""
        method = f"{line['method']}{setting}: " if line["method"] else ""
        view = "" if line["view"] == "all" else f" for {line['view']}"
        yield f"method{view}", f"{method}{line['reason']}{auc}"


def _promises(model: TableModel) -> Iterator[tuple[str, str]]:
    """What normal rows raise: those of known tasks, of new ones, and those to come."""
    rate = model.promised_rate_
    n_tasks = len(model.tasks_)
    calibration = model.model_.calibration_
    borrowing = int(calibration.borrows(rate).sum())
    share = f"{100.0 * rate:.4g} %"
    words = f"at most {share} of normal rows raise an alarm, on average over tasks"
    if borrowing:
        words += f"; {borrowing:,} of {n_tasks:,} tasks borrow scores of others"
        independent = np.median(calibration.counts)
        training = model.training_
        sizes = np.bincount(training.codes()[~training.outlier], minlength=n_tasks)
        if independent < CLEARLY_FEWER * np.median(sizes):
            words += ", as the rows of a usual task count as about "
            words += f"{independent:,.0f} independent ones"
    yield "promised", words
    unknown_rate = model.unknown_.rate(model.alarm_rate)
    if unknown_rate == 0.0:
        yield "tasks never seen", "their rows raise no alarm: one task is known"
    elif unknown_rate > rate:
        words = f"rows beyond those of all {n_tasks:,} known tasks raise an alarm, up "
        yield "tasks never seen", f"{words}to {unknown_rate:.2%} of normal ones"
    if model.forward_ is not None:
        yield "forecast", model.forward_.sentence(rate)
