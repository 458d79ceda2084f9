"""From cells to numbers: the table, its file, and paired tests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TypeVar

import numpy as np
from scipy.stats import ttest_1samp

from manyone._types import Array
from manyone.experiments.methods import AS_IN_PAPER, PAPER_AUC
from manyone.experiments.plan import Cell
from manyone.experiments.runner import Outcome
from manyone.files import csv_text

Key = TypeVar("Key", bound=Hashable)

#: Words for the anomalies of a protocol.
ANOMALIES = {
    "seen": "seen anomalies",
    "unseen": "unseen anomalies",
    "faults": "faults",
    "time": "faults in time",
}
#: Level of the paired tests.
LEVEL = 0.05
#: Added to the name of a rival in the setting that is best on the test rows.
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
        aucs = list(self.aucs.values())
        return float(np.std(aucs, ddof=1)) if len(aucs) > 1 else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None for a single repetition."""
        return None if self.std is None else self.std / float(np.sqrt(len(self.aucs)))

    @property
    def paper(self) -> float | None:
        """The paper's AUC, which it prints for seen anomalies only."""
        if self.protocol != "seen":
            return None
        return PAPER_AUC.get(self.dataset, {}).get(self.family)

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.2f}"
        return f"{self.mean:.2f}{error}"


@dataclass(frozen=True)
class Results:
    """Results of a run: its cells, and the table made of them."""

    outcomes: Sequence[Outcome]

    @cached_property
    def rows(self) -> list[Row]:
        """Lines of the table, in the order in which their methods were declared.

        A method in several settings has a line for the first, and one for the best by
        hindsight.
        """
        shown = [o for o in self.outcomes if o.result and _in_table(o.cell)]
        names = attrgetter("dataset", "protocol", "method", "family")
        lines = []
        for line, outcomes in grouped(shown, lambda o: names(o.cell)).items():
            settings = grouped(outcomes, lambda o: o.cell.setting).values()
            rows = [
                Row(*line, {o.cell.repetition: o.auc for o in setting})
                for setting in settings
            ]
            lines.append(rows[0])
            if len(rows) > 1:
                best = max(rows, key=lambda row: row.mean)
                lines.append(replace(best, method=best.method + HINDSIGHT))
        return lines

    @property
    def failed(self) -> list[Outcome]:
        """Cells whose methods failed."""
        return [outcome for outcome in self.outcomes if outcome.error]

    @property
    def repeated(self) -> bool:
        """Whether there are several repetitions, as errors and tests need."""
        return any(len(row.aucs) > 1 for row in self.rows)

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets that have a row."""
        return list(dict.fromkeys(row.dataset for row in self.rows))

    @property
    def kinds(self) -> list[str]:
        """Kinds of anomaly that have a row."""
        protocols = {row.protocol for row in self.rows}
        return [kind for kind in ANOMALIES if kind in protocols]

    def methods(self, dataset: str) -> list[str]:
        """Names of the methods of a data set, in the order of the table."""
        rows = [row for row in self.rows if row.dataset == dataset]
        return list(dict.fromkeys(row.method for row in rows))

    def alarms(self, dataset: str) -> dict[str, Array]:
        """Measured alarm rates of each method, for each of ``cells.ALARM_RATES``."""
        measured = [o for o in self.outcomes if "alarms" in o.result]
        measured = [o for o in measured if o.cell.dataset == dataset]
        by_method = grouped(measured, lambda o: o.cell.method)
        return {
            method: np.mean([o.result["alarms"] for o in outcomes], axis=0)
            for method, outcomes in by_method.items()
        }

    def of_kind(self, dataset: str, protocol: str) -> list[Row]:
        """Rows of a data set and protocol, the best mean first."""
        rows = [row for row in self.rows if row.dataset == dataset]
        rows = [row for row in rows if row.protocol == protocol]
        return sorted(rows, key=lambda row: -row.mean)


def grouped(
    outcomes: Iterable[Outcome], key: Callable[[Outcome], Key]
) -> dict[Key, list[Outcome]]:
    """Outcomes by a key, in the order in which its values first occur."""
    groups: dict[Key, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return groups


def _in_table(cell: Cell) -> bool:
    """Whether a cell belongs to the table, not only to the study of the ridge."""
    published = cell.method.endswith(AS_IN_PAPER)
    return cell.protocol in ("faults", "time") or cell.setting == "tuned" or published


def paired_p(better: Row, worse: Row) -> float | None:
    """P-value of a paired t test of two methods on the same data.

    None if they share fewer than two splits.
    """
    common = sorted(better.aucs.keys() & worse.aucs.keys())
    if len(common) < 2:
        return None
    gains = np.array([better.aucs[r] - worse.aucs[r] for r in common])
    return float(ttest_1samp(gains, 0.0).pvalue) if np.ptp(gains) > 0 else 1.0


def table_csv(results: Results) -> str:
    """The table as text."""
    heads = "dataset,protocol,method,auc_mean,auc_std,repeats,paper_auc"
    lines = [
        [
            row.dataset,
            row.protocol,
            row.method,
            _number(row.mean),
            _number(row.std),
            len(row.aucs),
            _number(row.paper, ".2f"),
        ]
        for row in results.rows
    ]
    return csv_text([heads.split(","), *lines])


def _number(value: float | None, digits: str = ".4f") -> str:
    return "" if value is None else format(value, digits)
