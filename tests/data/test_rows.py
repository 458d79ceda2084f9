"""Numbers for the content of rows."""

import tracemalloc

import numpy as np
import pytest
import sklearn

from manyone.data.rows import row_numbers


@pytest.mark.parametrize("n", [0, 1, 2, 400])
def test_equal_rows_and_only_these_share_a_number(n):
    rng = np.random.default_rng(n)
    X = rng.integers(-1, 2, (n, 3)) * np.where(rng.random((n, 3)) < 0.5, -1.0, 1.0)
    with sklearn.config_context(working_memory=0.001):
        numbers = row_numbers(X)
    same = (X[:, None] == X).all(axis=2)
    np.testing.assert_array_equal(numbers[:, None] == numbers, same)
    assert set(numbers) == set(range(len(set(numbers))))


def test_numbers_take_one_more_copy_of_the_rows():
    X = np.random.default_rng(0).normal(size=(100_000, 32))
    tracemalloc.start()
    try:
        row_numbers(X)
        assert tracemalloc.get_traced_memory()[1] < 2 * X.nbytes
    finally:
        tracemalloc.stop()
