"""What is wrong with a table, in parts: the place, the problem and the remedy."""

from __future__ import annotations


class TableError(ValueError):
    """A table cannot be used as it is.

    Parameters
    ----------
    problem : str
        A sentence without its full stop. After a row it goes on from the row's number.
    row : int or None
        Position of the first row that is wrong.
    remedy : str
        What to do about it, in Python.
    """

    def __init__(
        self, problem: str, *, row: int | None = None, remedy: str = ""
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.row = row
        self.remedy = remedy

    def __str__(self) -> str:
        place = "" if self.row is None else f"Row {self.row} "
        return f"{place}{self.problem}. {self.remedy}".rstrip()


class UnknownTaskError(TableError):
    """A row names a task that the model was not fitted to."""


class MixedColumnError(TableError):
    """A column of numbers holds texts here and there."""


class TimeError(TableError):
    """A time cannot be read."""


class SkippedRowsWarning(UserWarning):
    """Rows of unknown tasks have no answer, as was asked for."""
