"""Rows that are left out together: groups of the user, or blocks of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyone._types import Codes, Labels

if TYPE_CHECKING:
    from manyone.data.rows import TrainingRows

#: Code of a row whose task is missing (allowed for known outliers only).
MISSING = -1
# With fewer blocks of a task, earlier ones alone are too few rows to judge later ones
# by.
_ENOUGH_BLOCKS = 5
# Share of the blocks of such a task that are not judged, as too few rows come before
# them.
_UNJUDGED = 0.4


@dataclass(frozen=True, eq=False)
class TimeBlocks:
    """Contiguous blocks of time inside each task; give it to `fit` as ``groups=``.

    Neighbours in time are near-copies of each other: leaving out one of them leaves out
    nothing.

    Parameters
    ----------
    time : array-like of shape (n,)
        When each row was taken: numbers, or NumPy datetimes.
    number : int, default=5
        Blocks of each task, of about as many rows each; rows of the same time share
        one.
    forward : bool or int, default=True
        Judge each block by earlier ones of its task only, as tomorrow's rows will be;
        the first two of five have no left-out score then. Tasks with fewer than five
        blocks are judged by all others, and so are, if this is a number, tasks with
        fewer normal rows than that.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import JointOCKSR, TimeBlocks
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(100, 3)), axis=0)
    >>> model = JointOCKSR(alarm_rate=0.1).fit(X, groups=TimeBlocks(np.arange(100)))
    >>> len(model.calibration_.scores)
    60
    """

    time: object
    number: int = 5
    forward: bool | int = True

    def places(self, codes: Codes, source: Codes, n_rows: int) -> tuple[Codes, Codes]:
        """Block of each row, and its place in time among the rows of its task.

        Parameters
        ----------
        codes : ndarray of shape (m,)
            Task of each row that is used.
        source : ndarray of shape (m,)
            Where it stood among the rows that were given.
        n_rows : int
            How many were given.

        Returns
        -------
        block, place : ndarray of shape (m,)
        """
        if not self.number >= 2:
            raise ValueError(
                f"number of time blocks must be at least 2; got {self.number!r}."
            )
        time = as_times(self.time, n_rows)[source]
        order = np.lexsort((time, codes))
        codes = codes[order]
        time = time[order]
        starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
        counts = np.diff(starts, append=len(codes))
        place = np.arange(len(codes)) - np.repeat(starts, counts)
        # Rows of one time stand where the first of them stands.
        first = (np.diff(time, prepend=time[0]) != 0) | (place == 0)
        place = place[np.maximum.accumulate(np.where(first, np.arange(len(codes)), 0))]
        block = codes * self.number + place * self.number // np.repeat(counts, counts)
        back = np.argsort(order)
        return block[back], place[back]


def as_times(time: object, n_rows: int) -> Labels:
    """Times as numbers that can be compared, shape (n_rows,)."""
    values = np.asarray(time)
    if values.shape != (n_rows,):
        raise ValueError(
            f"time must be one value per row, {n_rows}; got shape {values.shape}."
        )
    if values.dtype.kind in "mM":
        missing = np.isnat(values)
        numbers = values.astype(np.int64)
    elif values.dtype.kind in "iufb":
        missing = ~np.isfinite(values)
        numbers = values
    else:
        raise ValueError(
            f"time must be numbers or NumPy datetimes; got {values.dtype}. "
            "Parse it first, for example with pandas.to_datetime(...).to_numpy()."
        )
    if missing.any():
        raise ValueError(
            f"time is missing in row {int(np.argmax(missing))}: fill it, or drop it."
        )
    return numbers


def group_numbers(labels: Codes, codes: Codes, content: Codes) -> Codes:
    """A number for each group of a task, whatever groups are called, shape (n,).

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Code of each row's label; -1 for none: such a row is a group of its own.
    codes, content : ndarray of shape (n,)
        Task and content of each row.
    """
    alone = labels < 0
    labels = np.where(alone, np.cumsum(alone) + labels.max(initial=0), labels)
    pairs = (codes + 1) * (labels.max() + 1) + labels
    order = np.lexsort((content, pairs))
    parts = np.split(order, np.flatnonzero(np.diff(pairs[order])) + 1)
    # In the order of what is in them.
    parts.sort(key=lambda rows: (int(codes[rows[0]]), content[rows].tolist()))
    numbers = np.empty(len(codes), dtype=np.intp)
    numbers[np.concatenate(parts)] = np.repeat(
        np.arange(len(parts)), list(map(len, parts))
    )
    return numbers


def joined_groups(old: TrainingRows, new: TrainingRows) -> Codes | None:
    """Groups of rows that came together; the others are one group of their task."""
    if old.group is None and new.group is None:
        return None
    was = np.arange(len(old.codes)) if old.group is None else old.group
    more = new.codes + 1 if new.group is None else new.group
    return np.concatenate([was, was.max(initial=-1) + 1 + more])


class LeftOut(NamedTuple):
    """Rows that leave a task together, and which of them (a mask) are then scored."""

    gone: Codes
    judged: NDArray[np.bool_]


def leaving_together(
    rows: TrainingRows, has_earlier: NDArray[np.bool_] | None = None
) -> list[LeftOut]:
    """Rows that leave with each group; none for tasks of one group, which stays.

    `has_earlier` (T,) are tasks that have earlier groups, which are not among the rows.
    """
    assert rows.group is not None
    if has_earlier is None:
        has_earlier = np.zeros(rows.n_tasks, dtype=bool)
    leaving = []
    ahead = looks_ahead(rows) | (has_earlier & bool(rows.forward))
    normal = np.flatnonzero(~rows.outlier)
    order = normal[np.lexsort((rows.group[normal], rows.codes[normal]))]
    for task_rows in np.split(order, np.flatnonzero(np.diff(rows.codes[order])) + 1):
        groups = rows.group[task_rows]
        starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
        ends = np.append(starts[1:], len(task_rows))
        task = rows.codes[task_rows[0]]
        if len(starts) == 1 and not has_earlier[task]:
            continue
        if ahead[task]:
            first = 0 if has_earlier[task] else int(first_judged(len(starts)))
            for start, end in zip(starts[first:], ends[first:], strict=True):
                leaving.append(
                    LeftOut(
                        task_rows[start:],
                        np.arange(len(task_rows) - start) < end - start,
                    )
                )
        else:
            for start, end in zip(starts, ends, strict=True):
                leaving.append(
                    LeftOut(task_rows[start:end], np.ones(end - start, dtype=bool))
                )
    return leaving


class LeavingRows(NamedTuple):
    """Rows that leave with their group, and those that leave with all later ones.

    Attributes
    ----------
    codes, group : ndarray of shape (n,)
        Task and group of each row.
    leaves, ahead : ndarray of bool of shape (n,)
    """

    codes: Codes
    group: Codes
    leaves: NDArray[np.bool_]
    ahead: NDArray[np.bool_]

    def neighbours(self, some: Codes, codes: Codes, group: Codes) -> NDArray[np.bool_]:
        """Mask (k, m): rows of these tasks and groups that leave with each of k rows."""
        own_group = self.group[some, None]
        together = own_group == group
        if self.ahead.any():
            later = (self.codes[some, None] == codes) & (own_group < group)
            together |= later & self.ahead[some, None]
        # Of few others all may leave: then nobody is left to be far from.
        leaves = self.leaves[some] & ~together.all(axis=1)
        return together & leaves[:, None]


def leaving_rows(rows: TrainingRows) -> LeavingRows:
    """Rows of tasks of several groups, but for the first group in time."""
    assert rows.group is not None
    codes = rows.codes
    group = rows.group
    normal = ~rows.outlier
    low, high = np.full((2, rows.n_tasks), -1)
    low[codes[normal]] = high[codes[normal]] = group[normal]
    np.minimum.at(low, codes[normal], group[normal])
    np.maximum.at(high, codes[normal], group[normal])
    leaves = (low < high)[codes]  # the only group of a task stays
    ahead = np.zeros(len(codes), dtype=bool)
    if rows.forward:
        ahead = looks_ahead(rows)[codes]
        groups = np.unique(group[normal])
        first, last = np.searchsorted(groups, (low, high))
        begin = first + first_judged(last - first + 1)
        # And so do the first blocks.
        leaves &= ~ahead | (np.searchsorted(groups, group) >= begin[codes])
    return LeavingRows(codes, group, leaves, ahead)


def first_judged(blocks: int | Codes) -> Codes:
    """Number of the first block that the blocks before it judge."""
    return np.maximum(1, _UNJUDGED * np.asarray(blocks)).astype(np.intp)


def looks_ahead(rows: TrainingRows) -> NDArray[np.bool_]:
    """Which tasks are judged by earlier blocks only, shape (T,)."""
    assert rows.group is not None
    normal = ~rows.outlier
    pairs = np.unique(np.column_stack([rows.codes[normal], rows.group[normal]]), axis=0)
    blocks = np.bincount(pairs[:, 0], minlength=rows.n_tasks)
    weight = np.bincount(rows.codes[normal], rows.weight[normal], rows.n_tasks)
    enough: NDArray[np.bool_] = (blocks >= _ENOUGH_BLOCKS) & (weight >= rows.forward)
    return enough & bool(rows.forward)
