"""Enrol rows or whole tasks, and forget them, without fitting again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from manyone.calibration import warn_user
from manyone.estimators.base import MultiTaskOneClass
from manyone.kernels import is_sparse
from manyone.tasks import MISSING, as_labels, encode, lookup, split_column
from manyone.validation import TrainingRows


def join_rows(old: TrainingRows, new: TrainingRows) -> TrainingRows:
    """Old rows followed by new ones."""
    both = [old.X, new.X]
    X = sparse.vstack(both, format="csr") if is_sparse(old.X) else np.vstack(both)
    return TrainingRows(X, *(np.concatenate(pair) for pair in zip(old[1:], new[1:], strict=True)))


class UpdatableMixin(MultiTaskOneClass):
    """`enroll` and `forget` for models whose training rows and factors are at hand.

    The kernel width stays what it was: the result equals a fit to the new set of rows with
    ``gamma=model.gamma_``. A whitened metric, which every row shapes, is learned anew: there, and
    only there, the change is a whole fit.
    """

    @abstractmethod
    def _append(self, rows: TrainingRows) -> None:
        """Take in rows whose tasks are all known."""

    @abstractmethod
    def _insert_task(self, code: int) -> None:
        """Make room for a new task at position `code` (codes and labels are moved already)."""

    @abstractmethod
    def _remove(self, code: int) -> None:
        """Remove the rows of a task and its place; `tasks_` is shortened already."""

    def enroll(
        self, X: Any, *, task: Any = None, outlier: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add rows to known tasks or enrol new tasks; thresholds are set anew.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (k, d)
        task, outlier, sample_weight
            As in `fit`.

        Returns
        -------
        self
            Equal to a fit to all rows with ``gamma=model.gamma_``.
        """
        check_is_fitted(self)
        self._check_updatable("enroll")
        if task is None and len(self.tasks_) > 1:
            raise ValueError(
                f"This model has {len(self.tasks_)} tasks: say with task=... where rows belong."
            )
        X, task, outlier = split_column(X, task, outlier)
        if task is None:
            task = np.repeat(self.tasks_, X.shape[0] if hasattr(X, "shape") else len(X))
        rows, names = self._training_rows(X, task, outlier, sample_weight, reset=False)
        if is_sparse(rows.X) != is_sparse(self.X_fit_):
            convert = sparse.csr_array if is_sparse(self.X_fit_) else _dense
            rows = rows._replace(X=convert(rows.X))
        rows = rows._replace(X=rows.X.astype(np.float64))
        return self._apply(lambda model: model._enroll_rows(rows, names))

    def _apply(self, change: Callable[[Self], None]) -> Self:
        """Change a copy, and become it only if all went well: a refused change leaves no trace."""
        model = copy(self)
        with np.errstate(under="ignore"):
            change(model)
        self.__dict__.update(model.__dict__)
        return self

    def _enroll_rows(self, rows: TrainingRows, names: Any) -> None:
        known = set(self.tasks_.tolist())
        new_labels = [name for name in names.tolist() if name not in known]
        has_normal = set(names[rows.codes[~rows.outlier]].tolist())
        for label in new_labels:
            if label not in has_normal:
                raise ValueError(f"New task {label!r} has no normal row: enrol one, or drop it.")
        merged, _ = encode(as_labels([*self.tasks_.tolist(), *new_labels]))
        moved = lookup(self.tasks_, merged)
        self.codes_ = _moved(self.codes_, moved)
        rows = rows._replace(codes=_moved(rows.codes, lookup(names, merged)))
        self.tasks_ = merged
        if self.metric == "whitened":
            rows = join_rows(self._raw_rows(), rows).by_task()[0]
            self._fit_rows(rows, calibrate=self._is_calibrated)
            return
        for code in np.setdiff1d(np.arange(len(merged)), moved):
            self._insert_task(int(code))
        self._append(rows)
        self._recalibrate_left_out()

    def forget(self, task: Any) -> Self:
        """Remove a task and every row of it from the model.

        Parameters
        ----------
        task : label

        Returns
        -------
        self
            Equal to a fit to the other rows with ``gamma=model.gamma_``.
        """
        check_is_fitted(self)
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
        return self._apply(lambda model: model._forget_code(code))

    def _forget_code(self, code: int) -> None:
        self.tasks_ = np.delete(self.tasks_, code)
        if self.metric == "whitened":
            kept = self._raw_rows().take(np.flatnonzero(self.codes_ != code))
            rows = kept._replace(codes=kept.codes - (kept.codes > code)).by_task()[0]
            self._fit_rows(rows, calibrate=self._is_calibrated)
            return
        self._remove(code)
        self._recalibrate_left_out()

    def _check_updatable(self, method: str) -> None:
        self._refuse_precomputed(f"{method}()")

    def _refuse_precomputed(self, what: str) -> None:
        if self.kernel == "precomputed":
            raise ValueError(
                f'{what} needs rows to evaluate the kernel on; with kernel="precomputed" fit again '
                "on the new kernel matrix."
            )

    @property
    def _is_calibrated(self) -> bool:
        """False for a model that `tune` was told to leave without thresholds."""
        return hasattr(self, "calibration_")

    def _recalibrate_left_out(self) -> None:
        if not self._is_calibrated:
            return
        if self.calibration_.source == "held-out":
            warn_user(
                "The held-out calibration belonged to the model before this change: thresholds now "
                "come from left-out training rows. Call calibrate(X, task=...) again."
            )
        self._set_calibration(*self._left_out_scores(), source="leave-one-out")

    def _rows(self) -> TrainingRows:
        return TrainingRows(self.X_fit_, self.codes_, self.outlier_, self.weight_)

    def _raw_rows(self) -> TrainingRows:
        rows = self._rows()
        return rows._replace(X=self.whitener_.inverse_transform(rows.X))

    def _rows_without(self, code: int) -> TrainingRows:
        rows = self._rows().take(np.flatnonzero(self.codes_ != code))
        return rows._replace(codes=rows.codes - (rows.codes > code))


def _moved(codes: Any, positions: Any) -> Any:
    # MISSING is -1: it picks the last entry, which is MISSING again.
    return np.append(positions, MISSING)[codes]


def _dense(X: Any) -> Any:
    return X.toarray()
