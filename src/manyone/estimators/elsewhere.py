"""Rows that are not in memory: the engines are asked then, and only then imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np


def in_memory(X: Any) -> bool:
    """Whether rows are at hand: not in files, in Dask, or in blocks that a function yields."""
    if type(X) is np.ndarray:
        return True
    elsewhere = isinstance(X, np.memmap | str | os.PathLike | Iterator) or callable(X)
    return not elsewhere and type(X).__module__.partition(".")[0] != "dask"


def by_blocks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a scoring method take rows that are not in memory, one block after the other."""

    @wraps(method)
    def scored(self: Any, X: Any, **given: Any) -> Any:
        if in_memory(X):
            return method(self, X, **given)
        from manyone.engines.sources import scored_by_blocks

        return scored_by_blocks(method, self, X, given)

    return scored
