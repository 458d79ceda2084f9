"""Where blocks come from: arrays, memory-mapped files, Parquet files, functions that yield them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from manyone.engines.blocks import Block, CheckedBlock
from manyone.engines.fitting import Sweep, local_sweep
from manyone.kernels.kernel import VALUES_ONLY

# Rows of an array that make one block.
_ROWS = 2**16


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """Rows in memory, or in a file that is mapped into it, cut into blocks."""

    whole: CheckedBlock

    def __iter__(self) -> Iterator[Block]:
        """Start again with the first block."""
        for start in range(0, self.whole.X.shape[0], _ROWS):
            yield self.whole.take(slice(start, start + _ROWS))


def sweep_over(
    model: Any, X: Any, task: Any, outlier: Any, sample_weight: Any, groups: Any
) -> Sweep | None:
    """How to pass over the rows that an estimator is given; None: it wants them all at once."""
    by_blocks = getattr(model, "landmarks", None) is not None and model.can.blocks
    if not by_blocks or model.kernel in VALUES_ONLY or model.metric != "plain":
        return None
    if groups is not None:  # rows of a group may be in many blocks
        return None
    return local_sweep(ArrayBlocks(Block(X, task, outlier, sample_weight).checked()))
