"""Made-up results for tests of figures and of the page: every kind of cell."""

import numpy as np
import pytest

from manyone.capabilities import Capabilities
from manyone.estimators import METHODS
from manyone.experiments import Plan
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.runner import Outcome

# Names that a page must not take for its own.
PEOPLE = (
    "Ann",
    "Bo <b>&'",
    "Cy",
    'D"ee',
    "Eve",
    "Flo",
    "Gus",
    "Hal",
    "Ida",
    "a_very_long_name",
)


@pytest.fixture(scope="session")
def made_up():
    """Function that gives a plan and the outcomes of all its cells."""

    def make(datasets=("mnist",), repeats=3, quick=False):
        kind = ("seen", "unseen")
        plan = Plan(datasets, kind, repeats, quick=quick)
        return plan, [Outcome(cell, _result(cell)) for cell in plan.cells()]

    return make


def _result(cell):
    rng = np.random.default_rng([len(cell.method), cell.repetition])
    T = cell.sizes.n_tasks
    rows = cell.sizes.n_train
    found = {
        "auc": rng.uniform(0.8, 1.0, T).tolist(),
    }
    if cell.setting == "tuned":
        found["alarms"] = (
            np.array(ALARM_RATES) + rng.normal(0, 0.01, len(ALARM_RATES))
        ).tolist()
    can = METHODS[cell.family].can if cell.family in METHODS else Capabilities()
    if cell.setting.startswith("alpha=") and can.regression:
        found["sse"] = float(cell.setting.removeprefix("alpha=")) * rng.uniform(5, 6)
    if cell.repetition == 0:
        people = cell.dataset == "face"
        found["tasks"] = list(PEOPLE[:T]) if people else [f"{t}" for t in range(T)]
        if "structure_" in can.learns:
            found["structure"] = (
                (rng.normal(0, 0.1, (T, T)) + np.eye(T)).round(6).tolist()
            )
        if "objective_path_" in can.learns:
            found["objective_path"] = (3 + np.exp(-np.arange(40) / 5)).tolist()
        if "second_kernel_" in can.learns and cell.setting == "tuned":
            places = np.repeat(np.eye(T), rows, axis=0) + rng.normal(
                0, 0.15, (T * rows, T)
            )
            size = np.sum(places**2, axis=1)
            gaps = size[:, None] + size - 2 * places @ places.T
            found["second_kernel"] = np.exp(-gaps).round(3).tolist()
    return found
