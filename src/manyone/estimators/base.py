"""What all estimators share: parameters, fitting, thresholds."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning

from manyone import validation
from manyone._sklearn import Interval, StrOptions, fit_context, validate_parameter_constraints
from manyone._types import Array, Codes
from manyone.calibration.thresholds import Calibration, Folds
from manyone.estimators.capabilities import Capabilities
from manyone.estimators.scoring import Scoring
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import KERNELS, VALUES_ONLY
from manyone.memory import NotEnoughMemory, too_large
from manyone.messages import warn_unconverged, warn_user
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution
from manyone.routing import RoutingState
from manyone.rows import TrainingRows, check_weight, renumbered, split_named, training_rows
from manyone.solvers.ridge import NotPositiveDefinite
from manyone.whitening import TaskWhitener

# Refits for thresholds where a learned metric forbids the closed form.
_FOLDS = 10


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTaskOneClass(Scoring, RoutingState, OutlierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of all estimators.

    A subclass declares what it can do (`can`) and says how to solve (`_solve`); the solution it
    returns knows how to score. Everything a user sees beyond that is here and in `Scoring`, once.
    """

    can: ClassVar[Capabilities] = Capabilities()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [
            StrOptions({"mean", "median", "scale"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "width": [Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "metric": [StrOptions({"plain", "whitened"})],
        "alarm_rate": [Interval(Real, 0, 1, closed="neither")],
    }

    kernel: str | Callable[..., float] = "rbf"
    gamma: str | float = "mean"
    width: float = 1.0
    degree: int = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    metric: str = "plain"
    alarm_rate: float = 0.05

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give the class a read-only attribute for everything that it declares to learn."""
        super().__init_subclass__(**kwargs)
        for name in cls.can.learns:
            if not hasattr(cls, name):
                setattr(cls, name, _learned(name))

    @abstractmethod
    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        """Fit to rows, seen through a kernel; the estimator is not changed.

        `left_out` says whether left-out scores are wanted, where they cost something.
        """

    # ------------------------------------------------------------------------------------- fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        task: Any = None,
        outlier: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn what is normal for each task, and set its alarm threshold.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            Rows, normal but for those marked by `outlier`. With ``kernel="precomputed"``, the
            kernel matrix of shape (n, n).
        y : ignored
        task : array-like of shape (n,) or str or None
            Label of each row (strings, integers, any hashable), or the name of the column of `X`
            that holds it (then not a feature). None: all rows belong to one task.
        outlier : array-like of bool of shape (n,) or str or None
            Rows known to be abnormal for their task; those whose task is missing (None, NaN) are
            abnormal for every task.
        sample_weight : array-like of shape (n,) or None
            Counts: weight 2 is the same as the row given twice, weight 0 as the row left out.

        Returns
        -------
        self
        """
        if y is not None and task is None:
            validation.warn_of_labels_in_y(y)
        named: list[str] = []
        if isinstance(task, str) or isinstance(outlier, str):
            X, task, outlier, named = split_named(X, task, outlier)
        rows, tasks, _ = training_rows(self, X, task, outlier, sample_weight)
        return self._fit_rows(rows, tasks, named)

    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        *,
        task: Any = None,
        outlier: Any = None,
        sample_weight: Any = None,
    ) -> NDArray[np.int_]:
        """Fit, then predict the same rows (see `fit` and `predict`), shape (n,)."""
        self.fit(X, task=task, outlier=outlier, sample_weight=sample_weight)
        return self.predict(X, task=task)

    def _fit_rows(
        self, rows: TrainingRows, tasks: NDArray[Any], named: list[str], *, calibrate: bool = True
    ) -> Self:
        """Become the model of these rows, with thresholds unless told otherwise."""
        if self.can.merges_copies:
            rows = rows.merged()[0]
        try:
            with np.errstate(under="ignore"):
                solution = self._learn(rows, left_out=calibrate)
        except NotEnoughMemory:
            raise
        except MemoryError:
            raise NotEnoughMemory(too_large(len(rows.codes))) from None
        self.tasks_, self.solution_ = tasks, solution
        # A scoring call may bring these columns along without naming them: remember their names.
        self.label_columns_ = named
        # What updates, exact p-values and plots need of the rows; landmarks stand for theirs.
        bare = rows.columns is not None or getattr(self, "landmarks", None) is not None
        self.training_ = replace(rows, X=np.empty((len(rows.codes), 0))) if bare else rows
        report = solution.report
        if not report.converged and report.message is not None:
            warn_user(report.message, ConvergenceWarning)
        elif not report.converged:
            warn_unconverged(type(self).__name__, self.max_iter, self.tol)
        kernel = solution.scorer.points.kernel
        if self.metric == "plain" and kernel.unit_diagonal and rows.X.shape[1] > 1:
            self._warn_of_scales(rows.X)
        if calibrate and solution.left_out is not None:
            with np.errstate(under="ignore"):
                self.calibration_ = Calibration.from_scores(
                    solution.left_out, rows.codes, rows.weight, len(tasks), solution.left_out_source
                )
            self._set_offsets(self.alarm_rate)
        return self

    def _learn(self, rows: TrainingRows, *, left_out: bool) -> Solution:
        """Metric, kernel and solution of these rows; the estimator is not changed."""
        metric, prepared = None, rows
        if self.metric != "plain":
            if rows.columns is not None or sparse.issparse(rows.X):
                raise ValueError(validation.NO_METRIC)
            normal = ~rows.outlier
            metric = TaskWhitener().fit_codes(
                rows.X[normal], rows.codes[normal], rows.weight[normal]
            )
            prepared = replace(rows, X=metric.transform(rows.X))
        gram = Gram.of(prepared, self)
        shared = (
            self.can.folds > 0
            and left_out
            and metric is None
            and getattr(self, "landmarks", None) is None
        )
        if shared:
            gram = replace(gram, given=gram.matrix())
        try:
            solution = self._solve(gram, prepared, left_out=left_out and metric is None)
        except NotPositiveDefinite as error:
            raise NotPositiveDefinite(
                f"{error} Use a larger alpha, or a positive semi-definite kernel on rows of a "
                "moderate scale."
            ) from None
        if metric is not None:
            # The metric has seen the rows that a closed form leaves out.
            scorer = InMetric(metric, solution.scorer)
            solution = replace(solution, scorer=scorer, left_out=None)
        if not left_out or solution.left_out is not None:
            return solution
        if gram.given is not None:
            similarity = gram.given @ (rows.weight / rows.weight.sum())
        else:
            similarity = _similarity(gram, rows, solution.scorer.points)
        score = self._by_number(gram, rows) if shared else self._by_rows(rows)
        scores = Folds(self.can.folds or _FOLDS).left_out(score, rows, similarity)
        return replace(solution, left_out=scores, left_out_source="folds")

    def _by_number(self, gram: Gram, rows: TrainingRows) -> Callable[[Codes, Codes], Array]:
        """Scores of some rows by a model of others; all of them share the kernel matrix."""
        # New rows are lines of the matrix then: parts of it need no kernel again.
        numbered = replace(gram, columns=np.arange(len(rows.codes)))

        def score(kept: Codes, held: Codes) -> Array:
            part = self._solve(numbered.take(kept), rows.take(kept), left_out=False)
            assert numbered.given is not None
            return part.scorer.own(numbered.given[held], rows.codes[held])

        return score

    def _by_rows(self, rows: TrainingRows) -> Callable[[Codes, Codes], Array]:
        """Scores of some rows by a model of others, metric and width learned anew."""

        def score(kept: Codes, held: Codes) -> Array:
            part = self._learn(rows.take(kept), left_out=False)
            return part.scorer.own(rows.X[held], rows.codes[held])

        return score

    def _scores_of(self, rows: TrainingRows) -> Callable[[Codes, Codes], Array]:
        """Scores of some rows against all tasks of a model of others, for `tune`."""

        def scores(kept: Codes, judged: Codes) -> Array:
            part = rows.take(kept)
            used = np.unique(part.codes[~part.outlier])
            part = replace(
                part,
                codes=renumbered(part.codes, used),
                n_tasks=len(used),
                columns=None if rows.columns is None else kept,
            )
            return self._learn(part, left_out=False).scorer.all(rows.X[judged])

        return scores

    def _warn_of_scales(self, X: Any) -> None:
        """Say so where one column drowns all others in the distance between rows."""
        if sparse.issparse(X) or not np.all(np.abs(X) < 1e100):
            return
        with np.errstate(under="ignore"):
            spread = (X - X[0]).std(axis=0)
        second, first = np.partition(spread, -2)[-2:]
        if 0 < second < 1e-3 * first:
            validation.warn_of_dominating_column(spread, getattr(self, "feature_names_in_", None))

    # ---------------------------------------------------------------------------------- thresholds

    def _set_offsets(self, alarm_rate: float) -> None:
        # Kept beside the parameter, which set_params may change without new offsets.
        self.promised_rate_ = alarm_rate
        self.offset_, self.alarm_rate_ = self.calibration_.offsets(alarm_rate)
        far = self.solution_.scorer.far()
        silent = np.zeros(len(self.tasks_), dtype=bool) if far is None else far >= self.offset_
        if 1.0 / (self.calibration_.counts.min() + 1.0) > alarm_rate or silent.any():
            parts = (
                self.calibration_.shortfall_message(alarm_rate, self.tasks_),
                validation.tasks_without_far_alarm(self.tasks_, silent),
            )
            warn_user(" ".join(filter(None, parts)))

    def recalibrate(self, alarm_rate: float) -> Self:
        """Change the promised alarm rate of a fitted model; nothing is refitted.

        Parameters
        ----------
        alarm_rate : float in (0, 1)

        Returns
        -------
        self
        """
        self._check_calibrated()
        validate_parameter_constraints(
            self._parameter_constraints, {"alarm_rate": alarm_rate}, type(self).__name__
        )
        self.alarm_rate = alarm_rate
        self._set_offsets(alarm_rate)
        return self

    def calibrate(self, X: Any, *, task: Any = None, sample_weight: Any = None) -> Self:
        """Set the thresholds from held-out normal rows instead of left-out training rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            Normal rows that were not used in `fit`.
        task : array-like of shape (n,) or str or None
        sample_weight : array-like of shape (n,) or None
            Counts.

        Returns
        -------
        self
            Tasks with too few held-out rows are compared with the held-out rows of all tasks.
        """
        X, codes = self._scoring_rows(X, task)
        weight = np.ones(X.shape[0]) if sample_weight is None else check_weight(sample_weight, X)
        kept = weight > 0
        scores = self._own_scores(X[kept], codes[kept])
        self.calibration_ = Calibration.from_scores(
            scores, codes[kept], weight[kept], len(self.tasks_), "held-out"
        )
        self._set_offsets(self.alarm_rate)
        return self

    def __sklearn_tags__(self) -> Any:
        """Tags: sparse rows are welcome, precomputed kernels are sliced in both directions."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.can.sparse_rows
        tags.input_tags.pairwise = self.kernel in VALUES_ONLY
        return tags


def _learned(name: str) -> property:
    """Read-only attribute of an estimator: what its solution has learned by this name."""

    def read(self: MultiTaskOneClass) -> Any:
        return self._solution.fitted(name.removesuffix("_"))

    return property(read)


def _similarity(gram: Gram, rows: TrainingRows, points: Points) -> Array:
    """Mean similarity of each row to all: the same whatever their order, number or features."""
    share = rows.weight if len(points) == len(rows.codes) else np.ones(len(points))
    similarity = np.empty(len(rows.codes))
    for part, K in points.blocks(gram.X):
        similarity[part] = K @ (share / share.sum())
    return similarity
