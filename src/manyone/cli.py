"""The command ``manyone``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

try:
    import typer
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Table
except ImportError as error:
    raise SystemExit(
        f"manyone: {error}. The command line needs: pip install 'manyone[cli,plot]'"
    ) from error

if TYPE_CHECKING:
    from manyone.experiments.plan import Plan
    from manyone.experiments.reproduce import Report

app = typer.Typer(
    help="One-class classification for many related tasks with few normal samples each.",
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
)


class Data(StrEnum):
    """Choices of ``--data``."""

    mnist = "mnist"
    coil100 = "coil100"
    face = "face"
    all = "all"


class Kind(StrEnum):
    """Choices of ``--protocol``."""

    seen = "seen"
    unseen = "unseen"
    both = "both"


class InputError(Exception):
    """Something the user can mend; shown as one line."""


@app.callback(
    epilog="""\b
Examples:
  manyone reproduce --quick   the paper's experiments, a first look
  manyone reproduce --help    all of its options"""
)
def manyone() -> None:
    """One-class classification for many related tasks with few normal samples each."""


@app.command(
    epilog="""\b
Examples:
  manyone reproduce --quick                 a first look, under a minute
  manyone reproduce                         digits, 10 repetitions
  manyone reproduce --data all --workers 4  all data sets of the paper
  manyone reproduce --data coil100 --protocol unseen --data-home ~/data

Run the same command again after an interruption: finished cells are kept."""
)
def reproduce(
    data: Annotated[Data, typer.Option(help="Data set; only mnist comes with it.")] = Data.mnist,
    protocol: Annotated[Kind, typer.Option(help="Anomalies of known or new kinds.")] = Kind.both,
    repeats: Annotated[
        int | None, typer.Option(help="Random repetitions; default 10, with --quick 1.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes every split.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer methods and test rows.")] = False,
    data_home: Annotated[
        Path | None, typer.Option(help="Folder with data files; default $MANYONE_DATA.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes; default one per core.", min=1)
    ] = None,
) -> None:
    """Redo the paper's experiments: table, paired tests, figures and a page."""
    try:
        from joblib import cpu_count

        from manyone.experiments.plan import Plan
        from manyone.experiments.reproduce import reproduce as run_plan
    except ImportError as error:
        raise InputError(f"{error}. Install: pip install 'manyone[cli,plot]'") from error

    from manyone.experiments.data import DATASETS, load

    make = Plan.quick if quick else Plan
    plan = make(
        tuple(DATASETS) if data is Data.all else (data.value,),
        ("seen", "unseen") if protocol is Kind.both else (protocol.value,),
        repeats or (1 if quick else 10),
        seed,
    )
    _check_folder(out)
    if data_home is not None and not data_home.is_dir():
        raise InputError(f"--data-home {data_home} is not a folder. Name one that exists.")
    home = None if data_home is None else str(data_home)
    try:
        for name in plan.datasets:  # before anything is written, and before the bar is drawn
            load(name, home)
    except OSError as error:
        raise InputError(str(error)) from error
    command = ["manyone", "reproduce", "--data", data.value, "--protocol", protocol.value]
    command += ["--repeats", str(plan.repeats), "--seed", str(seed), "--out", str(out)]
    command += ["--quick"] if quick else []
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells, left"),
        TimeRemainingColumn(),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as bar:
        line = bar.add_task("reproducing", total=None)
        try:
            report = run_plan(
                plan,
                out,
                workers=workers or cpu_count(),
                data_home=home,
                command=shlex.join(command),
                progress=lambda done, total: bar.update(line, completed=done, total=total),
            )
        except OSError as error:  # a full disk, a folder that is gone
            raise InputError(str(error)) from error
    _show(plan, report)
    if report.left_out:
        typer.echo(
            f"Left out, not installed: {', '.join(report.left_out)}. "
            "Install: pip install 'manyone[experiments]'"
        )
    typer.echo(f"Page: {report.page}")
    if report.failures:
        first = report.failures[0]
        typer.echo(
            f"manyone: {len(report.failures)} cells failed, the first {first.cell.method}: "
            f"{first.error}",
            err=True,
        )
        raise typer.Exit(1)


def _check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written before anything is computed."""
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise InputError(f"--out {out}: {existing} is a file. Name a folder.")
    if not os.access(existing, os.W_OK):
        raise InputError(f"--out {out}: cannot write in {existing}. Name another folder.")


def _show(plan: Plan, report: Report) -> None:
    from manyone.experiments.data import DATASETS

    console = Console()
    for name in plan.datasets:
        mine = {(row.method, row.protocol): row for row in report.rows if row.dataset == name}
        table = Table(title=f"{DATASETS[name].title}: AUC (%), mean ± s.e.")
        table.add_column("method")
        for protocol in plan.protocols:
            table.add_column(protocol, justify="right", no_wrap=True)
            if protocol == "seen":
                table.add_column("paper", justify="right", no_wrap=True)
        for method in dict.fromkeys(method for method, _ in mine):
            cells = []
            for protocol in plan.protocols:
                row = mine.get((method, protocol))
                error = "" if row is None or row.error is None else f" ± {row.error:.2f}"
                cells.append("" if row is None else f"{row.mean:.2f}{error}")
                if protocol == "seen":
                    cells.append("" if row is None or row.paper is None else f"{row.paper:.2f}")
            table.add_row(method, *cells)
        console.print(table)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; mistakes of the user are one line on stderr and exit code 2.

    Parameters
    ----------
    args : sequence of str or None
        None: those of the process.

    Returns
    -------
    int
        Exit code.
    """
    try:
        code = app(
            args=None if args is None else list(args), prog_name="manyone", standalone_mode=False
        )
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("manyone: stopped. The same command goes on where this one was.", err=True)
        return 130
    except Exception as error:
        # What the option parser raises knows how to word itself; anything else is our own mistake.
        word = getattr(error, "format_message", None)
        if word is None and not isinstance(error, InputError):
            raise
        message = " ".join((word() if word else str(error)).split())
        typer.echo(f"manyone: {message}", err=True)
        return 2
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
