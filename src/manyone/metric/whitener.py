"""A metric learned from all tasks: whitening with their within-task covariance."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from manyone._sklearn import Constraints, Interval, StrOptions
from manyone._types import Array, Codes, Labels
from manyone.capabilities import TASK_METRIC
from manyone.data import checks
from manyone.data.labels import (
    check_weight,
    encode,
    lookup,
    one_per_row,
    split_columns,
    split_labels,
)
from manyone.data.rows import MISSING
from manyone.metric.shrinkage import (
    TaskWhitenings,
    Whitening,
    pooled_whitening,
    task_whitenings,
)
from manyone.routing import RoutingState


@dataclass(kw_only=True, eq=False, repr=False)
class TaskWhitener(RoutingState, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Whiten rows with the shrunk pooled within-task covariance.

    Directions in which rows of one task differ among themselves are shrunk. With
    :math:`S` the covariance of the rows about their task means, rows are multiplied by
    :math:`((1-\rho) S + \rho \mu I)^{-1/2}`, :math:`\mu = \operatorname{tr} S / d`.

    With ``adaptive=True`` every task has its own metric: mean, column scales and
    covariance, both shrunk to the pooled ones. The fewer rows a task has, the closer
    its metric is to the pooled one. Each task then has coordinates of its own, so
    `transform` needs the task of each row.

    Parameters
    ----------
    shrinkage : float or "auto", default="auto"
        rho in [0, 1]. ``"auto"`` is the Ledoit-Wolf estimate, which ``adaptive=True``
        always uses.
    adaptive : bool, default=False
        One metric for each task.
    scale_prior : float or "auto", default="auto"
        Rows that the pooled column scales count for, with `adaptive`. ``"auto"``: for
        each column by how much more its variances differ between tasks than samples of
        one variance would, at least 2.
    covariance_prior : float or "auto", default="auto"
        Likewise for the covariance. ``"auto"``: 3, or what predicts left-out rows best
        where that is better by three standard errors over at least eight tasks.

    Attributes
    ----------
    whitening_ : Whitening or TaskWhitenings
        The metric as plain arrays.
    shrinkage_ : float
        The rho used.
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    A whitener has seen the rows it was fitted on: leave-one-out scores of a model
    behind it are far too good. Refit it inside each fold, as the estimators do with
    ``metric="whitened"`` and ``metric="adaptive"``.

    Costs O(n d min(n, d)): the smaller of the d x d covariance and the n x n Gram
    matrix of the centred rows is decomposed, so either may be large.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import TaskWhitener
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["a", "b"], 50)
    >>> X = rng.normal(size=(100, 2)) * [1.0, 10.0]
    >>> Z = TaskWhitener(shrinkage=0.0).fit_transform(X, task=task)
    >>> np.allclose(np.cov(Z[:50].T) + np.cov(Z[50:].T), 2 * np.eye(2), atol=0.7)
    True
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "adaptive": ["boolean"],
        "scale_prior": TASK_METRIC["scale_prior"],
        "covariance_prior": TASK_METRIC["covariance_prior"],
    }

    shrinkage: float | str = "auto"
    adaptive: bool = False
    scale_prior: float | str = "auto"
    covariance_prior: float | str = "auto"

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        task: object = None,
        sample_weight: object = None,
    ) -> Self:
        """Estimate the within-task covariance.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        y : ignored
        task : array-like of shape (n,), or the name of a column of `X`, or None
            None: a single task.
        sample_weight : array-like of shape (n,) or None
            Counts.

        Returns
        -------
        self
        """
        self._validate_params()
        self.label_columns_, X, task = split_columns(X, task=task)
        checked: Array = validate_data(self, X, dtype=np.float64)
        n = len(checked)
        labels: Labels = np.zeros(n)
        weight = np.ones(n)
        if task is not None:
            labels = one_per_row("task", task, n)
        if sample_weight is not None:
            weight = check_weight(sample_weight, checked)
        counted = np.flatnonzero(weight > 0)
        self.tasks_, codes = encode(labels[counted])
        has_task = codes != MISSING
        rows = counted[has_task]
        codes = codes[has_task]
        self.whitening_: Whitening | TaskWhitenings
        with np.errstate(under="ignore"):
            if self.adaptive:
                self.whitening_ = task_whitenings(
                    checked[rows],
                    codes,
                    weight[rows],
                    len(self.tasks_),
                    self.scale_prior,
                    self.covariance_prior,
                )
                self.shrinkage_ = self.whitening_.pooled.shrinkage
            else:
                self.whitening_ = pooled_whitening(
                    checked[rows], codes, weight[rows], self.shrinkage
                )
                self.shrinkage_ = self.whitening_.shrinkage
        return self

    def transform(self, X: object, *, task: object = None) -> Array:
        """Whiten rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        task : array-like of shape (n,), or the name of a column of `X`, or None
            Needed with ``adaptive=True`` where there are several tasks.

        Returns
        -------
        ndarray of shape (n, d)
        """
        check_is_fitted(self)
        X, task = split_labels(X, self.label_columns_, task=task)
        checked: Array = validate_data(self, X, reset=False, dtype=np.float64)
        with np.errstate(under="ignore"):
            return self.whitening_.apply(checked, self._codes(task, len(checked)))

    def fit_transform(
        self,
        X: object,
        y: object = None,
        *,
        task: object = None,
        sample_weight: object = None,
    ) -> Array:
        """Fit, then whiten the same rows (see `fit` and `transform`)."""
        self.fit(X, y, task=task, sample_weight=sample_weight)
        return self.transform(X, task=task)

    def _get_metadata_request(self) -> Any:
        """Metadata requests; one metric for all tasks needs no task to transform."""
        requests = super()._get_metadata_request()
        if not self.adaptive:
            requests.transform.requests.pop("task", None)
        return requests

    def _codes(self, task: object, n: int) -> Codes:
        """Number of each row's task; all 0 where one metric serves all."""
        if self.whitening_.shared or (task is None and len(self.tasks_) == 1):
            return np.zeros(n, dtype=np.intp)
        if task is None:
            raise ValueError(
                f"With adaptive=True each of the {len(self.tasks_)} tasks has its own "
                "metric: say with task=... where rows belong."
            )
        labels: Labels = one_per_row("task", task, n)
        checks.refuse_rows_without_task(labels, np.zeros(n, dtype=bool))
        return lookup(labels, self.tasks_)
