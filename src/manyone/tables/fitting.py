"""From a table to an encoder, a model behind a guard, and what is said of tasks never seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone

from manyone._types import Array
from manyone.calibration import Calibration
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.elsewhere import in_memory
from manyone.estimators.updates import refuse_other_tasks
from manyone.labels import encode
from manyone.messages import CalibrationWarning
from manyone.models.guards import (
    ColumnRange,
    Guarded,
    excess_of_margins,
    score_range,
)
from manyone.rows import TrainingRows, training_rows
from manyone.tables.choice import Choice, choose_by_passes, choose_model
from manyone.tables.encoder import Encoder
from manyone.tables.frames import (
    Frame,
    Labels,
    Table,
    as_table,
    names_of,
    task_labels,
)
from manyone.tables.ranges import learn_ranges, left_out_margins
from manyone.tables.reading import TrainingTable, labels_like, read_training
from manyone.tables.unknown import UnknownTasks, left_out_together

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# How numbers are scaled. People differ in the order of their values; faults show in how far values
# go, and need distances that mean something.
_LINEAR = {"strangers": 0.0, "any": 0.0, "faults": 0.9}


class Fitted(NamedTuple):
    """A table and what was learned from it.

    `training` are all its rows, or a sample where it was not in memory, `n_rows` is their number.
    """

    training: TrainingTable
    encoder: Encoder
    model: OneClassEstimator
    choice: Choice
    unknown: UnknownTasks
    tasks: Labels
    n_rows: int


def fit_table(asked: TableModel, table: Table) -> Fitted:
    """What a table model asks for, of a table wherever it is."""
    linear = _LINEAR.get(asked.anomalies, 0.5)
    if in_memory(table):
        training = read_training(
            as_table(table), asked._roles(), names_of(asked.ignore), interpret=True
        )
        _refuse_lone_rows(training)
        encoder = Encoder.learn(*training.normal(), linear)
        Z = encoder.encode(training.columns, training.codes())
        with quietly():
            model, choice = choose_model(asked, Z, training.given())
        return guarded(training, encoder, model, choice, Z)
    from manyone.tables.passes import encoded

    found = encoded(table, asked._roles(), names_of(asked.ignore), linear)
    with quietly():
        model, choice = choose_by_passes(asked, found)
    fitted = guarded(found.sample, found.encoder, model, choice, found.Z, found.guards)
    return fitted._replace(n_rows=found.n_rows)


def fit_again(known: TableModel, training: TrainingTable) -> Fitted:
    """Encoder, model and thresholds of other rows, with the settings that were chosen."""
    _refuse_lone_rows(training)
    encoder = known.encoder_.learned_again(*training.normal())
    Z = encoder.encode(training.columns, training.codes())
    with quietly():
        model = clone(known.model_).fit(Z, **training.given())
    return guarded(training, encoder, model, known.choice_, Z)


def fit_others(known: TableModel, remaining: TrainingTable, others: Table) -> Fitted:
    """All but the settings anew, from a table of the tasks that remain, part by part."""
    tasks = encode(remaining.labels)[0]
    table = others
    if in_memory(others):
        frame = _relabelled(as_table(others), known.task_columns, tasks)

        def table() -> list[Table]:
            return [frame.to_native()]

    found = fit_table(clone(known).set_params(method=clone(known.model_)), table)
    refuse_other_tasks(found.tasks, tasks)
    return found._replace(choice=known.choice_)


def _relabelled(frame: Frame, names: Sequence[str], tasks: Labels) -> Frame:
    """A table whose task column is of the type of the tasks; of several, all are texts."""
    if len(names) > 1 or names[0] not in frame.columns:
        return frame
    labels = labels_like(task_labels(frame, names), tasks, names)
    values = labels.tolist()
    return frame.with_columns(
        nw.new_series(names[0], values, backend=frame.implementation)
    )


def _refuse_lone_rows(training: TrainingTable) -> None:
    """Where every task has one row, nothing says how far another one may be from it."""
    _, codes, tasks = training.normal()
    if not len(codes):
        raise ValueError(
            "Every row is marked as abnormal, so nothing says what is normal. Give normal rows, or "
            "name another outlier column."
        )
    if len(codes) == tasks > 1:
        raise ValueError(
            f"Each of the {tasks:,} tasks has one normal row, so nothing says how much the rows of "
            "a task differ. Give more rows, or name a task column that some rows share."
        )


def quietly() -> warnings.catch_warnings[None]:
    """Without warnings about thresholds: `basis` says it row by row."""
    return warnings.catch_warnings(action="ignore", category=CalibrationWarning)


def guarded(
    training: TrainingTable,
    encoder: Encoder,
    model: OneClassEstimator,
    choice: Choice,
    Z: Array,
    guards: Sequence[ColumnRange] = (),
) -> Fitted:
    """The model with ranges guarded and unknown tasks met.

    `guards` are for ranges of all rows, and with whole tasks left out, where not all are at hand.
    """
    rows, tasks, source = training_rows(
        model, Z, training.labels, training.given()["outlier"], reset=False
    )
    normal = ~rows.outlier
    X = rows.X[normal]
    codes = rows.codes[normal]
    # Where the rows are elsewhere, few of many are the farthest of a column.
    lost = np.zeros(len(rows.codes))
    lost_with_task = np.zeros(len(codes))
    if not guards:
        values = encoder.numbers(training.columns)[source][normal]
        tasks_apart = left_out_together(codes)
        guards = [
            encoder.guard(learn_ranges(values, groups))
            for groups in (None, tasks_apart)
        ]
        lost[normal] = excess_of_margins(left_out_margins(values))
        lost_with_task = excess_of_margins(left_out_margins(values, tasks_apart))
    _guard_ranges(model, guards[0], rows, lost)
    unknown = UnknownTasks.learn(X, codes, guards[1], lost_with_task)
    return Fitted(
        training, encoder, model, choice, unknown, tasks, len(training.labels)
    )


def _guard_ranges(
    model: OneClassEstimator, guard: ColumnRange, rows: TrainingRows, lost: Array
) -> None:
    """Give a fitted model a range guard, which its thresholds know of.

    `lost` is what the guard says of each training row, in their order, when it is left out.
    """
    solution = model.solution_
    unit = score_range(model.calibration_.scores)
    left_out = solution.left_out
    scorer = Guarded(solution.scorer, (guard,), unit)
    if left_out is None or not lost.any():
        model.solution_ = replace(solution, scorer=scorer)
        return
    if len(left_out) < len(lost):
        # Copies were merged: the farthest of a column is none.
        merged, place = rows.merged()
        lost_once = np.zeros(len(merged.codes))
        np.maximum.at(lost_once, place, lost)
        lost = lost_once
    left_out = left_out - unit * lost
    model.solution_ = replace(solution, scorer=scorer, left_out=left_out)
    with quietly(), np.errstate(under="ignore"):
        training = model.training_
        model.calibration_ = Calibration.from_left_out(model.solution_, training)
        model._set_offsets(model.promised_rate_)
