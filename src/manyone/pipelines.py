"""Pipelines of transformers and an estimator, whose methods take ``task=``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import OutlierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch, get_tags
from sklearn.utils.validation import check_is_fitted

from manyone._sklearn import BaseComposition, VisualBlock, rows_of
from manyone._types import Array, Codes, Labels, Rows
from manyone.data.checks import refuse_no_task
from manyone.data.labels import (
    as_labels,
    split_columns,
    split_labels,
)
from manyone.data.rows import (
    in_memory,
    number_of,
    training_rows,
)
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.delegating import Delegating
from manyone.messages import CalibrationWarning, warn_user
from manyone.routing import RoutingState, Transformer, asked


class _NotRemade(Exception):
    """A transformer refuses held-out rows, or the rows that are left to fit it to."""

    def __init__(self, step: str, reason: ValueError) -> None:
        super().__init__(step, reason)
        self.step = step
        self.reason = reason


def _as_rows(made: object) -> Rows:
    """The output of a transformer as rows of a model."""
    if sparse.issparse(made):
        return sparse.csr_array(made, dtype=np.float64)
    return np.asarray(made, dtype=np.float64)


@dataclass(eq=False, repr=False)
class TaskPipeline(Delegating, RoutingState, OutlierMixin, BaseComposition):
    """Transformers and an estimator as one; made by :func:`manyone.make_pipeline`.

    It has every method of the estimator, and takes rows as the first transformer does.
    `enroll` and `forget` do not fit transformers again.

    Thresholds are set by refits without some of the rows, transformers included: about
    fifteen to twenty-five fits. Transformers are fitted once only if the estimator has
    landmarks, if rows are not in memory, and if transformers get the time of rows.

    Parameters
    ----------
    steps : list of (str, transformer), the last an estimator
        ``"passthrough"`` in the place of a transformer does not change rows.

    Attributes
    ----------
    steps_ : list of (str, transformer)
        Fitted.
    model_ : estimator
        The last step, fitted.
    tasks_, offset_ : ndarray of shape (T,)
        Of the estimator.
    n_features_in_, feature_names_in_
        Of the first step.
    choice_, tuning_ : dict of arrays
        What was tried, if `auto` or `tune` has chosen the last step.
    """

    steps: list[tuple[str, Transformer]]

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        task: object = None,
        outlier: object = None,
        sample_weight: object = None,
        groups: object = None,
        time: object = None,
    ) -> Self:
        """Fit the transformers, then the estimator; see its `fit`.

        Transformers that need the time of rows (:class:`~manyone.TaskHistory`) get
        `time`: one value per row, or the name of a column, which later frames then must
        have. For arrays, scoring methods take it too:
        ``predict(X, task=task, time=time)``.
        """
        last = self._last_step()
        roles = {"task": task, "outlier": outlier, "groups": groups, "time": time}
        return self.fit_last(
            lambda Z, **labels: clone(last).fit(Z, y, **labels),
            X,
            sample_weight,
            **roles,
        )

    def fit_last(
        self,
        fit: Callable[..., OneClassEstimator | Delegating],
        X: object,
        sample_weight: object,
        **roles: object,
    ) -> Self:
        """Fit the transformers, then an estimator to their output by calling `fit`."""
        self.label_columns_, X, *values = split_columns(X, **roles)
        labels = dict(zip(roles, values, strict=True))
        time = labels.pop("time", None)
        Z = self._fit_transformers(X, sample_weight, task=labels["task"], time=time)
        labels["sample_weight"] = sample_weight
        # With `time`, rows are made from earlier rows: none can be left out of these.
        anew = self._has_learned and in_memory(X) and time is None
        with warnings.catch_warnings():
            if anew:  # thresholds are set again below, with their warnings
                warnings.simplefilter("ignore", CalibrationWarning)
            fitted = fit(Z, **labels)
        model = fitted._inner if isinstance(fitted, Delegating) else fitted
        if anew and model.promised_rate_ is not None and model.landmarks is None:
            self._set_thresholds(model, X, Z, labels)
        self.model_ = model
        for table in {"choice_", "tuning_"} & vars(model).keys():
            setattr(self, table, getattr(model, table))
        return self

    def _set_thresholds(
        self,
        model: OneClassEstimator,
        X: object,
        Z: object,
        labels: Mapping[str, object],
    ) -> None:
        """Set the thresholds of a model by refits without rows, transformers included.

        New rows have not shaped the transformers, so left-out rows must not either. If
        a column is 0 in all rows but one, its scale is that of this one row.
        """
        rows, tasks, source = training_rows(model, Z, **labels, reset=False)
        if rows.columns is not None:
            return
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        task = None if labels["task"] is None else as_labels(labels["task"])
        weight = labels["sample_weight"]
        weight = None if weight is None else np.asarray(weight)

        def remake(kept_rows: Codes, held_rows: Codes) -> tuple[Rows, Rows]:
            kept_X = rows_of(X, source[kept_rows])
            held_X = rows_of(X, source[held_rows])
            kept_task = None if task is None else task[source[kept_rows]]
            held_task = None if task is None else task[source[held_rows]]
            kept_weight = None if weight is None else weight[source[kept_rows]]
            kept_roles = {"task": kept_task, "sample_weight": kept_weight}
            for name, step in self._transformers():
                try:
                    fitted = clone(step).fit(kept_X, **asked(step, "fit", **kept_roles))
                    kept_role = asked(step, "transform", task=kept_task)
                    held_role = asked(step, "transform", task=held_task)
                    kept_X = fitted.transform(kept_X, **kept_role)
                    held_X = fitted.transform(held_X, **held_role)
                except ValueError as error:
                    raise _NotRemade(name, error) from error
            return _as_rows(kept_X), _as_rows(held_X)

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                model._fit_rows(rows, tasks, calibrate=True, remake=remake)
            except _NotRemade as failed:
                warn_user(
                    f"The step {failed.step!r} cannot be fitted without some of the "
                    f"rows ({failed.reason}). So thresholds were set with transformers "
                    "that had seen the rows, and new rows may raise more alarms than "
                    "promised. Let the step take values that it has not seen, or give "
                    "calibrate() held-out rows."
                )
        for warning in warned:
            # The first fit has given all other warnings.
            if issubclass(warning.category, CalibrationWarning):
                warn_user(str(warning.message), warning.category)

    def _last_step(self) -> OneClassEstimator | Delegating:
        name, last = self.steps[-1]
        if isinstance(last, OneClassEstimator | Delegating):
            return last
        raise ValueError(
            f"The last step, {name!r}, must be an estimator of manyone; got {last!r}."
        )

    def _fit_transformers(
        self, X: object, sample_weight: object, **roles: object
    ) -> object:
        """Fit the transformers, and return the rows as they make them.

        A transformer gets tasks, times and counts if its methods take them.
        """
        self.steps_ = []
        for name, step in self._transformers():
            if not (hasattr(step, "fit") and hasattr(step, "transform")):
                raise ValueError(
                    f"The step {name!r} must be a transformer, with fit and transform, "
                    f'or "passthrough"; got {step!r}.'
                )
            self.steps_.append((name, clone(step)))
        for _, step in self.steps_:
            step.fit(X, **asked(step, "fit", **roles, sample_weight=sample_weight))
            X = step.transform(X, **asked(step, "transform", **roles))
        return X

    def _transformers(self) -> list[tuple[str, Transformer]]:
        """All steps but the last, without those that do not change rows."""
        no_change = (None, "passthrough")
        return [(name, step) for name, step in self.steps[:-1] if step not in no_change]

    @classmethod
    def of_fitted(
        cls, steps: list[tuple[str, Transformer]], model: OneClassEstimator
    ) -> Self:
        """A fitted pipeline of fitted transformers and a fitted model."""
        pipeline = cls(steps)
        pipeline.steps_ = pipeline._transformers()
        pipeline.label_columns_ = {}
        pipeline.model_ = model
        return pipeline

    @property
    def _inner(self) -> OneClassEstimator:
        check_is_fitted(self)
        model: OneClassEstimator = self.model_
        return model

    @property
    def _has_learned(self) -> bool:
        """Whether a transformer has learned from the training rows."""
        return any(get_tags(step).requires_fit for _, step in self.steps_)

    def pvalues(
        self,
        X: object,
        *,
        task: object = None,
        time: object = None,
        exact: bool = False,
    ) -> Array:
        """P-value of "this row is normal for its task", shape (n,).

        See the `pvalues` of the estimator. With ``exact=True`` transformers may have
        learned nothing.
        """
        if exact and self._has_learned:
            raise ValueError(
                "exact=True needs rows that no transformer has changed by what it has "
                "learned from the training rows: it has seen these and not the new "
                "one, so that they are not compared on equal terms. Use exact=False."
            )
        return super().pvalues(X, task=task, time=time, exact=exact)

    @property
    def together_source_(self) -> str:
        """See `OneClassEstimator`; never exact where transformers have learned."""
        inner = self._inner
        if self._has_learned:
            return inner.calibration_.source
        return inner.together_source_

    # ------------------------------------------------------------ steps, as in Pipeline

    @property
    def named_steps(self) -> Bunch:
        """The steps by name; those of a fitted pipeline are fitted."""
        return Bunch(**dict(self._current_steps()))

    def _current_steps(self) -> list[tuple[str, Transformer]]:
        """The steps; those of a fitted pipeline are fitted."""
        if "model_" not in vars(self):
            return self.steps
        fitted = {**dict(self.steps_), self.steps[-1][0]: self.model_}
        return [(name, fitted.get(name, step)) for name, step in self.steps]

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.steps)

    def __getitem__(self, which: int | str | slice) -> Any:
        """A step by number or name; a slice gives a scikit-learn Pipeline."""
        steps = self._current_steps()
        if isinstance(which, str):
            return dict(steps)[which]
        if not isinstance(which, slice):
            return steps[which][1]
        if steps[-1] in steps[which]:
            raise ValueError("A slice may hold transformers only: pipeline[:-1].")
        return Pipeline(steps[which])

    def __sklearn_tags__(self) -> Any:
        """Tags: sparse rows if all steps take them; pairwise if the first step is."""
        tags = super().__sklearn_tags__()
        steps = [step for _, step in self.steps if hasattr(step, "fit")]
        inner = [get_tags(step).input_tags for step in steps]
        tags.input_tags.sparse = all(tag.sparse for tag in inner)
        tags.input_tags.pairwise = bool(inner) and inner[0].pairwise
        return tags

    def _sk_visual_block_(self) -> Any:
        steps = self._current_steps()
        labels = [
            f"{name}: {step if isinstance(step, str) else type(step).__name__}"
            for name, step in steps
        ]
        return VisualBlock(
            "serial",
            [step for _, step in steps],
            names=labels,
            name_details=[str(step) for _, step in steps],
            dash_wrapped=False,
        )

    @property
    def n_features_in_(self) -> int:
        """Columns of the rows that it was fitted to."""
        return int(self._first.n_features_in_)

    @property
    def feature_names_in_(self) -> Labels:
        """Names of these columns, if they have names."""
        return np.asarray(self._first.feature_names_in_)

    @property
    def _first(self) -> Any:
        return self.steps_[0][1] if self.steps_ else self.model_

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Parameters; with `deep`, also ``<name>__<parameter>`` of the steps."""
        return dict(self._get_params("steps", deep=deep))

    def set_params(self, **params: object) -> Self:
        """Set parameters, ``<name>__<parameter>`` of a step, or a step by its name."""
        self._set_params("steps", **params)
        return self

    def rows_for_model(
        self, X: object, *, task: object = None, time: object = None
    ) -> Any:
        """The output of the last transformer, which the estimator scores."""
        check_is_fitted(self)
        X, time, task = split_labels(X, self.label_columns_, time=time, task=task)
        return self._transformed(X, task, time)

    def _prepared(
        self, X: object, time: object = None, **roles: object
    ) -> dict[str, object]:
        check_is_fitted(self)
        X, time, *values = split_labels(X, self.label_columns_, time=time, **roles)
        roles = dict(zip(roles, values, strict=True))
        if "task" in roles:
            refuse_no_task(roles["task"], len(self.tasks_), self.label_columns_)
        return {**roles, "X": self._transformed(X, roles.get("task"), time)}

    def _transformed(self, X: Any, task: object, time: object) -> Any:
        if in_memory(X) and number_of(X) == 0:  # transformers refuse to have no rows
            return np.empty((0, self.model_.n_features_in_))
        for _, step in self.steps_:
            X = step.transform(X, **asked(step, "transform", task=task, time=time))
        return X

    def score_tasks(self, X: object, *, time: object = None) -> Array:
        """Score of every row against every task, shape (n, T).

        If a transformer takes the task, rows are transformed once for each task.
        """
        check_is_fitted(self)
        if not any(
            asked(step, "transform", task=self.tasks_) for _, step in self.steps_
        ):
            return super().score_tasks(X, time=time)
        columns = [
            self.score_samples(X, task=np.repeat(label, number_of(X)), time=time)
            for label in self.tasks_
        ]
        return np.column_stack(columns)

    def predict_task(self, X: object, *, time: object = None) -> Labels:
        """The task that accepts a row best, or none, shape (n,)."""
        self._inner._check_calibrated()
        return self._inner._best_task(self.score_tasks(X, time=time))
