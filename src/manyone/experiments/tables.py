"""From cells to numbers: the table, paired tests, and their files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from manyone.experiments.methods import AS_IN_PAPER, PAPER_AUC
from manyone.experiments.plan import Cell
from manyone.experiments.runner import Outcome
from manyone.files import csv_text

COLUMNS = (
    "dataset",
    "protocol",
    "method",
    "auc_mean",
    "auc_std",
    "repeats",
    "paper_auc",
)
_TEST = ("mean_difference", "standard_error", "p_value", "repeats")
PAIR_COLUMNS = ("dataset", "protocol", "better", "worse", *_TEST)
#: Level of the paired tests.
LEVEL = 0.05
#: Added to the name of a rival in the setting that turned out best on the test rows.
HINDSIGHT = ", best by hindsight"


@dataclass(frozen=True)
class Row:
    """A line of the table; AUC in percent by repetition."""

    dataset: str
    protocol: str
    method: str
    family: str
    aucs: dict[int, float]

    @property
    def mean(self) -> float:
        """Mean AUC."""
        return float(np.mean([*self.aucs.values()]))

    @property
    def std(self) -> float | None:
        """Standard deviation over repetitions; None for a single one."""
        return (
            float(np.std([*self.aucs.values()], ddof=1)) if len(self.aucs) > 1 else None
        )

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None for a single repetition."""
        return None if self.std is None else self.std / float(np.sqrt(len(self.aucs)))

    @property
    def paper(self) -> float | None:
        """The paper's figure; it has none for unseen anomalies."""
        return (
            PAPER_AUC.get(self.dataset, {}).get(self.family)
            if self.protocol == "seen"
            else None
        )

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + (
            "" if self.error is None else f" ± {self.error:.2f}"
        )


@dataclass(frozen=True)
class Pair:
    """A paired test of two methods on the same splits; error and p are None for one repetition."""

    dataset: str
    protocol: str
    better: str
    worse: str
    difference: float
    error: float | None
    p: float | None
    repeats: int

    @property
    def unclear(self) -> bool:
        """Whether there was a test and it found no clear difference."""
        return self.p is not None and self.p >= LEVEL


@dataclass(frozen=True)
class Results:
    """Results of a run: its cells, the table made of them, and the paired tests."""

    outcomes: Sequence[Outcome]

    @cached_property
    def rows(self) -> list[Row]:
        """Lines of the table."""
        return summarise(self.outcomes)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Paired tests of all lines of the same data set and protocol."""
        return compare(self.rows)

    @property
    def repeated(self) -> bool:
        """Whether there is more than one repetition, so that errors and tests mean something."""
        return any(len(row.aucs) > 1 for row in self.rows)

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets that have a row."""
        return list(dict.fromkeys(row.dataset for row in self.rows))

    def alarms(self, dataset: str) -> dict[str, NDArray[np.float64]]:
        """Measured alarm rates of each method, for each of ``cells.ALARM_RATES``."""
        found: dict[str, list[list[float]]] = {}
        for o in self.outcomes:
            if o.cell.dataset == dataset and "alarms" in o.result:
                found.setdefault(o.cell.method, []).append(o.result["alarms"])
        return {method: np.mean(rates, axis=0) for method, rates in found.items()}

    def of_kind(self, dataset: str, protocol: str) -> list[Row]:
        """Rows of a data set and protocol, the best mean first."""
        mine = [
            row
            for row in self.rows
            if (row.dataset, row.protocol) == (dataset, protocol)
        ]
        return sorted(mine, key=lambda row: -row.mean)

    def pair(self, dataset: str, protocol: str, a: str, b: str) -> Pair | None:
        """The paired test of two methods, whichever is ahead."""
        wanted = (dataset, protocol, {a, b})
        found = (
            p
            for p in self.pairs
            if (p.dataset, p.protocol, {p.better, p.worse}) == wanted
        )
        return next(found, None)

    def level(self, row: Row, best: Row) -> bool:
        """Whether the paired test finds no clear difference from the best method."""
        pair = self.pair(row.dataset, row.protocol, row.method, best.method)
        return pair is not None and pair.unclear


def ties(row: Row, best: Row) -> bool:
    """Whether a method has the best mean, to the digits that are shown."""
    return round(row.mean, 2) == round(best.mean, 2)


def summarise(outcomes: Iterable[Outcome]) -> list[Row]:
    """Lines of the table, in the order in which their methods were declared.

    A method in several settings has a line for the first, and one for the best by hindsight.
    """
    found: dict[tuple[str, str, str, str], dict[str, dict[int, float]]] = {}
    for cell, outcome in (
        (o.cell, o) for o in outcomes if o.result and _in_table(o.cell)
    ):
        settings = found.setdefault(
            (cell.dataset, cell.protocol, cell.method, cell.family), {}
        )
        settings.setdefault(cell.setting, {})[cell.repetition] = outcome.auc
    lines = []
    for (name, kind, method, family), settings in found.items():
        rows = [Row(name, kind, method, family, aucs) for aucs in settings.values()]
        lines.append(rows[0])
        if len(rows) > 1:
            best = max(rows, key=lambda row: row.mean)
            lines.append(replace(best, method=method + HINDSIGHT))
    return lines


def _in_table(cell: Cell) -> bool:
    """Whether a cell belongs to the table, not only to a study."""
    if cell.protocol == "faults":
        return True
    return not cell.corruption and (
        cell.setting == "tuned" or cell.method.endswith(AS_IN_PAPER)
    )


def compare(rows: Sequence[Row]) -> list[Pair]:
    """Paired t tests of all pairs of methods within each data set and protocol."""
    pairs = []
    for a, b in itertools.combinations(rows, 2):
        if b.mean > a.mean:
            a, b = b, a
        common = sorted(a.aucs.keys() & b.aucs.keys())
        if not common or (a.dataset, a.protocol) != (b.dataset, b.protocol):
            continue
        gain, n = np.array([a.aucs[r] - b.aucs[r] for r in common]), len(common)
        error = p = None
        if n > 1:
            error = float(np.std(gain, ddof=1) / np.sqrt(n))
            p = (
                float(ttest_1samp(gain, 0.0).pvalue)
                if error > 0
                else float(np.all(gain == 0))
            )
        names = (a.dataset, a.protocol, a.method, b.method)
        pairs.append(Pair(*names, float(gain.mean()), error, p, n))
    return pairs


def table_csv(rows: Iterable[Row]) -> str:
    """The table as text."""
    lines = (
        (
            r.dataset,
            r.protocol,
            r.method,
            _n(r.mean),
            _n(r.std),
            len(r.aucs),
            _n(r.paper, ".2f"),
        )
        for r in rows
    )
    return csv_text(COLUMNS, lines)


def pairs_csv(pairs: Iterable[Pair]) -> str:
    """Paired tests as text."""
    lines = (
        (*astuple(p)[:4], _n(p.difference), _n(p.error), _n(p.p, ".3g"), p.repeats)
        for p in pairs
    )
    return csv_text(PAIR_COLUMNS, lines)


def _n(value: float | None, digits: str = ".4f") -> str:
    return "" if value is None else format(value, digits)
