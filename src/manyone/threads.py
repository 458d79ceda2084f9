"""Threads: limits for BLAS, and Python threads that work on blocks of rows.

NumPy and SciPy bring a BLAS each, and idle threads of one keep a core busy while the
other works. So passes give whole blocks of rows to Python threads, each with one BLAS
thread. Two threads run at the same time only while one releases the interpreter.
NumPy's products release it; SciPy's wrappers of BLAS and LAPACK do not.
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

# Threads that blocks may use; None: as many as BLAS may use now.
_threads: ContextVar[int | None] = ContextVar("threads", default=None)
#: Smallest size of matrices for which more than one BLAS thread pays.
LARGE = 512
# Columns of a block in a triangular solve.
_COLUMNS = 64


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _release_control() -> None:
    """Let any thread change the limits of BLAS.

    From version 3.8 on threadpoolctl obeys only the first thread that sets a limit. But
    another one may be the last to restore it.
    """
    for library in _controller().lib_controllers:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)


@dataclass
class _Limit:
    """How many use the limit of BLAS to one thread, and how to restore the former."""

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

    There is no limit for a large `size` of matrices: more threads pay there.
    """
    if size >= LARGE:
        yield
        return
    # The limit holds for the whole process. The first user sets it, and whoever leaves
    # last restores the former one.
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

    Every call has one BLAS thread, so the number of threads changes no bit of a result.
    At most one part more than there are threads is in work or done and not yet taken.
    A call inside of `work` uses no further threads.

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
    """Limit a BLAS on OpenMP, which has a limit for each Python thread."""
    _controller().select(threading_layer="openmp").limit(limits=1, user_api="blas")


def solve_lower(L: Array, K: Array) -> Array:
    """``L^-1 k`` of every row k of K (b, m), which may be overwritten.

    Forward substitution by blocks of columns, by products of NumPy, during which other
    threads can run. SciPy, which holds the interpreter, only inverts small diagonal
    blocks. Its solve with all of L would make threads wait for each other. Landmark
    fits take 5 to 12 % more processor time than with LAPACK called through ctypes.
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
