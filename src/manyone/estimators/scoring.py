"""What fitted models are asked: scores, alarms, p-values, the best task."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manyone import validation
from manyone._sklearn import validate_parameter_constraints
from manyone._types import Array, Codes, Mask, Rows
from manyone.calibration.conformal import select_rows
from manyone.calibration.thresholds import Calibration
from manyone.estimators.capabilities import Capabilities
from manyone.estimators.elsewhere import by_blocks
from manyone.kernels.kernel import Kernel
from manyone.labels import check_weight, lookup, one_per_row, without_columns
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution
from manyone.rows import MISSING, TrainingRows, check_rows


class Scoring:
    """Scores, thresholds and p-values of a fitted model; only its thresholds ever change."""

    can: ClassVar[Capabilities]
    tasks_: NDArray[Any]
    label_columns_: list[str]
    solution_: Solution
    training_: TrainingRows
    calibration_: Calibration
    offset_: Array
    alarm_rate_: Array
    promised_rate_: float
    alarm_rate: float
    _parameter_constraints: ClassVar[dict[str, list[Any]]]

    @by_blocks
    def score_samples(self, X: Any, *, task: Any = None) -> Array:
        """Score of each row: minus the distance to the mean projection of its task.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
            Task that each row claims to belong to; may be left out if there is only one.

        Returns
        -------
        ndarray of shape (n,)
            Higher is more normal.
        """
        return self._own_scores(*self._scoring_rows(X, task))

    @by_blocks
    def decision_function(self, X: Any, *, task: Any = None) -> Array:
        """`score_samples` minus the threshold of each row's task, shape (n,); < 0 is an alarm."""
        self._check_calibrated()
        X, codes = self._scoring_rows(X, task)
        return self._own_scores(X, codes) - self.offset_[codes]

    @by_blocks
    def predict(self, X: Any, *, task: Any = None) -> NDArray[np.int_]:
        """+1 where a row is normal for its task, -1 where it raises the alarm, shape (n,)."""
        return np.where(self.decision_function(X, task=task) < 0, -1, 1)

    @by_blocks
    def pvalues(self, X: Any, *, task: Any = None, exact: bool = False) -> Array:
        """P-value of "this row is normal for its task".

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
        exact : bool
            False: the score is compared with the calibration scores of its task (monotone in the
            score, ``p <= alarm_rate_`` exactly where `predict` gives -1). True: full conformal
            prediction, the model with the row added compared with itself; P(p <= a) <= a for every
            a if kernel width and alpha were not chosen on the task's own rows. Only with
            ``metric="plain"``.

        Returns
        -------
        ndarray of shape (n,)
            Never below 1/(n_t + 1), as n_t rows cannot make anything rarer than that; for tasks
            that borrow the scores of all tasks (see `calibration_.pooled`), never below 1/(n + 1).
        """
        X, codes = self._scoring_rows(X, task)
        if exact:
            return self._conformal_pvalues(X, codes)
        self._check_calibrated()
        return self.calibration_.pvalues(
            self._own_scores(X, codes), codes, self.promised_rate_
        )

    def select(
        self, X: Any, *, task: Any = None, fdr: float = 0.1, exact: bool = False
    ) -> Mask:
        """Rows of a batch to call abnormal, with false-discovery control (Benjamini-Hochberg).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
        fdr : float in (0, 1)
            Expected share of normal rows among those selected.
        exact : bool
            As in `pvalues`.

        Returns
        -------
        ndarray of bool of shape (n,)

        Notes
        -----
        The smallest p-value of a batch of n rows has to reach ``fdr / n``. Tasks whose own rows are
        too few for that are compared with the left-out scores of all tasks, in units of their
        spread, whatever `alarm_rate` is.
        """
        if not isinstance(fdr, Real) or not 0 < fdr < 1:
            raise ValueError(f"fdr must lie between 0 and 1; got {fdr!r}.")
        self._check_calibrated()
        X, codes = self._scoring_rows(X, task)
        finest = fdr / X.shape[0]
        if exact:
            p = self._conformal_pvalues(X, codes)
            floors = 1.0 / (self.calibration_.counts + 1.0)
        else:
            p = self.calibration_.pvalues(self._own_scores(X, codes), codes, finest)
            floors = self.calibration_.smallest_pvalues(finest)
        return select_rows(p, fdr, floors[codes].min())

    @by_blocks
    def score_tasks(self, X: Any) -> Array:
        """Score of every row against every task.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, T)
            Columns in the order of `tasks_`.
        """
        X = self._scoring_features(X)
        with np.errstate(under="ignore"):
            return self.solution_.all(X)

    @by_blocks
    def predict_task(self, X: Any) -> NDArray[Any]:
        """Open-set recognition: the task that accepts a row best, or none.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            Labels; where every task raises the alarm, -1 if labels are integers (and -1 is not one
            of them), else None.
        """
        self._check_calibrated()
        scores = self.score_tasks(X)
        # The best score counts, not the margin: a task with few rows has a generous threshold.
        best = np.argmax(np.where(scores < self.offset_, -np.inf, scores), axis=1)
        rejected = np.all(scores < self.offset_, axis=1)
        whole = self.tasks_.dtype.kind in "iu"
        if (
            whole
            and -1 not in self.tasks_
            and self.tasks_.max() <= np.iinfo(np.int64).max
        ):
            return np.where(rejected, -1, self.tasks_[best].astype(np.int64))
        labels = self.tasks_.astype(object)[best]
        labels[rejected] = None
        return labels

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
        weight = (
            np.ones(X.shape[0])
            if sample_weight is None
            else check_weight(sample_weight, X)
        )
        kept = weight > 0
        scores = self._own_scores(X[kept], codes[kept])
        self.calibration_ = Calibration.from_scores(
            scores, codes[kept], weight[kept], len(self.tasks_), "held-out"
        )
        self._set_offsets(self.alarm_rate)
        return self

    # --------------------------------------------------------------------------- rows for scoring

    def _scoring_rows(self, X: Any, task: Any) -> tuple[Rows, Codes]:
        """Rows as the scorer wants them, and the code of the task that each claims."""
        if isinstance(task, str):
            X, task = validation.take_column(X, "task", task)
        X = self._scoring_features(X)
        n = X.shape[0]
        if task is None and len(self.tasks_) > 1:
            raise ValueError(
                f"This model has {len(self.tasks_)} tasks: say which task each row claims with "
                "task=..., or use score_tasks(X) to score rows against all of them."
            )
        if task is None:
            return X, np.zeros(n, dtype=np.intp)
        codes = lookup(one_per_row("task", task, n), self.tasks_)
        if codes.min() == MISSING:
            raise ValueError(
                f"The task of row {int(np.argmin(codes))} is missing. Remove such rows, or use "
                "score_tasks(X) to compare them with every known task."
            )
        return X, codes

    def _scoring_features(self, X: Any) -> Rows:
        if "solution_" not in vars(self):
            check_is_fitted(self)
        return check_rows(self, without_columns(X, self.label_columns_), reset=False)

    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        with np.errstate(under="ignore"):
            return self.solution_.own(X, codes)

    @abstractmethod
    def _set_offsets(self, alarm_rate: float) -> None:
        """Thresholds for a promised rate."""

    def _check_calibrated(self) -> None:
        if "calibration_" in vars(self):
            return
        check_is_fitted(self)
        check_is_fitted(
            self,
            "calibration_",
            msg="This %(name)s has no thresholds: it was tuned with calibrate=False. Give its "
            "calibrate() held-out normal rows, or tune with calibrate=True.",
        )

    def _conformal_pvalues(self, X: Rows, codes: Codes) -> Array:
        scorer = self.solution_.scorer
        if not self.can.exact_pvalues:
            raise ValueError(
                validation.unable(type(self), "exact_pvalues", "exact p-values")
            )
        if isinstance(scorer, InMetric):
            raise ValueError(
                'exact=True needs metric="plain": the whitener has seen the training rows and not '
                "the new one, so that they are not compared on equal terms. Use exact=False."
            )
        if self.training_.X.shape[1] == 0:
            raise ValueError(
                "exact=True needs all training rows to evaluate the kernel on: fit without "
                'landmarks, and not with kernel="precomputed". Or use exact=False.'
            )
        with np.errstate(under="ignore"):
            return self._exact_pvalues(X, codes)

    def _exact_pvalues(self, X: Rows, codes: Codes) -> Array:
        """Full conformal p-value of each row, shape (n,), where the method declares them."""
        raise NotImplementedError(
            f"{type(self).__name__} declares exact p-values but has none"
        )

    # --------------------------------------------------------------------------- what was learned

    @property
    def X_fit_(self) -> Any:
        """Rows that the model is expanded over: training rows, or landmarks."""
        return self._solution.scorer.points.X

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its numbers."""
        return self._solution.scorer.points.kernel

    @property
    def gamma_(self) -> float | tuple[float, ...] | None:
        """The kernel coefficient that was used."""
        return self.kernel_.reported_gamma

    @property
    def _solution(self) -> Solution:
        if "solution_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted yet.")
        return self.solution_
