"""``manyone fit`` and ``manyone info``: fit a model to normal rows, look into it.

In a shell::

  manyone fit events.csv --task machine --out fleet.manyone
  manyone fit events.csv --task site,machine --time when --out fleet.manyone
  manyone fit logins.parquet --task user --anomalies strangers --out users.manyone
  manyone fit us.csv --task shop --time day --time-format "%m/%d/%Y" --out us.manyone
  zcat old.csv.gz | manyone fit - --task machine --outlier broken --out fleet.manyone
  manyone fit events/ --task machine --engine dask --out fleet.manyone
  manyone info fleet.manyone      what it was fitted on, what became of every column
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from manyone.cli.common import (
    InputError,
    needs,
    print_lines,
    print_table,
    working,
)
from manyone.cli.models import (
    BadCells,
    Database,
    Model,
    Sql,
    about,
    check_rate,
    chosen_columns,
    load_model,
    refuse_same,
    source_of,
)
from manyone.estimators.base import OneClassEstimator
from manyone.files import locked
from manyone.messages import shortlist
from manyone.model_files import read_header, save
from manyone.tablefiles import (
    BadValues,
    ParquetTable,
    Source,
    check_place,
    is_parquet,
    read_table,
)
from manyone.tables import TableModel
from manyone.tables.choice import BY_NAME
from manyone.tables.page import columns_table
from manyone.tables.summary import facts_of, summary_of

Anomalies = Literal["any", "strangers", "faults"]
Engine = Literal["local", "dask"]
NormalRows = Annotated[
    Path | None,
    typer.Argument(
        help="Normal rows: CSV, CSV.gz, Parquet, a folder of Parquet, or xlsx; - is "
        "stdin. Or give --sql."
    ),
]
Tasks = Annotated[
    list[str],
    typer.Option(
        metavar="A,B", help="Column or columns that name the entity of a row."
    ),
]
Method = Annotated[
    str, typer.Option(help="auto, or an estimator by its name, as JointOCKSR.")
]
Rate = Annotated[
    float, typer.Option(help="Share of normal rows that may raise an alarm.")
]
Limit = Annotated[
    float | None,
    typer.Option(
        metavar="R",
        help="Largest share of one task's normal rows that may raise an alarm, on "
        "average. Without: three times the alarm rate.",
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Column with a session, batch or day; its rows are held out together."
    ),
]
Outlier = Annotated[
    str | None,
    typer.Option(help="Column with yes, true or 1 for known abnormal rows."),
]


def fit(
    task: Tasks,
    out: Annotated[Path, typer.Option(help="File for the model.")],
    table: NormalRows = None,
    sql: Sql = None,
    db: Database = None,
    anomalies: Annotated[
        Anomalies,
        typer.Option(help="Both kinds, rows of somebody else, or own rows gone wrong."),
    ] = "any",
    method: Method = "auto",
    alarm_rate: Rate = 0.05,
    task_rate_limit: Limit = None,
    time: Annotated[
        str | None,
        typer.Option(help="Time column: thresholds are then set on stretches of time."),
    ] = None,
    history: Annotated[
        str,
        typer.Option(
            metavar="auto|none|N",
            help="Compare each row with the N rows of its task before it.",
        ),
    ] = "auto",
    groups: Groups = None,
    outlier: Outlier = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns that are not features."),
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(
            metavar="F", help='How --time is written, as "%m/%d/%Y %H:%M" in the US.'
        ),
    ] = None,
    bad_values: BadCells = "refuse",
    no_tune: Annotated[
        bool,
        typer.Option("--no-tune", help="Skip the search for settings: much faster."),
    ] = False,
    no_rows: Annotated[
        bool,
        typer.Option(
            "--no-rows",
            help="Keep no values of the table in the file: no closest rows in reasons, "
            "no enroll and forget.",
        ),
    ] = False,
    engine: Annotated[Engine, typer.Option(help="Who reads Parquet.")] = "local",
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler, with --engine dask."),
    ] = None,
) -> None:
    """Learn what is normal for each entity of a table."""
    source = source_of(table, sql, db)
    check_place("--out", out)
    refuse_same("--out", out, source)
    check_rate(alarm_rate, task_rate_limit)
    if time_format is not None and time is None:
        raise InputError("--time-format says how --time is written. Give --time too.")
    if scheduler is not None and engine != "dask":
        raise InputError(f"--scheduler {scheduler} needs --engine dask.")
    chosen = _method(method, no_tune)
    with working("reading"):
        forms = {} if time is None or time_format is None else {time: time_format}
        rows = _rows_to_fit(source, engine, task, ignore or [], forms, bad_values)
        columns = list(rows.columns)
        tasks = chosen_columns("--task", task, columns, source)
        for option, name in (
            ("--time", time),
            ("--groups", groups),
            ("--outlier", outlier),
        ):
            chosen_columns(option, [name] if name is not None else [], columns, source)
        ignored = chosen_columns("--ignore", ignore or [], columns, source)
    model = TableModel(
        tasks[0] if len(tasks) == 1 else tasks,
        anomalies=anomalies,
        method=chosen,
        alarm_rate=alarm_rate,
        task_rate_limit=task_rate_limit,
        ignore=ignored,
        time=time,
        history=_history(history, time),
        outlier=outlier,
        groups=groups,
        random_state=0,
    )
    cluster = nullcontext() if scheduler is None else _cluster(scheduler)
    with about(source), cluster, working("fitting"):
        model.fit(rows)
    model.time_format_ = time_format
    if no_rows:
        model.drop_rows()
    # Another process may be changing this file.
    with locked(out) if out.exists() else nullcontext():
        save(model, out)
    print_lines("What was learned", ("", ""), summary_of(model))
    typer.echo(f"Model: {out}")


def info(model: Model) -> None:
    """Show what is in a model.

    What it was fitted on, what it promises, and what became of every column.
    """
    fitted = load_model(model)
    version = read_header(model)["manyone"]
    size = model.stat().st_size / 2**20
    lines = [
        ("file", f"{model}, {size:.1f} MB, manyone {version}"),
        ("tasks are", shortlist(fitted.tasks_.tolist(), 5)),
        *facts_of(fitted),
    ]
    print_lines("The model", ("", ""), lines)
    print_table(columns_table(fitted))


def _rows_to_fit(
    source: Source,
    engine: Engine,
    task: Sequence[str],
    ignore: Sequence[str],
    time_formats: Mapping[str, str],
    bad_values: BadValues,
) -> Any:
    """The rows of a fit: Parquet in parts, here or by Dask, else the whole table.

    Text files are read whole, as the kinds of their columns follow from all rows.
    """
    if engine == "dask":
        with needs("dask"):
            import dask.dataframe as dd

        if is_parquet(source):
            return dd.read_parquet(source)
    if isinstance(source, Path) and is_parquet(source):
        return ParquetTable(source, time_formats, bad_values)
    # Before the header is read, a name with a comma may be one column or two.
    return read_table(
        source,
        kinds=dict.fromkeys(_names(ignore), "text"),
        labels=_names(task),
        time_formats=time_formats,
        bad_values=bad_values,
    )


def _names(texts: Sequence[str]) -> list[str]:
    """Names that the texts of an option may mean, with commas or cut at commas."""
    return [name.strip() for text in texts for name in (text, *text.split(","))]


def _cluster(scheduler: str) -> AbstractContextManager[object]:
    """A connection to the scheduler at an address."""
    with needs("dask"):
        from dask.distributed import Client

    try:
        return Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {scheduler}: nobody answers there ({error})."
        ) from None


def _method(method: str, no_tune: bool) -> str | OneClassEstimator:
    """The parameter `method` of TableModel."""
    if method not in ("auto", *BY_NAME):
        names = ", ".join(sorted(BY_NAME))
        raise InputError(f"--method {method}: give auto, or one of {names}.")
    if not no_tune:
        return method
    return "default" if method == "auto" else BY_NAME[method]()


def _history(text: str, time: str | None) -> Literal["auto"] | int | None:
    """The parameter `history` of TableModel."""
    if text == "auto":
        return "auto"
    if text == "none":
        return None
    if not text.isdecimal() or int(text) < 2:
        raise InputError(
            f"--history {text}: give auto, none, or a number of rows from 2 on."
        )
    if time is None:
        raise InputError(f"--history {text} needs the order of rows. Give --time too.")
    return int(text)
