import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import OneClassSVM

from manyone.solvers.box_qp import Infeasible
from manyone.solvers.task_svm import solve_task_svm, task_kernel


def problem(seed=0, sizes=(8, 12, 5), d=3):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(sizes), d))[task] + rng.normal(size=(sum(sizes), d))
    order = rng.permutation(len(task))
    return X[order], task[order]


def bounds(task, nu):
    return 1.0 / (nu * np.bincount(task))[task]


def reference(G, task, upper):
    values, vectors = np.linalg.eigh(G)
    factor = vectors * np.sqrt(np.clip(values, 0, None))
    a = cp.Variable(len(G), nonneg=True)
    sums = [a @ (task == t).astype(float) == 1 for t in np.unique(task)]
    program = cp.Problem(
        cp.Minimize(cp.sum_squares(factor.T @ a) / 2), [a <= upper, *sums]
    )
    program.solve(
        solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    return program.value


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("kernel", [rbf_kernel, linear_kernel])
def test_dual_equals_cvxpy_and_satisfies_kkt(mu, nu, kernel):
    X, task = problem(int(100 * nu))
    K = kernel(X)
    upper = bounds(task, nu)
    G = task_kernel(K, task, task, mu)
    solution = solve_task_svm(K, task, mu, upper)
    scale = G.diagonal().max()
    assert solution.converged
    assert solution.gap <= 1e-8 * scale
    assert np.all((solution.coef >= 0) & (solution.coef <= upper))
    np.testing.assert_allclose(np.bincount(task, solution.coef), 1, rtol=1e-12)
    assert solution.objective == pytest.approx(
        reference(G, task, upper), rel=1e-6, abs=1e-6
    )
    margin = (G @ solution.coef - solution.offset[task]) / scale
    assert np.all(margin[solution.coef == 0] >= -1e-7)
    assert np.all(margin[solution.coef == upper] <= 1e-7)
    assert np.all(np.abs(margin[(solution.coef > 0) & (solution.coef < upper)]) <= 1e-7)
    np.testing.assert_array_equal(solution.support, solution.coef > 0)


def test_primal_value_equals_dual_value():
    X, task = problem(1)
    K = rbf_kernel(X)
    upper = bounds(task, 0.3)
    mu = 0.7
    solution = solve_task_svm(K, task, mu, upper)
    parts = [np.where(task == t, solution.coef, 0.0) for t in range(3)]
    common = sum(parts) / mu
    scores = np.array([K @ (common + parts[t]) for t in range(3)])[
        task, np.arange(len(task))
    ]
    slack = np.clip(solution.offset[task] - scores, 0, None)
    norms = mu * common @ K @ common + sum(v @ K @ v for v in parts)
    primal = norms / 2 - solution.offset.sum() + upper @ slack
    assert primal == pytest.approx(-solution.objective, abs=1e-7)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_dear_common_part_gives_independent_one_class_svms(nu):
    X, task = problem(2, sizes=(20, 30))
    K = rbf_kernel(X)
    decoupled = solve_task_svm(K, task, np.inf, bounds(task, nu))
    nearly = solve_task_svm(K, task, 1e9, bounds(task, nu))
    np.testing.assert_allclose(nearly.coef, decoupled.coef, atol=1e-6)
    for t in (0, 1):
        rows = task == t
        rival = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-10).fit(
            K[np.ix_(rows, rows)]
        )
        alone = np.zeros(rows.sum())
        alone[rival.support_] = rival.dual_coef_[0] / (nu * rows.sum())
        np.testing.assert_allclose(decoupled.coef[rows], alone, atol=1e-5)
        expected = -rival.intercept_[0] / (nu * rows.sum())
        assert decoupled.offset[t] == pytest.approx(expected, abs=1e-5)


def test_free_common_part_gives_one_pooled_function():
    X, task = problem(3)
    K = rbf_kernel(X)
    mu = 1e-6
    solution = solve_task_svm(K, task, mu, bounds(task, 0.3))
    G = task_kernel(K, task, task, mu)
    own, other = (
        mu * task_kernel(K, task, np.full(len(K), t), mu).T @ solution.coef
        for t in (0, 1)
    )
    np.testing.assert_allclose(own, other, atol=1e-5)
    assert solution.gap <= 1e-8 * G.max()


@given(st.integers(0, 10_000), st.sampled_from([1e-2, 1.0, np.inf]))
@settings(max_examples=30, deadline=None)
def test_random_problems_converge_and_ignore_row_order(seed, mu):
    rng = np.random.default_rng(seed)
    X, task = problem(seed, sizes=rng.integers(1, 9, rng.integers(1, 7)), d=2)
    X = X[rng.integers(0, len(X), len(X))]  # Duplicates, within and between tasks.
    K = linear_kernel(X) + 0.5 * rbf_kernel(X)
    upper = bounds(task, rng.uniform(0.05, 1))
    solution = solve_task_svm(K, task, mu, upper)
    order = np.argsort(task, kind="stable")
    moved = solve_task_svm(K[np.ix_(order, order)], task[order], mu, upper[order])
    assert solution.converged
    np.testing.assert_allclose(solution.coef[order], moved.coef, atol=1e-12)


def test_integer_weights_equal_repetition():
    X, task = problem(5)
    weight = np.random.default_rng(6).integers(1, 4, len(task))
    K = rbf_kernel(X)
    bound = 1.0 / (0.3 * np.bincount(task, weight))[task]
    weighted = solve_task_svm(K, task, 0.5, weight * bound)
    copies = np.repeat(np.arange(len(task)), weight)
    repeated = solve_task_svm(
        K[np.ix_(copies, copies)], task[copies], 0.5, bound[copies]
    )
    assert weighted.objective == pytest.approx(repeated.objective, abs=1e-9)
    np.testing.assert_allclose(
        np.bincount(copies, repeated.coef), weighted.coef, atol=1e-6
    )
    np.testing.assert_allclose(weighted.offset, repeated.offset, atol=1e-7)


def test_too_small_bounds_of_one_task_are_refused():
    task = np.array([0, 0, 1])
    upper = np.full(3, 0.9)
    with pytest.raises(Infeasible, match=r"group 1 sum to 0\.9"):
        solve_task_svm(np.eye(3), task, 1.0, upper)


def test_one_row_per_task():
    X, task = problem(7, sizes=(1, 1, 1, 1))
    solution = solve_task_svm(rbf_kernel(X), task, 1.0, np.full(4, 3.0))
    assert solution.converged
    np.testing.assert_array_equal(solution.coef, np.ones(4))


def test_many_tasks_are_quick():
    X, task = problem(8, sizes=(6,) * 60, d=5)
    solution = solve_task_svm(rbf_kernel(X, gamma=0.1), task, np.inf, bounds(task, 0.4))
    assert solution.converged
    assert solution.n_iter < 1000
