"""What all passes share: tasks, kernel, landmarks, the guard of far rows.

A plan is chosen once, from a sample, and never changes. Statistics of blocks add up
because all of them use the same features.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from sklearn.utils import check_random_state

from manyone._types import Array, Labels, Mask, Rows
from manyone.data.hashing import Hashes, row_hashes
from manyone.data.rows import MISSING, TrainingRows
from manyone.data.sample import Sample
from manyone.data.sweeps import Source
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import Kernel
from manyone.kernels.landmarks import landmark_features
from manyone.metric.shrinkage import Whitening
from manyone.models.nearness import TrainingNearness
from manyone.solvers.landmark_positions import solve_landmark_positions
from manyone.solvers.ridge import effective_alpha
from manyone.threads import solve_lower

# Rows of a sample for each landmark, and at least.
_CHOICE = 10
_FEWEST = 10_240
# With a smallest eigenvalue of the kernel matrix of landmarks above this, sums of
# products of kernel values keep digits enough.
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
    metric : Whitening or None
        In which rows are compared with the landmarks; None: as they are.
    raw_moments : bool
        Whether statistics are sums of kernel values, not of feature rows. That saves a
        triangular solve for each row (``bench_scale.py``: 1.4 times the bare arithmetic
        instead of 1.9) and squares the condition number of L.
    drawn : ndarray of shape (s,)
        Hashes of rows that shaped the landmarks, whose left-out scores would be too
        good.
    """

    tasks: Labels
    points: Points
    factor: Array
    metric: Whitening | None = None
    raw_moments: bool = False
    drawn: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        rows: TrainingRows,
        tasks: Labels,
        landmarks: int,
        seed: int,
        metric: Whitening | None = None,
    ) -> Plan:
        """Landmarks from rows, whatever their order and the names of their tasks.

        Parameters
        ----------
        kernel : Kernel
            Of rows in the metric.
        rows : TrainingRows
        tasks : ndarray of shape (T,)
        landmarks : int
            Number of landmarks; fewer are taken where the kernel has a lower rank.
        seed : int
        metric : Whitening or None

        Returns
        -------
        Plan
        """
        X = rows.X[np.unique(rows.content, return_index=True)[1]]
        Z = X if metric is None else metric.apply(X)
        rng = np.random.RandomState(seed)
        features = landmark_features(kernel, Z, landmarks, rng, tol=1e-15)[1]
        points = Points(kernel, Z[features.pivots])
        factor = np.asfortranarray(features.factor)
        raw_moments = smallest_eigenvalue(factor) > _WELL_APART
        return cls(tasks, points, factor, metric, raw_moments)

    def learned(self, sample: Sample, alpha: float) -> Plan:
        """Landmarks moved to where the regression of all tasks fits best.

        At most a quarter of the rows of each task move them, so that the others can
        judge. Landmarks stay where they are if such rows are few beside them or beside
        the tasks. They also stay for sparse rows, a single task, and kernels other than
        "rbf". Nor do more than 512 move: that costs their number cubed, and more
        landmarks are cheaper. (Moved, they do what four times as many rows do:
        ``benchmarks/bench_landmarks.py``.)
        """
        kernel = self.kernel
        quarter = sample.quarter()
        n_tasks = len(self.tasks)
        m = len(self.points)
        dense = not sparse.issparse(quarter.X)
        enough = len(quarter.stratum) >= _CHOICE * max(m, n_tasks) and m <= 512
        if not (enough and dense and n_tasks > 1 and kernel.name == "rbf"):
            return self
        rows = quarter.rows()
        unit = np.sqrt(kernel.gamma[0])
        X = kernel.scaled(self.in_metric(rows.X))
        Z = kernel.scaled(self.points.X)
        ridge = float(effective_alpha(alpha, rows.weight.sum()))
        codes = np.where(rows.outlier, MISSING, rows.codes)
        moved = solve_landmark_positions(
            unit * Z, unit * X, codes, rows.weight, n_tasks, ridge
        )
        Z = self.points.X + kernel.scale * (moved / unit - Z)
        features = Gram(Points(kernel, Z)).features()[1]
        factor = np.asfortranarray(features.factor)
        points = Points(kernel, Z[features.pivots])
        drawn = row_hashes(quarter.X)
        plan = replace(self, points=points, factor=factor, drawn=drawn)
        raw_moments = smallest_eigenvalue(factor) > _WELL_APART
        return replace(plan, raw_moments=raw_moments)

    def unseen(self, X: Rows) -> Mask:
        """Which rows (b, d) had no part in the landmarks, shape (b,)."""
        if not len(self.drawn):
            return np.ones(X.shape[0], dtype=bool)
        return np.isin(row_hashes(X), self.drawn, invert=True)

    @property
    def kernel(self) -> Kernel:
        """Of rows in the metric."""
        return self.points.kernel

    def in_metric(self, X: Rows) -> Rows:
        """Rows (b, d) as they are compared with the landmarks."""
        return X if self.metric is None else self.metric.apply(X)

    def values(self, X: Rows) -> Array:
        """Kernel values of rows (b, d) against the landmarks, shape (b, m)."""
        return self.points.values(self.in_metric(X))

    def features(self, X: Rows) -> Array:
        """Feature rows (b, m) of rows (b, d)."""
        return solve_lower(self.factor, self.values(X))

    def diagonal(self, X: Rows) -> Array:
        """k(x, x) of rows (b, d), shape (b,)."""
        if self.kernel.fading:
            return np.ones(X.shape[0])
        return self.points.diagonal(self.in_metric(X))


def smallest_eigenvalue(factor: Array) -> float:
    """About the smallest eigenvalue of ``L L'``, by the 1-norm of its inverse."""
    norm = float(np.abs(factor @ factor.T).sum(axis=0).max())
    reciprocal, _ = lapack.dpocon(factor, norm, uplo="L")
    return float(reciprocal) * norm


def sample_size(n_landmarks: int) -> int:
    """Rows that landmarks and widths are chosen from."""
    return max(_FEWEST, _CHOICE * n_landmarks)


def seed_of(random_state: object) -> int:
    """A seed for the sample and the landmarks."""
    if isinstance(random_state, int | np.integer):
        return int(random_state) % 2**32
    return int(check_random_state(random_state).randint(2**31 - 1))


class Passes(NamedTuple):
    """What a model of landmarks is solved with.

    Attributes
    ----------
    plan : Plan
    source : Source
    sample : Sample
    nearness : TrainingNearness or None
        The guard that lowers left-out scores, too.
    left_out : bool
        Whether left-out scores are wanted.
    """

    plan: Plan
    source: Source
    sample: Sample
    nearness: TrainingNearness | None
    left_out: bool
