"""Methods that look at one task at a time, and may give each a metric of its own."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from manyone._sklearn import Constraints
from manyone.capabilities import TASK_METRIC
from manyone.data.rows import TrainingRows
from manyone.estimators.base import MultiTaskOneClass
from manyone.metric.robust import robust_weights
from manyone.metric.shrinkage import TaskWhitenings, Whitening, task_whitenings


@dataclass(kw_only=True, eq=False, repr=False)
class TaskMetricOneClass(MultiTaskOneClass):
    """A method that looks at one task at a time, each in a metric of its own or not."""

    _parameter_constraints: ClassVar[Constraints] = {
        **MultiTaskOneClass._parameter_constraints,
        **TASK_METRIC,
    }

    scale_prior: float | str = "auto"
    covariance_prior: float | str = "auto"
    robust: bool = True

    def _learned_metric(
        self, rows: TrainingRows
    ) -> tuple[Whitening | TaskWhitenings, TrainingRows]:
        if self.metric != "adaptive":
            return super()._learned_metric(rows)
        priors = (self.scale_prior, self.covariance_prior)
        normal = rows.take(~rows.outlier)
        weight = normal.weight
        if self.robust:
            share = robust_weights(normal.X, normal.codes, weight, rows.n_tasks)
            trusted = rows.outlier.copy()
            trusted[~rows.outlier] = share == 1.0
            rows = rows.take(trusted)
            counted = np.flatnonzero(share > 0.0)
            weight = (weight * share)[counted]
            normal = normal.take(counted)
        metric = task_whitenings(normal.X, normal.codes, weight, rows.n_tasks, *priors)
        return metric, rows.shared_out()

    def _of_folds(self, metric: Whitening | TaskWhitenings | None) -> Self:
        if not isinstance(metric, TaskWhitenings):
            return self
        # The strength is chosen among a few values. A fold might choose another one,
        # and its scores would say nothing about the model of all rows.
        method = copy(self)
        method.covariance_prior = metric.covariance_prior
        return method
