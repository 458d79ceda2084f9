"""How iterations run: the threads BLAS gets, and who hears of the objective."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

#: Called with the number of the iteration and the objective there.
Report = Callable[[int, float], None]


class Trace(list[float]):
    """Objective values of the accepted iterates; every value appended is reported."""

    def __init__(self, report: Report | None = None) -> None:
        super().__init__()
        self._report = report

    def append(self, value: float) -> None:
        """Add a value and report it."""
        super().append(value)
        if self._report is not None:
            self._report(len(self) - 1, value)


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
