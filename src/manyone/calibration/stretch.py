r"""Depths of tasks that differ by a factor, though no depth goes far beyond that of a far row.

A depth d is minus a score in units of the score of rows far away, so that most depths lie
between 0 and 1. Small depths of one task are those of another times a factor. Depths
near 1 cannot be: the response of a row cannot be farther away than nothing. Their *odds*
can. Between the two lies

.. math:: h(d) = \frac{d}{1 - d + r} \quad (d < 1), \qquad h(d) = d / r \quad (d \ge 1),

a multiple of d where d is small, the odds of d where r is. r is a share of what the depth
of a usual row leaves: in many columns all rows respond nearly as if they were far away,
and there differences of a hundredth count.

``benchmarks/bench_promises.py typists digits products`` shows what it buys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array

# Share of what a usual depth leaves. With less, the odds of rows near the far score make
# tasks of unlike spread (20 of 8 rows) catch 66 instead of 73 % of an oracle.
_SHARE = 0.3
# Three digits of a response count.
_LEAST = 1e-3


class Stretch(NamedTuple):
    """The function h of the module, of scores in units of the far score.

    Attributes
    ----------
    rest : float
        The r of the module; infinite: scores stay as they are.
    """

    rest: float = np.inf

    @classmethod
    def of(cls, values: Array, weight: Array) -> Stretch:
        """By the usual depth of scores (n,) with counts (n,), NaN where there is none."""
        counted = np.flatnonzero(~np.isnan(values) & (weight > 0.0))
        if not len(counted):
            return UNSTRETCHED
        order = counted[np.argsort(-values[counted], kind="stable")]
        mass = np.cumsum(weight[order])
        place = int(np.searchsorted(mass, 0.5 * mass[-1] * (1.0 - 1e-12)))
        return cls(max(_SHARE * (1.0 + float(values[order[place]])), _LEAST))

    def depths(self, depths: Array) -> Array:
        """Stretched depths (n,)."""
        if not np.isfinite(self.rest):
            return depths
        left = np.maximum(1.0 - depths, 0.0) + self.rest
        return np.where(depths < 1.0, depths / left, depths / self.rest)

    def scores(self, values: Array) -> Array:
        """The same of scores (n,), which are minus depths; ascending in them."""
        return -self.depths(-values)

    def undone(self, values: Array) -> Array:
        """Scores (n,) from stretched ones, but for rounding."""
        if not np.isfinite(self.rest):
            return values
        odds = -values
        inside = odds * (1.0 + self.rest) / (1.0 + odds)
        return -np.where(odds * self.rest < 1.0, inside, odds * self.rest)


UNSTRETCHED = Stretch()
