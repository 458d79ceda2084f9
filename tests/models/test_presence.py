"""Rows far from everything raise an alarm, and the promise holds all the same."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom

from fleets import gaussian_tasks
from manyone import IndependentOCKSR, JointOCKSR, NonlinearOCKSR
from manyone.estimators import METHODS
from manyone.estimators.base import learn

pytestmark = [
    pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def blobs(apart=0.5, n_tasks=20, n_rows=25, d=4, seed=0):
    """Tasks that overlap: rows to train on and their tasks."""
    return gaussian_tasks([n_rows] * n_tasks, d, apart=apart, seed=seed)


@pytest.mark.slow
@methods
@pytest.mark.parametrize("rate", [0.05, 0.1])
def test_gross_outliers_of_overlapping_tasks_raise_an_alarm(method, rate):
    X, task = blobs(1.0 if method is METHODS["KNFST"] else 0.5, n_tasks=12)
    model = method(alarm_rate=rate).fit(X, task=task)
    one = X.copy()
    one[np.arange(len(X)), task % 4] += 10.0
    for rows in (X + 10.0, one, np.full_like(X, 1e6), np.full_like(X, 1e308)):
        assert np.mean(model.predict(rows, task=task) == -1) >= 0.99


@pytest.mark.parametrize("width", [1e-6, 0.01, 0.3, 30.0, 1e6])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "rbf+laplacian", "chi2"])
def test_whatever_the_width(kernel, width):
    X, task = blobs(n_tasks=5)
    X = np.abs(X)
    for method in (IndependentOCKSR, JointOCKSR):
        model = method(kernel=kernel, width=width, alarm_rate=0.1).fit(X, task=task)
        assert np.all(model.predict(X + 20.0, task=task) == -1)


@pytest.mark.slow
@methods
def test_a_trained_mistake_hides_nobody(method):
    """One row a thousand standard deviations off; new ones that are twenty off are still alarms."""
    X, task = blobs(n_tasks=8)
    X[3] = 1e3
    model = method(gamma=0.2, alarm_rate=0.05).fit(X, task=task)
    assert np.mean(model.predict(X[50:] + 20.0, task=task[50:]) == -1) > 0.95


def test_distances_against_brute_force():
    X, task = blobs(n_tasks=3, n_rows=8)
    model = JointOCKSR(alarm_rate=0.2).fit(X, task=task)
    apart = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(apart, np.inf)
    limit = np.sort(apart.min(axis=1))[-1]  # 24 rows: the largest
    rng = np.random.default_rng(1)
    Z, claim = 3.0 * rng.normal(size=(40, 4)), rng.integers(0, 3, 40)
    bare = model.solution_.scorer.own(Z, claim)
    ratio = cdist(Z, X, "sqeuclidean").min(axis=1) / limit
    unit = 10.0 * model.mean_response_.max()
    beyond = np.clip(ratio - 1.2, 0.0, 2.8)
    expected = bare - unit * np.where(beyond < 0.2, beyond**3 / 0.04, beyond)
    np.testing.assert_allclose(model.score_samples(Z, task=claim), expected, atol=1e-9)
    assert (
        np.any(ratio < 1.2)
        and np.any((beyond > 0) & (beyond < 0.2))
        and np.any(beyond > 0.2)
    )


def test_left_out_rows_are_compared_with_the_others():
    X, task = blobs(n_tasks=2, n_rows=6)
    X[0] += 4.0
    model = JointOCKSR(alarm_rate=0.2).fit(X, task=task)
    apart = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(apart, np.inf)
    nearest = apart.min(axis=1)
    unit = 10.0 * model.mean_response_.max()
    expected = np.zeros(12)
    for i in range(12):
        ratio = nearest[i] / np.delete(nearest, i).max()
        expected[i] = unit * np.clip(ratio - 1.2, 0.0, 0.2) ** 3 / 0.04
    assert expected[0] > 0
    rows, solution = model.training_, model.solution_
    lowered = learn(model, rows, left_out=True).left_out - solution.left_out
    np.testing.assert_allclose(np.sort(lowered), np.sort(expected), atol=1e-9)


@methods
def test_copies_in_a_kernel_matrix_may_differ_by_rounding(method):
    """A row and its copy are not each other's neighbours, whatever the last digit says."""
    rng = np.random.default_rng(0)
    once, task = blobs(n_tasks=4, n_rows=10)
    apart = cdist(once, once, "sqeuclidean")
    twice = np.ix_(*[np.repeat(np.arange(40), 2)] * 2)
    noise = np.triu(1e-15 * rng.random((80, 80)), 1)
    K = np.exp(-0.1 * apart)[twice] - noise - noise.T
    model = method(kernel="precomputed").fit(K, task=np.repeat(task, 2))
    np.fill_diagonal(apart, np.inf)
    expected = 0.1 * apart.min(axis=1).max()  # of forty rows 99 %: all
    np.testing.assert_allclose(model.solution_.presence.limit, expected, rtol=1e-9)


def test_a_task_of_wide_rows_is_not_all_alarms():
    """Most rows of one task in 150 are farther from everything than is usual."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(150), 20)
    spread = np.where(task == 7, 12.0, 1.0)[:, None]
    X, Z = (spread * rng.normal(size=(3000, 3)) for _ in range(2))
    for method in (IndependentOCKSR, JointOCKSR):
        model = method(alarm_rate=0.1, gamma=0.1).fit(X, task=task)
        alarm = model.predict(Z[task == 7], task=task[task == 7]) == -1
        assert alarm.sum() <= binom.ppf(0.999, 20, 0.25)


def test_more_rows_than_points_and_rows_alike():
    X, task = blobs(n_tasks=40, n_rows=20)
    model = JointOCKSR(alarm_rate=0.05).fit(X, task=task)
    assert len(model.solution_.presence.points) == 256
    assert np.all(model.predict(X + 15.0, task=task) == -1)
    same = JointOCKSR(alarm_rate=0.2).fit(np.ones((12, 2)), task=np.repeat([0, 1], 6))
    assert np.all(same.predict(np.ones((2, 2)), task=[0, 1]) == 1)


@pytest.mark.slow
def test_rate_of_two_layers_on_small_overlapping_tasks():
    """Responses grow with the rows of a fit: thresholds from folds must not feel it."""
    alarms = []
    for seed in range(8):
        rng = np.random.default_rng(100 + seed)
        task = np.repeat(np.arange(20), 10)
        centres = 0.5 * rng.normal(size=(20, 8))
        X, Z = (rng.normal(size=(200, 8)) + centres[task] for _ in range(2))
        model = NonlinearOCKSR(alarm_rate=0.1).fit(X, task=task)
        alarms.append(model.predict(Z, task=task) == -1)
    assert 0.05 < np.mean(alarms) < 0.12


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "rbf+laplacian", "chi2"])
def test_rows_near_the_middle_of_their_task_need_no_other_point(kernel):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(6), 20)
    X = np.abs(rng.normal(size=(120, 5)) + 4.0 * rng.normal(size=(6, 5))[codes])
    model = JointOCKSR(kernel=kernel).fit(X, task=codes)
    new = np.abs(
        X + rng.normal(size=X.shape) * rng.choice([0.1, 1.0, 30.0], size=(120, 1))
    )
    presence = model.solution_.presence
    claimed = rng.permutation(codes)
    whole = presence.penalty(new)
    assert 0 < np.count_nonzero(whole) < len(new)
    np.testing.assert_allclose(presence.penalty(new, claimed), whole, atol=1e-12)
