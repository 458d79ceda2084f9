"""Run cells in parallel, store each at once, and resume a run that was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import joblib
import numpy as np

from manyone.experiments.cells import CellResult, compute
from manyone.experiments.plan import Cell, Plan
from manyone.files import write_atomically


@dataclass(frozen=True)
class Outcome:
    """The result of a cell, or an empty one and the error."""

    cell: Cell
    result: CellResult
    error: str = ""

    @property
    def auc(self) -> float:
        """Mean AUC over the tasks, in percent."""
        return 100 * float(np.nanmean(self.result["auc"]))


def run(
    plan: Plan,
    out: Path,
    *,
    workers: int = 1,
    data_home: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Outcome]:
    """Compute the cells that are not stored yet.

    Parameters
    ----------
    plan : Plan
    out : Path
        Finished cells are kept in ``out/cells``.
    workers : int
        Processes; each uses one BLAS thread. Results do not depend on it.
    data_home : str or None
        Data folder.
    progress : callable
        Called with the numbers of finished cells and of all cells.

    Returns
    -------
    list of Outcome
        In the order of ``plan.cells()``.
    """
    folder = out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    cells = plan.cells()
    # Keys hold a hash of the code, which may change before a worker starts.
    paths = {cell: folder / f"{cell.key}.json" for cell in cells}
    outcomes = {}
    for cell, path in paths.items():
        result = _stored(path, cell)
        if result is not None:
            outcomes[cell] = Outcome(cell, result)
    progress(len(outcomes), len(cells))
    job = joblib.delayed(_compute_and_store)
    left = [cell for cell in cells if cell not in outcomes]
    jobs = [job(cell, paths[cell], data_home, os.getpid()) for cell in left]
    workers = max(1, min(workers, len(jobs)))
    parallel = joblib.Parallel(workers, return_as="generator_unordered", batch_size=1)
    for outcome in parallel(jobs):
        outcomes[outcome.cell] = outcome
        progress(len(outcomes), len(cells))
    return [outcomes[cell] for cell in cells]


def _compute_and_store(
    cell: Cell, path: Path, data_home: str | None, master: int
) -> Outcome:
    _stop_without(master)
    try:
        result = compute(cell, data_home)
    except Exception as error:  # a method that fails must not stop the others
        return Outcome(cell, {}, f"{type(error).__name__}: {error}")
    _stop_without(master)
    text = json.dumps({"cell": asdict(cell), "result": result})
    write_atomically(path, text.encode())
    return Outcome(cell, result)


def _stop_without(master: int) -> None:
    """End a worker whose run was killed; the next run computes its cells."""
    if master not in (os.getpid(), os.getppid()):
        os._exit(1)


def _stored(path: Path, cell: Cell) -> CellResult | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content["result"] if content.get("cell") == asdict(cell) else None
