"""What methods have in common that few rows may stand for all."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from manyone._sklearn import Constraints
from manyone._types import Labels
from manyone.calibration.tails import Tails
from manyone.capabilities import RIDGE
from manyone.data.rows import TrainingRows
from manyone.data.sample import Sample
from manyone.data.sweeps import Source, Sweep, steady, sweep_of_rows
from manyone.estimators.base import MultiTaskOneClass
from manyone.fitting.independent import TaskPlans
from manyone.fitting.passes import fit_judged, solved
from manyone.fitting.plan import Plan
from manyone.fitting.sources import refuse_whole_rows
from manyone.kernels.kernel import VALUES_ONLY, Kernel
from manyone.models.guards import Nearness
from manyone.models.solution import Solution


@dataclass(kw_only=True, eq=False, repr=False)
class LandmarkOneClass(MultiTaskOneClass):
    """A ridge regression on all rows, or on landmarks by passes over blocks of rows."""

    _parameter_constraints: ClassVar[Constraints] = {
        **MultiTaskOneClass._parameter_constraints,
        **RIDGE,
    }

    alpha: float = 0.1
    landmarks: int | None = None
    random_state: object = None

    @abstractmethod
    def _solve_passes(
        self,
        plan: Plan | TaskPlans,
        source: Source,
        sample: Sample,
        nearness: Nearness | None,
    ) -> tuple[Solution, Tails | None]:
        """The solution on landmarks, and its left-out scores where they have a closed form."""

    def _why_whole_rows(self, groups: object) -> str | None:
        if self.landmarks is None:
            return "Without landmarks all rows are needed in memory"
        if self.kernel in VALUES_ONLY:
            return f"kernel={self.kernel!r} has no rows"
        if self.metric == "adaptive":
            return f"metric={self.metric!r} needs all rows in memory"
        if groups is not None:
            return "groups= needs all rows in memory, as those of a group may be in many blocks"
        return None

    def _fit_passes(self, sweep: Sweep) -> Self:
        refuse_whole_rows(self, None)
        calibrate = self.alarm_rate is not None
        return fit_judged(self, steady(sweep), calibrate=calibrate)[0]

    def _fit_rows(self, rows: TrainingRows, tasks: Labels, *, calibrate: bool) -> Self:
        if self.landmarks is None:
            return super()._fit_rows(rows, tasks, calibrate=calibrate)
        return fit_judged(self, sweep_of_rows(self, rows, tasks), calibrate=calibrate)[
            0
        ]

    def _learn(
        self, rows: TrainingRows, *, left_out: bool, kernel: Kernel | None = None
    ) -> Solution:
        if self.landmarks is None:
            return super()._learn(rows, left_out=left_out, kernel=kernel)
        sweep = sweep_of_rows(self, rows, np.arange(rows.n_tasks))
        return solved(self, sweep, kernel).solution
