"""How many threads BLAS gets."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def blas_threads() -> int:
    """Threads that BLAS may use now."""
    pools = _controller().select(user_api="blas").info()
    return max((int(pool["num_threads"]) for pool in pools), default=1)


def one_blas_thread() -> AbstractContextManager[Any]:
    """A block in which BLAS uses one thread."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@contextmanager
def blas_for(size: int) -> Iterator[None]:
    """One BLAS thread while matrices are small: waking the others costs more than they do."""
    if size >= 512:
        yield
        return
    with one_blas_thread():
        yield
