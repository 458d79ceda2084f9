"""``manyone reproduce``: the paper's experiments, and entities gone wrong.

In a shell::

  manyone reproduce --quick                 a first look, under a minute
  manyone reproduce                         digits, 10 repetitions
  manyone reproduce --data all --workers 4  all data sets of the paper
  manyone reproduce --data coil100 --protocol unseen --data-home ~/data
  manyone reproduce --data all-faults       entities gone wrong: five data sets
  manyone reproduce --protocol time         the same machines in the course of time

Run the same command again after an interruption: finished cells are kept.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer
from joblib import cpu_count

from manyone.cli.common import (
    InputError,
    check_folder,
    print_table,
    progress,
)
from manyone.experiments.data import names
from manyone.experiments.page import auc_table
from manyone.experiments.plan import Plan
from manyone.experiments.reproduce import reproduce as run_plan

Strangers = Literal["mnist", "coil100", "face", "all"]
Faults = Literal[
    "servers", "spacecraft", "turbofan", "products", "valves", "all-faults"
]
Data = Literal[Strangers, Faults]
Kinds = Literal["seen", "unseen", "both", "faults", "time"]


def reproduce(
    data: Annotated[
        Data | None,
        typer.Option(help="Data set; default mnist, the only one that comes with it."),
    ] = None,
    protocol: Annotated[
        Kinds | None,
        typer.Option(
            help="Anomalies: other classes, known or new; faults; faults in time."
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(help="Random repetitions; default 10, with --quick 1.", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes every split.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "results"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer methods and test rows.")
    ] = False,
    data_home: Annotated[
        Path | None, typer.Option(help="Folder with data files; default $MANYONE_DATA.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes; default one per core.", min=1)
    ] = None,
) -> None:
    """Redo the paper's experiments, or compare on faults.

    Writes a table, tests, figures and a page.
    """
    data, datasets, protocol, protocols = _what_to_run(data, protocol)
    repeats = repeats or (1 if quick else 10)
    plan = Plan(datasets, protocols, repeats, seed, quick)
    check_folder("--out", out)
    if data_home is not None and not data_home.is_dir():
        raise InputError(
            f"--data-home {data_home} is not a folder. Name one that exists."
        )
    command = (
        f"manyone reproduce --data {data} --protocol {protocol} --repeats {repeats}"
    )
    command += f" --seed {seed} --out {shlex.quote(str(out))}"
    command += " --quick" if quick else ""
    with progress("reproducing", "cells", delay=0.0) as update:
        results = run_plan(
            plan,
            out,
            workers=workers or cpu_count(),
            data_home=str(data_home) if data_home else None,
            command=command,
            progress=update,
        )
    for name in results.datasets:
        print_table(auc_table(name, results))
    if plan.missing:
        missing = ", ".join(plan.missing)
        remedy = "pip install '.[experiments]' in its checkout"
        typer.echo(f"Left out, not installed: {missing}. Install: {remedy}")
    typer.echo(f"Page: {out / 'report.html'}")
    if results.failed:
        raise typer.Exit(1)


def _what_to_run(
    data: Data | None, protocol: Kinds | None
) -> tuple[Data, tuple[str, ...], Kinds, tuple[str, ...]]:
    """Data, its sets, protocol and its kinds of anomaly, from two options."""
    if data is None:
        data = "all-faults" if protocol in ("faults", "time") else "mnist"
    faults = names("time" if protocol == "time" else "faults")
    everything = {"all": names("seen"), "all-faults": faults}
    datasets = everything.get(data, (data,))
    if protocol is None:
        protocol = "faults" if datasets[0] in names("faults") else "both"
    kinds = ("seen", "unseen") if protocol == "both" else (protocol,)
    if any(name not in names(kind) for name in datasets for kind in kinds):
        fitting = (
            *names(kinds[0]),
            "all" if kinds[0] in ("seen", "unseen") else "all-faults",
        )
        raise InputError(
            f"--protocol {protocol} does not go with --data {data}. "
            f"It goes with: {', '.join(fitting)}."
        )
    return data, datasets, protocol, kinds
