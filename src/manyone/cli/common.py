"""What all commands share: mistakes as one line, checks of files, progress bars."""

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
# Exit codes of what ctrl-C ended, and of what was asked to end, as shells have them.
_STOPPED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM
# Commands that keep what they have done so far.
_KEEPING = ("watch", "run", "reproduce")
_SHORT = 1.0  # seconds of work that need no progress bar
_LOG_SECONDS = 10.0  # between lines where there is no terminal
_NUMBER = re.compile(r"-?[\d.,]*( ± [\d.]+)?")  # or nothing


class InputError(Exception):
    """Something the user can mend; shown as one line."""


def run(app: typer.Typer, args: Sequence[str] | None) -> int:
    """Run a command; what goes wrong is one line on stderr.

    Warnings are notes, a line each, where all went well.

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
        # Names that its encoding cannot write end no command, as on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            _terminated_as_interrupted(terminated),
        ):
            warnings.simplefilter("default")
            code = app(args=args, prog_name="manyone", standalone_mode=False) or 0
        if code == _STOPPED:
            raise KeyboardInterrupt  # the option parser has turned it into a code
        for note in dict.fromkeys(str(warning.message) for warning in caught):
            _say(f"note: {note}")
        return code
    except (KeyboardInterrupt, typer.Abort):
        code = _TERMINATED if terminated else _STOPPED
        text = _what_stopping_left(sys.argv[1:] if args is None else args)
    except BrokenPipeError:  # whoever read our output has seen enough
        # Or the interpreter complains at its end.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except Exception as error:
        code = 2
        text = _what_to_mend(error)
        if not text:
            if os.environ.get("MANYONE_DEBUG"):
                raise
            code = 1
            text = f"unexpected {type(error).__name__}: {error}. This is a mistake in "
            text += "manyone; MANYONE_DEBUG=1 shows where."
    _say(text)
    return code


def _what_stopping_left(args: Sequence[str]) -> str:
    """What is said of a command that was stopped."""
    command = next((word for word in args if not word.startswith("-")), "")
    if command == "serve":
        return "stopped."
    if command in _KEEPING:
        return "stopped. Run the same command again to go on."
    return "stopped. Nothing unfinished was saved: run the command from the start."


def shown(text: str) -> str:
    r"""A text in one line that a terminal shows and does not obey.

    Names come from tables and files. What would move the cursor, change colours or turn
    the direction of writing is shown as Python writes it, ``\x1b`` for example.
    """
    line = " ".join(text.split())
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape").decode()
        for character in line
    )


def echo(text: str, *, err: bool = False) -> None:
    """Print a line that may hold names of others."""
    typer.echo(shown(text), err=err)


def _say(text: str) -> None:
    echo(f"manyone: {text}", err=True)


def _what_to_mend(error: Exception) -> str:
    """What the user is told of an error that is not ours; empty if it is."""
    if hasattr(error, "format_message"):  # of the option parser
        context = getattr(error, "ctx", None)
        more = f" See {context.command_path} --help." if context is not None else ""
        return f"{refused_option(error)}{more}"
    # Of Python and of polars, which has errors of its own.
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
    """Let a request to end clean up as ctrl-C does; it is noted in the list."""

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
    """What a docstring says of the use in a shell, for the end of a help text.

    Parameters
    ----------
    docstring : str or None
    command : str
        Of a docstring about several commands, the one to speak of.
    """
    lines = (docstring or "").partition("::\n\n")[2].rstrip().splitlines()
    chosen = [line for line in lines if f"manyone {command}" in line or not command]
    # Paragraphs that are written line by line stay so.
    text = "\n".join(chosen).replace("\n\n  ", "\n\n\b\n  ").replace("::\n", ":\n")
    return f"\b\nExamples:\n{text}"


def command_of(function: Callable[..., None], epilog: str = "") -> Any:
    """A function as a command, with the options that its parameters declare."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(epilog=epilog)(function)
    return typer.main.get_command(app)


@contextmanager
def needs(extras: str) -> Iterator[None]:
    """Tell what to install where an import inside fails."""
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
    """A bar on stderr, drawn from the first call on; in a log, a line now and then.

    Parameters
    ----------
    doing, things : str
        What is done, and with what.
    delay : float or None
        Seconds before which it is not drawn; None: so many as need no bar.

    Yields
    ------
    callable
        Takes how many are done, and of how many, None where nobody knows.
    """
    from rich import progress as parts
    from rich.console import Console

    console = Console(stderr=True)
    bar = parts.Progress(
        *(doing, parts.BarColumn(), parts.MofNCompleteColumn(), f"{things}, left"),
        *(parts.TimeRemainingColumn(), "elapsed", parts.TimeElapsedColumn()),
        console=console,
    )
    line = bar.add_task(doing, total=None)
    begin = time.monotonic()
    wait = _SHORT if delay is None else delay
    due = False
    next_log = _LOG_SECONDS

    def update(done: int, total: int | None) -> None:
        nonlocal due, next_log
        seconds = time.monotonic() - begin
        due = due or seconds >= wait
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
            bar.start()  # elsewhere, as in a log, how it ended is enough
    except BaseException:
        bar.update(line, visible=False)  # what is said next is all there is to say
        raise
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def working(doing: str) -> Iterator[None]:
    """A bar on stderr for the steps told of inside, if they take over a second."""
    with progress(doing, "steps") as update, listening(update, _say):
        yield
