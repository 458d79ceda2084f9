r"""Scores of tasks on one scale.

**Depths.** A depth d is minus a score, in units of the score of a row far from
everything. Most depths lie between 0 and 1.

**The problem.** Where depths are small, those of one task are those of another times a
factor. Near 1 this cannot be: no response is farther away than none. But there the
*odds* :math:`d / (1 - d)` may differ by a factor.

**Stretching** leads from the one to the other,

.. math:: h(d) = \frac{d}{1 - s d} \quad (d < 1), \qquad
          h(d) = \frac{d}{1 - s} \quad (d \ge 1) .

It is d itself where the bend s is 0, and its odds where s is near 1. Tasks are compared
by h(d) over a unit of each task (:mod:`manyone.calibration.borrowing`). On the common
*scale* of all tasks, h is undone after that.

**The bend** is :math:`s = 1 / (1 + 0.3\,(1 - m))` with the median m of left-out depths.
With many columns all rows respond nearly as if they were far away. Then m is close to
1, and differences of a hundredth count. Thresholds of ``JointOCKSR`` catch 91 to 96 %
of what an oracle does on typists, and 70 to 75 without
(``benchmarks/bench_promises.py typists digits products``). With 0.15 instead of 0.3,
the odds of rows near the far score make tasks of unlike spread (20 of 8 rows) catch 66
instead of 73 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes


def sizes_of(far: Array | None, n_tasks: int) -> Array:
    """Unit (T,) of the scores of each task: that of a row far from everything, or 1."""
    if far is None:
        return np.ones(n_tasks)
    size = np.abs(far)
    return np.where((size > 0.0) & np.isfinite(size), size, 1.0)


def stretched(values: Array, bend: Array | float) -> Array:
    """Stretched scores (n,): minus h of the depths that they are minus; ascending."""
    return values / (1.0 - bend * np.minimum(-values, 1.0))


def unstretched(values: Array, bend: Array | float) -> Array:
    """The inverse of `stretched`, but for rounding."""
    is_inside = -values * (1.0 - bend) < 1.0
    inside = values / (1.0 - bend * np.where(is_inside, values, 0.0))
    return np.where(is_inside, inside, values * (1.0 - bend))


def bend_of(values: Array, weight: Array) -> float:
    """The bend for scores (n,) with counts (n,); NaN where a row has no score."""
    counted = np.flatnonzero(~np.isnan(values) & (weight > 0.0))
    if not len(counted):
        return 0.0
    order = counted[np.argsort(-values[counted], kind="stable")]
    mass = np.cumsum(weight[order])
    place = int(np.searchsorted(mass, 0.5 * mass[-1] * (1.0 - 1e-12)))
    left = max(1.0 + float(values[order[place]]), 0.0)
    # Where usual rows are as far away as any, it must not matter much on which side of
    # the far score a row lies. (With 0.999 instead of 0.98, one task of twelve that
    # overlap raised no alarm at all.)
    return min(1.0 / (1.0 + 0.3 * left), 0.98)


@dataclass(frozen=True, eq=False)
class Scale:
    """What makes scores of tasks comparable.

    Parameters
    ----------
    size : ndarray of shape (T,)
        Sizes of the scores of rows far from everything; 1: not known.
    bend : ndarray of shape (T,)
    unit : ndarray of shape (T,)
        Units of stretched scores.
    """

    size: Array
    bend: Array
    unit: Array

    def of(self, scores: Array, codes: Codes) -> Array:
        """Scores (k,) of rows of tasks (k,) on the common scale."""
        bend = self.bend[codes]
        values = stretched(scores / self.size[codes], bend) / self.unit[codes]
        return unstretched(values, bend)

    def of_all(self, scores: Array) -> Array:
        """Scores (n, T) or (T,) of every task on the common scale."""
        values = stretched(scores / self.size, self.bend) / self.unit
        return unstretched(values, self.bend)

    def undone(self, values: Array, task: int) -> Array:
        """Scores (k,) of rows of one task, from values on the common scale."""
        bend = self.bend[task]
        scores = unstretched(stretched(values, bend) * self.unit[task], bend)
        return scores * self.size[task]

    def joined(self, other: Scale) -> Scale:
        """The scale of these tasks, followed by that of others."""
        return Scale(
            np.append(self.size, other.size),
            np.append(self.bend, other.bend),
            np.append(self.unit, other.unit),
        )
