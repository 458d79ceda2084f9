"""Enrol rows or whole tasks, and forget them, without fitting again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Self, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from manyone._types import Codes, Labels
from manyone.calibration.tails import Tails
from manyone.calibration.thresholds import Calibration
from manyone.data.labels import as_labels, encode, lookup, split_labels
from manyone.data.rows import (
    MISSING,
    TrainingRows,
    number_of,
    row_numbers,
    training_rows,
)
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.landmarks import LandmarkOneClass
from manyone.fitting.independent import TaskSums
from manyone.fitting.joint import Sums
from manyone.fitting.updates import enrolled, forgotten
from manyone.messages import shortlist, warn_user
from manyone.metric.shrinkage import TaskWhitenings
from manyone.models.guards import unguarded, with_nearness
from manyone.models.scorers import InMetric
from manyone.models.solution import ExactState, Judge, Solution

Model = TypeVar("Model", bound=OneClassEstimator)


class Updates(OneClassEstimator):
    """`enroll` and `forget`, as all models have them that have them."""

    def enroll(
        self,
        X: object,
        *,
        task: object = None,
        outlier: object = None,
        sample_weight: object = None,
        groups: object = None,
    ) -> Self:
        """Add rows to known tasks or enrol new tasks; thresholds are set anew.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (k, d)
        task, outlier, sample_weight, groups
            As in `fit`. Groups are new ones; where the model has groups and none are given, the
            rows of a task are one.

        Returns
        -------
        self
            Equal to a fit to all rows with ``gamma=model.gamma_``; of a model of landmarks, with
            those that it has, its metric, and, in a combination, what makes views comparable. (Of
            an adaptive metric what all tasks have in common stays; small and new ones learn their
            own anew.)
        """
        X, task, outlier, groups = rows_to_enroll(self, X, task, outlier, groups)
        return self._enrolled(X, task, outlier, sample_weight, groups)

    def forget(
        self,
        task: object,
        *,
        X: object = None,
        outlier: object = None,
        sample_weight: object = None,
        others: Mapping[str, object] | None = None,
    ) -> Self:
        """Remove a task and every row of it from the model.

        Parameters
        ----------
        task : label
        X : array-like, sparse matrix or data frame of shape (k, d) or None
            All rows of the task, for a joint model of landmarks, which has not kept them. Rows that
            have moved landmarks or shaped a whitened metric are refused: see `others`. What the
            tasks of an adaptive metric have in common stays, and a warning says so.
        outlier, sample_weight
            Of these rows, as in `fit`.
        others : dict or None
            What `fit` is to be given for the rows of all other tasks (``X``, ``task``, ...),
            wherever they are, for a model of landmarks: it is fitted to them, on landmarks of
            theirs.

        Returns
        -------
        self
            Equal to a fit to the other rows with ``gamma=model.gamma_``; of a model of landmarks,
            with those that are left, thresholds from the scores that there were, and, in a
            combination, what makes views comparable. With `others`, equal to a fit to these.
        """
        if others is not None:
            return refit_without(self, task, others)
        return self._forgotten(code_of(self, task), X, outlier, sample_weight)

    @abstractmethod
    def _enrolled(
        self,
        X: object,
        task: object,
        outlier: object,
        sample_weight: object,
        groups: object,
    ) -> Self:
        """Become the model with more rows, whose tasks are given."""

    @abstractmethod
    def _forgotten(
        self, code: int, X: object, outlier: object, sample_weight: object
    ) -> Self:
        """Become the model without a task; of its rows what was given."""


class Updatable(Updates, LandmarkOneClass):
    """A kernel method whose model can be changed where its rows, or sums over them, are at hand.

    The kernel width stays what it was: the result equals a fit to the new set of rows with
    ``gamma=model.gamma_``. A whitened metric, which every row shapes, is learned anew, and so are
    landmarks of rows at hand: there, and only there, the change is a whole fit.
    """

    @abstractmethod
    def _with_rows(
        self, old: TrainingRows, new: TrainingRows
    ) -> tuple[Solution, TrainingRows]:
        """The solution for old and new rows, and these; codes count the tasks after the change."""

    @abstractmethod
    def _without_rows(self, gone: Codes, code: int) -> tuple[Solution, TrainingRows]:
        """The solution without the rows `gone`, which are those of the task `code`."""

    def _enrolled(
        self,
        X: object,
        task: object,
        outlier: object,
        sample_weight: object,
        groups: object,
    ) -> Self:
        by_sums = self._keeps_sums("enroll")
        more, tasks = more_rows(self, X, task, outlier, sample_weight, groups)
        if by_sums:
            self._become_sums(*enrolled(self, more, tasks))
            return self
        old = self.training_.recoded(lookup(self.tasks_, tasks), len(tasks))
        if self._fitted_as_a_whole:
            return self._refit(old.joined(more), tasks)
        with np.errstate(under="ignore"):
            solution, rows = self._with_rows(old, more)
        return self._become_exact(solution, rows, tasks)

    def _forgotten(
        self, code: int, X: object, outlier: object, sample_weight: object
    ) -> Self:
        if self._keeps_sums("forget"):
            gone = None
            if X is not None:
                task = np.repeat(self.tasks_[[code]], number_of(X))
                gone = more_rows(self, X, task, outlier, sample_weight)[0]
            self._become_sums(*forgotten(self, code, gone))
            return self
        tasks = np.delete(self.tasks_, code)
        if self._fitted_as_a_whole:
            return self._refit(self.training_.without(code), tasks)
        with np.errstate(under="ignore"):
            solution, rows = self._without_rows(
                np.flatnonzero(self.training_.codes == code), code
            )
        return self._become_exact(solution, rows, tasks)

    def _keeps_sums(self, method: str) -> bool:
        """Whether the model has kept sums over its rows, or else all of them."""
        if self.training_.X.shape[1]:
            return False
        sums = self.solution_.state
        if not isinstance(sums, Sums | TaskSums):
            raise ValueError(
                f"{method}() needs all training rows to evaluate the kernel on, but this model has "
                'kept none: it was fitted with kernel="precomputed", or with landmarks by a '
                "version before this. Fit again, X= all rows that it is to know; "
                "forget(task, others=...) does it, too."
            )
        adaptive = isinstance(sums.plan.metric, TaskWhitenings)
        if adaptive or self.solution_.left_out_source == "leave-group-out":
            why = 'metric="adaptive"' if adaptive else "groups="
            raise ValueError(
                f"{method}() of a model with landmarks and {why} needs all rows: fit it again to "
                "those that it is to know. TableModel does so where it has kept its rows."
            )
        return True

    @property
    def _exact_state(self) -> ExactState:
        """What an exact model has kept for updates and exact p-values."""
        state = self.solution_.state
        assert isinstance(state, ExactState)
        return state

    @property
    def _fitted_as_a_whole(self) -> bool:
        """Whether rows at hand are fitted anew when some come or go: metric and landmarks are."""
        in_metric = isinstance(unguarded(self.solution_.scorer), InMetric)
        return in_metric or self.landmarks is not None

    def _become_exact(
        self, solution: Solution, rows: TrainingRows, tasks: Labels
    ) -> Self:
        """Take over a solution of all rows."""
        with np.errstate(under="ignore"):
            solution = with_nearness(solution, rows)
        calibration = None
        if "calibration_" in vars(self):
            warn_of_lost_calibration(self)
            calibration = Calibration.from_left_out(solution, rows)
        return self._become(solution, tasks, rows, calibration, self.promised_rate_)

    def _become_sums(
        self, solution: Solution, tails: Tails | None, tasks: Labels
    ) -> Judge | None:
        """Take over a solution of landmarks; what leaves rows out of it, if known."""
        calibration = None
        rate = self.promised_rate_
        if "calibration_" in vars(self):
            warn_of_lost_calibration(self, replaced=tails is not None)
            if tails is None:
                rate = None
            else:
                calibration = tails.calibration(
                    len(tasks), solution.left_out_source, solution.scorer.far()
                )
        none = TrainingRows.none(len(tasks))
        self._become(replace(solution, judge=None), tasks, none, calibration, rate)
        return solution.judge

    def _refit(self, rows: TrainingRows, tasks: Labels) -> Self:
        warn_of_lost_calibration(self)
        rate = self.promised_rate_
        self._fit_rows(rows.by_task(), tasks, calibrate=rate is not None)
        if rate != self.promised_rate_:
            self._set_offsets(rate)
        return self


def warn_of_lost_calibration(model: OneClassEstimator, replaced: bool = True) -> None:
    """Thresholds from held-out rows belong to the model that scored these rows."""
    if "calibration_" in vars(model) and model.calibration_.source == "held-out":
        now = "come from left-out training rows"
        if not replaced:
            now = "are gone, as the model was fitted with alarm_rate=None"
        warn_user(
            "The held-out calibration belonged to the model before this change: thresholds now "
            f"{now}. Call calibrate(X, task=...) again."
        )


def rows_to_enroll(
    model: OneClassEstimator,
    X: object,
    task: object,
    outlier: object,
    groups: object,
) -> tuple[object, ...]:
    """Rows for a fitted model, the tasks of all of them, and what else is said about them."""
    check_is_fitted(model)
    number = len(model.tasks_)
    X, task, *rest = split_labels(
        X, model.label_columns_, task=task, outlier=outlier, groups=groups
    )
    if task is None and number > 1:
        raise ValueError(
            f"This model has {number} tasks: say with task=... where rows belong."
        )
    if task is None:
        task = np.repeat(model.tasks_, number_of(X))
    return X, task, *rest


def more_rows(
    model: OneClassEstimator, X: object, task: object, *given: object
) -> tuple[TrainingRows, Labels]:
    """Rows for a fitted model, dense or sparse as its own are, and the tasks (T,) of both."""
    more, names, _ = training_rows(model, X, task, *given, reset=False)
    fitted_rows = next(iter(getattr(model, "views_", {"": model}).values())).X_fit_
    if sparse.issparse(fitted_rows) != sparse.issparse(more.X):
        X = (
            sparse.csr_array(more.X)
            if sparse.issparse(fitted_rows)
            else more.X.toarray()
        )
        more = replace(more, X=X, content=row_numbers(X)).by_task()
    more = replace(more, X=more.X.astype(np.float64))
    known_tasks = set(model.tasks_.tolist())
    has_normal = set(names[more.codes[~more.outlier]].tolist())
    for label in names.tolist():
        if label not in known_tasks | has_normal:
            raise ValueError(
                f"New task {label!r} has no normal row: enrol one, or drop it."
            )
    tasks, _ = encode(
        as_labels([*model.tasks_.tolist(), *(set(names.tolist()) - known_tasks)])
    )
    return more.recoded(lookup(names, tasks), len(tasks)), tasks


def code_of(model: OneClassEstimator, task: object) -> int:
    """Number of a task that a model can do without, or why it cannot."""
    check_is_fitted(model)
    if isinstance(task, list | np.ndarray):
        raise ValueError(
            f"forget removes one task at a time; got {task!r}. Call it in a loop."
        )
    code = int(lookup(as_labels([task]), model.tasks_)[0])
    if code == MISSING:
        raise ValueError("forget needs the label of a task; got a missing value.")
    if len(model.tasks_) == 1:
        raise ValueError(
            f"{task!r} is the only task of the model: delete the model instead."
        )
    return code


def refit_without(model: Model, task: object, others: Mapping[str, object]) -> Model:
    """The model, become that of other rows: those of all tasks but one."""
    tasks = np.delete(model.tasks_, code_of(model, task))
    fresh = clone(model).set_params(alarm_rate=model.promised_rate_)
    if fresh.task_rate_limit is not None and model.promised_rate_ is not None:
        fresh.task_rate_limit = min(model.limit_ratio_ * model.promised_rate_, 1.0)
    fresh.fit(**others)
    refuse_other_tasks(fresh.tasks_, tasks)
    warn_of_lost_calibration(model)
    parameters = model.get_params(deep=False)
    model.__dict__.clear()
    model.__dict__.update(fresh.__dict__)
    return model.set_params(**parameters)


def refuse_other_tasks(found: Labels, tasks: Labels) -> None:
    """Raise where rows are not those of the tasks that stay."""
    if found.tolist() != tasks.tolist():
        raise ValueError(
            f"others must be the rows of all tasks that stay, {shortlist(tasks.tolist(), 5)}; "
            f"they are of {shortlist(found.tolist(), 5)}."
        )
