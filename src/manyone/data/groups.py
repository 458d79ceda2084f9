"""Rows that are left out together: groups that a user gives, or blocks of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Labels

if TYPE_CHECKING:
    from manyone.data.rows import TrainingRows

#: Code of a row whose task is missing (allowed for known outliers only).
MISSING = -1


@dataclass(frozen=True, eq=False)
class TimeBlocks:
    """Contiguous blocks of time inside each task; give it to `fit` as ``groups=``.

    Neighbours in time are near-copies of each other. To leave out one row of them is to
    leave out nothing.

    Parameters
    ----------
    time : array-like of shape (n,)
        When each row was taken: numbers, or NumPy datetimes.
    number : int, default=5
        Blocks of each task, of about equal size. Rows of the same time share a block.
    forward : bool or int, default=True
        True: each block is judged by earlier blocks of its task only, as tomorrow's
        rows will be. The first two of five blocks then have no left-out scores. In
        tasks with fewer than five blocks, each is judged by all others. A number: the
        same in tasks with fewer normal rows than that.

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
            Place of each row among the rows of the user.
        n_rows : int
            Number of rows of the user.

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
        # Rows of the same time share the place of the first of them.
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


def order_by_content(
    units: Codes, content: Codes, weight: Array, n_units: int
) -> Codes:
    """Units (u,) in the order of their rows' content, whatever their names.

    All rows count: tasks of yes and no share many.

    Parameters
    ----------
    units, content, weight : ndarray of shape (n,)
        Number of each row's unit, its content and count.
    n_units : int
    """
    n_contents = content.max(initial=0) + 1
    distinct, place = np.unique(units * n_contents + content, return_inverse=True)
    counts = np.bincount(place, weight)
    owner, content = np.divmod(distinct, n_contents)
    starts = np.searchsorted(owner, np.arange(1, n_units))
    contents = [part.tolist() for part in np.split(content, starts)]
    weights = [part.tolist() for part in np.split(counts, starts)]
    keys = [*zip(contents, weights, strict=True)]
    return np.array(sorted(range(n_units), key=keys.__getitem__), dtype=np.intp)


def group_numbers(labels: Codes, codes: Codes, content: Codes, weight: Array) -> Codes:
    """Number of each row's group, by the content of its rows, not by its name (n,).

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Code of each row's label. -1 is no label: the row is a group of its own.
    codes, content, weight : ndarray of shape (n,)
        Task, content and count of each row.
    """
    alone = labels < 0
    labels = np.where(alone, np.cumsum(alone) + labels.max(initial=0), labels)
    pairs = (codes + 1) * (labels.max() + 1) + labels
    _, first, group = np.unique(pairs, return_index=True, return_inverse=True)
    order = order_by_content(group, content, weight, len(first))
    order = order[np.argsort(codes[first[order]], kind="stable")]
    return np.argsort(order)[group]


def joined_groups(old: TrainingRows, new: TrainingRows) -> Codes | None:
    """Groups of old and new rows together; None where neither has groups.

    Old rows without groups are groups of one row each. New rows without groups are one
    group for each task.
    """
    if old.group is None and new.group is None:
        return None
    was = np.arange(len(old.codes)) if old.group is None else old.group
    more = new.codes + 1 if new.group is None else new.group
    return np.concatenate([was, was.max(initial=-1) + 1 + more])


class LeftOut(NamedTuple):
    """Rows that are left out together.

    Attributes
    ----------
    gone : ndarray of shape (k,)
        Their numbers.
    judged : ndarray of bool of shape (k,)
        Which of them are scored by the model without all of them.
    """

    gone: Codes
    judged: NDArray[np.bool_]


def leaving_together(
    rows: TrainingRows, has_earlier: NDArray[np.bool_] | None = None
) -> list[LeftOut]:
    """What is left out with each group of rows; nothing of tasks with one group.

    Parameters
    ----------
    rows : TrainingRows
    has_earlier : ndarray of bool of shape (T,) or None
        Tasks that have earlier groups, whose rows are not among these.

    Returns
    -------
    list of LeftOut
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
    """Which rows are left out, and with which others.

    Attributes
    ----------
    codes, group : ndarray of shape (n,)
        Task and group of each row.
    leaves : ndarray of bool of shape (n,)
        Rows that are left out with their group.
    ahead : ndarray of bool of shape (n,)
        Rows that are left out with all later groups of their task, too.
    """

    codes: Codes
    group: Codes
    leaves: NDArray[np.bool_]
    ahead: NDArray[np.bool_]

    def neighbours(self, rows: Codes, codes: Codes, group: Codes) -> NDArray[np.bool_]:
        """Which other rows are left out with each of these rows.

        Parameters
        ----------
        rows : ndarray of shape (k,)
            Numbers of rows.
        codes, group : ndarray of shape (m,)
            Tasks and groups of the others.

        Returns
        -------
        ndarray of bool of shape (k, m)
        """
        own_group = self.group[rows, None]
        together = own_group == group
        if self.ahead.any():
            later = (self.codes[rows, None] == codes) & (own_group < group)
            together |= later & self.ahead[rows, None]
        # If all others were left out, there would be no distance to anything.
        leaves = self.leaves[rows] & ~together.all(axis=1)
        return together & leaves[:, None]


def leaving_rows(rows: TrainingRows) -> LeavingRows:
    """What is left out with each row.

    The only group of a task stays, and so do the first blocks in time.
    """
    assert rows.group is not None
    codes = rows.codes
    group = rows.group
    normal = ~rows.outlier
    low, high = np.full((2, rows.n_tasks), -1)
    low[codes[normal]] = high[codes[normal]] = group[normal]
    np.minimum.at(low, codes[normal], group[normal])
    np.maximum.at(high, codes[normal], group[normal])
    leaves = (low < high)[codes]
    ahead = np.zeros(len(codes), dtype=bool)
    if rows.forward:
        ahead = looks_ahead(rows)[codes]
        groups = np.unique(group[normal])
        first, last = np.searchsorted(groups, (low, high))
        begin = first + first_judged(last - first + 1)
        leaves &= ~ahead | (np.searchsorted(groups, group) >= begin[codes])
    return LeavingRows(codes, group, leaves, ahead)


def first_judged(blocks: int | Codes) -> Codes:
    """Number of the first block that earlier blocks are enough to judge."""
    # Two of five blocks have too few rows before them.
    return np.maximum(1, 0.4 * np.asarray(blocks)).astype(np.intp)


def looks_ahead(rows: TrainingRows) -> NDArray[np.bool_]:
    """Which tasks are judged by earlier blocks only, shape (T,)."""
    assert rows.group is not None
    normal = ~rows.outlier
    pairs = np.unique(np.column_stack([rows.codes[normal], rows.group[normal]]), axis=0)
    blocks = np.bincount(pairs[:, 0], minlength=rows.n_tasks)
    weight = np.bincount(rows.codes[normal], rows.weight[normal], rows.n_tasks)
    # With fewer than five blocks, each has too few rows before it.
    enough: NDArray[np.bool_] = (blocks >= 5) & (weight >= rows.forward)
    return enough & bool(rows.forward)
