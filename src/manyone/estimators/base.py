"""The grammar that all estimators share: fit, score, threshold, p-values, open-set recognition."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from manyone.calibration import Calibration, benjamini_hochberg, warn_user
from manyone.estimators.folds import deal
from manyone.kernels import (
    KERNELS,
    Array,
    Rows,
    is_sparse,
    reported_gamma,
    resolve_kernel,
    row_blocks,
)
from manyone.routing import RoutingState
from manyone.solvers.ridge import NotPositiveDefinite
from manyone.tasks import MISSING, Codes, as_frame, encode, lookup, shortlist, split_column
from manyone.validation import (
    TrainingRows,
    check_all_have_rows,
    check_all_have_tasks,
    check_labels,
    check_outlier,
    check_rows,
    check_weight,
)
from manyone.whitening import TaskWhitener


class MultiTaskOneClass(RoutingState, OutlierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of all estimators.

    A subclass says how to solve (`_solve`), how to score rows against their own task or against
    all (`_own_scores`, `_all_scores`) and, where it can, how rows score under models fitted without
    them (`_left_out_scores`). Everything a user sees beyond that is here, once.
    """

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

    kernel: str | Callable[..., float]
    gamma: str | float
    width: float
    degree: int
    coef0: float
    kernel_params: dict[str, Any] | None
    metric: str
    alarm_rate: float
    X_fit_: Rows
    codes_: Codes

    # ------------------------------------------------------------------ what a subclass provides

    @abstractmethod
    def _solve(self, rows: TrainingRows) -> None:
        """Fit to rows and store what scoring needs."""

    @abstractmethod
    def _own_scores(self, X: Rows, codes: Codes) -> Array:
        """Score of each row against its own task, shape (n,)."""

    @abstractmethod
    def _all_scores(self, X: Rows) -> Array:
        """Score of each row against every task, shape (n, T)."""

    def _left_out_scores(self) -> tuple[Array, Codes, Array]:
        """Score, task and weight of each normal training row under the model without it.

        Only where a closed form is honest; otherwise `_calibrates_by_folds` is True.
        """
        raise TypeError(f"{type(self).__name__} sets its thresholds by folds")

    def _exact_pvalues(self, X: Rows, codes: Codes) -> Array:
        """Full conformal p-value of each row, shape (n,)."""
        raise ValueError(
            f"{type(self).__name__} has no closed form for exact p-values. Use exact=False, "
            "or JointOCKSR or IndependentOCKSR."
        )

    def _conformal_pvalues(self, X: Rows, codes: Codes) -> Array:
        if self.metric == "whitened":
            raise ValueError(
                'exact=True needs metric="plain": the whitener has seen the training rows and not '
                "the new one, so that they are not compared on equal terms. Use exact=False."
            )
        return self._exact_pvalues(X, codes)

    # ------------------------------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
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
        # A scoring call may bring these columns along without naming them: remember their names.
        self.label_columns_ = [name for name in (task, outlier) if isinstance(name, str)]
        X, task, outlier = split_column(X, task, outlier)
        rows, self.tasks_ = self._training_rows(X, task, outlier, sample_weight, reset=True)
        check_all_have_rows(rows, self.tasks_)
        with np.errstate(under="ignore"):
            self._fit_rows(rows)
        return self

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

    def _training_rows(
        self, X: Any, task: Any, outlier: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[TrainingRows, NDArray[Any]]:
        X = check_rows(self, X, reset=reset)
        n = X.shape[0]
        weight = check_weight(sample_weight, X)
        mask = check_outlier(outlier, n)
        labels = np.zeros(n, dtype=np.intp) if task is None else check_labels(task, n)
        check_all_have_tasks(labels, mask)
        kept = np.flatnonzero(weight > 0)
        if len(kept) < n:
            X, mask, labels, weight = X[kept], mask[kept], labels[kept], weight[kept]
        tasks, codes = encode(labels)
        rows, order = TrainingRows(X, codes, mask, weight).by_task()
        if self.kernel == "precomputed":
            if X.shape[1] != n:
                raise ValueError(
                    'kernel="precomputed" needs the square kernel matrix of the training rows; '
                    f"got shape {(n, X.shape[1])}."
                )
            self.fit_rows_ = kept[order]
            rows = rows._replace(X=rows.X[:, self.fit_rows_])
        return rows, tasks

    def _fit_rows(self, rows: TrainingRows, *, calibrate: bool = True) -> None:
        prepared = rows
        if self.metric == "whitened":
            if self.kernel == "precomputed" or is_sparse(rows.X):
                raise ValueError(
                    'metric="whitened" needs dense rows, not sparse ones or kernel="precomputed".'
                )
            normal = ~rows.outlier
            self.whitener_ = TaskWhitener().fit(
                rows.X[normal], task=rows.codes[normal], sample_weight=rows.weight[normal]
            )
            prepared = rows._replace(X=self.whitener_.transform(rows.X))
        self._resolve_kernel(prepared)
        if calibrate:
            self._check_scales(prepared.X)
        try:
            self._solve(prepared)
        except NotPositiveDefinite as error:
            if "larger" in str(error):  # the ridge solvers still give advice themselves
                raise
            advice = "Use a larger alpha, or a positive semi-definite kernel."
            raise NotPositiveDefinite(f"{error} {advice}") from error
        if self.kernel == "precomputed":
            # Scoring brings its own kernel values: only the number of training rows still counts.
            self.X_fit_ = np.empty((self.X_fit_.shape[0], 0))
        if calibrate and self._calibrates_by_folds:
            self._set_calibration(*self._fold_scores(rows), source="folds")
        elif calibrate:
            self._set_calibration(*self._left_out_scores(), source="leave-one-out")

    def _check_scales(self, X: Rows) -> None:
        """Say so where one column drowns all others in the distance between rows."""
        if not self.kernel_.unit_diagonal or is_sparse(X) or X.shape[1] < 2:
            return
        spread = (X - X[0]).std(axis=0) if np.all(np.abs(X) < 1e100) else np.zeros(X.shape[1])
        other = np.delete(spread, np.argmax(spread))
        if len(other) and 0 < other.max() < 1e-3 * spread.max():
            column = int(np.argmax(spread))
            names = getattr(self, "feature_names_in_", None)
            name = f"column {column}" if names is None else f"column {names[column]!r}"
            warn_user(
                f"The {name} of X varies over a thousand times more than every other: it alone "
                "decides how far rows are apart. Scale the columns first, for example with "
                "sklearn.preprocessing.StandardScaler.",
                UserWarning,
            )

    def _resolve_kernel(self, rows: TrainingRows) -> None:
        self.kernel_ = resolve_kernel(
            self.kernel,
            rows.X,
            gamma=self.gamma,
            width=self.width,
            degree=self.degree,
            coef0=self.coef0,
            params=self.kernel_params,
            weight=rows.weight,
        )
        self.gamma_ = reported_gamma(self.kernel_)

    @property
    def _calibrates_by_folds(self) -> bool:
        # A whitener has seen the rows that the closed form leaves out.
        return self.metric == "whitened"

    @property
    def _calibration_folds(self) -> int:
        return 10

    def _fold_scores(self, rows: TrainingRows) -> tuple[Array, Codes, Array]:
        """Scores of rows under whole refits without their fold; folds are cut inside each task.

        Identical rows leave together. A task with one distinct row keeps it: the full model scores
        it.
        """
        normal = np.flatnonzero(~rows.outlier)
        codes = rows.codes[normal]
        precomputed = self.kernel == "precomputed"
        X = rows.X if precomputed else self._prepare(rows.X)
        # Similarity to all training rows: the same whatever their order, number or features.
        weight = rows.weight if getattr(self, "landmarks", None) is None else None
        key = np.empty(len(rows.codes))
        for part, K in self._kernel_blocks(X):
            key[part] = K.sum(axis=1) if weight is None else K @ (weight / weight.sum())
        fold = deal(key[normal], codes, len(self.tasks_), self._calibration_folds)
        scores = np.empty(len(normal))
        stays = normal[fold < 0]
        if len(stays):
            scores[fold < 0] = self._own_scores(X[stays], rows.codes[stays])
        for k in range(int(fold.max()) + 1):
            held = normal[fold == k]
            model = clone(self)
            model.tasks_ = self.tasks_
            kept = np.delete(np.arange(len(rows.codes)), held)
            if precomputed:
                model.fit_rows_ = kept
            model._fit_rows(rows.take(kept, square=precomputed), calibrate=False)
            scores[fold == k] = model._own_scores(model._prepare(rows.X[held]), rows.codes[held])
        return scores, codes, rows.weight[normal]

    # ---------------------------------------------------------------------------------- thresholds

    def _set_calibration(self, scores: Array, codes: Codes, weight: Array, source: str) -> None:
        self.calibration_ = Calibration.from_scores(scores, codes, weight, len(self.tasks_), source)
        self._set_offsets()

    def _set_offsets(self) -> None:
        # Kept beside the parameter, which set_params may change without new offsets.
        self.promised_rate_ = self.alarm_rate
        self.offset_, self.alarm_rate_ = self.calibration_.offsets(self.promised_rate_)
        complaints = [
            self.calibration_.complaint(self.promised_rate_, self.tasks_),
            self._deafness(),
        ]
        if any(complaints):
            warn_user(" ".join(text for text in complaints if text))

    def _far_scores(self) -> Array | None:
        """Score that rows unlike all training rows get from each task, if there is such a score."""
        return None

    def _deafness(self) -> str | None:
        """Which tasks would not even raise an alarm on a row unlike anything seen."""
        far = self._far_scores()
        deaf = np.zeros(0, bool) if far is None else far >= self.offset_
        if not deaf.any():
            return None
        names = shortlist(self.tasks_[deaf].tolist(), 3)
        return (
            f"{deaf.sum()} of {len(self.tasks_)} task(s) ({names}) raise no alarm on rows "
            "far away from all training rows: their own left-out rows look as strange, because "
            "tasks overlap or have too few rows for this alarm_rate. Use IndependentOCKSR, other "
            "features, more rows, or a higher alarm_rate."
        )

    def _check_calibrated(self) -> None:
        check_is_fitted(self)
        check_is_fitted(
            self,
            "calibration_",
            msg="This %(name)s has no thresholds: it was tuned with calibrate=False. Give its "
            "calibrate() held-out normal rows, or tune with calibrate=True.",
        )

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
        self._set_offsets()
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
        weight = check_weight(sample_weight, X)
        with np.errstate(under="ignore"):
            scores = self._own_scores(X, codes)
        kept = weight > 0
        self._set_calibration(scores[kept], codes[kept], weight[kept], source="held-out")
        return self

    # ------------------------------------------------------------------------------------- scoring

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
        X, codes = self._scoring_rows(X, task)
        with np.errstate(under="ignore"):
            return self._own_scores(X, codes)

    def decision_function(self, X: Any, *, task: Any = None) -> Array:
        """`score_samples` minus the threshold of each row's task, shape (n,); < 0 is an alarm."""
        self._check_calibrated()
        X, codes = self._scoring_rows(X, task)
        with np.errstate(under="ignore"):
            return self._own_scores(X, codes) - self.offset_[codes]

    def predict(self, X: Any, *, task: Any = None) -> NDArray[np.int_]:
        """+1 where a row is normal for its task, -1 where it raises the alarm, shape (n,)."""
        return np.where(self.decision_function(X, task=task) < 0, -1, 1)

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
        with np.errstate(under="ignore"):
            if exact:
                return self._conformal_pvalues(X, codes)
            self._check_calibrated()
            scores = self._own_scores(X, codes)
        return self.calibration_.pvalues(scores, codes, self.promised_rate_)

    def select(
        self, X: Any, *, task: Any = None, fdr: float = 0.1, exact: bool = False
    ) -> NDArray[np.bool_]:
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
        """
        if not isinstance(fdr, Real) or not 0 < fdr < 1:
            raise ValueError(f"fdr must lie between 0 and 1; got {fdr!r}.")
        self._check_calibrated()
        X, codes = self._scoring_rows(X, task)
        with np.errstate(under="ignore"):
            if exact:
                p = self._conformal_pvalues(X, codes)
                floors = 1.0 / (self.calibration_.counts + 1.0)
            else:
                scores = self._own_scores(X, codes)
                p = self.calibration_.pvalues(scores, codes, self.promised_rate_)
                floors = self.calibration_.smallest_pvalues(self.promised_rate_)
        chosen = benjamini_hochberg(p, fdr)
        floor = floors[codes].min()
        needed = int(np.ceil(len(p) * floor / fdr - 1e-9))
        if not chosen.any() and needed > 1:
            warn_user(
                f"No row selected. The smallest p-value possible here is {floor:.3g}, so "
                f"Benjamini-Hochberg at fdr={fdr:g} can select rows of this batch only if at least "
                f"{needed} of its {len(p)} rows look that abnormal. Use smaller batches, more "
                "calibration rows, or a larger fdr."
            )
        return chosen

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
            return self._all_scores(X)

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
        accepted = np.where(scores < self.offset_, -np.inf, scores)
        best = np.argmax(accepted, axis=1)
        rejected = np.all(scores < self.offset_, axis=1)
        whole = self.tasks_.dtype.kind in "iu"
        if whole and -1 not in self.tasks_ and self.tasks_.max() <= np.iinfo(np.int64).max:
            return np.where(rejected, -1, self.tasks_[best].astype(np.int64))
        labels = self.tasks_.astype(object)[best]
        labels[rejected] = None
        return labels

    # --------------------------------------------------------------------------- rows for scoring

    def _scoring_rows(self, X: Any, task: Any) -> tuple[Rows, Codes]:
        check_is_fitted(self)
        if isinstance(task, str):
            X, task, _ = split_column(X, task)
        X = self._scoring_features(X)
        n = X.shape[0]
        if task is not None:
            codes = lookup(check_labels(task, n), self.tasks_)
            if np.any(codes == MISSING):
                row = int(np.flatnonzero(codes == MISSING)[0])
                raise ValueError(
                    f"The task of row {row} is missing. Remove such rows, or use score_tasks(X) "
                    "to compare them with every known task."
                )
        elif len(self.tasks_) > 1:
            raise ValueError(
                f"This model has {len(self.tasks_)} tasks: say which task each row claims with "
                "task=..., or use score_tasks(X) to score rows against all of them."
            )
        else:
            codes = np.zeros(n, dtype=np.intp)
        return X, codes

    def _scoring_features(self, X: Any) -> Rows:
        check_is_fitted(self)
        if self.label_columns_ and (frame := as_frame(X)) is not None:
            X = frame.drop(self.label_columns_, strict=False).to_native()
        return self._prepare(check_rows(self, X, reset=False))

    def _prepare(self, X: Rows) -> Rows:
        """Rows as the kernel wants them."""
        if self.metric == "whitened":
            return self.whitener_.transform(X)
        return X[:, self.fit_rows_] if self.kernel == "precomputed" else X

    def _kernel_blocks(self, X: Rows) -> Iterator[tuple[slice, Array]]:
        """Kernel values of rows against the training rows, block by block."""
        for rows in row_blocks(X.shape[0], 2 * (self.X_fit_.shape[0] + X.shape[1])):
            yield rows, self._kernel_values(X[rows])

    def _kernel_values(self, X: Rows) -> Array:
        if self.kernel == "precomputed":
            return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        if not is_sparse(X):
            X = np.asarray(X, dtype=np.float64)
        return self.kernel_(X, self.X_fit_)

    def _gram(self, X: Rows) -> Array:
        if self.kernel == "precomputed":
            X = X.toarray() if is_sparse(X) else X
            # Only the symmetric part of a kernel matrix has a meaning.
            return np.asfortranarray(X + X.T) / 2
        return self.kernel_.gram(X)

    def _finite_gram(self, X: Rows) -> Array:
        """Kernel matrix of training rows, refused where it is not finite."""
        K = self._gram(X)
        if not np.all(np.isfinite(K)):
            raise ValueError(
                f"kernel={self.kernel!r} is not finite on the training rows. Use another kernel, "
                "or rescale the rows."
            )
        return K

    def _gram_diagonal(self, X: Rows) -> Array:
        if self.kernel == "precomputed":
            return np.asarray(X.diagonal(), dtype=np.float64)
        return self.kernel_.diagonal(X)

    def __sklearn_tags__(self) -> Any:
        """Tags: sparse rows are welcome, precomputed kernels are sliced in both directions."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
