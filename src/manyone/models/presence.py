"""Rows far from everything: what no function of kernel values can tell from rows of another task.

Kernel values of a row unlike anything are all 0, and so are the responses of a joint model to it:
the same as for any row of another task. So presence is asked of the rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Rows
from manyone.kernels.gram import Points
from manyone.kernels.nearest import OUT_OF_REACH

# A training row counts for at most so many limits: what is farther away raises an alarm even where
# such a row was trained on.
FARTHEST = 1.5


@dataclass(frozen=True, eq=False)
class Presence:
    """Scores are lowered by ``unit * max(0, u / limit - 1)``, u the distance to the nearest point.

    Parameters
    ----------
    points : Points
        Some training rows, with ``-log k`` their distance (or its square).
    limit : float
        Distance that nearly all training rows keep to their neighbours.
    unit : float
        Of the scores.
    """

    points: Points
    limit: float
    unit: float

    def penalty(self, X: Rows) -> Array:
        """What the scores of rows (n, d) are lowered by, shape (n,)."""
        nearest = np.empty(X.shape[0])
        for rows, K in self.points.blocks(X):
            nearest[rows] = K.max(axis=1)
        excess = self.points.kernel.distance(nearest) / self.limit - 1.0
        return self.unit * np.clip(excess, 0.0, OUT_OF_REACH)
