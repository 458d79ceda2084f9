"""How many rows there is time for.

What takes long grows with the cube of the number of rows. Measured with 8 columns on
one core of a server: ``JointOCKSR`` on 4,000 rows 1.2 s, ``NonlinearOCKSR`` on 1,200
rows 10 s, and ``IndependentOCKSR`` on 2 tasks of 2,000 rows 4.3 s, as tasks alone learn
their metric again in folds. An eigendecomposition takes as long as nine fits of
``JointOCKSR``. So the limits are about 2.5 s (and a kernel matrix of 0.2 GB), 20 s (two
layers are worth the wait), 8 s, and 4 s for a search.
"""

from __future__ import annotations

import numpy as np

from manyone._types import Codes
from manyone.data.rows import TrainingRows
from manyone.estimators.base import MultiTaskOneClass

# Most rows that a joint method of `auto` is fitted to: beyond, something cheaper is.
_MOST_ROWS = {"JointOCKSR": 5_000, "NonlinearOCKSR": 1_500}
# Cubes of rows that there is time for, of tasks alone and of eigendecompositions.
_MOST_CUBES = 2e10
#: Most rows that a model of a large table is fitted to, all tasks together. With many
#: tasks, fewer of each are kept.
MOST_ROWS = 100_000
#: Fewest rows that settings are judged by, where there are as many.
FEWEST_ROWS = 1000


def is_affordable(model: MultiTaskOneClass, rows: TrainingRows) -> bool:
    """Whether a fit of a joint method of `auto` takes no longer than it may."""
    return len(rows.codes) <= _MOST_ROWS[type(model).__name__]


def rows_of_each_task(sizes: Codes) -> int:
    """Most rows of each task that there is time to fit alone, task by task.

    Parameters
    ----------
    sizes : ndarray of shape (T,)
        Rows of the tasks.
    """
    ascending = np.sort(sizes).astype(np.float64)
    smaller_cubes = np.cumsum(ascending**3) - ascending**3
    left = np.maximum(_MOST_CUBES - smaller_cubes, 0.0)
    # A task and all larger ones share the time that smaller ones leave.
    shared = np.cbrt(left / np.arange(len(ascending), 0, -1))
    is_short = shared < ascending
    if not is_short.any():
        return int(ascending[-1])
    return max(1, int(shared[np.argmax(is_short)]))


def rows_to_judge_by(n_kernels: int) -> int:
    """Number of rows for which there is time for so many eigendecompositions."""
    return max(FEWEST_ROWS, int(np.cbrt(_MOST_CUBES / n_kernels)))
