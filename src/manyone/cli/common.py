"""Shared by all commands: errors as one line, checks of folders, tables, progress."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn

import typer

from manyone.files.errors import ModelFileError
from manyone.page.html import Table
from manyone.progress import listening
from manyone.tablefiles import TableFileError

STANDS_OUT = 3  # exit code where --exit-code asks for one: something stands out
# Exit codes after ctrl-C and after SIGTERM, as shells have them.
_STOPPED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM
# Commands that save their work step by step, and resume it.
_RESUMING = ("watch", "run", "reproduce")
_SHORT = 1.0  # seconds of work that is done without a progress bar
_LOG_SECONDS = 10.0  # between two lines in a log, where there is no terminal
_NUMBER = re.compile(r"-?[\d.,]*( ± [\d.]+)?")  # or nothing


class InputError(Exception):
    """An error that the user can mend, shown as one line."""


def run(app: typer.Typer, args: Sequence[str] | None) -> int:
    """Run a command, and return its exit code. An error is one line on stderr.

    After a command that went well, each warning is a line that begins with "note".

    Parameters
    ----------
    app : Typer
    args : sequence of str or None
        None: those of the process.

    Returns
    -------
    int
        0; 3 where ``--exit-code`` asked whether something stands out, and it does; 2
        for what the user can mend (options, files, packages that are not installed);
        130 if stopped by ctrl-C, 143 by SIGTERM; 1 for the rest, which
        ``MANYONE_DEBUG=1`` shows in full.
    """
    terminated: list[int] = []
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the encoding cannot write must not end the command.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            _terminated_as_interrupted(terminated),
        ):
            warnings.simplefilter("default")
            code = app(args=args, prog_name="manyone", standalone_mode=False) or 0
        if code == _STOPPED:
            raise KeyboardInterrupt  # the option parser turns it into a code
        for note in dict.fromkeys(str(warning.message) for warning in caught):
            _say(f"note: {note}")
        return code
    except (KeyboardInterrupt, typer.Abort):
        code = _TERMINATED if terminated else _STOPPED
        text = _stopped_sentence(sys.argv[1:] if args is None else args)
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        # Else the interpreter prints an error when it ends.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except Exception as error:
        code = 2
        text = _error_sentence(error)
        if not text:
            if os.environ.get("MANYONE_DEBUG"):
                raise
            code = 1
            text = (
                f"unexpected {type(error).__name__}: {error}. This is a mistake in "
                "manyone; MANYONE_DEBUG=1 shows where."
            )
    _say(text)
    return code


def _stopped_sentence(args: Sequence[str]) -> str:
    """The line about a command that was stopped."""
    command = next((word for word in args if not word.startswith("-")), "")
    if command == "serve":
        return "stopped."
    if command in _RESUMING:
        return "stopped. Run the same command again to go on."
    return "stopped. Nothing unfinished was saved: run the command from the start."


def shown(text: str) -> str:
    r"""A text in one line, without characters that would control a terminal.

    Names come from tables and files. Characters that move the cursor, change colours or
    turn the direction of writing are shown as Python writes them, as ``\x1b``.
    """
    line = " ".join(text.split())
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape").decode()
        for character in line
    )


def echo(text: str, *, err: bool = False) -> None:
    """Print a line that may hold names from tables and files."""
    typer.echo(shown(text), err=err)


def _say(text: str) -> None:
    echo(f"manyone: {text}", err=True)


def _error_sentence(error: Exception) -> str:
    """The line about an error that the user can mend; empty for a fault in manyone."""
    if hasattr(error, "format_message"):  # of the option parser
        context = getattr(error, "ctx", None)
        more = f" See {context.command_path} --help." if context is not None else ""
        return f"{refused_option(error)}{more}"
    # From Python, or from polars in its own words.
    if re.search(rf"\[Errno {errno.ENOSPC}\]|\(os error {errno.ENOSPC}\)", str(error)):
        return "the disk is full. Make room, and give the command again."
    if isinstance(error, OSError) and error.filename and error.strerror:
        why = f"{error.strerror[0].lower()}{error.strerror[1:]}"
        beside = str(error.filename).endswith(".part")  # a file that was to be renamed
        place = Path(error.filename).parent if beside else error.filename
        return f"{place}: {why}. Check its name and permissions."
    if isinstance(
        error, (InputError, OSError, MemoryError, ModelFileError, TableFileError)
    ):
        return str(error) or "not enough memory. Give fewer rows."
    return ""


def refused_option(error: Any) -> str:
    """What the option parser refuses: an option and its value, where it names one."""
    problems = getattr(error.__cause__, "errors", None)  # of pydantic
    if problems is None:
        text = error.format_message().rstrip(".")
        return text if text.endswith("?") else f"{text}."
    problem = problems()[0]
    expected = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    expected = expected.partition(", unable")[0].rstrip(".")
    return f"{error.param.opts[0]} {problem['input']}: {expected}."


@contextmanager
def _terminated_as_interrupted(terminated: list[int]) -> Iterator[None]:
    """Clean up after SIGTERM as after ctrl-C, and note the signal in the list."""

    def interrupt(number: int, frame: object) -> NoReturn:
        terminated.append(number)
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone hears of signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def examples(docstring: str | None, command: str = "") -> str:
    """Examples in a shell, from a docstring, for the end of a help text.

    Parameters
    ----------
    docstring : str or None
    command : str
        Only examples of this command, from a docstring about several.
    """
    lines = (docstring or "").partition("::\n\n")[2].rstrip().splitlines()
    chosen = [line for line in lines if f"manyone {command}" in line or not command]
    # "\b" keeps the lines of a paragraph as they are.
    text = "\n".join(chosen).replace("\n\n  ", "\n\n\b\n  ").replace("::\n", ":\n")
    return f"\b\nExamples:\n{text}"


def command_of(function: Callable[..., None], epilog: str = "") -> Any:
    """A function as a command, with the options that its parameters declare."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(epilog=epilog)(function)
    return typer.main.get_command(app)


@contextmanager
def needs(extras: str) -> Iterator[None]:
    """Say what to install if an import inside fails."""
    try:
        yield
    except ImportError as error:
        remedy = f". Install: pip install '.[{extras}]' in the checkout of manyone"
        raise InputError(
            f"{error}" + remedy * ("pip install" not in str(error))
        ) from error


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be written before anything is computed."""
    existing = next(
        path for path in (folder, *folder.absolute().parents) if path.exists()
    )
    if not existing.is_dir():
        raise InputError(f"{option} {folder}: {existing} is a file. Name a folder.")
    if not os.access(existing, os.W_OK):
        raise InputError(
            f"{option} {folder}: cannot write in {existing}. Name another folder."
        )


def print_table(table: Table) -> None:
    """Print a table of a page."""
    lines = [[row.name, *(cell.text for cell in row.cells)] for row in table.rows]
    print_lines(table.title, table.heads, lines)


def print_lines(
    title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]
) -> None:
    """Print texts as a small table; without heads if these are empty.

    Columns of numbers stand at the right.
    """
    from rich.console import Console
    from rich.table import Table as Lines
    from rich.text import Text

    table = Lines(
        title=Text(shown(title)), title_justify="left", show_header=any(heads)
    )
    for k, head in enumerate(heads):
        has_numbers = all(_NUMBER.fullmatch(str(line[k])) for line in lines)
        side: Literal["left", "right"] = "right" if has_numbers else "left"
        table.add_column(Text(shown(head)), overflow="fold", justify=side)
    for line in lines:
        table.add_row(*(Text(shown(str(text))) for text in line))
    Console().print(table)


@contextmanager
def progress(
    doing: str, things: str, delay: float | None = None
) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar on stderr, or in a log a line now and then.

    Parameters
    ----------
    doing, things : str
        The work, and its units, as "scoring" and "rows".
    delay : float or None
        Seconds before the bar appears; None: one second.

    Yields
    ------
    callable
        Takes the units done and their total, None if that is not known.
    """
    from rich import progress as parts
    from rich.console import Console

    console = Console(stderr=True)
    elapsed = ("elapsed", parts.TimeElapsedColumn())
    counted = (parts.MofNCompleteColumn(), f"{things}, left")
    has_total = (*counted, parts.TimeRemainingColumn(), *elapsed)
    no_total = ("{task.completed:,}", f"{things},", *elapsed)
    bar = parts.Progress(console=console)
    line = bar.add_task(doing, total=None)
    begin = time.monotonic()
    wait = _SHORT if delay is None else delay
    due = False
    next_log = _LOG_SECONDS

    def update(done: int, total: int | None) -> None:
        nonlocal due, next_log
        seconds = time.monotonic() - begin
        due = due or seconds >= wait
        numbers = no_total if total is None else has_total
        bar.columns = (doing, parts.BarColumn(), *numbers)
        bar.update(line, completed=done, total=total)
        if console.is_terminal:
            if due:
                bar.start()
        elif seconds >= next_log:
            next_log = seconds + _LOG_SECONDS
            of_all = "" if total is None else f" of {total:,}"
            _say(f"{doing}: {done:,}{of_all} {things}, {seconds:.0f} seconds")

    try:
        yield update
        if due:
            bar.start()  # without a terminal this prints the last state once
    except BaseException:
        bar.update(line, visible=False)  # only the line about the error is shown
        raise
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Show the progress of steps inside, as `manyone.progress` reports them."""
    with progress(doing, "steps") as update, listening(update, _say):
        yield
