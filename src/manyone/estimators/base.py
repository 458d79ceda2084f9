"""The base of estimators and of kernel methods: from rows to thresholds."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning

from manyone._sklearn import Constraints, Interval, StrOptions, fit_context
from manyone._types import Array, Codes, Labels, Metric, Rows
from manyone.calibration.folds import mean_similarity, similarity_of, solve_with_folds
from manyone.calibration.thresholds import Calibration
from manyone.capabilities import DECLARED, Capabilities, methods_that
from manyone.data import checks
from manyone.data.blocks import CheckedBlock
from manyone.data.memory import NotEnoughMemory, too_large
from manyone.data.rows import Remake, TrainingRows, in_memory, training_rows
from manyone.data.sweeps import AtHand, Sweep
from manyone.estimators.scoring import (
    DEFAULT_RATE,
    LIMIT,
    RATE,
    Scoring,
    limit_ratio,
)
from manyone.estimators.updates import with_more_rows, without_task
from manyone.fitting.sources import sweep_of
from manyone.kernels.gram import Gram
from manyone.kernels.kernel import KERNELS, OF_DISTANCE, VALUES_ONLY, Kernel
from manyone.messages import warn_user
from manyone.metric.shrinkage import (
    TaskWhitenings,
    Whitening,
    pooled_whitening,
)
from manyone.models.guards import unguarded
from manyone.models.nearness import with_nearness
from manyone.models.scorers import InMetric, behind_metric
from manyone.models.solution import Judge, Solution
from manyone.routing import RoutingState

# Folds for thresholds where there is no closed form and the method names no number.
# With fewer folds each refit lacks more rows, and scores those it lacks lower.
_FOLDS = 15


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassEstimator(
    Scoring, RoutingState, OutlierMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base class of all estimators: it fits a solution and sets thresholds."""

    _parameter_constraints: ClassVar[Constraints] = {
        "alarm_rate": [RATE, None],
        "task_rate_limit": [LIMIT, None],
    }

    alarm_rate: float | None = DEFAULT_RATE
    task_rate_limit: float | None = None

    @property
    def landmarks(self) -> int | None:
        """Number of landmarks; None: the model is expanded over all rows."""
        return None

    @abstractmethod
    def _fit_rows(
        self,
        rows: TrainingRows,
        tasks: Labels,
        *,
        calibrate: bool,
        remake: Remake | None = None,
    ) -> Self:
        """Become the model of checked rows.

        Parameters
        ----------
        rows : TrainingRows
        tasks : ndarray of shape (T,)
            Labels, sorted.
        calibrate : bool
            Whether to set thresholds.
        remake : callable or None
            Fits transformers to the rows of a fold, and makes rows by them. None: no
            transformer has learned from the rows.
        """

    @fit_context(prefer_skip_nested_validation=True)
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
        """Learn what is normal for each task, and set its alarm threshold.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            Rows, normal but for those marked by `outlier`. With
            ``kernel="precomputed"``, the kernel matrix of shape (n, n).
        y : ignored
        task : array-like of shape (n,) or str or None
            Label of each row (strings, integers, any hashable), or the name of the
            column of `X` that holds it (then not a feature). None: all rows belong to
            one task.
        outlier : array-like of bool of shape (n,) or str or None
            Rows known to be abnormal for their task; those whose task is missing (None,
            NaN) are abnormal for every task.
        sample_weight : array-like of shape (n,) or None
            Counts: weight 2 is the same as the row given twice, weight 0 as the row
            left out.
        groups : array-like of shape (n,), str, TimeBlocks or None
            Rows that are held out together when thresholds are set and settings judged:
            a label per row (a session, a day, a clump of readings; None for a row on
            its own), the name of a column, or blocks of time. A group of two tasks
            counts as two groups. A task with one group borrows scores of other tasks.
            None: rows are independent of each other.

        Returns
        -------
        self
        """
        if y is not None and task is None:
            checks.warn_of_labels_in_y(y)
        limit_ratio(self.alarm_rate, self.task_rate_limit)  # refuse before the work
        # Without landmarks a memory-mapped array is read as a whole.
        is_read_whole = isinstance(X, np.memmap) and self.landmarks is None
        if not (in_memory(X) or is_read_whole):
            return self._fit_passes(sweep_of(X, task, outlier, sample_weight), groups)
        rows, tasks, _ = training_rows(self, X, task, outlier, sample_weight, groups)
        return self._fit_rows(rows, tasks, calibrate=self.alarm_rate is not None)

    def _no_passes(self, reason: str) -> ValueError:
        """The refusal of blocks of rows where all rows are needed at once."""
        able = " or ".join(methods_that("landmarks"))
        return ValueError(
            f"{reason}, but X comes in blocks. Use {able} with landmarks=1000 or so."
        )

    def _fit_passes(self, sweep: Sweep, groups: object = None) -> Self:
        """Become the model of rows that are not in memory, or refuse them."""
        raise self._no_passes(f"{type(self).__name__} needs all rows in memory")

    def _remember_columns(
        self, number: int, names: Labels | None, label_columns: Mapping[str, str]
    ) -> None:
        """Remember the columns of rows that were checked elsewhere."""
        self.n_features_in_ = number
        self.label_columns_ = dict(label_columns)
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names

    def _sweep_of_rows(self, rows: TrainingRows, tasks: Labels) -> AtHand:
        """Passes over rows in memory, whose columns the estimator remembers."""
        names = getattr(self, "feature_names_in_", None)
        columns = getattr(self, "label_columns_", {})
        return AtHand(CheckedBlock(rows, tasks, names, columns))

    def _become(
        self,
        solution: Solution,
        tasks: Labels,
        training: TrainingRows,
        calibration: Calibration | None,
        alarm_rate: float | None,
    ) -> Self:
        """Take over a model, and set its thresholds; without a rate it has none.

        Until then the estimator holds the model of the last fit.
        """
        # Kept beside the parameters, which users may change without a new fit.
        self.limit_ratio_ = limit_ratio(self.alarm_rate, self.task_rate_limit)
        self.solution_ = solution
        self.tasks_ = tasks
        # Updates, exact p-values and plots need the rows, but no kernel matrix.
        if training.columns is not None:
            training = replace(training, X=np.empty((len(training.codes), 0)))
        self.training_ = training
        if calibration is None:
            self.__dict__.pop("calibration_", None)
        else:
            self.calibration_ = calibration
        self._set_offsets(alarm_rate)
        return self

    def enroll(
        self,
        X: object,
        *,
        task: object = None,
        outlier: object = None,
        sample_weight: object = None,
        groups: object = None,
    ) -> Self:
        """Add rows of known or new tasks: a fit to the model's rows and these.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (k, d)
        task, outlier, sample_weight, groups
            As in `fit`. Groups of the model get no new rows. If the model has groups
            and `groups` is None, the new rows of each task are one group.

        Returns
        -------
        self
            Thresholds are set anew. A model with landmarks or of a kernel matrix keeps
            no rows, and refuses.
        """
        rows = with_more_rows(self, X, task, outlier, sample_weight, groups)
        return self._refit(*rows)

    def forget(self, task: object) -> Self:
        """Remove a task and every row of it: a fit to the rows of all other tasks.

        Parameters
        ----------
        task : label

        Returns
        -------
        self
            Thresholds are set anew. A model with landmarks or of a kernel matrix keeps
            no rows, and refuses.
        """
        return self._refit(*without_task(self, task))

    def _refit(self, rows: TrainingRows, tasks: Labels) -> Self:
        """Become the model of other rows, with thresholds if there are any now."""
        rate = self.promised_rate_
        ratio = self.limit_ratio_
        if rate is not None and self.calibration_.is_held_out:
            warn_user(
                "The held-out calibration belonged to the model before this change: "
                "thresholds now come from left-out training rows. Call calibrate(X, "
                "task=...) again."
            )
        self._fit_rows(rows, tasks, calibrate=rate is not None)
        if rate != self.promised_rate_ or ratio != self.limit_ratio_:
            # A user has changed parameters: the promises stay those of before.
            self.limit_ratio_ = ratio
            self._set_offsets(rate)
        return self

    def fit_predict(
        self, X: object, y: object = None, *, task: object = None, **labels: object
    ) -> NDArray[np.int_]:
        """Fit (parameters as in `fit`), then predict the same rows, shape (n,)."""
        return self.fit(X, task=task, **labels).predict(X, task=task)

    def _set_offsets(self, alarm_rate: float | None) -> None:
        # Kept beside the parameter, which users may change without a new fit.
        self.promised_rate_ = alarm_rate
        if alarm_rate is None:
            self.offset_ = np.zeros(len(self.tasks_))
            self.__dict__.pop("alarm_rate_", None)
            return
        self._thresholds = self.thresholds_at(alarm_rate)
        self.offset_, self.alarm_rate_ = self._thresholds.offsets()
        if self.calibration_.too_few(alarm_rate).any():
            warn_user(self._thresholds.shortfall_message(self.tasks_))


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTaskOneClass(OneClassEstimator):
    """Base class of all kernel methods.

    A subclass declares what it can do (`can`) and says how to solve (`_solve`); the
    solution it returns knows how to score. Everything a user sees beyond that is in
    `OneClassEstimator` and `Scoring`, once.
    """

    can: ClassVar[Capabilities] = Capabilities()
    _parameter_constraints: ClassVar[Constraints] = {
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
    metric: Metric = "plain"

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Give the class a read-only attribute for each name in ``can.learns``."""
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("manyone."):
            DECLARED[cls.__name__] = cls.can
        for name in cls.can.learns:
            if not hasattr(cls, name):
                setattr(cls, name, _learned(name))

    @abstractmethod
    def _solve(self, gram: Gram, rows: TrainingRows, *, left_out: bool) -> Solution:
        """Fit to rows through a kernel; the estimator is not changed.

        Where left-out scores take time, they are made if `left_out` is true.
        """

    def _fit_sweep(self, sweep: Sweep, *, calibrate: bool) -> Judge | None:
        """Become the model of the rows of a sweep, and return their judge.

        Methods with `landmarks` do; see ``LandmarkOneClass``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no fit by passes.")

    def _learn_by_passes(
        self, rows: TrainingRows, kernel: Kernel | None, *, left_out: bool
    ) -> Solution:
        """The solution of rows in memory by passes; the estimator is not changed."""
        raise NotImplementedError(f"{type(self).__name__} has no fit by passes.")

    # -------------------------------------------------------------------------- fitting

    def _fit_rows(
        self,
        rows: TrainingRows,
        tasks: Labels,
        *,
        calibrate: bool,
        remake: Remake | None = None,
    ) -> Self:
        if self.landmarks is not None:
            self._fit_sweep(self._sweep_of_rows(rows, tasks), calibrate=calibrate)
            return self
        if self.can.merges_copies and remake is None:
            rows = rows.merged()[0]
        try:
            with np.errstate(under="ignore"):
                solution = self._learn(rows, left_out=calibrate and remake is None)
                self._warn(solution, rows.X)
                solution = with_nearness(solution, rows)
                if remake is not None:
                    # A closed form leaves out rows that have shaped the transformers.
                    solution = self._judged_by_folds(solution, rows, remake)
        except NotEnoughMemory:
            raise
        except MemoryError:
            largest = np.bincount(rows.codes[rows.codes >= 0]).max(initial=1)
            joint = self.can.joint
            raise NotEnoughMemory(
                too_large(len(rows.codes) if joint else largest, joint)
            ) from None
        calibration = None
        if calibrate:
            with np.errstate(under="ignore"):
                calibration = Calibration.from_left_out(solution, rows)
        rate = self.alarm_rate if calibrate else None
        return self._become(solution, tasks, rows, calibration, rate)

    def _learn(
        self, rows: TrainingRows, *, left_out: bool, kernel: Kernel | None = None
    ) -> Solution:
        """Metric, kernel and solution of rows; the estimator is not changed.

        Parameters
        ----------
        rows : TrainingRows
        left_out : bool
            Whether left-out scores are wanted: by closed form, or else by folds.
        kernel : Kernel or None
            None: its width follows from the rows.

        Returns
        -------
        Solution
        """
        if self.landmarks is not None:
            return self._learn_by_passes(rows, kernel, left_out=left_out)
        if not left_out:
            rows = replace(rows, group=None)
        if self.metric != "plain":
            return self._learn_in_metric(rows, left_out=left_out)
        gram = Gram.of(rows, self, kernel)
        solve = partial(self._solve, gram, rows, left_out=left_out)
        if not left_out:
            return solve()
        if self.can.folds and rows.n_tasks > 1:
            # There is no closed form: the model of all rows is fitted beside the folds.
            gram = replace(gram, computed=gram.matrix())
            solve = partial(self._solve, gram, rows, left_out=True)
            return self._judged_by_matrix(solve, gram, rows)
        solution = solve()
        leaves_groups = solution.left_out_source == "leave-group-out"
        if solution.left_out is not None and (rows.group is None or leaves_groups):
            return solution
        if self.can.folds or gram.computed is not None:
            return self._judged_by_matrix(lambda: solution, gram, rows)
        return self._judged_by_folds(solution, rows)

    def _learn_in_metric(self, rows: TrainingRows, *, left_out: bool) -> Solution:
        """Solution behind a metric that is learned from the same rows."""
        if rows.columns is not None or sparse.issparse(rows.X):
            raise ValueError(checks.no_metric(self.metric))
        metric, prepared = self._learned_metric(replace(rows, group=None))
        prepared = replace(prepared, X=metric.apply(prepared.X, prepared.codes))
        gram = Gram.of(prepared, self)
        solution = self._solve(gram, prepared, left_out=False)
        # A closed form leaves out rows that have shaped the metric.
        solution = replace(
            behind_metric(solution, metric),
            left_out=None,
            responses=None,
            shift=None,
            one_minus_leverage=None,
        )
        return self._judged_by_folds(solution, rows) if left_out else solution

    def _learned_metric(
        self, rows: TrainingRows
    ) -> tuple[Whitening | TaskWhitenings, TrainingRows]:
        """The metric of rows, and those of them to fit to."""
        normal = ~rows.outlier
        metric = pooled_whitening(
            rows.X[normal], rows.codes[normal], rows.weight[normal]
        )
        return metric, rows

    def _of_folds(self, metric: Whitening | TaskWhitenings | None) -> Self:
        """The estimator that fits folds, with the choices of the metric of all rows."""
        return self

    def _judged_by_matrix(
        self, fit_all: Callable[[], Solution], gram: Gram, rows: TrainingRows
    ) -> Solution:
        """The model of all rows, with left-out scores by refits on one matrix.

        Refits take rows by their number: no kernel value is computed again.
        """
        numbered = gram.by_number()
        K = numbered.computed
        assert K is not None
        alone = replace(rows, group=None)

        def refit(kept_rows: Codes, held_rows: Codes) -> tuple[Solution, Array]:
            fold_model = self._solve(
                numbered.take(kept_rows), alone.take(kept_rows), left_out=False
            )
            return fold_model, fold_model.scorer.own(
                K[held_rows], rows.codes[held_rows]
            )

        normal = np.flatnonzero(~rows.outlier)
        weight = rows.weight[normal]
        similarity = mean_similarity(K[:, normal], weight / weight.sum())
        return solve_with_folds(
            fit_all,
            refit,
            similarity,
            rows,
            self.can.folds or _FOLDS,
            with_shift=not self.can.landmarks,
        )

    def _judged_by_folds(
        self,
        solution: Solution,
        rows: TrainingRows,
        remake: Remake | None = None,
    ) -> Solution:
        """The solution with scores of its rows by refits without them.

        Every refit learns the metric of the solution again, and then the width of the
        kernel, if there is one. The same holds for transformers that have made the
        rows. Without either, the kernel stays that of all rows.
        """
        scorer = unguarded(solution.scorer)
        metric = scorer.metric if isinstance(scorer, InMetric) else None
        method = self._of_folds(metric)
        kernel = scorer.points.kernel
        X = rows.X
        if metric is not None:
            # Outliers of every task are not dealt to folds: any metric will do.
            X = metric.apply(rows.X, np.maximum(rows.codes, 0))
        similarity = similarity_of(X, rows, kernel)
        is_fixed = metric is None and remake is None

        def refit(kept_rows: Codes, held_rows: Codes) -> tuple[Solution, Array]:
            left = rows.take(kept_rows)
            held_X = rows.X[held_rows]
            if remake is not None:
                X, held_X = remake(kept_rows, held_rows)
                left = replace(left, X=X)
            fold_model = method._learn(
                left, left_out=False, kernel=kernel if is_fixed else None
            )
            if remake is not None:
                # Distances between rows depend on the transformers, too.
                fold_model = with_nearness(fold_model, left)
            return fold_model, fold_model.scorer.own(held_X, rows.codes[held_rows])

        return solve_with_folds(
            lambda: solution,
            refit,
            similarity,
            rows,
            self.can.folds or _FOLDS,
            with_shift=not self.can.landmarks,
        )

    def _warn(self, solution: Solution, X: Rows) -> None:
        """Warn of iterations that did not end, and of a column that drowns others."""
        if not solution.report.converged:
            message = solution.report.message or (
                f"{type(self).__name__} stopped after max_iter={self.max_iter} "
                f"iterations before tol={self.tol:g} was reached. Increase max_iter, "
                "or tol if this is good enough."
            )
            warn_user(message, ConvergenceWarning)
        points = solution.scorer.points
        has_columns = X.shape[1] > 1 and not sparse.issparse(X)
        adds_columns = self.metric == "plain" and points.kernel.name in OF_DISTANCE
        if has_columns and adds_columns and np.all(np.abs(X) < 1e100):
            with np.errstate(under="ignore"):
                spread = (X - X[0]).std(axis=0)
            second, largest = np.partition(spread, -2)[-2:]
            if 0 < second < 1e-3 * largest:
                checks.warn_of_dominating_column(self, int(np.argmax(spread)))

    def __sklearn_tags__(self) -> Any:
        """Tags: sparse rows without a metric, kernel matrices sliced both ways."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric == "plain"
        tags.input_tags.pairwise = self.kernel in VALUES_ONLY
        return tags


def _learned(name: str) -> property:
    """A read-only attribute, which the solution holds without the underscore."""

    def read(self: MultiTaskOneClass) -> Any:
        return self._solution.fitted(name.removesuffix("_"))

    return property(read)
