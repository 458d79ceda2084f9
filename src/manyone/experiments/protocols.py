"""How rows are drawn for training and for testing: the paper's protocols, and unseen anomalies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array
from manyone.selection.judging import task_aucs

#: Marks in `Split.member`.
NEGATIVE, POSITIVE, UNUSED = 0, 1, -1


@dataclass(frozen=True)
class Split:
    """Rows of one repetition.

    Attributes
    ----------
    train : ndarray of shape (n,)
        Training rows, by their position in the data; those of a task lie together.
    task : ndarray of shape (n,)
        Their tasks.
    tasks : ndarray of shape (T,)
        The enrolled tasks, sorted.
    test : ndarray of shape (m,)
        Test rows of all tasks, each once.
    member : ndarray of shape (m, T)
        1 where a test row is a positive of a task, 0 where it is a negative, -1 where that task
        is not judged by it.
    """

    train: NDArray[np.intp]
    task: NDArray[Any]
    tasks: NDArray[Any]
    test: NDArray[np.intp]
    member: NDArray[np.int8]

    def aucs(self, scores: Array) -> Array:
        """Area under the ROC curve of each task.

        Parameters
        ----------
        scores : ndarray of shape (m, T)
            Every test row against every task; higher is more normal.

        Returns
        -------
        ndarray of shape (T,)
        """
        return member_aucs(scores, self.member)


def member_aucs(scores: Array, member: NDArray[np.integer]) -> Array:
    """AUC of each task, (T,), from scores (m, T) and what each row is to each task (m, T)."""
    values = np.empty(scores.shape[1])
    for t, mine in enumerate(member.T):
        used = mine != UNUSED
        owner = np.where(mine[used] == POSITIVE, 0, -1)
        values[t] = task_aucs(scores[used, t][:, None], owner)[0]
    return values


@dataclass(frozen=True)
class Protocol:
    """Sizes of a split.

    Parameters
    ----------
    kind : {"seen", "unseen"}
        Where the negatives of a task come from: test rows of the other enrolled tasks, whose
        training rows the model knows, or rows of classes that are not enrolled at all.
    n_tasks : int
        Classes to enrol, drawn at random.
    n_train, n_positive : int
        Training rows and positive test rows of each task.
    n_negative : int
        Negative test rows of each task.
    n_unseen : int
        Classes that only appear as anomalies; 0 for ``"seen"``.
    """

    kind: str
    n_tasks: int
    n_train: int
    n_positive: int
    n_negative: int
    n_unseen: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("seen", "unseen"):
            raise ValueError(f'kind must be "seen" or "unseen"; got {self.kind!r}.')
        for name in ("n_tasks", "n_train", "n_positive", "n_negative"):
            if not isinstance(size := getattr(self, name), Integral) or size < 1:
                raise ValueError(f"{name} must be a positive integer; got {size!r}.")
        if (self.n_unseen > 0) != (self.kind == "unseen"):
            raise ValueError(f'n_unseen={self.n_unseen} does not go with kind="{self.kind}".')

    def smaller(self, factor: int) -> Protocol:
        """The same protocol with test rows divided by a factor of 1 or more."""
        if factor < 1:
            raise ValueError(f"factor must be at least 1; got {factor!r}.")
        positive, negative = (max(1, n // factor) for n in (self.n_positive, self.n_negative))
        return replace(self, n_positive=positive, n_negative=negative)

    def split(self, X: Any, task: Any, seed: int | Sequence[int]) -> Split:
        """Draw the rows of one repetition.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its length is looked at.
        task : array-like of shape (n,)
            Class of each row.
        seed : int or sequence of int
            The same seed and labels give the same split.

        Returns
        -------
        Split
        """
        labels = np.asarray(task)
        if len(labels) != len(X):
            raise ValueError(f"X has {len(X)} rows but task has {len(labels)} labels.")
        rng = np.random.default_rng(seed)
        needed = self.n_train + self.n_positive
        classes, counts = np.unique(labels, return_counts=True)
        large = classes[counts >= needed]
        if len(large) < self.n_tasks or len(classes) < self.n_tasks + self.n_unseen:
            raise ValueError(
                f"The protocol needs {self.n_tasks} classes with at least {needed} rows and "
                f"{self.n_unseen} others; the data has {len(classes)} classes, {len(large)} of "
                "them that large."
            )
        tasks = np.sort(rng.permutation(large)[: self.n_tasks])
        others = rng.permutation(np.setdiff1d(classes, tasks))[: self.n_unseen]
        # Rows in a random order within each class: the first ones train, the next ones test.
        drawn = [rng.permutation(np.flatnonzero(labels == label))[:needed] for label in tasks]
        train = np.concatenate([rows[: self.n_train] for rows in drawn])
        own = np.concatenate([rows[self.n_train :] for rows in drawn])
        owner = np.repeat(np.arange(self.n_tasks), self.n_positive)
        test = np.concatenate([own, np.flatnonzero(np.isin(labels, others))])
        member = np.full((len(test), self.n_tasks), UNUSED, dtype=np.int8)
        for t in range(self.n_tasks):
            member[: len(own), t][owner == t] = POSITIVE
            known, unknown = np.flatnonzero(owner != t), np.arange(len(own), len(test))
            pool = known if self.kind == "seen" else unknown
            if len(pool) < self.n_negative:
                raise ValueError(
                    f"The protocol needs {self.n_negative} negatives per task; only {len(pool)} "
                    "rows are left for them."
                )
            member[rng.permutation(pool)[: self.n_negative], t] = NEGATIVE
        used = np.any(member != UNUSED, axis=1)
        return Split(train, labels[train], tasks, test[used], member[used])
