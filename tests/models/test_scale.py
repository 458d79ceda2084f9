"""Scores on a scale on which tasks differ by a factor."""

import numpy as np
import pytest

from manyone.models.scale import Scale, bend_of, stretched, unstretched


@pytest.mark.parametrize("bend", [0.0, 0.3, 0.8, 0.999])
def test_stretched_scores_keep_their_order_and_can_be_undone(bend):
    rng = np.random.default_rng(0)
    values = -np.sort(rng.uniform(-0.5, 1.5, 10_000))[::-1]
    values[:200] = np.nextafter(-1.0, -2.0)
    values[200:400] = np.nextafter(-1.0, 0.0)
    values.sort()
    found = stretched(values, bend)
    assert np.all(np.diff(found) >= 0.0)
    np.testing.assert_allclose(unstretched(found, bend), values, rtol=1e-11)


def test_small_depths_are_scaled_and_large_ones_are_odds():
    small = np.array([1e-6, 2e-6])
    assert np.divide(*stretched(-small, 0.8)) == pytest.approx(0.5, rel=1e-5)
    near = np.array([0.9, 0.99])
    odds = near / (1.0 - near)
    np.testing.assert_allclose(stretched(-near, 1.0), -odds, rtol=1e-12)


def test_the_bend_follows_the_usual_row_and_counts():
    values = np.array([-0.9, -0.5, -0.1, np.nan, -7.0])
    weight = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    assert bend_of(values, weight) == pytest.approx(1.0 / (1.0 + 0.3 * 0.5))
    heavy = np.array([4.0, 1.0, 1.0, 1.0, 0.0])
    assert bend_of(values, heavy) == pytest.approx(1.0 / (1.0 + 0.3 * 0.1))
    assert bend_of(np.full(3, -2.0), np.ones(3)) == 0.98
    assert bend_of(np.full(3, np.nan), np.ones(3)) == 0.0


def test_a_scale_goes_both_ways_and_knows_every_task():
    rng = np.random.default_rng(0)
    parts = rng.uniform(0.2, 0.9, size=(3, 4))
    scale = Scale(*parts)
    scores = -rng.uniform(0.0, 2.0, size=(7, 4))
    of_all = scale.of_all(scores)
    for task in range(4):
        codes = np.full(7, task)
        np.testing.assert_array_equal(of_all[:, task], scale.of(scores[:, task], codes))
        undone = scale.undone(of_all[:, task], task)
        np.testing.assert_allclose(undone, scores[:, task], rtol=1e-12)
    half = Scale(*parts[:, :2]).joined(Scale(*parts[:, 2:]))
    np.testing.assert_array_equal(half.of_all(scores), of_all)
