"""Judge settings of an estimator on training rows: by closed forms, or by folds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from manyone.calibration import warn_user
from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels import Array
from manyone.metrics import task_aucs
from manyone.tasks import group_rows
from manyone.validation import TrainingRows

E = TypeVar("E", bound=MultiTaskOneClass)

_FOLDS = 3
#: Parameters that :class:`JointOCKSR` has too.
SHARED = ("kernel", "gamma", "width", "degree", "coef0", "alpha", "metric")
# How a fit runs, not what it models.
_FIXED = {
    "alarm_rate",
    "kernel_params",
    "landmarks",
    "learn_theta",
    "max_iter",
    "n_jobs",
    "random_state",
    "tol",
    "verbose",
    "warm_start",
}


def tunable(model: MultiTaskOneClass) -> list[str]:
    """Names of the parameters that say what is modelled, those of :class:`JointOCKSR` first."""
    known = model.get_params()
    shared = [name for name in SHARED if name in known]
    return shared + [name for name in known if name not in SHARED and name not in _FIXED]


def combinations(values: Mapping[str, list[Any]]) -> Iterable[dict[str, Any]]:
    """Every setting of a grid."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def _entry(
    model: MultiTaskOneClass, aucs: Array, stage: str, final: bool, **changed: Any
) -> dict[str, Any]:
    shown = {name: getattr(model, name) for name in tunable(model)}
    shown.update(changed)
    return {**shown, **_judgement(aucs), "stage": stage, "final": final}


def _judgement(aucs: Array) -> dict[str, float]:
    known = aucs[np.isfinite(aucs)]
    k = len(known)
    mean = float(known.sum()) / k if k else np.nan
    squares = float(((known - mean) ** 2).sum())
    error = np.sqrt(squares / (k - 1) / k) if k > 1 else np.nan
    return {"score": mean, "standard_error": error}


def closed_form(
    model: E,
    rows: TrainingRows,
    settings: list[dict[str, Any]],
    alphas: Sequence[float],
    criterion: str,
    table: list[dict[str, Any]],
) -> E:
    """Judge every setting for all ridges at once; returns the winner, not yet fitted."""
    winner, best = model, -np.inf
    for setting in settings:
        candidate = copy(model).set_params(**setting)
        candidate._resolve_kernel(rows)
        scores = candidate._honest_scores(rows, np.array(alphas, dtype=float), criterion)
        aucs = task_aucs(scores, rows.codes, rows.outlier, rows.weight)
        shared = _entry(candidate, aucs[0], "closed form", True)
        entries = [
            {**shared, "alpha": float(a), **_judgement(line)}
            for a, line in zip(alphas, aucs, strict=True)
        ]
        table.extend(entries)
        top = max(entries, key=lambda entry: entry["score"])
        if top["score"] > best:
            winner, best = candidate.set_params(alpha=top["alpha"]), top["score"]
    return winner


def choose_metric(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    metrics: list[str],
    values: dict[str, list[Any]],
    table: list[dict[str, Any]],
) -> str:
    """The metric whose best coarse setting wins in folds; in doubt the plain one."""
    alphas = values.get("alpha", [model.alpha])
    coarse = {name: options for name, options in values.items() if name in ("kernel", "gamma")}
    coarse["alpha"] = sorted({alphas[0], alphas[len(alphas) // 2], alphas[-1]})
    results = {}
    for metric in sorted(metrics, key=lambda name: name != "plain"):
        aucs = []
        for setting in combinations(coarse):
            candidate = copy(model).set_params(metric=metric, **setting)
            aucs.append(_fold_aucs(candidate, rows, "both"))
            table.append(_entry(candidate, aucs[-1], "metric", False))
        results[metric] = max(aucs, key=_mean)
    (first, plain), *others = results.items()
    for metric, judged in others:
        gain = (judged - plain)[np.isfinite(judged - plain)]
        if len(gain) > 1 and gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
            return metric
    return first


def _mean(aucs: Array) -> float:
    known = aucs[np.isfinite(aucs)]
    return float(known.mean()) if len(known) else -np.inf


def by_folds(
    model: E,
    rows: TrainingRows,
    values: Mapping[str, list[Any]],
    criterion: str,
    table: list[dict[str, Any]],
    cautious: bool = False,
) -> E:
    """Judge every setting by folds; returns the winner, not yet fitted.

    A cautious choice stays with the model's own setting (tried first) unless another is better by
    more than one standard error of the difference.
    """
    settings = list(combinations(values))
    # Copies must not be judged by models that have seen them: one row, with the weight of all.
    rows, first = rows.merged()
    if model.kernel == "precomputed":
        rows = rows._replace(X=rows.X[:, first])
    if cautious:
        mine = {name: getattr(model, name) for name in values}
        settings = [mine, *[setting for setting in settings if setting != mine]]
    tried = [copy(model).set_params(**setting) for setting in settings]
    judged = [_fold_aucs(candidate, rows, criterion) for candidate in tried]
    entries = [_entry(m, aucs, "folds", True) for m, aucs in zip(tried, judged, strict=True)]
    table.extend(entries)
    means = [_mean(aucs) for aucs in judged]
    best = int(np.argmax(means))
    if not np.any(np.isfinite(means)):
        warn_user(
            "No setting could be judged: folds need tasks of two or more distinct rows, and rows "
            "of other tasks or known outliers to tell them from. The first setting was taken."
        )
    if cautious:
        gain = judged[best] - judged[0]
        gain = gain[np.isfinite(gain)]
        if len(gain) < 2 or gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
            best = 0
    entries[best]["picked"] = True
    return tried[best]


def _fold_aucs(model: MultiTaskOneClass, rows: TrainingRows, criterion: str) -> Array:
    """AUC per fold: rows of a fold of half of the tasks, scored by a model of the other folds.

    Negatives are the known outliers of the fold and its rows of other tasks in the model ("seen"),
    or the rows of tasks that are not in it ("unseen"); "both" is their mean.
    """
    scores, precomputed = [], model.kernel == "precomputed"
    for train, test, enrolled in _splits(rows, len(model.tasks_)):
        candidate, kept = copy(model), np.flatnonzero(train)
        used = np.unique(rows.codes[train & ~rows.outlier])
        candidate.tasks_ = model.tasks_[used]
        if precomputed:
            candidate.fit_rows_ = kept
        part = rows.take(kept, square=precomputed)
        candidate._fit_rows(part._replace(codes=renumbered(part.codes, used)), calibrate=False)
        judged = rows.take(np.flatnonzero(test))
        values = candidate._all_scores(candidate._prepare(judged.X))
        known = enrolled[test] & ~judged.outlier
        positive = np.where(known, renumbered(judged.codes, used), -1)
        kinds = []
        if criterion in ("seen", "both"):
            mine = known | judged.outlier
            kinds.append(_mean_auc(values[mine], positive[mine], judged.weight[mine]))
        if criterion in ("unseen", "both"):
            # Rows of other enrolled tasks are not negatives here: hide them task by task.
            kinds.append(_mean_unseen_auc(values, positive, known, judged.weight))
        scores.append(_mean(np.array(kinds)) if np.any(np.isfinite(kinds)) else np.nan)
    return np.array(scores)


def _splits(
    rows: TrainingRows, n_tasks: int
) -> Iterable[tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]]:
    """Rows to fit to, rows to judge by, and rows whose tasks (or no task) are in the model."""
    known, strange = np.flatnonzero(~rows.outlier), np.flatnonzero(rows.outlier)
    order, starts = group_rows(rows.codes[known], n_tasks)
    place = np.empty(len(rows.codes), dtype=np.intp)
    place[strange] = np.arange(len(strange))
    place[known[order]] = np.arange(len(known)) - np.repeat(starts[:-1], np.diff(starts))
    single = np.diff(starts) == 1
    for half, fold in itertools.product(range(2), range(_FOLDS)):
        enrolled = (rows.codes % 2 == half) | (rows.codes < 0)
        in_fold = place % _FOLDS == fold
        # The only row of a task stays in the model.
        in_fold &= rows.outlier | ~(enrolled & single[np.maximum(rows.codes, 0)])
        train, test = enrolled & ~in_fold, in_fold | ~enrolled
        if np.any(train & ~rows.outlier) and np.any(test & enrolled & ~rows.outlier):
            yield train, test, enrolled


def renumbered(codes: NDArray[np.intp], used: NDArray[np.intp]) -> NDArray[np.intp]:
    """Codes counted among the (sorted) `used` ones; -1 for all others."""
    position = np.searchsorted(used, codes)
    position = np.minimum(position, len(used) - 1)
    return np.where(used[position] == codes, position, -1)


def _mean_auc(scores: Array, codes: NDArray[np.intp], weight: Array) -> float:
    aucs = task_aucs(scores, codes, weight=weight)
    return float(np.nanmean(aucs)) if np.any(np.isfinite(aucs)) else np.nan


def _mean_unseen_auc(
    scores: Array, positive: NDArray[np.intp], known: NDArray[np.bool_], weight: Array
) -> float:
    aucs = []
    for t in range(scores.shape[1]):
        kept = (positive == t) | ~known
        owner = np.where(positive[kept] == t, 0, -1)
        aucs.append(task_aucs(scores[kept][:, [t]], owner, weight=weight[kept])[0])
    values = np.array(aucs)
    return float(np.nanmean(values)) if np.any(np.isfinite(values)) else np.nan
