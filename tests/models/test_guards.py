"""Rows far from everything raise an alarm, and the promise holds all the same."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom

from manyone import IndependentOCKSR, JointOCKSR, NonlinearOCKSR
from manyone.data.rows import training_rows
from manyone.estimators import METHODS
from manyone.kernels import Kernel
from manyone.models.column_range import ColumnRange, score_range
from manyone.models.guards import Guarded, guard_in, unguarded
from manyone.models.nearness import (
    POINTS_PER_TASK,
    Nearness,
    UsualDistances,
    nearness_of,
    spread_over_tasks,
)
from manyone.tables.ranges import learn_ranges

pytestmark = [
    pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def blobs(apart=0.5, n_tasks=20, n_rows=25, d=4, seed=0):
    """Tasks that overlap: rows to train on and their tasks."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    return rng.normal(size=(len(task), d)) + apart * rng.normal(size=(n_tasks, d))[
        task
    ], task


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


@methods
def test_a_trained_mistake_hides_nobody(method):
    """One row 1000 standard deviations off; new ones 20 off are still alarms."""
    X, task = blobs(n_tasks=8)
    X[3] = 1e3
    model = method(gamma=0.2, alarm_rate=0.05).fit(X, task=task)
    assert np.mean(model.predict(X[50:] + 20.0, task=task[50:]) == -1) > 0.95


@pytest.mark.parametrize("apart", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("n_rows", [1, 2, 20])
def test_limits_are_those_of_all_distances(n_rows, apart):
    """Though most rows are not compared with all points."""
    X, task = blobs(apart, n_tasks=60, n_rows=n_rows)
    weight = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    rows, _, _ = training_rows(IndependentOCKSR(), X, task, sample_weight=weight)
    usual = nearness_of(Kernel("laplacian", (1.0,)), rows)[0].usual
    distances = cdist(X, X, "cityblock")
    np.fill_diagonal(distances, np.inf)
    by_hand = UsualDistances.of(distances.min(axis=1), weight)
    np.testing.assert_allclose(usual.limits(), by_hand.limits())


def test_distances_against_brute_force():
    X, task = blobs(n_tasks=3, n_rows=8)
    model = JointOCKSR(alarm_rate=0.2).fit(X, task=task)
    apart = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(apart, np.inf)
    limit = np.sort(apart.min(axis=1))[-1]  # 24 rows: the largest
    rng = np.random.default_rng(1)
    Z = 3.0 * rng.normal(size=(40, 4))
    claim = rng.integers(0, 3, 40)
    bare = unguarded(model.solution_.scorer).own(Z, claim)
    ratio = cdist(Z, X, "sqeuclidean").min(axis=1) / limit
    unit = 10.0 * model.mean_response_.max()
    beyond = np.maximum(ratio - 1.2, 0.0)
    slow = np.minimum(beyond, 0.2) ** 3 / 0.04
    expected = bare - unit * (slow + 0.2 * np.log(np.maximum(beyond / 0.2, 1.0)))
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
        beyond = max(ratio - 1.2, 0.0)
        slow = min(beyond, 0.2) ** 3 / 0.04
        expected[i] = unit * (slow + 0.2 * np.log(max(beyond / 0.2, 1.0)))
    assert expected[0] > 0.2 * unit  # no other cap than for new rows
    rows = model.training_
    solution = model.solution_
    lowered = model._learn(rows, left_out=True).left_out - solution.left_out
    np.testing.assert_allclose(np.sort(lowered), np.sort(expected), atol=1e-9)


@pytest.mark.parametrize("groups", [None, np.arange(500) % 100])
def test_some_rows_of_many_are_left_out_as_if_they_were_all(groups):
    X, task = blobs()
    X[::9] += 6.0
    model = JointOCKSR(alarm_rate=0.2).fit(X, task=task, groups=groups)
    rows = model.training_
    kernel = guard_in(model.solution_.scorer, Nearness).points.kernel
    nearness, _ = nearness_of(kernel, rows, all_rows=True)
    some = np.flatnonzero(np.random.default_rng(0).random(len(X)) < 0.6)
    alone = nearness.left_out(rows.take(some), np.arange(len(some)))
    assert 0 < np.count_nonzero(alone) < len(some)
    np.testing.assert_allclose(nearness.left_out(rows, some), alone, atol=1e-9)


@methods
def test_a_callable_is_guarded_as_the_kernel_that_it_computes(method):
    """Rows far from everything raised no alarm."""
    X, task = blobs(n_tasks=4, n_rows=10)
    new = np.vstack([X + 0.1, X + 40.0])
    claimed = np.tile(task, 2)

    def rbf(x, y):
        return np.exp(-0.3 * np.sum((x - y) ** 2))

    named = method(gamma=0.3, alarm_rate=0.1).fit(X, task=task)
    called = method(kernel=rbf, alarm_rate=0.1).fit(X, task=task)
    expected = named.score_samples(new, task=claimed)
    actual = called.score_samples(new, task=claimed)
    np.testing.assert_allclose(actual[:40], expected[:40], atol=1e-7)
    assert np.all(called.predict(new[40:], task=task) == -1)


@methods
def test_copies_in_a_kernel_matrix_may_differ_by_rounding(method):
    """A row and its copy are no neighbours, whatever the last digit says."""
    rng = np.random.default_rng(0)
    once, task = blobs(n_tasks=4, n_rows=10)
    apart = cdist(once, once, "sqeuclidean")
    twice = np.ix_(*[np.repeat(np.arange(40), 2)] * 2)
    noise = np.triu(1e-15 * rng.random((80, 80)), 1)
    K = np.exp(-0.1 * apart)[twice] - noise - noise.T
    model = method(kernel="precomputed").fit(K, task=np.repeat(task, 2))
    np.fill_diagonal(apart, np.inf)
    expected = 0.1 * apart.min(axis=1).max()  # of forty rows 99 %: all
    nearness = guard_in(model.solution_.scorer, Nearness)
    np.testing.assert_allclose(nearness.limit, expected, rtol=1e-9)


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


def test_landmark_models_keep_points_of_every_task():
    X, task = blobs(n_tasks=9, n_rows=50)
    model = JointOCKSR(landmarks=40, random_state=0).fit(X, task=task)
    nearness = guard_in(model.solution_.scorer, Nearness)
    assert np.bincount(nearness.codes).tolist() == [POINTS_PER_TASK] * 9
    order = np.random.default_rng(1).permutation(len(X))
    same = JointOCKSR(landmarks=40, random_state=0).fit(X[order], task=task[order])
    points = guard_in(same.solution_.scorer, Nearness).points.X
    np.testing.assert_array_equal(points, nearness.points.X)


def test_rows_alike():
    same = JointOCKSR(alarm_rate=0.2).fit(np.ones((12, 2)), task=np.repeat([0, 1], 6))
    assert np.all(same.predict(np.ones((2, 2)), task=[0, 1]) == 1)


def far_rows(n_tasks, n_rows, apart=2.0):
    """Rows of tasks, and rows at least 7 standard deviations from every task's mean."""
    rng = np.random.default_rng(0)
    centres = apart * rng.normal(size=(n_tasks, 8))
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(task), 8)) + centres[task]
    step = rng.normal(size=(4000, 8))
    step *= rng.uniform(7.0, 10.0, size=(4000, 1)) / np.linalg.norm(
        step, axis=1, keepdims=True
    )
    rows = centres[rng.integers(0, n_tasks, 4000)] + step
    rows = rows[cdist(rows, centres).min(axis=1) >= 7.0]
    return X, task, rows, rng.integers(0, n_tasks, len(rows))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("landmarks", [None, 200])
@pytest.mark.parametrize("n_tasks", [20, 100])
def test_far_rows_among_many_tasks(n_tasks, landmarks, kernel):
    X, task, rows, claim = far_rows(n_tasks, 15)
    params = {"landmarks": landmarks, "kernel": kernel, "random_state": 0}
    model = JointOCKSR(**params).fit(X, task=task)
    alarm = model.predict(rows, task=claim) == -1
    assert alarm.mean() >= (0.98 if kernel == "rbf" else 0.95)


def test_rates_below_one_percent_with_heavy_tails():
    """Left-out rows are lowered as new ones are: the rate holds far out in the tail."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(4), 1000)
    X = rng.standard_t(2, size=(4000, 6))
    Z = rng.standard_t(2, size=(40000, 6))
    claim = np.repeat(np.arange(4), 10000)
    model = IndependentOCKSR(alarm_rate=0.001).fit(X, task=task)
    assert np.mean(model.predict(Z, task=claim) == -1) < 0.003


def test_known_outliers_are_no_neighbours():
    X, task = blobs(n_tasks=5)
    outlier = np.arange(len(X)) < 6
    X[outlier] += 30.0
    model = JointOCKSR(alarm_rate=0.1).fit(X, task=task, outlier=outlier)
    rows = X[outlier] + 0.1
    assert np.all(model.predict(rows, task=task[outlier]) == -1)
    nearness = guard_in(model.solution_.scorer, Nearness)
    assert np.all(nearness.outside(rows, task[outlier]) > 0.2)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "rbf+laplacian", "chi2"])
@pytest.mark.parametrize("method", [IndependentOCKSR, JointOCKSR])
def test_kernel_values_tell_which_rows_are_near_enough(method, kernel):
    X, task = blobs(n_tasks=6)
    model = method(kernel=kernel).fit(np.abs(X), task=task)
    scorer = model.solution_.scorer
    rows = np.abs(X * np.random.default_rng(0).choice([1.0, 2.0, 4.0], (len(X), 1)))
    nearness = guard_in(scorer, Nearness)
    outside = nearness.outside(rows, task)
    assert scorer.shares_values
    assert 0 < np.count_nonzero(outside) < len(rows)
    own, largest = scorer.scorer.own_and_largest(rows, task)
    np.testing.assert_allclose(nearness.outside(rows, task, largest), outside)
    np.testing.assert_allclose(own - scorer.own(rows, task), scorer.unit * outside)
    everywhere, largest = scorer.scorer.all_and_largest(rows)
    np.testing.assert_allclose(largest, scorer.points.values(rows).max(axis=1))
    lowered = everywhere - scorer.all(rows)
    np.testing.assert_allclose(lowered, scorer.unit * np.tile(outside, (6, 1)).T)


def test_points_are_spread_over_tasks(monkeypatch):
    X, task = blobs(n_tasks=3, n_rows=7)
    X = np.vstack([X, X[:7], X[:7]])
    task = np.concatenate([task, task[:7], task[:7]])
    rows, _, _ = training_rows(JointOCKSR(), X, task)
    assert len(spread_over_tasks(rows)) == 21
    monkeypatch.setattr("manyone.models.nearness.POINTS_PER_TASK", 5)
    monkeypatch.setattr("manyone.models.nearness.LEAST_POINTS", 0)
    chosen = spread_over_tasks(rows)
    assert np.bincount(rows.codes[chosen]).tolist() == [5, 5, 5]
    assert len(np.unique(rows.content[chosen])) == 15


def test_landmarks_in_another_order_share_no_kernel_values():
    """Distances to other points are not taken for those to the guard's points."""
    X, task = blobs(n_tasks=4, n_rows=10)
    outlier = np.arange(len(X)) % 10 == 0
    X[outlier] += 10.0
    exact = NonlinearOCKSR().fit(X, task=task, outlier=outlier)
    landmarks = NonlinearOCKSR(landmarks=len(X), random_state=1)
    landmarks.fit(X, task=task, outlier=outlier)
    assert not exact.solution_.scorer.shares_values  # the outliers are no neighbours
    assert not np.array_equal(
        landmarks.solution_.scorer.points.X, exact.solution_.scorer.points.X
    )
    far_rows = X + 10.0
    np.testing.assert_allclose(
        landmarks.solution_.scorer.penalty(far_rows),
        exact.solution_.scorer.penalty(far_rows),
    )
    np.testing.assert_allclose(
        landmarks.score_tasks(far_rows), exact.score_tasks(far_rows), atol=1e-5
    )


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
    nearness = guard_in(model.solution_.scorer, Nearness)
    claimed = rng.permutation(codes)
    whole = nearness.outside(new, None)
    assert 0 < np.count_nonzero(whole) < len(new)
    np.testing.assert_allclose(nearness.outside(new, claimed), whole, atol=1e-12)
    alone = [nearness.outside(row[None], None)[0] for row in new]
    np.testing.assert_allclose(whole, alone, atol=1e-12)


class Flat:
    """A scorer that says 0 of every row."""

    def own(self, X, codes):
        return np.zeros(len(X))

    def all(self, X):
        return np.zeros((len(X), 2))


def test_guards_add_up():
    guard = ColumnRange(np.zeros(1), np.ones(1), np.ones(1), np.ones(1))
    scorer = Guarded(Guarded(Flat(), (guard, guard), 3.0), (guard,), 4.0)
    X = np.array([[0.5], [2.5], [3.0]])
    np.testing.assert_allclose(scorer.own(X, np.zeros(3, dtype=int)), [0, -5, -10])
    np.testing.assert_allclose(scorer.all(X)[:, 1], [0, -5, -10])


def test_margins_against_the_formula_row_by_row():
    rng = np.random.default_rng(0)
    lower = -rng.uniform(size=3)
    upper = rng.uniform(size=3)
    below = np.array([0.5, np.inf, 0.2])
    above = np.array([0.5, 0.1, np.inf])
    guard = ColumnRange(lower, upper, below, above)
    X = rng.normal(scale=2.0, size=(200, 3))
    margins = np.maximum((lower - X) / below, (X - upper) / above).max(axis=1)
    expected = np.clip(margins - 1, 0, 1) + np.clip((margins - 2) / 50, 0, 1)
    np.testing.assert_array_equal(guard.outside(X), expected)
    inside = np.tile((lower + upper) / 2, (200, 1))
    assert not guard.outside(inside).any()


def brute_margins(values, groups):
    """Margins of every row out of the ranges of rows of other groups."""
    margins = np.zeros(len(values))
    for row, group in enumerate(groups):
        others = values[groups != group]
        ranges, _ = learn_ranges(
            others, np.unique(groups[groups != group], return_inverse=True)[1]
        )
        under = (ranges.lower - values[row]) / ranges.below
        over = (values[row] - ranges.upper) / ranges.above
        margins[row] = max(np.nanmax(under), np.nanmax(over), 0.0)
    return margins


@pytest.mark.parametrize("n_groups", [40, 5])
def test_left_out_margins_against_brute_force(n_groups):
    rng = np.random.default_rng(0)
    values = rng.standard_t(1, size=(41, 3))
    values[rng.random(values.shape) < 0.1] = np.nan
    groups = np.arange(41) % n_groups
    # Medians of an even number of rows do not move much: compare with a fixed one.
    values = np.vstack([values, np.zeros((60, 3))])
    groups = np.append(groups, groups.max() + 1 + np.arange(60))
    found = learn_ranges(values, groups)[1]
    assert np.count_nonzero(found > 1.0) >= 2
    np.testing.assert_allclose(found, brute_margins(values, groups), atol=1e-12)


def test_a_score_range_is_below_all_scores():
    scores = np.array([-3.0, -1.0, -2.0])
    assert scores.max() - score_range(scores) < scores.min()
    assert guard_in(Flat(), Nearness) is None


def test_limits_of_new_and_of_left_out_rows_leave_as_much_above():
    """Of 100 rows as of any other number: the 99 % quantile of 99 is the largest."""
    for n in (50, 99, 100, 101, 200, 201):
        nearest = np.arange(1.0, n + 1.0)
        usual = UsualDistances(nearest, np.cumsum(np.ones(n)))
        others = np.delete(nearest, 0)
        without = others[int(np.ceil(0.99 * (n - 1) - 1e-9)) - 1]
        assert usual.limits()[1] == without


def test_a_copy_in_another_group_stays():
    """Distances without a group are those to rows that stay, copies of its rows too."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(4), 12)
    groups = np.tile(np.repeat(np.arange(4), 3), 4)
    X = rng.normal(size=(48, 3))
    X[::24] += 20.0
    X[3::12] = X[::12]  # of the first group in the second
    X[1::12] = X[::12] + 0.01
    rows, _, _ = training_rows(IndependentOCKSR(), X, task, groups=groups)
    kernel = Kernel("laplacian", (1.0,))
    every_copy = nearness_of(kernel, rows, all_rows=True)[1]
    distinct, left_out = nearness_of(kernel, rows)
    np.testing.assert_allclose(left_out, every_copy, atol=1e-9)
    by_passes = distinct.left_out(rows, np.arange(len(X)))
    np.testing.assert_allclose(by_passes, every_copy, atol=1e-9)
    apart = cdist(X, X, "cityblock")
    apart[apart == 0.0] = np.inf
    apart[(task[:, None] == task) & (groups[:, None] == groups)] = np.inf
    expected = UsualDistances.of(apart.min(axis=1), np.ones(len(X))).limits()
    np.testing.assert_allclose(distinct.usual.limits(), expected)
