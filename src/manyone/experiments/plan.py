"""Plan of a run: cells of data set, protocol, method, setting and repetition."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import manyone
from manyone.estimators import METHODS
from manyone.experiments import data
from manyone.experiments.methods import (
    DEFAULT,
    Method,
    compared,
    has_ridge,
    package_method,
    rivals_of,
)
from manyone.experiments.protocols import AnyProtocol
from manyone.messages import shortlist

#: First-layer ridges of the paper's last experiment.
RIDGES = tuple(f"alpha=1e-{k}" if k else "alpha=1" for k in range(7))
# Repetitions of the study of the ridge and of alarm rates, which take many fits each.
_STUDY_REPEATS = 3
# Paths in the package that only present results. All other files may change results.
_PRESENTATION = (
    "cli",
    "plots",
    "page",
    "experiments/figures.py",
    "experiments/page.py",
    "experiments/reproduce.py",
    "experiments/results.py",
    "experiments/templates",
)


@dataclass(frozen=True)
class Cell:
    """One fit: everything that its result depends on.

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
    def measures_alarms(self) -> bool:
        """Whether thresholds are set and their rates measured."""
        return self.setting in ("tuned", DEFAULT) and self.repetition < _STUDY_REPEATS

    @property
    def sizes(self) -> AnyProtocol:
        """Its protocol, which has the numbers of rows."""
        return data.DATASETS[self.dataset].protocols[self.protocol].smaller(self.shrink)

    @property
    def key(self) -> str:
        """Name of its file: a hash of declaration, protocol and code."""
        full = asdict(self) | {"sizes": asdict(self.sizes), "code": code_version()}
        text = json.dumps(full, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Plan:
    """All cells of a run.

    Parameters
    ----------
    datasets, protocols : tuple of str
    repeats, seed : int
    quick : bool
        Only methods that are fast or in the paper, with a fifth of the test rows.
    only : tuple of str or None
        Names of methods to run. None: all methods, and the study of the ridge.

    Raises
    ------
    ValueError
        If no method or rival has a name in `only`.
    """

    datasets: tuple[str, ...] = ("mnist",)
    protocols: tuple[str, ...] = ("seen", "unseen")
    repeats: int = 10
    seed: int = 0
    quick: bool = False
    only: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        method_names = [method.name for method in compared(self.protocols[0])]
        method_names += rivals_of(self.protocols[0])
        for name in self.only or ():
            if name not in method_names:
                names = shortlist(method_names, len(method_names))
                raise ValueError(
                    f"only: there is no method {name!r}. Give a method of your own a "
                    f"name in METHODS first. The methods are {names}."
                )

    @property
    def shrink(self) -> int:
        """Divides the numbers of test rows."""
        return 5 if self.quick else 1

    @property
    def missing(self) -> list[str]:
        """Names of the rivals whose packages are not installed."""
        rivals = rivals_of(self.protocols[0])
        missing = [name for name in rivals if rivals[name].missing]
        return [name for name in missing if self._has(name, rivals[name].quick)]

    def methods(self) -> list[Method]:
        """Methods of the table."""
        methods = compared(self.protocols[0])
        return [method for method in methods if self._has(method.name, method.quick)]

    def _has(self, name: str, quick: bool) -> bool:
        is_named = self.only is None or name in self.only
        return is_named and (quick or not self.quick)

    def cells(self) -> list[Cell]:
        """Cells of the table, then those of the study of the ridge.

        They are ordered by repetition, so that the remaining time can be estimated.
        """
        study_repeats = max(1, min(self.repeats // 3, _STUDY_REPEATS))
        cells = self._cells(self.repeats, self.protocols, self.methods())
        cells += self._cells(study_repeats, self.protocols[:1], self._studied())
        return list(dict.fromkeys(cells))

    def _cells(
        self, repeats: int, protocols: tuple[str, ...], methods: list[Method]
    ) -> list[Cell]:
        return [
            Cell(
                dataset,
                protocol,
                method.name,
                method.family,
                method.setting,
                self.seed,
                repetition,
                self.shrink,
            )
            for repetition, dataset, protocol, method in product(
                range(repeats), self.datasets, protocols, methods
            )
        ]

    def _studied(self) -> list[Method]:
        """Methods of the package with other ridges; faults have no such study."""
        if self.only is not None or self.protocols[0] not in ("seen", "unseen"):
            return []
        studied = []
        for family, method in METHODS.items():
            if not self.quick or (method.can.quick and method.can.regression):
                ridges = RIDGES if has_ridge(family) else RIDGES[:1]
                studied += [package_method(family, setting) for setting in ridges]
        return studied


@lru_cache
def code_version() -> str:
    """Version of the package and a hash of all its files that results depend on."""
    return f"{manyone.__version__}+{fingerprint(Path(manyone.__file__).parent)}"


def fingerprint(root: Path) -> str:
    """Hash of names and contents of the package's files, presentation excepted."""
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        shown = any(f"{name}/".startswith(f"{place}/") for place in _PRESENTATION)
        if "__pycache__" not in path.parts and not shown:
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
