"""Choose kernel, width, ridge and metric on training rows, almost without refits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manyone._types import Array
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.independent import independent_score_grid
from manyone.estimators.joint import JointOCKSR
from manyone.kernels.gram import Gram
from manyone.messages import warn_user
from manyone.rows import TrainingRows, renumbered, split_columns, training_rows
from manyone.selection.judging import (
    SHARED,
    beats,
    checked_grid,
    content_order,
    finite_mean,
    fold_aucs,
    task_aucs,
    tunable,
)
from manyone.solvers.path import decompose, interpolate_gaps
from manyone.solvers.ridge import effective_alpha
from manyone.solvers.running import blas_for

E = TypeVar("E", bound=MultiTaskOneClass)

# With fewer tasks than this, what two halves of the tasks say about a metric is noise.
_FEWEST_TASKS_FOR_METRIC = 8
_FEWEST_TASKS = 4
# Rows that settings are judged by at least, and what eigendecompositions may cost beyond that.
_FEWEST_ROWS, _CUBES = 1000, 2e10


class Judged(NamedTuple):
    """A setting and how it did: AUC per task or fold, where that comes from, and if it counts."""

    setting: dict[str, Any]
    aucs: Array
    stage: str
    final: bool = True


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
    max_rows: int | str | None = "auto",
    calibrate: bool = True,
) -> E:
    """Fit the best setting of a grid, chosen on the training rows alone.

    Each candidate is judged by the mean over tasks of the area under the ROC curve with the rows of
    a task as positives and all other rows as negatives, none of them scored by a model that has
    seen it: by closed forms, where one eigendecomposition serves all ridges, or by folds. The
    metric is chosen by folds with everything refitted inside and must win by more than one standard
    error; with fewer than eight tasks judged it stays plain, unless the grid asks (and there are
    four). Methods that learn a structure get kernel, width, ridge and metric as
    :class:`JointOCKSR` would; then strengths of their own are judged by folds, and without a grid
    the estimator's value stays unless another is better by more than one standard error.

    Parameters
    ----------
    estimator : estimator of this package
        Gives the values of what is not in the grid. It is not changed.
    X, y, task, outlier, sample_weight
        As in `fit`.
    criterion : {"unseen", "seen"}
        ``"seen"``: rows of other tasks are left out one at a time, so their kind is known to the
        model. ``"unseen"``: they are left out with their whole task, which estimates performance
        on kinds of anomaly never seen.
    grid : mapping of parameter name to values, or None
        Any of ``kernel, gamma, width, degree, coef0, alpha, metric`` and the strengths of the
        method; None is what the method declares (``estimator.can``). Parameters not in the grid
        keep the estimator's value.
    max_rows : int, "auto" or None
        Judge on at most that many rows, of as many tasks as possible, chosen by their content;
        the final fit is to all rows. None is all; ``"auto"`` at least 1,000, more where the grid
        is short.
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
    model, values = _checked(estimator, criterion, grid, max_rows)
    named = [name for name in (task, outlier) if isinstance(name, str)]
    features, labels, mask = split_columns(X, task=task, outlier=outlier)
    rows, tasks, _ = training_rows(model, features, labels, mask, sample_weight)
    if rows.n_tasks < 2 and not rows.outlier.any():
        raise ValueError(
            "tune needs negatives to judge by: at least two tasks, or known outliers "
            f"(outlier=...). Got {rows.n_tasks} task and no outlier."
        )
    fixed = [name for name in ("kernel", "gamma", "width", "metric") if name in values]
    if rows.columns is not None and fixed:
        raise ValueError(
            f'With kernel="precomputed" there are no rows to choose {fixed[0]!r} for: '
            'give grid={"alpha": [...]}.'
        )
    judged = _thinned(rows, _most_rows(max_rows, values))
    few = _FEWEST_TASKS_FOR_METRIC if grid is None else _FEWEST_TASKS
    if "metric" in values and (judged.X.shape[1] < 2 or judged.n_tasks < few):
        values["metric"] = [m for m in values["metric"] if m == "plain"] or values["metric"]
    with np.errstate(under="ignore"):
        table, best = _choose(model, judged, values, criterion, cautious=grid is None)
    model.set_params(**table[best].setting)
    model._fit_rows(rows, tasks, named, calibrate=calibrate)
    model.tuning_ = _as_columns(estimator, table, best, judged)
    return model


def _choose(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    values: dict[str, list[Any]],
    criterion: str,
    *,
    cautious: bool,
) -> tuple[list[Judged], int]:
    """Everything that was tried, and the number of the setting to take."""
    if model.can.left_out_grid is None:
        table = _by_folds(model, rows, _combinations(values), criterion)
        return table, _best(table)
    own = {name: options for name, options in values.items() if name not in SHARED}
    shared = {name: options for name, options in values.items() if name in SHARED}
    table, setting = [], {}
    if shared or not own:
        table, best = _choose_ridge(_ridge_of(model), rows, shared, criterion)
        if not own:
            return table, best
        setting = table[best].setting
        model = clone(model).set_params(**setting)
        table = [entry._replace(final=False) for entry in table]
    settings = _combinations(own)
    if cautious:  # the model's own setting first
        mine = {name: getattr(model, name) for name in own}
        settings = [mine, *(other for other in settings if other != mine)]
    found = _by_folds(model, rows, settings, criterion)
    best = _best(found)
    if cautious and not beats(found[best].aucs, found[0].aucs):
        best = 0
    found = [entry._replace(setting={**setting, **entry.setting}) for entry in found]
    return table + found, len(table) + best


def _ridge_of(model: MultiTaskOneClass) -> MultiTaskOneClass:
    """The regression whose closed form judges what a method shares with it."""
    if model.can.left_out_grid != "joint" or isinstance(model, JointOCKSR):
        return model
    known = JointOCKSR().get_params()
    return JointOCKSR(**{k: v for k, v in model.get_params().items() if k in known})


def _choose_ridge(
    model: MultiTaskOneClass, rows: TrainingRows, values: dict[str, list[Any]], criterion: str
) -> tuple[list[Judged], int]:
    """Metric by folds, then the rest by closed forms (by folds under a metric that saw all)."""
    metrics = sorted(values.get("metric", [model.metric]), key=lambda metric: metric != "plain")
    rest = {name: options for name, options in values.items() if name != "metric"}
    table: list[Judged] = []
    metric = metrics[0]
    if len(metrics) > 1:
        alphas = rest.get("alpha", [getattr(model, "alpha", 0.1)])
        coarse = {name: options for name, options in rest.items() if name in ("kernel", "gamma")}
        coarse["alpha"] = sorted({alphas[0], alphas[len(alphas) // 2], alphas[-1]})
        settings = _combinations({"metric": metrics, **coarse})
        table = _by_folds(model, rows, settings, "both", stage="metric")
        tops: dict[str, Array] = {}
        for entry in table:
            name = entry.setting["metric"]
            if name not in tops or finite_mean(entry.aucs) > finite_mean(tops[name]):
                tops[name] = entry.aucs
        metric = next((m for m in metrics[1:] if beats(tops[m], tops[metric])), metric)
    model = clone(model).set_params(metric=metric)
    if metric == "plain":
        found = _by_closed_form(model, rows, rest, criterion)
    else:
        found = _by_folds(model, rows, _combinations(rest), criterion)
    found = [entry._replace(setting={**entry.setting, "metric": metric}) for entry in found]
    return table + found, len(table) + _best(found)


def _by_closed_form(
    model: MultiTaskOneClass, rows: TrainingRows, values: dict[str, list[Any]], criterion: str
) -> list[Judged]:
    """Every setting for all ridges at once."""
    alphas = [float(alpha) for alpha in values.get("alpha", [getattr(model, "alpha", 0.1)])]
    table = []
    for setting in _combinations({k: v for k, v in values.items() if k != "alpha"}):
        gram = Gram.of(rows, clone(model).set_params(**setting))
        scores = _left_out_score_grid(gram, rows, np.array(alphas), criterion, model)
        aucs = task_aucs(scores, rows.codes, rows.outlier, rows.weight)
        table += [
            Judged({**setting, "alpha": alpha}, line, "closed form")
            for alpha, line in zip(alphas, aucs, strict=True)
        ]
    return table


def _left_out_score_grid(
    gram: Gram, rows: TrainingRows, alphas: Array, criterion: str, model: MultiTaskOneClass
) -> Array:
    """Scores (k, n, T) of rows by models without them (or without their task), for k ridges."""
    if model.can.left_out_grid == "each task":
        return independent_score_grid(gram, rows, alphas)
    ridges = effective_alpha(alphas, float(gram.diagonal() @ rows.weight))
    groups = None
    if criterion == "unseen":
        groups = [np.flatnonzero(rows.codes == t) for t in range(rows.n_tasks)]
    with blas_for(len(rows.codes)):
        spectrum = decompose(gram.matrix(), rows.weight)
        gaps = interpolate_gaps(spectrum, rows.responses(), ridges, groups)
    return -np.abs(gaps, out=gaps)


def _by_folds(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    settings: list[dict[str, Any]],
    criterion: str,
    stage: str = "folds",
) -> list[Judged]:
    """Every setting by folds, everything refitted inside."""
    # Copies must not be judged by models that have seen them: one row, with the weight of all.
    rows, table = rows.merged()[0], []
    for setting in settings:
        candidate = clone(model).set_params(**setting)
        table.append(Judged(setting, fold_aucs(candidate._scores_of(rows), rows, criterion), stage))
    return table


def _best(table: list[Judged]) -> int:
    means = np.array([finite_mean(entry.aucs) for entry in table])
    if not np.isfinite(means).any():
        warn_user(
            "No setting could be judged: folds need tasks of two or more distinct rows, and rows "
            "of other tasks or known outliers to tell them from. The first setting was taken."
        )
        return 0
    return int(np.nanargmax(means))


def _combinations(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every setting of a grid."""
    return [
        dict(zip(values, setting, strict=True)) for setting in itertools.product(*values.values())
    ]


def _most_rows(max_rows: int | str | None, values: Mapping[str, Sequence[Any]]) -> float:
    """Rows to judge by: a number that depends on nothing but what is asked for."""
    if max_rows is None:
        return np.inf
    if not isinstance(max_rows, str):
        return float(max_rows)
    settings = math.prod(len(options) for name, options in values.items() if name != "alpha")
    return max(_FEWEST_ROWS, float(np.cbrt(_CUBES / settings)))


def _thinned(rows: TrainingRows, most: float) -> TrainingRows:
    """At most so many rows, of as many tasks as possible; which ones, their content decides."""
    if len(rows.codes) <= most:
        return rows
    of_task = rows.codes >= 0
    counts = np.bincount(rows.codes[of_task], minlength=rows.n_tasks)
    # Two rows a task at least, or there is nothing to leave out; large tasks give way first.
    chosen = np.zeros(rows.n_tasks, dtype=bool)
    chosen[content_order(rows)[: max(2, int(most) // 2)]] = True
    sizes = np.where(chosen, counts, 0)
    quota = int(most)
    while np.minimum(sizes, quota).sum() > most and quota > 2:
        quota -= max(1, quota // 100)
    starts = np.concatenate([[0], np.cumsum(counts)])
    place = np.arange(len(rows.codes)) - np.append(starts, 0)[rows.codes]
    # Rows of a task are in the order of their content: every so many-th.
    size, wanted = (np.append(x, 1)[rows.codes] for x in (counts, np.minimum(sizes, quota)))
    kept = (place * wanted // size) != ((place - 1) * wanted // size)
    part = rows.take(np.flatnonzero((kept & of_task) | ~of_task))
    used = np.flatnonzero(chosen)
    return replace(part, codes=renumbered(part.codes, used), n_tasks=len(used))


def _as_columns(
    estimator: MultiTaskOneClass, table: list[Judged], best: int, rows: TrainingRows
) -> dict[str, NDArray[Any]]:
    """The table of what was tried, column by column."""
    given = {name: getattr(estimator, name) for name in tunable(estimator)}
    columns = {name: _column([{**given, **e.setting}[name] for e in table]) for name in given}
    known = [entry.aucs[np.isfinite(entry.aucs)] for entry in table]
    columns["score"] = np.array([finite_mean(entry.aucs) for entry in table])
    columns["standard_error"] = np.array(
        [k.std(ddof=1) / np.sqrt(len(k)) if len(k) > 1 else np.nan for k in known]
    )
    columns["stage"] = np.array([entry.stage for entry in table])
    columns["rows"] = np.full(len(table), len(rows.codes))
    columns["tasks"] = np.full(len(table), rows.n_tasks)
    columns["chosen"] = np.arange(len(table)) == best
    return columns


def _column(entries: list[Any]) -> NDArray[Any]:
    """Values as an array; numbers and words mixed stay what they are."""
    mixed = len({isinstance(entry, str) for entry in entries}) > 1
    return np.array(entries, dtype=object if mixed else None)


def _checked(
    estimator: E, criterion: str, grid: Any, max_rows: int | str | None
) -> tuple[E, dict[str, list[Any]]]:
    """A clone of the estimator and the grid as lists, or what is wrong with either."""
    if criterion not in ("seen", "unseen"):
        raise ValueError(f'criterion must be "unseen" or "seen"; got {criterion!r}.')
    if not isinstance(estimator, MultiTaskOneClass):
        raise ValueError(
            f"tune works on estimators of manyone; got a {type(estimator).__name__}. "
            "Use GridSearchCV with scoring=manyone.TaskAUC() for others."
        )
    whole = isinstance(max_rows, Integral) and max_rows >= 2
    if not (whole or max_rows is None or max_rows == "auto"):
        raise ValueError(
            f'max_rows must be "auto", None or an integer of at least 2; got {max_rows!r}.'
        )
    model = clone(estimator)
    model._validate_params()
    grid = {**model.can.grid, **model.can.strengths} if grid is None else grid
    return model, checked_grid(model, grid)
