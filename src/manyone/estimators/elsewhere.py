"""Rows that are not in memory: the engines are asked then, and only then imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from manyone.data.rows import in_memory
from manyone.fitting.sources import scored_by_blocks

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Let a scoring method take rows that are not in memory, one block after the other."""

    @wraps(method)
    def scored(self: Any, X: object, **given: object) -> Any:
        if in_memory(X):
            return method(self, X, **given)
        return scored_by_blocks(method, self, X, given)

    return cast(Method, scored)
