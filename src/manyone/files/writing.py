"""Files that are written whole or not at all, and locked while they change."""

from __future__ import annotations

import csv
import errno
import io
import os
import stat
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# End of the names of files that are being written.
_LEFTOVER = ".part"


def toml_beside(module: str, name: str) -> dict[str, Any]:
    """Content of a TOML file in the folder of a module (its ``__file__``)."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def csv_text(lines: Iterable[Sequence[object]]) -> str:
    """Lines of a table, its header too, as the text of a CSV file."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(lines)
    return stream.getvalue()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside `path`, flush it to disk, then rename it.

    Parameters
    ----------
    path : Path
        An existing file keeps its content until the new one is complete.
    content : bytes

    Raises
    ------
    FileNotFoundError
        If there is no folder to write into.
    """
    with written_beside(path) as stream:
        stream.write(content)


@contextmanager
def written_beside(path: Path) -> Iterator[IO[bytes]]:
    """A stream into a file beside `path`, which takes its place when all went well.

    If `path` is a link, the file that it names is replaced. Mode and owner of an
    existing file are kept. Leftovers of the same file, from processes that were killed,
    are removed.

    Parameters
    ----------
    path : Path
        An existing file keeps its content until then.

    Yields
    ------
    stream
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.parent} to write {target.name} into."
        )
    _remove_leftovers(target)
    stream, name = _opened_beside(target)
    try:
        with stream:
            yield stream
            stream.flush()
            _take_permissions(name, target)
            os.fsync(stream.fileno())
            if fcntl is None:
                stream.close()  # Windows renames no file that is open
            os.replace(name, target)
        _flush_folder(target.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _opened_beside(target: Path) -> tuple[IO[bytes], str]:
    """A new file beside another one, locked: no process may take it for a leftover."""
    prefix = f".{target.name}."
    while True:
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=prefix, suffix=_LEFTOVER
        )
        stream = open(handle, "wb")  # noqa: SIM115 - the caller closes it
        if fcntl is not None:
            # If files cannot be locked here, no process removes leftovers either.
            with suppress(OSError):
                fcntl.flock(stream, fcntl.LOCK_EX)
        if os.path.exists(name):
            return stream, name
        stream.close()  # another process has removed it before it was locked


def _remove_leftovers(target: Path) -> None:
    """Remove leftovers of a file, from processes that are dead."""
    if fcntl is None:
        return
    for name in os.listdir(target.parent):
        if not (name.startswith(f".{target.name}.") and name.endswith(_LEFTOVER)):
            continue
        leftover = target.parent / name
        # Locked: its writer lives. It may also belong to another user, or be gone.
        with suppress(OSError), open(leftover, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def _take_permissions(name: str, target: Path) -> None:
    """Give a new file the mode and the owner of the one that it replaces.

    If it replaces none, it gets the mode that open() would give.
    """
    try:
        before = target.stat()
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        return
    now = os.stat(name)
    if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        try:
            os.chown(name, before.st_uid, before.st_gid)
        except PermissionError as error:
            raise PermissionError(
                f"{target} belongs to another user or group, and would change hands. "
                "Write to another file, or ask its owner."
            ) from error
    os.chmod(name, stat.S_IMODE(before.st_mode))


def _flush_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a renaming survives a power cut."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


class BusyError(OSError):
    """Another process works on a file."""


@contextmanager
def locked(path: Path, patience: float = 60.0) -> Iterator[None]:
    """Keep other processes from changing a file while it is read, changed and replaced.

    The lock is on the file itself, and ends with the process, however that ends. So no
    lock file can remain. On a system without such locks nothing is locked.

    Parameters
    ----------
    path : Path
        The file. Every process that replaces it must take the lock.
    patience : float
        Seconds to wait for another process.

    Raises
    ------
    BusyError
        If another process holds the lock longer than that.
    """
    if fcntl is None:
        # Windows refuses to replace a file that another process has open.
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
                        f"{path} is being changed by another process. Try again when "
                        "it is done."
                    ) from None
            else:
                # The last holder of the lock may have replaced the file.
                if os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):
                    yield
                    return
                continue
        time.sleep(0.1)
