import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh
from scipy.optimize import approx_fprime
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from manyone.solvers.eigenbasis import eigenbasis
from manyone.solvers.output_kernel import _line_minimum, solve_output_kernel


def rows(seed=0, n_tasks=4, size=6, d=5):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_tasks, d))
    X = np.repeat(centres, size, axis=0) + rng.normal(size=(n_tasks * size, d))
    return X, np.repeat(np.eye(n_tasks), size, axis=0)


def problem(seed=0, n_tasks=4, size=6, d=5):
    X, Y = rows(seed, n_tasks, size, d)
    return rbf_kernel(X, gamma=0.1), Y


def solve(K, Y, ridge, **options):
    return solve_output_kernel(
        *eigenbasis(K.copy(), ridge, np.ones(len(K))), Y, ridge, **options
    )


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


@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 1e-2, 0.1, 1.0, 30.0])
def test_optimality_and_monotone_descent(ridge):
    K, Y = problem()
    solution = solve(K, Y, ridge)
    L = solution.structure
    C = solution.coef
    assert solution.converged
    assert np.all(np.diff(solution.objective_path) <= 0)
    assert solution.n_iter == len(solution.objective_path) - 1 < 12
    np.testing.assert_allclose(L, C.T @ K @ C / 2, atol=1e-9)
    np.testing.assert_allclose(L, L.T, atol=1e-14)
    assert np.linalg.eigvalsh(L)[0] >= -1e-12
    np.testing.assert_allclose(K @ C @ L + ridge * C, Y, atol=1e-10)
    if ridge >= 1e-3:  # the sum of squares over a tiny ridge has no digits left
        attained = objective(K, Y, ridge, L, C)
        assert solution.objective_path[-1] == pytest.approx(attained, rel=1e-10)
        np.testing.assert_allclose(C, best_coef(K, Y, ridge, L), atol=1e-6)


def test_gradient_vanishes_by_finite_differences():
    K, Y = problem(1, n_tasks=3, size=4)
    ridge = 0.3
    solution = solve(K, Y, ridge)

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
    np.testing.assert_allclose(solve(K, Y, 0.5).structure, reference, atol=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_no_structure_nearby_or_far_is_better(seed):
    rng = np.random.default_rng(seed)
    K, Y = problem(seed, n_tasks=3, size=4)
    Y = Y + rng.normal(size=Y.shape)
    solution = solve(K, Y, 0.2)
    for scale in (1e-3, 0.1, 1.0, 10.0):
        factor = rng.normal(size=(3, 3)) * np.sqrt(scale)
        for L in (factor @ factor.T, solution.structure + factor @ factor.T):
            value = objective(K, Y, 0.2, L, best_coef(K, Y, 0.2, L))
            assert value >= solution.objective_path[-1] - 1e-9


@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.sampled_from([1e-3, 1.0, 30.0]),
    st.sampled_from([linear_kernel, rbf_kernel]),
)
@settings(max_examples=60, deadline=None)
def test_order_does_not_matter_also_where_the_kernel_is_singular(
    seed, d, ridge, kernel
):
    """With fewer features than tasks L is singular, and responses are missed."""
    X, Y = rows(seed, n_tasks=5, size=4, d=d)
    X[3] = X[11]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    tasks = rng.permutation(5)
    K = kernel(X)
    plain = solve(K, Y, ridge)
    moved = solve(K[np.ix_(order, order)], Y[np.ix_(order, tasks)], ridge)
    assert plain.converged and moved.converged
    assert plain.n_iter < 15
    fitted = K @ plain.coef @ plain.structure
    again = K[np.ix_(order, order)] @ moved.coef @ moved.structure
    np.testing.assert_allclose(again, fitted[np.ix_(order, tasks)], atol=1e-9)
    np.testing.assert_allclose(
        moved.structure, plain.structure[np.ix_(tasks, tasks)], atol=1e-8
    )


def test_unused_and_repeated_outputs_leave_a_singular_structure():
    K, Y = problem(5)
    Y = np.column_stack([Y, np.zeros(len(Y)), Y[:, 0]])
    solution = solve(K, Y, 0.1)
    assert solution.converged
    np.testing.assert_allclose(solution.structure[4], 0, atol=1e-12)
    np.testing.assert_allclose(solution.structure[5], solution.structure[0], atol=1e-12)


@given(
    st.integers(0, 10_000),
    st.sampled_from([1e-5, 1e-3, 0.1]),
    st.sampled_from([0.05, 0.5]),
)
@example(
    9913, 1e-5, 0.05
)  # a right side of the Newton equation far larger than the gradient
@example(7650, 1e-5, 0.5)  # a direction of the outputs of length 1e-7 that rows do tell
@settings(max_examples=60, deadline=None)
def test_a_task_given_twice_is_the_same_task_twice(seed, ridge, gamma):
    """Directions of outputs that copies make by rounding do not lead astray."""
    X, Y = rows(seed, n_tasks=2, size=4, d=1)
    K = rbf_kernel(np.vstack([X, X]), gamma=gamma)
    solution = solve(K, np.block([[Y, 0 * Y], [0 * Y, Y]]), ridge)
    assert solution.converged and solution.n_iter <= 25
    fitted, twin = np.split(K @ solution.coef @ solution.structure, 2, axis=1)
    np.testing.assert_allclose(twin, fitted, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_converges_whatever_the_scale_of_the_kernel(scale):
    K, Y = problem(6)
    solution = solve(scale * K, Y, 0.1)
    assert solution.converged
    expected = solution.coef.T @ (scale * K) @ solution.coef / 2
    np.testing.assert_allclose(
        solution.structure, expected, atol=1e-9 * np.abs(expected).max()
    )


def test_single_row_single_task_and_nothing_to_fit():
    solution = solve(np.array([[2.0]]), np.array([[1.0]]), 0.5)
    value = solution.structure[0, 0]
    assert solution.converged
    assert value == pytest.approx((1 / (2 * value + 0.5)) ** 2)
    K, Y = problem(3)
    for nothing in (solve(K, 0.0 * Y, 0.5), solve(0.0 * K, Y, 0.5)):
        assert nothing.converged
        assert not nothing.structure.any()
    np.testing.assert_allclose(nothing.coef, Y / 0.5)


def test_steps_end_where_the_dual_is_smallest():
    rng = np.random.default_rng(0)
    spectrum = rng.uniform(0.1, 3.0, size=(9, 1))
    Y = rng.normal(size=(9, 3))
    C, step = rng.normal(size=(2, 9, 3))
    values, rotation = eigh(C.T @ (spectrum * C) / 2)
    C = C @ rotation
    Y = Y @ rotation

    def dual(length):
        moved = C + length * step
        quartic = np.sum((moved.T @ (spectrum * moved)) ** 2) / 8
        return 0.2 * np.sum(moved**2) / 2 + quartic - np.sum(Y * moved)

    gradient = (spectrum * values + 0.2) * C - Y
    step *= -np.sign(np.vdot(gradient, step))
    length = _line_minimum(gradient, step, C, values, spectrum, 0.2)
    assert length > 0
    assert dual(length) <= min(dual(c * length) for c in (0.0, 0.99, 1.01, 2.0))


def test_too_few_iterations_are_reported():
    K, Y = problem()
    solution = solve(K, Y, 1e-3, max_iter=1)
    assert not solution.converged
    assert solution.n_iter == 1
