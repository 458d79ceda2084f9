"""A pass for the metric: sums of squares of rows about the means of their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from manyone._types import Array
from manyone.data.rows import CodedRows, row_blocks
from manyone.data.sample import Sample
from manyone.data.sweeps import Source
from manyone.metric.shrinkage import Whitening, whitening_of_sums


class Spread(NamedTuple):
    """Sums over normal rows c about the means of their tasks.

    Attributes
    ----------
    scatter : ndarray of shape (d, d)
        Of ``w c c'``.
    fourth : float
        Of ``w |c|^4``, from which Ledoit and Wolf tell how far to shrink.
    total : float
        Of the weights.
    n_rows : int
    """

    scatter: Array
    fourth: float
    total: float
    n_rows: int


@dataclass(frozen=True, eq=False)
class AddSpread:
    """The pass that sums up a :class:`Spread`.

    Parameters
    ----------
    mean : ndarray of shape (T, d)
        Of all normal rows of each task.
    unit : float
        What rows are divided by, so that their squares neither overflow nor vanish.
    """

    mean: Array
    unit: float

    def of(self, rows: CodedRows) -> Spread:
        """Sums over rows whose tasks are numbers."""
        d = self.mean.shape[1]
        normal = rows.take(~rows.outlier) if rows.outlier.any() else rows
        codes = normal.codes
        weight = normal.weight
        scatter = np.zeros((d, d))
        fourth = 0.0
        for block in row_blocks(len(codes), 3 * d):
            centred = (normal.X[block] - self.mean[codes[block]]) / self.unit
            norms = np.einsum("ij,ij->i", centred, centred)
            fourth += float(weight[block] @ norms**2)
            centred *= np.sqrt(weight[block])[:, None]
            scatter += centred.T @ centred
        return Spread(scatter, fourth, float(weight.sum()), len(codes))

    def merge(self, one: Spread, other: Spread) -> Spread:
        """Sums over the rows of both."""
        return Spread(
            one.scatter + other.scatter,
            one.fourth + other.fourth,
            one.total + other.total,
            one.n_rows + other.n_rows,
        )


def metric_of(sample: Sample, source: Source) -> Whitening:
    """The pooled whitening of all rows, from sums over blocks.

    Parameters
    ----------
    sample : Sample
        With sums of the columns.
    source : Source

    Returns
    -------
    Whitening
    """
    normal = ~sample.outlier
    mean = sample.means()
    apart = sample.X[normal] - mean[sample.codes[normal]]
    unit = float(np.abs(apart).max(initial=0.0)) or 1.0
    spread = source.reduce(AddSpread(mean, unit))
    return whitening_of_sums(
        spread.scatter, spread.fourth, spread.total, spread.n_rows, unit
    )
