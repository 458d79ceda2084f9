"""What is expected where a value is missing, beside the normal distribution."""

import numpy as np
from sklearn.covariance import empirical_covariance

from manyone.tables.gaps import completed, relations


def rows(n, share, seed=0):
    """Rows about 0 of four related columns, and with that share of them missing."""
    rng = np.random.default_rng(seed)
    mixing = np.array(
        [[1.0, 0, 0, 0], [2.0, 0.3, 0, 0], [-1.0, 0.2, 0.3, 0], [0, 0, 0.5, 1.0]]
    )
    X = rng.normal(size=(n, 4)) @ mixing.T
    return X, np.where(rng.random(X.shape) < share, np.nan, X), mixing @ mixing.T


def test_relations_of_rows_with_gaps_are_those_of_the_complete_rows():
    X, gaps, covariance = rows(20_000, 0.2)
    found = np.linalg.inv(relations(gaps, len(X)))
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(found / scale, covariance / scale, atol=0.03)
    complete = np.linalg.inv(relations(X, len(X)))
    np.testing.assert_allclose(
        complete, empirical_covariance(X, assume_centered=True), atol=0.01
    )


def test_missing_values_get_their_conditional_mean_whatever_is_missing():
    X, gaps, covariance = rows(50, 0.4, seed=1)
    lost = np.isnan(gaps)
    found = completed(gaps, lost, np.linalg.inv(covariance))
    for row, gap, line in zip(X, lost, found, strict=True):
        np.testing.assert_array_equal(line[~gap], row[~gap])
        known = covariance[np.ix_(~gap, ~gap)]
        expected = covariance[np.ix_(gap, ~gap)] @ np.linalg.solve(known, row[~gap])
        np.testing.assert_allclose(line[gap], expected, atol=1e-9)


def test_few_rows_and_columns_without_values_say_nothing():
    nothing = np.full((3, 4), np.nan)
    nothing[:, 0] = [1.0, -1.0, 0.0]
    precision = relations(nothing, 0)
    assert np.isfinite(precision).all()
    np.testing.assert_allclose(
        completed(nothing, np.isnan(nothing), precision)[:, 1:], 0.0
    )


def test_what_is_expected_of_a_row_does_not_depend_on_other_rows():
    """To the last bit: methods that iterate make much of it."""
    rng = np.random.default_rng(3)
    about = rng.normal(size=(40, 9))
    lost = rng.random(about.shape) < 0.3
    precision = np.linalg.inv(np.corrcoef(rng.normal(size=(20, 9)).T))
    expected = completed(about, lost, precision)
    for n in range(1, 40):
        rows = rng.permutation(40)[:n]
        again = completed(about[rows], lost[rows], precision)
        np.testing.assert_array_equal(again, expected[rows])
