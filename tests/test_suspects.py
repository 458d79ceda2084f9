"""Training rows that stand alone in their task, and models that do not learn from them."""

import numpy as np
import pytest

from manyone import SVDD, IndependentOCKSR
from manyone.suspects import standing_alone, task_medians

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
METHODS = pytest.mark.parametrize("method", [IndependentOCKSR, SVDD])


def fleet(seed=0, sizes=(12, 3, 1, 30, 2), d=5):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(codes), d)) * rng.uniform(0.1, 3.0, size=(len(sizes), d))[codes]
    return X + 3.0 * codes[:, None], codes


def alone(X, codes, weight=None, prior=2.0):
    weight = np.ones(len(X)) if weight is None else weight
    return standing_alone(X, codes, weight, codes.max() + 1, prior)


def written_out(X, codes, prior):
    """The formula, row by row."""
    T, n = codes.max() + 1, np.bincount(codes)
    median = np.array([np.median(X[codes == t], axis=0) for t in range(T)])
    away = np.abs(X - median[codes])
    own = np.array([np.median(away[codes == t], axis=0) for t in range(T)])
    pooled = ((n - 1) @ own**2) / (n - 1).sum()
    rows = np.maximum(n - 1 + prior, 1e-300)[:, None]
    scale = np.sqrt(((n - 1)[:, None] * own**2 + prior * pooled) / rows)
    scale[own == 0] = np.inf
    apart = np.full(len(X), np.inf)
    for i in range(len(X)):
        others = (codes == codes[i]) & (np.arange(len(X)) != i)
        if others.any():
            apart[i] = (np.abs(X[others] - X[i]) / scale[codes[i]]).sum(axis=1).min()
    usual = np.array([np.median(apart[codes == t]) for t in range(T)])
    usual = np.maximum(usual, np.median(apart[np.isfinite(apart) & (apart > 0)]))
    return apart > 2.0 * usual[codes]


@pytest.mark.parametrize("prior", [0.0, 2.0])
@pytest.mark.parametrize("d", [1, 5])
def test_equals_the_formula(d, prior):
    X, codes = fleet(d=d)
    X[[2, 20]] += 9.0
    X[codes == 3, 0] = 1.0 if d > 1 else X[codes == 3, 0]  # does not vary there
    found = alone(X, codes, prior=prior)
    np.testing.assert_array_equal(found, written_out(X, codes, prior))
    assert found[[2, 20]].all() and found.sum() < 12


def test_medians_count_weights_as_copies():
    X, codes = fleet(d=3)
    weight = np.random.default_rng(1).integers(1, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weight)
    expected = [np.median(X[copies][codes[copies] == t], axis=0) for t in range(5)]
    np.testing.assert_allclose(task_medians(X, codes, weight.astype(float), 5), expected)
    weighted = alone(X, codes, weight.astype(float))
    np.testing.assert_array_equal(weighted[copies], alone(X[copies], codes[copies]))


def test_order_units_and_origin_do_not_matter():
    X, codes = fleet()
    X[5] += 20.0
    expected, order = alone(X, codes), np.random.default_rng(2).permutation(len(X))
    np.testing.assert_array_equal(alone(X[order], codes[order]), expected[order])
    np.testing.assert_array_equal(alone(X, codes.max() - codes), expected)
    units = np.array([1e-9, 1e9, 1.0, -3.0, 1e-3])
    np.testing.assert_array_equal(alone(units * (X + 7.0), codes), expected)


def test_never_more_than_half_of_a_task():
    rng = np.random.default_rng(3)
    for _ in range(50):
        codes = np.sort(rng.integers(0, 6, 60))
        found = alone(rng.standard_cauchy(size=(60, 2)).round(1), codes)
        sizes, suspected = (np.bincount(codes, w, 6) for w in (None, found))
        assert np.all(suspected <= sizes / 2) and not found[sizes[codes] < 3].any()


def test_rare_values_are_no_mistake():
    """A flag that one row in ten has, and a switch that most tasks never use."""
    rng = np.random.default_rng(4)
    X, codes = rng.normal(size=(400, 4)), np.repeat(np.arange(20), 20)
    expected = alone(X, codes)
    flags = np.column_stack([X, rng.uniform(size=(400, 2)) < 0.1])
    np.testing.assert_array_equal(alone(flags, codes), expected)
    assert alone(np.where(np.eye(400, 1) > 0, 30.0, X), codes)[0]
    # Where most rows have copies, one without is not alone.
    assert alone(rng.integers(0, 3, size=(400, 2)).astype(float), codes).mean() < 0.05


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_hard_rows(size):
    X, codes = fleet()
    X[7, 0] = 1e3
    with np.errstate(all="raise", under="ignore"):
        assert alone(size * X, codes)[7]
        assert not alone(np.full((6, 2), size), np.array([0, 0, 0, 0, 1, 2])).any()


@METHODS
def test_a_fault_among_the_rows_changes_nothing(method):
    X, codes = fleet(5, sizes=(20, 20, 20))
    together = ~alone(X, codes)
    X, codes = X[together], codes[together]
    bad = X[[0, 25]] + 15.0 * X.std(axis=0)
    model = method(metric="adaptive", gamma=0.2, alarm_rate=0.1)
    clean = model.fit(X, task=codes).solution_.scorer.own(X, codes)
    both = np.vstack([X, bad]), np.append(codes, codes[[0, 25]])
    found = model.fit(both[0], task=both[1])
    np.testing.assert_allclose(found.solution_.scorer.own(X, codes), clean, atol=1e-12)
    # They count in the alarm rate, and rows like them raise an alarm.
    assert found.calibration_.counts.sum() == len(X) + 2
    assert (found.predict(bad, task=both[1][-2:]) == -1).all()
    trusting = method(metric="adaptive", gamma=0.2, alarm_rate=0.1, robust=False)
    fitted = trusting.fit(both[0], task=both[1]).solution_.scorer.own(X, codes)
    assert np.abs(fitted - clean).max() > 0.01


def test_large_tasks_are_compared_with_some_of_their_rows(monkeypatch):
    X, codes = np.random.default_rng(6).normal(size=(600, 3)), np.zeros(600, dtype=int)
    X[0] = 50.0
    exact = alone(X, codes)
    monkeypatch.setattr("manyone.suspects._MOST_OTHERS", 300)
    some = alone(X, codes)
    assert exact[0] and some[0] and np.mean(some == exact) > 0.9
