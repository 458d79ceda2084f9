"""Bets on ranks: uniform ranks, fair odds, Ville's inequality."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, kstest

from manyone.monitor import martingale


@pytest.mark.parametrize("number", range(martingale.BETS))
def test_bets_are_fair(number):
    assert quad(lambda p: martingale.bets(np.array([p]))[0, number], 0, 1)[0] == pytest.approx(1)


def ranks(scores):
    """Ranks (k, n) of streams of scores, one after the other."""
    k, n = scores.shape
    found = np.empty((k, n))
    for i in range(n):
        u = martingale.uniforms(0, np.arange(k), np.full(k, i))
        found[:, i] = martingale.smoothed_ranks(scores[:, :i], scores[:, i], u)
    return found


def test_ranks_are_uniform_and_independent_even_with_ties():
    scores = np.random.default_rng(0).integers(4, size=(2000, 12)).astype(float)
    p = ranks(scores)
    assert kstest(p.ravel(), "uniform").pvalue > 0.001
    assert np.abs(np.corrcoef(p.T) - np.eye(12)).max() < 0.1


def test_ville():
    """Of streams that do not drift at most a share delta is ever flagged."""
    p = np.random.default_rng(1).random((4000, 400))
    wealth, shares = np.zeros(4000), martingale.fresh_shares(4000)
    most = wealth
    for i in range(400):
        wealth, shares = martingale.bet(wealth, shares, p[:, i])
        most = np.maximum(most, wealth)
    for delta in (0.1, 0.01):
        assert np.sum(most >= -np.log(delta)) <= binom.ppf(0.999, 4000, delta)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_numbers_do_not_depend_on_company():
    codes, counts = np.arange(50), np.arange(50) % 7
    together = martingale.uniforms(3, codes, counts)
    alone = [martingale.uniforms(3, codes[[i]], counts[[i]])[0] for i in range(50)]
    assert together.tolist() == alone
    many = martingale.uniforms(0, np.repeat(np.arange(100), 100), np.tile(np.arange(100), 100))
    assert kstest(many, "uniform").pvalue > 0.001
    assert len(np.unique(many)) == 10_000


def test_mean_wealth_survives_extremes():
    assert martingale.log_mean_wealth(np.array([-np.inf, -np.inf])) == -np.inf
    assert martingale.log_mean_wealth(np.array([900.0, 0.0])) == pytest.approx(900 - np.log(2))
