"""``manyone bench``: side by side with rivals, as ratios in one run.

In a shell::

  manyone bench --quick      a first look, a minute or two
  manyone bench --out DIR    all cases, some minutes; bench.csv, bench.md and plots
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyone.cli.common import check_folder, examples, needs, progress


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(epilog=examples(__doc__))(bench)


def bench(
    out: Annotated[
        Path, typer.Option(help="Folder for bench.csv, bench.md and plots.")
    ] = Path("bench"),
    quick: Annotated[bool, typer.Option("--quick", help="Small cases only.")] = False,
) -> None:
    """Measure speed, accuracy and memory beside rivals.

    And beside the bare arithmetic. Everybody runs in one process on the same data with the same
    BLAS threads, in turns.
    """
    check_folder("--out", out)
    with needs("plot"):
        import matplotlib  # noqa: F401 - better to know now than at the last step
    from manyone.bench import CASES, QUICK, measure
    from manyone.bench.write import as_markdown, write_all

    with progress("Measuring", "cases", delay=0.0) as tell:
        found = measure(QUICK if quick else CASES, 3, tell)
    write_all(found, out)
    typer.echo(as_markdown(found))
    typer.echo(f"Written: {out / 'bench.csv'}, bench.md, plots.")
