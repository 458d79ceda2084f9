"""How many threads BLAS gets."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def blas_for(size: int) -> Iterator[None]:
    """One BLAS thread while matrices are small: waking the others costs more than they do."""
    if size >= 512:
        yield
        return
    with _blas().limit(limits=1, user_api="blas"):
        yield
