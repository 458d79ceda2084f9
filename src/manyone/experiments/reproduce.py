"""From a plan to a folder: cells, table, figures, page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from manyone.experiments import data
from manyone.experiments.figures import drawings
from manyone.experiments.page import page
from manyone.experiments.plan import Plan
from manyone.experiments.results import Results, grouped, table_csv
from manyone.experiments.runner import run
from manyone.files import write_atomically
from manyone.messages import plural, warn_user


def reproduce(
    plan: Plan,
    out: Path,
    *,
    workers: int = 1,
    data_home: str | None = None,
    command: str = "manyone reproduce",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Results:
    """Run a plan and write ``table.csv``, ``figures/*.png`` and ``report.html``.

    Parameters
    ----------
    plan : Plan
    out : Path
        Folder, made if missing. Stored cells of the same plan are used again.
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
    Results

    Raises
    ------
    FileNotFoundError
        If a data set is missing; nothing has been written then.

    Warns
    -----
    UserWarning
        For each method that failed, with its first error. The table has the others.
    """
    for name in plan.datasets:
        data.load(name, data_home)
    outcomes = run(plan, out, workers=workers, data_home=data_home, progress=progress)
    results = Results(outcomes)
    figures = [(drawing, drawing.png()) for drawing in drawings(results)]
    (out / "figures").mkdir(exist_ok=True)
    files = {f"figures/{drawing.name}.png": png for drawing, png in figures}
    files["report.html"] = page(plan, results, figures, command).encode()
    # Last, so that a folder with a table has everything.
    files["table.csv"] = table_csv(results).encode()
    for name, content in files.items():
        write_atomically(out / name, content)
    for method, failed in grouped(results.failed, lambda o: o.cell.method).items():
        warn_user(
            f"{method} failed in {plural(len(failed), 'cell')}: {failed[0].error}",
            UserWarning,
        )
    return results
