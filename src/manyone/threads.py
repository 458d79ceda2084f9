"""Threads that BLAS gets, and Python's own, on which blocks of rows are worked on side by side.

NumPy and SciPy bring a BLAS each, and the threads of one wait, busily, while the other works. So a
pass gives whole blocks to Python threads, each with one BLAS thread. Work runs side by side where
it lets go of the interpreter: NumPy does, SciPy's wrappers of BLAS and LAPACK do not, which is why
three of these functions are called by their address here.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import chain, islice
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from scipy.linalg import cython_blas, cython_lapack
from threadpoolctl import ThreadpoolController

from manyone._types import Array

Part = TypeVar("Part")
Found = TypeVar("Found")

# Threads that blocks may use, where that is not what BLAS may use now.
_threads: ContextVar[int | None] = ContextVar("threads", default=None)
_limited = Lock()
# Size of matrices from which all threads of BLAS pay.
_LARGE = 512


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def blas_threads() -> int:
    """Threads that BLAS may use now."""
    pools = _controller().select(user_api="blas").info()
    return max([1, *(int(pool["num_threads"]) for pool in pools)])


@contextmanager
def one_blas_thread(size: int = 0) -> Iterator[None]:
    """A block in which BLAS uses one thread; who comes first, of all threads, ends it.

    Not so for matrices of a large `size`: beside small ones, waking the others costs too much.
    """
    if size >= _LARGE or not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


@contextmanager
def threads_for_blocks() -> Iterator[None]:
    """A block in which BLAS uses one thread, and `on_threads` as many as BLAS might have."""
    token = _threads.set(_threads.get() or blas_threads())
    try:
        with one_blas_thread():
            yield
    finally:
        _threads.reset(token)


def on_threads(work: Callable[[Part], Found], parts: Iterable[Part]) -> Iterator[Found]:
    """``work(part)`` of each part, in their order, on as many threads as BLAS may use.

    Every call has one BLAS thread, however many there are: as long as the parts are the same, so is
    what comes out, to the last bit. At most one part more than there are threads is worked on or
    waits to be taken. Parts of parts are not spread any further.

    Parameters
    ----------
    work : callable
    parts : iterable

    Yields
    ------
    object
    """
    parts = iter(parts)
    first, threads = list(islice(parts, 2)), _threads.get() or blas_threads()
    with one_blas_thread():
        if threads == 1 or len(first) < 2:
            yield from map(work, chain(first, parts))
            return
        pool = ThreadPoolExecutor(threads, initializer=_one_omp_thread)
        waiting: deque[Future[Found]] = deque()
        try:
            for part in chain(first, parts):
                waiting.append(pool.submit(copy_context().run, _alone, work, part))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _alone(work: Callable[[Part], Found], part: Part) -> Found:
    _threads.set(1)
    return work(part)


def _one_omp_thread() -> None:
    """One thread for a BLAS that counts them for every thread that calls it."""
    _controller().select(threading_layer="openmp").limit(limits=1, user_api="blas")


def solve_definite(M: Array, R: Array) -> Array | None:
    """``M^-1 R`` (n, k) while other threads run; None where M is not positive definite.

    Of M (n, n), in C order, the upper triangle is read, and overwritten by its Cholesky factor.
    """
    X, info = R.copy(order="F"), np.zeros(1, dtype=np.intc)
    n, k = X.shape
    _call(cython_lapack, "dposv", b"L", n, k, M, n, X, n, info)
    return None if info[0] else X


def solve_lower(L: Array, K: Array) -> Array:
    """``L^-1 k`` of every row k of K (b, m), in its place if it can be, while other threads run."""
    L, K = np.asfortranarray(L), np.ascontiguousarray(K)
    b, m = K.shape
    _call(cython_blas, "dtrsm", b"L", b"L", b"N", b"N", m, b, 1.0, L, m, K, m)
    return K


def add_squares(G: Array, Phi: Array) -> None:
    """Add ``Phi' Phi`` to the lower triangle of G (m, m), in Fortran order, as others run."""
    Phi, (b, m) = np.ascontiguousarray(Phi), Phi.shape
    assert G.flags.f_contiguous
    _call(cython_blas, "dsyrk", b"L", b"N", m, b, 1.0, Phi, m, 1.0, G, m)


def _call(module: Any, name: str, *given: Any) -> None:
    """Call a function of BLAS or LAPACK, all of whose arguments are addresses."""
    arrays, addresses = [], []
    for one in given:
        arrays.append(np.asarray(one, dtype=np.intc if isinstance(one, int) else None))
        addresses.append(ctypes.c_void_p(arrays[-1].ctypes.data))
    _at(module, name)(*addresses)


@cache
def _at(module: Any, name: str) -> Callable[..., None]:
    """The function behind a capsule that SciPy has for Cython."""
    capsule, api = module.__pyx_capi__[name], ctypes.pythonapi
    named = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
        ("PyCapsule_GetName", api)
    )
    at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    address = at(("PyCapsule_GetPointer", api))(capsule, named(capsule))
    return ctypes.CFUNCTYPE(None)(address)
