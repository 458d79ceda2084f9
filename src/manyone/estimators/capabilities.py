"""What a method can do, declared once by its class and read by everybody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Capabilities:
    """Declared by every estimator as its class attribute ``can``.

    Attributes
    ----------
    learns : tuple of str
        Fitted attributes beyond those of every method, such as ``"structure_"``.
    regression : bool
        Fits responses of the rows (1 for their own task), so it has a sum of squared errors.
    joint : bool
        Rows of other tasks enter the function of a task.
    slow : bool
        One fit costs many times that of a ridge: studies with many fits leave the method out.
    quick : bool
        Choosing its settings is fast enough for a first look.
    short_grid : mapping or None
        What experiments choose from where the whole grid would take too long; None is the whole.
    """

    learns: tuple[str, ...] = ()
    regression: bool = False
    joint: bool = True
    slow: bool = False
    quick: bool = True
    short_grid: Mapping[str, Sequence[Any]] | None = None
