"""Where blocks come from: arrays, memory-mapped files, Parquet files, functions that yield them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyone.data.blocks import Block
from manyone.data.rows import in_memory
from manyone.fitting.passes import (
    Sweep,
    local_sweep,
    refuse_whole_rows,
    why_whole_rows,
)

# Rows of an array or a file that make one block.
_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """Rows in a file that is mapped into memory, cut into blocks."""

    whole: Block

    def __iter__(self) -> Iterator[Block]:
        """Start again with the first block."""
        for start in range(0, self.whole.X.shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            parts = (self.whole.task, self.whole.outlier, self.whole.weight)
            yield Block(
                self.whole.X[rows], *(None if p is None else p[rows] for p in parts)
            )


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


def _parquet() -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(
            "Reading Parquet files needs pyarrow: pip install pyarrow."
        ) from error
    return pq


@dataclass(frozen=True, eq=False)
class CalledBlocks:
    """Blocks that a function yields, called anew for every pass."""

    function: Callable[[], Iterable[Any]]

    def __iter__(self) -> Iterator[Block]:
        """Call the function again."""
        for given in self.function():
            parts = given if isinstance(given, tuple) else (given,)
            yield given if isinstance(given, Block) else Block(*parts)


def blocks_of(X: Any, task: Any = None, outlier: Any = None, weight: Any = None) -> Any:
    """Blocks of rows that are not in memory, to be iterated over again and again; None if they are.

    Parameters
    ----------
    X : object
        A memory-mapped array, the path of a Parquet file or of a folder of them, or a function that
        yields blocks: :class:`Block`, ``(X, task)`` or ``(X, task, outlier, weight)``.
    task, outlier, weight
        As in `fit`; for files, names of columns.

    Returns
    -------
    iterable of Block or None
    """
    if isinstance(X, np.memmap):
        given = [
            part if part is None else np.asarray(part)
            for part in (task, outlier, weight)
        ]
        return ArrayBlocks(Block(X, *given))
    if isinstance(X, str | os.PathLike):
        for name, value in (
            ("task", task),
            ("outlier", outlier),
            ("sample_weight", weight),
        ):
            if not (value is None or isinstance(value, str)):
                raise ValueError(
                    f"X is a file: {name} must name its column; got {value!r:.60}."
                )
        return ParquetBlocks(_files(Path(X)), task, outlier, weight)
    if isinstance(X, Iterator):
        raise ValueError(
            "X is an iterator, which can be read once, but a fit passes over the rows three times. "
            "Give a function that returns a new iterator each time it is called."
        )
    if callable(X):
        if not (task is None and outlier is None and weight is None):
            raise ValueError(
                "X is a function that yields blocks: let it yield (X, task) or "
                "(X, task, outlier, weight) instead of giving task=... beside it."
            )
        return CalledBlocks(X)
    return None


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise ValueError(
            f"X={str(path)!r}: there is no such Parquet file, or none in that folder."
        )
    for file in files:
        with open(file, "rb") as stream:
            if stream.read(4) != b"PAR1":
                raise ValueError(
                    f"X: {file} is no Parquet file. Read it into a data frame first."
                )
    return files


def sweep_of(
    X: Any, task: Any = None, outlier: Any = None, weight: Any = None
) -> Sweep:
    """How to pass over rows, wherever they are; see :func:`blocks_of` for what is given."""
    if is_dask(X):
        from manyone.fitting.dask import dask_sweep

        return dask_sweep(X, task, outlier, weight)
    blocks = blocks_of(X, task, outlier, weight)
    return local_sweep(
        [Block(X, task, outlier, weight).checked()] if blocks is None else blocks
    )


def sweep_over(
    model: Any, X: Any, task: Any, outlier: Any, sample_weight: Any, groups: Any
) -> Sweep | None:
    """How to pass over the rows that an estimator is given; None: it wants them all at once."""
    # A memory-mapped array can be read whole by a model without landmarks.
    mapped = isinstance(X, np.memmap) and model.landmarks is None
    at_hand = mapped or in_memory(X)
    if at_hand and why_whole_rows(model, groups):
        return None
    sweep = sweep_of(X, task, outlier, sample_weight)
    if not at_hand:
        refuse_whole_rows(model, groups)
    return sweep


def scored_by_blocks(
    method: Callable[..., Any], model: Any, X: Any, given: dict[str, Any]
) -> Any:
    """What a scoring method says of rows that are not in memory, block by block."""
    if is_dask(X):
        from manyone.fitting.dask import scored_lazily

        return scored_lazily(method, model, X, given)
    counted = "sample_weight" in given
    task = given.pop("task", None)
    blocks = blocks_of(X, task, None, given.pop("sample_weight", None))
    parts = []
    for block in blocks:
        parts.append(method(model, block.X, **claims_of(block, counted), **given))
    if not parts:
        parts.append(method(model, np.empty((0, model.n_features_in_)), **given))
    return np.concatenate(parts)


def claims_of(block: Block, counted: bool) -> dict[str, Any]:
    """What a scoring method is told of a block; counts only where it asks for them."""
    claims = {} if block.task is None else {"task": block.task}
    if counted:
        if block.outlier is not None:
            raise ValueError(
                "X is to hold normal rows only: yield no known outliers with its blocks."
            )
        claims["sample_weight"] = block.weight
    return claims


def is_dask(X: Any) -> bool:
    """Whether rows are a Dask array or data frame; Dask is not imported to tell."""
    return type(X).__module__.partition(".")[0] == "dask"
