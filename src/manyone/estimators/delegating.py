"""The methods of an estimator, for whatever holds a fitted one inside."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Labels, Mask
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.combined import CombinedOneClass


class Delegating:
    """Asks the fitted estimator inside, with rows as that one takes them."""

    @property
    @abstractmethod
    def _inner(self) -> OneClassEstimator:
        """The fitted estimator; scikit-learn's NotFittedError where there is none."""

    @abstractmethod
    def _prepared(self, X: object, **roles: object) -> dict[str, object]:
        """``X`` and roles (task, ...) as the estimator inside takes them, columns split off."""

    @abstractmethod
    def fit(self, X: object, y: object = None, *, task: object = None) -> Self:
        """Learn what is normal for each task."""

    def fit_predict(
        self, X: object, y: object = None, *, task: object = None, **roles: object
    ) -> NDArray[np.int_]:
        """Fit (see `fit` for what else may be given), then predict the same rows, shape (n,)."""
        return self.fit(X, y, task=task, **roles).predict(X, task=task)

    def score_samples(self, X: object, *, task: object = None) -> Array:
        """Score of each row, shape (n,); higher is more normal."""
        return self._inner.score_samples(**self._prepared(X, task=task))

    def decision_function(self, X: object, *, task: object = None) -> Array:
        """Score minus threshold, shape (n,); < 0 raises the alarm."""
        return self._inner.decision_function(**self._prepared(X, task=task))

    def predict(self, X: object, *, task: object = None) -> NDArray[np.int_]:
        """+1 where a row is normal for its task, -1 where it raises the alarm, shape (n,)."""
        return self._inner.predict(**self._prepared(X, task=task))

    def pvalues(self, X: object, *, task: object = None, exact: bool = False) -> Array:
        """P-value of "this row is normal for its task", shape (n,)."""
        return self._inner.pvalues(**self._prepared(X, task=task), exact=exact)

    def pvalues_together(
        self, X: object, *, task: object = None
    ) -> tuple[Labels, Array]:
        """Tasks in `X` (S,), and the p-value of all rows of each together (S,)."""
        self._inner._check_calibrated()
        rows = self._prepared(X, task=task)
        return self._inner._pvalues_together(**rows, source=self.together_source_)

    @property
    def together_source_(self) -> str:
        """What `pvalues_together` compares new rows with."""
        return self._inner.together_source_

    def select(self, X: object, *, task: object = None, fdr: float = 0.1) -> Mask:
        """Rows of a batch to call abnormal, with false-discovery control, shape (n,)."""
        return self._inner.select(**self._prepared(X, task=task), fdr=fdr)

    def view_scores(self, X: object, *, task: object = None) -> Array:
        """How abnormal each row looks in each view of a combined estimator, shape (n, V)."""
        model = self._inner
        if not isinstance(model, CombinedOneClass):
            raise AttributeError(
                f"A {type(model).__name__} has no views: only CombinedOneClass has."
            )
        return model.view_scores(**self._prepared(X, task=task))

    def score_tasks(self, X: object) -> Array:
        """Score of every row against every task, shape (n, T)."""
        return self._inner.score_tasks(**self._prepared(X))

    def predict_task(self, X: object) -> Labels:
        """The task that accepts a row best, or none, shape (n,)."""
        return self._inner.predict_task(**self._prepared(X))

    def recalibrate(self, alarm_rate: float) -> Self:
        """Promise another alarm rate; nothing is refitted."""
        self._inner.recalibrate(alarm_rate)
        return self

    def calibrate(
        self, X: object, *, task: object = None, sample_weight: object = None
    ) -> Self:
        """Set the thresholds from held-out normal rows."""
        self._inner.calibrate(
            **self._prepared(X, task=task), sample_weight=sample_weight
        )
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
        """Alarm rate that each task really promises, shape (T,)."""
        return self._inner.alarm_rate_
