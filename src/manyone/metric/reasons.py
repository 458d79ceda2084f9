r"""Which column makes a row unusual: what its expected value would change.

Let :math:`P = C_t^{-1}` be the inverse covariance of a task, and z a row about the mean
of the task. Given the other columns, the expected coordinates S of one column are
:math:`z_S - P_{SS}^{-1} (Pz)_S`. A correction by :math:`\delta` towards them lowers
:math:`z'Pz` by :math:`2 \delta' (Pz)_S - \delta' P_{SS} \delta`: the gain. Corrected
values stay within the range of values that were seen. So a column gains little where
only an impossible value would make up for another column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.metric.shrinkage import TaskWhitenings


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
        Column that each coordinate belongs to; negative: to none.
    low, high : ndarray of shape (D,)
        Range that was seen.

    Returns
    -------
    Reasons
    """
    blocks = [np.flatnonzero(source == column) for column in range(source.max() + 1)]
    gain = np.empty((len(Z), len(blocks)))
    expected = Z.copy()
    for task in np.unique(codes):
        rows = np.flatnonzero(codes == task)
        P = precision(metric, int(task))
        slope = (Z[rows] - metric.mean[task]) @ P
        for column, block in enumerate(blocks):
            inner = P[np.ix_(block, block)]
            values = Z[np.ix_(rows, block)]
            correction = np.linalg.solve(inner, slope[:, block].T).T
            likely = np.clip(values - correction, low[block], high[block])
            step = values - likely
            change = 2.0 * slope[:, block] - step @ inner
            gain[rows, column] = np.einsum("ij,ij->i", step, change)
            expected[np.ix_(rows, block)] = likely
    return Reasons(gain, expected)


def precision(metric: TaskWhitenings, task: int) -> Array:
    """Inverse covariance (D, D) of a task."""
    D = metric.mean.shape[1]
    codes = np.full(D, task)
    root = metric.apply(metric.mean[task] + np.eye(D), codes)
    return np.asarray(root @ root.T)
