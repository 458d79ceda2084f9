"""The past of rows as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from manyone._sklearn import Interval, StrOptions
from manyone._types import Array, Codes, Labels
from manyone.data.groups import as_times
from manyone.data.labels import (
    encode,
    find,
    one_per_row,
    split_columns,
    split_labels,
)
from manyone.history.clocks import NUMBERS, clock_of, remedy_for
from manyone.history.past import Past, PastColumns, past_columns
from manyone.history.seasons import SEASONS, Seasonal, level_of
from manyone.routing import RoutingState


@dataclass(kw_only=True, eq=False, repr=False)
class TaskHistory(RoutingState, TransformerMixin, BaseEstimator):
    r"""Add to each row how it differs from the past of its task.

    Of each column come two more. The *difference* is that between the value and a
    running mean of earlier rows of the task. The *swing* is a running mean of how far
    the column moved from row to row: it falls where a sensor is stuck and rises where
    one chatters. The row itself has no part in its past. Without a past both are 0.

    Parameters
    ----------
    span : int, default=12
        Rows of the running means: weights fall by :math:`1 - 2 / (span + 1)` from row
        to row.
    season : {"weekday", "hour of day", "hour of week"} or None, default=None
        Where values have a season: they, and their differences, are then taken from
        what is usual on the weekday or at the hour of the row. That is a mean of
        earlier such days or hours of the task, weighted as rows are. Until the second
        time a value counts as usual. Times have to be dates.

    Attributes
    ----------
    tasks_ : ndarray of shape (T,)
        Labels, sorted.
    past_ : Past
        What each task ended with.
    clock_ : str
        How times were written, see :mod:`manyone.history.clocks`; empty without times.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Rows that are later than all rows of the fit go on from what their task ended with.
    Other rows, and rows without times, start without a past. Values may be missing: the
    difference is missing there, too.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import TaskHistory
    >>> X = np.array([[3.0], [3.0], [3.0], [5.0]])
    >>> TaskHistory().fit_transform(X)[:, 1]
    array([0., 0., 0., 2.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "span": [Interval(Integral, 2, None, closed="left")],
        "season": [StrOptions(set(SEASONS)), None],
    }

    span: int = 12
    season: str | None = None

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        task: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
    ) -> Self:
        """Remember what each task ends with.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        y : ignored
        task : array-like of shape (n,), or the name of a column of `X`, or None
            None: a single task.
        time : array-like of shape (n,), or the name of a column of `X`, or None
            Numbers or NumPy datetimes. None: rows are in the order of time.

        Returns
        -------
        self
        """
        self._validate_params()
        self.label_columns_, rows, task, time = split_columns(X, task=task, time=time)
        values = validate_data(
            self, rows, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        labels = _labels(task, len(values))
        self.tasks_, codes = encode(labels)
        self.clock_ = _clock(time)
        phases = 0 if self.season is None else SEASONS[self.season].phases
        none = Past.none(len(self.tasks_), values.shape[1], phases)
        self.past_ = self._columns(values, codes, time, none)[1]
        if time is None:  # nobody knows whether further rows are later
            self.past_ = none
        return self

    def transform(
        self,
        X: ArrayLike,
        *,
        task: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
    ) -> Array:
        """The columns, less what is usual in a season, their differences, their swings.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        task, time : array-like of shape (n,), or the name of a column of `X`, or None
            As in `fit`. Tasks may be new.

        Returns
        -------
        ndarray of shape (n, 3 d)
        """
        check_is_fitted(self)
        rows, task, time = split_labels(X, self.label_columns_, task=task, time=time)
        values = validate_data(
            self, rows, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        labels = _labels(task, len(values))
        tasks, codes = encode(labels)
        past = self.past_.take(find(tasks, self.tasks_)[0])
        columns, _ = self._columns(values, codes, time, past)
        clock = _clock(time)
        if self.clock_ and clock and clock != self.clock_:
            raise ValueError(
                f"time holds {clock}, and in the fit it held {self.clock_}. "
                f"{remedy_for(self.clock_)}"
            )
        if self.season is not None:
            values = level_of(values, columns.usual)
        is_unknown = np.isnan(columns.difference) & np.isfinite(values)
        difference = np.where(is_unknown, 0.0, columns.difference)
        return np.hstack([values, difference, np.nan_to_num(columns.swing)])

    def fit_transform(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        task: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
    ) -> Array:
        """Fit, then transform the same rows (see `fit` and `transform`)."""
        return self.fit(X, y, task=task, time=time).transform(X, task=task, time=time)

    def _columns(
        self, values: Array, codes: Codes, time: object, past: Past
    ) -> tuple[PastColumns, Past]:
        seasonal = None
        if self.season is not None:
            is_seasonal = np.ones(values.shape[1], dtype=bool)
            seasonal = Seasonal(SEASONS[self.season], is_seasonal)
        times = self._times(time, len(values))
        past = past.continued(codes, times)
        return past_columns(values, codes, times, past, self.span, seasonal)

    def _times(self, time: object, n_rows: int) -> Array:
        """Times (n,) of rows, seconds for dates; row numbers where none are given."""
        given = np.asarray(time)
        if given.dtype.kind == "M":
            as_times(time, n_rows)
            return given.astype("datetime64[us]").astype(np.int64) / 1e6
        if self.season is not None:
            found = "no time" if time is None else f"times of type {given.dtype}"
            raise ValueError(
                f"season={self.season!r} needs dates, which have hours and weekdays; "
                f"got {found}. Give NumPy datetimes, or season=None."
            )
        if time is None:
            return np.arange(float(n_rows))
        return as_times(time, n_rows).astype(np.float64)

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Names of the columns that `transform` makes.

        Parameters
        ----------
        input_features : array-like of str or None
            Names of the columns of `X`.

        Returns
        -------
        ndarray of shape (3 d,)
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features).tolist()
        made = [f"{name}_{word}" for word in ("difference", "swing") for name in names]
        if self.season is not None:
            names = [f"{name}_deviation" for name in names]
        return np.array([*names, *made], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Values may be missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _clock(time: object) -> str:
    """How times are written; empty where there are none."""
    if time is None:
        return ""
    if np.asarray(time).dtype.kind == "M":
        return clock_of(getattr(time, "dtype", None))
    return NUMBERS


def _labels(task: object, n_rows: int) -> Labels:
    """Task of each row (n,); one for all where none is given."""
    if task is None:
        return np.zeros(n_rows)
    labels = one_per_row("task", task, n_rows)
    if labels.dtype == object and any(label is None for label in labels.tolist()):
        raise ValueError("task is missing in some rows: fill it in, or drop them.")
    return labels
