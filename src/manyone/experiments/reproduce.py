"""From a plan to a folder: cells, table, paired tests, figures, page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from manyone.experiments import data
from manyone.experiments.figures import draw
from manyone.experiments.methods import left_out
from manyone.experiments.page import render
from manyone.experiments.plan import Plan
from manyone.experiments.runner import Outcome, run, write_atomically
from manyone.experiments.tables import Row, compare, pairs_csv, summarise, table_csv


@dataclass(frozen=True)
class Report:
    """What `reproduce` wrote.

    Attributes
    ----------
    page : Path
    rows : list of Row
        The table.
    failures : list of Outcome
        Cells that failed.
    left_out : list of str
        Rivals whose package is not installed.
    """

    page: Path
    rows: list[Row]
    failures: list[Outcome]
    left_out: list[str]


def reproduce(
    plan: Plan,
    out: Path,
    *,
    workers: int = 1,
    data_home: str | None = None,
    command: str = "manyone reproduce",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Run a plan and write ``table.csv``, ``pairs.csv``, ``figures/*.png`` and ``report.html``.

    Parameters
    ----------
    plan : Plan
    out : Path
        Folder; made if it is not there. What it holds of the same plan is used again.
    workers : int
        Processes.
    data_home : str or None
        Data folder.
    command : str
        Shown on the page.
    progress : callable
        See `run`.

    Returns
    -------
    Report

    Raises
    ------
    FileNotFoundError
        If a data set is missing; nothing has been written then.
    """
    for name in plan.datasets:
        data.load(name, data_home)
    outcomes = run(plan, out, workers=workers, data_home=data_home, progress=progress)
    rows = summarise(outcomes)
    pairs = compare(rows)
    pictures = draw(outcomes, rows)
    (out / "figures").mkdir(exist_ok=True)
    for picture in pictures:
        write_atomically(out / "figures" / f"{picture.name}.png", picture.png)
    missing = left_out() if plan.only is None else []
    page = render(plan, outcomes, rows, pairs, pictures, command, missing)
    write_atomically(out / "report.html", page)
    write_atomically(out / "pairs.csv", pairs_csv(pairs))
    # Last: where there is a table, all the rest is there too.
    write_atomically(out / "table.csv", table_csv(rows))
    return Report(out / "report.html", rows, [o for o in outcomes if o.error], missing)
