"""How settings are judged, on training rows alone.

A judge takes settings, and gives values of shape (kinds, m) for each: the area under
the ROC curve at each kind of anomaly, for each of m tasks, splits, or tasks in a fold.
No row is scored by a model that has seen it. :mod:`manyone.selection.search` compares
the means of these values.

``"seen"`` and ``"unseen"`` strangers are rows of other tasks, left out one by one or
with their task: by closed forms (:func:`closed_form_areas`), or by folds in which
everything is refitted (:func:`fold_areas`). ``"faults"`` are made from left-out rows
(:func:`fault_areas`). Rows of other tasks cannot judge a detector of faults: a worn
pump does not look like another pump.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby

import numpy as np
from scipy import sparse
from sklearn.base import clone

from manyone._types import Array, Codes, Mask
from manyone.calibration.folds import (
    JUDGING_FOLDS,
    assign_folds,
    content_order,
    halved_splits,
)
from manyone.data.groups import leaving_together
from manyone.data.rows import TrainingRows, renumbered
from manyone.estimators.base import MultiTaskOneClass
from manyone.fitting.task_ridges import independent_score_grid
from manyone.kernels.gram import Gram
from manyone.metric.robust import robust_weights
from manyone.metric.shrinkage import task_means, task_scales, two_valued_columns
from manyone.metric.strength import LEAST_SCALE_PRIOR
from manyone.models.solution import Solution
from manyone.progress import counted
from manyone.solvers.path import left_out_gaps
from manyone.solvers.ridge import effective_alpha
from manyone.threads import one_blas_thread

#: Values of parameters, by name.
Setting = dict[str, object]
#: Values (kinds, m) of each setting.
Judge = Callable[[list[Setting]], list[Array]]


# --- areas under ROC curves


def rounded(scores: Array) -> Array:
    """Scores rounded to ten digits, so that those of equal rows tie.

    Choices are made by rounded scores, so they do not depend on the order of rows.
    Figures for users are not rounded.
    """
    fraction, exponent = np.frexp(scores)
    return np.ldexp(np.rint(fraction * 2.0**34), exponent - 34)


def areas_of_curves(
    scores: Array,
    curve: Codes,
    positive: Mask,
    weight: Array,
    n_curves: int,
) -> Array:
    """Area under each of many ROC curves.

    Parameters
    ----------
    scores : ndarray of shape (m,)
    curve : ndarray of shape (m,)
        Number of the curve that each score belongs to.
    positive : ndarray of bool of shape (m,)
        Whether the score should be high.
    weight : ndarray of shape (m,)
    n_curves : int

    Returns
    -------
    ndarray of shape (n_curves,)
        NaN where a curve has no positive or no negative weight. Ties count one half.
    """
    order = np.lexsort((scores, curve))
    scores = scores[order]
    curve = curve[order]
    positive_weight = np.where(positive, weight, 0.0)[order]
    negative_weight = np.where(positive, 0.0, weight)[order]
    rises = scores[1:] != scores[:-1]
    changes = (curve[1:] != curve[:-1]) | rises
    starts = np.append(0, np.flatnonzero(changes) + 1)
    ends = np.append(starts[1:], len(scores))
    # Negative weight of lower scores, over all curves. Equal scores count one half.
    below = np.append(0.0, np.cumsum(negative_weight))
    beaten = np.repeat(0.5 * (below[starts] + below[ends]), ends - starts)
    beaten -= below[np.searchsorted(curve, np.arange(n_curves))][curve]
    won = np.bincount(curve, beaten * positive_weight, n_curves)
    pairs = np.bincount(curve, positive_weight, n_curves)
    pairs *= np.bincount(curve, negative_weight, n_curves)
    return np.divide(won, pairs, out=np.full(n_curves, np.nan), where=pairs > 0)


def task_aucs(
    scores: Array,
    codes: Codes,
    outlier: Mask | None = None,
    weight: Array | None = None,
) -> Array:
    """Area under the ROC curve of each task: its normal rows against all other rows.

    Parameters
    ----------
    scores : ndarray of shape (..., n, T)
        Score of every row against every task.
    codes : ndarray of shape (n,)
        Task of each row; any other value than 0..T-1 makes it a negative of every task.
    outlier : ndarray of bool of shape (n,) or None
        Rows that are negatives of every task, their own included.
    weight : ndarray of shape (n,) or None
        Counts.

    Returns
    -------
    ndarray of shape (..., T)
        NaN where a task has no positive or no negative row. Ties count one half.
    """
    *stack, n, n_tasks = scores.shape
    owner = codes if outlier is None else np.where(outlier, -1, codes)
    curves = np.moveaxis(scores, -1, -2).reshape(-1, n)
    number = np.arange(len(curves))
    aucs = areas_of_curves(
        curves.ravel(),
        np.repeat(number, n),
        (owner == (number % n_tasks)[:, None]).ravel(),
        np.tile(np.ones(n) if weight is None else weight, len(curves)),
        len(curves),
    )
    return aucs.reshape(*stack, n_tasks)


def own_aucs(scores: Array, codes: Codes, outlier: Mask, n_tasks: int) -> Array:
    """Area under the ROC curve (T,) of each task's normal and abnormal rows.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Score of every row against its task.
    codes : ndarray of shape (n,)
        Task of each row, from 0 to T - 1.
    outlier : ndarray of bool of shape (n,)
    n_tasks : int
        T.

    Returns
    -------
    ndarray of shape (T,)
        NaN where a task has no normal or no abnormal row. Ties count one half.
    """
    weight = np.ones(len(scores))
    return areas_of_curves(scores, codes, ~outlier, weight, n_tasks)


def _aucs_against(scores: Array, owner: Codes, negative: Mask, weight: Array) -> Array:
    """AUC (T,) of the rows of each task against shared negatives."""
    n_tasks = scores.shape[1]
    owned = np.flatnonzero(owner >= 0)
    against = scores[negative]
    curve = np.append(owner[owned], np.repeat(np.arange(n_tasks), len(against)))
    return areas_of_curves(
        np.append(scores[owned, owner[owned]], against.T),
        curve,
        np.arange(len(curve)) < len(owned),
        np.append(weight[owned], np.tile(weight[negative], n_tasks)),
        n_tasks,
    )


def finite_mean(values: Array) -> float:
    """Mean of the finite values; NaN if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan


# --- rows to judge by


def content_sample(rows: TrainingRows, max_rows: int) -> TrainingRows:
    """At most `max_rows` rows, of as many tasks as possible, chosen by content."""
    if len(rows.codes) <= max_rows:
        return rows
    of_task = rows.codes >= 0
    counts = np.bincount(rows.codes[of_task], minlength=rows.n_tasks)
    # At least two rows of each task that is used, so that one can be left out. Large
    # tasks lose rows first.
    used = np.sort(content_order(rows)[: max(2, max_rows // 2)])
    quota = max_rows
    while np.minimum(counts[used], quota).sum() > max_rows and quota > 2:
        quota -= max(1, quota // 100)
    wanted = np.zeros(rows.n_tasks + 1, dtype=np.intp)
    wanted[used] = np.minimum(counts[used], quota)
    # Rows of a task are in the order of their content: they are chosen evenly.
    starts = np.append(np.cumsum(counts) - counts, 0)
    place = np.arange(len(rows.codes)) - starts[rows.codes]
    size = np.append(counts, 1)[rows.codes]
    quota_of_row = wanted[rows.codes]
    chosen = (place * quota_of_row // size) != ((place - 1) * quota_of_row // size)
    sample = rows.take(np.flatnonzero(chosen | ~of_task))
    return replace(sample, codes=renumbered(sample.codes, used), n_tasks=len(used))


# --- strangers


def closed_form_areas(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    criterion: str,
    settings: list[Setting],
) -> list[Array]:
    """AUC of every task by closed forms, in the plain metric.

    One eigendecomposition serves all ridges of a kernel, if settings that differ in
    ``alpha`` alone follow one another.

    Parameters
    ----------
    model : MultiTaskOneClass
        A ridge regression, joint or of each task.
    rows : TrainingRows
    criterion : {"seen", "unseen"}
    settings : list of dict
        Each with ``alpha``.

    Returns
    -------
    list of ndarray of shape (1, T)
    """
    rows = rows.merged()[0]
    # A model without one copy of a row would still know it from the others.
    rows = replace(rows, weight=np.minimum(rows.weight, 1.0), forward=False)
    task_numbers = np.arange(rows.n_tasks)
    can_be_judged = np.ones(rows.n_tasks, dtype=bool)
    leaving = None
    if rows.group is not None:
        # Tasks of one group cannot be judged.
        leaving = [left.gone for left in leaving_together(rows)]
        owners = [rows.codes[gone[0]] for gone in leaving]
        can_be_judged = np.isin(task_numbers, owners)
    tasks = None
    if criterion == "unseen":
        starts = np.searchsorted(rows.codes[rows.codes >= 0], task_numbers[1:])
        tasks = np.split(np.flatnonzero(rows.codes >= 0), starts)
    responses = rows.responses()

    def scores_of_ridges(kernel: Setting, alphas: Array) -> Array:
        gram = Gram.of(rows, clone(model).set_params(metric="plain", **kernel))
        if model.can.left_out_grid == "each task":
            return independent_score_grid(gram, rows, alphas)
        K = gram.matrix()
        ridges = effective_alpha(alphas, float(np.diagonal(K) @ rows.weight))
        with one_blas_thread(len(K)):
            gaps = left_out_gaps(K, responses, ridges, rows.weight, tasks, leaving)
        return -np.abs(gaps, out=gaps)

    def kernel_of(setting: Setting) -> Setting:
        names = setting.keys() - {"alpha", "metric"}
        return {name: setting[name] for name in names}

    kernels = [(kernel, [*group]) for kernel, group in groupby(settings, kernel_of)]
    values: list[Array] = []
    for kernel, group in counted(kernels):
        alphas = np.array([setting["alpha"] for setting in group], dtype=np.float64)
        scores = scores_of_ridges(kernel, alphas)
        aucs = task_aucs(rounded(scores), rows.codes, rows.outlier, rows.weight)
        values += list(np.where(can_be_judged, aucs, np.nan)[:, None])
    return values


def fold_areas(
    model: MultiTaskOneClass, rows: TrainingRows, kind: str, settings: list[Setting]
) -> list[Array]:
    """AUC of every split, everything refitted inside; see :func:`fold_aucs`.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    kind : {"seen", "unseen", "both"}
    settings : list of dict

    Returns
    -------
    list of ndarray of shape (1, k)
    """
    # Else copies of a row would be judged by models that have seen one of them.
    rows = rows.merged()[0]
    values = []
    for setting in counted(settings):
        candidate = clone(model).set_params(**setting)
        values.append(fold_aucs(partial(scores_of, candidate, rows), rows, kind)[None])
    return values


def fold_aucs(
    scores_of: Callable[[Codes, Codes], Array], rows: TrainingRows, kind: str
) -> Array:
    """AUC per split of rows, mean over its tasks, by refitted models.

    Parameters
    ----------
    scores_of : callable
        Takes numbers of rows to fit to and of m rows to score. Returns scores (m, T)
        against the T tasks of the former, in the order of their codes.
    rows : TrainingRows
    kind : {"seen", "unseen", "both"}
        For ``"both"`` the mean of both kinds.

    Returns
    -------
    ndarray of shape (k,)
        In the order of :func:`manyone.calibration.folds.halved_splits`; NaN where there
        is nothing to compare.
    """
    means = []
    for train, test, enrolled in halved_splits(rows, kind):
        scores = rounded(scores_of(np.flatnonzero(train), np.flatnonzero(test)))
        used = np.unique(rows.codes[train & ~rows.outlier])
        abnormal = rows.outlier[test]
        weight = rows.weight[test]
        normal = enrolled[test] & ~abnormal
        owner = np.where(normal, renumbered(rows.codes[test], used), -1)
        areas = []
        if kind != "unseen":
            seen = normal | abnormal
            areas.append(task_aucs(scores[seen], owner[seen], None, weight[seen]))
        if kind != "seen":
            areas.append(_aucs_against(scores, owner, ~normal, weight))
        means.append(finite_mean(np.array([finite_mean(aucs) for aucs in areas])))
    return np.array(means)


def scores_of(
    model: MultiTaskOneClass, rows: TrainingRows, kept_rows: Codes, judged_rows: Codes
) -> Array:
    """Scores (m, T) of rows against all tasks of a model of other rows.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    kept_rows, judged_rows : ndarray
        Numbers of the rows to fit to and of the m rows to score.

    Returns
    -------
    ndarray of shape (m, T)
        T tasks with normal rows among those to fit to, in the order of their codes.
    """
    fold = rows.take(kept_rows)
    used = np.unique(fold.codes[~fold.outlier])
    fold = replace(
        fold,
        codes=renumbered(fold.codes, used),
        n_tasks=len(used),
        columns=None if rows.columns is None else kept_rows,
    )
    return _refitted(model, fold).scorer.all(rows.X[judged_rows])


def _refitted(model: MultiTaskOneClass, rows: TrainingRows) -> Solution:
    """The model of a fold; it is exact if it has no more rows than landmarks."""
    if model.landmarks is not None and model.landmarks >= len(rows.codes):
        model = clone(model).set_params(landmarks=None)
    return model._learn(rows, left_out=False)


# --- faults


def refuse_unless_dense(rows: TrainingRows, instead: str) -> None:
    """Raise if faults cannot be made, because rows are sparse or a kernel matrix."""
    if rows.columns is not None or sparse.issparse(rows.X):
        raise ValueError(
            "Choosing for faults moves columns of the rows: it needs dense rows "
            '(X.toarray()), not sparse ones and not kernel="precomputed". Or use '
            f"{instead}."
        )


def fault_areas(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    faults: Array,
    settings: list[Setting],
) -> list[Array]:
    """AUC of every task and fold at each kind of fault; see :func:`fault_aucs`.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
        Copies merged.
    faults : ndarray of shape (r, k, n, d)
        Faulty twins of the rows, r of each of k kinds.
    settings : list of dict

    Returns
    -------
    list of ndarray of shape (k, folds * T)
    """
    values = []
    for setting in counted(settings):
        score = partial(_own_scores, clone(model).set_params(**setting), rows)
        areas = fault_aucs(score, rows, faults.reshape(-1, *rows.X.shape))
        values.append(areas.reshape(*faults.shape[:2], -1).mean(axis=0))
    return values


def _own_scores(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    kept_rows: Codes,
    X: Array,
    codes: Codes,
) -> Array:
    """Scores (m,) of new rows against their tasks, by a model of a part of the rows."""
    return _refitted(model, rows.take(kept_rows)).scorer.own(X, codes)


def fault_aucs(
    score: Callable[[Codes, Array, Codes], Array], rows: TrainingRows, faults: Array
) -> Array:
    """How well models tell left-out rows from their faulty twins.

    Parameters
    ----------
    score : callable
        Takes numbers of rows to fit to, new rows (m, d), and their tasks (m,). Returns
        the scores (m,) of the new rows.
    rows : TrainingRows
    faults : ndarray of shape (k, n, d)
        Faulty twins of the rows, k kinds.

    Returns
    -------
    ndarray of shape (k, folds * T)
        Area under the ROC curve of each kind of fault, for each task in each fold; NaN
        where a task has no row to leave out.
    """
    n_kinds = len(faults)
    # Known outliers and the only row (or group) of a task are fitted in every fold.
    fold = assign_folds(rows, None, JUDGING_FOLDS)
    areas = [np.empty((n_kinds, 0))]
    for k in range(fold.max(initial=-1) + 1):
        held = np.flatnonzero(fold == k)
        codes = rows.codes[held]
        new = np.concatenate([rows.X[held], *faults[:, held]])
        scores = score(np.flatnonzero(fold != k), new, np.tile(codes, n_kinds + 1))
        normal, *faulty = rounded(scores).reshape(-1, len(held))
        twice = np.tile(codes, 2)
        is_fault = np.repeat([False, True], len(held))
        of_fold = [
            own_aucs(np.append(normal, twins), twice, is_fault, rows.n_tasks)
            for twins in faulty
        ]
        areas.append(np.array(of_fold))
    return np.concatenate(areas, axis=1)


def without_suspects(rows: TrainingRows) -> TrainingRows:
    """Rows without those far from the others of their task, which may be faults."""
    is_kept = np.ones(len(rows.codes), dtype=bool)
    normal = ~rows.outlier
    trust = robust_weights(
        np.asarray(rows.X)[normal],
        rows.codes[normal],
        rows.weight[normal],
        rows.n_tasks,
    )
    is_kept[normal] = trust == 1.0
    return rows.take(is_kept)


def synthetic_faults(rows: TrainingRows, rng: np.random.RandomState) -> Array:
    """Two faulty twins of every row.

    A *spike* moves one column by four standard deviations of its task. *Swapped
    residuals* give a third of the columns the deviations of another row: each column
    stays plausible, their relations break. Columns of two values (levels of a category)
    are not moved where there are others. No real fault has a value between the two, and
    the narrowest kernel would find it best.

    Random numbers are given out in the order of the content of rows. So the order of
    rows and the names of tasks do not matter.

    Parameters
    ----------
    rows : TrainingRows
        Dense, copies merged.
    rng : RandomState

    Returns
    -------
    ndarray of shape (2, n, d)
        Spikes and swapped residuals; known outliers, and all rows where nothing varies,
        stay as they are.
    """
    if rows.outlier.any():
        normal = np.flatnonzero(~rows.outlier)
        faults = np.stack([rows.X, rows.X])
        faults[:, normal] = synthetic_faults(rows.take(normal), rng)
        return faults
    X = np.asarray(rows.X, dtype=np.float64)
    codes = rows.codes
    n = len(X)
    mean = task_means(X, codes, rows.weight, rows.n_tasks)[codes]
    freedom = np.maximum(np.bincount(codes, rows.weight, rows.n_tasks) - 1.0, 0.0)
    scale, _ = task_scales(X - mean, X, codes, rows.weight, freedom, LEAST_SCALE_PRIOR)
    scale = scale[codes]
    deviation = (X - mean) / scale
    spikes = X.copy()
    swapped = X.copy()
    columns = _columns_to_move(X, deviation)
    if not len(columns):
        return np.stack([spikes, swapped])
    order = np.argsort(rows.content, kind="stable")
    column = columns[rng.randint(len(columns), size=n)]
    sign = rng.choice([-1.0, 1.0], size=n)
    spikes[order, column] += sign * 4.0 * scale[order, column]
    # Each row gets the deviations of the next one in a random ring.
    ring = rng.permutation(n)
    donor = np.empty(n, dtype=np.intp)
    donor[ring] = np.roll(ring, 1)
    n_swapped = max(1, round(len(columns) / 3))
    shuffled = np.argsort(rng.random_sample((n, len(columns))), axis=1)
    swap = columns[shuffled[:, :n_swapped]]
    here = order[:, None]
    there = order[donor][:, None]
    swapped[here, swap] = mean[here, swap] + scale[here, swap] * deviation[there, swap]
    return np.stack([spikes, swapped])


def _columns_to_move(X: Array, deviation: Array) -> Codes:
    """Columns that vary inside tasks, those of two values only if all are."""
    varies = np.ptp(deviation, axis=0) > 0
    measured = varies & ~two_valued_columns(X)
    return np.flatnonzero(measured if measured.any() else varies)
