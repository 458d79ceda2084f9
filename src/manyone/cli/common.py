"""What all commands share: mistakes as one line, checks of files, progress bars."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from manyone.report.page import Table


_STOPPED = 130  # exit code of what ctrl-C ended, as shells have it


class InputError(Exception):
    """Something the user can mend; shown as one line."""


def run(app: typer.Typer, args: Sequence[str] | None) -> int:
    """Run a command; what goes wrong is one line on stderr.

    Parameters
    ----------
    app : Typer
    args : sequence of str or None
        None: those of the process.

    Returns
    -------
    int
        0; 2 for what the user can mend (options, files, packages that are not installed); 130 if
        stopped; 1 for the rest, which ``MANYONE_DEBUG=1`` shows in full.
    """
    try:
        code = app(args=args, prog_name="manyone", standalone_mode=False) or 0
        if code == _STOPPED:
            raise KeyboardInterrupt  # the option parser has turned it into a code
        return code
    except (KeyboardInterrupt, typer.Abort):
        code, text = _STOPPED, "stopped. Run the same command again to go on."
    except (InputError, OSError) as error:
        code, text = 2, str(error)
    except Exception as error:
        code, text = 1, f"unexpected {type(error).__name__}: {error}. This is a mistake in manyone;"
        if hasattr(error, "format_message"):  # of the option parser, which has its own words
            code, text = 2, error.format_message()
        elif os.environ.get("MANYONE_DEBUG"):
            raise
        else:
            text += " MANYONE_DEBUG=1 shows where."
    typer.echo(f"manyone: {' '.join(text.split())}", err=True)
    return code


def examples(docstring: str | None) -> str:
    """What a docstring says of the use in a shell, for the end of a help text, line by line."""
    return "\b\nExamples:\n" + (docstring or "").partition("::\n\n")[2].rstrip()


@contextmanager
def needs(extras: str) -> Iterator[None]:
    """Tell what to install where an import inside fails."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{error}. Install: pip install '.[{extras}]' in the checkout of manyone"
        ) from error


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be written before anything is computed."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise InputError(f"{option} {folder}: {existing} is a file. Name a folder.")
    if not os.access(existing, os.W_OK):
        raise InputError(f"{option} {folder}: cannot write in {existing}. Name another folder.")


def print_table(table: Table, leave_out: Collection[str] = ()) -> None:
    """Print a table of a page, without the columns under some headings."""
    from rich.console import Console
    from rich.table import Table as Lines

    kept = [k for k, head in enumerate(table.heads) if head not in leave_out]
    lines = Lines(title=table.title)
    for k in kept:
        lines.add_column(table.heads[k], justify="right" if k else "left", no_wrap=k > 0)
    for row in table.rows:
        texts = [row.name, *(cell.text for cell in row.cells)]
        lines.add_row(*(texts[k] for k in kept))
    Console().print(lines)


@contextmanager
def progress(doing: str, things: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, drawn from the first call on.

    Parameters
    ----------
    doing, things : str
        What is done, and with what.

    Yields
    ------
    callable
        Takes how many are done, and of how many.
    """
    from rich import progress as parts
    from rich.console import Console

    bar = parts.Progress(
        *(doing, parts.BarColumn(), parts.MofNCompleteColumn(), f"{things}, left"),
        *(parts.TimeRemainingColumn(), "elapsed", parts.TimeElapsedColumn()),
        console=Console(stderr=True),
    )
    line = bar.add_task(doing, total=None)

    def update(done: int, total: int) -> None:
        bar.start()
        bar.update(line, completed=done, total=total)

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
