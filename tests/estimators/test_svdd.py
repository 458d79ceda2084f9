"""SVDD as an estimator: its relatives, its thresholds, its edges."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.svm import OneClassSVM

from manyone import SVDD
from manyone.models.guards import unguarded

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
        np.testing.assert_allclose(
            unguarded(model.solution_.scorer).all(Z)[:, t], expected, atol=1e-6
        )


def test_the_ball_holds_all_but_a_share_nu(fleet):
    X, task = fleet
    model = SVDD(nu=0.2).fit(X, task=task)
    codes = np.searchsorted(model.tasks_, task)
    outside = -model.score_samples(X, task=task) > model.radius_[codes] ** 2 + 1e-8
    for t in range(5):
        assert outside[codes == t].mean() <= 0.2
    np.testing.assert_allclose(np.asarray(model.dual_coef_.sum(axis=0)).ravel(), 1.0)


def test_left_out_scores_of_small_tasks_are_refits():
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = SVDD(gamma=0.3).fit(X)
    fits = [SVDD(gamma=0.3).fit(np.delete(X, i, axis=0)) for i in range(20)]
    task = np.zeros(1, dtype=int)
    refits = [
        unguarded(fit.solution_.scorer).own(X[[i]], task)[0]
        for i, fit in enumerate(fits)
    ]
    left_out = model._learn(
        model.training_, left_out=True
    ).left_out  # before distances count
    np.testing.assert_allclose(np.sort(left_out), np.sort(refits), atol=1e-7)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_left_out_scores_of_large_tasks_come_near_refits(nu):
    X = np.random.default_rng(0).normal(size=(130, 8))
    model = SVDD(gamma=0.1, nu=nu).fit(X)
    own = model.score_samples(X)
    refits = np.array(
        [
            SVDD(gamma=0.1, nu=nu).fit(np.delete(X, i, axis=0)).score_samples(X[[i]])[0]
            for i in range(len(X))
        ]
    )
    closed = model.calibration_.scores
    exact = np.sort(refits)
    # Most of what leaving a row out costs is found, for single rows and on average.
    assert np.mean(np.abs(closed - exact)) < 0.2 * np.mean(own - refits)
    assert np.mean(closed - exact) < 0.1 * np.mean(own - refits)


def test_weights_are_counts_in_large_tasks():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 3))
    weight = rng.integers(1, 4, 90)
    weighted = SVDD(gamma=0.3).fit(X, sample_weight=weight)
    again = np.repeat(np.arange(90), weight)
    repeated = SVDD(gamma=0.3).fit(X[again])
    np.testing.assert_allclose(
        weighted.score_samples(X), repeated.score_samples(X), atol=1e-7
    )


def test_rows_on_demand_equal_the_kernel_matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(450, 3))
    lazy = SVDD(gamma=0.3).fit(X)
    given = SVDD(kernel="precomputed").fit(lazy.kernel_.gram(X))
    np.testing.assert_allclose(lazy.radius_, given.radius_, atol=1e-7)


def test_nu_above_one_is_refused(fleet):
    with pytest.raises(ValueError, match="nu"):
        SVDD(nu=1.5).fit(fleet[0])


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [20, 150])
@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_alarm_rate_is_kept(n_rows, nu):
    """One fresh row per task, so that alarms are independent."""
    alarms = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(3), n_rows)
        centres = rng.normal(size=(3, 3))
        noise = rng.normal(size=(len(task), 3)) * rng.gamma(
            2.0, 0.5, size=(len(task), 1)
        )
        model = SVDD(nu=nu, alarm_rate=0.1).fit(centres[task] + noise, task=task)
        Z = centres + rng.normal(size=(3, 3)) * rng.gamma(2.0, 0.5, size=(3, 1))
        alarms.extend(model.predict(Z, task=np.arange(3)) == -1)
    assert np.sum(alarms) <= binom.ppf(0.999, len(alarms), 0.1)
    assert np.sum(alarms) >= binom.ppf(0.001, len(alarms), 0.05)
