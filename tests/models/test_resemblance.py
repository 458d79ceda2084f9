"""Who looks like whom, found in parts."""

import numpy as np

from manyone.models.resemblance import Resemblance


def test_entries_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    one = Resemblance(rng.normal(size=(5, 7)), rng.normal(size=(7, 5)))
    whole = one.matrix()
    a, b = np.nonzero(~np.eye(7, dtype=bool))
    np.testing.assert_allclose(one.entries(a, b), whole[a, b])


def test_strongest_entries_are_found_where_tasks_share_landmarks():
    """Tasks on a line, a landmark between any two: neighbours look alike, all else is nothing."""
    T = 40
    place = np.arange(T)
    landmarks = np.arange(T - 1) + 0.5
    near = np.exp(-4.0 * (place[:, None] - landmarks) ** 2)
    one = Resemblance(near.T, near)
    lines, columns = one.strongest(2)
    strength = np.abs(one.matrix())
    np.fill_diagonal(strength, -1.0)
    expected = np.sort(np.argsort(-strength, axis=1)[:, :2], axis=1)
    assert np.bincount(lines, minlength=T).tolist() == [2] * T
    inner = slice(1, T - 1)  # those at the ends have one neighbour
    found = np.sort(columns.reshape(T, 2), axis=1)
    np.testing.assert_array_equal(found[inner], expected[inner])


def test_pairs_are_of_different_tasks_and_named_once():
    rng = np.random.default_rng(1)
    one = Resemblance(rng.normal(size=(3, 4)), rng.normal(size=(4, 3)))
    pairs = one.strongest(5)
    assert np.all(pairs[0] != pairs[1])
    assert len(np.unique(pairs, axis=1).T) == len(pairs.T)
