"""Closed forms against refits, other solvers and definitions."""

import numpy as np
import pytest
from scipy.linalg import solve
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

from manyone.kernels import resolve_kernel
from manyone.kernels.kernel import kernel_grams
from manyone.solvers import ridge as ridge_module
from manyone.solvers.ridge import (
    NotPositiveDefinite,
    effective_alpha,
    inverse_diagonal,
    left_out_rows,
    primal_weights,
    solve_ridge,
    solve_ridge_stack,
)


def leave_one_out(residual, kept, weight, codes, n_tasks):
    """In one ridge regression, a row that leaves moves the product of residuals."""
    left_out = residual / kept
    moved = left_out * residual
    total = np.bincount(codes, weight, n_tasks)
    mean = 1.0 - np.bincount(codes, weight * residual, n_tasks) / total
    return left_out_rows(residual, left_out, moved, weight, total[codes], mean[codes])


def problem(n, T=3, seed=0, kernel="rbf", weights=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    codes = np.arange(n) % T
    weight = rng.integers(1, 4, n).astype(float) if weights else np.ones(n)
    K = resolve_kernel(kernel, np.abs(X), weight=weight).gram(np.abs(X))
    return X, K, np.eye(T)[codes], codes, weight


@pytest.mark.parametrize("alpha", 10.0 ** np.array([-8, -6, -4, -2, 0, 1, 3]))
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("n", [1, 2, 30, 200])
def test_solves_the_normal_equations(alpha, kernel, n):
    _, K, R, _, weight = problem(n, T=1 if n == 1 else 2, kernel=kernel)
    coef = solve_ridge(K, R, alpha, weight).coef
    residual = (K + alpha * np.diag(1 / weight)) @ coef - R
    assert np.abs(residual).max() <= 1e-10 * max(
        1.0, np.abs(K).max() * np.abs(coef).max()
    )


def test_equals_scipy_kernel_ridge_and_gaussian_process():
    X, K, R, _, _ = problem(60, weights=False)
    weight = np.ones(60)
    coef = solve_ridge(K, R, 0.1, weight).coef
    np.testing.assert_allclose(
        coef, solve(K + 0.1 * np.eye(60), R, assume_a="pos"), rtol=1e-9
    )
    rivals = KernelRidge(alpha=0.1, kernel="precomputed").fit(K, R)
    np.testing.assert_allclose(coef, rivals.dual_coef_, rtol=1e-9)
    process = GaussianProcessRegressor(RBF(1.3, "fixed"), alpha=0.1).fit(X, R)
    gram = resolve_kernel("rbf", X, gamma=1 / (2 * 1.3**2)).gram(X)
    np.testing.assert_allclose(
        gram @ solve_ridge(gram, R, 0.1, weight).coef, process.predict(X)
    )


def test_weights_are_counts():
    _, K, R, _, weight = problem(25)
    again = np.repeat(np.arange(25), weight.astype(int))
    repeated = solve_ridge(K[np.ix_(again, again)], R[again], 0.3, np.ones(len(again)))
    weighted = solve_ridge(K, R, 0.3, weight)
    np.testing.assert_allclose(
        K[:, again] @ repeated.coef, K @ weighted.coef, atol=1e-12
    )
    np.testing.assert_allclose(
        repeated.one_minus_leverage, weighted.one_minus_leverage[again], atol=1e-12
    )


@pytest.mark.parametrize("block", [3, 512])
def test_inverse_diagonal_in_any_block_size(monkeypatch, block):
    monkeypatch.setattr(ridge_module, "BLOCK", block)
    _, K, R, _, weight = problem(40)
    L = solve_ridge(K, R, 0.1, weight).factor
    inverse = np.linalg.inv(np.tril(L) @ np.tril(L).T)
    np.testing.assert_allclose(inverse_diagonal(L), np.diag(inverse), rtol=1e-9)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_leave_one_out_scores_equal_refits(alpha):
    n = 31
    T = 3
    _, K, R, codes, weight = problem(n, T)
    weight[5] = 0.5
    solution = solve_ridge(K, R, alpha, weight)
    residual = (alpha * solution.coef / weight[:, None])[np.arange(n), codes]
    scores, responses = leave_one_out(
        residual, solution.one_minus_leverage, weight, codes, T
    )
    of_all = 1.0 - residual
    for i in range(n):
        left = weight.copy()
        left[i] = max(left[i] - 1, 0)
        kept = left > 0
        a = np.linalg.solve(
            K[np.ix_(kept, kept)] + alpha * np.diag(1 / left[kept]), R[kept]
        )
        response = K[:, kept] @ a[:, codes[i]]
        mates = kept & (codes == codes[i])
        mean = np.average(response[mates], weights=left[mates])
        task = codes == codes[i]
        mean_of_all = np.average(of_all[task], weights=weight[task])
        # In units of the mean response of each model.
        assert responses[i, 0] == pytest.approx(response[i] / mean, abs=1e-8)
        expected = -abs(response[i] / mean - 1.0) * mean_of_all
        assert scores[i] == pytest.approx(expected, abs=1e-8)


def test_only_row_of_a_task_falls_back_on_the_full_mean():
    _, K, _, _, weight = problem(6, weights=False)
    codes = np.array([0, 0, 0, 0, 0, 1])
    R = np.eye(2)[codes]
    solution = solve_ridge(K, R, 0.1, weight)
    residual = (0.1 * solution.coef)[np.arange(6), codes]
    scores = leave_one_out(
        residual, solution.one_minus_leverage, weight, codes, 2
    ).scores
    a = np.linalg.solve(K[:5, :5] + 0.1 * np.eye(5), R[:5])
    assert scores[5] == pytest.approx(
        -abs((K[5, :5] @ a)[1] - (1 - residual[5])), abs=1e-10
    )


@pytest.mark.parametrize("size", [1, 2, 20, 64, 65, 90])
def test_batches_equal_single_problems(size):
    rng = np.random.default_rng(size)
    X = rng.normal(size=(3, size, 2))
    weight = rng.uniform(0.5, 3, size=(3, size))
    r = rng.integers(0, 2, size=(3, size)).astype(float)
    K = kernel_grams(resolve_kernel("rbf", X.reshape(-1, 2)), X)
    coef, kept = solve_ridge_stack(K.copy(), r, 0.05, weight)
    for g in range(3):
        single = solve_ridge(K[g], r[g][:, None], 0.05, weight[g])
        np.testing.assert_allclose(coef[g], single.coef[:, 0], atol=1e-10)
        np.testing.assert_allclose(kept[g], single.one_minus_leverage, atol=1e-12)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_part_of_a_matrix_may_be_given(overwrite):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 9))
    K = A @ A.T
    R = rng.normal(size=(7, 2))
    expected = np.linalg.solve(K[2:, 2:] + 0.5 * np.eye(7), R)
    part = K.copy()[2:, 2:]
    found = solve_ridge(part, R, 0.5, np.ones(7), overwrite=overwrite).coef
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_primal_equals_dual():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(40, 6))
    _, _, R, _, weight = problem(40)
    W = primal_weights(Phi, R, 0.3, weight)
    dual = solve_ridge(Phi @ Phi.T, R, 0.3, weight)
    np.testing.assert_allclose(W, Phi.T @ dual.coef, atol=1e-10)


def test_indefinite_matrices_are_named():
    K = np.diag([1.0, -0.5])
    with pytest.raises(NotPositiveDefinite, match="is not positive definite"):
        solve_ridge(K, np.eye(2), 0.1, np.ones(2))
    solve_ridge(K, np.eye(2), 0.6, np.ones(2))
    with pytest.raises(NotPositiveDefinite, match="is not positive definite"):
        solve_ridge_stack(K[None].copy(), np.ones((1, 2)), 0.1, np.ones((1, 2)))


def test_extreme_ridges_stay_within_double_precision():
    assert effective_alpha(0.1, 50.0) == 0.1
    assert 0 < effective_alpha(0.0, 50.0) < 1e-10
    assert np.isfinite(effective_alpha(1e300, 50.0))
    # Duplicated rows: the smallest ridge still interpolates what can be interpolated.
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 3, axis=0)
    K = resolve_kernel("rbf", X).gram(X)
    coef = solve_ridge(
        K, np.ones((30, 1)), effective_alpha(0.0, 30.0), np.ones(30)
    ).coef
    np.testing.assert_allclose(K @ coef, 1.0, atol=1e-6)
