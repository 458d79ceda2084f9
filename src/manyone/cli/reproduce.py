"""``manyone reproduce``: the paper's experiments.

In a shell::

  manyone reproduce --quick                 a first look, under a minute
  manyone reproduce                         digits, 10 repetitions
  manyone reproduce --data all --workers 4  all data sets of the paper
  manyone reproduce --data coil100 --protocol unseen --data-home ~/data

Run the same command again after an interruption: finished cells are kept.
"""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from manyone.cli.common import InputError, check_folder, examples, needs, print_table, progress

Data = Literal["mnist", "coil100", "face", "all"]
Kinds = Literal["seen", "unseen", "both"]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(epilog=examples(__doc__))(reproduce)


def reproduce(
    data: Annotated[Data, typer.Option(help="Data set; only mnist comes with it.")] = "mnist",
    protocol: Annotated[Kinds, typer.Option(help="Anomalies of known or new kinds.")] = "both",
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
    with needs("cli,plot,report"):
        from joblib import cpu_count

        from manyone.experiments.data import DATASETS
        from manyone.experiments.page import auc_table
        from manyone.experiments.plan import Plan
        from manyone.experiments.reproduce import reproduce as run_plan

    datasets = tuple(DATASETS) if data == "all" else (data,)
    protocols = ("seen", "unseen") if protocol == "both" else (protocol,)
    repeats = repeats or (1 if quick else 10)
    plan = (Plan.quick if quick else Plan)(datasets, protocols, repeats, seed)
    check_folder("--out", out)
    if data_home is not None and not data_home.is_dir():
        raise InputError(f"--data-home {data_home} is not a folder. Name one that exists.")
    command = f"manyone reproduce --data {data} --protocol {protocol} --repeats {repeats}"
    command += f" --seed {seed} --out {shlex.quote(str(out))}{' --quick' * quick}"
    with progress("reproducing", "cells") as update:
        processes, home = workers or cpu_count(), str(data_home) if data_home else None
        run = partial(run_plan, workers=processes, data_home=home, command=command)
        results = run(plan, out, progress=update)
    for name in results.datasets:
        print_table(auc_table(name, results), leave_out=("p", "difference"))
    if plan.missing:
        names, remedy = ", ".join(plan.missing), "pip install '.[experiments]' in its checkout"
        typer.echo(f"Left out, not installed: {names}. Install: {remedy}")
    typer.echo(f"Page: {out / 'report.html'}")
    failed = [f"{o.cell.method}: {o.error}" for o in results.outcomes if o.error]
    if failed:
        typer.echo(f"manyone: {len(failed)} cells failed, the first {failed[0]}", err=True)
        raise typer.Exit(1)
