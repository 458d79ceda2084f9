"""From a table to an encoder, a guarded model, and a judge of tasks never seen."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.base import clone

from manyone._types import Array, Labels
from manyone.calibration import Calibration
from manyone.data.labels import encode
from manyone.data.rows import TrainingRows, in_memory, training_rows
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.combined import CombinedOneClass
from manyone.messages import CalibrationWarning, warn_user
from manyone.models.column_range import ColumnRange, excess_of_margins, score_range
from manyone.models.guards import Guarded
from manyone.tables.choice import (
    Choice,
    choose_model,
    refuse_unknown,
    with_lines,
)
from manyone.tables.columns import Columns
from manyone.tables.decisions import decide, holds_dates
from manyone.tables.encoder import Encoder
from manyone.tables.forecast import announce_fit
from manyone.tables.frames import Table, as_table, names_of, read_columns
from manyone.tables.in_time import PartsChoice, choose_parts
from manyone.tables.maps import PARTS
from manyone.tables.past import Compared
from manyone.tables.ranges import learn_ranges
from manyone.tables.sampling import kept_rows
from manyone.tables.seasons import choose_season
from manyone.tables.training import TrainingTable
from manyone.tables.unknown import UnknownTasks

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# How numbers are scaled: 0 is by their ranks, 1 linearly. People differ in the order of
# their values. Faults show in how far values go.
_LINEAR = {"strangers": 0.0, "any": 0.0, "faults": 0.9}


class Fitted(NamedTuple):
    """The rows that were kept of a table, and what was learned from them."""

    training: TrainingTable
    encoder: Encoder
    model: OneClassEstimator
    choice: Choice
    unknown: UnknownTasks
    tasks: Labels


def fit_table(settings: TableModel, table: Table) -> Fitted:
    """Fit to a table, wherever it is, with the settings of a table model."""
    refuse_unknown(settings.anomalies, settings.method)
    training, used = _training_rows(settings, table)
    linear = _LINEAR[settings.anomalies]
    learned = training
    if training.past is not None and "difference" in used.parts:
        linear = 1.0  # values and their differences are related linearly
        learned = training.settled()
    encoder = Encoder.learn(*learned.normal(), linear, used.parts, used.drifting)
    Z = encoder.encode(learned.columns, learned.codes())
    announce_fit(
        len(Z),
        len(training.labels),
        training.n_rows,
        len(encode(training.labels)[0]),
        Z.shape[1],
        is_tuned=isinstance(settings.method, str) and settings.method != "default",
        in_time=training.times is not None,
    )
    with quietly():
        model, choice = choose_model(settings, Z, learned.fit_arguments())
    choice = with_lines(used.lines, choice)
    return guarded(training, learned, encoder, model, choice, Z)


def _training_rows(
    settings: TableModel, table: Table
) -> tuple[TrainingTable, PartsChoice]:
    """Rows to learn from, and what of columns of numbers and their past is used."""
    roles = settings._roles()
    span = settings._span()
    ignored = names_of(settings.ignore)
    compared = None if span is None else Compared(span)
    training = kept_rows(table, roles, ignored, compared)
    _refuse_lone_rows(training)
    _note_alike_names(encode(training.labels)[0])
    if settings.time is None:
        _note_dates(training.columns | _ignored(settings, table))
    training = _with_useful_past(training)
    if settings.history != "auto" or span is None:
        return training, PartsChoice(PARTS)
    by_season = choose_season(training)
    if by_season.season:
        compared = Compared(span, by_season.season, by_season.columns)
        training = _with_useful_past(kept_rows(table, roles, ignored, compared))
    used = choose_parts(training)
    return training, used._replace(lines=[*used.lines, *by_season.lines])


def _with_useful_past(training: TrainingTable) -> TrainingTable:
    """The rows with the past of those columns alone that are used: not of counters."""
    columns, codes, _ = training.normal()
    names = [
        name
        for name, column in columns.items()
        if column.past is not None and decide(name, column, codes, 1.0).used
    ]
    return training.with_past_of(names)


def fit_again(
    fitted: TableModel, training: TrainingTable, share: float = 1.0
) -> Fitted:
    """Encoder, model and thresholds of other rows, with the settings that were chosen.

    Parameters
    ----------
    fitted : TableModel
        Its settings, and the columns that it uses.
    training : TrainingTable
    share : float
        Of all rows that these are: thresholds are set as those of all rows would be.
    """
    learned = training.settled()
    _refuse_lone_rows(learned)
    encoder = fitted.encoder_.learned_again(*learned.normal())
    Z = encoder.encode(learned.columns, learned.codes())
    with quietly():
        model = clone(fitted.model_).fit(Z, **learned.fit_arguments(share))
    return guarded(training, learned, encoder, model, fitted.choice_, Z)


def _ignored(settings: TableModel, table: Table) -> Columns:
    """The first rows of columns that are ignored, of a table in memory."""
    names = names_of(settings.ignore)
    if not names or not in_memory(table):
        return {}
    return read_columns(as_table(table)[:100], names)


def _note_dates(columns: Columns) -> None:
    """Warn of a column of dates, which could be the time column."""
    for name, column in columns.items():
        if holds_dates(column):
            warn_user(
                f"Column {name!r} holds dates, and no time column is named. If rows "
                f"come in time, name it (time={name!r}, --time {name}): thresholds are "
                "then set, and checked, in time."
            )
            return


def _note_alike_names(tasks: Labels) -> None:
    """Warn of two tasks whose names differ in nothing but spaces and capitals."""
    named: dict[str, str] = {}
    for task in tasks.tolist():
        if not isinstance(task, str):
            continue
        other = named.setdefault("".join(task.lower().split()), task)
        if other != task:
            warn_user(
                f"The names of the tasks {other!r} and {task!r} differ only in spaces "
                "or capitals. If they are the same task, write them alike: now each is "
                "learned for itself.",
                UserWarning,
            )
            return


def _refuse_lone_rows(training: TrainingTable) -> None:
    """Where every task has one row, nothing says how far another one may be from it."""
    _, codes, tasks = training.normal()
    if not len(codes):
        raise ValueError(
            "Every row is marked as abnormal, so nothing says what is normal. Give "
            "normal rows, or name another outlier column."
        )
    if len(codes) == tasks > 1:
        raise ValueError(
            f"Each of the {tasks:,} tasks has one normal row, so nothing says how much "
            "the rows of a task differ. Give more rows, or name a task column that "
            "some rows share."
        )


def quietly() -> warnings.catch_warnings[None]:
    """Silence warnings about thresholds: `basis` says the same of every row."""
    return warnings.catch_warnings(action="ignore", category=CalibrationWarning)


def guarded(
    training: TrainingTable,
    learned: TrainingTable,
    encoder: Encoder,
    model: OneClassEstimator,
    choice: Choice,
    Z: Array,
) -> Fitted:
    """The model in a guard of its columns' ranges, and a judge of unknown tasks.

    It was fitted to `learned`, which are some of the training rows, encoded as `Z`.
    """
    rows, tasks, source = training_rows(
        model, Z, learned.labels, learned.fit_arguments()["outlier"], reset=False
    )
    normal = ~rows.outlier
    X = rows.X[normal]
    codes = rows.codes[normal]
    values = encoder.numbers(learned.columns)[source][normal]
    values = np.where(np.isfinite(values), values, np.nan)
    ranges, margins = learn_ranges(values, np.arange(len(values)))
    lost = np.zeros(len(rows.codes))
    lost[normal] = excess_of_margins(margins)
    _guard_ranges(model, encoder.guard(ranges), rows, lost)
    # The rows of a task are left out together; those of an only task one by one.
    together = codes if np.ptp(codes) > 0 else np.arange(len(codes))
    ranges, margins = learn_ranges(values, together)
    unknown = UnknownTasks.learn(
        X, codes, encoder.guard(ranges), excess_of_margins(margins)
    )
    training = training.ended(tasks, encoder.layout.with_past)
    return Fitted(training, encoder, model, choice, unknown, tasks)


def _guard_ranges(
    model: OneClassEstimator, guard: ColumnRange, rows: TrainingRows, lost: Array
) -> None:
    """Put a range guard around a fitted model, and set its thresholds again.

    `lost` is what the guard takes from the score of each training row (n,) when the
    row is left out.
    """
    solution = model.solution_
    unit = score_range(model.calibration_.scores)
    left_out = solution.left_out
    training = model.training_
    if isinstance(model, CombinedOneClass):
        left_out = model.left_out_scores(rows)
        training = replace(training, X=rows.X)
    scorer = Guarded(solution.scorer, (guard,), unit)
    if left_out is None or not lost.any():
        model.solution_ = replace(solution, scorer=scorer)
        return
    if len(left_out) < len(lost):
        # The method has merged copies, those of a group by themselves.
        keys, place = np.unique(rows.keys(rows), return_inverse=True)
        lost_of_copies = np.zeros(len(keys))
        np.maximum.at(lost_of_copies, place, lost)
        lost = lost_of_copies[np.searchsorted(keys, training.keys(rows))]
    lowered = replace(solution, scorer=scorer, left_out=left_out - unit * lost)
    model.solution_ = lowered
    if solution.left_out is None:  # a combination has those of its views instead
        model.solution_ = replace(lowered, left_out=None)
    with quietly(), np.errstate(under="ignore"):
        model.calibration_ = Calibration.from_left_out(lowered, training)
        model._set_offsets(model.promised_rate_)
