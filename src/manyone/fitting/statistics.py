r"""Second pass: the sums over rows that a ridge regression needs.

With feature rows :math:`\phi_i` and counts :math:`w_i`:
:math:`G = \sum_i w_i \phi_i \phi_i'` over all rows,
:math:`h_t = \sum_{i \in t} w_i \phi_i` and :math:`n_t = \sum_{i \in t} w_i` over the
normal rows of each task. Sums of blocks add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.linalg import blas, cho_solve

from manyone._types import Array, Codes
from manyone.data.blocks import added, by_task, kernel_blocks
from manyone.data.rows import CodedRows
from manyone.fitting.plan import Plan
from manyone.kernels.landmarks import expanded
from manyone.solvers.ridge import effective_alpha, factorise
from manyone.threads import on_threads


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over rows, in the features of a plan.

    Attributes
    ----------
    moments : ndarray of shape (m, m)
        G, lower triangle.
    tasks : ndarray of shape (t,)
        Codes of the tasks that occur.
    sums : ndarray of shape (t, m)
        h_t of each.
    counts : ndarray of shape (t,)
        n_t of each.
    trace : float
        Sum of ``w_i k(x_i, x_i)``.
    n_rows : int
    """

    moments: Array
    tasks: Codes
    sums: Array
    counts: Array
    trace: float
    n_rows: int


@dataclass(frozen=True, eq=False)
class AddUp:
    """The pass that sums up :class:`Statistics`.

    Parameters
    ----------
    plan : Plan
    """

    plan: Plan

    def of(self, rows: CodedRows) -> Statistics:
        """Statistics of rows whose tasks are numbers."""
        n = len(rows.codes)
        m = len(self.plan.points)
        block = next(kernel_blocks(max(n, 1), m)).stop
        # A thread sums up at least four rows for each landmark before its moments are
        # added to those of others.
        step = block * (1 + 4 * m // block)
        parts = (rows.take(slice(i, i + step)) for i in range(0, max(n, 1), step))
        return reduce(self.merge, on_threads(self._sums, parts))

    def _sums(self, rows: CodedRows) -> Statistics:
        """Statistics of rows that one thread sums up."""
        n = len(rows.codes)
        m = len(self.plan.points)
        normal = np.flatnonzero(~rows.outlier)
        tasks, place = np.unique(rows.codes[normal], return_inverse=True)
        counts = np.bincount(place, rows.weight[normal], len(tasks)).astype(np.float64)
        moments = np.zeros((m, m), order="F")
        sums = np.zeros((len(tasks), m))
        trace = 0.0
        for block in kernel_blocks(n, m):
            weight = rows.weight[block]
            trace += float(weight @ self.plan.diagonal(rows.X[block]))
            summands = self.plan.values if self.plan.raw_moments else self.plan.features
            Phi = np.ascontiguousarray(summands(rows.X[block]))
            of_task = np.flatnonzero(~rows.outlier[block])
            present, summing = by_task(rows.codes[block][of_task], weight[of_task])
            values = Phi if len(of_task) == len(Phi) else Phi[of_task]
            sums[np.searchsorted(tasks, present)] += summing @ values
            if not np.all(weight == 1.0):
                Phi *= np.sqrt(weight)[:, None]
            moments += Phi.T @ Phi
        return Statistics(moments, tasks, sums, counts, trace, n)

    def merge(self, one: Statistics, other: Statistics) -> Statistics:
        """Statistics of the rows of both."""
        tasks, sums, counts = added(
            one.tasks, other.tasks, (one.sums, other.sums), (one.counts, other.counts)
        )
        moments = one.moments + other.moments
        trace = one.trace + other.trace
        n_rows = one.n_rows + other.n_rows
        return Statistics(moments, tasks, sums, counts, trace, n_rows)


@dataclass(frozen=True, eq=False)
class Ridge:
    """Solution of the ridge regression of rows with these statistics.

    Attributes
    ----------
    alpha : float
        The ridge that was used.
    coef : ndarray of shape (m, T)
        Coefficients of the landmarks, in Fortran order.
    factor : ndarray of shape (m, m)
        Lower triangular Q with leverage ``w_i |Q^-1 k_i|^2`` for kernel values k_i.
    counts : ndarray of shape (T,)
    mean_response : ndarray of shape (T,)
    """

    alpha: float
    coef: Array
    factor: Array
    counts: Array
    mean_response: Array


def solve_statistics(plan: Plan, statistics: Statistics, alpha: float) -> Ridge:
    r"""Minimise :math:`\sum_i w_i |\phi_i' W - r_i|^2 + \alpha |W|_F^2` from sums.

    Costs m^3/3 flops for the factor of G + alpha I and 2 m^2 T for the weights of all
    tasks.

    Parameters
    ----------
    plan : Plan
    statistics : Statistics
        Of all rows: every task occurs.
    alpha : float
        0: the smallest that double precision resolves.

    Returns
    -------
    Ridge
    """
    ridge = float(effective_alpha(alpha, statistics.trace))
    H = np.asfortranarray(statistics.sums.T)
    ones = np.ones(len(H))
    if plan.raw_moments:  # W = L' coef: the ridge is alpha coef' L L' coef
        M = statistics.moments + ridge * (plan.factor @ plan.factor.T)
        factor = factorise(M, 0.0, ones, overwrite=True)
        weights = coef = cho_solve((factor, True), H, check_finite=False)
    else:
        lower = factorise(statistics.moments, ridge, ones)
        weights = cho_solve((lower, True), H, check_finite=False)
        coef = expanded(plan.factor, weights)
        factor = blas.dtrmm(1.0, plan.factor, np.tril(lower), lower=1)
    mean = np.einsum("mt,mt->t", H, weights) / statistics.counts
    coef = np.asfortranarray(coef)
    return Ridge(ridge, coef, factor, statistics.counts, mean)


def symmetric(lower: Array) -> Array:
    """The symmetric matrix whose lower triangle is given."""
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)
