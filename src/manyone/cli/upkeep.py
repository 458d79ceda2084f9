"""``manyone enroll``, ``forget`` and ``recalibrate``: keep a saved model up to date.

In a shell::

  manyone enroll fleet.manyone new.csv                 rows of known or new machines
  manyone forget fleet.manyone pump7                   a machine and every row of it
  manyone forget fleet.manyone Oslo pump7              of a model with two task columns
  manyone recalibrate fleet.manyone --alarm-rate 0.01  fewer alarms, without a new fit

The file is replaced when all went well; processes that change it take turns.
"""

from __future__ import annotations

from typing import Annotated

import typer

from manyone.cli.common import InputError, echo, working
from manyone.cli.models import (
    BadCells,
    Database,
    Model,
    Rows,
    Sql,
    about,
    changing,
    check_rate,
    label_of,
    rows_for,
    source_of,
)
from manyone.messages import plural


def enroll(
    model: Model,
    table: Rows = None,
    sql: Sql = None,
    db: Database = None,
    bad_values: BadCells = "refuse",
) -> None:
    """Add normal rows to a model.

    Of tasks that it knows, or of new ones. Thresholds are set anew, and the file
    is replaced.
    """
    source = source_of(table, sql, db)
    with changing(model) as fitted:
        before = fitted.n_rows_, len(fitted.tasks_)
        roles = [
            str(name) for name in (fitted.outlier, fitted.time) if name is not None
        ]
        with about(source), working("enrolling"):
            fitted.enroll(rows_for(fitted, source, roles, bad_values))
        after = fitted.n_rows_, len(fitted.tasks_)
    typer.echo(
        f"{plural(after[0] - before[0], 'row')} and "
        f"{plural(after[1] - before[1], 'new task')} enrolled; {model} has "
        f"{plural(after[0], 'row')} of {plural(after[1], 'task')} now."
    )


def forget(
    model: Model,
    task: Annotated[
        list[str],
        typer.Argument(help="Task; with several task columns, the value of each."),
    ],
) -> None:
    """Remove a task and every row of it from a model.

    The file is replaced.
    """
    with changing(model) as fitted:
        columns = fitted.task_columns
        if len(task) not in (1, len(columns)):
            names = " and ".join(map(repr, columns))
            raise InputError(
                f"{' '.join(task)}: give one task, which is a value of {names}."
            )
        rows = fitted.n_rows_
        with about(model), working("forgetting"):
            fitted.forget(label_of(fitted, task))
        gone = plural(rows - fitted.n_rows_, "row")
        tasks = plural(len(fitted.tasks_), "task")
    echo(f"{gone} of {' / '.join(task)} forgotten; {model} has {tasks} now.")


def recalibrate(
    model: Model,
    alarm_rate: Annotated[
        float, typer.Option(help="Share of normal rows that may raise alarms.")
    ],
) -> None:
    """Promise another alarm rate; nothing is fitted again.

    The file is replaced.
    """
    check_rate(alarm_rate)
    with changing(model) as fitted, about(model):
        fitted.recalibrate(alarm_rate)
    typer.echo(
        f"{model} promises alarms on {fitted.promised_rate_:.2%} of normal rows now."
    )
