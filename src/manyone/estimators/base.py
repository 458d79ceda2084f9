"""What all estimators share, and what all kernel methods do: parameters, fitting, thresholds."""

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
from manyone._sklearn import Interval, StrOptions, fit_context
from manyone._types import Array, Codes
from manyone.calibration.thresholds import Calibration, Folds
from manyone.covariance import TaskWhitenings, Whitening, pooled_whitening, task_whitenings
from manyone.engines.fitting import fit as fit_passes
from manyone.engines.sources import sweep_over
from manyone.estimators.capabilities import Capabilities
from manyone.estimators.scoring import Scoring
from manyone.kernels.gram import Gram, Points
from manyone.kernels.kernel import KERNELS, VALUES_ONLY
from manyone.kernels.nearest import NO_DISTANCE, OUT_OF_REACH, distances_to_nearest
from manyone.memory import NotEnoughMemory, too_large
from manyone.messages import warn_unconverged, warn_user
from manyone.models.presence import FARTHEST, Presence
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution
from manyone.routing import RoutingState
from manyone.rows import TrainingRows, renumbered, split_named, training_rows
from manyone.solvers.ridge import NotPositiveDefinite

#: What methods that look at one task at a time can choose of a metric.
TASK_METRIC: dict[str, list[Any]] = {
    "metric": [StrOptions({"plain", "whitened", "adaptive"})],
    "scale_prior": [Interval(Real, 0, None, closed="left")],
    "covariance_prior": [Interval(Real, 0, None, closed="neither")],
}
# Refits for thresholds where a learned metric forbids the closed form.
_FOLDS = 10


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassEstimator(Scoring, RoutingState, OutlierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of all estimators: rows in, a solution with left-out scores, thresholds."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alarm_rate": [Interval(Real, 0, 1, closed="neither")],
    }

    alarm_rate: float = 0.05

    @abstractmethod
    def _fit_rows(
        self, rows: TrainingRows, tasks: NDArray[Any], named: list[str], *, calibrate: bool = True
    ) -> Self:
        """Become the model of these rows, with thresholds unless told otherwise."""

    @fit_context(prefer_skip_nested_validation=True)
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
        groups : array-like of shape (n,), str, TimeBlocks or None
            Rows that leave together when thresholds are set and settings judged: a label per row
            (a session, a day, a clump of readings), the name of a column, or blocks of time.
            Groups part inside tasks; a task with one group borrows the others' scores. None: rows
            are independent of each other.

        Returns
        -------
        self
        """
        if y is not None and task is None:
            validation.warn_of_labels_in_y(y)
        sweep = sweep_over(self, X, task, outlier, sample_weight, groups)
        if sweep is not None:
            return fit_passes(self, sweep)
        X, task, outlier, groups, named = split_named(X, task, outlier, groups)
        rows, tasks, _ = training_rows(self, X, task, outlier, sample_weight, groups)
        return self._fit_rows(rows, tasks, named)

    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        *,
        task: Any = None,
        outlier: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> NDArray[np.int_]:
        """Fit, then predict the same rows (see `fit` and `predict`), shape (n,)."""
        self.fit(X, task=task, outlier=outlier, sample_weight=sample_weight, groups=groups)
        return self.predict(X, task=task)

    def _set_offsets(self, alarm_rate: float) -> None:
        # Kept beside the parameter, which set_params may change without new offsets.
        self.promised_rate_ = alarm_rate
        self.offset_, self.alarm_rate_ = self.calibration_.offsets(alarm_rate)
        if 1.0 / (self.calibration_.counts.min() + 1.0) > alarm_rate:
            warn_user(self.calibration_.shortfall_message(alarm_rate, self.tasks_))


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTaskOneClass(OneClassEstimator):
    """Base class of all kernel methods.

    A subclass declares what it can do (`can`) and says how to solve (`_solve`); the solution it
    returns knows how to score. Everything a user sees beyond that is in
    `OneClassEstimator` and `Scoring`, once.
    """

    can: ClassVar[Capabilities] = Capabilities()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OneClassEstimator._parameter_constraints,
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
    }

    kernel: str | Callable[..., float] = "rbf"
    gamma: str | float = "mean"
    width: float = 1.0
    degree: int = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    metric: str = "plain"

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

    def _fit_rows(
        self, rows: TrainingRows, tasks: NDArray[Any], named: list[str], *, calibrate: bool = True
    ) -> Self:
        """Become the model of these rows, with thresholds unless told otherwise."""
        if self.can.merges_copies:
            rows = rows.merged()[0]
        try:
            with np.errstate(under="ignore"):
                solution = self._with_presence(self._learn(rows, left_out=calibrate), rows)
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
        validation.warn_of_dominating_column(self, rows.X, solution.scorer.points.kernel)
        if calibrate and solution.left_out is not None:
            with np.errstate(under="ignore"):
                self.calibration_ = Calibration.from_left_out(
                    solution.left_out, rows, solution.left_out_source
                )
            self._set_offsets(self.alarm_rate)
        return self

    def _learn(self, rows: TrainingRows, *, left_out: bool) -> Solution:
        """Metric, kernel and solution of these rows; the estimator is not changed."""
        if not left_out:
            rows = replace(rows, group=None)
        metric, prepared = None, rows
        if self.metric != "plain":
            metric, prepared = self._in_metric(replace(rows, group=None))
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
        if solution.left_out_source != rows.left_out_source and rows.group is not None:
            solution = replace(solution, left_out=None)  # one by one is not what was asked for
        if not left_out or solution.left_out is not None:
            return solution
        if gram.given is not None:
            similarity = gram.given @ (rows.weight / rows.weight.sum())
        else:
            X = rows.X if metric is None else metric.apply(rows.X, rows.codes)
            similarity = _similarity(X, rows.weight, solution.scorer.points)
        far = solution.scorer.far()
        score = self._by_number(gram, rows, far) if shared else self._by_rows(rows, far)
        scores = Folds(self.can.folds or _FOLDS).left_out(score, rows, similarity)
        return replace(solution, left_out=scores, left_out_source="folds")

    def _in_metric(self, rows: TrainingRows) -> tuple[Any, TrainingRows]:
        """The learned metric, and the rows in it."""
        if rows.columns is not None or sparse.issparse(rows.X):
            raise ValueError(validation.NO_METRIC)
        normal = ~rows.outlier
        known = rows.X[normal], rows.codes[normal], rows.weight[normal]
        metric: Whitening | TaskWhitenings
        if self.metric == "whitened":
            metric = pooled_whitening(*known)
        else:
            metric = task_whitenings(*known, rows.n_tasks, self.scale_prior, self.covariance_prior)
            rows = rows.shared_out()
        return metric, replace(rows, X=metric.apply(rows.X, rows.codes))

    def _with_presence(self, solution: Solution, rows: TrainingRows) -> Solution:
        """The solution with scores lowered where rows are far from everything.

        Left-out scores are lowered likewise, by the distance to all others: alarm rates hold.
        """
        far = solution.scorer.far()
        if far is None:  # not a kernel of a distance
            return solution
        points, limit, ratios = distances_to_nearest(solution.scorer.points.kernel, rows)
        unit, left_out = 2.0 * float(np.abs(far).max()), solution.left_out
        if not (NO_DISTANCE < limit < OUT_OF_REACH and unit > 0):  # all rows alike
            return solution
        if left_out is not None:
            left_out = left_out - unit * np.clip(ratios - 1.0, 0.0, FARTHEST - 1.0)
        return replace(solution, presence=Presence(points, limit, unit), left_out=left_out)

    def _by_number(
        self, gram: Gram, rows: TrainingRows, far: Array | None
    ) -> Callable[[Codes, Codes], Array]:
        """Scores of some rows by a model of others; all of them share the kernel matrix."""
        # New rows are lines of the matrix then: parts of it need no kernel again.
        rows = replace(rows, group=None)
        numbered = replace(gram, columns=np.arange(len(rows.codes)))

        def score(kept: Codes, held: Codes) -> Array:
            part = self._solve(numbered.take(kept), rows.take(kept), left_out=False)
            assert numbered.given is not None
            scores = part.scorer.own(numbered.given[held], rows.codes[held])
            return _in_units(scores, part.scorer.far(), far, rows.codes[held])

        return score

    def _by_rows(self, rows: TrainingRows, far: Array | None) -> Callable[[Codes, Codes], Array]:
        """Scores of some rows by a model of others, metric and width learned anew."""

        def score(kept: Codes, held: Codes) -> Array:
            part = self._learn(rows.take(kept), left_out=False)
            scores = part.scorer.own(rows.X[held], rows.codes[held])
            return _in_units(scores, part.scorer.far(), far, rows.codes[held])

        return score

    def _scores_of(self, rows: TrainingRows, kept: Codes, judged: Codes) -> Array:
        """Scores of some rows against all tasks of a model of others, for `tune`."""
        part = rows.take(kept)
        used = np.unique(part.codes[~part.outlier])
        part = replace(
            part,
            codes=renumbered(part.codes, used),
            n_tasks=len(used),
            columns=None if rows.columns is None else kept,
        )
        return self._learn(part, left_out=False).scorer.all(rows.X[judged])

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


def _in_units(scores: Array, far: Array | None, wanted: Array | None, codes: Codes) -> Array:
    """Scores by a refit in the units of the whole model: where rows far away are level in both.

    Responses grow with the number of rows, and many rows may respond as if they were far away: a
    threshold must not fall between what two models say of them.
    """
    if far is None or wanted is None:
        return scores
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(wanted / far, nan=1.0)
    return scores * np.clip(ratio, 0.5, 2.0)[codes]


def _similarity(X: Any, weight: Array, points: Points) -> Array:
    """Mean similarity of each row to all: the same whatever their order, number or features."""
    share = weight if len(points) == len(weight) else np.ones(len(points))
    similarity = np.empty(len(weight))
    for part, K in points.blocks(X):
        similarity[part] = K @ (share / share.sum())
    return similarity
