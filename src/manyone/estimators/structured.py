"""What the methods that learn a structure by iterations have in common."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from manyone._sklearn import Constraints, Interval
from manyone._types import Array
from manyone.estimators.landmarks import LandmarkOneClass
from manyone.progress import Report

#: Fitted attributes of all methods with iterations.
ITERATED = ("objective_path_", "n_iter_")


@dataclass(kw_only=True, eq=False, repr=False)
class StructuredOneClass(LandmarkOneClass):
    """A method that learns a structure by iterations, which a user may watch and go on with."""

    _parameter_constraints: ClassVar[Constraints] = {
        **LandmarkOneClass._parameter_constraints,
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    tol: float = 1e-10
    max_iter: int = 1000
    warm_start: bool = False
    verbose: int = 0

    def _last(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """What the last fit learned by this name, if there was one and it fits."""
        if "solution_" not in vars(self):
            return None
        last = self.solution_.learned.get(name)
        if not isinstance(last, np.ndarray) or last.shape != shape:
            return None
        return last.copy() if np.any(last) and np.all(np.isfinite(last)) else None

    def _progress(self) -> Report:
        """What is called after every iteration, for a user who wants to see them."""
        name = type(self).__name__
        every = 1 if self.verbose > 1 else 10

        def show(iteration: int, objective: float) -> None:
            if iteration % every == 0:
                print(
                    f"{name}: iteration {iteration}, objective {objective:.8g}",
                    file=sys.stderr,
                )

        return show
