"""Files: written whole or not at all, and what several parts of the package read and write."""

from __future__ import annotations

import csv
import io
import os
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_PATIENCE, _PAUSE = (
    60.0,
    0.1,
)  # seconds to wait for another process, and between two looks


def toml_beside(module: str, name: str) -> dict[str, Any]:
    """Content of a TOML file in the folder of a module (its ``__file__``)."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def csv_text(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A table as the text of a CSV file."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *lines])
    return stream.getvalue()


def write_atomically(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write bytes beside `path`, flush them to disk, then rename: never a half-written file.

    Parameters
    ----------
    path : Path
        An existing file keeps its content until the new one is complete.
    content : bytes
    new : bool, default=False
        Whether the file must not exist yet: only one of two processes can make it.

    Raises
    ------
    FileNotFoundError
        If there is no folder to write into.
    FileExistsError
        If `new` and the file exists.
    """
    with written_beside(path, new=new) as stream:
        stream.write(content)


@contextmanager
def written_beside(path: Path, *, new: bool = False) -> Iterator[IO[bytes]]:
    """A stream into a file beside `path`, which takes its place when all went well.

    Parameters
    ----------
    path : Path
        An existing file keeps its content until then.
    new : bool, default=False
        Whether the file must not exist yet.

    Yields
    ------
    stream
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {path.parent} to write {path.name} into."
        )
    handle, name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}.", suffix=".part"
    )
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp is private by design; the file gets the permissions that open() would give.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        if new:
            os.link(name, path)  # refuses to replace a file
            os.unlink(name)
        else:
            os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class BusyError(OSError):
    """Another process works on a file."""


@contextmanager
def locked(path: Path, patience: float = _PATIENCE) -> Iterator[None]:
    """Keep other processes from changing a file while it is read, changed and replaced.

    The lock is on the file itself and ends with the process, however that ends, so no lock file can
    be left behind. On a system without such locks nothing is locked.

    Parameters
    ----------
    path : Path
        The file; everyone who replaces it has to ask for the lock.
    patience : float
        Seconds to wait for others.

    Raises
    ------
    BusyError
        If another process keeps the file longer than that.
    """
    try:
        import fcntl
    except (
        ImportError
    ):  # Windows, which refuses to replace a file that another process has open
        yield
        return
    until = time.monotonic() + patience
    while True:
        with open(path, "rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise BusyError(
                        f"{path} is being changed by another process. Try again when it is done."
                    ) from None
            else:
                # Unless the last owner of the lock has replaced this file by another.
                if os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):
                    yield
                    return
                continue
        time.sleep(_PAUSE)
