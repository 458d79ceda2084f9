"""How many independent rows there are: against the variance of shares in simulated series."""

import numpy as np
import pytest
from scipy.signal import lfilter

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
