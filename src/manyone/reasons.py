r"""Which columns did it: how much less unusual a row would be with one column as expected.

With :math:`P = C_t^{-1}` the inverse covariance of a task and z a row about the task's mean, the
best correction of the coordinates S of one column leaves :math:`z_S - P_{SS}^{-1} (Pz)_S`, which is
what the other columns make one expect. Only values that were ever seen are expected, and a
correction by :math:`\delta` lowers :math:`z'Pz` by
:math:`2 \delta' (Pz)_S - \delta' P_{SS} \delta`: a column that would have to be impossible to make
up for another has little to do with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.covariance import TaskWhitenings


class Reasons(NamedTuple):
    """Counterfactuals of rows.

    Parameters
    ----------
    gain : ndarray of shape (n, p)
        How much less unusual a row would be with each column as expected.
    expected : ndarray of shape (n, D)
        Coordinates that each column would then have.
    """

    gain: Array
    expected: Array


def find_reasons(
    metric: TaskWhitenings,
    Z: Array,
    codes: Codes,
    source: Codes,
    low: Array,
    high: Array,
) -> Reasons:
    """Counterfactuals of rows.

    Parameters
    ----------
    metric : TaskWhitenings
    Z : ndarray of shape (n, D)
    codes : ndarray of shape (n,)
        Tasks of the rows.
    source : ndarray of shape (D,)
        Column that each coordinate belongs to; none where it is negative.
    low, high : ndarray of shape (D,)
        Range that was seen.

    Returns
    -------
    Reasons
    """
    blocks = [np.flatnonzero(source == column) for column in range(source.max() + 1)]
    gain, expected = np.empty((len(Z), len(blocks))), Z.copy()
    for task in np.unique(codes):
        rows = np.flatnonzero(codes == task)
        P, mean = precision(metric, int(task)), metric.mean[task]
        pull = (Z[rows] - mean) @ P
        for column, block in enumerate(blocks):
            inner, z = P[np.ix_(block, block)], Z[np.ix_(rows, block)]
            step = np.linalg.solve(inner, pull[:, block].T).T
            likely = np.clip(z - step, low[block], high[block])
            step = z - likely
            gain[rows, column] = np.einsum(
                "ij,ij->i", step, 2.0 * pull[:, block] - step @ inner
            )
            expected[np.ix_(rows, block)] = likely
    return Reasons(gain, expected)


def precision(metric: TaskWhitenings, task: int) -> Array:
    """Inverse covariance (D, D) of a task."""
    D = metric.mean.shape[1]
    codes = np.full(D, task)
    root = metric.apply(metric.mean[task] + np.eye(D), codes)
    return np.asarray(root @ root.T)
