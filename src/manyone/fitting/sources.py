"""Sources of blocks: arrays, mapped files, Parquet files, functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from manyone._types import Labels
from manyone.data.blocks import Block, ChainedBlock, MakeBlock, claims_of
from manyone.data.rows import in_memory
from manyone.data.sweeps import AtHand, Sweep, local_sweep
from manyone.fitting.dask import (
    FittedMethod,
    chained_sweep,
    dask_sweep,
    is_dask,
    scored_lazily,
)

Method = TypeVar("Method", bound=Callable[..., Any])

# Rows of an array or a file that make one block.
_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class CalledBlocks:
    """Blocks that a function yields, called anew for every pass."""

    function: Callable[[], Iterable[object]]

    def __iter__(self) -> Iterator[Block]:
        """Call the function again."""
        for yielded in self.function():
            parts = yielded if isinstance(yielded, tuple) else (yielded,)
            yield yielded if isinstance(yielded, Block) else Block(*parts)


def _array_blocks(X: np.memmap, *roles: Labels | None) -> Iterator[Block]:
    """Rows (n, d) of a mapped file, and values for each, in blocks."""
    for start in range(0, X.shape[0], _ROWS):
        rows = slice(start, start + _ROWS)
        yield Block(X[rows], *(None if role is None else role[rows] for role in roles))


@dataclass(frozen=True, eq=False)
class ParquetBlocks:
    """Rows of Parquet files, batch by batch.

    Parameters
    ----------
    paths : list of Path
    task, outlier, weight : str or None
        Names of columns.
    """

    paths: list[Path]
    task: str | None = None
    outlier: str | None = None
    weight: str | None = None

    def __len__(self) -> int:
        """About the number of blocks, for progress bars."""
        pq = _parquet()
        rows = (pq.read_metadata(path).num_rows for path in self.paths)
        return sum(max(1, -(-number // _ROWS)) for number in rows)

    def __iter__(self) -> Iterator[Block]:
        """Start again with the first file."""
        pq = _parquet()
        import pyarrow as pa

        for path in self.paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS):
                    table = pa.Table.from_batches([batch])
                    weight = None
                    if self.weight is not None:
                        weight = table[self.weight].to_numpy()
                        table = table.drop_columns([self.weight])
                    yield Block(table, self.task, self.outlier, weight)


def _parquet() -> ModuleType:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(
            "Reading Parquet files needs pyarrow: pip install pyarrow."
        ) from error
    return pq


def blocks_of(
    X: object, task: object = None, outlier: object = None, weight: object = None
) -> Iterable[Block] | None:
    """Blocks of rows outside of memory, to iterate over repeatedly; else None.

    Parameters
    ----------
    X : object
        A memory-mapped array, the path of a Parquet file or of a folder of them, or a
        function that yields blocks: :class:`Block`, ``(X, task)`` or
        ``(X, task, outlier, weight)``.
    task, outlier, weight
        As in `fit`; for files, names of columns.

    Returns
    -------
    iterable of Block or None
    """
    if isinstance(X, np.memmap):
        roles = (task, outlier, weight)
        arrays = [None if role is None else np.asarray(role) for role in roles]
        return CalledBlocks(partial(_array_blocks, X, *arrays))
    if isinstance(X, str | os.PathLike):
        columns = (
            _column("task", task),
            _column("outlier", outlier),
            _column("sample_weight", weight),
        )
        return ParquetBlocks(_files(Path(X)), *columns)
    if isinstance(X, Iterator):
        raise ValueError(
            "X is an iterator, which can be read once, but a fit passes over the rows "
            "three times. Give a function that returns a new iterator each time it is "
            "called."
        )
    if callable(X):
        if not (task is None and outlier is None and weight is None):
            raise ValueError(
                "X is a function that yields blocks: let it yield (X, task) or "
                "(X, task, outlier, weight) instead of giving task=... beside it."
            )
        return CalledBlocks(X)
    return None


def _column(role: str, name: object) -> str | None:
    """The name of a column of a file; anything else is refused."""
    if name is None or isinstance(name, str):
        return name
    raise ValueError(f"X is a file: {role} must name its column; got {name!r:.60}.")


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise ValueError(
            f"{str(path)!r}: there is no such Parquet file, or none in that folder. "
            "Check the path, or give a data frame."
        )
    for file in files:
        with open(file, "rb") as stream:
            if stream.read(4) != b"PAR1":
                raise ValueError(
                    f"X: {file} is no Parquet file. Read it into a data frame first."
                )
    return files


def sweep_of(
    X: object, task: object = None, outlier: object = None, weight: object = None
) -> Sweep:
    """The source of rows, wherever they are; parameters as in :func:`blocks_of`."""
    if is_dask(X):
        return dask_sweep(X, task, outlier, weight)
    blocks = blocks_of(X, task, outlier, weight)
    if blocks is None:
        return AtHand(Block(X, task, outlier, weight).checked())
    return local_sweep(blocks)


def sweep_in_order(X: object, make: MakeBlock) -> Sweep:
    """A source of rows outside of memory, where each block needs the one before it.

    Parameters
    ----------
    X : path, function or Dask data frame
    make : callable
        ``make(block, before)`` returns the block that is passed over. `before` is what
        the one before it has as its `after`, None for the first.
    """
    if is_dask(X):
        return chained_sweep(X, make)
    blocks = blocks_of(X)
    if blocks is None:
        blocks = [Block(X)]
    return local_sweep(CalledBlocks(partial(_chained, blocks, make)))


def _chained(blocks: Iterable[Block], make: MakeBlock) -> Iterator[ChainedBlock]:
    """Blocks that are made one after the other, see `sweep_in_order`."""
    before = None
    for block in blocks:
        made = make(block, before)
        before = made.after
        yield made


def by_blocks(method: Method) -> Method:
    """A scoring method that also takes rows outside of memory, block by block."""

    @wraps(method)
    def scored(model: FittedMethod, X: object, **given: object) -> object:
        if in_memory(X):
            return method(model, X, **given)
        if is_dask(X):
            return scored_lazily(method, model, X, given)
        counted = "sample_weight" in given
        task = given.pop("task", None)
        blocks = blocks_of(X, task, None, given.pop("sample_weight", None))
        assert blocks is not None
        parts = [
            method(model, block.X, **claims_of(block, counted), **given)
            for block in blocks
        ]
        if not parts:
            parts.append(method(model, np.empty((0, model.n_features_in_)), **given))
        return np.concatenate(parts)

    return cast(Method, scored)
