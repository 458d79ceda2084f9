"""How long fits take, in seconds of one core, and which of them are affordable.

The unit is a kernel ridge regression: the cube of the number of rows. Measured with 8
columns on one core of a server: ``JointOCKSR`` on 4,000 rows 1.2 s,
``IndependentOCKSR`` on 2 tasks of 2,000 rows 4.3 s, ``NonlinearOCKSR`` on 1,200 rows
10 s.
"""

from __future__ import annotations

import numpy as np

from manyone._types import Codes
from manyone.data.rows import TrainingRows
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.independent import IndependentOCKSR

# Cubes of rows per second, of a kernel ridge regression with thresholds.
_CUBES_A_SECOND = 5e10
# Kernel ridge regressions that take as long as a fit: tasks alone learn their metric
# again in folds, two layers take many steps.
_RIDGES = {"JointOCKSR": 1.0, "IndependentOCKSR": 20.0, "NonlinearOCKSR": 296.0}
# Seconds that a fit may take: beyond, something cheaper is fitted. Two layers are worth
# the wait. A joint regression fills memory first: its kernel matrix then has 0.2 GB.
_MOST_SECONDS = {"JointOCKSR": 2.5, "IndependentOCKSR": 8.0, "NonlinearOCKSR": 20.0}
#: Most rows that a model of a large table is fitted to, all tasks together. With many
#: tasks, fewer of each are kept.
MOST_ROWS = 100_000
#: Fewest rows that settings are judged by, where there are as many.
FEWEST_ROWS = 1000


def is_affordable(model: MultiTaskOneClass, rows: TrainingRows) -> bool:
    """Whether a fit of a joint method of `auto` takes no longer than it may."""
    method = type(model).__name__
    seconds = _RIDGES[method] * float(len(rows.codes)) ** 3 / _CUBES_A_SECOND
    return seconds <= _MOST_SECONDS[method]


def rows_of_each_task(sizes: Codes) -> int:
    """Most rows of each task that there is time to fit alone, task by task.

    Parameters
    ----------
    sizes : ndarray of shape (T,)
        Rows of the tasks.
    """
    method = IndependentOCKSR.__name__
    most = _MOST_SECONDS[method] * _CUBES_A_SECOND / _RIDGES[method]
    ascending = np.sort(sizes).astype(np.float64)
    smaller_cubes = np.cumsum(ascending**3) - ascending**3
    left = np.maximum(most - smaller_cubes, 0.0)
    # A task and all larger ones share the time that smaller ones leave.
    shared = np.cbrt(left / np.arange(len(ascending), 0, -1))
    is_short = shared < ascending
    if not is_short.any():
        return int(ascending[-1])
    return max(1, int(shared[np.argmax(is_short)]))


def rows_to_judge_by(n_kernels: int) -> int:
    """Number of rows for which there is time for so many eigendecompositions."""
    # One takes as long as 9 ridge regressions, and all may take 3.6 seconds.
    cubes = 3.6 * _CUBES_A_SECOND / (9.0 * n_kernels)
    return max(FEWEST_ROWS, int(np.cbrt(cubes)))
