"""Choose a method by what anomalies are, and its settings by the training rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from manyone._sklearn import Constraints, StrOptions
from manyone._types import Anomalies, Array, Labels
from manyone.capabilities import LANDMARKS
from manyone.data.checks import warn_of_labels_in_y
from manyone.data.rows import TrainingRows, in_memory, training_rows
from manyone.data.sample import TakeSample, lowest_hashes, refuse_unusable
from manyone.data.sweeps import Sweep, steady
from manyone.estimators.base import MultiTaskOneClass, OneClassEstimator
from manyone.estimators.combined import CombinedOneClass
from manyone.estimators.delegating import Delegating
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.nonlinear import NonlinearOCKSR
from manyone.estimators.scoring import DEFAULT_RATE, LIMIT, RATE, limit_ratio
from manyone.estimators.svdd import SVDD
from manyone.fitting.sources import sweep_of
from manyone.routing import RoutingState
from manyone.selection.costs import (
    FEWEST_ROWS,
    MOST_ROWS,
    is_affordable,
    rows_of_each_task,
)
from manyone.selection.criteria import (
    Setting,
    content_sample,
    fault_areas,
    fold_areas,
    refuse_unless_dense,
)
from manyone.selection.search import (
    ERRORS_OF_ONE,
    NO_PREFERENCE,
    Judged,
    Seed,
    choose_setting,
    columns_of,
    faults_to_judge_by,
    preferred,
)
from manyone.threads import one_blas_thread

#: The setting for faults. A search for another one by made faults bought nothing, see
#: CONTRIBUTING.
FOR_FAULTS: dict[str, Any] = {
    "metric": "adaptive",
    "kernel": "laplacian",
    "width": 3.0,
}
# What the table of methods shows.
_SHOWN = ("kernel", "width", "alpha", "nu", "metric")


@dataclass(eq=False, repr=False)
class AutoOneClass(Delegating, RoutingState, OutlierMixin, BaseEstimator):
    """Choose method and setting by what anomalies look like, as an estimator.

    Bring columns to one scale first: this class does not.

    Parameters
    ----------
    anomalies : {"any", "strangers", "faults"}
        ``"strangers"``: rows of somebody or something else. A joint method learns from
        other tasks' rows what is wrong, and is tuned on tasks left out. It is
        :class:`NonlinearOCKSR`, or :class:`JointOCKSR` where that is better by a
        standard error, or where two layers take too long. ``"faults"``: the task's own
        rows gone wrong. The method is an :class:`IndependentOCKSR` with an adaptive
        metric and a wide Laplacian kernel. It is the distance to the mean (an
        :class:`SVDD`) where that is better by a standard error on faults made from
        left-out rows. ``"any"``: a :class:`CombinedOneClass` of both. Its view for
        strangers has one layer where that is as good. The weight of a view is small
        where all new rows look about equally far away to it.
    alarm_rate : float or None, default=0.05
        Share of normal rows that may raise an alarm, on average over tasks. None: no
        thresholds are set.
    task_rate_limit : float or None
        Largest share of normal rows of a single task that may raise an alarm, on
        average; never below 1/(n + 1) for n rows. None: three times `alarm_rate`. 1.0:
        no limit.
    landmarks : int or None
        Number of landmark rows of a joint method. None: 1,000 where there are too many
        rows for a kernel matrix.
    random_state : int, RandomState or None
        Of landmarks and of the faults that are made; None always makes the same.

    Attributes
    ----------
    estimator_ : estimator
        What was chosen, fitted. Every method of it is a method of this class, too.
    choice_ : dict of arrays
        One entry for everything that was tried (``view``, ``method``, ``setting``,
        ``score``, ``stage``, ``chosen``, ``reason``); ``pandas.DataFrame`` takes it as
        it is. Compare scores of one view and stage only. The preferred setting stays
        chosen unless another is better by enough standard errors, so it need not have
        the highest score.
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

    _parameter_constraints: ClassVar[Constraints] = {
        "anomalies": [StrOptions({"any", "strangers", "faults"})],
        "alarm_rate": [RATE, None],
        "task_rate_limit": [LIMIT, None],
        "landmarks": LANDMARKS["landmarks"],
        "random_state": ["random_state"],
    }

    anomalies: Anomalies = "any"
    alarm_rate: float | None = DEFAULT_RATE
    landmarks: int | None = None
    random_state: Seed = None
    task_rate_limit: float | None = None

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        task: object = None,
        outlier: object = None,
        sample_weight: object = None,
        groups: object = None,
    ) -> Self:
        """Choose method and setting on the rows, and fit.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Normal rows, but for those marked by `outlier`. Of rows that are not in
            memory (see :doc:`/scale`) at most 100,000 are kept, drawn by their content.
            Where each task alone would take too long, fewer rows of large tasks are.
        y : ignored
        task, outlier, sample_weight, groups
            As in `fit` of every estimator.

        Returns
        -------
        self
        """
        self._validate_params()
        limit_ratio(self.alarm_rate, self.task_rate_limit)
        if isinstance(X, BaseEstimator):
            raise ValueError(
                f"X must be rows; got a {type(X).__name__}. For transformers in front, "
                "write make_pipeline(StandardScaler(), AutoOneClass()).fit(X, "
                "task=...)."
            )
        if y is not None and task is None:
            warn_of_labels_in_y(y)
        is_small_map = isinstance(X, np.memmap) and len(X) <= MOST_ROWS
        if not in_memory(X) and not is_small_map:
            if groups is not None:
                raise JointOCKSR()._no_passes("groups= needs all rows in memory")
            return self._fit_passes(sweep_of(X, task, outlier, sample_weight))
        checked = IndependentOCKSR()
        rows, tasks, _ = training_rows(checked, X, task, outlier, sample_weight, groups)
        names = getattr(checked, "feature_names_in_", None)
        columns = (rows.X.shape[1], names, checked.label_columns_)
        return self._fit_kept(rows, tasks, len(rows.codes), columns)

    def _fit_passes(self, sweep: Sweep) -> Self:
        """Choose for, and fit to, a sample of the rows of a sweep."""
        sample = steady(sweep)(TakeSample(MOST_ROWS))
        refuse_unusable(sample)
        rows = sample.rows(own_weight=True).by_task()
        columns = (rows.X.shape[1], sample.names, sample.label_columns)
        n_rows = len(rows.codes) if sample.whole else sample.n_rows
        return self._fit_kept(rows, sample.tasks, n_rows, columns)

    def _fit_kept(
        self, rows: TrainingRows, tasks: Labels, n_rows: int, columns: Columns
    ) -> Self:
        """Choose for, and fit to, as many of these rows as there is time for."""
        if self.anomalies != "strangers" or len(tasks) == 1:
            sizes = np.bincount(rows.codes[~rows.outlier], minlength=len(tasks))
            rows = lowest_hashes(rows, rows_of_each_task(sizes))
        views, remarks = plan_views(
            rows, self.anomalies, self.landmarks, self.random_state
        )
        if len(rows.codes) < n_rows:
            words = f"{len(rows.codes):,} of {n_rows:,} rows were kept"
            remarks += [(view.name, words) for view in views]
        alone = len(views) == 1
        choices = [tuned(view, rows, self.random_state, alone) for view in views]
        model: OneClassEstimator = choices[0].model
        if not alone:
            named = [(choice.view, choice.model) for choice in choices]
            model = CombinedOneClass(named)
        model.set_params(
            alarm_rate=self.alarm_rate, task_rate_limit=self.task_rate_limit
        )
        model._remember_columns(*columns)
        model._fit_rows(rows, tasks, calibrate=self.alarm_rate is not None)
        if isinstance(model, CombinedOneClass):
            words = "weight {:.2g}: rows left out look about as far away to it as any"
            weights = zip(model.views_, model.weights_.tolist(), strict=True)
            remarks += [(name, words.format(w)) for name, w in weights if w < 1.0]
        model.choice_ = as_columns(choices, remarks)
        self.estimator_ = model
        return self

    @property
    def _inner(self) -> OneClassEstimator:
        check_is_fitted(self)
        return self.estimator_

    def _prepared(self, X: object, **roles: object) -> dict[str, object]:
        return {"X": X, **roles}

    @property
    def choice_(self) -> dict[str, Labels]:
        """What was tried, and what was taken."""
        return self._inner.choice_

    @property
    def n_features_in_(self) -> int:
        """Columns of the rows that it was fitted to."""
        return self._inner.n_features_in_

    @property
    def feature_names_in_(self) -> Labels:
        """Names of these columns, where they have names."""
        return self._inner.feature_names_in_

    @property
    def label_columns_(self) -> dict[str, str]:
        """Columns that hold labels, by role."""
        return self._inner.label_columns_


def auto(
    X: object,
    y: object = None,
    *,
    task: object = None,
    outlier: object = None,
    sample_weight: object = None,
    groups: object = None,
    anomalies: Anomalies = "any",
    alarm_rate: float | None = DEFAULT_RATE,
    landmarks: int | None = None,
    random_state: Seed = None,
    task_rate_limit: float | None = None,
) -> OneClassEstimator:
    """Choose method and setting by what anomalies look like, and fit.

    Parameters
    ----------
    X, y, task, outlier, sample_weight, groups
        As in :meth:`AutoOneClass.fit`.
    anomalies, alarm_rate, landmarks, random_state, task_rate_limit
        As in :class:`AutoOneClass`.

    Returns
    -------
    estimator
        What an :class:`AutoOneClass` has chosen, its ``estimator_``: fitted, with
        ``choice_``.

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
    return (
        AutoOneClass(anomalies, alarm_rate, landmarks, random_state, task_rate_limit)
        .fit(
            X,
            y,
            task=task,
            outlier=outlier,
            sample_weight=sample_weight,
            groups=groups,
        )
        .estimator_
    )


class View(NamedTuple):
    """A view to choose a setting for, and its method."""

    name: str
    model: MultiTaskOneClass


class Choice(NamedTuple):
    """What was chosen for a view.

    Attributes
    ----------
    view : str
    model : MultiTaskOneClass
        Not fitted.
    table : list of (str, Judged)
        Methods and their settings, with how they did.
    best : int
        Place of the model in the table.
    """

    view: str
    model: MultiTaskOneClass
    table: list[tuple[str, Judged]]
    best: int


#: Number of columns, their names, and columns that hold labels, by role.
Columns = tuple[int, Labels | None, Mapping[str, str]]
#: Names of views, with a reason to tell users.
Remarks = list[tuple[str, str]]


def plan_views(
    rows: TrainingRows,
    anomalies: str,
    landmarks: int | None,
    random_state: Seed,
) -> tuple[list[View], Remarks]:
    """Views to choose settings for, and remarks on them.

    Parameters
    ----------
    rows : TrainingRows
    anomalies, landmarks, random_state
        As in :func:`auto`.

    Returns
    -------
    list of View, list of (str, str)
    """
    several = rows.n_tasks > 1
    if anomalies != "strangers" or not several:
        refuse_unless_dense(rows, 'anomalies="strangers", with several tasks')
    views = []
    remarks = []
    if several and anomalies != "faults":
        model, remark = _plan_strangers(rows, landmarks, random_state or 0)
        views.append(View("strangers", model))
        if remark:
            remarks.append(("strangers", remark))
    if anomalies != "strangers" or not several:
        views.append(View("faults", IndependentOCKSR(**FOR_FAULTS)))
    if not several and anomalies != "faults":
        reason = "left out: one task has no other tasks to tell it from"
        remarks.append(("strangers", reason))
    return views, remarks


def _plan_strangers(
    rows: TrainingRows, landmarks: int | None, seed: Seed
) -> tuple[MultiTaskOneClass, str]:
    """The best joint method that there is time for with so many rows, and why."""
    count = len(rows.codes)
    if landmarks is None and is_affordable(NonlinearOCKSR(), rows):
        return NonlinearOCKSR(), ""
    if landmarks is None and is_affordable(JointOCKSR(), rows):
        return JointOCKSR(), f"one layer: {count} rows are too many for two"
    number = min(count, landmarks or 1000)
    model = JointOCKSR(landmarks=number, random_state=seed)
    return model, f"{number} landmarks instead of {count} rows"


def tuned(view: View, rows: TrainingRows, random_state: Seed, alone: bool) -> Choice:
    """The choice for a view: a setting of its method, or of a simpler method.

    As a rule two layers are better at strangers than one, and kernels better at faults
    than the distance to the mean. So a view alone gets the simpler method only if that
    is better by a standard error. Beside another view, one layer is enough if it is as
    good.
    """
    if view.name == "faults":
        return _chosen_for_faults(view, rows, random_state, alone)
    model = view.model
    grid = {**model.can.grid, **model.can.strengths}
    search = choose_setting(
        model, rows, grid, "unseen", True, random_state=random_state
    )
    table = [(type(model).__name__, entry) for entry in search.table]
    chosen = clone(model).set_params(**search.setting)
    if not isinstance(model, NonlinearOCKSR):
        return Choice(view.name, chosen, table, search.best)
    shared = [name for name in JointOCKSR().get_params() if name in grid]
    simpler = JointOCKSR(**{name: getattr(chosen, name) for name in shared})
    methods = [chosen, simpler] if alone else [simpler, chosen]
    judge = partial(fold_areas, rows=search.rows, kind="both", settings=[{}])
    judged = _judged(methods, judge)
    table += judged
    best = preferred(
        [entry for _, entry in judged], ERRORS_OF_ONE if alone else NO_PREFERENCE
    )
    if methods[best] is chosen:
        return Choice(view.name, chosen, table, search.best)
    return Choice(view.name, simpler, table, len(search.table) + best)


def _chosen_for_faults(
    view: View, rows: TrainingRows, random_state: Seed, alone: bool
) -> Choice:
    """The kernel method; or the distance to the mean, if there is no other view."""
    if not alone:
        unjudged = Judged(_shown(view.model), np.empty((1, 0)), "")
        table = [(type(view.model).__name__, unjudged)]
        return Choice(view.name, view.model, table, 0)
    # With nu=1 all rows may be outside of the ball, and its centre is their mean.
    distance = SVDD(kernel="linear", nu=1.0, metric="adaptive")
    methods = [view.model, distance]
    sample = content_sample(rows, FEWEST_ROWS)
    judged_rows, faults = faults_to_judge_by(sample, random_state, twins=8)
    with one_blas_thread(len(sample.codes) // 2):
        judge = partial(fault_areas, rows=judged_rows, faults=faults, settings=[{}])
        table = _judged(methods, judge)
    best = preferred([entry for _, entry in table], ERRORS_OF_ONE)
    return Choice(view.name, methods[best], table, best)


def _judged(
    methods: list[MultiTaskOneClass], judge: Callable[[MultiTaskOneClass], list[Array]]
) -> list[tuple[str, Judged]]:
    """Methods with their settings, and how they did."""
    with np.errstate(under="ignore"):
        return [
            (type(method).__name__, Judged(_shown(method), judge(method)[0], "method"))
            for method in methods
        ]


def _shown(model: MultiTaskOneClass) -> Setting:
    """The parameters of a method that the table of methods shows."""
    return {name: getattr(model, name) for name in _SHOWN if hasattr(model, name)}


def _why_chosen(choice: Choice) -> str:
    """The reason for a choice, as the table of methods tells it."""
    _, chosen = choice.table[choice.best]
    if not chosen.stage:
        return "for faults, beside strangers"
    if np.isnan(chosen.score):
        return "no row could be left out to judge by"
    rivals = [entry for _, entry in choice.table if entry.stage == chosen.stage]
    if any(rival.score > chosen.score for rival in rivals):
        return "preferred, as none is clearly better on left-out rows"
    return "best on left-out rows"


def as_columns(choices: list[Choice], remarks: Remarks) -> dict[str, Labels]:
    """The table of what was tried and what was left out, column by column."""
    reasons = defaultdict(list)
    for view, words in remarks:
        reasons[view].append(words)
    lines: list[dict[str, object]] = []
    for choice in choices:
        reason = "; ".join(reasons.pop(choice.view, [_why_chosen(choice)]))
        for number, (method, entry) in enumerate(choice.table):
            setting = [
                f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in sorted(entry.setting.items())
            ]
            taken = number == choice.best
            line: dict[str, object] = {"view": choice.view, "method": method}
            line["setting"] = ", ".join(setting)
            line["score"] = entry.score
            line["stage"] = entry.stage
            line["chosen"] = taken
            line["reason"] = reason if taken else ""
            lines.append(line)
    empty = {"method": "", "setting": "", "score": np.nan, "stage": "", "chosen": False}
    for view, sentences in reasons.items():
        lines.append({"view": view, **empty, "reason": "; ".join(sentences)})
    return columns_of(lines)
