"""Distances to the nearest of a few rows, and the limit that nearly all rows keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyone._types import Array
from manyone.groups import cannot_vouch
from manyone.kernels.gram import Points
from manyone.kernels.kernel import Kernel, resolve_kernel

if TYPE_CHECKING:
    from manyone.rows import TrainingRows

# Of distances to the nearest row: rows that stand for all, rows looked at in one go, the share of
# rows within the limit. In typical distances: what counts as none, and what is out of all reach.
MOST_POINTS, _BLOCK, _SHARE = 256, 4096, 0.99
NO_DISTANCE, OUT_OF_REACH = 1e-7, 1e100


def distances_to_nearest(kernel: Kernel, rows: TrainingRows) -> tuple[Points, float, Array]:
    """How far training rows are from each other, whatever the width of the kernel.

    Parameters
    ----------
    kernel : Kernel
        One of a distance.
    rows : TrainingRows

    Returns
    -------
    points : Points
        Some training rows, and a kernel whose ``-log k`` is a distance (or its square, for all but
        the Laplacian) in typical ones.
    limit : float
        Distance to the nearest other point that nearly all training rows keep.
    ratios : ndarray of shape (n,)
        Distance of each row in units of the limit that all other rows set; 0 for known outliers.
    """
    normal, ratios = np.flatnonzero(~rows.outlier), np.zeros(len(rows.codes))
    X, weight, content = rows.X[normal], rows.weight[normal], rows.content[normal]
    # A few distinct rows stand for all, spread evenly over the order of their content.
    few = np.unique(content, return_index=True)[1]
    if len(few) > MOST_POINTS:
        few = few[np.linspace(0, len(few) - 1, MOST_POINTS).astype(np.intp)]
    name = str(kernel.name).partition("+")[0]
    points = Points(resolve_kernel(name, X, weight=weight), X[few])
    side, nearest = points.kernel.side(points.X), np.empty(len(normal))
    for start in range(0, len(normal), _BLOCK):
        block = slice(start, start + _BLOCK)
        K = points.kernel.against(X[block], side)
        # A row and its copies cannot vouch for themselves.
        K[content[block, None] == content[few]] = 0.0
        if rows.group is not None:
            K[cannot_vouch(rows, normal[block], normal[few])] = 0.0
        nearest[block] = K.max(axis=1)
    nearest = points.kernel.distance(nearest)
    order = np.argsort(nearest, kind="stable")
    ascending, mass = nearest[order], np.cumsum(weight[order])
    ratios[normal] = ratios_to_limits(nearest, weight, ascending, mass)
    return points, limit_of_all(ascending, mass), ratios


def limit_of_all(ascending: Array, mass: Array) -> float:
    """Limit for new rows, from distances in ascending order and their weights, summed up."""
    # Counts are sums of weights: rounding must not decide.
    place = np.searchsorted(mass, _SHARE * (1.0 - 1e-12) * mass[-1])
    limit = float(ascending[min(int(place), len(mass) - 1)])
    # Most rows have copies nearby: the others tell.
    return limit if limit > NO_DISTANCE else float(ascending[-1])


def ratios_to_limits(nearest: Array, weight: Array, ascending: Array, mass: Array) -> Array:
    """Distance of each row in units of the limit that the others set, shape (n,)."""
    limit, share = limit_of_all(ascending, mass), _SHARE * (1.0 - 1e-12)
    # Without a row, the limit is at most the next lower distance, unless the row has copies.
    one = np.minimum(weight, 1.0)
    tied = np.maximum(np.searchsorted(ascending, nearest, side="right") - 1, 0)
    copies = np.diff(mass, prepend=0.0)[tied] > (1.0 + 1e-9) * one
    below = np.where(copies, tied, np.maximum(tied - 1, 0))
    place = np.minimum(np.searchsorted(mass, share * (mass[-1] - one)), below)
    others = np.maximum(ascending[place], NO_DISTANCE)
    others = np.where(nearest < limit, limit, np.minimum(others, limit))
    # Rows that nothing is near to may be all there are.
    return np.divide(nearest, others, out=np.ones(len(nearest)), where=np.isfinite(others))
