"""From rows to a solution: metric, kernel, solver, presence, left-out scores. Nothing is kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from manyone import validation
from manyone._types import Array, Codes
from manyone.calibration.folds import Refit, solve_with_folds
from manyone.covariance import TaskWhitenings, Whitening, pooled_whitening, task_whitenings
from manyone.groups import renumbered
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import Kernel
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution
from manyone.rows import TrainingRows
from manyone.suspects import trust

if TYPE_CHECKING:
    from manyone.estimators.base import MultiTaskOneClass

# Refits for thresholds where a learned metric forbids the closed form; the fewer, the more rows a
# model lacks and the lower it scores those that were left out.
_FOLDS = 15
# Points that folds are dealt by.
_MOST_POINTS = 2000


def learn(model: MultiTaskOneClass, rows: TrainingRows, *, left_out: bool) -> Solution:
    """Metric, kernel and solution of rows; the model is not changed.

    Parameters
    ----------
    model : MultiTaskOneClass
        Says how to solve.
    rows : TrainingRows
    left_out : bool
        Whether left-out scores are wanted: by closed form, or else by folds.

    Returns
    -------
    Solution
    """
    if not left_out:
        rows = replace(rows, group=None)
    metric, prepared = None, rows
    if model.metric != "plain":
        metric, prepared = _in_metric(model, replace(rows, group=None))
    gram = Gram.of(prepared, model)
    landmarks, folds = getattr(model, "landmarks", None), model.can.folds or _FOLDS
    by_folds = left_out and metric is None and landmarks is None and model.can.folds > 0
    if by_folds and gram.given is None:
        gram = replace(gram, given=gram.matrix())
    solve = partial(model._solve, gram, prepared, left_out=left_out and metric is None)
    if by_folds and rows.n_tasks > 1:  # there is no closed form: the folds need not wait
        return solve_with_folds(solve, *_by_number(model, gram, rows), rows, folds)
    solution = solve()
    if metric is not None:
        # The metric has seen the rows that a closed form leaves out.
        solution = replace(solution, scorer=InMetric(metric, solution.scorer), left_out=None)
    if solution.left_out_source != rows.left_out_source and rows.group is not None:
        solution = replace(solution, left_out=None)  # one by one is not what was asked for
    if not left_out or solution.left_out is not None:
        return solution
    if gram.given is not None:
        return solve_with_folds(lambda: solution, *_by_number(model, gram, rows), rows, folds)
    return judged_by_folds(model, solution, rows, metric)


def judged_by_folds(
    model: MultiTaskOneClass,
    solution: Solution,
    rows: TrainingRows,
    metric: Whitening | TaskWhitenings | None,
) -> Solution:
    """The solution with scores of its rows by refits without them, metric and width learned anew.

    Parameters
    ----------
    model : MultiTaskOneClass
    solution : Solution
    rows : TrainingRows
    metric : Whitening, TaskWhitenings or None
        Of the solution.

    Returns
    -------
    Solution
    """
    # (Outliers of every task are not dealt to folds: any metric will do.)
    X = rows.X if metric is None else metric.apply(rows.X, np.maximum(rows.codes, 0))
    similarity = _similarity(X, rows, solution.scorer.points.kernel)

    def refit(kept: Codes, held: Codes) -> tuple[Solution, Array]:
        part = learn(model, rows.take(kept), left_out=False)
        return part, part.scorer.own(rows.X[held], rows.codes[held])

    return solve_with_folds(lambda: solution, refit, similarity, rows, model.can.folds or _FOLDS)


def scores_of(model: MultiTaskOneClass, rows: TrainingRows, kept: Codes, judged: Codes) -> Array:
    """Scores (m, T) of some rows against all tasks of a model of others, for `tune`.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    kept, judged : ndarray
        Numbers of the rows to fit to and of the m rows to score.

    Returns
    -------
    ndarray of shape (m, T)
        T tasks that have normal rows among those kept, in the order of their codes.
    """
    part = rows.take(kept)
    used = np.unique(part.codes[~part.outlier])
    part = replace(
        part,
        codes=renumbered(part.codes, used),
        n_tasks=len(used),
        columns=None if rows.columns is None else kept,
    )
    return learn(model, part, left_out=False).scorer.all(rows.X[judged])


def _in_metric(
    model: MultiTaskOneClass, rows: TrainingRows
) -> tuple[Whitening | TaskWhitenings, TrainingRows]:
    """The learned metric, and the rows in it."""
    if rows.columns is not None or sparse.issparse(rows.X):
        raise ValueError(validation.no_metric(model.metric))
    normal = ~rows.outlier
    known = rows.X[normal], rows.codes[normal], rows.weight[normal]
    metric: Whitening | TaskWhitenings
    if model.metric == "whitened":
        metric = pooled_whitening(*known)
    else:
        told: Any = model  # every method that has this metric has these parameters
        priors = (told.scale_prior, told.covariance_prior)
        if told.robust:
            share = trust(*known, rows.n_tasks, *priors)
            used, normal[normal] = share > 0.0, share == 1.0
            known = known[0][used], known[1][used], (known[2] * share)[used]
            rows = rows.take(normal | rows.outlier)
        metric = task_whitenings(*known, rows.n_tasks, *priors)
        rows = rows.shared_out()
    return metric, replace(rows, X=metric.apply(rows.X, rows.codes))


def _by_number(model: MultiTaskOneClass, gram: Gram, rows: TrainingRows) -> tuple[Refit, Array]:
    """Models of some rows that score others, by one kernel matrix; and similarities (n,)."""
    assert gram.given is not None
    # New rows are lines of the matrix then: parts of it need no kernel again.
    K, rows = gram.given, replace(rows, group=None)
    numbered = replace(gram, columns=np.arange(len(K)))

    def refit(kept: Codes, held: Codes) -> tuple[Solution, Array]:
        part = model._solve(numbered.take(kept), rows.take(kept), left_out=False)
        return part, part.scorer.own(K[held], rows.codes[held])

    return refit, K @ (rows.weight / rows.weight.sum())


def _similarity(X: Any, rows: TrainingRows, kernel: Kernel) -> Array:
    """Mean similarity of each row, in its metric, to the normal ones, or to some of many, (n,)."""
    points = replace(rows, X=X).take(np.flatnonzero(~rows.outlier)).merged()[0]
    # By what was given: copies of a row may differ by rounding in a metric.
    content = np.unique(points.content)
    if len(content) > _MOST_POINTS:
        some = content[np.linspace(0, len(content) - 1, _MOST_POINTS).astype(np.intp)]
        points = points.take(np.flatnonzero(np.isin(points.content, some)))
    similarity, share = np.empty(len(rows.codes)), points.weight / points.weight.sum()
    for part, K in Points(kernel, points.X).blocks(X):
        similarity[part] = K @ share
    return similarity
