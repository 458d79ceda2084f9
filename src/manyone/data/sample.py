"""First pass: a sample of every task, from which landmarks and widths are chosen.

Rows are drawn by a hash of their content, and of small tasks all are drawn. So the
sample is the same whatever the blocks, their order and the names of the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import numpy as np
from scipy import sparse

from manyone._types import Array, Codes, Labels, Mask, Rows
from manyone.data import checks
from manyone.data.blocks import AnyBlock, by_task, stacked
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.labels import as_labels, encode, lookup
from manyone.data.rows import MISSING, CodedRows, TrainingRows, row_numbers
from manyone.threads import on_threads

# Rows that one thread samples at a time.
_STEP = 2**17


@dataclass(frozen=True, eq=False)
class Sample:
    """The `quota` distinct rows of lowest hash of every task, and totals of all rows.

    Normal rows and known outliers of a task are two strata, drawn separately. The
    number of a stratum is 2 (code + 1) + outlier.

    Attributes
    ----------
    tasks : ndarray of shape (T,)
        Labels, sorted.
    X : array or CSR matrix of shape (s, d)
    stratum, hashes, weight : ndarray of shape (s,)
        Of each sampled row; the weight is that of all its copies.
    totals : ndarray of shape (2 T + 2, 2) or (2 T + 2, 2 + d)
        Total weight and number of all rows of each stratum. With ``sums=True`` also
        their weighted sums, column by column.
    quota : int
        Most rows of a stratum.
    names : ndarray of shape (d,) or None
        Of the columns.
    label_columns : dict
        Columns that hold labels, by role.
    """

    tasks: Labels
    X: Rows
    stratum: Codes
    hashes: Hashes
    weight: Array
    totals: Array
    quota: int
    names: Labels | None = None
    label_columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def codes(self) -> Codes:
        """Task of each sampled row, shape (s,)."""
        return self.stratum // 2 - 1

    @property
    def outlier(self) -> Mask:
        """Which sampled rows are known outliers, shape (s,)."""
        return self.stratum % 2 == 1

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return int(self.totals[:, 1].sum())

    @property
    def counts(self) -> Array:
        """Total weight of the normal rows of each task, shape (T,)."""
        return self.totals[2::2, 0]

    @property
    def whole(self) -> bool:
        """Whether every row was drawn."""
        drawn = np.bincount(self.stratum, self.weight, len(self.totals))
        return bool(np.allclose(drawn, self.totals[:, 0], rtol=1e-9))

    def means(self) -> Array:
        """Weighted means (T, d) of the normal rows of tasks, with ``sums=True``."""
        return np.asarray(self.totals[2::2, 2:] / self.totals[2::2, :1])

    def quarter(self) -> Sample:
        """All known outliers, and normal rows up to a quarter of each task's weight."""
        reached = np.cumsum(self.weight)
        before = np.searchsorted(self.stratum, self.stratum)
        reached -= np.concatenate([[0.0], reached])[before]
        chosen = np.flatnonzero(
            self.outlier | (reached <= 0.25 * self.totals[self.stratum, 0])
        )
        return replace(
            self,
            X=self.X[chosen],
            stratum=self.stratum[chosen],
            hashes=self.hashes[chosen],
            weight=self.weight[chosen],
        )

    def rows(self, *, own_weight: bool = False) -> TrainingRows:
        """The sample in the order of its content.

        Each stratum gets the total weight of all its rows. With `own_weight` sampled
        rows have their own weights.
        """
        drawn = np.bincount(self.stratum, self.weight, len(self.totals))
        share = np.where(
            drawn > 0, self.totals[:, 0] / np.where(drawn > 0, drawn, 1.0), 1.0
        )
        # Where all rows were drawn, rounding must not change their weights.
        share[np.isclose(share, 1.0, rtol=1e-9) | own_weight] = 1.0
        content = row_numbers(self.X)
        order = np.lexsort((self.outlier, content))
        weight = (self.weight * share[self.stratum])[order]
        rows = (
            self.X[order],
            self.codes[order],
            self.outlier[order],
            weight,
            content[order],
        )
        return TrainingRows(*rows, len(self.tasks))


@dataclass(frozen=True)
class TakeSample:
    """The pass that draws a :class:`Sample`.

    Parameters
    ----------
    size : int
        Most rows to keep. With more tasks than that, one row of each.
    seed : int
    sums : bool
        Whether to sum up the columns of dense rows, too.
    """

    size: int
    seed: int = 0
    sums: bool = False

    def partial(self, block: AnyBlock) -> Sample:
        """Sample of one block, which is checked first."""
        checked = block.checked()
        sample = self.of(checked.rows, checked.tasks)
        return replace(sample, names=checked.names, label_columns=checked.label_columns)

    def of(self, rows: CodedRows, tasks: Labels) -> Sample:
        """Sample of rows whose codes are places among `tasks`."""
        starts = range(0, max(rows.X.shape[0], 1), _STEP)
        parts = (rows.take(slice(start, start + _STEP)) for start in starts)
        return reduce(self.merge, on_threads(partial(self._part, tasks), parts))

    def _part(self, tasks: Labels, rows: CodedRows) -> Sample:
        stratum = 2 * (rows.codes + 1) + rows.outlier
        totals = np.zeros((2 * len(tasks) + 2, 2 + self.sums * rows.X.shape[1]))
        totals[:, 0] = np.bincount(stratum, rows.weight, len(totals))
        totals[:, 1] = np.bincount(stratum, minlength=len(totals))
        if self.sums and sparse.issparse(rows.X):
            raise ValueError(checks.no_metric("whitened"))
        if self.sums:
            present, summing = by_task(stratum, rows.weight)
            totals[present, 2:] = summing @ rows.X
        hashes = row_hashes(rows.X, self.seed)
        size = self.size
        return self._drawn(
            Sample(tasks, rows.X, stratum, hashes, rows.weight, totals, size)
        )

    def merge(self, first: Sample, second: Sample) -> Sample:
        """Sample of the rows of both."""
        named = [
            None if sample.names is None else sample.names.tolist()
            for sample in (first, second)
        ]
        if first.X.shape[1] != second.X.shape[1] or named[0] != named[1]:
            columns = " and ".join(
                str(sample.X.shape[1]) if name is None else str(name)
                for sample, name in zip((first, second), named, strict=True)
            )
            raise ValueError(
                f"Blocks must have the same columns; two of them have {columns}."
            )
        tasks, _ = encode(as_labels([*first.tasks.tolist(), *second.tasks.tolist()]))
        totals = np.zeros((2 * len(tasks) + 2, first.totals.shape[1]))
        strata = []
        for sample in (first, second):
            place = np.concatenate([[MISSING], lookup(sample.tasks, tasks)]) + 1
            totals[2 * place] += sample.totals[::2]
            totals[2 * place + 1] += sample.totals[1::2]
            strata.append(2 * place[sample.stratum // 2] + sample.stratum % 2)
        X = stacked([first.X, second.X])
        quota = min(first.quota, second.quota)
        hashes = np.concatenate([first.hashes, second.hashes])
        both = Sample(
            tasks,
            X,
            np.concatenate(strata),
            hashes,
            np.concatenate([first.weight, second.weight]),
            totals,
            quota,
            first.names,
            first.label_columns,
        )
        return self._drawn(both)

    def _drawn(self, sample: Sample) -> Sample:
        """The sample without copies, with the rows of lowest hash of every stratum."""
        order = np.lexsort((sample.hashes, sample.stratum))
        stratum = sample.stratum[order]
        hashes = sample.hashes[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (np.diff(stratum) != 0) | (np.diff(hashes) != 0)
        starts = np.flatnonzero(first)
        stratum = stratum[starts]
        weight = (
            np.add.reduceat(sample.weight[order], starts)
            if len(order)
            else sample.weight
        )
        sizes = np.bincount(stratum, minlength=len(sample.totals))
        rank = np.arange(len(stratum)) - (np.cumsum(sizes) - sizes)[stratum]
        sizes = np.minimum(sizes, sample.quota)
        quota = sample.quota
        if sizes.sum() > self.size:
            # The largest quota that keeps the size. Of small strata all rows are drawn,
            # and the others share what is left.
            ascending = np.sort(sizes)
            below = np.concatenate([[0], np.cumsum(ascending)[:-1]])
            possible = (self.size - below) // np.arange(len(ascending), 0, -1)
            quota = max(1, int(possible[np.argmax(possible < ascending)]))
        chosen = np.flatnonzero(rank < quota)
        place = order[starts[chosen]]
        return replace(
            sample,
            X=sample.X[place],
            stratum=stratum[chosen],
            hashes=sample.hashes[place],
            weight=weight[chosen],
            quota=quota,
        )


def lowest_hashes(rows: TrainingRows, quota: int) -> TrainingRows:
    """At most `quota` normal rows of each task, and outliers, of lowest hash.

    All copies of the last of them are kept, so the order of rows does not matter.
    """
    stratum = 2 * (rows.codes + 1) + rows.outlier
    if np.bincount(stratum).max() <= quota:
        return rows
    hashes = row_hashes(rows.X)
    order = np.lexsort((hashes, stratum))
    stratum = stratum[order]
    hashes = hashes[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(stratum) != 0) | (hashes[1:] != hashes[:-1])
    first_copy = np.flatnonzero(is_new)[np.cumsum(is_new) - 1]
    rank = first_copy - np.searchsorted(stratum, stratum)
    return rows.take(np.sort(order[rank < quota]))


def refuse_unusable(sample: Sample) -> None:
    """Raise if there is no row, or a task without a normal row."""
    if not sample.n_rows:
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    checks.refuse_empty_tasks(sample.codes, sample.outlier, sample.tasks)
