"""How well scores tell a task's own rows from all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from manyone.calibration import warn_user
from manyone.tasks import Codes
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
    scores : ndarray of shape (..., n, T)
        Score of every row against every task.
    codes : ndarray of shape (n,)
        Task of each row; any other value than 0..T-1 makes it a negative of every task.
    outlier : ndarray of bool of shape (n,) or None
        Rows that are negatives of every task, their own included.
    weight : ndarray of shape (n,) or None
        Counts.

    Returns
    -------
    ndarray of shape (..., T)
        NaN where a task has no positive or no negative row. Ties count one half.
    """
    *stack, n, T = scores.shape
    owner = codes if outlier is None else np.where(outlier, -1, codes)
    # One line per curve, so that all of them are sorted by one call.
    curves = np.ascontiguousarray(np.moveaxis(scores, -1, -2)).reshape(-1, n)
    task = np.resize(np.arange(T), len(curves))
    mass = np.ones(n) if weight is None else weight
    positives = np.bincount(owner[owner >= 0], mass[owner >= 0], T)[:T]
    pairs = (positives * (mass.sum() - positives))[task]
    if np.all(mass == mass[0]) and np.all(np.isfinite(curves)):
        wins, level = _wins_by_sorting(curves, owner == task[:T, None])
        wins *= mass[0] ** 2
    else:
        wins, level = np.zeros(len(curves)), np.ones(len(curves), dtype=bool)
    for line in np.flatnonzero(level):
        wins[line] = _wins_with_ties(curves[line], owner == task[line], mass)
    aucs = np.divide(wins, pairs, out=np.full(len(wins), np.nan), where=pairs > 0)
    return aucs.reshape(*stack, T)


def _wins_by_sorting(curves: Array, own: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Pairs won by positives on each line, and whether a line has ties (then do not trust it).

    A plain sort is several times faster than one that also moves labels, so the label travels in
    the last bit of the score.
    """
    n = curves.shape[1]
    flags = np.broadcast_to(own, (len(curves) // len(own), *own.shape)).reshape(curves.shape)
    marked = (curves.view(np.int64) & ~1) | flags
    ascending = np.sort(marked.view(np.float64), axis=1).view(np.int64)
    values = ascending >> 1
    level = np.any(values[:, 1:] == values[:, :-1], axis=1)
    rank = np.einsum("cn,n->c", ascending & 1, np.arange(n))
    count = own.sum(axis=1)[np.resize(np.arange(len(own)), len(curves))]
    return rank - count * (count - 1) / 2.0, level


def _wins_with_ties(scores: Array, own: NDArray[np.bool_], mass: Array) -> float:
    """Weight of the pairs won by positives, those that tie counted half."""
    order = np.argsort(scores[~own])
    ascending = scores[~own][order]
    cumulative_weight = np.concatenate([[0.0], np.cumsum(mass[~own][order])])
    below = cumulative_weight[np.searchsorted(ascending, scores[own], side="left")]
    up_to = cumulative_weight[np.searchsorted(ascending, scores[own], side="right")]
    return float((below + up_to) @ mass[own]) / 2.0


class TaskAUC:
    """Scorer for :class:`sklearn.model_selection.GridSearchCV` and friends: mean AUC over tasks.

    The rows of the other tasks in the validation fold are the negatives. The estimator may stand at
    the end of a pipeline. With metadata routing enabled, the task labels find their own way:

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
        """Mean AUC over the tasks that have rows both in the training and in the validation fold.

        Warns where those are only part of the tasks: a search over sorted rows, cut without
        stratification, would otherwise compare settings on one or two tasks.

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
        if isinstance(estimator, Pipeline):
            X, estimator = estimator[:-1].transform(X), estimator[-1]
        index = {label: code for code, label in enumerate(estimator.tasks_.tolist())}
        labels = check_labels(task, len(task)).tolist()
        # Tasks without a training row in this fold cannot be judged; their rows are negatives.
        codes = np.array([index.get(label, -1) for label in labels])
        aucs = task_aucs(estimator.score_tasks(X), codes)
        judged = np.count_nonzero(np.isfinite(aucs))
        if judged == 0:
            raise ValueError(
                "No task has rows both in the training and in the validation fold, with rows of "
                "another task beside them: cut folds with StratifiedKFold on the task labels."
            )
        tasks = len((index.keys() | set(labels)) - {None})
        if judged < tasks:
            warn_user(
                f"TaskAUC judges {judged} of {tasks} tasks: the others have no rows in the "
                "training or none in the validation fold. Cut folds with StratifiedKFold on the "
                "task labels.",
                UserWarning,
            )
        return float(np.nanmean(aucs))

    def get_metadata_routing(self) -> MetadataRequest:
        """Request the task labels of the validation rows."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="task", alias=True)
        return request
