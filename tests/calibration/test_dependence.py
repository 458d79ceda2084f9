"""Numbers of independent rows, against the variance of shares in simulations."""

import numpy as np
import pytest
from scipy.signal import lfilter

from manyone import KNFST, IndependentOCKSR, TimeBlocks
from manyone.calibration.dependence import correlation_time


def series(rng, tasks, rows, like):
    """Scores (tasks, rows) of series that resemble their past."""
    noise = rng.normal(size=(tasks, rows + 200))
    x = lfilter([np.sqrt(1 - like**2)], [1, -like], noise, axis=1)
    return -np.abs(x[:, 200:])


@pytest.mark.parametrize(("like", "tolerance"), [(0.0, 0.15), (0.5, 0.2), (0.8, 0.25)])
def test_shares_vary_as_those_of_so_many_independent_rows(like, tolerance):
    rng = np.random.default_rng(0)
    tasks = 2000
    rows = 200
    scores = series(rng, tasks, rows, like)
    threshold = np.quantile(scores, 0.25)
    shares = (scores < threshold).mean(axis=1)
    truth = shares.var() / (0.25 * 0.75 / rows)
    few = scores[:20]
    time = correlation_time(few.ravel(), np.repeat(np.arange(20), rows))
    assert time == pytest.approx(truth, rel=tolerance)


def test_a_trend_does_not_make_rows_alike():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(10, 200)) - np.linspace(0, 3, 200)
    assert correlation_time(scores.ravel(), np.repeat(np.arange(10), 200)) < 2.0


def test_copies_in_time_count_as_one():
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.normal(size=400), 5)
    assert correlation_time(scores, np.zeros(2000, dtype=int)) == pytest.approx(5, 0.2)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_few_or_equal_scores_count_in_full(number):
    assert correlation_time(np.zeros(number), np.zeros(number, dtype=int)) == 1.0
    assert correlation_time(np.arange(1.0 * number), np.arange(number)) == 1.0


@pytest.mark.parametrize("like", [0.0, 0.8])
@pytest.mark.parametrize("rows", [60, 150])
def test_thresholds_in_time_keep_the_rate_of_rows_that_do_not_drift(like, rows):
    rng = np.random.default_rng(0)
    tasks = 8
    new = 400
    raised = []
    for _ in range(4):
        noise = rng.normal(size=(tasks, rows + new + 100, 4))
        x = lfilter([np.sqrt(1 - like**2)], [1, -like], noise, axis=1)[:, 100:]
        x += 2.0 * rng.normal(size=(tasks, 1, 4))
        when = np.tile(np.arange(rows), tasks)
        model = IndependentOCKSR(kernel="laplacian", alarm_rate=0.1).fit(
            x[:, :rows].reshape(-1, 4),
            task=np.repeat(np.arange(tasks), rows),
            groups=TimeBlocks(when, forward=100),
        )
        later = x[:, rows:].reshape(-1, 4)
        task = np.repeat(np.arange(tasks), new)
        raised.append(np.mean(model.predict(later, task=task) == -1))
    assert 0.03 <= np.mean(raised) <= 0.125


def test_blocks_of_time_waste_no_rows():
    """Independent rows in blocks count as so many, whatever the number of blocks."""
    rng = np.random.default_rng(0)
    rows = 113
    task = np.repeat(np.arange(45), rows)
    blocks = TimeBlocks(np.tile(np.arange(rows), 45), forward=False)
    X = rng.normal(size=(len(task), 3))
    model = IndependentOCKSR().fit(X, task=task, groups=blocks)
    assert model.calibration_.counts.min() > 0.9 * rows


def test_weights_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(120, 2)), axis=0)
    task = np.repeat(["a", "b"], 60)
    when = np.tile(np.arange(60), 2)
    order = rng.permutation(120)
    in_order = IndependentOCKSR().fit(X, task=task, groups=TimeBlocks(when))
    shuffled = IndependentOCKSR().fit(
        X[order], task=task[order], groups=TimeBlocks(when[order])
    )
    first = in_order.calibration_
    second = shuffled.calibration_
    np.testing.assert_array_equal(first.weight, second.weight)
    assert first.counts.max() < 0.6 * 60


def test_groups_of_yes_and_no_count_the_same_in_any_order():
    """Many left-out scores are equal, but for rounding."""
    rng = np.random.default_rng(1)
    X = (rng.random((60, 3)) < 0.5).astype(float)
    task = np.arange(60) % 3
    groups = rng.integers(0, 5, 60)
    order = rng.permutation(60)
    model = KNFST().fit(X, task=task, groups=groups)
    other = KNFST().fit(X[order], task=task[order], groups=groups[order])
    np.testing.assert_allclose(
        other.pvalues(X, task=task), model.pvalues(X, task=task), atol=1e-9
    )
