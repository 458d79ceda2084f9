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
        self.problem = problem
        self.row = row
        self.remedy = remedy
        place = "" if row is None else f"Row {row} "
        super().__init__(f"{place}{problem}. {remedy}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the parts where an error crosses processes."""
        return _again, (type(self), self.problem, self.row, self.remedy)


class UnknownTaskError(TableError):
    """A row names a task that the model was not fitted to."""


class MixedColumnError(TableError):
    """A column of numbers holds texts here and there."""


class TimeError(TableError):
    """A time cannot be read."""


class SkippedRowsWarning(UserWarning):
    """Rows of unknown tasks have no answer, as was asked for."""


def _again(
    kind: type[TableError], problem: str, row: int | None, remedy: str
) -> TableError:
    return kind(problem, row=row, remedy=remedy)
