"""Faults made from normal rows, to choose settings by where no fault is known.

Rows of other tasks are the wrong judge of a detector of faults: a worn pump does not look like
another pump. Two kinds of fault are made from every row. A *spike* moves one column by four
standard deviations of its task. *Swapped residuals* give a third of the columns the deviations of
another row: each column stays plausible, their relations break. Columns of two values (levels of a
category) stay as they are where there are others: a value between the two, or beyond, is no fault
that will ever come, and the narrowest kernel would find it best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from manyone._types import Array, Codes
from manyone.estimators.base import MultiTaskOneClass, learn
from manyone.estimators.capabilities import Grid
from manyone.metric.robust import robust_weights
from manyone.metric.shrinkage import task_means, task_scales, two_valued_columns
from manyone.progress import counted
from manyone.rows import TrainingRows, places
from manyone.selection.judging import Judged, beats, finite_mean, own_aucs

_METRICS = ("whitened", "plain")
_KERNELS: Grid = {"kernel": ("laplacian", "rbf"), "width": (3.0, 1.0, 0.3, 0.1)}
_STRENGTHS: Grid = {
    "alpha": (0.01, 0.1, 1.0),
    "nu": (0.02, 0.1, 0.5),
    "scale_prior": (0.5, 2.0, 8.0),
    "covariance_prior": (1.0, 3.0, 10.0),
}
_FOLDS = 3
_SPIKE = 4.0
# Some twenty settings are compared with one: the luckiest of them is often a standard error ahead.
_ERRORS = 3.0
# Rows that the pooled column scales and covariance count for beside a task's own.
_SCALE_PRIOR, _COVARIANCE_PRIOR = 2.0, 3.0


def synthetic_faults(rows: TrainingRows, rng: np.random.RandomState) -> Array:
    """Two faulty twins of every row.

    What is drawn goes by the content of the rows, so their order and the names of their tasks do
    not matter.

    Parameters
    ----------
    rows : TrainingRows
        Dense, copies merged.
    rng : RandomState

    Returns
    -------
    ndarray of shape (2, n, d)
        Spikes and swapped residuals; known outliers, and all rows where nothing varies, stay as
        they are.
    """
    if rows.outlier.any():
        normal = np.flatnonzero(~rows.outlier)
        faults = np.stack([rows.X, rows.X])
        faults[:, normal] = synthetic_faults(rows.take(normal), rng)
        return faults
    X, codes = np.asarray(rows.X, dtype=np.float64), rows.codes
    n = len(X)
    mean = task_means(X, codes, rows.weight, rows.n_tasks)[codes]
    freedom = np.maximum(np.bincount(codes, rows.weight, rows.n_tasks) - 1.0, 0.0)
    scale = task_scales(X - mean, X, codes, rows.weight, freedom, _SCALE_PRIOR)[codes]
    deviation = (X - mean) / scale
    varies = np.ptp(deviation, axis=0) > 0
    measured = varies & ~two_valued_columns(X)
    varies = np.flatnonzero(measured if measured.any() else varies)
    spikes, swapped = X.copy(), X.copy()
    if not len(varies):
        return np.stack([spikes, swapped])
    order = np.argsort(rows.content, kind="stable")
    column = varies[rng.randint(len(varies), size=n)]
    sign = rng.choice([-1.0, 1.0], size=n)
    spikes[order, column] += sign * _SPIKE * scale[order, column]
    # Another row for each: the next one in a random ring.
    ring = rng.permutation(n)
    other = np.empty(n, dtype=np.intp)
    other[ring] = np.roll(ring, 1)
    few = max(1, round(len(varies) / 3))
    chosen = varies[np.argsort(rng.random_sample((n, len(varies))), axis=1)[:, :few]]
    here, there = order[:, None], order[other][:, None]
    swapped[here, chosen] = (
        mean[here, chosen] + scale[here, chosen] * deviation[there, chosen]
    )
    return np.stack([spikes, swapped])


def refuse_unless_dense(rows: TrainingRows, instead: str) -> None:
    """Faults are made from columns: there must be some, and they must be dense."""
    if rows.columns is not None or sparse.issparse(rows.X):
        raise ValueError(
            "Choosing for faults moves columns of the rows: it needs dense rows (X.toarray()), not "
            f'sparse ones and not kernel="precomputed". Or use {instead}.'
        )


def fault_aucs(
    score: Callable[[Codes, Array, Codes], Array], rows: TrainingRows, faults: Array
) -> Array:
    """How well models tell rows they have not seen from their faulty twins.

    Parameters
    ----------
    score : callable
        Fits to the rows given by number and scores new rows (m, d) of tasks given by number (m,).
    rows : TrainingRows
    faults : ndarray of shape (k, n, d)
        Faulty twins of the rows, k kinds.

    Returns
    -------
    ndarray of shape (k, folds * T)
        Area under the ROC curve of each kind of fault, for each task in each fold; NaN where a task
        has no row to leave out.
    """
    normal = np.flatnonzero(~rows.outlier)
    group = None if rows.group is None else rows.group[normal]
    place, counts = places(rows.codes[normal], group)
    # Known outliers, and the only row (or group) of a task, are in every model.
    fold = np.full(len(rows.codes), -1)
    fold[normal] = np.where(counts > 1, place % _FOLDS, -1)
    found = []
    for k in range(min(_FOLDS, int(counts.max()))):
        kept, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if not len(held):
            continue
        codes = rows.codes[held]
        new = np.concatenate([rows.X[held], *faults[:, held]])
        scores = score(kept, new, np.tile(codes, len(faults) + 1)).reshape(
            -1, len(held)
        )
        twice, fault = np.tile(codes, 2), np.repeat([False, True], len(held))
        pairs = (np.append(scores[0], faulty) for faulty in scores[1:])
        found.append([own_aucs(both, twice, fault, rows.n_tasks) for both in pairs])
    return np.concatenate(found, axis=1) if found else np.empty((len(faults), 0))


def fault_grid(model: MultiTaskOneClass) -> Grid:
    """What is tried for faults, what to prefer first."""
    return {
        "metric": ("adaptive", *_METRICS) if model.can.task_metric else _METRICS,
        **_KERNELS,
    }


def fault_strengths(model: MultiTaskOneClass) -> Grid:
    """What is tried afterwards, one parameter at a time: other values than the model's own."""
    known = model.get_params()
    return {
        name: [value for value in values if value != known[name]]
        for name, values in _STRENGTHS.items()
        if name in known
    }


def preferred_first(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings with metrics adapted most, Laplacian kernels and wide ones first."""

    def rank(setting: dict[str, Any]) -> tuple[bool, bool, bool, float]:
        metric, kernel = setting.get("metric"), setting.get("kernel")
        width = setting.get("width", 1.0)
        return metric != "adaptive", metric == "plain", kernel != "laplacian", -width

    return sorted(settings, key=rank)


def by_faults(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    settings: list[dict[str, Any]],
    strengths: Grid,
    random_state: Any,
) -> tuple[list[Judged], int]:
    """Judge settings by faults made from rows that do not stand apart; see `choose_for_faults`."""
    rows = _together(rows.merged()[0])
    # The same faults whenever no others are asked for.
    rng = check_random_state(0 if random_state is None else random_state)
    made = synthetic_faults(rows, rng)

    def judge(setting: dict[str, Any]) -> Array:
        tried = clone(model).set_params(**setting)

        def score(kept: Codes, X: Array, codes: Codes) -> Array:
            return learn(tried, rows.take(kept), left_out=False).scorer.own(X, codes)

        return fault_aucs(score, rows, made)

    found, best = choose_for_faults(judge, settings, strengths)
    return [one._replace(aucs=one.aucs.mean(axis=0)) for one in found], best


def _together(rows: TrainingRows) -> TrainingRows:
    """Without normal rows that stand apart: a fault among them would be taken for normal."""
    kept, normal = np.ones(len(rows.codes), dtype=bool), ~rows.outlier
    known = np.asarray(rows.X)[normal], rows.codes[normal], rows.weight[normal]
    kept[normal] = (
        robust_weights(*known, rows.n_tasks, _SCALE_PRIOR, _COVARIANCE_PRIOR) == 1.0
    )
    return rows.take(kept)


def choose_for_faults(
    judge: Callable[[dict[str, Any]], Array],
    settings: list[dict[str, Any]],
    strengths: Grid,
) -> tuple[list[Judged], int]:
    """Try settings; leave the first only for one that is better at every kind of fault.

    A setting may be good at one kind that was made up and bad at those that will come, so it must
    win each comparison by more than three standard errors.

    Parameters
    ----------
    judge : callable
        AUC (k, m) of a setting, for each kind of fault.
    settings : list of dict
        The one to prefer first.
    strengths : mapping of parameter name to values
        Tried afterwards, one parameter at a time.

    Returns
    -------
    list of Judged, int
        Everything that was tried, AUC (k, m) for each kind of fault, and the number of the setting
        to take.
    """
    table: list[Judged] = []

    def attempt(setting: dict[str, Any]) -> None:
        table.append(Judged(setting, judge(setting), "faults"))

    for setting in counted(settings):
        attempt(setting)
    best = _cautious(table)
    for name, values in strengths.items():
        chosen, first = table[best], len(table)
        if (
            name.endswith("_prior")
            and chosen.setting.get("metric", "adaptive") != "adaptive"
        ):
            continue
        for value in counted(values):
            attempt({**chosen.setting, name: value})
        better = _cautious([chosen, *table[first:]])
        best = best if better == 0 else first + better - 1
    return table, best


def _cautious(table: list[Judged]) -> int:
    """The best of those settings that beat the first at every kind of fault, or the first."""
    best, top = 0, finite_mean(table[0].aucs)
    for number, one in enumerate(table):
        mean = finite_mean(one.aucs)
        pairs = zip(one.aucs, table[0].aucs, strict=True)
        if mean > top and all(beats(new, old, _ERRORS) for new, old in pairs):
            best, top = number, mean
    return best
