"""Tune kernel, width, ridge and metric on training rows, with few refits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import TypeVar

import numpy as np
from scipy.stats import sem
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from manyone._sklearn import validate_parameter_constraints
from manyone._types import Criterion, Labels
from manyone.capabilities import Grid
from manyone.data.rows import TrainingRows, training_rows
from manyone.estimators.base import MultiTaskOneClass
from manyone.pipelines import TaskPipeline
from manyone.selection.criteria import refuse_unless_dense
from manyone.selection.pipelines import tuned_pipeline
from manyone.selection.search import (
    SHARED,
    Search,
    Seed,
    choose_setting,
    columns_of,
    fault_grid,
)

# Parameters that say how a fit runs: there is nothing to choose.
_RUNNING = {
    "alarm_rate",
    "kernel_params",
    "landmarks",
    "learn_theta",
    "max_iter",
    "random_state",
    "task_rate_limit",
    "tol",
}
E = TypeVar("E", bound=MultiTaskOneClass | TaskPipeline | Pipeline)


def tune(
    estimator: E,
    X: object,
    y: object = None,
    *,
    task: object = None,
    outlier: object = None,
    sample_weight: object = None,
    groups: object = None,
    criterion: Criterion = "unseen",
    grid: Mapping[str, Iterable[object]] | None = None,
    max_rows: int | str | None = "auto",
    calibrate: bool = True,
    random_state: Seed = None,
) -> E:
    """Fit the best setting of a grid, chosen on the training rows alone.

    A candidate is judged by the area under the ROC curve, mean over tasks: rows of the
    task are positives, and rows of other tasks, or faults, are negatives (`criterion`).
    No row is scored by a model that was fitted to it. Closed forms give such scores,
    with one eigendecomposition for all ridges; where there are none, folds do.

    The metric is chosen by folds with everything refitted inside. It stays plain unless
    another one is better by more than one standard error. With fewer than eight tasks
    it stays plain, with a metric in `grid` with fewer than four. Other metrics than
    plain have no closed form: without a grid, folds judge one parameter at a time.
    Methods that learn a structure get the kernel, width, ridge and metric that
    :class:`JointOCKSR` would get. Then folds judge their own strengths. Without a grid,
    a strength stays as it is unless another is better by more than one standard error.

    Parameters
    ----------
    estimator : estimator of this package, or a pipeline that ends in one
        Parameters that are not in the grid keep its values. It is not changed.
        Transformers of a pipeline are fitted once, to all rows: use folds of your own
        for transformers that learn from labels.
    X, y, task, outlier, sample_weight, groups
        As in `fit`. Rows of a group are judged by models that have seen none of them.
    criterion : {"unseen", "seen", "faults"}
        What anomalies are. ``"seen"``: rows of other tasks, left out one at a time, so
        that the model knows their kind. ``"unseen"``: rows of other tasks, left out
        with their whole task, for performance on kinds that the model has never seen.
        ``"faults"``: rows of the task itself gone wrong, made from rows left out in
        three folds. One kind moves one column by four standard deviations. The other
        gives a third of the columns the deviations of another row. Rows far from the
        others of their task are not used: they may be faults themselves. The preferred
        setting is an adaptive metric (where the method has it) with a wide Laplacian
        kernel. Another one is taken only if it is better at every kind of fault by
        three standard errors.
    grid : mapping of parameter name to values, or None
        Any of ``kernel, gamma, width, degree, coef0, alpha, metric`` and the strengths
        of the method. None: what the method declares (``estimator.can``).
    max_rows : int, "auto" or None
        Most rows to judge by, of as many tasks as possible, chosen by their content.
        The final fit is to all rows. None: all rows. ``"auto"``: at least 1,000, and
        more for a short grid.
    calibrate : bool, default=True
        False: thresholds are not set, as that may take longer than the fit itself. The
        model can then score rows, and raises alarms after its ``calibrate`` was given
        held-out normal rows.
    random_state : int, RandomState or None
        Of the faults that are made. None always makes the same.

    Returns
    -------
    estimator
        A fitted clone with the best setting (of a pipeline, a
        :class:`manyone.TaskPipeline`). ``tuning_`` is the table of what was tried: a
        dict of arrays with one entry per candidate, which ``pandas.DataFrame`` takes.

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
    roles = {
        "task": task,
        "outlier": outlier,
        "sample_weight": sample_weight,
        "groups": groups,
    }
    if not isinstance(estimator, MultiTaskOneClass):
        options: dict[str, object] = {
            "criterion": criterion,
            "grid": grid,
            "max_rows": max_rows,
            "calibrate": calibrate,
            "random_state": random_state,
        }
        return tuned_pipeline(estimator, tune, X, roles, options)
    model, values = _checked(estimator, criterion, grid, max_rows)
    rows, tasks, _ = training_rows(model, X, task, outlier, sample_weight, groups)
    _refuse_unjudgeable(model, rows, values, criterion)
    search = choose_setting(
        model, rows, values, criterion, grid is None, max_rows, random_state
    )
    model.set_params(**search.setting)
    if calibrate:
        model.fit(X, **roles)
    else:
        model._fit_rows(rows, tasks, calibrate=False)
    model.tuning_ = _as_columns(estimator, search)
    return model


def _refuse_unjudgeable(
    model: MultiTaskOneClass, rows: TrainingRows, values: Grid, criterion: str
) -> None:
    """Raise if a criterion or a grid cannot be used with these rows."""
    if criterion == "faults":
        refuse_unless_dense(rows, 'criterion="unseen"')
    elif rows.n_tasks < 2 and not rows.outlier.any():
        raise ValueError(
            "tune needs negatives to judge by: at least two tasks, or known outliers "
            f"(outlier=...). Got {rows.n_tasks} task and no outlier. Or judge by "
            'faults made from the rows: criterion="faults".'
        )
    of_kernel = set(SHARED).difference(["alpha"]).intersection(values)
    if rows.columns is not None and of_kernel:
        raise ValueError(
            'With kernel="precomputed" there are no rows to choose '
            f'{min(of_kernel)!r} for: give grid={{"alpha": [...]}}.'
        )
    if rows.columns is None and "precomputed" in values.get("kernel", ()):
        raise ValueError(
            'grid["kernel"] has "precomputed", but X are rows. Tune a kernel matrix by '
            f'itself: tune({type(model).__name__}(kernel="precomputed"), K, ...).'
        )


def _as_columns(estimator: MultiTaskOneClass, search: Search) -> dict[str, Labels]:
    """The table of what was tried, column by column."""
    params = estimator.get_params()
    lines = []
    for number, entry in enumerate(search.table):
        areas = entry.values.mean(axis=0)
        areas = areas[np.isfinite(areas)]
        several = len(areas) > 1
        line = {name: params[name] for name in _tunable(estimator)} | entry.setting
        line["score"] = entry.score
        line["standard_error"] = sem(areas) if several else np.nan
        line["stage"] = entry.stage
        line["rows"] = len(search.rows.codes)
        line["tasks"] = search.rows.n_tasks
        line["chosen"] = number == search.best
        lines.append(line)
    return columns_of(lines)


def _tunable(model: MultiTaskOneClass) -> list[str]:
    """Names of the parameters of the model, those of :class:`JointOCKSR` first."""
    names = set(model.get_params()) - _RUNNING
    shared = [name for name in SHARED if name in names]
    return shared + sorted(names.difference(SHARED))


def _checked(
    estimator: MultiTaskOneClass,
    criterion: str,
    grid: Mapping[str, Iterable[object]] | None,
    max_rows: int | str | None,
) -> tuple[MultiTaskOneClass, dict[str, list[object]]]:
    """A clone of the estimator, and the grid as lists; raises if either is wrong."""
    if criterion not in ("seen", "unseen", "faults"):
        raise ValueError(
            f'criterion must be "unseen", "seen" or "faults"; got {criterion!r}.'
        )
    is_count = isinstance(max_rows, Integral) and max_rows >= 2
    if not (is_count or max_rows is None or max_rows == "auto"):
        raise ValueError(
            f'max_rows must be "auto", None or an integer >= 2; got {max_rows!r}.'
        )
    model = clone(estimator)
    model._validate_params()
    if grid is None:
        grid = {**model.can.grid, **model.can.strengths}
        if criterion == "faults":
            grid = fault_grid(model)
    if not isinstance(grid, Mapping):
        raise ValueError(
            f"grid must map names of parameters to lists of values; got {grid!r}."
        )
    names = _tunable(model)
    values: dict[str, list[object]] = {}
    for name, options in grid.items():
        if isinstance(options, str) or not isinstance(options, Iterable):
            raise ValueError(
                f"grid[{name!r}] must be a list of values; got {options!r}."
            )
        if name not in names:
            raise ValueError(
                f"grid has {name!r}, which tune cannot choose for "
                f"{type(model).__name__}. It can choose: {', '.join(sorted(names))}."
            )
        values[name] = list(options)
        if not values[name]:
            raise ValueError(f"grid[{name!r}] is empty: give at least one value.")
        for option in values[name]:
            validate_parameter_constraints(
                model._parameter_constraints, {name: option}, type(model).__name__
            )
    return model, values
