"""SVDD as an estimator: its relatives, its thresholds, its edges."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.svm import OneClassSVM

from manyone import SVDD
from manyone.estimators.folds import deal

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.6])
def test_ranks_as_one_class_svm_with_a_constant_diagonal(fleet, nu):
    X, task = fleet
    rng = np.random.default_rng(0)
    model = SVDD(gamma=0.2, nu=nu).fit(X, task=task)
    Z = 2.0 * rng.normal(size=(50, 4))
    for t, name in enumerate(model.tasks_):
        svm = OneClassSVM(gamma=0.2, nu=nu, tol=1e-10).fit(X[task == name])
        response = svm.score_samples(Z) / (nu * np.sum(task == name))
        # Squared distance to the centre: 1 - 2 f + |c|^2.
        expected = 2 * response - 1 - model.centre_norm2_[t]
        np.testing.assert_allclose(model.score_tasks(Z)[:, t], expected, atol=1e-6)


def test_the_ball_holds_all_but_a_share_nu(fleet):
    X, task = fleet
    model = SVDD(nu=0.2).fit(X, task=task)
    codes = np.searchsorted(model.tasks_, task)
    outside = -model.score_samples(X, task=task) > model.radius_[codes] ** 2 + 1e-8
    for t in range(5):
        assert outside[codes == t].mean() <= 0.2
    np.testing.assert_allclose(np.asarray(model.dual_coef_.sum(axis=0)).ravel(), 1.0)


def test_large_tasks_are_left_out_in_folds_and_small_ones_exactly():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    model = SVDD(gamma=0.3).fit(X)
    left_out, own = model.calibration_.scores, model.score_samples(X)
    assert len(left_out) == 150
    assert left_out.mean() < own.mean()
    small = SVDD(gamma=0.3).fit(X[:20])
    refits = [
        SVDD(gamma=0.3).fit(np.delete(X[:20], i, axis=0)).score_samples(X[[i]])[0]
        for i in range(20)
    ]
    np.testing.assert_allclose(small.calibration_.scores, np.sort(refits), atol=1e-7)


def test_rows_on_demand_equal_the_kernel_matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(450, 3))
    lazy = SVDD(gamma=0.3).fit(X)
    given = SVDD(kernel="precomputed").fit(lazy.kernel_.gram(X))
    np.testing.assert_allclose(lazy.radius_, given.radius_, atol=1e-7)


def test_nu_above_one_is_refused(fleet):
    with pytest.raises(ValueError, match="nu"):
        SVDD(nu=1.5).fit(fleet[0])


def test_folds_keep_twins_together_and_ignore_the_order():
    key = np.array([3.0, 1.0, 1.0 + 1e-12, 2.0, 5.0, 5.0])
    codes = np.array([0, 0, 0, 0, 1, 1])
    fold = deal(key, codes, 2, 10)
    assert fold.tolist() == [2, 0, 0, 1, -1, -1]
    order = np.random.default_rng(0).permutation(6)
    assert np.array_equal(deal(key[order], codes[order], 2, 10), fold[order])


@pytest.mark.slow
def test_alarm_rate_is_kept():
    alarms = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(3), 20)
        centres = rng.normal(size=(3, 3))
        X = centres[task] + rng.normal(size=(60, 3))
        model = SVDD(alarm_rate=0.1).fit(X, task=task)
        Z = centres + rng.normal(size=(3, 3))
        alarms.extend(model.predict(Z, task=np.arange(3)) == -1)
    assert np.sum(alarms) <= binom.ppf(0.999, len(alarms), 0.1)
