"""A sparse second layer by passes: a lasso needs sums over the rows, and no more.

A lasso has no closed form without a row. Rows that were not drawn are dealt to folds by their
content; the sums of a fold are subtracted from those of all rows, and a lasso of what is left
judges the fold. Drawn rows, which shaped the first layer, have a part in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Rows
from manyone.data.hashing import row_hashes
from manyone.data.rows import CodedRows
from manyone.fitting.left_out import LeftOutPass, judged_rows
from manyone.fitting.plan import Plan
from manyone.fitting.statistics import AddUp, Statistics
from manyone.models.guards import LeftOutGuard
from manyone.solvers.sparse import as_lasso
from manyone.solvers.sparse_group_lasso import solve_sparse_group_lasso
from manyone.solvers.two_layer_landmarks import add_rounding

_FOLDS = 5
_GAP = 1e-6  # relative duality gap


class LassoLayer(NamedTuple):
    """Coefficients (q, T), mean responses (T,), block norms (S, T) and the relative gap."""

    coef: Array
    mean: Array
    structure: Array
    gap: float


def dealt(plan: Plan, rows: CodedRows) -> list[CodedRows]:
    """Rows of each fold: 1, 2, ... by their content, 0 if they were drawn."""
    fold = folds_of(plan, rows)
    return [rows.take(np.flatnonzero(fold == k)) for k in range(_FOLDS + 1)]


def folds_of(plan: Plan, rows: CodedRows) -> Codes:
    """Fold of each row (n,): 1, 2, ... by its content, 0 if it was drawn."""
    fold = 1 + (row_hashes(rows.X) % np.uint64(_FOLDS)).astype(np.intp)
    fold[~plan.unseen(rows.X)] = 0
    return fold


@dataclass(frozen=True, eq=False)
class AddUpFolds:
    """The pass that sums up the statistics of every fold.

    Parameters
    ----------
    plan : Plan
    """

    plan: Plan

    def of(self, rows: CodedRows) -> list[Statistics]:
        """Statistics of the folds of rows whose tasks are numbers."""
        return [AddUp(self.plan).of(fold_rows) for fold_rows in dealt(self.plan, rows)]

    def merge(self, one: list[Statistics], other: list[Statistics]) -> list[Statistics]:
        """Statistics of the rows of both."""
        return [a + b for a, b in zip(one, other, strict=True)]


@dataclass(frozen=True, eq=False)
class JudgeFolds(LeftOutPass):
    """The pass that scores every row that was not drawn by the layer without its fold.

    Parameters
    ----------
    plan : Plan
        Of the second layer.
    layers : list of LassoLayer
    guard : LeftOutGuard
    """

    plan: Plan
    layers: list[LassoLayer]
    guard: LeftOutGuard

    def scores(self, rows: CodedRows) -> tuple[Array, Array]:
        """See :class:`LeftOutPass`."""
        fold = folds_of(self.plan, rows)
        scores = np.full(len(rows.codes), np.nan)
        # Copies share a fold: no layer has seen the copy of a row that it judges.
        seen = np.full(len(rows.codes), np.inf)
        width = len(self.plan.points)
        for number, layer in enumerate(self.layers, start=1):
            members = np.flatnonzero(fold == number)
            score = partial(self._scores, layer)
            fold_rows = rows.take(members)
            scores[members], seen[members] = judged_rows(
                self.plan, fold_rows, score, self.guard, width
            )
        return scores, seen

    def _scores(
        self, layer: LassoLayer, X: Rows, codes: Codes, weight: Array
    ) -> tuple[Array, Array]:
        responses = np.einsum("ij,ij->i", self.plan.values(X), layer.coef.T[codes])
        unknown = np.full(len(responses), np.inf)
        return -np.abs(responses - layer.mean[codes]), unknown


def lasso_layer(
    statistics: Statistics, sources: Codes, l1: float, group: float
) -> LassoLayer:
    """Minimise ``sum_i w_i |f(y_i) - r_i|^2 + l1 |B|_1 + group sum_{s,t} |B_{G_s,t}|_2`` over B.

    Parameters
    ----------
    statistics : Statistics
        Of kernel values against the centres.
    sources : ndarray of shape (q,)
        ``G_s`` are the centres whose source is s.
    l1, group : float

    Returns
    -------
    LassoLayer
    """
    moments = add_rounding(
        statistics.moments.copy(order="F"), float(statistics.counts.sum())
    )
    slopes = np.asfortranarray(statistics.sums.T)
    design, target = as_lasso(moments, slopes)
    lasso = solve_sparse_group_lasso(design, target, sources, l1, group, tol=_GAP)
    mean = np.einsum("qt,qt->t", slopes, lasso.B) / statistics.counts
    return LassoLayer(
        np.asfortranarray(lasso.B), mean, lasso.structure, lasso.duality_gap
    )


def summed(parts: list[Statistics]) -> Statistics:
    """Statistics of all rows."""
    return reduce(Statistics.__add__, parts)
