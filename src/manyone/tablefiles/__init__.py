"""Tables in files: read whole or block by block, written whole or not at all."""

from manyone.tablefiles.columns import BadValues
from manyone.tablefiles.reading import Block, read_blocks, read_table
from manyone.tablefiles.text import TableFileError
from manyone.tablefiles.values import Kind
from manyone.tablefiles.writing import check_output, check_place, table_writer

__all__ = [
    "BadValues",
    "Block",
    "Kind",
    "TableFileError",
    "check_output",
    "check_place",
    "read_blocks",
    "read_table",
    "table_writer",
]
