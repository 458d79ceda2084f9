"""Large tables: read once, and of every task a limited number of rows is kept.

Rows are drawn by a hash of their content. Whatever their order, the blocks, files or
partitions they come in, and whoever reads them, the same rows are kept. The table is
then fitted by the code that fits any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from manyone._types import Codes, Mask
from manyone.data.blocks import AnyBlock
from manyone.data.rows import in_memory
from manyone.data.sweeps import Sweep, local_sweep
from manyone.fitting.sources import sweep_in_order, sweep_of
from manyone.messages import label_text, warn_user
from manyone.selection.costs import MOST_ROWS, rows_of_each_task
from manyone.tables.columns import interpreted
from manyone.tables.frames import WRITTEN, Table, as_table
from manyone.tables.past import (
    BlockWithPast,
    Compared,
    TablePast,
    TrainingPast,
    add_past,
)
from manyone.tables.training import TrainingTable, read_training

#: Most normal rows of a task that a model is fitted to, and most abnormal ones. More do
#: not make a better model (`benchmarks/bench_table_sample.py`). Of many large tasks
#: fewer rows are kept, see :func:`~manyone.selection.costs.rows_of_each_task`.
MOST_TASK_ROWS = 2_000
#: Most rows of a task whose rows are compared with earlier ones: rows that follow each
#: other are much alike, and each row has three times as many numbers
#: (`benchmarks/bench_history.py rows`).
MOST_ROWS_WITH_PAST = 500
# Rows of a frame that are read at a time.
_BLOCK_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Rows of a part of a table that were kept.

    Attributes
    ----------
    rows : TrainingTable
        Texts are texts, whatever they stand for.
    written : frozenset of str
        Columns whose texts may stand for numbers, dates or truths.
    """

    rows: TrainingTable
    written: frozenset[str]


@dataclass(frozen=True, eq=False)
class KeepRows:
    """The one pass over a table: what is kept of every part, and of two parts.

    Parameters
    ----------
    roles : dict
        Names of the columns for ``task``, ``time``, ``outlier`` and ``groups``.
    ignore : list of str
    """

    roles: dict[str, list[str]]
    ignore: Sequence[str]

    def partial(self, block: AnyBlock) -> KeptRows | None:
        """What is kept of one part; None where it has no rows."""
        frame = as_table(block.X)
        if not len(frame):
            return None
        rows = read_training(frame, self.roles, self.ignore)
        schema = frame.schema
        written = [name for name in rows.columns if schema[name] in WRITTEN]
        if isinstance(block, BlockWithPast) and block.made is not None:
            past = block.after
            assert isinstance(past, TablePast)
            columns = add_past(rows.columns, past, block.made)
            rows = replace(rows, columns=columns, past=past)
        return KeptRows(limited(rows), frozenset(written))

    def merge(self, first: KeptRows | None, second: KeptRows | None) -> KeptRows | None:
        """What is kept of two parts, of which the second follows the first."""
        if first is None or second is None:
            return second if first is None else first
        rows = limited(first.rows.joined(second.rows))
        return KeptRows(rows, first.written | second.written)


def kept_rows(
    table: Table,
    roles: dict[str, list[str]],
    ignore: Sequence[str],
    compared: Compared | None = None,
) -> TrainingTable:
    """Read a table once, wherever it is, and keep what a model is fitted to.

    Parameters
    ----------
    table : data frame, path, function or Dask data frame
        As in :meth:`manyone.TableModel.fit`.
    roles : dict
        Names of the columns for ``task``, ``time``, ``outlier`` and ``groups``.
    ignore : list of str
    compared : Compared or None
        What rows are compared with; None: they have no past.

    Returns
    -------
    TrainingTable
        In the order of the table, or of time where that is known.
    """
    step = KeepRows(roles, ignore)
    past = None if compared is None else TrainingPast(roles, ignore, compared)
    merged: KeptRows | None = _sweep(table, past)(step)
    if merged is None:
        raise ValueError("table has no rows.")
    rows = sampled(merged.rows)
    return replace(rows, columns=interpreted(rows.columns, sorted(merged.written)))


def _sweep(table: Table, past: TrainingPast | None) -> Sweep:
    """How to pass over a table, whose rows have a past or not."""
    if in_memory(table):
        frame = as_table(table)
        block = BlockWithPast(frame)
        if past is not None:
            # Rows at hand are put in the order of time, those of files have to be.
            block = past.block(block, None)
        # Some rows at a time: what is worked out of them stays small.
        starts = range(0, max(len(frame), 1), _BLOCK_ROWS)
        return local_sweep(
            [block.part(slice(start, start + _BLOCK_ROWS)) for start in starts]
        )
    if past is None:
        return sweep_of(table)
    return sweep_in_order(table, past.block)


def with_more_rows(rows: TrainingTable, more: TrainingTable) -> TrainingTable:
    """Rows that a model was fitted to and more, as far as the limits allow.

    The same rows are kept as of a table with all of them.

    Parameters
    ----------
    rows, more : TrainingTable
        With the same columns.
    """
    return sampled(rows.joined(more))


# ------------------------------------------------------------------------------- limits


def sampled(rows: TrainingTable) -> TrainingTable:
    """The rows that the limits allow, in their order."""
    return drawn_copies(limited(rows)).in_order()


def limited(rows: TrainingTable) -> TrainingTable:
    """Rows of which no task has more than it may.

    Of larger tasks the contents of lowest hash are kept, each once, with the number of
    its copies. Rows known to be abnormal count as a task of their own.
    """
    strata = rows.strata()
    quota = rows_per_task(rows)
    is_large = rows.totals > quota
    if not is_large.any():
        return rows
    order = np.lexsort((rows.numbers, rows.hashes, strata))
    order = order[is_large[order]]
    is_first = np.ones(len(order), dtype=bool)
    same_stratum = np.diff(strata[order]) == 0
    is_first[1:] = ~(same_stratum & (np.diff(rows.hashes[order]) == 0))
    starts = np.flatnonzero(is_first)
    firsts = order[starts]
    copies = rows.copies.copy()
    copies[firsts] = np.add.reduceat(rows.copies[order], starts)
    places = np.arange(len(firsts)) - np.searchsorted(strata[firsts], strata[firsts])
    chosen = firsts[places < quota]
    rows_kept = np.sort(np.concatenate([np.flatnonzero(~is_large), chosen]))
    return replace(rows, copies=copies).take(rows_kept)


def drawn_copies(rows: TrainingTable) -> TrainingTable:
    """Rows in which a content of a large task stands as often as its copies make it.

    Of the copies of all contents that were kept, in the order of their hashes, every
    m-th is drawn. So the task has as many rows as it may have. A content with more
    copies than that has its exact share.

    Parameters
    ----------
    rows : TrainingTable
        As `limited` returns them.
    """
    strata = rows.strata()
    quota = rows_per_task(rows)
    is_large = rows.totals > quota
    times = np.ones(len(strata), dtype=np.intp)
    for stratum in np.unique(strata[is_large]):
        places = np.flatnonzero(strata == stratum)
        places = places[np.argsort(rows.hashes[places], kind="stable")]
        total = int(rows.totals[places[0]])
        copies = rows.copies[places]
        is_frequent = copies * quota > total
        _warn_of_missed_copies(rows.take(places), is_frequent)
        if (copies == 1.0).all() and len(places) == quota:
            continue
        rare_copies = copies[~is_frequent].sum()
        shares = copies.copy()
        if rare_copies:
            shares[~is_frequent] *= (total - copies[is_frequent].sum()) / rare_copies
        reached = np.cumsum(shares)
        points = (np.arange(quota) + 0.5) * reached[-1] / quota
        drawn = np.searchsorted(reached, points, side="right")
        times[places] = np.bincount(drawn, minlength=len(places))
    copies = rows.copies / np.maximum(times, 1)
    return replace(rows, copies=copies).take(np.repeat(np.arange(len(times)), times))


def _warn_of_missed_copies(
    contents: TrainingTable, is_frequent: Mask, most: float = 0.25, fewest: int = 100
) -> None:
    """Warn where a task has many more rows than its contents explain.

    The largest of the m lowest hashes of N contents is about m / N of the largest
    possible one. This tells N, and with the copies of rare contents, how many rows the
    task should have.

    Parameters
    ----------
    contents : TrainingTable
        Those kept of one large task, in the order of their hashes.
    is_frequent : ndarray of bool of shape (n,)
        Which of them have so many copies that they count exactly.
    most : float
        Share of the rows that may be copies of rows outside of the sample.
    fewest : int
        Contents that this is estimated from: with a hundred it errs by a tenth.
    """
    is_rare = ~is_frequent
    number = int(is_rare.sum())
    if number < fewest:
        return
    total = int(contents.totals[0])
    reach = float(contents.hashes[-1]) / 2.0**64
    rare_rows = contents.copies[is_rare].mean() * number / reach
    missed = 1.0 - (rare_rows + contents.copies[is_frequent].sum()) / total
    if missed > most:
        task = label_text(contents.labels.tolist()[0])
        warn_user(
            f"Task {task}: about {missed:.0%} of its {total:,} rows are copies of rows "
            "that are not in the sample, and will raise alarms. Name a time column, "
            "which tells copies apart, or give fewer rows."
        )


def rows_per_task(rows: TrainingTable) -> int:
    """Most rows of a task that are kept of a table."""
    most = MOST_TASK_ROWS
    if rows.past is not None:
        most = min(most, MOST_ROWS_WITH_PAST)
    sizes = rows.totals[rows.firsts()]
    return quota_of(sizes, min(most, rows_of_each_task(sizes)))


def quota_of(sizes: Codes, most: int) -> int:
    """Rows to keep of a task, so that tasks of these sizes keep the limit."""
    if np.minimum(sizes, most).sum() <= MOST_ROWS:
        return most
    ascending = np.sort(sizes)
    smaller_rows = np.cumsum(ascending) - ascending
    shared = (MOST_ROWS - smaller_rows) // np.arange(len(ascending), 0, -1)
    return max(1, int(shared[np.argmax(shared < ascending)]))
