"""What the methods that learn a structure by iterations have in common."""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import Any

import numpy as np

from manyone._sklearn import Interval
from manyone._types import Array
from manyone.capabilities import RIDGE
from manyone.progress import Report

#: Fitted attributes that they share.
ITERATED = ("objective_path_", "n_iter_")
#: Constraints of the parameters that they share.
STRUCTURED: dict[str, list[Any]] = {
    **RIDGE,
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
}


def warm_start(model: Any, name: str, shape: tuple[int, ...]) -> Array | None:
    """What the last fit learned by this name, if it fits and is wanted."""
    if not model.warm_start or "solution_" not in vars(model):
        return None
    last = model.solution_.learned.get(name)
    usable = (
        last is not None
        and last.shape == shape
        and np.any(last)
        and np.all(np.isfinite(last))
    )
    return last.copy() if usable else None


def progress(model: Any) -> Report:
    """What is called after every iteration, for a user who wants to see them."""
    name = type(model).__name__
    every = 1 if model.verbose > 1 else 10

    def show(iteration: int, objective: float) -> None:
        if iteration % every == 0:
            print(
                f"{name}: iteration {iteration}, objective {objective:.8g}",
                file=sys.stderr,
            )

    return show
