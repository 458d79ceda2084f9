"""Methods of fitted models: scores, alarms, p-values, the best task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from manyone._sklearn import Interval, validate_parameter_constraints
from manyone._types import Array, Codes, Labels, Mask, Rows
from manyone.calibration.conformal import (
    TaskRidge,
    exact_pvalue_together,
    ridge_pvalues,
)
from manyone.calibration.discoveries import ReferenceScores, select_rows
from manyone.calibration.thresholds import LIMIT_RATIO, Calibration, Thresholds
from manyone.calibration.together import left_out_pvalues
from manyone.capabilities import Capabilities
from manyone.data import checks
from manyone.data.labels import (
    check_weight,
    lookup,
    one_per_row,
    split_labels,
    without_columns,
)
from manyone.data.rows import (
    MISSING,
    TrainingRows,
    check_rows,
    in_memory,
    row_blocks,
    row_numbers,
)
from manyone.fitting.sources import by_blocks
from manyone.kernels.kernel import Kernel
from manyone.models.combined import lowest_scores
from manyone.models.guards import unguarded
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution

#: What `alarm_rate` may be.
RATE = Interval(Real, 0, 1, closed="neither")
#: What `task_rate_limit` may be.
LIMIT = Interval(Real, 0, 1, closed="right")
#: The default of `alarm_rate`.
DEFAULT_RATE = 0.05


def limit_ratio(alarm_rate: float | None, task_rate_limit: float | None) -> float:
    """The limit of a single task as a multiple of the rate; infinite: no limit."""
    if task_rate_limit is None:
        return LIMIT_RATIO
    rate = DEFAULT_RATE if alarm_rate is None else alarm_rate
    if task_rate_limit < rate:
        raise ValueError(
            f"task_rate_limit={task_rate_limit:g} is below alarm_rate={rate:g}, which "
            "tasks raise on average. Give a limit of at least that, or None."
        )
    return np.inf if task_rate_limit == 1.0 else task_rate_limit / rate


class Scoring:
    """Scores, thresholds and p-values of a fitted model."""

    can: ClassVar[Capabilities]
    tasks_: Labels
    n_features_in_: int
    label_columns_: dict[str, str]
    solution_: Solution
    training_: TrainingRows
    calibration_: Calibration
    offset_: Array
    alarm_rate_: Array
    promised_rate_: float | None
    limit_ratio_: float
    alarm_rate: float | None
    task_rate_limit: float | None
    #: Yields the regression of each task (S,); methods with exact p-values have it.
    _task_ridges: Callable[[Codes], Iterator[TaskRidge]]

    @by_blocks
    def score_samples(self, X: object, *, task: object = None) -> Array:
        """Score of each row: minus the distance to the mean projection of its task.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
            Task that each row claims to belong to, or the column that holds it. None:
            the column that `fit` took tasks from, if `X` has it; or the only task of
            the model.

        Returns
        -------
        ndarray of shape (n,)
            Higher is more normal.
        """
        rows, codes = self._scoring_rows(X, task)
        return self.solution_.own(rows, codes)

    @by_blocks
    def decision_function(self, X: object, *, task: object = None) -> Array:
        """`score_samples` minus the threshold of the task (n,); < 0 is an alarm.

        With ``alarm_rate=None`` there are no thresholds, and it is `score_samples`.
        """
        rows, codes = self._scoring_rows(X, task)
        return self.solution_.own(rows, codes) - self.offset_[codes]

    @by_blocks
    def predict(self, X: object, *, task: object = None) -> NDArray[np.int_]:
        """+1 where a row is normal for its task, -1 where it is an alarm, (n,)."""
        self._check_calibrated()
        rows, codes = self._scoring_rows(X, task)
        return np.where(self.solution_.own(rows, codes) < self.offset_[codes], -1, 1)

    @by_blocks
    def pvalues(self, X: object, *, task: object = None, exact: bool = False) -> Array:
        """P-value of "this row is normal for its task".

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
        exact : bool
            False: the score is compared with the calibration scores of its task
            (monotone in the score, ``p <= alarm_rate_`` exactly where `predict` gives
            -1). True: full conformal prediction, the model with the row added compared
            with itself; P(p <= a) <= a for every a if kernel width and alpha were not
            chosen on the task's own rows. (``gamma="mean"`` is, a number is not.) Only
            with ``metric="plain"``.

        Returns
        -------
        ndarray of shape (n,)
            Never below 1/(n_t + 1), the rarest that n_t rows can tell. For tasks that
            borrow the scores of S tasks (see `calibration_.borrows`), never below
            1/(S n_t).
        """
        rows, codes = self._scoring_rows(X, task)
        if exact:
            return self._conformal_pvalues(rows, codes)
        self._check_calibrated()
        return self.thresholds_.pvalues(self.solution_.own(rows, codes), codes)

    def pvalues_together(
        self, X: object, *, task: object = None
    ) -> tuple[Labels, Array]:
        r"""P-value of "all these rows are normal for their task", one for each task.

        No assumption is made about other tasks or about tails. And p may be far lower
        than for a single row. With 10 rows of the task and 2, 3, 5 new ones, the lowest
        p is 1/66, 1/286, 1/3003; for a single new row it is 1/11.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (k, d)
            Rows to judge together, say those of one day. Which rows these are must not
            depend on their scores.
        task : array-like of shape (k,) or str or None

        Returns
        -------
        tasks : ndarray of shape (S,)
            Labels of the tasks in `X`, in the order of `tasks_`.
        p : ndarray of shape (S,)
            Low where the new rows are less normal than the task's own.

        Notes
        -----
        `together_source_` says how p is made. ``"exact"``, where
        ``pvalues(exact=True)`` is possible: a permutation test. Rows of the task and
        new ones are shuffled, in all ways or in 5,000. Each time, the rows in the place
        of the new ones are scored by the model of the others. Then P(p <= a) <= a, by a
        theorem that asks of `gamma` what ``pvalues(exact=True)`` does. (Of 5,000 ways,
        always the same, it holds on average over their draw.)

        Elsewhere p comes from a rank-sum test of the new scores among calibration
        scores, and is :math:`1/\binom{n+m}{m}` or higher. ``"held-out"``, after
        `calibrate`, is exact, too. ``"leave-one-out"``, ``"folds"``, ... are left-out
        training rows. There is no theorem then, but measurements
        (``benchmarks/bench_together.py``). All new rows are scored by one model, so m
        of them count as m / (1 + m / (2 n)).
        """
        self._check_calibrated()
        return self._pvalues_together(X, task, self.together_source_)

    def _pvalues_together(
        self, X: object, task: object, source: str
    ) -> tuple[Labels, Array]:
        if source != "exact":
            scores, codes, _ = self._claims(X, task, None)
            present = np.unique(codes)
            p = left_out_pvalues(self.calibration_, scores, codes, present)
            return self.tasks_[present], p
        if in_memory(X):
            rows, codes = self._scoring_rows(X, task)
        else:
            numbered = np.asarray(self._numbered_rows(X, task=task))
            rows = numbered[:, 1:]
            codes = numbered[:, 0].astype(np.intp)
        present = np.unique(codes)
        p = np.empty(len(present))
        points = unguarded(self.solution_.scorer).points
        with np.errstate(under="ignore"):
            for place, ridge in enumerate(self._task_ridges(present)):
                new = rows[codes == present[place]]
                new = new[np.argsort(row_numbers(new), kind="stable")]
                task_rows = points.X[ridge.which][ridge.members]
                K_old = points.values(task_rows, ridge.which)
                K = np.vstack([K_old, points.values(new, ridge.which)])
                p[place] = exact_pvalue_together(K, points.kernel.gram(new), ridge)
        return self.tasks_[present], p

    @property
    def together_source_(self) -> str:
        """How `pvalues_together` makes p-values, see there."""
        calibration = self.calibration_
        fractions = bool(np.any(self.training_.weight % 1.0))
        grouped = self.training_.group is not None
        is_exact = not (calibration.is_held_out or fractions or grouped)
        if is_exact and not self._no_exact_pvalues():
            return "exact"
        return calibration.source

    def select(self, X: object, *, task: object = None, fdr: float = 0.1) -> Mask:
        """Abnormal rows of a batch, with false-discovery control.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
        fdr : float in (0, 1)
            Expected share of normal rows among those selected.

        Returns
        -------
        ndarray of bool of shape (n,)

        Notes
        -----
        P-values are those of the batch, see :mod:`manyone.calibration.discoveries`:
        scores of a task count as often as it has rows in the batch. The lowest possible
        p-value of a row of task t is ``m_t / (m (n_t + 1))``. So single rows of small
        tasks are selected only if the batch has rows of many tasks.
        """
        self._check_calibrated()
        scores, codes, _ = self._claims(X, task, None)
        return select_rows(ReferenceScores.of(self.calibration_), scores, codes, fdr)

    @by_blocks
    def score_tasks(self, X: object) -> Array:
        """Score of every row against every task.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, T)
            Columns in the order of `tasks_`.
        """
        self._check_fitted()
        features = without_columns(X, self.label_columns_)
        rows = check_rows(self, features, reset=False)
        if rows.shape[0] == 0:
            return np.empty((0, len(self.tasks_)))
        return self.solution_.all(rows)

    @by_blocks
    def predict_task(self, X: object) -> Labels:
        """Open-set recognition: the task that accepts a row best, or none.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            Labels; where every task raises the alarm, -1 if labels are integers (and -1
            is not one of them), else None.
        """
        self._check_calibrated()
        return self._best_task(self.score_tasks(X))

    def _best_task(self, scores: Array) -> Labels:
        """The answers (n,) of `predict_task` to rows with these scores (n, T)."""
        # By score and not by distance from the threshold: that of a task with few rows
        # is very low.
        best = np.argmax(np.where(scores < self.offset_, -np.inf, scores), axis=1)
        rejected = np.all(scores < self.offset_, axis=1)
        are_integers = self.tasks_.dtype.kind in "iu"
        if (
            are_integers
            and -1 not in self.tasks_
            and self.tasks_.max() <= np.iinfo(np.int64).max
        ):
            return np.where(rejected, -1, self.tasks_[best].astype(np.int64))
        labels = self.tasks_.astype(object)[best]
        labels[rejected] = None
        return labels

    def recalibrate(self, alarm_rate: float) -> Self:
        """Promise another alarm rate, without a new fit.

        Parameters
        ----------
        alarm_rate : float in (0, 1)

        Returns
        -------
        self
        """
        self._check_calibrated()
        validate_parameter_constraints(
            {"alarm_rate": [RATE]}, {"alarm_rate": alarm_rate}, type(self).__name__
        )
        # The limit stays the same multiple of the rate.
        if self.task_rate_limit is not None:
            self.task_rate_limit = min(self.limit_ratio_ * alarm_rate, 1.0)
        self.alarm_rate = alarm_rate
        self._set_offsets(alarm_rate)
        return self

    def calibrate(
        self, X: object, *, task: object = None, sample_weight: object = None
    ) -> Self:
        """Set thresholds from held-out normal rows, not left-out training rows.

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
            Tasks with too few held-out rows are compared with the held-out rows of all
            tasks. The rate is `alarm_rate`, or 0.05 if that is None.
        """
        scores, codes, weight = self._claims(X, task, sample_weight)
        used = weight > 0
        if not used.any():
            raise ValueError("calibrate needs at least one normal row; X has none.")
        self.calibration_ = Calibration.from_scores(
            scores[used],
            codes[used],
            weight[used],
            len(self.tasks_),
            "held-out",
            self.solution_.scorer.far(),
        )
        rate = DEFAULT_RATE if self.alarm_rate is None else self.alarm_rate
        self._set_offsets(rate)
        return self

    @property
    def thresholds_(self) -> Thresholds:
        """Thresholds and p-values at the promised rate."""
        # Made again after loading: neither pickles nor files hold it.
        if "_thresholds" not in vars(self):
            self._thresholds = self.thresholds_at(self._check_calibrated())
        return self._thresholds

    def thresholds_at(self, alarm_rate: float) -> Thresholds:
        """Thresholds and p-values at another rate; the model is not changed."""
        lowest = lowest_scores(self.solution_.scorer)
        return self.calibration_.at(alarm_rate, self.limit_ratio_, lowest)

    def __getstate__(self) -> dict[str, object]:
        """State for pickles and files."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name != "_thresholds"}

    # ----------------------------------------------------------------- rows for scoring

    def _scoring_rows(self, X: object, task: object) -> tuple[Rows, Codes]:
        """Rows as scorers take them, and the code of the task that each row claims."""
        self._check_fitted()
        if self.label_columns_ or isinstance(task, str):
            X, task = split_labels(X, self.label_columns_, task=task)
        rows = check_rows(self, X, reset=False)
        n = rows.shape[0]
        if task is None:
            if n > 0:
                checks.refuse_no_task(task, len(self.tasks_), self.label_columns_)
            return rows, np.zeros(n, dtype=np.intp)
        codes = lookup(one_per_row("task", task, n), self.tasks_)
        if n > 0 and codes.min() == MISSING:
            raise ValueError(
                f"The task of row {int(np.argmin(codes))} is missing. Remove such "
                "rows, or use score_tasks(X) to compare them with every known task."
            )
        return rows, codes

    def _claims(
        self, X: object, task: object, sample_weight: object
    ) -> tuple[Array, Codes, Array]:
        """Score, task and count of every row, wherever the rows are."""
        claims = np.asarray(
            self._claims_of_block(X, task=task, sample_weight=sample_weight)
        )
        return claims[:, 0], claims[:, 1].astype(np.intp), claims[:, 2]

    @by_blocks
    def _claims_of_block(
        self, X: object, *, task: object = None, sample_weight: object = None
    ) -> Array:
        """The columns of `_claims` as one array (n, 3), to be stacked by blocks."""
        rows, codes = self._scoring_rows(X, task)
        weight = np.ones(len(codes))
        if sample_weight is not None:
            # All counts of a block may be 0, if other blocks have some.
            counted = np.any(np.asarray(sample_weight))
            weight = check_weight(sample_weight, rows) if counted else 0.0 * weight
        return np.column_stack([self.solution_.own(rows, codes), codes, weight])

    @by_blocks
    def _numbered_rows(self, X: object, *, task: object = None) -> Array:
        """Number of the task and columns of every row, shape (n, 1 + d)."""
        rows, codes = self._scoring_rows(X, task)
        dense = rows.toarray() if sparse.issparse(rows) else rows
        return np.column_stack([codes, dense])

    @abstractmethod
    def _set_offsets(self, alarm_rate: float | None) -> None:
        """Thresholds for a promised rate; None: zeros, and no promise."""

    def _check_fitted(self) -> None:
        # Faster than scikit-learn's check, which takes longer than to score a row.
        if "solution_" not in vars(self):
            check_is_fitted(self)

    def _check_calibrated(self) -> float:
        """The rate that the thresholds promise; raises if there are none."""
        self._check_fitted()
        if self.promised_rate_ is None:
            raise NotFittedError(
                f"This {type(self).__name__} has no thresholds (alarm_rate=None or "
                "calibrate=False): give its calibrate() held-out normal rows, or fit "
                "it with an alarm_rate."
            )
        return self.promised_rate_

    def _conformal_pvalues(self, X: Rows, codes: Codes) -> Array:
        if X.shape[0] == 0:
            return np.empty(0)
        refusal = self._no_exact_pvalues()
        if refusal:
            raise ValueError(refusal)
        points = unguarded(self.solution_.scorer).points
        tasks = np.unique(codes)
        p = np.empty(X.shape[0])
        with np.errstate(under="ignore"):
            for task, ridge in zip(tasks, self._task_ridges(tasks), strict=True):
                rows = np.flatnonzero(codes == task)
                for block in row_blocks(len(rows), 8 * len(ridge.coef) + X.shape[1]):
                    new = X[rows[block]]
                    K = points.values(new, ridge.which)
                    p[rows[block]] = ridge_pvalues(K, points.diagonal(new), ridge)
        return p

    def _no_exact_pvalues(self) -> str:
        """Why there are no exact p-values; empty if there are."""
        if not self.can.exact_pvalues:
            return checks.unable(type(self), "exact_pvalues", "exact p-values")
        if isinstance(unguarded(self.solution_.scorer), InMetric):
            return (
                'exact=True needs metric="plain": the whitener has seen the training '
                "rows and not the new one, so that they are not compared on equal "
                "terms. Use exact=False."
            )
        has_rows = self.training_.X.shape[1] > 0
        if not has_rows or self.solution_.one_minus_leverage is None:
            return (
                "exact=True needs all training rows to evaluate the kernel on: fit "
                'without landmarks, and not with kernel="precomputed". Or use '
                "exact=False."
            )
        return ""

    # ----------------------------------------------------------------- what was learned

    @property
    def X_fit_(self) -> Any:
        """Rows that the model is expanded over: training rows or landmarks."""
        return self._solution.scorer.points.X

    @property
    def kernel_(self) -> Kernel:
        """The kernel, with its coefficients."""
        return self._solution.scorer.points.kernel

    @property
    def gamma_(self) -> float | tuple[float, ...] | None:
        """The kernel coefficient that was used."""
        return self.kernel_.reported_gamma

    @property
    def _solution(self) -> Solution:
        self._check_fitted()
        return self.solution_
