"""How well scores tell a task's own rows from all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metadata_routing import MetadataRequest

from manyone.tasks import Codes, lookup
from manyone.validation import check_labels

Array = NDArray[np.float64]


def task_aucs(
    scores: Array,
    codes: Codes,
    outlier: NDArray[np.bool_] | None = None,
    weight: Array | None = None,
) -> Array:
    """Area under the ROC curve of each task: its normal rows against all other rows.

    Parameters
    ----------
    scores : ndarray of shape (n, T)
        Score of every row against every task.
    codes : ndarray of shape (n,)
        Task of each row; any other value than 0..T-1 makes it a negative of every task.
    outlier : ndarray of bool of shape (n,) or None
        Rows that are negatives of every task, their own included.
    weight : ndarray of shape (n,) or None
        Counts.

    Returns
    -------
    ndarray of shape (T,)
        NaN where a task has no positive or no negative row. Ties count one half.
    """
    n, T = scores.shape
    owner = np.where(outlier, -1, codes) if outlier is not None else codes
    if weight is None or np.all(weight == weight[0]):
        weight, ascending = np.ones(n), np.sort(scores, axis=0).T
    else:
        ascending = None
    aucs = np.full(T, np.nan)
    for t in range(T):
        mine = owner == t
        column = scores[:, t]
        positive, share = np.sort(column[mine]), weight[mine]
        below_own = _mass_below(positive, positive, share)
        if ascending is not None:
            below = _mass_below(ascending[t], positive, None)
        else:
            order = np.argsort(column)
            below = _mass_below(column[order], column[mine], weight[order])
            own_order = np.argsort(column[mine])
            below_own = _mass_below(positive, column[mine], share[own_order])
        pairs = share.sum() * (weight.sum() - share.sum())
        if pairs > 0:
            aucs[t] = float((below - below_own) @ share) / pairs
    return aucs


def _mass_below(ascending: Array, values: Array, weight: Array | None) -> Array:
    """Weight of the entries below each value, half of those equal to it."""
    left = np.searchsorted(ascending, values, side="left")
    right = np.searchsorted(ascending, values, side="right")
    if weight is None:
        return (left + right) / 2.0
    mass = np.concatenate([[0.0], np.cumsum(weight)])
    return (mass[left] + mass[right]) / 2.0


class TaskAUC:
    """Scorer for :class:`sklearn.model_selection.GridSearchCV` and friends: mean AUC over tasks.

    The rows of the other tasks in the validation fold are the negatives. With metadata routing
    enabled, the task labels find their own way:

    >>> import numpy as np, sklearn
    >>> from sklearn.model_selection import GridSearchCV, StratifiedKFold
    >>> from manyone import JointOCKSR, TaskAUC
    >>> rng = np.random.default_rng(0)
    >>> task = np.tile([0, 1, 2], 20)
    >>> X = rng.normal(size=(60, 2)) + 2.0 * task[:, None]
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     search = GridSearchCV(
    ...         JointOCKSR(alarm_rate=0.1).set_fit_request(task=True),
    ...         {"alpha": [0.01, 1.0]}, scoring=TaskAUC(), cv=StratifiedKFold(3),
    ...     ).fit(X, task, task=task)
    >>> bool(search.best_score_ > 0.8)
    True
    """

    def __call__(self, estimator: Any, X: Any, y: Any = None, *, task: Any) -> float:
        """Mean AUC over the tasks of the fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        X : array-like of shape (n, d)
        y : ignored
        task : array-like of shape (n,)

        Returns
        -------
        float
        """
        codes = lookup(check_labels(task, len(task)), estimator.tasks_)
        return float(np.nanmean(task_aucs(estimator.score_tasks(X), codes)))

    def get_metadata_routing(self) -> MetadataRequest:
        """Request the task labels of the validation rows."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="task", alias=True)
        return request
