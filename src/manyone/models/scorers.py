"""Scorers of fitted models: kernel expansions, layers, balls, projections.

Every scorer is a frozen value that answers three questions: the score of rows against
their own task (`own`), against every task (`all`), and the score of a row far from
everything (`far`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from manyone._types import Array, Codes, Rows
from manyone.data.rows import row_blocks, rows_by_task
from manyone.kernels.gram import KernelScorer, Points
from manyone.models.solution import Solution
from manyone.solvers.ridge import BLOCK
from manyone.solvers.two_layers import gram, respond


class Scorer(Protocol):
    """What every scorer can tell."""

    @property
    def points(self) -> Points:
        """The rows that it is expanded over."""

    def own(self, X: Rows, codes: Codes) -> Array:
        """Score of each row against its own task, shape (n,)."""

    def all(self, X: Rows) -> Array:
        """Score of each row against every task, shape (n, T)."""

    def far(self) -> Array | None:
        """Score (T,) of rows far from all training rows; None: there is no such limit."""


@dataclass(frozen=True, eq=False)
class TwoLayers(KernelScorer):
    """Score ``-|f_t(x) - target_t|`` of two layers, the second one Gaussian.

    Parameters
    ----------
    points : Points
    coef : ndarray of shape (n, T)
    centres, second_coef : ndarray of shape (m, T)
    theta : float
    target : ndarray of shape (T,)
    """

    points: Points
    coef: Array
    centres: Array
    second_coef: Array
    theta: float
    target: Array

    def own_of(self, K: Array, codes: Codes) -> Array:
        """See :class:`KernelScorer`."""
        response = np.empty(len(K))
        for rows, J in self._second_layer(K):
            coef = self.second_coef.T[codes[rows]]
            response[rows] = np.einsum("ij,ij->i", J, coef)
        return -np.abs(response - self.target[codes])

    def all_of(self, K: Array) -> Array:
        """See :class:`KernelScorer`."""
        scores = np.empty((len(K), len(self.target)))
        for rows, J in self._second_layer(K):
            scores[rows] = -np.abs(J @ self.second_coef - self.target)
        return scores

    def far(self) -> Array | None:
        """See :class:`Scorer`."""
        if not self.points.kernel.fading:
            return None
        nowhere = np.zeros((1, len(self.target)))
        response = respond(nowhere, self.centres, self.second_coef, self.theta)[0]
        return -np.abs(response - self.target)

    def _second_layer(self, K: Array) -> Iterator[tuple[slice, Array]]:
        """Kernel values (b, m) of the second layer, block by block."""
        Y = K @ self.coef
        for start in range(0, len(Y), BLOCK):
            rows = slice(start, min(start + BLOCK, len(Y)))
            yield rows, gram(Y[rows], self.centres, self.theta)


@dataclass(frozen=True, eq=False)
class Balls:
    """Score: minus the squared distance to ``c_t = sum_i coef_i phi(support_i)``.

    Parameters
    ----------
    points : Points
        Support vectors of all tasks, one task after the other.
    starts : ndarray of shape (T + 1,)
        Where each task starts among them.
    coef : ndarray of shape (n,)
    centre_norm2 : ndarray of shape (T,)
        Squared norm of the centres.
    self_similarity : float, ndarray of shape (m, m) or None
        What replaces k(x, x) of a new row that brings kernel values only: a constant,
        or what the training rows explain of it, k(x)' P k(x) with this P.
    training : Points or None
        The training rows of P.
    """

    points: Points
    starts: Codes
    coef: Array
    centre_norm2: Array
    self_similarity: float | Array | None = None
    training: Points | None = None

    def own(self, X: Rows, codes: Codes) -> Array:
        """See :class:`Scorer`."""
        scores = -self._self_similarities(X)
        for task, rows in rows_by_task(codes):
            support = slice(self.starts[task], self.starts[task + 1])
            coef = self.coef[support]
            for block in row_blocks(len(rows), 2 * (len(coef) + X.shape[1])):
                part = rows[block]
                K = self.points.values(X[part], support)
                scores[part] += 2 * (K @ coef) - self.centre_norm2[task]
        return np.minimum(scores, 0.0)

    def all(self, X: Rows) -> Array:
        """See :class:`Scorer`."""
        n = len(self.points)
        T = len(self.centre_norm2)
        centres = self.coef, np.arange(n), self.starts
        dual = sparse.csc_array(centres, shape=(n, T))
        scores = np.empty((X.shape[0], T))
        for rows, K in self.points.blocks(X):
            scores[rows] = 2 * (K @ dual) - self.centre_norm2
        scores -= self._self_similarities(X)[:, None]
        return np.minimum(scores, 0.0)

    def far(self) -> Array | None:
        """See :class:`Scorer`."""
        if not self.points.kernel.fading:
            return None
        return np.minimum(-1.0 - self.centre_norm2, 0.0)

    def _self_similarities(self, X: Rows) -> Array:
        """k(x, x) of new rows, shape (n,)."""
        if self.self_similarity is None:
            return self.points.diagonal(X)
        if self.training is None:
            return np.full(X.shape[0], float(self.self_similarity))
        K = self.training.values(X)
        return np.asarray(np.einsum("ij,ij->i", K @ self.self_similarity, K))


@dataclass(frozen=True, eq=False)
class Projection(KernelScorer):
    """Score: minus the distance between ``K(x) projection`` and the target of the task.

    Parameters
    ----------
    points : Points
    projection : ndarray of shape (n, m)
    targets : ndarray of shape (T, m)
    """

    points: Points
    projection: Array
    targets: Array

    def own_of(self, K: Array, codes: Codes) -> Array:
        """See :class:`KernelScorer`."""
        gap = K @ self.projection - self.targets[codes]
        return -np.sqrt(np.einsum("ij,ij->i", gap, gap))

    def all_of(self, K: Array) -> Array:
        """See :class:`KernelScorer`."""
        scores = np.empty((len(K), len(self.targets)))
        landed = K @ self.projection
        for task, target in enumerate(self.targets):
            gap = landed - target
            scores[:, task] = -np.sqrt(np.einsum("ij,ij->i", gap, gap))
        return scores

    def far(self) -> Array | None:
        """See :class:`Scorer`."""
        if not self.points.kernel.fading:
            return None
        # Where kernel values vanish, rows land in the origin.
        return -np.linalg.norm(self.targets, axis=1)

    def apart(self) -> Array:
        """Root mean square distance of each target from the others, shape (T,)."""
        n_tasks = len(self.targets)
        about_mean = self.targets - self.targets.mean(axis=0)
        squares = np.einsum("tm,tm->t", about_mean, about_mean)
        return np.sqrt((n_tasks * squares + squares.sum()) / (n_tasks - 1))


@dataclass(frozen=True, eq=False)
class InMetric:
    """A scorer of rows in a learned metric, as one of rows as they are.

    Parameters
    ----------
    metric : Whitening or TaskWhitenings
    scorer : Scorer
    """

    metric: Any
    scorer: Scorer

    @property
    def points(self) -> Points:
        """The rows that the scorer is expanded over, in the metric."""
        return self.scorer.points

    def own(self, X: Rows, codes: Codes) -> Array:
        """See :class:`Scorer`."""
        return self.scorer.own(self.metric.apply(X, codes), codes)

    def all(self, X: Rows) -> Array:
        """See :class:`Scorer`."""
        if self.metric.shared:
            return self.scorer.all(self.metric.apply(X))
        # Every task has coordinates of its own.
        tasks = range(len(self.metric.floor))
        return np.column_stack(
            [self.own(X, np.full(X.shape[0], task)) for task in tasks]
        )

    def far(self) -> Array | None:
        """See :class:`Scorer`."""
        return self.scorer.far()


def behind_metric(solution: Solution, metric: Any) -> Solution:
    """The solution of rows in a learned metric, as one of rows as they are."""
    if metric is None:
        return solution
    fixed = f"{solution.fixed} and metric" if solution.fixed else "metric"
    return replace(solution, scorer=InMetric(metric, solution.scorer), fixed=fixed)
