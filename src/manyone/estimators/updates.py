"""Enrol rows or whole tasks, and forget them, without fitting again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from manyone._types import Codes
from manyone.calibration.thresholds import Calibration
from manyone.estimators.base import MultiTaskOneClass
from manyone.labels import as_labels, encode, lookup, split_columns
from manyone.messages import shortlist, warn_user
from manyone.models.presence import with_presence
from manyone.models.scorers import InMetric
from manyone.models.solution import Solution
from manyone.rows import MISSING, TrainingRows, check_rows, training_rows

if TYPE_CHECKING:
    from manyone.calibration.tails import Tails


# Share of the landmarks that has to be left, or else a word is said.
_MOST_LOST = 0.75


class Updatable(MultiTaskOneClass):
    """`enroll` and `forget` for models whose training rows are at hand.

    The kernel width stays what it was: the result equals a fit to the new set of rows with
    ``gamma=model.gamma_``. A whitened metric, which every row shapes, is learned anew: there, and
    only there, the change is a whole fit.
    """

    @abstractmethod
    def _with_rows(self, old: TrainingRows, new: TrainingRows) -> tuple[Solution, TrainingRows]:
        """The solution for old and new rows, and these; codes count the tasks after the change."""

    @abstractmethod
    def _without_rows(self, gone: Codes, code: int) -> tuple[Solution, TrainingRows]:
        """The solution without the rows `gone`, which are those of the task `code`."""

    def enroll(
        self,
        X: Any,
        *,
        task: Any = None,
        outlier: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Add rows to known tasks or enrol new tasks; thresholds are set anew.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (k, d)
        task, outlier, sample_weight, groups
            As in `fit`. Groups are new ones; where the model has groups and none are given, the
            rows of a task are one.

        Returns
        -------
        self
            Equal to a fit to all rows with ``gamma=model.gamma_``.
        """
        self._check_updatable("enroll")
        if task is None and len(self.tasks_) > 1:
            raise ValueError(
                f"This model has {len(self.tasks_)} tasks: say with task=... where rows belong."
            )
        X, task, outlier, groups = split_columns(X, task=task, outlier=outlier, groups=groups)
        if task is None:
            task = np.repeat(self.tasks_, X.shape[0] if hasattr(X, "shape") else len(X))
        if "sums" in self.solution_.learned:
            from manyone.engines.updates import Block, enrolled

            block = Block(check_rows(self, X, reset=False), task, outlier, sample_weight)
            return self._become_sums(*enrolled(self.solution_, block))
        more, names, _ = training_rows(self, X, task, outlier, sample_weight, groups, reset=False)
        more = replace(more, X=_like(self.training_.X, more.X))
        known = self.tasks_.tolist()
        new_labels = [name for name in names.tolist() if name not in set(known)]
        has_normal = set(names[more.codes[~more.outlier]].tolist())
        for label in new_labels:
            if label not in has_normal:
                raise ValueError(f"New task {label!r} has no normal row: enrol one, or drop it.")
        tasks, _ = encode(as_labels([*known, *new_labels]))
        old = _recoded(self.training_, lookup(self.tasks_, tasks), len(tasks))
        more = _recoded(more, lookup(names, tasks), len(tasks))
        if isinstance(self.solution_.scorer, InMetric):
            return self._refit(old.joined(more), tasks)
        with np.errstate(under="ignore"):
            solution, rows = self._with_rows(old, more)
        return self._become(solution, rows, tasks)

    def forget(
        self,
        task: Any,
        *,
        X: Any = None,
        outlier: Any = None,
        sample_weight: Any = None,
        others: Mapping[str, Any] | None = None,
    ) -> Self:
        """Remove a task and every row of it from the model.

        Parameters
        ----------
        task : label
        X : array-like, sparse matrix or data frame of shape (k, d) or None
            All rows of the task, for a model of landmarks, which has not kept them.
        outlier, sample_weight
            Of these rows, as in `fit`.
        others : dict or None
            What `fit` is to be given for the rows of all other tasks (``X``, ``task``, ...),
            wherever they are, for a model of landmarks: it is fitted to them, on landmarks of
            theirs.

        Returns
        -------
        self
            Equal to a fit to the other rows with ``gamma=model.gamma_`` (of a model of landmarks,
            with those that are left; with `others`, equal to a fit to these).
        """
        if others is None:
            self._check_updatable("forget")
        if isinstance(task, list | np.ndarray):
            raise ValueError(f"forget removes one task at a time; got {task!r}. Call it in a loop.")
        code = int(lookup(as_labels([task]), self.tasks_)[0])
        if code == MISSING:
            raise ValueError("forget needs the label of a task; got a missing value.")
        if len(self.tasks_) == 1:
            raise ValueError(
                f"{task!r} is the only task of the model: a model needs at least one. "
                "Delete the model instead."
            )
        if others is not None:
            return self._refit_to(others, np.delete(self.tasks_, code))
        if "sums" in self.solution_.learned:
            if X is None:
                raise ValueError(
                    f"A model of landmarks has kept no rows: forget({task!r}, X=its rows), or "
                    "others=what `fit` is to be given for all other rows."
                )
            from manyone.engines.updates import Block, forgotten

            X = check_rows(self, X, reset=False)
            labels = np.repeat(self.tasks_[[code]], X.shape[0])
            block = Block(X, labels, outlier, sample_weight)
            before = len(self.X_fit_)
            self._become_sums(*forgotten(self.solution_, code, block))
            if len(self.X_fit_) < _MOST_LOST * before:
                warn_user(
                    f"{before - len(self.X_fit_)} of {before} landmarks were rows of {task!r} and "
                    "are gone with it. Where the rows of the other tasks are at hand, "
                    "forget(..., others=...) puts others in their place.",
                    UserWarning,
                )
            return self
        tasks = np.delete(self.tasks_, code)
        if isinstance(self.solution_.scorer, InMetric):
            return self._refit(rows_without(self.training_, code), tasks)
        with np.errstate(under="ignore"):
            solution, rows = self._without_rows(np.flatnonzero(self.training_.codes == code), code)
        return self._become(solution, rows, tasks)

    def _refit_to(self, others: Mapping[str, Any], tasks: NDArray[Any]) -> Self:
        """Become the model of other rows, which are those of all of these tasks."""
        check_is_fitted(self)
        fresh: Self = clone(self).fit(**others)
        if set(fresh.tasks_.tolist()) != set(tasks.tolist()):
            raise ValueError(
                f"others must be the rows of all tasks that stay, {shortlist(tasks.tolist(), 5)}; "
                f"they are of {shortlist(fresh.tasks_.tolist(), 5)}."
            )
        if fresh.promised_rate_ != self.promised_rate_:
            fresh.recalibrate(self.promised_rate_)
        self.__dict__.update(vars(fresh))
        return self

    def _check_updatable(self, method: str) -> None:
        check_is_fitted(self)
        if self.training_.X.shape[1] == 0 and "sums" not in self.solution_.learned:
            raise ValueError(
                f"{method}() needs all training rows to evaluate the kernel on, but this model has "
                'kept none: it was fitted with landmarks, or with kernel="precomputed". Fit again, '
                "X= all rows that it is to know; forget(task, others=...) does it, too."
            )

    def _become(self, solution: Solution, rows: TrainingRows, tasks: NDArray[Any]) -> Self:
        """Take over a solution; nothing was changed before, so a refusal leaves no trace."""
        calibrated = "calibration_" in vars(self)
        if calibrated and self.calibration_.source == "held-out":
            warn_user(
                "The held-out calibration belonged to the model before this change: thresholds now "
                "come from left-out training rows. Call calibrate(X, task=...) again."
            )
        with np.errstate(under="ignore"):
            solution = with_presence(solution, rows)
        self.solution_, self.training_, self.tasks_ = solution, rows, tasks
        if calibrated and solution.left_out is not None:
            self.calibration_ = Calibration.from_left_out(solution, rows)
            self._set_offsets(self.promised_rate_)
        return self

    def _become_sums(self, solution: Solution, tails: Tails, tasks: NDArray[Any]) -> Self:
        """Take over a solution of landmarks."""
        self.solution_, self.tasks_ = solution, tasks
        self.calibration_ = tails.calibration(len(tasks), solution.left_out_source)
        self._set_offsets(self.promised_rate_)
        return self

    def _refit(self, rows: TrainingRows, tasks: NDArray[Any]) -> Self:
        calibrate = "calibration_" in vars(self)
        return self._fit_rows(rows.by_task(), tasks, calibrate=calibrate)


def rows_without(rows: TrainingRows, code: int) -> TrainingRows:
    """All rows but those of a task, the tasks after it counted anew."""
    kept = rows.take(np.flatnonzero(rows.codes != code))
    return replace(kept, codes=kept.codes - (kept.codes > code), n_tasks=rows.n_tasks - 1)


def _recoded(rows: TrainingRows, positions: Codes, n_tasks: int) -> TrainingRows:
    # MISSING is -1: it picks the last entry, which is MISSING again.
    return replace(rows, codes=np.append(positions, MISSING)[rows.codes], n_tasks=n_tasks)


def _like(old: Any, new: Any) -> Any:
    """New rows held as the old ones are: dense or sparse."""
    if sparse.issparse(old) != sparse.issparse(new):
        new = sparse.csr_array(new) if sparse.issparse(old) else new.toarray()
    return new.astype(np.float64)
