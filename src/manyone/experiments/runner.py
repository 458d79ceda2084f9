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
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import manyone
from manyone.estimators import METHODS, IndependentOCKSR
from manyone.experiments import data
from manyone.experiments.methods import Method, has_ridge, methods, own
from manyone.experiments.protocols import POSITIVE, Protocol, Split
from manyone.kernels import Array
from manyone.solvers.nonlinear import respond

#: First-layer ridges of the paper's last experiment.
RIDGES = tuple(f"alpha=1e-{k}" if k else "alpha=1" for k in range(7))
#: False-alarm rates that models are asked for.
ALARM_RATES = (0.05, 0.1, 0.2, 0.3)
#: Corruptions of training rows: title of each kind, and what its strength means (see `corrupt`).
CORRUPTION_KINDS: dict[str, tuple[str, str]] = {
    "labels": (
        "Rows of other tasks among the training rows",
        "share of training rows that belong to another task",
    ),
    "features": ("Noise on the training rows", "noise, relative to the spread of the rows"),
    "relations": (
        "Missing relations: tasks are learned in separate groups that do not know each other",
        "share of the tasks that a task is learned without",
    ),
}
_LEVELS = {"labels": (0.1, 0.2, 0.4), "features": (0.5, 1.0), "relations": (0.5, 0.8)}
#: Methods whose functions are regressions on the responses, for the sum of squared errors.
REGRESSIONS = ("OCKSR", "C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS")
# Methods that are spoilt: the paper's, and two more. (Output kernels do as C-OCKSR does.)
_SPOILT = (*REGRESSIONS, "SVDD", "MT-OCSVM", "KNFST")
# Learned from its own rows alone, it has no relations to lose; OCKSR stays as the line to compare.
_WITHOUT_RELATIONS = ("SVDD",)
# Repetitions of the studies, of which the alarm rates are one: they cost many fits per repetition.
_STUDY_REPEATS = 3
# What only presents results does not change them.
_PRESENTATION = {
    *("cli.py", "plots.py", "report.py", "page.py", "figures.py", "tables.py", "reproduce.py"),
    *("charts.py", "findings.py", "interactive.py", "png.py"),
}


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
    corruption : str
        What is done to the training rows, see `corrupt`; nothing if empty.
    """

    dataset: str
    protocol: str
    method: str
    family: str
    setting: str
    seed: int
    repetition: int
    shrink: int = 1
    corruption: str = ""

    @property
    def measures_alarms(self) -> bool:
        """Whether thresholds are set and tried."""
        return self.setting == "tuned" and self.repetition < _STUDY_REPEATS

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
    studied : tuple of str or None
        Families for the studies of the ridge and of corrupted rows; None is all that run.
    """

    datasets: tuple[str, ...] = ("mnist",)
    protocols: tuple[str, ...] = ("seen", "unseen")
    repeats: int = 10
    seed: int = 0
    shrink: int = 1
    only: tuple[str, ...] | None = None
    studied: tuple[str, ...] | None = None

    @classmethod
    def quick(
        cls, datasets: tuple[str, ...], protocols: tuple[str, ...], repeats: int, seed: int
    ) -> Plan:
        """A first look: methods that are fast or in the paper, few test rows."""
        slow = {"OCKSR-NS", "MORVR", "OKL", "SVDD", "MT-OCSVM", "KNFST"}
        slow |= {"OneClassSVM", "GroupedPredictor (scikit-lego)", "KPCA (PyOD)"}
        only = tuple(name for name in methods() if name not in slow)
        return cls(datasets, protocols, repeats, seed, 5, only, REGRESSIONS[:4])

    @property
    def study_repeats(self) -> int:
        """Repetitions of the studies, which have many more cells each than the table."""
        return max(1, min(self.repeats // 3, _STUDY_REPEATS))

    def cells(self) -> list[Cell]:
        """Cells of the table, then those of the studies of the ridge and of corrupted rows.

        They are ordered by repetition, so that the time left can be told early.
        """
        chosen = [m for m in methods().values() if self.only is None or m.name in self.only]
        families = dict.fromkeys(
            m.family
            for m in chosen
            if m.family in METHODS and (self.studied is None or m.family in self.studied)
        )
        table = [
            self._cell(dataset, protocol, method, r)
            for r in range(self.repeats)
            for dataset in self.datasets
            for protocol in self.protocols
            for method in chosen
        ]
        studies = [
            self._cell(dataset, self.protocols[0], own(family, setting), r, corruption)
            for r in range(self.study_repeats)
            for dataset in self.datasets
            for family in families
            for setting, corruption in (
                *((setting, "") for setting in RIDGES if has_ridge(family)),
                *((RIDGES[0], corruption) for corruption in ("", *corruptions(family))),
            )
        ]
        return list(dict.fromkeys(table + studies))

    def _cell(
        self, dataset: str, protocol: str, method: Method, repetition: int, corruption: str = ""
    ) -> Cell:
        return Cell(
            dataset,
            protocol,
            method.name,
            method.family,
            method.setting,
            self.seed,
            repetition,
            self.shrink,
            corruption,
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
        ``auc`` per task; what was ``chosen``; measured ``alarms`` of tuned models in the first
        repetitions; the sum of squared errors ``sse`` of regressions with a fixed ridge; for the
        first repetition the ``tasks`` and, where the model has them, the ``structure``, the
        ``objective`` path and, of tuned models, the ``second_kernel``; ``seconds``.
    """
    X, labels = data.load(cell.dataset, data_home)
    split = cell.sizes.split(X, labels, (cell.seed, cell.repetition))
    method = own(cell.family, cell.setting) if cell.family in METHODS else methods()[cell.method]
    parts = [(X[split.train], split.task)]
    if cell.corruption:
        rng = np.random.default_rng((cell.seed, cell.repetition, 1))
        parts = corrupt(*parts[0], cell.corruption, rng)
    start = time.process_time()  # of one thread: the same on a busy machine
    with threadpool_limits(1), warnings.catch_warnings():
        # Few rows per task make many estimators complain; the figures show what it comes to.
        warnings.simplefilter("ignore")
        scores = np.empty(split.member.shape)
        for rows, task in parts:
            model = method.fit(rows, task, cell.protocol, thresholds=cell.measures_alarms)
            scores[:, np.isin(split.tasks, model.tasks_)] = model.score_tasks(X[split.test])
        result: dict[str, Any] = {"auc": split.aucs(scores).tolist()}
        if cell.measures_alarms and hasattr(model, "recalibrate"):
            result["alarms"] = _measured_alarms(model, X, split)
    result["chosen"] = {
        name: value
        for name, value in model.get_params().items()
        if isinstance(value, str | int | float)
    }
    if cell.setting in RIDGES and cell.family in REGRESSIONS and not cell.corruption:
        result["sse"] = sum_of_squared_errors(model)
    if cell.repetition == 0:
        result["tasks"] = split.tasks.tolist()
        if hasattr(model, "structure_"):
            result["structure"] = np.asarray(model.structure_).round(6).tolist()
        if hasattr(model, "objective_path_"):
            result["objective"] = np.asarray(model.objective_path_, dtype=float).tolist()
        if cell.setting == "tuned" and hasattr(model, "second_kernel_"):
            result["second_kernel"] = model.second_kernel_.round(3).tolist()
    return result | {"seconds": time.process_time() - start}


def corruptions(family: str) -> list[str]:
    """What the training rows of a method are spoilt with, see `corrupt`; nothing for some."""
    return [
        f"{kind}={level}"
        for kind in CORRUPTION_KINDS
        for level in _LEVELS[kind]
        if family in _SPOILT and not (kind == "relations" and family in _WITHOUT_RELATIONS)
    ]


def corrupt(
    X: Array, task: NDArray[Any], corruption: str, rng: np.random.Generator
) -> list[tuple[Array, NDArray[Any]]]:
    """Spoil training rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    task : ndarray of shape (n,)
    corruption : str
        ``"labels=p"``: a share p of all rows, spread over the tasks, change places with rows of
        other tasks. ``"features=p"``: normal noise, p times as wide as the rows are about their
        mean. ``"relations=p"``: tasks fall into 1 / (1 - p) groups (rounded) at random, and each
        group is learned by itself: a share p of all pairs of tasks never meet in a model.
    rng : Generator

    Returns
    -------
    list of (ndarray of shape (m, d), ndarray of shape (m,))
        Rows and tasks to learn together; more than one entry where relations are missing.
    """
    kind, level = corruption.split("=")
    share = float(level)
    labels = np.unique(task)
    if kind == "features":
        spread = float(np.std(X - X.mean(axis=0)))
        return [(X + share * spread * rng.normal(size=X.shape), task)]
    if kind == "relations":
        groups = np.array_split(rng.permutation(labels), round(1.0 / (1.0 - share)))
        return [(X[mine], task[mine]) for mine in (np.isin(task, group) for group in groups)]
    # As even over the tasks as the share allows: a few rows per task cannot give a tenth each.
    sizes = np.array([np.sum(task == label) for label in labels])
    counts = np.floor(share * sizes + 1e-9).astype(int)
    more = round(share * len(task)) - counts.sum()
    lack = np.round(share * sizes - counts, 9)
    counts[np.lexsort((rng.random(len(labels)), -lack))[:more]] += 1
    moved = np.concatenate(
        [
            rng.permutation(np.flatnonzero(task == labels[t]))[: counts[t]]
            for t in rng.permutation(len(labels))
        ]
    )
    source = np.arange(len(X))
    # Handed on by as many places as one task has at most: none gets its own back.
    source[moved] = np.roll(moved, counts.max())
    return [(X[source], task)]


def sum_of_squared_errors(model: Any) -> float:
    """Squared distance of the fitted responses of a regression from those it was asked for.

    Parameters
    ----------
    model : fitted estimator
        One of `REGRESSIONS`, to which all rows were normal.

    Returns
    -------
    float
        Over the training rows and all tasks; for tasks that are learned alone, over the rows of
        each task.
    """
    asked = np.eye(len(model.tasks_))[model.codes_]
    if hasattr(model, "second_coef_"):
        errors = respond(model.responses_, model.centres_, model.second_coef_, model.theta_) - asked
    else:
        errors = model.kernel_(model.X_fit_, model.X_fit_) @ model.dual_coef_ - asked
    if isinstance(model, IndependentOCKSR):
        errors = errors[asked == 1.0]
    return float(np.vdot(errors, errors))


def _measured_alarms(model: Any, X: Array, split: Split) -> list[float]:
    """Share of the positive test rows that raise an alarm, for each of `ALARM_RATES`."""
    rows, codes = np.nonzero(split.member == POSITIVE)
    shares = []
    for rate in ALARM_RATES:
        model.recalibrate(rate)
        margins = model.decision_function(X[split.test[rows]], task=split.tasks[codes])
        shares.append(float(np.mean(margins < 0)))
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
    jobs = [(cell, _path(folder, cell), data_home, os.getpid()) for cell in cells]
    yield from parallel(joblib.delayed(_compute_and_store)(*job) for job in jobs)


def _compute_and_store(cell: Cell, path: Path, data_home: str | None, master: int) -> Outcome:
    _stop_without(master)
    try:
        result = compute(cell, data_home)
    except Exception as error:  # one method must not take the others' results with it
        return Outcome(cell, None, f"{type(error).__name__}: {error}")
    _stop_without(master)
    write_atomically(path, json.dumps({"cell": asdict(cell), "result": result}))
    return Outcome(cell, result)


def _stop_without(master: int) -> None:
    """End a worker whose run was killed: what is left belongs to the run that goes on."""
    if master not in (os.getpid(), os.getppid()):
        os._exit(1)


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
