"""Two kernel layers of many rows, learned from a sample, judged by other rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes, Mask, Rows
from manyone.data.rows import CodedRows
from manyone.data.sample import Sample
from manyone.fitting.left_out import JudgedRows, LeftOutPass, judged_rows
from manyone.fitting.plan import Plan
from manyone.kernels.kernel import resolve_kernel
from manyone.kernels.landmarks import landmark_features
from manyone.models.nearness import LeftOutGuard
from manyone.models.scorers import Scorer
from manyone.solvers.two_layers import TwoLayerProblem


def centres_of(
    problem: TwoLayerProblem, content: Codes, landmarks: int, seed: int
) -> Codes | None:
    """Rows that the second layer is expanded over; None: over all of them.

    They are chosen by randomly pivoted Cholesky of the second kernel where the fit
    starts, see `most_centres`. One row of each task, and the origin, are always among
    them.

    Parameters
    ----------
    problem : TwoLayerProblem
    content : ndarray of shape (n,)
        Numbers of the rows, in whose order they are drawn; the origin has none.
    landmarks, seed : int

    Returns
    -------
    ndarray of shape (q,) or None
        Numbers of rows, ascending.
    """
    number = most_centres(landmarks, problem.R.shape[1])
    if len(content) <= number:
        return None
    order = np.argsort(content, kind="stable")
    origin = np.arange(len(content), len(problem.R))
    Y = problem.Phi[order] @ problem.W
    rng = np.random.RandomState(seed)
    kernel = resolve_kernel("rbf", Y, gamma=problem.theta)
    pivots = landmark_features(kernel, Y, number, rng)[1].pivots
    first = np.unique(problem.groups[order], return_index=True)[1]
    return np.unique(np.concatenate([order[pivots], order[first], origin]))


def most_centres(landmarks: int, n_tasks: int) -> int:
    """Most centres of the second layer: as many as landmarks, or five for each task."""
    return max(landmarks, 5 * n_tasks)


def mostly_drawn(sample: Sample) -> Mask:
    """Tasks (T,) with more rows in the sample than out of it."""
    drawn = np.bincount(sample.stratum, sample.weight, len(sample.totals))
    return np.asarray(drawn[2::2] > 0.5 * sample.counts)


@dataclass(frozen=True, eq=False)
class JudgeNotDrawn(LeftOutPass):
    """The pass that scores rows by the model of a sample without them.

    Parameters
    ----------
    plan : Plan
        Which rows were drawn, and the metric.
    scorer : Scorer
        Of rows in the metric.
    guard : LeftOutGuard
    """

    plan: Plan
    scorer: Scorer
    guard: LeftOutGuard

    def judge(self, rows: CodedRows) -> JudgedRows:
        """See :class:`LeftOutPass`."""
        width = 2 * len(self.scorer.points)
        return judged_rows(self.plan, rows, self._scores, self.guard, width)

    def _scores(self, X: Rows, codes: Codes, weight: Array) -> JudgedRows:
        scores = self.scorer.own(self.plan.in_metric(X), codes)
        return JudgedRows.unknown(len(codes))._replace(scores=scores, seen=scores)
