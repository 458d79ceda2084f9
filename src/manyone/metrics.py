"""How well scores tell the rows of a task from those of other tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from manyone.data.labels import find, one_per_row, split_labels
from manyone.messages import warn_user
from manyone.pipelines import TaskPipeline
from manyone.selection.criteria import task_aucs


@dataclass(frozen=True)
class TaskAUC:
    """Mean AUC over tasks, as a scorer for grid searches of scikit-learn.

    Negatives of a task are the rows of other tasks in the validation fold: strangers,
    not faults. The estimator may be the last step of a pipeline, but not a
    :class:`TableModel`. Enable metadata routing, and give the labels to `fit`:

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

    def __call__(
        self, estimator: object, X: object, y: object = None, *, task: object = None
    ) -> float:
        """Mean AUC over the tasks with rows in the training and the validation fold.

        Warns if these are not all tasks: folds of sorted rows, cut without
        stratification, may have one or two tasks only.

        Parameters
        ----------
        estimator : fitted estimator
        X : array-like of shape (n, d)
        y : ignored
        task : array-like of shape (n,), or the name of a column of `X`

        Returns
        -------
        float
        """
        model = scoring_model(estimator)
        X, task = split_labels(X, getattr(model, "label_columns_", {}), task=task)
        if task is None:
            raise ValueError(
                "TaskAUC needs the task of each validation row, which searches hand on "
                "if sklearn.set_config(enable_metadata_routing=True) was called before."
            )
        scores = model.score_tasks(X)
        # Tasks without training rows cannot be judged. Their rows are negatives.
        labels = one_per_row("task", task, len(scores))
        codes, _ = find(labels, model.tasks_)
        aucs = task_aucs(scores, codes)
        judged = np.count_nonzero(np.isfinite(aucs))
        if judged == 0:
            raise ValueError(
                "No task has rows both in the training and in the validation fold, "
                "with rows of another task beside them: cut folds with StratifiedKFold "
                "on the task labels."
            )
        tasks = len({*model.tasks_.tolist(), *labels.tolist()} - {None})
        if judged < tasks:
            warn_user(
                f"TaskAUC judges {judged} of {tasks} tasks: the others have no rows in "
                "the training or none in the validation fold. Cut folds with "
                "StratifiedKFold on the task labels.",
                UserWarning,
            )
        return float(np.nanmean(aucs))

    def get_metadata_routing(self) -> MetadataRequest:
        """Requests of the scorer: task labels of the validation rows."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="task", alias=True)
        return request


def scoring_model(estimator: object) -> Any:
    """The model inside searches, frozen estimators and scikit-learn's pipelines."""
    while not hasattr(estimator, "score_tasks"):
        if isinstance(estimator, Pipeline):
            last = scoring_model(estimator.steps[-1][1])
            return TaskPipeline.of_fitted(estimator.steps, last)
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            raise ValueError(
                "TaskAUC scores estimators of manyone that have score_tasks, and "
                "pipelines and searches around them; got a "
                f"{type(estimator).__name__}. With labelled rows, give "
                'scoring="roc_auc" and 1 (normal) or -1 as y.'
            )
    return estimator
