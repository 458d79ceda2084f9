"""What is run: every cell of data set, protocol, method, setting and repetition, declared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import manyone
from manyone.estimators import METHODS
from manyone.experiments import data
from manyone.experiments import fault_methods as faults
from manyone.experiments.corruption import corruptions
from manyone.experiments.methods import has_ridge, left_out, methods, own

#: First-layer ridges of the paper's last experiment.
RIDGES = tuple(f"alpha=1e-{k}" if k else "alpha=1" for k in range(7))
# Repetitions of the studies, of which the alarm rates are one: they cost many fits per repetition.
_STUDY_REPEATS = 3
# What only presents results, by its path in the package: all the rest may change them.
_PRESENTATION = (
    *("cli", "plots", "report", "experiments/templates", "experiments/page.py"),
    *("experiments/figures.py", "experiments/figures.toml", "experiments/findings.py"),
    *("experiments/reproduce.py", "experiments/tables.py"),
)


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
        return self.setting in ("tuned", faults.DEFAULT) and self.repetition < _STUDY_REPEATS

    @property
    def sizes(self) -> Any:
        """Protocol or FaultProtocol, with its numbers."""
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
        table = faults.fault_methods() if "faults" in protocols else methods()
        only = tuple(dict.fromkeys(m.name for m in table.values() if m.quick))
        studied = (name for name, kind in METHODS.items() if kind.can.quick and kind.can.regression)
        return cls(datasets, protocols, repeats, seed, 5, only, tuple(studied))

    @property
    def missing(self) -> list[str]:
        """Names of the rivals that it would have, were their packages installed."""
        if self.only is not None:
            return []
        return faults.left_out() if "faults" in self.protocols else left_out()

    @property
    def study_repeats(self) -> int:
        """Repetitions of the studies, which have many more cells each than the table."""
        return max(1, min(self.repeats // 3, _STUDY_REPEATS))

    def cells(self) -> list[Cell]:
        """Cells of the table, then those of the studies of the ridge and of corrupted rows.

        They are ordered by repetition, so that the time left can be told early. Faults have no such
        studies.
        """
        if "faults" in self.protocols:
            return self._cells_of_faults()
        chosen = [m for m in methods().values() if self.only is None or m.name in self.only]
        families = {m.family for m in chosen if self.studied is None or m.family in self.studied}
        table, study = [(method, "") for method in chosen], []
        for family in (family for family in METHODS if family in families):
            ridges = RIDGES if has_ridge(family) else RIDGES[:1]
            study += [(own(family, setting), "") for setting in ridges]
            study += [(own(family, RIDGES[0]), corruption) for corruption in corruptions(family)]
        parts = [
            *product(range(self.repeats), self.datasets, self.protocols, table),
            *product(range(self.study_repeats), self.datasets, self.protocols[:1], study),
        ]
        cells = [
            Cell(data, kind, m.name, m.family, m.setting, self.seed, r, self.shrink, corruption)
            for r, data, kind, (m, corruption) in parts
        ]
        return list(dict.fromkeys(cells))

    def _cells_of_faults(self) -> list[Cell]:
        found = faults.fault_methods().values()
        table = [m for m in found if self.only is None or m.name in self.only]
        return [
            Cell(name, "faults", m.name, m.family, m.setting, self.seed, r, self.shrink)
            for r, name, m in product(range(self.repeats), self.datasets, table)
        ]


@lru_cache
def code_version() -> str:
    """Version of the package and a hash of all its files that results depend on."""
    return f"{manyone.__version__}+{fingerprint(Path(manyone.__file__).parent)}"


def fingerprint(root: Path) -> str:
    """Hash of the names and contents of all files of the package but those for presentation."""
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        shown = any(f"{name}/".startswith(f"{part}/") for part in _PRESENTATION)
        if "__pycache__" not in path.parts and not shown:
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
