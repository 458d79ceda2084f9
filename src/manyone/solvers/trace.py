"""Objective values of the accepted iterates, reported as they come."""

from collections.abc import Callable

#: Called with the number of the iteration and the objective there.
Report = Callable[[int, float], None]


class Trace(list[float]):
    """A list that tells somebody about every value appended."""

    def __init__(self, report: Report | None = None) -> None:
        super().__init__()
        self._report = report

    def append(self, value: float) -> None:
        """Add a value and report it."""
        super().append(value)
        if self._report is not None:
            self._report(len(self) - 1, value)
