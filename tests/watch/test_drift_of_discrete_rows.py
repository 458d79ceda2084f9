"""Rows of yes and no: left-out scores tie, and that alone is no drift."""

import numpy as np
import pytest

from manyone import IndependentOCKSR, JointOCKSR, Monitor
from manyone.watch.thresholds import WINDOW, tasks_with_ties

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
TASKS = 20
TRAINING_ROWS = 50
NEW_ROWS = 500


def yes_or_no(columns):
    def draw(rng, n):
        return (rng.random((n, columns)) < 0.3).astype(float)

    return draw


def share_flagged(estimator, draw, seed, shift=0.0):
    """Share of tasks that are flagged in the end."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(TASKS), TRAINING_ROWS)
    model = estimator.fit(draw(rng, len(task)), task=task)
    new_task = np.tile(np.arange(TASKS), NEW_ROWS)
    watched = Monitor(model).update(draw(rng, len(new_task)) + shift, new_task)
    return watched.drift[-TASKS:].mean()


@pytest.mark.parametrize("columns", [3, 6])
@pytest.mark.parametrize(
    "estimator",
    [
        JointOCKSR(alarm_rate=0.1),
        IndependentOCKSR(metric="adaptive", alarm_rate=0.1),
    ],
    ids=["joint", "adaptive"],
)
def test_unchanged_rows_of_yes_and_no_raise_no_flags(estimator, columns):
    """Forty tasks at 1 %: three flags are a chance of 1 in 130 at most."""
    flagged = [share_flagged(estimator, yes_or_no(columns), seed) for seed in (0, 1)]
    assert np.sum(flagged) * TASKS <= 2


def test_changes_of_yes_and_no_are_flagged():
    def draw(rng, n):
        rare = rng.random((n, 3)) < 0.2
        if n > TASKS * TRAINING_ROWS:  # the new rows: in the middle they change
            half = n // 2
            rare[half:] = rng.random((n - half, 3)) < 0.8
        return rare.astype(float)

    estimator = IndependentOCKSR(metric="adaptive", alarm_rate=0.1)
    assert share_flagged(estimator, draw, 0) > 0.8


def test_continuous_rows_still_show_a_change_before_the_first_row():
    def draw(rng, n):
        return rng.normal(size=(n, 4))

    for metric in ("plain", "adaptive"):
        estimator = IndependentOCKSR(metric=metric, alarm_rate=0.1)
        assert share_flagged(estimator, draw, 0) <= 0.05
        assert share_flagged(estimator, draw, 0, shift=1.5) > 0.8


def test_a_few_ties_are_allowed():
    scores = np.full((3, WINDOW), np.nan)
    scores[:, :40] = np.arange(40)
    scores[1, :2] = 0.0  # 2 of 40
    scores[2, :6] = [0, 0, 0, 5, 5, 5]  # 7 of 40, with the 5 that was there
    assert tasks_with_ties(scores).tolist() == [False, False, True]
