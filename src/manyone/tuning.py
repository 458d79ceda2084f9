"""Choose kernel, width, ridge and metric on training rows, almost without refits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import validate_parameter_constraints

from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.joint import JointOCKSR
from manyone.judging import (
    SHARED,
    by_folds,
    choose_metric,
    closed_form,
    combinations,
    renumbered,
    tunable,
)
from manyone.tasks import split_column
from manyone.validation import TrainingRows, check_all_have_rows

E = TypeVar("E", bound=MultiTaskOneClass)

#: What `tune` tries when it is not told: robust on images, embeddings and tables.
DEFAULT_GRID: dict[str, Sequence[Any]] = {
    "kernel": ("rbf", "laplacian", "rbf+laplacian"),
    "width": (0.5, 1.0, 2.0),
    "alpha": tuple(float(a) for a in np.logspace(-3, 0, 7)),
    "metric": ("plain", "whitened"),
}
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
    model, values = _checked(estimator, criterion, grid, max_rows)
    honest, stages = hasattr(model, "_honest_scores"), hasattr(model, "_own_grid")
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
    judged = judged._replace(codes=renumbered(judged.codes, used))
    table: list[dict[str, Any]] = []
    with np.errstate(under="ignore"):
        if honest:
            winner = _by_stages(part, judged, values, metrics, criterion, table)
        elif stages:
            shared = {name: v for name, v in values.items() if name in SHARED}
            own = {name: v for name, v in values.items() if name not in SHARED}
            winner = part
            if shared:
                stand_in = _stand_in(part)
                found = _by_stages(stand_in, judged, shared, metrics, criterion, table)
                winner = copy(part).set_params(**{k: getattr(found, k) for k in [*shared]})
            if own:
                for entry in table:
                    entry["final"] = False
                winner = by_folds(winner, judged, own, criterion, table, cautious=grid is None)
        else:
            winner = by_folds(part, judged, values, criterion, table)
        if judged.X is not rows.X:
            winner = model.set_params(**{name: getattr(winner, name) for name in tunable(model)})
        winner.label_columns_ = [c for c in (task, outlier) if isinstance(c, str)]
        winner._fit_rows(rows, calibrate=calibrate)
        if not calibrate:  # what a calibrated fit would have said
            winner._check_scales(winner._prepare(rows.X))
    scores = np.array([entry["score"] if entry["final"] else -np.inf for entry in table])
    given = {name: getattr(estimator, name) for name in tunable(model)}
    columns = [*given, "score", "standard_error", "stage"]
    winner.tuning_ = {
        name: _column([{**given, **entry}[name] for entry in table]) for name in columns
    }
    picked = [number for number, entry in enumerate(table) if entry.get("picked")]
    winner.tuning_["chosen"] = np.arange(len(table)) == (picked or [int(np.argmax(scores))])[-1]
    return winner


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


def _by_stages(
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
        metric = choose_metric(part, judged, metrics, values, table)
    part = copy(part).set_params(metric=metric)
    if metric != "plain":
        return by_folds(part, judged, values, criterion, table)
    settings = list(combinations({k: v for k, v in values.items() if k != "alpha"}))
    alphas = values.get("alpha", [part.alpha])
    return closed_form(part, judged, settings, alphas, criterion, table)


def _checked(
    estimator: E, criterion: str, grid: Any, max_rows: int | None
) -> tuple[E, dict[str, list[Any]]]:
    """A clone of the estimator and the grid as lists, or what is wrong with either."""
    if criterion not in ("seen", "unseen"):
        raise ValueError(f'criterion must be "unseen" or "seen"; got {criterion!r}.')
    if not isinstance(estimator, MultiTaskOneClass):
        raise ValueError(
            f"tune works on estimators of manyone; got a {type(estimator).__name__}. "
            "Use GridSearchCV with scoring=manyone.TaskAUC() for others."
        )
    if max_rows is not None and (not isinstance(max_rows, Integral) or max_rows < 2):
        raise ValueError(f"max_rows must be None or an integer of at least 2; got {max_rows!r}.")
    model = clone(estimator)
    model._validate_params()
    if grid is None:
        grid = {**getattr(model, "_default_grid", DEFAULT_GRID), **getattr(model, "_own_grid", {})}
    if not isinstance(grid, Mapping):
        raise ValueError(f"grid must map names of parameters to lists of values; got {grid!r}.")
    for name, options in grid.items():
        if isinstance(options, str) or not isinstance(options, Iterable):
            raise ValueError(f"grid[{name!r}] must be a list of values; got {options!r}.")
    values = {name: list(options) for name, options in grid.items()}
    if model.kernel == "precomputed":
        fixed = [name for name in ("kernel", "gamma", "width", "metric") if name in values]
        if fixed:
            raise ValueError(
                f'With kernel="precomputed" there are no rows to choose {fixed[0]!r} for: '
                'give grid={"alpha": [...]}.'
            )
    unknown = sorted(set(values) - set(tunable(model)))
    if unknown:
        raise ValueError(
            f"grid has {unknown[0]!r}, which tune cannot choose for {type(model).__name__}. "
            f"It can choose: {', '.join(sorted(tunable(model)))}."
        )
    for name, options in values.items():
        if not options:
            raise ValueError(f"grid[{name!r}] is empty: give at least one value.")
        for option in options:
            validate_parameter_constraints(
                model._parameter_constraints, {name: option}, type(model).__name__
            )
    return model, values


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
