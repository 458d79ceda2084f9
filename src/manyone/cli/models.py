"""Shared by commands: options, saved models, and tables for them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import polars as pl
import typer

from manyone.cli.common import InputError
from manyone.files import locked
from manyone.messages import shortlist
from manyone.model_files import load, save
from manyone.tablefiles import (
    TIME_FORMATS,
    BadValues,
    Query,
    Source,
    TableFileError,
    read_table,
)
from manyone.tables import TableModel, errors
from manyone.tables.errors import TableError
from manyone.tables.inputs import file_columns
from manyone.tables.labels import joined_label
from manyone.tables.worth import Worth

#: --json prints at most so many incidents, the least likely by chance.
INCIDENTS_IN_JSON = 100
Model = Annotated[Path, typer.Argument(help="File that manyone fit wrote.")]
AtLeast = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=X",
        help="Smallest change of a column worth an alarm, as flow=5 or flow=10%.",
    ),
]
Directions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=up|down", help="Only changes of a column this way are alarms."
    ),
]
BadCells = Annotated[
    BadValues,
    typer.Option(
        "--bad-values",
        help="Values that are not of their column's kind: refuse the table, or take "
        "them as missing and count them.",
    ),
]
Rows = Annotated[
    Path | None,
    typer.Argument(
        help="CSV, CSV.gz, Parquet, a folder of Parquet, or xlsx; - is stdin. Or give "
        "--sql."
    ),
]
Explain = Annotated[
    int, typer.Option(help="How many reasons to give for each alarm.", min=0)
]
Keep = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="Columns to copy to the output.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a summary in JSON.")]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 3 if something stands out.")
]
Sql = Annotated[str | None, typer.Option(help="Query (DuckDB) that selects the rows.")]
Database = Annotated[Path | None, typer.Option(help="DuckDB file that --sql reads.")]


def source_of(table: Path | None, sql: str | None, db: Path | None) -> Source:
    """The source of the rows of a command: a table or a query."""
    if db is not None and sql is None:
        raise InputError(f"--db {db}: give --sql, the query that selects the rows.")
    if (table is None) == (sql is None):
        raise InputError("Give a table, or a query with --sql: one of them.")
    return Query(sql, db) if sql is not None else cast(Path, table)


def load_model(path: Path) -> TableModel:
    """A model that ``manyone fit`` wrote."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise InputError(
            f"{path} holds a {type(model).__name__}, not a model of tables. Use it "
            "from Python, or write one with manyone fit."
        )
    return model


def rows_for(
    model: TableModel,
    source: Source,
    find: Collection[str] = (),
    bad_values: BadValues = "refuse",
) -> pl.DataFrame:
    """A whole table for a model.

    Parameters
    ----------
    model : TableModel
    source : Path or Query
    find : collection of str
        Further columns of a text file that are read as more than texts.
    bad_values : {"refuse", "missing"}
    """
    return read_table(source, **file_columns(model), find=find, bad_values=bad_values)


@contextmanager
def about(source: Source, first_row: int = 0) -> Iterator[None]:
    """Name the file in errors inside, and count rows from its beginning."""
    try:
        yield
    except TableFileError:  # names the file itself
        raise
    except TableError as error:
        place = "" if error.row is None else f"row {error.row + first_row} "
        remedy = _remedy(error)
        text = f"{_name(source)}: {place}{error.problem}. {remedy}".rstrip()
        raise InputError(text) from error
    except ValueError as error:
        raise InputError(f"{_name(source)}: {error}") from error


def _remedy(error: TableError) -> str:
    """The remedy of an error, in options of a command instead of Python."""
    options: dict[type[TableError], str] = {
        errors.UnknownTaskError: "Enrol it, or give --unknown pooled to compare it "
        "with all tasks.",
        errors.TimeError: "Remove rows without a time, and write times as 2026-01-31 "
        f"12:00, or say how they are written when fitting: {TIME_FORMATS}.",
        errors.MixedColumnError: "Mend it, leave the field empty, or leave the column "
        "out with --ignore.",
    }
    return options.get(type(error), error.remedy)


def _name(source: Source) -> str:
    return "stdin" if str(source) == "-" else str(source)


def chosen_columns(
    option: str, texts: Sequence[str], columns: Sequence[str], source: Source
) -> list[str]:
    """Columns named by an option, which is repeated or has commas between names."""
    names = [
        name
        for text in texts
        for name in (
            [text] if text in columns else [part.strip() for part in text.split(",")]
        )
    ]
    for name in names:
        if name not in columns:
            raise InputError(
                f"{option} {name}: {_name(source)} has no such column. The columns are "
                f"{shortlist(columns, 8)}."
            )
        if names.count(name) > 1:
            raise InputError(f"{option}: {name!r} is named twice. Keep one.")
    return names


def refuse_gaps(
    name: str, table: pl.DataFrame, source: Source, first_row: int = 0
) -> None:
    """Refuse a column with empty fields."""
    gaps = table[name].is_null().arg_true()
    if len(gaps):
        raise InputError(
            f"{source}: row {first_row + gaps[0]} has no value in the column {name}. "
            "Fill it in."
        )


def refuse_same(option: str, path: Path, *others: Source) -> None:
    """Refuse to write over a file that is read."""
    for source in others:
        read = source if isinstance(source, Path) else source.database
        if read is None:
            continue
        if path.exists() and read.exists() and path.samefile(read):
            raise InputError(
                f"{option} {path} would be written over {read}. Name another file."
            )


def check_rate(alarm_rate: float, task_rate_limit: float | None = None) -> None:
    """Refuse an alarm rate outside 0 to 1, and a limit below the rate."""
    if not 0.0 < alarm_rate < 1.0:
        raise InputError(
            f"--alarm-rate {alarm_rate:g}: give a share between 0 and 1, as 0.05."
        )
    if task_rate_limit is not None and not alarm_rate <= task_rate_limit <= 1.0:
        raise InputError(
            f"--task-rate-limit {task_rate_limit:g}: give a share between the alarm "
            f"rate, {alarm_rate:g}, and 1."
        )


def named_values(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Values by column of an option that may be repeated, as ``flow=5``."""
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.rpartition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"{option} {text}: write COLUMN=VALUE.")
        if name.strip() in values:
            raise InputError(f"{option}: {name.strip()!r} is named twice. Keep one.")
        values[name.strip()] = value.strip()
    return values


def worth_of(
    model: TableModel, at_least: Sequence[str] | None, direction: Sequence[str] | None
) -> Worth | None:
    """Changes that are worth an alarm, by the options --at-least and --direction."""
    if not at_least and not direction:
        return None
    smallest = named_values("--at-least", at_least)
    ways = named_values("--direction", direction)
    try:
        return Worth.of(model, smallest, ways)
    except ValueError as error:
        text = str(error).replace("at_least:", "--at-least:", 1)
        raise InputError(text.replace("direction:", "--direction:", 1)) from error


def label_of(model: TableModel, words: Sequence[str]) -> Hashable:
    """The label of a task: one word, or one for each task column."""
    text = words[0] if len(words) == 1 else joined_label(words)
    for label in model.tasks_.tolist():
        if str(label) == text:
            return label
    raise InputError(
        f"no task {text!r}. The model knows {shortlist(model.tasks_.tolist(), 5)}."
    )


@contextmanager
def changing(path: Path) -> Iterator[TableModel]:
    """Read a model, and write it after the change, while other processes wait."""
    with locked(path):
        model = load_model(path)
        yield model
        save(model, path)
