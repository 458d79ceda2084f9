"""From cells to numbers: the table, paired tests, and their files."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from manyone.experiments.methods import AS_IN_PAPER, PAPER_AUC, in_paper
from manyone.experiments.runner import Outcome
from manyone._types import Array

COLUMNS = ("dataset", "protocol", "method", "auc_mean", "auc_std", "repeats", "paper_auc")
PAIR_COLUMNS = (
    "dataset",
    "protocol",
    "better",
    "worse",
    "mean_difference",
    "standard_error",
    "p_value",
    "repeats",
)


@dataclass(frozen=True)
class Row:
    """A line of the table; AUC in percent, one value per repetition."""

    dataset: str
    protocol: str
    method: str
    family: str
    aucs: Array
    repetitions: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean AUC."""
        return float(np.mean(self.aucs))

    @property
    def std(self) -> float | None:
        """Standard deviation over repetitions; None for a single one."""
        return float(np.std(self.aucs, ddof=1)) if len(self.aucs) > 1 else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean."""
        return None if self.std is None else self.std / float(np.sqrt(len(self.aucs)))

    @property
    def paper(self) -> float | None:
        """The paper's figure; it has none for unseen anomalies."""
        return PAPER_AUC.get(self.dataset, {}).get(self.family) if self.protocol == "seen" else None


@dataclass(frozen=True)
class Pair:
    """A paired test of two methods on the same splits."""

    dataset: str
    protocol: str
    better: str
    worse: str
    difference: float
    error: float | None
    p: float | None
    repeats: int


def summarise(outcomes: Iterable[Outcome]) -> list[Row]:
    """Lines of the table, in the order in which their methods were declared."""
    found: dict[tuple[str, str, str, str], list[tuple[int, float]]] = {}
    for outcome in outcomes:
        cell = outcome.cell
        if outcome.result is None or not in_table(outcome):
            continue
        group = found.setdefault((cell.dataset, cell.protocol, cell.method, cell.family), [])
        group.append((cell.repetition, 100 * float(np.nanmean(outcome.result["auc"]))))
    rows = []
    for key, values in found.items():
        repetitions, aucs = zip(*sorted(values), strict=True)
        rows.append(Row(*key, np.array(aucs), repetitions))
    return rows


def in_table(outcome: Outcome) -> bool:
    """Whether a cell belongs to the table, not only to a study."""
    cell = outcome.cell
    return not cell.corruption and (
        cell.setting == "tuned"
        or (cell.method == cell.family + AS_IN_PAPER and in_paper(cell.family))
    )


def compare(rows: Sequence[Row]) -> list[Pair]:
    """Paired t tests of all pairs of methods within each data set and protocol."""
    pairs = []
    for a, b in itertools.combinations(rows, 2):
        if (a.dataset, a.protocol) != (b.dataset, b.protocol):
            continue
        if b.mean > a.mean:
            a, b = b, a
        common = sorted(set(a.repetitions) & set(b.repetitions))
        if not common:
            continue
        x, y = (np.array([row.aucs[row.repetitions.index(r)] for r in common]) for row in (a, b))
        gain, n = x - y, len(common)
        error = p = None
        if n > 1:
            error = float(np.std(gain, ddof=1) / np.sqrt(n))
            p = float(ttest_rel(x, y).pvalue) if error > 0 else float(np.all(gain == 0))
        pairs.append(
            Pair(a.dataset, a.protocol, a.method, b.method, float(gain.mean()), error, p, n)
        )
    return pairs


def table_csv(rows: Iterable[Row]) -> str:
    """The table as text."""
    return _csv(
        COLUMNS,
        (
            (r.dataset, r.protocol, r.method, _n(r.mean), _n(r.std), len(r.aucs), _n(r.paper, 2))
            for r in rows
        ),
    )


def pairs_csv(pairs: Iterable[Pair]) -> str:
    """Paired tests as text."""
    return _csv(
        PAIR_COLUMNS,
        (
            (
                *(p.dataset, p.protocol, p.better, p.worse, _n(p.difference), _n(p.error)),
                "" if p.p is None else f"{p.p:.3g}",
                p.repeats,
            )
            for p in pairs
        ),
    )


def _n(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _csv(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return stream.getvalue()
