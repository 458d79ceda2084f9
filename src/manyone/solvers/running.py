"""How iterations run: threads that BLAS gets, and that run meanwhile; who is told of progress."""

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from scipy.linalg import cython_lapack
from threadpoolctl import ThreadpoolController

from manyone._types import Array

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


@cache
def _dposv() -> Callable[..., None]:
    """LAPACK's solver for definite matrices; unlike scipy.linalg.lapack it lets go of the GIL."""
    capsule, api = cython_lapack.__pyx_capi__["dposv"], ctypes.pythonapi
    named, at = api.PyCapsule_GetName, api.PyCapsule_GetPointer
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    at.restype, at.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *8 * [ctypes.c_void_p])(at(capsule, named(capsule)))


def solve_definite(M: Array, R: Array) -> Array | None:
    """``M^-1 R`` (n, k) while other threads run; None where M is not positive definite.

    Of M (n, n), in C order, the upper triangle is read, and overwritten by its Cholesky factor.
    """
    X, info = R.copy(order="F"), ctypes.c_int()
    n, k = map(ctypes.byref, map(ctypes.c_int, X.shape))
    found = M.ctypes.data, n, X.ctypes.data, n, ctypes.byref(info)
    _dposv()(ctypes.c_char_p(b"L"), n, k, *found)
    return X if info.value == 0 else None
