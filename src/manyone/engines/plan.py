"""What all later passes go by: tasks, kernel, landmarks, and how far rows may be from everything.

A plan is chosen from a sample, once, and never changed: statistics of blocks add up because all of
them are taken in the same features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from manyone._types import Array
from manyone.engines.reach import Reach
from manyone.engines.sample import Sample
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import Kernel
from manyone.kernels.landmarks import landmark_features
from manyone.rows import TrainingRows

# Rows to choose from, for each landmark, and at least.
_CHOICE, _FEWEST = 10, 4096
# Smallest eigenvalue of the landmarks' kernel matrix from which kernel values may be squared.
_WELL_APART = 1e-3


@dataclass(frozen=True, eq=False)
class Plan:
    """Feature rows ``phi(x) = L^-1 k(landmarks, x)`` of m landmarks.

    Parameters
    ----------
    tasks : ndarray of shape (T,)
        Labels, sorted.
    points : Points
        The landmarks, with the kernel.
    factor : ndarray of shape (m, m)
        L, lower Cholesky factor of their kernel matrix.
    reach : Reach or None
        Of the kernel's distance, where it has one.
    direct : bool
        Whether statistics are taken of kernel values instead of feature rows: that saves a
        triangular solve per row, and squares the condition number of L.
    """

    tasks: NDArray[Any]
    points: Points
    factor: Array
    reach: Reach | None
    direct: bool = False

    @classmethod
    def of(
        cls, kernel: Kernel, rows: TrainingRows, tasks: NDArray[Any], landmarks: int, seed: int
    ) -> Plan:
        """Landmarks and reach from rows, whatever their order and the names of their tasks.

        Parameters
        ----------
        kernel : Kernel
        rows : TrainingRows
        tasks : ndarray of shape (T,)
        landmarks : int
            Number of landmarks; fewer are taken where the kernel has a lower rank.
        seed : int

        Returns
        -------
        Plan
        """
        X = rows.X[np.unique(rows.content, return_index=True)[1]]
        features = landmark_features(kernel, X, landmarks, np.random.RandomState(seed), tol=1e-15)[
            1
        ]
        points, factor = Points(kernel, X[features.pivots]), np.asfortranarray(features.factor)
        direct = smallest_eigenvalue(factor) > _WELL_APART
        return cls(tasks, points, factor, Reach.of(kernel, rows), direct)


def smallest_eigenvalue(factor: Array) -> float:
    """About the smallest eigenvalue of ``L L'``: one over the estimated 1-norm of its inverse."""
    norm = float(np.abs(factor @ factor.T).sum(axis=0).max())
    reciprocal, _ = lapack.dpocon(factor, norm, uplo="L")
    return float(reciprocal) * norm


def sample_size(n_landmarks: int) -> int:
    """Rows that landmarks and widths are chosen from."""
    return max(_FEWEST, _CHOICE * n_landmarks)


def seed_of(random_state: Any) -> int:
    """One number that the sample and the landmarks follow from."""
    if isinstance(random_state, int | np.integer):
        return int(random_state) % 2**32
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


def planned(model: Any, sample: Sample) -> Plan:
    """The plan for a sample, with the kernel parameters and landmarks of an estimator."""
    rows, seed = sample.rows(), seed_of(model.random_state)
    return Plan.of(Gram.of(rows, model).kernel, rows, sample.tasks, model.landmarks, seed)
