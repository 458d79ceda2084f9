"""Protocols that draw rows: seen and unseen anomalies, faults, faults in time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Protocol as TypingProtocol
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyone._types import Array, Codes, Labels, Mask
from manyone.selection.criteria import own_aucs

#: Roles of rows where entities go wrong; a row may have more than one.
LEARN = 1
NORMAL = 2
FAULT = 4
# Names of the numbers of test rows in all protocols.
_TEST_ROWS = ("n_positive", "n_negative", "n_normal", "n_fault", "n_test")
# Tasks with fewer rows are left out.
_FEWEST_NORMAL = 5
_FEWEST_FAULT = 2
# Share of the training time that a repetition draws.
_DRAWN = 0.75


class Scores(TypingProtocol):
    """A fitted model, of the package or a rival, as a split uses it."""

    def score_tasks(self, X: Array) -> Array:
        """Every row against every task, (n, T)."""

    def score_samples(self, X: Array, *, task: Labels) -> Array:
        """Every row against its own task, (n,)."""


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
        Test rows, by their position in the data. A row that tests several tasks occurs
        once for each.
    judged : ndarray of shape (m,)
        The task that each of them tests.
    anomalous : ndarray of bool of shape (m,)
        Whether the row is an anomaly for that task.
    shared : bool
        Whether a row may test several tasks. Models then score rows against all tasks.
    """

    train: Codes
    task: Labels
    tasks: Labels
    test: Codes
    judged: Labels
    anomalous: Mask
    shared: bool = False

    @property
    def codes(self) -> Codes:
        """Place in `tasks` of the task that each row tests, (m,)."""
        return np.searchsorted(self.tasks, self.judged)

    def scores(self, model: Scores, X: Array) -> Array:
        """Scores (m,) of the test rows, by a model of the training rows of X (n, d)."""
        if not self.shared:
            return model.score_samples(X[self.test], task=self.judged)
        rows, places = np.unique(self.test, return_inverse=True)
        return model.score_tasks(X[rows])[places, self.codes]

    def aucs(self, scores: Array) -> Array:
        """Area under the ROC curve of each task (T,), from scores of test rows (m,)."""
        return own_aucs(scores, self.codes, self.anomalous, len(self.tasks))


@dataclass(frozen=True)
class Sizes:
    """Base of protocols: sizes of a split."""

    def smaller(self, factor: int) -> Self:
        """The same protocol with test rows divided by a factor of 1 or more."""
        sizes = {name: getattr(self, name, None) for name in _TEST_ROWS}
        fewer = {
            name: max(1, n // factor) for name, n in sizes.items() if n is not None
        }
        return replace(self, **fewer)


@dataclass(frozen=True)
class Protocol(Sizes):
    """Sizes of a split of strangers.

    Parameters
    ----------
    kind : {"seen", "unseen"}
        Where the negatives of a task come from: test rows of the other enrolled tasks,
        whose training rows the model knows, or rows of classes that are not enrolled at
        all.
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
            size = getattr(self, name)
            if not isinstance(size, Integral) or size < 1:
                raise ValueError(f"{name} must be a positive integer; got {size!r}.")
        if (self.n_unseen > 0) != (self.kind == "unseen"):
            raise ValueError(
                f'n_unseen={self.n_unseen} does not go with kind="{self.kind}".'
            )

    def split(
        self,
        X: Sized,
        task: ArrayLike,
        roles: object = None,
        *,
        seed: int | Sequence[int],
    ) -> Split:
        """Draw the rows of one repetition.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its length is looked at.
        task : array-like of shape (n,)
            Class of each row.
        roles : ignored
            Every row may be drawn for anything.
        seed : int or sequence of int
            The same seed and labels give the same split.

        Returns
        -------
        Split
        """
        labels = _labels(X, task)
        rng = np.random.default_rng(seed)
        needed = self.n_train + self.n_positive
        classes, counts = np.unique(labels, return_counts=True)
        large = classes[counts >= needed]
        if len(large) < self.n_tasks or len(classes) < self.n_tasks + self.n_unseen:
            raise ValueError(
                f"The protocol needs {self.n_tasks} classes with at least {needed} "
                f"rows and {self.n_unseen} others; the data has {len(classes)} "
                f"classes, {len(large)} of them that large."
            )
        tasks = np.sort(rng.permutation(large)[: self.n_tasks])
        strangers = rng.permutation(np.setdiff1d(classes, tasks))[: self.n_unseen]
        # Rows in a random order within each class: the first ones train, the next ones
        # test.
        drawn = [
            rng.permutation(np.flatnonzero(labels == label))[:needed] for label in tasks
        ]
        train = np.concatenate([rows[: self.n_train] for rows in drawn])
        positive = np.concatenate([rows[self.n_train :] for rows in drawn])
        owner = np.repeat(tasks, self.n_positive)
        stranger_rows = np.flatnonzero(np.isin(labels, strangers))
        negative = []
        for label in tasks:
            pool = positive[owner != label] if self.kind == "seen" else stranger_rows
            if len(pool) < self.n_negative:
                raise ValueError(
                    f"The protocol needs {self.n_negative} negatives per task; only "
                    f"{len(pool)} rows are left for them."
                )
            negative.append(rng.permutation(pool)[: self.n_negative])
        return Split(
            train,
            labels[train],
            tasks,
            test=np.concatenate([positive, *negative]),
            judged=np.concatenate([owner, np.repeat(tasks, self.n_negative)]),
            anomalous=np.repeat(
                [False, True], [len(positive), self.n_tasks * self.n_negative]
            ),
            shared=True,
        )


@dataclass(frozen=True)
class OwnRowsProtocol(Sizes, ABC):
    """Sizes of a split in which each task is tested with its own rows.

    Parameters
    ----------
    n_train : int
        Training rows of each task.
    n_tasks : int or None
        Tasks to draw; None is all that have enough rows.
    n_test : int or None
        Most test rows of each task, normal or faulty; None is all.
    """

    n_train: int
    n_tasks: int | None = None
    n_test: int | None = None

    @property
    def fewest_to_learn(self) -> int:
        """Training rows that a task needs. Tasks with fewer are left out."""
        return self.n_train

    def split(
        self,
        X: Sized,
        task: ArrayLike,
        roles: NDArray[np.uint8],
        *,
        seed: int | Sequence[int],
    ) -> Split:
        """Draw the rows of one repetition.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its length is looked at.
        task : array-like of shape (n,)
            Task of each row.
        roles : ndarray of shape (n,)
            What each row may be drawn for, a sum of `LEARN`, `NORMAL` and `FAULT`.
        seed : int or sequence of int
            The same seed and labels give the same split.

        Returns
        -------
        Split
        """
        labels = _labels(X, task)
        rng = np.random.default_rng(seed)
        tasks = _with_roles(labels, roles, self.fewest_to_learn)
        if self.n_tasks is not None:
            if len(tasks) < self.n_tasks:
                raise ValueError(
                    f"The protocol needs {self.n_tasks} tasks; only {len(tasks)} have "
                    "enough rows."
                )
            tasks = np.sort(rng.permutation(tasks)[: self.n_tasks])
        drawn = [self.draw(np.flatnonzero(labels == t), roles, rng) for t in tasks]
        train = np.concatenate([rows for rows, _ in drawn])
        test = np.concatenate([rows for _, rows in drawn])
        fault = roles[test] & FAULT > 0
        return Split(train, labels[train], tasks, test, labels[test], fault)

    @abstractmethod
    def draw(
        self, rows: Codes, roles: NDArray[np.uint8], rng: np.random.Generator
    ) -> tuple[Codes, Codes]:
        """Training rows and test rows of the task that `rows` belong to."""


@dataclass(frozen=True)
class FaultProtocol(OwnRowsProtocol):
    """Rows of each task drawn at random.

    Parameters
    ----------
    n_train, n_tasks, n_test
        As in `OwnRowsProtocol`.
    n_normal, n_fault : int or None
        Normal and faulty test rows of each task, at most; None is all.
    contamination : float
        Share of the training rows of each task, at least one row, that are replaced by
        faults. Those faults are not tested with.
    """

    n_normal: int | None = None
    n_fault: int | None = None
    contamination: float = 0.0

    def draw(
        self, rows: Codes, roles: NDArray[np.uint8], rng: np.random.Generator
    ) -> tuple[Codes, Codes]:
        """Training rows and test rows of the task that `rows` belong to."""
        learn = rng.permutation(rows[roles[rows] & LEARN > 0])[: self.n_train]
        normal = rows[roles[rows] & NORMAL > 0]
        normal = rng.permutation(normal[~np.isin(normal, learn)])
        fault = rng.permutation(rows[roles[rows] & FAULT > 0])
        if self.contamination:
            number = max(1, round(self.contamination * len(learn)))
            learn = np.concatenate([learn[number:], fault[:number]])
            fault = fault[number:]
        test = np.concatenate([normal[: self.n_normal], fault[: self.n_fault]])
        if self.n_test is not None:
            test = rng.permutation(test)[: self.n_test]
        return learn, test


@dataclass(frozen=True)
class TimeProtocol(OwnRowsProtocol):
    """Rows in time: tasks learn from a stretch, and are tested with all later rows.

    Rows of a task are in the order of time. Each repetition draws a stretch of three
    quarters of the training time. Training rows, at most `n_train`, are evenly spaced
    over the stretch, and test rows over the time after it.
    """

    @property
    def fewest_to_learn(self) -> int:
        """Training rows that a task needs. Tasks with fewer are left out."""
        return _FEWEST_NORMAL

    def draw(
        self, rows: Codes, roles: NDArray[np.uint8], rng: np.random.Generator
    ) -> tuple[Codes, Codes]:
        """Training rows and test rows of the task that `rows` belong to."""
        learn = rows[roles[rows] & LEARN > 0]
        length = int(np.ceil(_DRAWN * len(learn)))
        begin = int(rng.integers(len(learn) - length + 1))
        train = _spaced(learn[begin : begin + length], self.n_train)
        is_tested = (roles[rows] & (NORMAL | FAULT) > 0) & (rows > train[-1])
        return train, _spaced(rows[is_tested], self.n_test)


AnyProtocol: TypeAlias = Protocol | FaultProtocol | TimeProtocol


def _with_roles(
    labels: Labels, roles: NDArray[np.uint8], fewest_to_learn: int
) -> Labels:
    """Tasks with rows enough to learn from and to be tested with."""
    tasks, codes = np.unique(labels, return_inverse=True)
    fewest = {LEARN: fewest_to_learn, NORMAL: _FEWEST_NORMAL, FAULT: _FEWEST_FAULT}
    enough = np.ones(len(tasks), dtype=bool)
    for role, least in fewest.items():
        counts = np.bincount(codes[roles & role > 0], minlength=len(tasks))
        enough &= counts >= least
    return tasks[enough]


def _spaced(rows: Codes, number: int | None) -> Codes:
    """At most `number` of the rows, evenly spaced."""
    if number is None or len(rows) <= number:
        return rows
    return rows[np.linspace(0, len(rows) - 1, number).astype(np.intp)]


def _labels(X: Sized, task: ArrayLike) -> Labels:
    labels = np.asarray(task)
    if len(labels) != len(X):
        raise ValueError(f"X has {len(X)} rows but task has {len(labels)} labels.")
    return labels
