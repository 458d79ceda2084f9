"""One call that chooses: what anomalies look like decides the method, the rows its settings."""

from __future__ import annotations

import time
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from manyone.estimators.base import MultiTaskOneClass, OneClassEstimator, learn
from manyone.estimators.capabilities import Grid
from manyone.estimators.combined import CombinedOneClass
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.nonlinear import NonlinearOCKSR
from manyone.rows import TrainingRows, in_memory, training_rows
from manyone.selection.choosing import choose_setting, scores_of
from manyone.selection.faults import fault_grid, refuse_unless_dense
from manyone.selection.judging import Judged, beats, finite_mean, fold_aucs
from manyone.validation import warn_of_labels_in_y

# Up to so many rows two layers are affordable, and the kernel matrix of all rows is.
_MOST_TWO_LAYERS, _MOST_JOINT = 1500, 5000
# Landmarks beyond that.
_LANDMARKS = 1000
# Of each task that has more rows, where exact fits of all tasks would cost more than this, in
# cubes of their numbers of rows.
_TASK_LANDMARKS, _MOST_CUBES = 300, 2e10
# What a fit with thresholds takes of a budget, beside a bare one.
_CALIBRATED = 6.0


def auto(
    X: Any,
    y: Any = None,
    *,
    task: Any = None,
    outlier: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    anomalies: str = "any",
    alarm_rate: float = 0.05,
    landmarks: int | None = None,
    budget: float | None = None,
    random_state: Any = None,
) -> Any:
    """Choose method and setting by what anomalies look like, and fit.

    Columns are taken as they are: bring them to one scale first.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d)
        Normal rows, but for those marked by `outlier`. Or a pipeline, with the rows second, as in
        ``auto(pipeline, X, task=task)``: what is chosen takes the place of its last step.
        Rows that are not in memory (see :doc:`/scale`) are chosen for on a sample, and fitted by
        passes: :class:`JointOCKSR`, :class:`IndependentOCKSR`, or both.
    y : ignored, but for the rows behind a pipeline
    task, outlier, sample_weight, groups
        As in `fit`.
    anomalies : {"any", "strangers", "faults"}
        ``"strangers"``: rows of somebody or something else. A joint method, with other tasks' rows
        as negatives, tuned on tasks left out: :class:`NonlinearOCKSR`, or :class:`JointOCKSR` where
        that is better by a standard error, or two layers cost too much. ``"faults"``: the task's
        own rows gone wrong. :class:`IndependentOCKSR`, tuned on faults made from left-out rows; the
        tasks share their metric. ``"any"``: a :class:`CombinedOneClass` of both (of one layer where
        it is as good), in which a view counts for less, down to nothing, where all new rows look
        about as far away to it as any.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm.
    landmarks : int or None
        Rows that stand for all in a joint method. None: chosen where there are too many rows for a
        kernel matrix.
    budget : float or None
        Seconds that choosing and fitting may take; what was not tried by then is not tried. None:
        everything is, and the choice depends on the rows only.
    random_state : int, RandomState or None
        Of landmarks and of the faults that are made; None always makes the same.

    Returns
    -------
    estimator
        Fitted, with ``choice_``: a dict of arrays with one entry for everything that was tried
        (``view``, ``method``, ``setting``, ``score``, ``chosen``, ``reason``), which
        ``pandas.DataFrame`` takes as it is. Of a pipeline, a :class:`manyone.TaskPipeline`.

    Examples
    --------
    >>> import numpy as np
    >>> import manyone
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan", "belt"], 20)
    >>> X = rng.normal(size=(60, 3)) + 4.0 * (task == "fan")[:, None]
    >>> model = manyone.auto(X, task=task, anomalies="faults", alarm_rate=0.1)
    >>> model.predict([[9.0, -9.0, 9.0]], task=["belt"])
    array([-1])
    """
    if anomalies not in ("any", "strangers", "faults"):
        raise ValueError(
            f'anomalies must be "any", "strangers" or "faults"; got {anomalies!r}.'
        )
    if budget is not None and not (isinstance(budget, Real) and budget > 0):
        raise ValueError(
            f"budget must be a number of seconds above 0, or None; got {budget!r}."
        )
    given = {
        "task": task,
        "outlier": outlier,
        "sample_weight": sample_weight,
        "groups": groups,
    }
    if isinstance(X, BaseEstimator):
        from manyone.selection.pipelines import chosen_pipeline  # slow to import

        options = {
            "anomalies": anomalies,
            "alarm_rate": alarm_rate,
            "landmarks": landmarks,
        }
        options |= {"budget": budget, "random_state": random_state}
        return chosen_pipeline(X, y, given, options)
    if y is not None and task is None:
        warn_of_labels_in_y(y)
    probe = IndependentOCKSR(
        alarm_rate=alarm_rate, landmarks=landmarks, random_state=random_state
    )
    probe._validate_params()
    if not in_memory(X) and not (isinstance(X, np.memmap) and len(X) <= _MOST_JOINT):
        from manyone.selection.sampled import auto_by_passes

        return auto_by_passes(
            X, given, anomalies, alarm_rate, landmarks, budget, random_state
        )
    begin = time.monotonic()
    rows = training_rows(probe, X, **given)[0]
    plan, remarks = plan_views(rows, anomalies, landmarks, random_state)
    tried: list[_Choice] = []
    for number, view in enumerate(plan):
        until = np.inf
        if budget is not None:
            able, last = _affordable(view, rows, budget)
            if able is not view:
                remarks.append(
                    (view.name, "one layer: two would take more than the budget")
                )
            view, left = able, budget - (time.monotonic() - begin) - last
            until = time.monotonic() + max(0.0, left) / (len(plan) - number)
        tried.append(tuned(view, rows, random_state, until, alone=len(plan) == 1))
    views, alone = [(choice.view, choice.model) for choice in tried], len(tried) == 1
    best: OneClassEstimator = (
        views[0][1] if alone else CombinedOneClass(estimators=views)
    )
    best.set_params(alarm_rate=alarm_rate).fit(X, **given)
    best.choice_ = as_columns(tried, remarks + light_views(best))
    return best


def _affordable(view: View, rows: TrainingRows, budget: float) -> tuple[View, float]:
    """The view, or one of a simpler method, and the seconds that its last fit will take."""
    last = _cost(view.model, rows) * _CALIBRATED
    if isinstance(view.model, NonlinearOCKSR) and last > budget / 2:
        view = strangers_view(JointOCKSR())
        last = _cost(view.model, rows) * _CALIBRATED
    return view, last


class View(NamedTuple):
    """A view to choose a setting for: its method, what it is judged by, and what is tried."""

    name: str
    model: MultiTaskOneClass
    criterion: str
    grid: Grid


class _Choice(NamedTuple):
    """A view, what was tried for it, and the number of the setting that was taken."""

    view: str
    model: MultiTaskOneClass
    table: list[tuple[str, Judged]]
    best: int


def plan_views(
    rows: TrainingRows, anomalies: str, landmarks: int | None, random_state: Any
) -> tuple[list[View], list[tuple[str, str]]]:
    """Views to choose settings for, and what there is to say of them."""
    n, T = len(rows.codes), rows.n_tasks
    if anomalies != "strangers" or T == 1:
        refuse_unless_dense(rows, 'anomalies="strangers", with several tasks')
    seed, remarks = random_state or 0, []
    model = IndependentOCKSR()
    if np.sum(np.bincount(rows.codes[~rows.outlier]) ** 3.0) > _MOST_CUBES:
        model = IndependentOCKSR(
            landmarks=landmarks or _TASK_LANDMARKS, random_state=seed
        )
        words = f"{model.landmarks} landmarks stand for the rows of each large task"
        remarks.append(("faults", words))
    faults = View("faults", model, "faults", fault_grid(model))
    if anomalies == "faults":
        return [faults], remarks
    if T == 1:
        alone = ("strangers", "left out: one task has no other tasks to tell it from")
        return [faults], [*remarks, alone]
    joint: MultiTaskOneClass
    if landmarks is None and n <= _MOST_TWO_LAYERS:
        joint, remark = NonlinearOCKSR(), ""
    elif landmarks is None and n <= _MOST_JOINT:
        joint, remark = JointOCKSR(), f"one layer: {n} rows are too many for two"
    else:
        number = min(n, landmarks or _LANDMARKS)
        joint = JointOCKSR(landmarks=number, random_state=seed)
        remark = f"{number} landmarks stand for {n} rows"
    if remark:
        remarks.append(("strangers", remark))
    strangers = strangers_view(joint)
    if anomalies == "strangers":
        return [strangers], remarks
    # Beside another view it must be flat where it knows nothing, as rows with more columns than a
    # task has rows make the adaptive metric; no other is.
    return [
        strangers,
        faults._replace(grid={**faults.grid, "metric": ("adaptive",)}),
    ], remarks


def strangers_view(joint: MultiTaskOneClass) -> View:
    """What is tried of a joint method."""
    return View("strangers", joint, "unseen", {**joint.can.grid, **joint.can.strengths})


def _cost(model: MultiTaskOneClass, rows: TrainingRows) -> float:
    """Seconds that one bare fit takes."""
    begin = time.monotonic()
    with np.errstate(under="ignore"):
        learn(model, rows.merged()[0], left_out=False)
    return time.monotonic() - begin


def tuned(
    view: View, rows: TrainingRows, random_state: Any, until: float, alone: bool = False
) -> _Choice:
    """The setting to take for a view; the simpler joint method where it is as good.

    Alone, where it is better by a standard error: two layers are better at strangers, as a rule.
    """
    name, model, criterion, grid = view
    values = {key: list(options) for key, options in grid.items()}
    table, best, judged = choose_setting(
        model, rows, values, criterion, True, "auto", random_state, until
    )
    found = [(type(model).__name__, entry) for entry in table]
    chosen = clone(model).set_params(**table[best].setting)
    if isinstance(model, NonlinearOCKSR) and time.monotonic() < until:
        # Judged by the same folds, on strangers seen and unseen.
        shared = {
            key: getattr(chosen, key)
            for key in JointOCKSR().get_params()
            if key in values
        }
        simple = JointOCKSR(**shared)
        two, one = (_judged_by_folds(method, judged) for method in (chosen, simple))
        found += [(type(chosen).__name__, two), (type(simple).__name__, one)]
        as_good = not finite_mean(two.aucs) > finite_mean(one.aucs)
        if as_good and (not alone or beats(one.aucs, two.aucs)):
            return _Choice(name, simple, found, len(found) - 1)
    return _Choice(name, chosen, found, best)


def _judged_by_folds(model: MultiTaskOneClass, rows: TrainingRows) -> Judged:
    rows = rows.merged()[0]
    with np.errstate(under="ignore"):
        aucs = fold_aucs(partial(scores_of, model, rows), rows, "both")
    setting = {
        key: model.get_params()[key] for key in ("kernel", "width", "alpha", "metric")
    }
    return Judged(setting, aucs, "method")


def light_views(best: Any) -> list[tuple[str, str]]:
    """What there is to say of views, where there are any, that do not count fully."""
    if not isinstance(best, CombinedOneClass):
        return []
    words = "weight {:.2g}: rows left out look about as far away to it as any"
    pairs = zip(best.views_, best.weights_.tolist(), strict=True)
    return [(name, words.format(weight)) for name, weight in pairs if weight < 1.0]


def as_columns(
    tried: list[_Choice], remarks: list[tuple[str, str]]
) -> dict[str, NDArray[Any]]:
    """What was tried and what was left out, column by column."""
    reasons: dict[str, str] = {}
    for name, words in remarks:
        reasons[name] = f"{reasons[name]}; {words}" if name in reasons else words
    lines = []
    for choice in tried:
        for number, (method, entry) in enumerate(choice.table):
            chosen = number == choice.best
            words = ", ".join(
                f"{key}={value}" for key, value in sorted(entry.setting.items())
            )
            reason = reasons.pop(choice.view, "best on left-out rows") if chosen else ""
            score = finite_mean(entry.aucs)
            lines.append(
                (choice.view, method, words, score, entry.stage, chosen, reason)
            )
    for view, reason in reasons.items():
        lines.append((view, "", "", np.nan, "", False, reason))
    names = ("view", "method", "setting", "score", "stage", "chosen", "reason")
    return dict(zip(names, map(np.array, zip(*lines, strict=True)), strict=True))
