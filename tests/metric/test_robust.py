"""Training rows that stand apart in their task hardly shape models."""

import numpy as np
import pytest
from scipy.stats import chi2

from fleets import gaussian_tasks
from manyone import SVDD, IndependentOCKSR
from manyone.metric.robust import robust_weights, task_medians
from manyone.metric.shrinkage import task_whitenings
from manyone.models.guards import unguarded

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
METHODS = pytest.mark.parametrize("method", [IndependentOCKSR, SVDD])


def fleet(seed=0, sizes=(12, 3, 1, 30, 2), d=5):
    return gaussian_tasks(sizes, d, apart=3.0, scales=(0.1, 3.0), seed=seed)


def trusted(X, codes, weight=None):
    weight = np.ones(len(X)) if weight is None else weight
    return robust_weights(X, codes, weight, codes.max() + 1)


def written_out(X, codes, scale_prior, covariance_prior):
    """The formula, row by row, every row left out of the metric by a refit."""
    T = codes.max() + 1
    n = np.bincount(codes)
    median = np.array([np.median(X[codes == t], axis=0) for t in range(T)])
    away = np.abs(X - median[codes])
    own = np.array([np.median(away[codes == t], axis=0) for t in range(T)])
    pooled = ((n - 1) @ own**2) / (n - 1).sum()
    scale = np.sqrt(
        ((n - 1)[:, None] * own**2 + scale_prior * pooled) / (n + 1)[:, None]
    )
    scale[own == 0] = np.inf
    second, companion = np.zeros((2, len(X)))
    apart = (np.abs(X[:, None] - X) / scale[codes][:, None]).sum(axis=2)
    apart[(codes[:, None] != codes) | np.eye(len(X), dtype=bool)] = np.inf
    other = np.argsort(apart, axis=1)[:, 1]
    large = n[codes] > 2
    second[large] = np.sort(apart, axis=1)[large, 1]
    companion[large] = second[other[large]]

    def usual(values):
        own = np.array([np.median(values[codes == t]) for t in range(T)])
        return np.maximum(own, np.median(values[values > 0]))[codes]

    kept = second <= 2.0 * usual(second)
    whole = task_whitenings(
        X[kept], codes[kept], np.ones(kept.sum()), T, scale_prior, 3.0
    )
    W = whole.pooled.apply((X - whole.mean[codes]) / whole.scale[codes])
    far = np.empty(len(X))
    for i in range(len(X)):
        others = kept & (codes == codes[i]) & (np.arange(len(X)) != i)
        if not others.any():
            far[i] = 0.0
            continue
        Z = W[others] - W[others].mean(axis=0)
        C = (Z.T @ Z + covariance_prior * np.eye(X.shape[1])) / (
            len(Z) - 1 + covariance_prior
        )
        z = W[i] - W[others].mean(axis=0)
        far[i] = np.sqrt(z @ np.linalg.solve(C, z))
    cut = max(1.75, np.sqrt(chi2.ppf(0.99, X.shape[1]) / chi2.ppf(0.5, X.shape[1])))
    share = (cut * usual(far) / np.maximum(far, cut * usual(far))) ** 4
    share[second <= np.maximum(companion, usual(second))] = 1.0
    return np.where(share < 1e-3, 0.0, share)


@pytest.mark.parametrize("d", [1, 5])
def test_equals_the_formula(d):
    X, codes = fleet(d=d)
    X[[2, 20]] += 9.0
    found = trusted(X, codes)
    np.testing.assert_allclose(found, written_out(X, codes, 2.0, 3.0), rtol=1e-8)
    assert (found[[2, 20]] < 0.2).all() and (found == 1.0).sum() >= 44


def test_medians_count_weights_as_copies():
    X, codes = fleet(d=3)
    weight = np.random.default_rng(1).integers(1, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weight)
    expected = [np.median(X[copies][codes[copies] == t], axis=0) for t in range(5)]
    np.testing.assert_allclose(
        task_medians(X, codes, weight.astype(float), 5), expected
    )
    X[[3, 25]] += 9.0
    weighted = trusted(X, codes, weight.astype(float))
    copied = trusted(X[copies], codes[copies])
    np.testing.assert_allclose(weighted[copies], copied, rtol=1e-8)
    assert weighted.min() < 0.1


def test_order_units_and_origin_do_not_matter():
    X, codes = fleet()
    X[5] += 20.0
    expected = trusted(X, codes)
    order = np.random.default_rng(2).permutation(len(X))
    assert expected[5] == 0.0
    close = {"rtol": 1e-6, "atol": 1e-9}
    np.testing.assert_allclose(
        trusted(X[order], codes[order]), expected[order], **close
    )
    np.testing.assert_allclose(trusted(X, codes.max() - codes), expected, **close)
    units = np.array([1e-9, 1e9, 1.0, -3.0, 1e-3])
    np.testing.assert_allclose(trusted(units * (X + 7.0), codes), expected, **close)


def test_ties_do_not_depend_on_the_order():
    rng = np.random.default_rng(8)
    X = rng.integers(0, 4, size=(120, 2)).astype(float)
    codes = np.repeat(np.arange(4), 30)
    X[[0, 40]] = 9.0
    order = rng.permutation(120)
    found = trusted(X, codes)
    np.testing.assert_allclose(trusted(X[order], codes[order]), found[order], rtol=1e-6)
    assert found.min() < 0.1


def test_never_more_than_half_of_a_task():
    rng = np.random.default_rng(3)
    for _ in range(50):
        codes = np.sort(rng.integers(0, 6, 60))
        found = trusted(rng.standard_cauchy(size=(60, 2)).round(1), codes) < 1.0
        sizes, suspected = (np.bincount(codes, w, 6) for w in (None, found))
        assert np.all(suspected <= sizes / 2) and not found[sizes[codes] < 3].any()


@pytest.mark.parametrize("d", [1, 2, 8, 30])
def test_gaussian_rows_are_trusted(d):
    X = np.random.default_rng(d).normal(size=(600, d))
    codes = np.repeat(np.arange(30), 20)
    assert (trusted(X, codes) < 1.0).mean() < 0.04


def test_a_kind_of_rows_that_is_rare_is_no_mistake():
    """Nine rows in one state of their own shape it; six unlike faults do not."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(480, 6))
    codes = np.repeat(np.arange(4), 120)
    rare = X.copy()
    wrong = X.copy()
    rare[:9] += 9.0
    wrong[:6] += 9.0 * np.vstack([np.eye(3), -np.eye(3)]).repeat(2, axis=1)
    assert trusted(rare, codes)[:9].mean() > 0.6
    assert (trusted(wrong, codes)[:6] < 0.1).all()


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_hard_rows(size):
    X, codes = fleet()
    X[7, 0] = 1e3
    with np.errstate(all="raise", under="ignore"):
        assert trusted(size * X, codes)[7] == 0.0
        assert (
            trusted(np.full((6, 2), size), np.array([0, 0, 0, 0, 1, 2])) == 1.0
        ).all()


@METHODS
def test_a_fault_among_the_rows_changes_nothing(method):
    X, codes = fleet(5, sizes=(20, 20, 20))
    together = trusted(X, codes) == 1.0
    X = X[together]
    codes = codes[together]
    bad = X[[0, 25]] + 15.0 * X.std(axis=0)
    model = method(metric="adaptive", gamma=0.2, alarm_rate=0.1)
    model.fit(X, task=codes)
    clean = unguarded(model.solution_.scorer).own(X, codes)
    both = np.vstack([X, bad]), np.append(codes, codes[[0, 25]])
    found = model.fit(both[0], task=both[1])
    np.testing.assert_allclose(
        unguarded(found.solution_.scorer).own(X, codes), clean, atol=1e-12
    )
    # They count in the alarm rate, and rows like them raise an alarm.
    assert found.calibration_.counts.sum() == len(X) + 2
    assert (found.predict(bad, task=both[1][-2:]) == -1).all()
    trusting = method(metric="adaptive", gamma=0.2, alarm_rate=0.1, robust=False)
    trusting.fit(both[0], task=both[1])
    fitted = unguarded(trusting.solution_.scorer).own(X, codes)
    assert np.abs(fitted - clean).max() > 0.01


def test_large_tasks_are_compared_with_some_of_their_rows(monkeypatch):
    X = np.random.default_rng(6).normal(size=(600, 3))
    codes = np.zeros(600, dtype=int)
    X[0] = 50.0
    exact = trusted(X, codes)
    monkeypatch.setattr("manyone.metric.robust._MOST_NEIGHBOURS", 300)
    some = trusted(X, codes)
    assert exact[0] == some[0] == 0.0 and np.mean((some == 1.0) == (exact == 1.0)) > 0.9
