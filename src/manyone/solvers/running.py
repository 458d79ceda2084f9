"""How iterations run: the threads that BLAS gets, and who is told of the objective."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Called with the number of the iteration and the objective there.
Report = Callable[[int, float], None]


def record(path: list[float], value: float, report: Report | None) -> None:
    """Append the objective of an accepted iterate, and report it."""
    path.append(value)
    if report is not None:
        report(len(path) - 1, value)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def blas_threads() -> int:
    """Threads that BLAS may use now."""
    threads = 1
    for pool in _controller().select(user_api="blas").info():
        threads = max(threads, int(pool["num_threads"]))
    return threads


def one_blas_thread() -> AbstractContextManager[Any]:
    """A block in which BLAS uses one thread."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


def blas_for(size: int) -> AbstractContextManager[Any]:
    """One BLAS thread while matrices are small: waking the others costs more than they do."""
    return nullcontext() if size >= 512 else one_blas_thread()
