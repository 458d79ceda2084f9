"""Who looks like whom, found in parts."""

import numpy as np

from manyone.models.resemblance import Resemblance


def test_lines_and_entries_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    one = Resemblance(
        rng.normal(size=(5, 7)), rng.normal(size=(7, 5)), rng.uniform(size=7), np.arange(7) + 3.0
    )
    whole = one.matrix()
    expected = one.values @ one.coef / one.counts[:, None]
    np.testing.assert_allclose(whole, expected + np.diag(1.0 - one.mass / one.counts))
    np.testing.assert_allclose(one.lines(slice(2, 5)), whole[2:5])
    a, b = np.nonzero(~np.eye(7, dtype=bool))
    np.testing.assert_allclose(one.entries(a, b), whole[a, b])
