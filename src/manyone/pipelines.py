"""Transformers in front of an estimator, with ``task=`` handed to whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from manyone._sklearn import BaseComposition
from manyone._types import Array, Mask
from manyone.engines.sample import TakeSample
from manyone.engines.sources import sweep_of
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.updates import code_of, rows_to_enroll
from manyone.inverse import undone
from manyone.labels import as_labels, lookup, split_columns, without_columns
from manyone.metric.reasons import find_reasons
from manyone.metric.shrinkage import task_whitenings
from manyone.routing import asked
from manyone.rows import TrainingRows

# Rows that a model which keeps none is explained by: all of as many, or a sample.
_KEPT = 2**14
# Rows that the tasks' common scales and covariance count for where rows are explained.
_PRIORS = (2.0, 20.0)


def make_pipeline(*steps: Any, **options: Any) -> TaskPipeline:
    """Chain transformers and an estimator of this package.

    Unlike :func:`sklearn.pipeline.make_pipeline`, every method takes ``task=`` and no global
    setting has to be changed.

    Parameters
    ----------
    *steps : transformers, then an estimator or ``"auto"``
        ``"auto"`` chooses method and setting when it is fitted, see :func:`manyone.auto`.
    **options
        Of `auto`, such as ``anomalies="faults"``.

    Returns
    -------
    TaskPipeline

    Examples
    --------
    >>> import numpy as np
    >>> import manyone
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> task = np.repeat(["pump", "fan"], 30)
    >>> X = rng.normal(size=(60, 2)) * [1.0, 1000.0]
    >>> model = manyone.make_pipeline(StandardScaler(), manyone.JointOCKSR(alarm_rate=0.1))
    >>> model.fit(X, task=task).predict([[9.0, 9000.0]], task=["fan"])
    array([-1])
    """
    if not steps:
        raise ValueError(
            'make_pipeline needs an estimator, or "auto", as its last step.'
        )
    names: list[str] = []
    for step in steps:
        name = step if isinstance(step, str) else type(step).__name__.lower()
        count = sum(other.rstrip("-0123456789") == name for other in names)
        names.append(f"{name}-{count + 1}" if count else name)
    return TaskPipeline(list(zip(names, steps, strict=True)), options)


@dataclass(eq=False, repr=False)
class TaskPipeline(BaseComposition):
    """Transformers and an estimator as one; made by :func:`manyone.make_pipeline`.

    Every method of the estimator is there, with rows as the first transformer takes them. What the
    transformers have learned stays when rows are enrolled or forgotten.

    Parameters
    ----------
    steps : list of (str, transformer), the last an estimator or ``"auto"``
    options : dict
        Of ``"auto"``.

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
    sample_ : Sample or None
        Rows that others are explained by, where the estimator keeps none: it has landmarks.
    choice_, tuning_ : dict of arrays
        What was tried, where `auto` or `tune` chose the last step.
    """

    steps: list[tuple[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)

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
        """Fit the transformers, then the estimator; see its `fit`."""
        last = self.steps[-1][1]
        Z, given = self.fit_transformers(X, task=task, outlier=outlier, groups=groups)
        given["sample_weight"] = sample_weight
        if isinstance(last, str) and last == "auto":
            from manyone.selection.auto import auto  # choosing knows pipelines

            model = auto(Z, **given, **self.options)
        elif isinstance(last, OneClassEstimator):
            model = clone(last).fit(Z, **given)
        else:
            raise ValueError(
                f'The last step must be a manyone estimator or "auto"; got {last!r}.'
            )
        return self.become(model, Z, **given)

    def fit_transformers(self, X: Any, **labels: Any) -> tuple[Any, dict[str, Any]]:
        """Rows as the estimator gets them, and labels (task, outlier, groups) as values."""
        self.label_columns_ = [
            name for name in labels.values() if isinstance(name, str)
        ]
        X, *values = split_columns(X, **labels)
        given = dict(zip(labels, values, strict=True))
        self.steps_ = [(name, clone(step)) for name, step in self.steps[:-1]]
        for _, step in self.steps_:
            step.fit(X, **asked(step, "fit", given["task"]))
            X = step.transform(X, **asked(step, "transform", given["task"]))
        return X, given

    def become(self, model: OneClassEstimator, X: Any, **given: Any) -> Self:
        """Take a fitted estimator for the last step, and what it was given."""
        self.model_: Any = model
        for table in {"choice_", "tuning_"} & vars(model).keys():
            setattr(self, table, getattr(model, table))
        return self._keep_some(X, **given)

    def _keep_some(
        self,
        X: Any,
        task: Any = None,
        outlier: Any = None,
        sample_weight: Any = None,
        **_: Any,
    ) -> Self:
        """Keep a sample of rows, to explain others by, where the estimator keeps none."""
        self.sample_: Any = None
        if self.model_.landmarks is not None:
            sample = sweep_of(X, task, outlier, sample_weight)(TakeSample(_KEPT))
            self.sample_ = replace(sample, names=None, roles=())
        return self

    @property
    def tasks_(self) -> NDArray[Any]:
        """Labels, sorted, shape (T,)."""
        return np.asarray(self.model_.tasks_)

    @property
    def offset_(self) -> Array:
        """Threshold on the score of each task, shape (T,)."""
        return np.asarray(self.model_.offset_)

    @property
    def n_features_in_(self) -> int:
        """Columns of the rows that it was fitted to."""
        return int(self._first.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of these columns, where they have names."""
        return np.asarray(self._first.feature_names_in_)

    @property
    def _first(self) -> Any:
        return self.steps_[0][1] if self.steps_ else self.model_

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with `deep`, those of the steps too, as ``<name>__<parameter>``."""
        return dict(self._get_params("steps", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of a step as ``<name>__<parameter>``, or a step by its name."""
        self._set_params("steps", **params)
        return self

    def transform(self, X: Any, *, task: Any = None) -> Any:
        """Rows as the estimator gets them."""
        check_is_fitted(self)
        X = without_columns(X, self.label_columns_)
        for _, step in self.steps_:
            X = step.transform(X, **asked(step, "transform", task))
        return X

    def _ask(self, method: str, X: Any, task: Any, **options: Any) -> Any:
        X, task = split_columns(X, task=task)
        return getattr(self.model_, method)(
            self.transform(X, task=task), task=task, **options
        )

    def score_samples(self, X: Any, *, task: Any = None) -> Array:
        """Score of each row, shape (n,); higher is more normal."""
        return np.asarray(self._ask("score_samples", X, task))

    def decision_function(self, X: Any, *, task: Any = None) -> Array:
        """Score minus threshold, shape (n,); < 0 raises the alarm."""
        return np.asarray(self._ask("decision_function", X, task))

    def predict(self, X: Any, *, task: Any = None) -> NDArray[np.int_]:
        """+1 where a row is normal for its task, -1 where it raises the alarm, shape (n,)."""
        return np.asarray(self._ask("predict", X, task))

    def pvalues(self, X: Any, *, task: Any = None, exact: bool = False) -> Array:
        """P-value of "this row is normal for its task", shape (n,)."""
        return np.asarray(self._ask("pvalues", X, task, exact=exact))

    def select(
        self, X: Any, *, task: Any = None, fdr: float = 0.1, exact: bool = False
    ) -> Mask:
        """Rows of a batch to call abnormal, with false-discovery control, shape (n,)."""
        return np.asarray(self._ask("select", X, task, fdr=fdr, exact=exact))

    def view_scores(self, X: Any, *, task: Any = None) -> Array:
        """How abnormal each row looks in each view of a combined estimator, shape (n, V)."""
        return np.asarray(self._ask("view_scores", X, task))

    def score_tasks(self, X: Any) -> Array:
        """Score of every row against every task, shape (n, T)."""
        return np.asarray(self.model_.score_tasks(self.transform(X)))

    def predict_task(self, X: Any) -> NDArray[Any]:
        """The task that accepts a row best, or none, shape (n,)."""
        return np.asarray(self.model_.predict_task(self.transform(X)))

    def recalibrate(self, alarm_rate: float) -> Self:
        """Promise another alarm rate; nothing is refitted."""
        check_is_fitted(self)
        self.model_.recalibrate(alarm_rate)
        return self

    def calibrate(self, X: Any, *, task: Any = None, sample_weight: Any = None) -> Self:
        """Set the thresholds from held-out normal rows."""
        self._ask("calibrate", X, task, sample_weight=sample_weight)
        return self

    def enroll(self, X: Any, *, task: Any = None, **given: Any) -> Self:
        """Add rows of known tasks, or new tasks, where the estimator can; see its `enroll`."""
        rows = self._prepared(X, task=task, **given)
        X, task, outlier, _ = rows_to_enroll(
            self.model_,
            rows["X"],
            rows["task"],
            rows.get("outlier"),
            rows.get("groups"),
        )
        self.model_.enroll(**rows)
        if (before := vars(self).get("sample_")) is not None:
            self._keep_some(X, task, outlier, rows.get("sample_weight"))
            self.sample_ = TakeSample(_KEPT).merge(before, self.sample_)
        return self

    def forget(
        self, task: Any, *, X: Any = None, others: Any = None, **given: Any
    ) -> Self:
        """Remove a task and its rows from the estimator; see its `forget`.

        Rows that are given, its own or those of all others, are as the first transformer takes
        them.
        """
        check_is_fitted(self)
        if X is not None:
            X = self.transform(X, task=np.repeat(as_labels([task]), np.shape(X)[0]))
        others, code = others and self._prepared(**others), code_of(self.model_, task)
        self.model_.forget(task, X=X, others=others, **given)
        if others:
            return self._keep_some(**others)
        if (sample := vars(self).get("sample_")) is not None:
            self.sample_ = sample.without(code)
        return self

    def _prepared(self, X: Any, **given: Any) -> dict[str, Any]:
        """What the estimator is given for rows, columns that are no features taken out of them."""
        X, *values = split_columns(X, **given)
        given = dict(zip(given, values, strict=True))
        return {**given, "X": self.transform(X, task=given.get("task"))}

    def explain(
        self, X: Any, *, task: Any = None, top: int = 3
    ) -> dict[str, NDArray[Any]]:
        """Which columns make each row unusual for its task.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        task : array-like of shape (n,) or str or None
        top : int, default=3

        Returns
        -------
        dict of arrays of shape (n, top)
            ``column``: names of the columns, or their numbers where they have none; ``value`` and
            ``expected``, what would be normal given the other columns; ``share`` in what is
            unusual. Columns and values are yours where every transformer can be undone; else those
            that the last one that cannot be undone makes, and a warning names it. A model with
            landmarks compares with a sample of its rows, all of up to 16,384.
        """
        X, task = split_columns(X, task=task)
        training = self._reference()
        normal = training.take(np.flatnonzero(~training.outlier))
        rows, codes = np.asarray(normal.X, dtype=np.float64), normal.codes
        rows, steps = undone(self.steps_, rows, self.tasks_[codes])
        for _, step in self.steps_[:steps]:
            X = step.transform(X, **asked(step, "transform", task))
        Z = np.asarray(X, dtype=np.float64)
        claimed = np.full(len(Z), self.tasks_[0]) if task is None else as_labels(task)
        metric = task_whitenings(rows, codes, normal.weight, normal.n_tasks, *_PRIORS)
        seen = (np.arange(Z.shape[1]), rows.min(axis=0), rows.max(axis=0))
        reasons = find_reasons(metric, Z, lookup(claimed, self.tasks_), *seen)
        order = np.argsort(-reasons.gain, axis=1, kind="stable")[:, :top]
        gain = np.maximum(reasons.gain, 0.0)
        share = gain / np.maximum(gain.sum(axis=1, keepdims=True), 1e-300)
        parts = {"value": Z, "expected": reasons.expected, "share": share}
        found = {
            name: np.take_along_axis(part, order, axis=1)
            for name, part in parts.items()
        }
        return {"column": self._names(steps, Z.shape[1])[order], **found}

    def _names(self, steps: int, width: int) -> NDArray[Any]:
        """Names of the columns after some steps, or their numbers."""
        if steps and hasattr(self.steps_[steps - 1][1], "get_feature_names_out"):
            return np.asarray(self.steps_[steps - 1][1].get_feature_names_out())
        return np.asarray(getattr(self._first, "feature_names_in_", np.arange(width)))

    def _reference(self) -> TrainingRows:
        """Training rows as the estimator has kept them, or a sample of them."""
        check_is_fitted(self)
        if (sample := vars(self).get("sample_")) is not None:
            rows: TrainingRows = sample.rows()
            return rows
        views = list(getattr(self.model_, "views_", {"": self.model_}).values())
        rows = max((view.training_ for view in views), key=lambda one: one.X.shape[1])
        if rows.X.shape[1] == 0:
            raise ValueError(
                "explain() needs rows, but this model knows kernel values only, or it was saved "
                "before models with landmarks kept a sample of them: fit it again."
            )
        return rows
