"""Run cells in parallel, store each at once, and go on where a killed run stopped."""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

import manyone
from manyone.estimators import METHODS
from manyone.experiments import data
from manyone.experiments.methods import Method, has_ridge, methods, own
from manyone.experiments.protocols import POSITIVE, Protocol, Split
from manyone.kernels import Array

#: First-layer ridges of the paper's last experiment.
RIDGES = tuple(f"alpha=1e-{k}" if k else "alpha=1" for k in range(7))
#: False-alarm rates that models are asked for.
ALARM_RATES = (0.05, 0.1, 0.2, 0.3)
_RIDGE_REPEATS = 3
# What only presents results does not change them.
_PRESENTATION = {"cli.py", "plots.py", "report.py", "page.py", "figures.py", "tables.py"}


@dataclass(frozen=True)
class Cell:
    """One fit: what it is and nothing of how it is run.

    Attributes
    ----------
    dataset, protocol : str
        Keys of `data.DATASETS` and of its protocols.
    method, family, setting : str
        See `Method`.
    seed, repetition : int
    shrink : int
        Divides the numbers of test rows.
    """

    dataset: str
    protocol: str
    method: str
    family: str
    setting: str
    seed: int
    repetition: int
    shrink: int = 1

    @property
    def sizes(self) -> Protocol:
        """Protocol with its numbers."""
        return data.DATASETS[self.dataset].protocols[self.protocol].smaller(self.shrink)

    @property
    def key(self) -> str:
        """Name of its file: a hash of the declaration, the protocol's numbers and the code."""
        full = asdict(self) | {"sizes": asdict(self.sizes), "code": code_version()}
        return hashlib.sha256(json.dumps(full, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Plan:
    """All cells of a run.

    Parameters
    ----------
    datasets, protocols : tuple of str
    repeats, seed : int
    shrink : int
        Divides the numbers of test rows.
    only : tuple of str or None
        Names of the methods to run; None is all.
    """

    datasets: tuple[str, ...] = ("mnist",)
    protocols: tuple[str, ...] = ("seen", "unseen")
    repeats: int = 10
    seed: int = 0
    shrink: int = 1
    only: tuple[str, ...] | None = None

    def cells(self) -> list[Cell]:
        """Cells of the table, then those of the ridge figure.

        They are ordered by repetition, so that the time left can be told early.
        """
        chosen = [m for m in methods().values() if self.only is None or m.name in self.only]
        families = dict.fromkeys(m.family for m in chosen if m.family in METHODS)
        table = [
            self._cell(dataset, protocol, method, r)
            for r in range(self.repeats)
            for dataset in self.datasets
            for protocol in self.protocols
            for method in chosen
        ]
        ridges = [
            self._cell(dataset, self.protocols[0], own(family, setting), r)
            for r in range(min(self.repeats, _RIDGE_REPEATS))
            for dataset in self.datasets
            for family in families
            if has_ridge(family)
            for setting in RIDGES
        ]
        return list(dict.fromkeys(table + ridges))

    def _cell(self, dataset: str, protocol: str, method: Method, repetition: int) -> Cell:
        return Cell(
            dataset,
            protocol,
            method.name,
            method.family,
            method.setting,
            self.seed,
            repetition,
            self.shrink,
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: its result, or why there is none."""

    cell: Cell
    result: dict[str, Any] | None
    error: str = ""


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
    outcomes = {cell: Outcome(cell, result) for cell in cells if (result := _stored(folder, cell))}
    progress(len(outcomes), len(cells))
    missing = [cell for cell in cells if cell not in outcomes]
    for outcome in _compute_all(missing, folder, workers, data_home):
        outcomes[outcome.cell] = outcome
        progress(len(outcomes), len(cells))
    for part in folder.glob("*.part"):  # of runs that were killed while they wrote
        part.unlink(missing_ok=True)
    return [outcomes[cell] for cell in cells]


def compute(cell: Cell, data_home: str | None = None) -> dict[str, Any]:
    """Result of one cell.

    Parameters
    ----------
    cell : Cell
    data_home : str or None

    Returns
    -------
    dict
        ``auc`` per task; what was chosen; measured ``alarms``, and for the first repetition the
        ``structure`` and the ``objective`` path, where the model has them; ``seconds``.
    """
    X, labels = data.load(cell.dataset, data_home)
    split = cell.sizes.split(X, labels, (cell.seed, cell.repetition))
    method = own(cell.family, cell.setting) if cell.family in METHODS else methods()[cell.method]
    start = time.perf_counter()
    with threadpool_limits(1), warnings.catch_warnings():
        # Few rows per task make many estimators complain; the figures show what it comes to.
        warnings.simplefilter("ignore")
        model = method.fit(X[split.train], split.task, cell.protocol)
        scores = model.score_tasks(X[split.test])
        result: dict[str, Any] = {"auc": split.aucs(scores).tolist()}
        if cell.setting == "tuned" and hasattr(model, "recalibrate"):
            result["alarms"] = _measured_alarms(model, X, split)
    result["chosen"] = {
        name: value
        for name, value in model.get_params().items()
        if isinstance(value, str | int | float)
    }
    if cell.repetition == 0:
        result["tasks"] = split.tasks.tolist()
        if hasattr(model, "structure_"):
            result["structure"] = np.asarray(model.structure_).round(6).tolist()
        if hasattr(model, "objective_path_"):
            result["objective"] = np.asarray(model.objective_path_, dtype=float).tolist()
    return result | {"seconds": time.perf_counter() - start}


def _measured_alarms(model: Any, X: Array, split: Split) -> list[float]:
    """Share of the positive test rows that raise an alarm, for each of `ALARM_RATES`."""
    rows, codes = np.nonzero(split.member == POSITIVE)
    shares = []
    for rate in ALARM_RATES:
        model.recalibrate(rate)
        own_scores = model.score_tasks(X[split.test[rows]])[np.arange(len(rows)), codes]
        shares.append(float(np.mean(own_scores < model.offset_[codes])))
    return shares


def _compute_all(
    cells: list[Cell], folder: Path, workers: int, data_home: str | None
) -> Iterator[Outcome]:
    if not cells:
        return
    parallel = joblib.Parallel(
        n_jobs=min(workers, len(cells)), return_as="generator_unordered", batch_size=1
    )
    # Names are settled here: a worker may start when the code on disk is no longer the same.
    jobs = [(cell, _path(folder, cell), data_home) for cell in cells]
    yield from parallel(joblib.delayed(_compute_and_store)(*job) for job in jobs)


def _compute_and_store(cell: Cell, path: Path, data_home: str | None) -> Outcome:
    try:
        result = compute(cell, data_home)
    except Exception as error:  # one method must not take the others' results with it
        return Outcome(cell, None, f"{type(error).__name__}: {error}")
    write_atomically(path, json.dumps({"cell": asdict(cell), "result": result}))
    return Outcome(cell, result)


def _path(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.key}.json"


def _stored(folder: Path, cell: Cell) -> dict[str, Any] | None:
    try:
        content = json.loads(_path(folder, cell).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content["result"] if content.get("cell") == asdict(cell) else None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside, then rename: whoever looks sees all of it or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.replace(part, path)


@lru_cache
def code_version() -> str:
    """Version of the package and a hash of the code that results depend on."""
    root = Path(manyone.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.name not in _PRESENTATION:
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"{manyone.__version__}+{digest.hexdigest()[:12]}"
