"""Bets on ranks: uniform ranks, fair odds, Ville's inequality."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, kstest

from manyone import IndependentOCKSR, Monitor
from manyone.watch import drift


@pytest.mark.parametrize("number", range(drift.BETS))
def test_bets_are_fair(number):
    assert quad(lambda p: drift.bets(np.array([p]))[0, number], 0, 1)[
        0
    ] == pytest.approx(1)


def ranks(scores):
    """Ranks (k, n) of streams of scores, one after the other."""
    k, n = scores.shape
    found = np.empty((k, n))
    for i in range(n):
        u = drift.uniforms(np.arange(k), np.full(k, i))
        found[:, i] = drift.smoothed_ranks(scores[:, :i], scores[:, i], u)
    return found


def test_ranks_are_uniform_and_independent_even_with_ties():
    scores = np.random.default_rng(0).integers(4, size=(2000, 12)).astype(float)
    p = ranks(scores)
    assert kstest(p.ravel(), "uniform").pvalue > 0.001
    assert np.abs(np.corrcoef(p.T) - np.eye(12)).max() < 0.1


@pytest.mark.parametrize("guarded", [False, True])
def test_ville(guarded):
    """Of streams that do not drift at most a share delta is ever flagged."""
    p = np.random.default_rng(1).random((4000, 400))
    k = 4000
    wealth = np.zeros(k)
    shares = drift.fresh_shares()
    neighbours = drift.first_neighbours(np.ones(k))
    count = np.ones(k)
    most = wealth
    for i in range(400):
        wealth, shares = drift.bet(wealth, shares, p[:, i], count)
        most = np.maximum(most, wealth)
        if guarded and i:
            neighbours[:, 0] += drift.marks(p[:, i]) * drift.marks(p[:, i - 1])
            neighbours[:, 1] += 1
            count = drift.weights_of_rows(neighbours)
    for delta in (0.1, 0.01):
        assert np.sum(most >= -np.log(delta)) <= binom.ppf(0.999, k, delta)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.median(count) > 0.9  # independent rows count in full, or nearly


def test_marks_are_standardised_and_rows_alike_count_less():
    p = (np.arange(999) + 0.5) / 999
    assert drift.marks(p).mean() == pytest.approx(0, abs=1e-12)
    assert drift.marks(p).var() == pytest.approx(1)
    pairs = np.array([[-20.0, 100.0], [0.0, 100.0], [50.0, 100.0], [100.0, 100.0]])
    assert drift.weights_of_rows(pairs) == pytest.approx(
        [1, 1, 0.171573, 0.1], abs=1e-6
    )


def test_numbers_do_not_depend_on_company():
    codes = np.arange(50)
    counts = np.arange(50) % 7
    together = drift.uniforms(codes, counts)
    alone = [drift.uniforms(codes[[i]], counts[[i]])[0] for i in range(50)]
    assert together.tolist() == alone
    many = drift.uniforms(np.repeat(np.arange(100), 100), np.tile(np.arange(100), 100))
    assert kstest(many, "uniform").pvalue > 0.001
    assert len(np.unique(many)) == 10_000


def test_mean_wealth_survives_extremes():
    assert drift.log_mean_wealth(np.array([-np.inf, -np.inf])) == -np.inf
    assert drift.log_mean_wealth(np.array([900.0, 0.0])) == pytest.approx(
        900 - np.log(2)
    )


def test_the_first_row_counts_as_training_rows_do():
    counted = np.array([1.0, 0.7, 0.2, 0.1, 0.01, 3.0])
    weights = drift.weights_of_rows(drift.first_neighbours(counted))
    np.testing.assert_allclose(weights, [1.0, 0.7, 0.2, 0.1, 0.1, 1.0], rtol=1e-12)


def test_a_change_before_the_first_row_shows_beside_training_rows_only():
    """Rows that are alike from the first one on say nothing among themselves."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(8), 100)
    centres = 3.0 * rng.normal(size=(8, 4))
    rows = centres[codes] + rng.normal(size=(800, 4))
    model = IndependentOCKSR(metric="adaptive").fit(rows, task=codes)
    task = np.tile(np.arange(8), 40)
    moved = centres + 2.0 * rng.choice([-1.0, 1.0], size=(8, 4))
    later = moved[task] + rng.normal(size=(320, 4))
    monitor = Monitor(model)
    beside_new_rows = Monitor(model)
    beside_new_rows.state.log_wealth[:, 1] = -np.inf
    drift = monitor.update(later, task=task).drift
    assert set(task[drift].tolist()) == set(range(8))
    assert not beside_new_rows.update(later, task=task).drift.any()
