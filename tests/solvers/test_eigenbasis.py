"""Left-out scores of models with a kernel over the outputs, against refits."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from manyone.solvers.eigenbasis import eigenbasis, left_out_scores_of_structure
from manyone.solvers.ridge import NotPositiveDefinite, left_out_rows, solve_ridge

ALPHA = 0.3


def problem(kernel, seed=0):
    """Kernel matrix, responses with outliers, weights, tasks (one of a single row)."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(4), [6, 5, 1, 4]))
    X = rng.normal(size=(4, 3))[codes] + rng.normal(size=(16, 3))
    R = np.eye(4)[codes]
    R[np.flatnonzero(codes == 0)[:2]] = 0.0
    return kernel(X), R, rng.integers(1, 3, 16).astype(float), codes


def responses_of_refit(K, R, L, weight):
    """Responses (n, T) from the n T x n T system."""
    root = np.sqrt(weight[weight > 0])
    used = weight > 0
    system = np.kron(L, root[:, None] * K[np.ix_(used, used)] * root)
    system += ALPHA * np.eye(len(system))
    solved = np.linalg.solve(system, (root[:, None] * R[used]).T.ravel())
    coef = root[:, None] * solved.reshape(len(L), -1).T @ L
    return K[:, used] @ coef


@pytest.mark.parametrize("kernel", [rbf_kernel, linear_kernel])
@pytest.mark.parametrize("rank", [0, 2, 4])
def test_left_out_scores_are_refits_with_the_structure_fixed(kernel, rank):
    K, R, weight, codes = problem(kernel)
    factor = np.random.default_rng(1).normal(size=(4, rank))
    L = factor @ factor.T
    values, vectors = eigenbasis(K.copy(), ALPHA, np.sqrt(weight))
    (scores, _), residual = left_out_scores_of_structure(
        values, vectors, R, L, ALPHA, weight, codes
    )
    outlier = ~R.any(axis=1)
    np.testing.assert_array_equal(np.isnan(scores), outlier)
    np.testing.assert_array_equal(np.isnan(residual), outlier)
    full = responses_of_refit(K, R, L, weight)
    for i in np.flatnonzero(~outlier):
        t = codes[i]
        assert residual[i] == pytest.approx(1 - full[i, t], abs=1e-10)
        fewer = weight.copy()
        fewer[i] -= 1
        response = responses_of_refit(K, R, L, fewer)[:, t]
        left = fewer * R[:, t]
        mean = left @ response / left.sum() if left.any() else full[i, t]
        mean_of_all = np.average(full[:, t], weights=weight * R[:, t])
        # In units of the mean response of each model, where that is the smaller one.
        unit = max(mean_of_all / mean, 1.0) if mean_of_all > 0 else 1.0
        assert scores[i] == pytest.approx(-unit * abs(response[i] - mean), abs=1e-9)


def test_an_identity_structure_is_ridge_regression():
    K, R, weight, codes = problem(rbf_kernel, seed=1)
    values, vectors = eigenbasis(K.copy(), ALPHA, np.sqrt(weight))
    (scores, responses), residual = left_out_scores_of_structure(
        values, vectors, R, np.eye(4), ALPHA, weight, codes
    )
    solution = solve_ridge(K, R, ALPHA, weight)
    normal = np.flatnonzero(R.any(axis=1))
    expected = (solution.coef * (ALPHA / weight)[:, None])[normal, codes[normal]]
    np.testing.assert_allclose(residual[normal], expected, atol=1e-12)
    left_out = expected / solution.one_minus_leverage[normal]
    total = weight @ R
    mean = 1.0 - weight[normal] @ (R[normal] * expected[:, None]) / total
    task = codes[normal]
    moved = left_out * expected
    sums = total[task], mean[task]
    plain = left_out_rows(
        expected, left_out, moved, weight[normal], *sums, structure_fixed=True
    )
    np.testing.assert_allclose(scores[normal], plain.scores, atol=1e-11)
    np.testing.assert_allclose(responses[normal], plain.responses, atol=1e-11)


def test_eigenbasis_keeps_what_double_precision_tells_from_zero():
    X = np.random.default_rng(0).normal(size=(12, 3))
    root = np.sqrt(np.arange(1.0, 13.0))
    values, vectors = eigenbasis(linear_kernel(X), 0.1, root)
    assert values.shape == (3,) and vectors.shape == (12, 3)
    expected = root[:, None] * linear_kernel(X) * root
    np.testing.assert_allclose((vectors * values) @ vectors.T, expected, atol=1e-10)
    assert eigenbasis(np.zeros((4, 4)), 0.1, np.ones(4))[1].shape == (4, 0)


@pytest.mark.parametrize("value", [-0.2, np.nan, np.inf])
def test_matrices_that_the_ridge_cannot_mend_are_refused(value):
    K = np.diag([1.0, 1.0, value])
    with pytest.raises(
        NotPositiveDefinite, match=r"alpha=0\.1 is not positive definite"
    ):
        eigenbasis(K, 0.1, np.ones(3))
