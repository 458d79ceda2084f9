"""One call that chooses: what anomalies look like decides the method, the rows its settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from manyone._sklearn import StrOptions
from manyone._types import Anomalies
from manyone.engines.fitting import Sweep, refuse_whole_rows, steady
from manyone.engines.sample import TakeSample, refuse_unusable
from manyone.engines.sources import sweep_of
from manyone.estimators.base import MultiTaskOneClass, OneClassEstimator
from manyone.estimators.capabilities import Grid
from manyone.estimators.combined import CombinedOneClass
from manyone.estimators.delegating import Delegating
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.nonlinear import NonlinearOCKSR
from manyone.estimators.scoring import DEFAULT_RATE, RATE
from manyone.routing import RoutingState
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
# Rows that settings are chosen on where rows are not in memory.
SAMPLE_ROWS = 5000
# Landmarks of all rows there, and at most of each task.
PASS_LANDMARKS = 1000
_PASS_TASK_LANDMARKS = 100


@dataclass(eq=False, repr=False)
class AutoOneClass(Delegating, RoutingState, OutlierMixin, BaseEstimator):
    """The choice of method and setting, by what anomalies look like, as an estimator.

    Columns are taken as they are: bring them to one scale first.

    Parameters
    ----------
    anomalies : {"any", "strangers", "faults"}
        ``"strangers"``: rows of somebody or something else. A joint method, with other tasks' rows
        as negatives, tuned on tasks left out: :class:`NonlinearOCKSR`, or :class:`JointOCKSR` where
        that is better by a standard error, or two layers cost too much. ``"faults"``: the task's
        own rows gone wrong. :class:`IndependentOCKSR`, tuned on faults made from left-out rows; the
        tasks share their metric. ``"any"``: a :class:`CombinedOneClass` of both (of one layer where
        it is as good), in which a view counts for less, down to nothing, where all new rows look
        about as far away to it as any.
    alarm_rate : float or None, default=0.05
        Share of normal rows that may raise an alarm. None: no thresholds are set.
    landmarks : int or None
        Rows that stand for all in a joint method. None: chosen where there are too many rows for a
        kernel matrix.
    random_state : int, RandomState or None
        Of landmarks and of the faults that are made; None always makes the same.

    Attributes
    ----------
    estimator_ : estimator
        What was chosen, fitted. Every method of it is a method of this class, too.
    choice_ : dict of arrays
        One entry for everything that was tried (``view``, ``method``, ``setting``, ``score``,
        ``chosen``, ``reason``); ``pandas.DataFrame`` takes it as it is.
    tasks_, offset_ : ndarray of shape (T,)
        Of the estimator.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    auto : The same as a function, which returns what was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import AutoOneClass
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan", "belt"], 20)
    >>> X = rng.normal(size=(60, 3)) + 4.0 * (task == "fan")[:, None]
    >>> model = AutoOneClass("faults", alarm_rate=0.1).fit(X, task=task)
    >>> model.predict([[9.0, -9.0, 9.0]], task=["belt"])
    array([-1])
    >>> type(model.estimator_).__name__
    'IndependentOCKSR'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "anomalies": [StrOptions({"any", "strangers", "faults"})],
        "alarm_rate": [RATE, None],
        "landmarks": IndependentOCKSR._parameter_constraints["landmarks"],
        "random_state": ["random_state"],
    }

    anomalies: Anomalies = "any"
    alarm_rate: float | None = DEFAULT_RATE
    landmarks: int | None = None
    random_state: Any = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        task: Any = None,
        outlier: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose method and setting on the rows, and fit.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Normal rows, but for those marked by `outlier`. Settings for rows that are not in memory
            (see :doc:`/scale`) are chosen on a sample, and the model is fitted by passes:
            :class:`JointOCKSR`, :class:`IndependentOCKSR`, or both.
        y : ignored
        task, outlier, sample_weight, groups
            As in `fit` of every estimator.

        Returns
        -------
        self
        """
        self._validate_params()
        refuse_pipeline(X)
        if y is not None and task is None:
            warn_of_labels_in_y(y)
        roles = {"task": task, "outlier": outlier, "groups": groups}
        roles["sample_weight"] = sample_weight
        if not in_memory(X) and not _is_small_map(X):
            refuse_whole_rows(JointOCKSR(landmarks=PASS_LANDMARKS), groups)
            return self._fit_passes(sweep_of(X, task, outlier, sample_weight))
        probe = IndependentOCKSR()
        rows = training_rows(probe, X, **roles)[0]
        plan, remarks = plan_views(
            rows, self.anomalies, self.landmarks, self.random_state
        )
        alone = len(plan) == 1
        tried = [tuned(view, rows, self.random_state, alone) for view in plan]
        best = combination([(choice.view, choice.model) for choice in tried])
        best.set_params(alarm_rate=self.alarm_rate).fit(X, **roles)
        best.choice_ = as_columns(tried, remarks + light_views(best))
        self.estimator_ = best
        return self

    def _fit_passes(self, sweep: Sweep) -> Self:
        """Choose on a sample of rows that only passes can see, and fit by passes."""
        sweep = steady(sweep)
        sample = sweep(TakeSample(SAMPLE_ROWS))
        refuse_unusable(sample)
        self.estimator_ = choose_by_sample(
            sweep,
            sample.rows(own_weight=True).by_task(),
            sample.n_rows,
            self.anomalies,
            self.alarm_rate,
            self.landmarks,
            self.random_state,
        )
        return self

    @property
    def _inner(self) -> OneClassEstimator:
        check_is_fitted(self)
        return self.estimator_

    def _prepared(self, X: Any, **roles: Any) -> dict[str, Any]:
        return {"X": X, **roles}

    @property
    def choice_(self) -> dict[str, NDArray[Any]]:
        """What was tried, and what was taken."""
        return self._fitted.choice_

    @property
    def n_features_in_(self) -> int:
        """Columns of the rows that it was fitted to."""
        return self._fitted.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of these columns, where they have names."""
        return self._fitted.feature_names_in_

    @property
    def label_columns_(self) -> dict[str, str]:
        """Columns that labels were taken from in `fit`, by what they hold."""
        return self._fitted.label_columns_

    @property
    def _fitted(self) -> Any:
        """The estimator, for attributes: there are none before a fit."""
        if "estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted yet.")
        return self.estimator_

    def enroll(self, X: Any, *, task: Any = None, **roles: Any) -> Self:
        """Add rows where the chosen estimator can; see its `enroll`."""
        self._inner.enroll(X, task=task, **roles)
        return self

    def forget(self, task: Any, **roles: Any) -> Self:
        """Remove a task where the chosen estimator can; see its `forget`."""
        self._inner.forget(task, **roles)
        return self


def auto(
    X: Any,
    y: Any = None,
    *,
    task: Any = None,
    outlier: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    anomalies: Anomalies = "any",
    alarm_rate: float | None = DEFAULT_RATE,
    landmarks: int | None = None,
    random_state: Any = None,
) -> OneClassEstimator:
    """Choose method and setting by what anomalies look like, and fit.

    Parameters
    ----------
    X, y, task, outlier, sample_weight, groups
        As in :meth:`AutoOneClass.fit`.
    anomalies, alarm_rate, landmarks, random_state
        As in :class:`AutoOneClass`.

    Returns
    -------
    estimator
        What an :class:`AutoOneClass` has chosen, its ``estimator_``: fitted, with ``choice_``.

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
    chooser = AutoOneClass(anomalies, alarm_rate, landmarks, random_state)
    roles = {"task": task, "outlier": outlier, "groups": groups}
    return chooser.fit(X, y, sample_weight=sample_weight, **roles).estimator_


def refuse_pipeline(X: Any) -> None:
    """Rows come first; a pipeline that ends in the choice is made, then fitted."""
    if isinstance(X, BaseEstimator):
        raise ValueError(
            f"X must be rows; got a {type(X).__name__}. For transformers in front, write "
            'make_pipeline(StandardScaler(), "auto").fit(X, task=...).'
        )


def _is_small_map(X: Any) -> bool:
    """Whether rows are mapped from a file, and few enough to be read whole."""
    return isinstance(X, np.memmap) and len(X) <= _MOST_JOINT


def combination(views: list[tuple[str, MultiTaskOneClass]]) -> OneClassEstimator:
    """One view as it is, several as a combination."""
    return views[0][1] if len(views) == 1 else CombinedOneClass(estimators=views)


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


def tuned(view: View, rows: TrainingRows, random_state: Any, alone: bool) -> _Choice:
    """The setting to take for a view; the simpler joint method where it is as good.

    Alone, where it is better by a standard error: two layers are better at strangers, as a rule.
    """
    name, model, criterion, grid = view
    values = {key: list(options) for key, options in grid.items()}
    table, best, judged = choose_setting(
        model, rows, values, criterion, True, "auto", random_state
    )
    found = [(type(model).__name__, entry) for entry in table]
    chosen = clone(model).set_params(**table[best].setting)
    if isinstance(model, NonlinearOCKSR):
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


def choose_by_sample(
    sweep: Sweep,
    rows: TrainingRows,
    n_rows: int,
    anomalies: str,
    alarm_rate: float | None,
    landmarks: int | None,
    random_state: Any,
) -> OneClassEstimator:
    """Choose settings on some of the rows, and fit to all by passes.

    Parameters
    ----------
    sweep : callable
        Runs a pass, see :func:`manyone.engines.fit`.
    rows : TrainingRows
        Some of them.
    n_rows : int
        How many there are.
    anomalies, alarm_rate, landmarks, random_state
        As in :func:`manyone.auto`.

    Returns
    -------
    estimator
    """
    several = rows.n_tasks > 1
    plan: list[tuple[View, int]] = []
    if several and anomalies != "faults":
        plan.append((strangers_view(JointOCKSR()), landmarks or PASS_LANDMARKS))
    if not several or anomalies != "strangers":
        alone = IndependentOCKSR()
        grid = {**fault_grid(alone), "metric": ("whitened", "plain")}
        most = min(landmarks or _PASS_TASK_LANDMARKS, _PASS_TASK_LANDMARKS)
        plan.append((View("faults", alone, "faults", grid), most))
    tried = [tuned(view, rows, random_state, False) for view, _ in plan]
    views = [
        (
            view.name,
            choice.model.set_params(landmarks=number, random_state=random_state or 0),
        )
        for choice, (view, number) in zip(tried, plan, strict=True)
    ]
    best = combination(views)
    best.set_params(alarm_rate=alarm_rate)._fit_passes(sweep)
    words = f"{len(rows.codes):,} of {n_rows:,} rows were looked at"
    remarks = [(view.name, f"{words}; {number} landmarks") for view, number in plan]
    best.choice_ = as_columns(tried, remarks + light_views(best))
    return best
