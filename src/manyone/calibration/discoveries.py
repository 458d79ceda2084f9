r"""Selecting the abnormal rows of a batch, with few false discoveries among them.

The false-discovery rate is a property of the batch as a whole. So its p-values are, too.
Let the batch have m rows, :math:`m_s` of them in task s. A row of task t that scores V,
in units of its task, gets

.. math:: p = \frac{1}{m} \Bigl( m_t\, p_{own} + \sum_{s \ne t} m_s
              \cdot \text{share of the calibration scores of s that are no higher}
              \Bigr):

the share of the batch that is expected to score as low if all of it is normal. This
assumes nothing about how tasks differ. A task with heavy tails counts by its number of
rows in the batch. A batch of one task is judged by its own ranks. Rows are then
selected by the procedure of Benjamini & Hochberg (1995).
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.calibration.borrowing import by_task
from manyone.calibration.thresholds import Calibration
from manyone.messages import warn_user
from manyone.models.scale import Scale


class ReferenceScores(NamedTuple):
    """Calibration scores of tasks that have proper ones.

    Attributes
    ----------
    scores, values, weight : ndarray of shape (n,)
        Scores, the same in units that make tasks comparable, and counts.
    codes : ndarray of shape (n,)
        Numbers of their tasks.
    scale : Scale
        What makes new scores of tasks comparable.
    """

    scores: Array
    values: Array
    weight: Array
    codes: Codes
    scale: Scale

    @classmethod
    def of(cls, calibration: Calibration) -> ReferenceScores:
        """The scores of a calibration, without tasks of a single row."""
        codes = calibration.codes
        lends = calibration.lends[codes]
        codes = codes[lends]
        scores = calibration.scores[lends]
        weight = calibration.weight[lends]
        one_row = calibration.of_one_row[lends]
        values = calibration.scaled(scores, one_row, codes, calibration.shift[lends])
        size = float(np.sqrt(np.mean(values**2))) if len(values) else 1.0
        size = size if size > 0.0 else 1.0
        scale = replace(calibration.scale, unit=calibration.scale.unit * size)
        return cls(scores, values / size, weight, codes, scale)

    def joined(self, other: ReferenceScores) -> ReferenceScores:
        """These tasks, then those of another calibration."""
        return ReferenceScores(
            np.append(self.scores, other.scores),
            np.append(self.values, other.values),
            np.append(self.weight, other.weight),
            np.append(self.codes, other.codes + self.n_tasks),
            self.scale.joined(other.scale),
        )

    @property
    def n_tasks(self) -> int:
        """Tasks, with scores or without."""
        return len(self.scale.unit)

    @property
    def counts(self) -> Array:
        """Calibration rows of each task, shape (T,)."""
        counts = np.bincount(self.codes, self.weight, self.n_tasks)
        return counts.astype(np.float64)


def batch_pvalues(reference: ReferenceScores, scores: Array, codes: Codes) -> Array:
    """P-value of each row of a batch, see the module.

    Parameters
    ----------
    reference : ReferenceScores
    scores, codes : ndarray of shape (m,)
        Scores and numbers of tasks.

    Returns
    -------
    ndarray of shape (m,)
        Of a row of task t at least ``m_t / (m (n_t + 1))``.
    """
    counts = reference.counts
    rows = np.bincount(codes, minlength=len(counts)).astype(np.float64)
    values = reference.scale.of(scores, codes)
    own_mass = _mass_up_to(reference.scores, reference, scores, codes)
    own_share = (1.0 + own_mass) / (1.0 + counts[codes])
    weight = reference.weight / np.maximum(counts[reference.codes], reference.weight)
    ascending = np.argsort(reference.values, kind="stable")
    lent = np.cumsum((rows[reference.codes] * weight)[ascending])
    place = np.searchsorted(reference.values[ascending], values, side="right")
    by_all = np.append(0.0, lent)[place]
    by_own = _mass_up_to(reference.values, reference, values, codes)
    by_own *= rows[codes] / np.maximum(counts[codes], np.finfo(float).tiny)
    others_mass = np.maximum(by_all - by_own, 0.0)
    p = (rows[codes] * own_share + others_mass) / len(codes)
    # Sums must not depend on the order of tasks, not even by rounding.
    return np.asarray(np.round(np.minimum(p, 1.0), 13), dtype=np.float64)


def _mass_up_to(
    values: Array, reference: ReferenceScores, new: Array, codes: Codes
) -> Array:
    """Weight (m,) of values that do not exceed each new one, in the task of that."""
    order = np.lexsort((values, reference.codes))
    starts = np.searchsorted(reference.codes[order], np.arange(reference.n_tasks + 1))
    ascending = by_task(reference.codes[order], values[order])
    below = np.searchsorted(ascending, by_task(codes, new), side="right")
    mass = np.append(0.0, np.cumsum(reference.weight[order]))
    return np.asarray(mass[below] - mass[starts[codes]])


def benjamini_hochberg(p: Array, fdr: float) -> Mask:
    """Rows (m,) to select, of which a share `fdr` at most is expected to be false."""
    ascending = np.sort(p)
    passing = np.flatnonzero(
        ascending <= fdr * (1 + 1e-12) * np.arange(1, len(p) + 1) / len(p)
    )
    return p <= (ascending[passing[-1]] if len(passing) else -1.0)


def smallest_fdr(p: Array) -> float:
    """The smallest `fdr` at which `benjamini_hochberg` selects any row."""
    ranks = np.arange(1, len(p) + 1)
    return float(np.min(np.sort(p) * len(p) / ranks))


def check_fdr(fdr: float) -> None:
    """Refuse an `fdr` that is not between 0 and 1."""
    if not isinstance(fdr, Real) or not 0 < fdr < 1:
        raise ValueError(f"fdr must lie between 0 and 1; got {fdr!r}.")


def select_rows(
    reference: ReferenceScores, scores: Array, codes: Codes, fdr: float
) -> Mask:
    """Rows of a batch that are called abnormal, shape (m,).

    Warns where none can be because calibration rows are too few.
    """
    check_fdr(fdr)
    if len(codes) == 0:
        return np.zeros(0, dtype=bool)
    p = batch_pvalues(reference, scores, codes)
    chosen = benjamini_hochberg(p, fdr)
    rows = np.bincount(codes, minlength=reference.n_tasks)[codes]
    floor = float(np.min(rows / (len(codes) * (reference.counts[codes] + 1.0))))
    needed = int(np.ceil(len(codes) * floor / fdr - 1e-9))
    if not chosen.any() and needed > 1:
        warn_user(
            f"No row selected. The smallest p-value possible here is {floor:.3g}, so "
            f"Benjamini-Hochberg at fdr={fdr:g} can select rows of this batch only if "
            f"at least {needed} of its {len(codes)} rows look that abnormal. The "
            f"smallest fdr that selects rows of this batch is {smallest_fdr(p):.2g}. "
            "Use smaller batches, more calibration rows, or a larger fdr."
        )
    return chosen
