"""Tables in files: read whole or block by block, written whole or not at all."""

from manyone.tablefiles.columns import TIME_FORMATS, BadValues
from manyone.tablefiles.reading import (
    STREAM,
    Block,
    ParquetTable,
    Source,
    is_parquet,
    read_blocks,
    read_table,
)
from manyone.tablefiles.sql import Query
from manyone.tablefiles.tail import Consumed, Fate, Tail, open_tail, stamp_of
from manyone.tablefiles.text import TableFileError
from manyone.tablefiles.values import Kind
from manyone.tablefiles.writing import check_output, check_place, table_writer

__all__ = [
    "STREAM",
    "TIME_FORMATS",
    "BadValues",
    "Block",
    "Consumed",
    "Fate",
    "Kind",
    "ParquetTable",
    "Query",
    "Source",
    "TableFileError",
    "Tail",
    "check_output",
    "check_place",
    "is_parquet",
    "open_tail",
    "read_blocks",
    "read_table",
    "stamp_of",
    "table_writer",
]
