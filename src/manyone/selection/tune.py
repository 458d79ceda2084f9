"""Choose kernel, width, ridge and metric on training rows, almost without refits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.independent import independent_score_grid
from manyone.estimators.joint import JointOCKSR
from manyone.groups import leaving_together
from manyone.kernels.gram import Gram
from manyone.messages import warn_user
from manyone.progress import counted
from manyone.rows import TrainingRows, split_named, training_rows
from manyone.selection.faults import by_faults, fault_grid, preferred_first
from manyone.selection.judging import (
    FEWEST_ROWS,
    SHARED,
    Judged,
    beats,
    checked_grid,
    finite_mean,
    fold_aucs,
    task_aucs,
    thinned,
    tunable,
)
from manyone.solvers.path import decompose, interpolate_gaps
from manyone.solvers.ridge import effective_alpha
from manyone.solvers.running import blas_for

E = TypeVar("E", bound=MultiTaskOneClass)

# With fewer tasks than this, what two halves of the tasks say about a metric is noise.
_FEWEST_TASKS_FOR_METRIC = 8
_FEWEST_TASKS = 4


def tune(
    estimator: E,
    X: Any,
    y: Any = None,
    *,
    task: Any = None,
    outlier: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    criterion: str = "unseen",
    grid: Mapping[str, Iterable[Any]] | None = None,
    max_rows: int | str | None = "auto",
    calibrate: bool = True,
    random_state: Any = None,
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
    X, y, task, outlier, sample_weight, groups
        As in `fit`; rows of a group are judged by models that have seen none of them.
    criterion : {"unseen", "seen", "faults"}
        What anomalies are. ``"seen"``: rows of other tasks, left out one at a time, so their kind
        is known to the model. ``"unseen"``: rows of other tasks, left out with their whole task,
        which estimates performance on kinds never seen. ``"faults"``: rows of the task itself gone
        wrong, made from rows left out in three folds (one column moved by four standard
        deviations; a third of the columns with the deviations of another row). A setting then
        replaces the preferred one, an adaptive metric (where the method has it) with a wide
        Laplacian kernel, only if it is better at every kind of fault by more than a standard error.
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
    random_state : int, RandomState or None
        Of the faults that are made; None always makes the same.

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
    X, task, outlier, groups, named = split_named(X, task, outlier, groups)
    rows, tasks, _ = training_rows(model, X, task, outlier, sample_weight, groups)
    faults = criterion == "faults"
    if faults and (rows.columns is not None or sparse.issparse(rows.X)):
        raise ValueError(
            'criterion="faults" moves columns of the rows: it needs dense rows, not a sparse '
            'matrix and not kernel="precomputed". Use criterion="unseen".'
        )
    if not faults and rows.n_tasks < 2 and not rows.outlier.any():
        raise ValueError(
            "tune needs negatives to judge by: at least two tasks, or known outliers "
            f"(outlier=...). Got {rows.n_tasks} task and no outlier. Or judge by faults made from "
            'the rows: criterion="faults".'
        )
    fixed = {"kernel", "gamma", "width", "metric"}.intersection(values)
    if rows.columns is not None and fixed:
        raise ValueError(
            f'With kernel="precomputed" there are no rows to choose {min(fixed)!r} for: '
            'give grid={"alpha": [...]}.'
        )
    table, best, judged = choose_setting(
        model, rows, values, criterion, grid is None, max_rows, random_state
    )
    model.set_params(**table[best].setting)
    model._fit_rows(rows, tasks, named, calibrate=calibrate)
    model.tuning_ = _as_columns(estimator, table, best, judged)
    return model


def choose_setting(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    values: dict[str, list[Any]],
    criterion: str,
    whole: bool,
    max_rows: int | str | None = "auto",
    random_state: Any = None,
    until: float = math.inf,
) -> tuple[list[Judged], int, TrainingRows]:
    """Judge the settings of a grid on rows; see `tune`.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    values : dict of str to list
        The grid.
    criterion, max_rows, random_state
        As in `tune`.
    whole : bool
        Whether the grid is the method's own, which is searched with more caution.
    until : float
        Value of ``time.monotonic()`` after which nothing more is tried.

    Returns
    -------
    list of Judged, int, TrainingRows
        What was tried, the number of the setting to take, and the rows it was judged by.
    """
    judged = rows
    if max_rows is not None and len(rows.codes) > (FEWEST_ROWS if max_rows == "auto" else 0):
        judged = thinned(rows, max_rows, values)
    few = _FEWEST_TASKS_FOR_METRIC if whole else _FEWEST_TASKS
    narrow = judged.X.shape[1] < 2 or judged.n_tasks < few
    if criterion != "faults" and narrow and "plain" in values.get("metric", ()):
        values = {**values, "metric": ["plain"]}
    with np.errstate(under="ignore"):
        if criterion == "faults":
            strengths = fault_grid(model)[1] if whole else {}
            settings = preferred_first(list(ParameterGrid(values)))
            found = by_faults(model, judged, settings, strengths, random_state, until)
        else:
            found = _choose(model, judged, values, criterion, whole, until)
    return *found, judged


def _choose(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    values: dict[str, list[Any]],
    criterion: str,
    cautious: bool,
    until: float,
) -> tuple[list[Judged], int]:
    """Everything that was tried, and the number of the setting to take."""
    if model.can.left_out_grid is None:
        return _by_folds(model, rows, ParameterGrid(values), criterion, {}, until)
    own: dict[str, list[Any]] = {}
    shared: dict[str, list[Any]] = {}
    for name, options in values.items():
        (shared if name in SHARED else own)[name] = options
    table: list[Judged] = []
    setting: dict[str, Any] = {}
    if shared or not own:
        ridge: MultiTaskOneClass = model
        if model.can.left_out_grid == "joint":
            # The regression whose closed form judges what a method shares with it.
            ridge, given = JointOCKSR(), model.get_params()
            for name in ridge.get_params():
                setattr(ridge, name, given[name])
        table, best = _choose_ridge(ridge, rows, shared, criterion, until)
        if not own:
            return table, best
        setting = table[best].setting
    settings = list(ParameterGrid(own))
    if cautious:  # the model's own setting first
        mine = dict(zip(own, map(model.get_params().get, own), strict=True))
        settings.sort(key=mine.__ne__)
    found, best = _by_folds(model, rows, settings, criterion, setting, until)
    if cautious and not beats(found[best].aucs, found[0].aucs):
        best = 0
    return table + found, len(table) + best


def _choose_ridge(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    values: dict[str, list[Any]],
    criterion: str,
    until: float,
) -> tuple[list[Judged], int]:
    """Metric by folds, then the rest by closed forms (by folds under a metric that saw all)."""
    values = dict(values)
    metrics = values.pop("metric", [model.metric])
    table: list[Judged] = []
    metric = metrics[0]
    if len(metrics) > 1:
        # A coarse grid will do; in doubt the plain metric stays.
        alphas = values.get("alpha", [getattr(model, "alpha", 0.1)])
        coarse = {"kernel": values.get("kernel", [model.kernel])}
        coarse["gamma"] = values.get("gamma", [model.gamma])
        coarse["alpha"] = sorted({alphas[0], alphas[len(alphas) // 2], alphas[-1]})
        tops = {}
        for name in sorted(metrics, key="plain".__ne__):
            fixed = {"metric": name}
            tried, best = _by_folds(model, rows, ParameterGrid(coarse), "both", fixed, until)
            table += tried
            tops[name] = tried[best].aucs
        (metric, plain), *others = tops.items()
        for name, aucs in others:
            metric = name if beats(aucs, plain) else metric
    if metric == "plain":
        found, best = _by_closed_form(model, rows, values, criterion, until)
    else:
        fixed = {"metric": metric}
        found, best = _by_folds(model, rows, ParameterGrid(values), criterion, fixed, until)
    return table + found, len(table) + best


def _by_closed_form(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    values: dict[str, list[Any]],
    criterion: str,
    until: float,
) -> tuple[list[Judged], int]:
    """Every setting for all ridges at once, and the number of the best."""
    alphas = np.array(values.pop("alpha", [getattr(model, "alpha", 0.1)]), dtype=np.float64)
    table: list[Judged] = []
    R = rows.responses()
    starts = np.searchsorted(rows.codes[rows.codes >= 0], np.arange(rows.n_tasks + 1))
    of_tasks = np.split(np.arange(starts[-1]), starts[1:-1]) if criterion == "unseen" else None
    rows = replace(rows, forward=False)
    leaving, judged = None, np.ones(rows.n_tasks, dtype=bool)
    if rows.group is not None:  # tasks of one group cannot be judged
        leaving = [left.gone for left in leaving_together(rows)]
        judged = np.isin(np.arange(rows.n_tasks), [rows.codes[gone[0]] for gone in leaving])
    for setting in counted(ParameterGrid(values)):
        if table and time.monotonic() > until:
            break
        gram = Gram.of(rows, clone(model).set_params(metric="plain", **setting))
        if model.can.left_out_grid == "each task":
            scores = independent_score_grid(gram, rows, alphas)
        else:
            K = gram.matrix()
            ridges = effective_alpha(alphas, float(np.diagonal(K) @ rows.weight))
            with blas_for(len(K)):
                gaps = interpolate_gaps(decompose(K, rows.weight), R, ridges, of_tasks, leaving)
            scores = -np.abs(gaps, out=gaps)
        for alpha, aucs in zip(
            alphas, task_aucs(scores, rows.codes, rows.outlier, rows.weight), strict=True
        ):
            found = {**setting, "alpha": float(alpha), "metric": "plain"}
            aucs = np.where(judged, aucs, np.nan)
            table.append(Judged(found, aucs, "closed form"))
    return table, _best(table)


def _by_folds(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    settings: Iterable[dict[str, Any]],
    criterion: str,
    fixed: Mapping[str, Any],
    until: float,
) -> tuple[list[Judged], int]:
    """Every setting by folds, everything refitted inside, and the number of the best."""
    # Copies must not be judged by models that have seen them: one row, with the weight of all.
    table: list[Judged] = []
    rows = rows.merged()[0]
    for setting in counted(list(settings)):
        if table and time.monotonic() > until:
            break
        setting = {**fixed, **setting}
        score = partial(clone(model).set_params(**setting)._scores_of, rows)
        stage = "metric" if criterion == "both" else "folds"
        table.append(Judged(setting, fold_aucs(score, rows, criterion), stage))
    return table, _best(table)


def _best(table: list[Judged]) -> int:
    best, top = 0, -np.inf
    for number, entry in enumerate(table):
        mean = finite_mean(entry.aucs)
        if mean > top:
            best, top = number, mean
    if top == -np.inf:
        warn_user(
            "No setting could be judged: folds need tasks of two or more distinct rows, and rows "
            "of other tasks or known outliers to tell them from. The first setting was taken."
        )
    return best


def _as_columns(
    estimator: MultiTaskOneClass, table: list[Judged], best: int, rows: TrainingRows
) -> dict[str, NDArray[Any]]:
    """The table of what was tried, column by column."""
    names, everything = tunable(estimator), estimator.get_params()
    given = dict(zip(names, map(everything.get, names), strict=True))
    columns: dict[str, list[Any]] = {}
    for number, entry in enumerate(table):
        known = entry.aucs[np.isfinite(entry.aucs)]
        error = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.nan
        shown = {**given, **entry.setting, "score": finite_mean(known), "standard_error": error}
        shown |= {"stage": entry.stage, "rows": len(rows.codes), "tasks": rows.n_tasks}
        for name, value in {**shown, "chosen": number == best}.items():
            columns.setdefault(name, []).append(value)
    arrays = {}
    for name, entries in columns.items():
        # Numbers and words mixed stay what they are.
        words = list(map(type, entries)).count(str)
        arrays[name] = np.array(entries, dtype=object if 0 < words < len(entries) else None)
    return arrays


def _checked(
    estimator: E, criterion: str, grid: Any, max_rows: int | str | None
) -> tuple[E, dict[str, list[Any]]]:
    """A clone of the estimator and the grid as lists, or what is wrong with either."""
    if criterion not in ("seen", "unseen", "faults"):
        raise ValueError(f'criterion must be "unseen", "seen" or "faults"; got {criterion!r}.')
    if not isinstance(estimator, MultiTaskOneClass):
        raise ValueError(
            f"tune works on estimators of manyone; got a {type(estimator).__name__}. "
            "Use GridSearchCV with scoring=manyone.TaskAUC() for others."
        )
    counted = isinstance(max_rows, Integral) and max_rows >= 2
    if not (counted or max_rows is None or max_rows == "auto"):
        raise ValueError(
            f'max_rows must be "auto", None or an integer of at least 2; got {max_rows!r}.'
        )
    model = clone(estimator)
    model._validate_params()
    if grid is None:
        whole = {**model.can.grid, **model.can.strengths}
        grid = fault_grid(model)[0] if criterion == "faults" else whole
    return model, checked_grid(model, grid)
