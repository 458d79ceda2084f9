"""Passes over rows, wherever they are.

A sweep is a function ``sweep(step)``. It calls ``step.partial(block)`` for every block,
and merges the results of neighbours by ``step.merge``. Steps and their results can be
pickled, and do not grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from functools import reduce
from typing import Generic, Protocol, TypeVar

import numpy as np

from manyone._types import Labels
from manyone.data.blocks import AnyBlock, CheckedBlock
from manyone.data.hashing import row_hashes
from manyone.data.rows import CodedRows, TrainingRows, number_of
from manyone.progress import counted

Part = TypeVar("Part")


class Step(Protocol[Part]):
    """One pass over all blocks."""

    def partial(self, block: AnyBlock, /) -> Part:
        """The result of one block."""

    def merge(self, first: Part, second: Part, /) -> Part:
        """The result of two sets of blocks; `second` follows `first`."""


class RowsStep(Protocol[Part]):
    """One pass over all rows, whose tasks are known by number."""

    def of(self, rows: CodedRows) -> Part:
        """The result of one set of rows."""

    def merge(self, first: Part, second: Part, /) -> Part:
        """The result of two sets of rows; `second` follows `first`."""


class Sweep(Protocol):
    """Runs one pass over all blocks."""

    def __call__(self, step: Step[Part]) -> Part:
        """The result of all blocks."""


@dataclass(frozen=True, eq=False)
class _OnBlocks(Generic[Part]):
    """A step over rows, as a step over blocks."""

    step: RowsStep[Part]
    tasks: Labels

    def partial(self, block: AnyBlock) -> Part:
        """See :class:`Step`."""
        return self.step.of(block.checked().coded(self.tasks))

    def merge(self, first: Part, second: Part) -> Part:
        """See :class:`Step`."""
        return self.step.merge(first, second)


@dataclass(frozen=True, eq=False)
class Source:
    """Rows, wherever they are, whose tasks are known from a first pass.

    Parameters
    ----------
    sweep : callable
    tasks : ndarray of shape (T,)
        Labels, sorted.
    """

    sweep: Sweep
    tasks: Labels

    def reduce(self, step: RowsStep[Part]) -> Part:
        """The result of all rows."""
        return self.sweep(_OnBlocks(step, self.tasks))


def local_sweep(blocks: Iterable[AnyBlock]) -> Sweep:
    """One block after the other, in this process.

    Parameters
    ----------
    blocks : iterable of Block
        Every pass iterates over it.

    Returns
    -------
    callable
    """

    def sweep(step: Step[Part]) -> Part:
        each = counted(blocks) if isinstance(blocks, Sized) else blocks
        parts = map(step.partial, each)
        try:
            first = next(parts)
        except StopIteration:
            raise ValueError("There is no block of rows: give at least one.") from None
        return reduce(step.merge, parts, first)

    return sweep


@dataclass(frozen=True)
class Seen:
    """Number of rows of a pass, and the sum of their hashes in any order."""

    n_rows: int
    hashes: int

    def __add__(self, other: Seen) -> Seen:
        """Number and hashes of both."""
        return Seen(self.n_rows + other.n_rows, (self.hashes + other.hashes) % 2**64)


@dataclass(frozen=True)
class _Watched(Generic[Part]):
    """A step that also tells which rows it has seen; None: no rows."""

    step: Step[Part]

    def partial(self, block: AnyBlock) -> tuple[Seen, Part] | None:
        """See :class:`Step`."""
        if number_of(block.X) == 0:
            return None
        checked = block.checked()
        X = checked.rows.X
        hashes = int(row_hashes(X).sum(dtype=np.uint64))
        return Seen(X.shape[0], hashes), self.step.partial(checked)

    def merge(
        self, first: tuple[Seen, Part] | None, second: tuple[Seen, Part] | None
    ) -> tuple[Seen, Part] | None:
        """See :class:`Step`."""
        if first is None:
            return second
        if second is None:
            return first
        return first[0] + second[0], self.step.merge(first[1], second[1])


class SteadySweep:
    """Passes that must all see the same rows; an error says when rows have changed.

    Parameters
    ----------
    sweep : callable
        Runs a pass.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._first: Seen | None = None

    def __call__(self, step: Step[Part]) -> Part:
        """Run a pass, and compare its rows with those of the first pass."""
        merged = self._sweep(_Watched(step))
        if merged is None:
            raise ValueError("No block has a row: give at least one row.")
        seen, result = merged
        first = seen if self._first is None else self._first
        self._first = first
        if seen == first:
            return result
        change = (
            f"the first pass saw {first.n_rows:,} rows, a later one {seen.n_rows:,}"
        )
        if seen.n_rows == first.n_rows:
            change = f"two passes saw {seen.n_rows:,} rows of different values"
        raise ValueError(
            f"The rows of X changed during the fit: {change}. A function must yield "
            "the same rows whenever it is called; write rows that are random, or still "
            "arrive, to a file first."
        )


@dataclass(frozen=True, eq=False)
class AtHand:
    """Passes over rows in memory, which are one block.

    Parameters
    ----------
    block : CheckedBlock
    """

    block: CheckedBlock

    def __call__(self, step: Step[Part]) -> Part:
        """Run a pass."""
        return step.partial(self.block)


def training_rows_of(sweep: Sweep) -> TrainingRows | None:
    """The rows of a fit, where a sweep goes over rows in memory; else None."""
    rows = sweep.block.rows if isinstance(sweep, AtHand) else None
    return rows if isinstance(rows, TrainingRows) else None


def steady(sweep: Sweep) -> Sweep:
    """Passes that notice when rows change."""
    watched = isinstance(sweep, SteadySweep | AtHand)
    return sweep if watched else SteadySweep(sweep)
