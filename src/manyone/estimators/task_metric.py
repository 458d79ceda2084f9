"""What methods have in common that look at one task at a time: a metric for each."""

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
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution


@dataclass(kw_only=True, eq=False, repr=False)
class TaskMetricOneClass(MultiTaskOneClass):
    """A method whose tasks may each have a metric of their own."""

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
        self._refuse_metric(rows)
        priors = (self.scale_prior, self.covariance_prior)
        used = rows.take(~rows.outlier)
        weight = used.weight
        if self.robust:
            share = robust_weights(used.X, used.codes, weight, rows.n_tasks)
            trusted = rows.outlier.copy()
            trusted[~rows.outlier] = share == 1.0
            rows = rows.take(trusted)
            counted = np.flatnonzero(share > 0.0)
            weight = (weight * share)[counted]
            used = used.take(counted)
        metric = task_whitenings(used.X, used.codes, weight, rows.n_tasks, *priors)
        return metric, rows.shared_out()

    def _without_choices(self, solution: Solution) -> Self:
        scorer = solution.scorer
        if not isinstance(scorer, InMetric):
            return self
        metric = scorer.metric
        if not isinstance(metric, TaskWhitenings):
            return self
        # The strength is one of a few. Without a fold it may be another one, and scores
        # of such a model would say nothing of this one's.
        method = copy(self)
        method.covariance_prior = metric.covariance_prior
        return method
