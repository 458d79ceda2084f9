"""What a model reads: columns of text files, and rows as JSON has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, cast

from manyone.messages import shortlist
from manyone.tablefiles.values import Kind
from manyone.tables.errors import TableError

if TYPE_CHECKING:
    import polars as pl

    from manyone.tables.model import TableModel


class FileColumns(TypedDict):
    """What is known of the columns of a text file.

    Attributes
    ----------
    kinds : dict
        What they have to be; others stay texts.
    time_formats : dict
        How times are written, where a model was told so.
    """

    kinds: dict[str, Kind]
    time_formats: dict[str, str]


def file_columns(model: TableModel) -> FileColumns:
    """How to read a text file for a model."""
    kinds = cast("dict[str, Kind]", model.encoder_.layout.kinds.copy())
    kinds |= dict.fromkeys(model.task_columns, "text")
    time_formats = {}
    if model.time_column is not None and model.time_format_ is not None:
        time_formats[model.time_column] = model.time_format_
    return {"kinds": kinds, "time_formats": time_formats}


def names_of_columns(model: TableModel) -> list[str]:
    """Columns that a model looks at."""
    names = [*model.task_columns, *model.columns_["name"].tolist()]
    if model.time_column is not None:
        names.append(model.time_column)
    return list(dict.fromkeys(names))


def table_of_records(
    records: Sequence[Mapping[str, object]], names: Iterable[str]
) -> pl.DataFrame:
    """A table of some columns.

    Parameters
    ----------
    records : sequence of dict
        Rows. Values are numbers, texts, booleans or None.
    names : iterable of str
        Columns. Those that no row has are left out, unless there are no rows.

    Raises
    ------
    TableError
        If a value is a list or an object.
    """
    import polars as pl

    return pl.DataFrame(
        [
            _column(name, [record.get(name) for record in records])
            for name in names
            if not records or any(name in record for record in records)
        ]
    )


def _column(name: str, values: list[object]) -> pl.Series:
    """A column of numbers, of booleans, or else of texts."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if not kinds <= {int, float, bool, str}:
        row = next(k for k, value in enumerate(values) if type(value) in (list, dict))
        raise TableError(
            f"has {shown(values[row])} in the column {name!r}",
            row=row,
            remedy="Give a number, a text, true, false or null.",
        )
    if kinds <= {bool}:
        return pl.Series(name, values, dtype=pl.Boolean if kinds else pl.String)
    if kinds <= {int, float}:
        dtype = pl.Int64 if kinds == {int} else pl.Float64
        return pl.Series(name, values, dtype=dtype, strict=False)
    texts = [
        value if value is None or isinstance(value, str) else json.dumps(value)
        for value in values
    ]
    return pl.Series(name, texts, dtype=pl.String)


def shown(value: object) -> str:
    """The beginning of a value, for a message."""
    return shortlist([str(value)[:40]], 1)
