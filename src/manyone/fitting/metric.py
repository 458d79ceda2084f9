"""A pass for the metric: how rows differ from the means of their tasks, summed up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from manyone._types import Array, Labels
from manyone.data.blocks import Block, normal_rows
from manyone.data.rows import row_blocks
from manyone.data.sample import Sample
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
    tasks : ndarray of shape (T,)
        Labels, sorted.
    mean : ndarray of shape (T, d)
        Of all normal rows of each task.
    unit : float
        What rows are divided by, so that their squares neither overflow nor vanish.
    """

    tasks: Labels
    mean: Array
    unit: float

    def partial(self, block: Block) -> Spread:
        """Sums over one block."""
        rows = block.checked().coded(self.tasks)
        d = self.mean.shape[1]
        normal = normal_rows(rows)
        X = rows.X[normal]
        codes = rows.codes[normal]
        weight = rows.weight[normal]
        scatter = np.zeros((d, d))
        fourth = 0.0
        for part in row_blocks(len(codes), 3 * d):
            centred = (X[part] - self.mean[codes[part]]) / self.unit
            norms = np.einsum("ij,ij->i", centred, centred)
            fourth += float(weight[part] @ norms**2)
            centred *= np.sqrt(weight[part])[:, None]
            scatter += centred.T @ centred
        return Spread(scatter, fourth, float(weight.sum()), len(codes))

    def merge(self, one: Spread, other: Spread) -> Spread:
        """Sums over the rows of both."""
        parts: Any = zip(one, other, strict=True)
        return Spread(*(mine + more for mine, more in parts))


def metric_of(sample: Sample, sweep: Any) -> Whitening:
    """The pooled whitening of all rows, see :func:`~manyone.metric.shrinkage.pooled_whitening`.

    Parameters
    ----------
    sample : Sample
        With sums of the columns.
    sweep : callable
        Runs a pass, see :func:`manyone.engines.fit`.

    Returns
    -------
    Whitening
    """
    normal = ~sample.outlier
    mean = sample.means()
    apart = sample.X[normal] - mean[sample.codes[normal]]
    unit = float(np.abs(apart).max(initial=0.0)) or 1.0
    spread = sweep(AddSpread(sample.tasks, mean, unit))
    return whitening_of_sums(
        spread.scatter, spread.fourth, spread.total, spread.n_rows, unit
    )
