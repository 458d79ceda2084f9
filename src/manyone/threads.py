"""Threads: how many BLAS gets, and blocks of rows on Python's own.

NumPy and SciPy bring a BLAS each, and the idle threads of one keep a core busy while
the other works. So a pass gives whole blocks of rows to Python threads, each with one
BLAS thread. Blocks are worked on at the same time only while they release the
interpreter. NumPy's products do so; SciPy's wrappers of BLAS and LAPACK do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from threading import Lock
from typing import TypeVar

import numpy as np
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from manyone._types import Array

Part = TypeVar("Part")
Result = TypeVar("Result")

# Threads that blocks may use, where that is not what BLAS may use now.
_threads: ContextVar[int | None] = ContextVar("threads", default=None)
#: Size of matrices from which all threads of BLAS pay.
LARGE = 512
# Columns that a triangular solve takes at a time.
_COLUMNS = 64


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _release_control() -> None:
    """Let any thread change the limits of BLAS.

    From version 3.8 on threadpoolctl ignores all threads but the first that asks, which
    need not be the last that leaves.
    """
    for library in _controller().lib_controllers:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)


@dataclass
class _Limit:
    """Who uses the limit of BLAS to one thread, and how to restore what was there."""

    lock: Lock = field(default_factory=Lock)
    users: int = 0
    restore: Callable[[], None] | None = None


_one_thread = _Limit()


def blas_threads() -> int:
    """Threads that BLAS may use now."""
    pools = _controller().select(user_api="blas").info()
    return max([1, *(int(pool["num_threads"]) for pool in pools)])


@contextmanager
def one_blas_thread(size: int = 0) -> Iterator[None]:
    """Limit BLAS to one thread until the last user of the limit has left.

    Matrices of a large `size` are not limited: there all threads pay.
    """
    if size >= LARGE:
        yield
        return
    # The number of threads belongs to the process. The first user sets the limit, and
    # the last one restores what was there, whichever of them leaves first.
    with _one_thread.lock:
        if _one_thread.users == 0:
            _release_control()
            limit = _controller().limit(limits=1, user_api="blas")
            _release_control()
            _one_thread.restore = limit.restore_original_limits
        _one_thread.users += 1
    try:
        yield
    finally:
        with _one_thread.lock:
            _one_thread.users -= 1
            if _one_thread.users == 0 and _one_thread.restore is not None:
                _release_control()
                _one_thread.restore()
                _release_control()


@contextmanager
def threads_for_blocks() -> Iterator[None]:
    """Limit BLAS to one thread, and let `on_threads` use as many as BLAS had before."""
    token = _threads.set(_threads.get() or blas_threads())
    try:
        with one_blas_thread():
            yield
    finally:
        _threads.reset(token)


def on_threads(
    work: Callable[[Part], Result], parts: Iterable[Part]
) -> Iterator[Result]:
    """``work(part)`` of each part, in their order, on as many threads as BLAS may use.

    Every call has one BLAS thread, however many there are: equal parts give equal
    results to the last bit. At most one part more than there are threads is worked on
    or waits to be taken. Parts of parts are not spread any further.

    Parameters
    ----------
    work : callable
    parts : iterable

    Yields
    ------
    object
    """
    parts = iter(parts)
    first = list(islice(parts, 2))
    threads = _threads.get() or blas_threads()
    with one_blas_thread():
        if threads == 1 or len(first) < 2:
            yield from map(work, chain(first, parts))
            return
        pool = ThreadPoolExecutor(threads, initializer=_one_omp_thread)
        waiting: deque[Future[Result]] = deque()
        try:
            for part in chain(first, parts):
                waiting.append(
                    pool.submit(copy_context().run, _without_threads, work, part)
                )
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _without_threads(work: Callable[[Part], Result], part: Part) -> Result:
    _threads.set(1)
    return work(part)


def _one_omp_thread() -> None:
    """Limit a BLAS that counts threads separately for each thread that calls it."""
    _controller().select(threading_layer="openmp").limit(limits=1, user_api="blas")


def solve_lower(L: Array, K: Array) -> Array:
    """``L^-1 k`` of every row k of K (b, m), which may be overwritten.

    Forward substitution by blocks of columns, as products of NumPy: other threads go on
    meanwhile. SciPy, which holds the interpreter, only inverts small diagonal blocks;
    its solve with all of L would make threads take turns. A landmark fit takes 5 to 12
    % more processor time than with LAPACK called past the interpreter.
    """
    X = np.ascontiguousarray(K)
    for start in range(0, len(L), _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        corner = L[columns, columns]
        inverse = solve_triangular(
            corner, np.eye(len(corner)), lower=True, check_finite=False
        )
        X[:, columns] -= X[:, :start] @ L[columns, :start].T
        X[:, columns] = X[:, columns] @ inverse.T
    return X
