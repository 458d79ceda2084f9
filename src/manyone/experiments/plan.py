"""What is run: every cell of data set, protocol, method, setting and repetition, declared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import manyone
from manyone.estimators import METHODS
from manyone.experiments import data
from manyone.experiments.corruption import corruptions
from manyone.experiments.methods import REGRESSIONS, Method, has_ridge, methods, own
from manyone.experiments.protocols import Protocol

#: First-layer ridges of the paper's last experiment.
RIDGES = tuple(f"alpha=1e-{k}" if k else "alpha=1" for k in range(7))
# Repetitions of the studies, of which the alarm rates are one: they cost many fits per repetition.
_STUDY_REPEATS = 3
# What only presents results does not change them.
_PRESENTATION = {
    *("cli.py", "page.py", "figures.py", "tables.py", "reproduce.py"),
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


@lru_cache
def code_version() -> str:
    """Version of the package and a hash of the code that results depend on."""
    root = Path(manyone.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.name not in _PRESENTATION and path.parent.name != "plots":
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"{manyone.__version__}+{digest.hexdigest()[:12]}"
