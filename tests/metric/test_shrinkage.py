"""Metrics learned inside the tasks, against the formulas written out."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf

from manyone import IndependentOCKSR, TaskWhitener
from manyone.data.rows import training_rows
from manyone.metric.shrinkage import binary_columns, pooled_whitening, task_whitenings
from manyone.models.guards import unguarded


@pytest.fixture
def rows():
    """Tasks of unlike size, place, scale and shape: (X, codes, weight)."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), [12, 3, 1, 30])
    mix = rng.normal(size=(4, 5, 5))
    X = (
        np.einsum("ij,ijk->ik", rng.normal(size=(46, 5)), mix[codes])
        + 3.0 * codes[:, None]
    )
    return X, codes, np.ones(46)


def written_out(X, codes, scale_prior, covariance_prior):
    """C_t and D_t of every task as in the formulas, W shrunk as scikit-learn does."""
    T = codes.max() + 1
    d = X.shape[1]
    mean = np.array([X[codes == t].mean(axis=0) for t in range(T)])
    freedom = np.bincount(codes) - 1.0
    squares = np.array(
        [((X - mean[codes])[codes == t] ** 2).sum(axis=0) for t in range(T)]
    )
    pooled = squares.sum(axis=0) / freedom.sum()
    scale = np.sqrt((squares + scale_prior * pooled) / (freedom + scale_prior)[:, None])
    Z = (X - mean[codes]) / scale[codes]
    W = ledoit_wolf(Z, assume_centered=True)[0] * len(X) / freedom.sum()
    scatter = np.array([Z[codes == t].T @ Z[codes == t] for t in range(T)])
    k = covariance_prior
    C = (scatter + k * W) / (freedom + k)[:, None, None]
    return mean, scale, C.reshape(T, d, d)


@pytest.mark.parametrize("priors", [(2.0, 3.0), (0.5, 10.0)])
def test_distances_are_those_of_the_shrunk_covariances(rows, priors):
    X, codes, weight = rows
    metric = task_whitenings(X, codes, weight, 4, *priors)
    mean, scale, C = written_out(X, codes, *priors)
    Z = np.random.default_rng(1).normal(size=(20, 5)) * 4.0
    for t in range(4):
        white = metric.apply(Z, np.full(20, t))
        centred = (Z - mean[t]) / scale[t]
        expected = np.einsum("ij,ij->i", centred, np.linalg.solve(C[t], centred.T).T)
        np.testing.assert_allclose((white**2).sum(axis=1), expected, rtol=1e-8)


def test_a_single_row_has_the_pooled_metric_about_itself(rows):
    X, codes, weight = rows
    metric = task_whitenings(X, codes, weight, 4, 2.0, 3.0)
    _, scale, C = written_out(X, codes, 2.0, 3.0)
    alone = np.flatnonzero(codes == 2)
    np.testing.assert_allclose(metric.apply(X[alone], codes[alone]), 0.0, atol=1e-12)
    freedom = np.bincount(codes) - 1.0
    pooled = np.sqrt(((X - metric.mean[codes]) ** 2).sum(axis=0) / freedom.sum())
    np.testing.assert_allclose(scale[2], pooled)
    np.testing.assert_allclose(metric.scale[2], pooled)


def test_more_columns_than_rows_and_columns_that_do_not_vary():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 40))
    codes = np.repeat([0, 1, 2], 4)
    X[:, 3] = 7.0
    metric = task_whitenings(X, codes, np.ones(12), 3, 2.0, 3.0)
    white = metric.apply(X, codes)
    assert np.isfinite(white).all() and np.all(white[:, 3] == white[0, 3])


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_whitener_does_not_care_what_tasks_are_called(rows, adaptive):
    X, codes, _ = rows
    names = np.array(["d", "b", "c", "a"])[codes]
    whitener = TaskWhitener(adaptive=adaptive).fit(X, task=names)
    Z = whitener.transform(X, task=names)
    order = np.random.default_rng(0).permutation(len(X))
    other = TaskWhitener(adaptive=adaptive).fit(X[order], task=codes[order])
    np.testing.assert_allclose(other.transform(X, task=codes), Z, atol=1e-8)


@pytest.mark.parametrize("adaptive", [False, True])
def test_weights_are_repetition(rows, adaptive):
    X, codes, _ = rows
    count = np.random.default_rng(0).integers(1, 4, len(X))
    weighted = TaskWhitener(adaptive=adaptive).fit(X, task=codes, sample_weight=count)
    again = np.repeat(np.arange(len(X)), count)
    repeated = TaskWhitener(adaptive=adaptive).fit(X[again], task=codes[again])
    np.testing.assert_allclose(
        weighted.transform(X, task=codes), repeated.transform(X, task=codes), atol=1e-9
    )


def test_an_adaptive_whitener_asks_for_tasks(rows):
    X, codes, _ = rows
    whitener = TaskWhitener(adaptive=True).fit(X, task=codes)
    with pytest.raises(ValueError, match="task="):
        whitener.transform(X)
    with pytest.raises(ValueError, match="covariance_prior"):
        TaskWhitener(adaptive=True, covariance_prior=0.0).fit(X, task=codes)


def test_a_model_in_an_adaptive_metric_is_one_of_transformed_rows(rows):
    X, codes, _ = rows
    model = IndependentOCKSR(metric="adaptive", robust=False, gamma=0.1).fit(
        X, task=codes
    )
    Z = TaskWhitener(adaptive=True).fit_transform(X, task=codes)
    plain = IndependentOCKSR(gamma=0.1).fit(Z, task=codes)
    np.testing.assert_allclose(
        unguarded(model.solution_.scorer).own(X, codes),
        unguarded(plain.solution_.scorer).own(Z, codes),
        atol=1e-9,
    )


def test_thresholds_refit_the_metric():
    """With many columns, rows look far better in a metric that has seen them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    task = np.repeat(np.arange(6), 10)
    model = IndependentOCKSR(metric="adaptive", alarm_rate=0.2)
    rows, *_ = training_rows(model, X, task)
    solution = model._learn(rows, left_out=True)
    assert solution.left_out_source == "folds"
    seen = unguarded(solution.scorer).own(rows.X, rows.codes)
    fresh = unguarded(solution.scorer).own(rng.normal(size=(60, 30)), rows.codes)
    assert np.median(seen) > np.median(fresh) + 0.1
    assert abs(np.median(solution.left_out) - np.median(fresh)) < 0.05


def test_known_outliers_do_not_shape_the_metric(rows):
    X, codes, _ = rows
    bad = np.full((3, 5), 1e3)
    model = IndependentOCKSR(metric="adaptive", robust=False, alarm_rate=0.3)
    task = np.append(codes.astype(float), [0, 1, np.nan])
    told = model.fit(np.vstack([X, bad]), task=task, outlier=np.arange(49) >= 46)
    metric = task_whitenings(X, codes, np.ones(46), 4, "auto", "auto")
    np.testing.assert_allclose(
        unguarded(told.solution_.scorer).metric.scale, metric.scale
    )


def test_pooled_whitening_of_nothing_that_varies():
    X = np.ones((4, 2))
    codes = np.array([0, 0, 1, 1])
    metric = pooled_whitening(X, codes, np.ones(4))
    np.testing.assert_array_equal(metric.apply(X), X)


def test_switches_stand_beside_the_metric_of_the_other_columns(rows):
    X, codes, weight = rows
    switch = 7.0 + 3.0 * (np.arange(46) % 3 == 0)
    both = np.insert(X, 2, switch, axis=1)
    assert binary_columns(both, codes, weight, 4).tolist() == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    metric = task_whitenings(both, codes, weight, 4, 2.0, 3.0)
    others = task_whitenings(X, codes, weight, 4, 2.0, 3.0)
    Z = metric.apply(both, codes)
    np.testing.assert_allclose(
        np.delete(Z, 2, axis=1), others.apply(X, codes), atol=1e-10
    )
    for t in range(4):
        mine = np.unique(Z[codes == t, 2].round(12))
        assert np.diff(mine) == pytest.approx([2**-0.5] * (len(mine) - 1))


def test_columns_that_tell_tasks_apart_are_no_switches(rows):
    X, codes, weight = rows
    of_task = (codes % 2).astype(float)
    stray = np.where(np.arange(46) == 45, 0.0, of_task)
    three = (np.arange(46) % 3).astype(float)
    every = np.column_stack([of_task, stray, three, np.zeros(46)])
    assert not binary_columns(every, codes, weight, 4).any()
    nothing_else = (np.arange(46) % 2).astype(float)[:, None]
    Z = task_whitenings(nothing_else, codes, weight, 4, 2.0, 3.0).apply(
        nothing_else, codes
    )
    assert np.ptp(Z[codes == 0]) == pytest.approx(2**-0.5)


@pytest.mark.parametrize("value", [1e17 / 3.0, 1e30 / 3.0])
def test_a_large_constant_does_not_vary(rows, value):
    X, codes, weight = rows
    small, large = (np.column_stack([X, np.full(len(X), c)]) for c in (1.0, value))
    pooled = [pooled_whitening(rows, codes, weight) for rows in (small, large)]
    np.testing.assert_allclose(
        pooled[0].apply(small)[:, :5], pooled[1].apply(large)[:, :5]
    )
    own = [task_whitenings(rows, codes, weight, 4, 2.0, 3.0) for rows in (small, large)]
    np.testing.assert_allclose(
        own[0].apply(small, codes), own[1].apply(large, codes), atol=1e-12
    )
