"""The null space transform as an estimator."""

import numpy as np
import pytest
from scipy.stats import binom

from manyone import KNFST, IndependentOCKSR

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


@pytest.mark.parametrize("ridge", [1e-6, 0.1])
def test_one_task_is_proportional_to_regression_with_the_same_ridge(ridge):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(15, 6)), 2 * rng.normal(size=(30, 6))
    null = KNFST(gamma=0.3, ridge=ridge).fit(X)
    regression = IndependentOCKSR(gamma=0.3, alpha=ridge).fit(X)
    expected = regression.score_samples(Z) / regression.mean_response_
    np.testing.assert_allclose(null.score_samples(Z), expected, rtol=1e-5)


def test_tasks_are_points_without_a_ridge():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(3), 8)
    X = rng.normal(size=(24, 10)) + rng.normal(size=(3, 10))[task]
    X[1] = X[0]
    model = KNFST(gamma=0.3, ridge=0.0).fit(X, task=task)
    assert model.projection_.shape == (24, 3)
    np.testing.assert_allclose(model.score_samples(X, task=task), 0.0, atol=1e-8)


@pytest.mark.slow
def test_alarm_rate_is_kept():
    alarms = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(3), 20)
        centres = rng.normal(size=(3, 3))
        X = centres[task] + rng.normal(size=(60, 3))
        model = KNFST(alarm_rate=0.1).fit(X, task=task)
        alarms.extend(model.predict(centres + rng.normal(size=(3, 3)), task=np.arange(3)) == -1)
    assert np.sum(alarms) <= binom.ppf(0.999, len(alarms), 0.1)
