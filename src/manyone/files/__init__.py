"""Files: written whole or not at all, locked while they change, read with suspicion."""

from manyone.files.writing import (
    BusyError,
    csv_text,
    locked,
    toml_beside,
    write_atomically,
    written_beside,
)

__all__ = [
    "BusyError",
    "csv_text",
    "locked",
    "toml_beside",
    "write_atomically",
    "written_beside",
]
