"""What fits cost: the one place that says what is affordable.

All of it is cubes of numbers of rows, times what a method does with them, in seconds of one core.
"""

from __future__ import annotations

import numpy as np

from manyone.estimators.base import MultiTaskOneClass
from manyone.rows import TrainingRows

# Of a kernel ridge regression with thresholds: 5,000 rows take ten seconds.
_CUBES_A_SECOND = 1.25e10
# What a fit may take before landmarks stand for its rows, and what all eigendecompositions of a
# search may.
_MOST_SECONDS = 10.0
# Kernel ridge regressions that cost as much: metric and thresholds of tasks alone come from folds;
# two layers descend.
_RIDGES = {"JointOCKSR": 1.0, "IndependentOCKSR": 6.25, "NonlinearOCKSR": 37.0}
_RIDGES_OF_EIGENDECOMPOSITION = 6.25
#: Rows that settings are judged by at least, where there are as many.
FEWEST_ROWS = 1000


def seconds_to_fit(model: MultiTaskOneClass, rows: TrainingRows) -> float:
    """Seconds that a fit of one of the methods of `auto` takes on one core, about.

    Parameters
    ----------
    model : JointOCKSR, IndependentOCKSR or NonlinearOCKSR
    rows : TrainingRows

    Returns
    -------
    float
    """
    sizes = np.array([len(rows.codes)], dtype=np.float64)
    if not model.can.joint:
        sizes = np.bincount(rows.codes[~rows.outlier]).astype(np.float64)
    points = sizes if model.landmarks is None else np.minimum(sizes, model.landmarks)
    cubes = float(np.sum(sizes * points**2))
    return _RIDGES[type(model).__name__] * cubes / _CUBES_A_SECOND


def is_affordable(model: MultiTaskOneClass, rows: TrainingRows) -> bool:
    """Whether a fit takes no more time than `auto` spends on one."""
    return seconds_to_fit(model, rows) <= _MOST_SECONDS


def rows_to_judge_by(n_kernels: int) -> int:
    """Rows that leave time for as many eigendecompositions; it depends on nothing else."""
    cubes = _MOST_SECONDS * _CUBES_A_SECOND / _RIDGES_OF_EIGENDECOMPOSITION
    return max(FEWEST_ROWS, int(np.cbrt(cubes / n_kernels)))
