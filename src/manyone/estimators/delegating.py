"""Methods of estimators, for classes that hold a fitted estimator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Labels
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.combined import CombinedOneClass

Answer = TypeVar("Answer")


def _passed_on(method: Callable[..., Answer]) -> Callable[..., Answer]:
    """The same method of a class that holds an estimator: it calls that one's."""
    roles = signature(method).parameters.keys() & {"task"}

    @wraps(method)
    def call(holder: Delegating, X: object, **options: object) -> Answer:
        labels = {role: options.pop(role, None) for role in roles}
        if "time" in options:
            labels["time"] = options.pop("time")
        inner: Callable[..., Answer] = getattr(holder._inner, method.__name__)
        return inner(**holder._prepared(X, **labels), **options)

    return call


class Delegating:
    """Methods that call those of a fitted estimator, on prepared rows."""

    @property
    @abstractmethod
    def _inner(self) -> OneClassEstimator:
        """The fitted estimator; raises NotFittedError if there is none."""

    @abstractmethod
    def _prepared(self, X: object, **roles: object) -> dict[str, object]:
        """Rows and roles (task, ...) as the estimator takes them.

        A pipeline also takes the ``time`` of rows, for its transformers.
        """

    @abstractmethod
    def fit(self, X: object, y: object = None, *, task: object = None) -> Self:
        """Learn what is normal for each task."""

    def fit_predict(
        self, X: object, y: object = None, *, task: object = None, **roles: object
    ) -> NDArray[np.int_]:
        """Fit (parameters as in `fit`), then predict the same rows, shape (n,)."""
        self.fit(X, y, task=task, **roles)
        in_time = {role: roles[role] for role in roles.keys() & {"time"}}
        return self.predict(X, task=task, **in_time)

    score_samples = _passed_on(OneClassEstimator.score_samples)
    decision_function = _passed_on(OneClassEstimator.decision_function)
    predict = _passed_on(OneClassEstimator.predict)
    pvalues = _passed_on(OneClassEstimator.pvalues)
    select = _passed_on(OneClassEstimator.select)
    score_tasks = _passed_on(OneClassEstimator.score_tasks)
    predict_task = _passed_on(OneClassEstimator.predict_task)

    def pvalues_together(
        self, X: object, *, task: object = None, **roles: object
    ) -> tuple[Labels, Array]:
        """Tasks in `X` (S,), and the p-value of all rows of each together (S,)."""
        self._inner._check_calibrated()
        rows = self._prepared(X, task=task, **roles)
        return self._inner._pvalues_together(**rows, source=self.together_source_)

    @property
    def together_source_(self) -> str:
        """How `pvalues_together` makes p-values, see there."""
        return self._inner.together_source_

    def view_scores(self, X: object, *, task: object = None, **roles: object) -> Array:
        """Tail values (n, V) of rows in the views of a combined estimator."""
        model = self._inner
        if not isinstance(model, CombinedOneClass):
            raise AttributeError(
                f"A {type(model).__name__} has no views: only CombinedOneClass has."
            )
        return model.view_scores(**self._prepared(X, task=task, **roles))

    def enroll(self, X: object, *, task: object = None, **labels: object) -> Self:
        """Add rows of known tasks, or new tasks; see the `enroll` of the estimator."""
        roles = {"outlier": None, "groups": None, **labels}
        self._inner.enroll(**self._prepared(X, task=task, **roles))
        return self

    def forget(self, task: object) -> Self:
        """Remove a task and its rows; see the `forget` of the estimator."""
        self._inner.forget(task)
        return self

    def recalibrate(self, alarm_rate: float) -> Self:
        """Promise another alarm rate, without a new fit.

        Parameters are not changed, so a new fit promises the rate of before.
        """
        self._inner.recalibrate(alarm_rate)
        return self

    def calibrate(
        self,
        X: object,
        *,
        task: object = None,
        sample_weight: object = None,
        **roles: object,
    ) -> Self:
        """Set thresholds from held-out normal rows."""
        rows = self._prepared(X, task=task, **roles)
        self._inner.calibrate(**rows, sample_weight=sample_weight)
        return self

    @property
    def tasks_(self) -> Labels:
        """Labels, sorted, shape (T,)."""
        return self._inner.tasks_

    @property
    def offset_(self) -> Array:
        """Threshold on the score of each task, shape (T,)."""
        return self._inner.offset_

    @property
    def alarm_rate_(self) -> Array:
        """Alarm rate promised for each task, shape (T,)."""
        return self._inner.alarm_rate_
