"""Scores on a scale on which tasks differ by a factor."""

import numpy as np
import pytest

from manyone.calibration.stretch import Stretch


@pytest.mark.parametrize("rest", [1e-3, 0.3, 3.0, np.inf])
def test_stretched_scores_keep_their_order_and_can_be_undone(rest):
    rng = np.random.default_rng(0)
    values = -np.sort(rng.uniform(-0.5, 1.5, 10_000))[::-1]
    values[:200] = np.nextafter(-1.0, -2.0)
    values[200:400] = np.nextafter(-1.0, 0.0)
    values.sort()
    stretch = Stretch(rest)
    stretched = stretch.scores(values)
    assert np.all(np.diff(stretched) >= 0.0)
    np.testing.assert_allclose(stretch.undone(stretched), values, rtol=1e-11)


def test_small_depths_are_scaled_and_large_ones_are_odds():
    small = np.array([1e-6, 2e-6])
    assert np.divide(*Stretch(0.3).depths(small)) == pytest.approx(0.5, rel=1e-5)
    near = np.array([0.9, 0.99])
    odds = near / (1.0 - near)
    np.testing.assert_allclose(Stretch(1e-9).depths(near), odds, rtol=1e-6)


def test_the_rest_follows_the_usual_row_and_counts():
    values = np.array([-0.9, -0.5, -0.1, np.nan, -7.0])
    weight = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    assert Stretch.of(values, weight).rest == pytest.approx(0.3 * 0.5)
    twice = Stretch.of(values, np.array([4.0, 1.0, 1.0, 1.0, 0.0]))
    assert twice.rest == pytest.approx(0.3 * 0.1)
    assert Stretch.of(np.full(3, -2.0), np.ones(3)).rest == 1e-3
    assert Stretch.of(np.full(3, np.nan), np.ones(3)).rest == np.inf
