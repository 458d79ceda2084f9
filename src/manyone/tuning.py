"""Choose kernel, width, ridge and metric on training rows, almost without refits."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import validate_parameter_constraints

from manyone.calibration import warn_user
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.joint import JointOCKSR
from manyone.kernels import Array
from manyone.metrics import task_aucs
from manyone.tasks import group_rows, split_column
from manyone.validation import TrainingRows, check_all_have_rows

E = TypeVar("E", bound=MultiTaskOneClass)

#: What `tune` tries when it is not told: robust on images, embeddings and tables.
DEFAULT_GRID: dict[str, Sequence[Any]] = {
    "kernel": ("rbf", "laplacian", "rbf+laplacian"),
    "width": (0.5, 1.0, 2.0),
    "alpha": tuple(float(a) for a in np.logspace(-3, 0, 7)),
    "metric": ("plain", "whitened"),
}
_FOLDS = 3
# With fewer tasks than this, what two halves of the tasks say about a metric is noise.
_FEWEST_TASKS_FOR_METRIC = 8
# Judging on some of the rows keeps at least that many tasks.
_FEWEST_TASKS = 4


def tune(
    estimator: E,
    X: Any,
    y: Any = None,
    *,
    task: Any = None,
    outlier: Any = None,
    sample_weight: Any = None,
    criterion: str = "unseen",
    grid: Mapping[str, Iterable[Any]] | None = None,
    max_rows: int | None = 200,
    calibrate: bool = True,
) -> E:
    """Fit the best setting of a grid, chosen on the training rows alone.

    Each candidate is judged by the mean over tasks of the area under the ROC curve with the rows of
    a task as positives and all other rows as negatives, none of them scored by a model that has
    seen it. For kernel, width and ridge these are closed forms: one eigendecomposition per kernel
    serves all ridges. The metric, which looks at all rows, is chosen by folds with everything
    refitted inside, and ``"whitened"`` must win by more than one standard error. With fewer
    than eight tasks that is noise: the metric stays plain, unless the grid asks (and there are four
    tasks).

    Methods that learn a structure get kernel, width, ridge and metric as :class:`JointOCKSR` would;
    strengths of their own are then judged by folds, and without a grid the estimator's value stays
    unless another is better by more than one standard error. Other methods are judged by folds.

    Parameters
    ----------
    estimator : estimator of this package
        Gives the values of what is not in the grid. It is not changed.
    X : array-like, sparse matrix or data frame of shape (n, d)
    y : ignored
    task, outlier, sample_weight
        As in `fit`.
    criterion : {"unseen", "seen"}
        ``"seen"``: rows of other tasks are left out one at a time, so their kind is known to the
        model. ``"unseen"``: they are left out with their whole task, which estimates performance
        on kinds of anomaly never seen.
    grid : mapping of parameter name to values, or None
        Any of ``kernel, gamma, width, degree, coef0, alpha, metric`` and the strengths of the
        method; None is :data:`DEFAULT_GRID`, or what the method has instead or beside. Parameters
        not in the grid keep the estimator's value.
    max_rows : int or None, default=200
        Judge on at most that many rows: whole tasks are left aside, evenly over the list of tasks
        (and rows of a task larger than that). The cost of judging grows with its cube; the final
        fit is to all rows. None judges on all of them.
    calibrate : bool, default=True
        False leaves the model without thresholds, which may cost more than the fit itself: it can
        score, and raises alarms once its ``calibrate`` has been given held-out normal rows.

    Returns
    -------
    estimator
        A fitted clone with the best setting; ``tuning_`` is the table of what was tried, a dict of
        arrays (one entry per candidate) that ``pandas.DataFrame`` takes as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import JointOCKSR, tune
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(np.arange(6), 25)
    >>> X = rng.normal(size=(150, 4)) + rng.normal(size=(6, 4))[task]
    >>> model = tune(JointOCKSR(), X, task=task, grid={"alpha": [0.01, 0.1, 1.0]})
    >>> len(model.tuning_["score"])
    3
    """
    if criterion not in ("seen", "unseen"):
        raise ValueError(f'criterion must be "unseen" or "seen"; got {criterion!r}.')
    if not isinstance(estimator, MultiTaskOneClass):
        raise ValueError(
            f"tune works on estimators of manyone; got a {type(estimator).__name__}. "
            "Use GridSearchCV with scoring=manyone.TaskAUC() for others."
        )
    model = clone(estimator)
    model._validate_params()
    if max_rows is not None and (not isinstance(max_rows, Integral) or max_rows < 2):
        raise ValueError(f"max_rows must be None or an integer of at least 2; got {max_rows!r}.")
    if grid is not None and not isinstance(grid, Mapping):
        raise ValueError(f"grid must map names of parameters to lists of values; got {grid!r}.")
    honest, stages = hasattr(model, "_honest_scores"), hasattr(model, "_own_grid")
    start = getattr(model, "_default_grid", DEFAULT_GRID)
    values = _checked_grid({**start, **getattr(model, "_own_grid", {})} if grid is None else grid)
    if model.kernel == "precomputed":
        fixed = [name for name in ("kernel", "gamma", "width", "metric") if name in values]
        if fixed:
            raise ValueError(
                f'With kernel="precomputed" there are no rows to choose {fixed[0]!r} for: '
                'give grid={"alpha": [...]}.'
            )
    unknown = sorted(set(values) - set(_names(model)))
    if unknown:
        raise ValueError(
            f"grid has {unknown[0]!r}, which tune cannot choose for {type(model).__name__}. "
            f"It can choose: {', '.join(sorted(_names(model)))}."
        )
    for name, options in values.items():
        for option in options:
            validate_parameter_constraints(
                model._parameter_constraints, {name: option}, type(model).__name__
            )
    features, labels, mask = split_column(X, task, outlier)
    rows, model.tasks_ = model._training_rows(features, labels, mask, sample_weight, reset=True)
    check_all_have_rows(rows, model.tasks_)
    if len(model.tasks_) < 2 and not rows.outlier.any():
        raise ValueError(
            "tune needs negatives to judge by: at least two tasks, or known outliers "
            f"(outlier=...). Got {len(model.tasks_)} task and no outlier."
        )
    metrics = values.get("metric", [model.metric])
    few = _FEWEST_TASKS_FOR_METRIC if grid is None else _FEWEST_TASKS
    if rows.X.shape[1] < 2 or len(model.tasks_) < few:
        metrics = [m for m in metrics if m == "plain"] or metrics
        values = {**values, "metric": metrics} if "metric" in values else values
    judged = _subset(rows, max_rows, square=model.kernel == "precomputed")
    part = copy(model)
    used = np.unique(judged.codes[judged.codes >= 0])
    part.tasks_ = model.tasks_[used]
    judged = judged._replace(codes=_renumbered(judged.codes, used))
    table: list[dict[str, Any]] = []
    with np.errstate(under="ignore"):
        if honest:
            winner = _in_closed_form(part, judged, values, metrics, criterion, table)
        elif stages:
            shared = {name: v for name, v in values.items() if name in _SHARED}
            own = {name: v for name, v in values.items() if name not in _SHARED}
            winner = part
            if shared:
                stand_in = _stand_in(part)
                found = _in_closed_form(stand_in, judged, shared, metrics, criterion, table)
                winner = copy(part).set_params(**{k: getattr(found, k) for k in [*shared]})
            if own:
                for entry in table:
                    entry["final"] = False
                winner = _by_folds(winner, judged, own, criterion, table, cautious=grid is None)
        else:
            winner = _by_folds(part, judged, values, criterion, table)
        if judged.X is not rows.X:
            winner = model.set_params(**{name: getattr(winner, name) for name in _names(model)})
        winner.label_columns_ = [c for c in (task, outlier) if isinstance(c, str)]
        winner._fit_rows(rows, calibrate=calibrate)
        if not calibrate:  # what a calibrated fit would have said
            winner._check_scales(winner._prepare(rows.X))
    scores = np.array([entry["score"] if entry["final"] else -np.inf for entry in table])
    given = {name: getattr(estimator, name) for name in _names(model)}
    columns = [*given, "score", "standard_error", "stage"]
    winner.tuning_ = {
        name: _column([{**given, **entry}[name] for entry in table]) for name in columns
    }
    picked = [number for number, entry in enumerate(table) if entry.get("picked")]
    winner.tuning_["chosen"] = np.arange(len(table)) == (picked or [int(np.argmax(scores))])[-1]
    return winner


_SHARED = ("kernel", "gamma", "width", "degree", "coef0", "alpha", "metric")
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


def _column(entries: list[Any]) -> NDArray[Any]:
    """Values as an array; numbers and words mixed stay what they are."""
    mixed = len({isinstance(entry, str) for entry in entries}) > 1
    return np.array(entries, dtype=object if mixed else None)


def _stand_in(model: MultiTaskOneClass) -> MultiTaskOneClass:
    """The joint model with the shared parameters and the fitted state of another."""
    known = JointOCKSR().get_params()
    joint = JointOCKSR(**{k: v for k, v in model.get_params().items() if k in known})
    joint.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_")})
    return joint


def _in_closed_form(
    part: Any,
    judged: TrainingRows,
    values: dict[str, list[Any]],
    metrics: list[str],
    criterion: str,
    table: list[dict[str, Any]],
) -> Any:
    """Metric by folds, then the rest by closed forms (by folds under a metric that saw all)."""
    values = {name: options for name, options in values.items() if name != "metric"}
    metric = metrics[0]
    if len(metrics) > 1:
        metric = _choose_metric(part, judged, metrics, values, table)
    part = copy(part).set_params(metric=metric)
    if metric != "plain":
        return _by_folds(part, judged, values, criterion, table)
    settings = list(_settings({k: v for k, v in values.items() if k != "alpha"}))
    alphas = values.get("alpha", [part.alpha])
    return _closed_form(part, judged, settings, alphas, criterion, table)


def _checked_grid(grid: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    values = {}
    for name, options in grid.items():
        if isinstance(options, str) or not isinstance(options, Iterable):
            raise ValueError(f"grid[{name!r}] must be a list of values; got {options!r}.")
        values[name] = list(options)
        if not values[name]:
            raise ValueError(f"grid[{name!r}] is empty: give at least one value.")
    return values


def _settings(values: Mapping[str, list[Any]]) -> Iterable[dict[str, Any]]:
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def _names(model: MultiTaskOneClass) -> list[str]:
    known = model.get_params()
    shared = [name for name in _SHARED if name in known]
    return shared + [name for name in known if name not in _SHARED and name not in _FIXED]


def _subset(rows: TrainingRows, max_rows: int | None, *, square: bool) -> TrainingRows:
    """Rows of as many whole tasks as fit, spread evenly; large tasks are thinned out first."""
    n = len(rows.codes)
    if max_rows is None or n <= max_rows:
        return rows
    counts = np.bincount(rows.codes[rows.codes >= 0])
    n_tasks = len(counts)
    # At least a few tasks are needed to judge by: none may take more than its share of four.
    most = max(2, max_rows // min(n_tasks, _FEWEST_TASKS))
    place = np.arange(n) - np.concatenate([[0], np.cumsum(counts)])[rows.codes]
    step = np.maximum(1, -(-counts // most))
    thin = (rows.codes < 0) | (place % step[rows.codes] == 0)
    sizes = np.bincount(rows.codes[thin & (rows.codes >= 0)], minlength=n_tasks)
    wanted = max(2, min(n_tasks, int(max_rows // sizes.mean())))
    chosen = np.unique(np.linspace(0, n_tasks - 1, wanted).round().astype(np.intp))
    kept = np.flatnonzero(thin & (np.isin(rows.codes, chosen) | (rows.codes < 0)))
    return rows.take(kept, square=square)


def _entry(
    model: MultiTaskOneClass, aucs: Array, stage: str, final: bool, **changed: Any
) -> dict[str, Any]:
    shown = {name: getattr(model, name) for name in _names(model)}
    shown.update(changed)
    return {**shown, **_judgement(aucs), "stage": stage, "final": final}


def _judgement(aucs: Array) -> dict[str, float]:
    known = aucs[np.isfinite(aucs)]
    k = len(known)
    mean = float(known.sum()) / k if k else np.nan
    squares = float(((known - mean) ** 2).sum())
    error = np.sqrt(squares / (k - 1) / k) if k > 1 else np.nan
    return {"score": mean, "standard_error": error}


def _closed_form(
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


def _choose_metric(
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
        for setting in _settings(coarse):
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


def _by_folds(
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
    settings = list(_settings(values))
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
        candidate._fit_rows(part._replace(codes=_renumbered(part.codes, used)), calibrate=False)
        judged = rows.take(np.flatnonzero(test))
        values = candidate._all_scores(candidate._prepare(judged.X))
        known = enrolled[test] & ~judged.outlier
        positive = np.where(known, _renumbered(judged.codes, used), -1)
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


def _renumbered(codes: NDArray[np.intp], used: NDArray[np.intp]) -> NDArray[np.intp]:
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
