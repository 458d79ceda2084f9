import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh, solve
from scipy.optimize import approx_fprime
from sklearn.metrics.pairwise import rbf_kernel

from manyone.solvers.output_kernel import (
    _descend,
    _point,
    leave_one_out_residuals,
    output_kernel,
)


def problem(seed=0, n_tasks=4, size=6, d=5):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_tasks, d))
    X = np.repeat(centres, size, axis=0) + rng.normal(size=(n_tasks * size, d))
    return rbf_kernel(X, gamma=0.1), np.repeat(np.eye(n_tasks), size, axis=0)


def objective(K, Y, ridge, L, C):
    fit = np.sum((Y - K @ C @ L) ** 2) / (2 * ridge)
    return fit + np.trace(C.T @ K @ C @ L) / 2 + np.sum(L**2) / 2


def best_coef(K, Y, ridge, L):
    """C from the T n x T n system: only for small problems."""
    n, T = Y.shape
    system = np.kron(K, L.T) + ridge * np.eye(n * T)
    return np.linalg.solve(system, Y.ravel()).reshape(n, T)


def alternate(K, Y, ridge, n_iter):
    """Plain block coordinate descent, both blocks exact."""
    L = np.eye(Y.shape[1])
    for _ in range(n_iter):
        C = best_coef(K, Y, ridge, L)
        E = K @ C
        moments, U = eigh(E.T @ E)
        right = E.T @ E @ L + L @ E.T @ E + ridge * E.T @ C
        L = U @ (U.T @ right @ U / (moments[:, None] + moments + 2 * ridge)) @ U.T
    return L


@pytest.mark.parametrize("ridge", [1e-3, 1e-2, 0.1, 1.0, 30.0])
def test_optimality_and_monotone_descent(ridge):
    K, Y = problem()
    solution = output_kernel(K, Y, ridge)
    L, C = solution.structure, solution.coef
    assert solution.converged
    path = solution.objective_path
    assert np.all(np.diff(path) <= 1e-13 * path[0])
    assert solution.n_iter == len(solution.objective_path) - 1 < 30
    assert solution.objective_path[-1] == pytest.approx(objective(K, Y, ridge, L, C), rel=1e-10)
    np.testing.assert_allclose(L, C.T @ K @ C / 2, atol=1e-6)
    np.testing.assert_allclose(L, L.T, atol=1e-14)
    assert np.linalg.eigvalsh(L)[0] >= -1e-12
    np.testing.assert_allclose(K @ C @ L + ridge * C, Y, atol=1e-10)
    np.testing.assert_allclose(C, best_coef(K, Y, ridge, L), atol=1e-6)


def test_gradient_vanishes_by_finite_differences():
    K, Y = problem(1, n_tasks=3, size=4)
    ridge = 0.3
    solution = output_kernel(K, Y, ridge, tol=1e-12)

    def in_structure(flat):
        L = flat.reshape(3, 3)
        return objective(K, Y, ridge, (L + L.T) / 2, solution.coef)

    def in_coef(flat):
        return objective(K, Y, ridge, solution.structure, flat.reshape(Y.shape))

    for function, at in ((in_structure, solution.structure), (in_coef, solution.coef)):
        assert np.abs(approx_fprime(at.ravel(), function, 1e-6)).max() < 1e-4
        moved = approx_fprime(at.ravel() * 1.1, function, 1e-6)
        assert np.abs(moved).max() > 1e-2


def test_equals_block_coordinate_descent():
    K, Y = problem(2)
    reference = alternate(K, Y, 0.5, 800)
    np.testing.assert_allclose(output_kernel(K, Y, 0.5).structure, reference, atol=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_no_structure_nearby_or_far_is_better(seed):
    rng = np.random.default_rng(seed)
    K, Y = problem(seed, n_tasks=3, size=4)
    Y = Y + rng.normal(size=Y.shape)
    solution = output_kernel(K, Y, 0.2)
    for scale in (1e-3, 0.1, 1.0, 10.0):
        factor = rng.normal(size=(3, 3)) * np.sqrt(scale)
        for L in (factor @ factor.T, solution.structure + factor @ factor.T):
            other = objective(K, Y, 0.2, L, best_coef(K, Y, 0.2, L))
            assert other >= solution.objective_path[-1] - 1e-10


@pytest.mark.parametrize("start", [np.zeros((4, 4)), 1e4 * np.eye(4), np.ones((4, 4))])
def test_any_start_reaches_the_same_optimum(start):
    K, Y = problem(3)
    expected = output_kernel(K, Y, 0.1)
    solution = output_kernel(K, Y, 0.1, start=start)
    assert solution.converged
    np.testing.assert_allclose(solution.structure, expected.structure, atol=1e-7)


def test_warm_start_and_eigenpairs_save_work_and_change_nothing():
    K, Y = problem(4)
    eigen = eigh(K)
    previous = output_kernel(K, Y, 0.11, eigen=eigen)
    warm = output_kernel(K, Y, 0.1, start=previous.structure, eigen=eigen)
    cold = output_kernel(K, Y, 0.1)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.structure, cold.structure, atol=1e-7)


def test_unused_and_repeated_outputs_leave_a_singular_structure():
    K, Y = problem(5)
    Y = np.column_stack([Y, np.zeros(len(Y)), Y[:, 0]])
    solution = output_kernel(K, Y, 0.1)
    assert solution.converged
    np.testing.assert_allclose(solution.structure[4], 0, atol=1e-9)
    np.testing.assert_allclose(solution.structure[5], solution.structure[0], atol=1e-7)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_converges_whatever_the_scale_of_the_kernel(scale):
    K, Y = problem(6)
    solution = output_kernel(scale * K, Y, 0.1)
    assert solution.converged
    expected = solution.coef.T @ (scale * K) @ solution.coef / 2
    np.testing.assert_allclose(solution.structure, expected, atol=1e-6 * np.abs(expected).max())


def test_single_row_single_task():
    solution = output_kernel(np.array([[2.0]]), np.array([[1.0]]), 0.5)
    level = solution.structure[0, 0]
    assert solution.converged
    assert level == pytest.approx((1 / (2 * level + 0.5)) ** 2)


def test_steps_that_overshoot_are_halved():
    K, Y = problem(6)
    values, vectors = eigh(K)
    spectrum, rotated = values[:, None], vectors.T @ Y
    point = _point(np.eye(4), spectrum, rotated, 0.1)
    gradient = np.diag(point.levels) - point.coef.T @ (spectrum * point.coef) / 2
    moved = _descend(point, gradient, -1e3 * gradient, spectrum, rotated, 0.1)
    assert moved.objective < point.objective
    assert moved.levels.min() >= 0


def test_too_few_iterations_are_reported():
    K, Y = problem()
    solution = output_kernel(K, Y, 1e-3, max_iter=1)
    assert not solution.converged
    assert solution.n_iter == 1


def test_leave_one_out_residuals_equal_refits():
    K, Y = problem(7)
    ridge = 0.2
    L = output_kernel(K, Y, ridge).structure
    residuals = leave_one_out_residuals(K, Y, L, ridge)
    again = leave_one_out_residuals(K, Y, L, ridge, eigen=eigh(K))
    np.testing.assert_allclose(residuals, again, atol=1e-12)
    for i in range(len(K)):
        rest = np.delete(np.arange(len(K)), i)
        C = best_coef(K[np.ix_(rest, rest)], Y[rest], ridge, L)
        np.testing.assert_allclose(residuals[i], Y[i] - K[i, rest] @ C @ L, atol=1e-10)


def test_leave_one_out_with_an_identity_structure_is_kernel_ridge():
    K, Y = problem(8)
    inverse = solve(K + 0.3 * np.eye(len(K)), np.eye(len(K)), assume_a="pos")
    expected = inverse @ Y / np.diag(inverse)[:, None]
    np.testing.assert_allclose(leave_one_out_residuals(K, Y, np.eye(4), 0.3), expected, atol=1e-12)


def test_leave_one_out_without_structure_predicts_nothing():
    K, Y = problem(9)
    residuals = leave_one_out_residuals(K, Y, np.zeros((4, 4)), 0.3)
    np.testing.assert_allclose(residuals, Y, atol=1e-12)
