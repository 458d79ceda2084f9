from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import approx_fprime

from manyone.solvers.linear import (
    LinearSolution,
    _Problem,
    smallest_frobenius,
    solve_linear,
)

Array = NDArray[np.float64]


def make(seed: int, n: int = 14, T: int = 3, width: float = 1.0) -> tuple[Array, Array]:
    """A Gaussian Gram matrix, and one-hot responses with a zero row."""
    rng = np.random.default_rng(seed)
    task = np.arange(n) % T
    X = rng.normal(size=(T, 4))[task] + 0.6 * rng.normal(size=(n, 4))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    R = np.eye(T)[task]
    R[-1] = 0.0
    return np.exp(-width * squares / squares.mean()), R


def solve(K: Array, R: Array, *strengths: float, **options: Any) -> LinearSolution:
    return solve_linear(*scipy.linalg.eigh(K), R, *strengths, **options)


def objective(
    K: Array, R: Array, A: Array, B: Array, a: float, f: float, n: float
) -> float:
    fit = np.sum((K @ A @ B - R) ** 2)
    return float(
        fit + a * np.sum(A * (K @ A)) + f * np.sum(B**2) + n * np.linalg.norm(B, "nuc")
    )


def kernel_ridge(K: Array, R: Array, alpha: float) -> Array:
    return np.linalg.solve(K + alpha * np.eye(len(K)), R)


@pytest.mark.parametrize("seed", range(24))
def test_equals_the_convex_optimum_without_nuclear_norm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, R = make(seed, n=int(rng.integers(6, 15)), T=int(rng.integers(2, 5)))
    alpha, frobenius = 10.0 ** rng.uniform(-2, 0.3, size=2)
    result = solve(K, R, alpha, frobenius, tol=1e-7)
    root = scipy.linalg.sqrtm(K).real
    Z = cp.Variable(R.shape)
    cost = cp.sum_squares(root @ Z - R) + 2 * np.sqrt(alpha * frobenius) * cp.normNuc(Z)
    optimum = cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    assert result.converged
    assert result.objective_path[-1] == pytest.approx(optimum, rel=1e-6)
    attained = objective(K, R, result.A, result.B, alpha, frobenius, 0.0)
    assert attained == pytest.approx(result.objective_path[-1], rel=1e-9)


@pytest.mark.parametrize("max_iter", [0, 1, 2, 5])
def test_gap_bounds_the_error_at_any_iterate(max_iter: int) -> None:
    K, R = make(3)
    early = solve(K, R, 0.1, 0.5, tol=1e-10, max_iter=max_iter)
    final = solve(K, R, 0.1, 0.5, tol=1e-8)
    error = early.objective_path[-1] - final.objective_path[-1]
    assert 0.0 <= error <= early.duality_gap * early.objective_path[-1]
    assert not early.converged


@pytest.mark.parametrize("seed", range(4))
def test_gradient_with_a_eliminated(seed: int) -> None:
    K, R = make(seed)
    lam, U = scipy.linalg.eigh(K)
    problem = _Problem(lam, U.T @ R, 0.3, 0.2, 0.4, 0.0)
    B = np.random.default_rng(seed).normal(size=(3, 3))
    point = problem.at(B)
    P, _, Qt = np.linalg.svd(B)
    gradient = point.slope + 2 * 0.2 * B + 0.4 * P @ Qt
    numeric = approx_fprime(
        B.ravel(), lambda x: problem.at(x.reshape(3, 3)).value, 1e-7
    )
    np.testing.assert_allclose(
        gradient.ravel(), numeric, atol=1e-6 * np.abs(numeric).max()
    )
    # the eliminated A is stationary for the full objective, E1 of the notes corrected
    A = U @ point.X @ (B @ point.Q).T
    np.testing.assert_allclose(K @ (K @ A @ B - R) @ B.T + 0.3 * K @ A, 0.0, atol=1e-12)
    assert objective(K, R, A, B, 0.3, 0.2, 0.4) == pytest.approx(point.value, rel=1e-12)


@pytest.mark.parametrize(
    ("frobenius", "nuclear"), [(0.2, 0.1), (0.2, 1.0), (0.0, 0.7), (1.0, 2.0)]
)
def test_nuclear_norm_solution_is_stationary(frobenius: float, nuclear: float) -> None:
    K, R = make(7, n=24, T=4)
    result = solve(K, R, 0.1, frobenius, nuclear, tol=1e-14)
    assert result.converged
    assert not result.collapsed
    assert np.isnan(result.duality_gap)
    assert np.all(np.diff(result.objective_path) <= 1e-12 * result.objective_path[0])
    Y = K @ result.A
    slope = 2 * Y.T @ (Y @ result.B - R) + 2 * frobenius * result.B
    P, s, Qt = np.linalg.svd(result.B)
    rank = int(np.sum(s > 1e-8))
    core = -P.T @ slope @ Qt.T / nuclear  # must be a subgradient of the nuclear norm
    np.testing.assert_allclose(core[:rank, :rank], np.eye(rank), atol=1e-4)
    assert (
        np.linalg.norm(core[rank:, rank:], 2) <= 1.0 + 1e-6 if rank < len(s) else True
    )
    np.testing.assert_allclose(core[:rank, rank:], 0.0, atol=1e-4)


@pytest.mark.parametrize("nuclear", [0.5, 5.0, 6.0])
@pytest.mark.parametrize("frobenius", [1e-6, 1e-3, 0.1])
def test_nuclear_norm_solution_is_below_every_multiple_of_the_identity(
    frobenius: float, nuclear: float
) -> None:
    K, R = make(2, n=40, T=6)
    found = solve(K, R, 0.1, frobenius, nuclear).objective_path[-1]
    for scale in np.geomspace(0.1, 10.0, 41):
        B = scale * np.eye(R.shape[1])
        A = scale * np.linalg.solve(scale**2 * K + 0.1 * np.eye(len(K)), R)
        assert found <= objective(K, R, A, B, 0.1, frobenius, nuclear)


@pytest.mark.parametrize("unit", [1e-12, 1e12, 1e20])
@pytest.mark.parametrize(
    ("frobenius", "nuclear"), [(0.1, 0.0), (0.1, 1.0), (1e-3, 5.0)]
)
def test_units_of_the_kernel_do_not_matter(
    frobenius: float, nuclear: float, unit: float
) -> None:
    """Of ``unit K`` the minimiser is ``B / sqrt(unit)``, as penalties scale."""
    K, R = make(2, n=40, T=6)
    plain = solve(K, R, 0.1, frobenius, nuclear)
    other = solve(unit * K, R, 0.1, unit * frobenius, np.sqrt(unit) * nuclear)
    assert other.converged
    assert other.objective_path[-1] == pytest.approx(plain.objective_path[-1], rel=1e-6)
    np.testing.assert_allclose(np.sqrt(unit) * other.B, plain.B, atol=1e-3)


def test_stronger_nuclear_norm_lowers_the_rank_until_it_collapses() -> None:
    K, R = make(5, n=30, T=5)
    ranks = []
    for nuclear in (0.01, 3.0, 5.0, 100.0):
        result = solve(K, R, 0.5, 0.01, nuclear)
        ranks.append(np.linalg.matrix_rank(result.B, tol=1e-8))
        assert result.collapsed == (ranks[-1] == 0)
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] == 5
    assert ranks[-1] == 0
    assert result.objective_path[-1] == pytest.approx(np.sum(R**2))
    assert not result.coef.any()


def test_frobenius_beyond_the_largest_useful_value_gives_the_zero_model() -> None:
    K, R = make(2)
    threshold = np.linalg.norm(scipy.linalg.sqrtm(K).real @ R, 2) ** 2
    below, above = (solve(K, R, 1.0, c * threshold, tol=1e-9) for c in (0.8, 1.2))
    assert not below.collapsed
    assert below.objective_path[-1] < np.sum(R**2) * (1 - 1e-3)
    assert above.converged
    assert above.objective_path[-1] == pytest.approx(np.sum(R**2), rel=1e-8)


@pytest.mark.parametrize("nuclear", [0.0, 0.5])
@pytest.mark.parametrize("solver", ["fista", "paper"])
def test_structure_is_symmetric_and_folds(nuclear: float, solver: str) -> None:
    K, R = make(4)
    result = solve(K, R, 0.2, 0.3, nuclear, solver=solver, max_iter=200)
    np.testing.assert_allclose(result.B, result.B.T, atol=1e-12)
    assert np.linalg.eigvalsh(result.B).min() >= -1e-12
    np.testing.assert_allclose(result.A @ result.B, result.coef, atol=1e-8)
    attained = objective(K, R, result.A, result.B, 0.2, 0.3, nuclear)
    assert attained == pytest.approx(result.objective_path[-1], rel=1e-8)


def test_identity_structure_is_kernel_ridge() -> None:
    K, R = make(1)
    result = solve(K, R, 0.2, 0.3, solver="paper", step=0.0, max_iter=1)
    np.testing.assert_allclose(result.B, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(result.coef, kernel_ridge(K, R, 0.2), atol=1e-12)


@pytest.mark.parametrize("nuclear", [0.0, 0.4])
def test_permuting_tasks_permutes_the_result(nuclear: float) -> None:
    K, R = make(6, n=20, T=4)
    order = [2, 0, 3, 1]
    tol = 1e-14 if nuclear else 1e-8
    result = solve(K, R, 0.3, 0.2, nuclear, tol=tol)
    permuted = solve(K, R[:, order], 0.3, 0.2, nuclear, tol=tol)
    np.testing.assert_allclose(permuted.coef, result.coef[:, order], atol=1e-5)
    np.testing.assert_allclose(permuted.B, result.B[np.ix_(order, order)], atol=1e-5)


@pytest.mark.parametrize("nuclear", [0.0, 0.4])
def test_rank_deficient_kernels(nuclear: float) -> None:
    Phi = np.random.default_rng(0).normal(size=(20, 5))
    R = np.eye(4)[np.arange(20) % 4]
    tol = 1e-14 if nuclear else 1e-8
    full = solve(Phi @ Phi.T, R, 0.3, 0.2, nuclear, tol=tol)
    U, s, _ = np.linalg.svd(Phi, full_matrices=False)
    thin = solve_linear(s**2, U, R, 0.3, 0.2, nuclear, tol=tol)
    assert thin.objective_path[-1] == pytest.approx(full.objective_path[-1], rel=1e-8)
    K = Phi @ Phi.T
    np.testing.assert_allclose(K @ thin.coef, K @ full.coef, atol=1e-4)


def test_weights_as_scaled_rows_equal_repetition() -> None:
    K, R = make(8)
    weight = np.arange(len(K)) % 3 + 1
    rows = np.repeat(np.arange(len(K)), weight)
    repeated = solve(K[np.ix_(rows, rows)], R[rows], 0.3, 0.2, tol=1e-8)
    root = np.sqrt(weight)
    weighted = solve(K * np.outer(root, root), R * root[:, None], 0.3, 0.2, tol=1e-8)
    assert weighted.objective_path[-1] == pytest.approx(
        repeated.objective_path[-1], rel=1e-8
    )
    response = K @ (root[:, None] * weighted.coef)
    np.testing.assert_allclose(response, K[:, rows] @ repeated.coef, atol=1e-5)
    np.testing.assert_allclose(weighted.B, repeated.B, atol=1e-5)


def test_paper_solver_is_algorithm_1() -> None:
    K, R = make(0, n=9)
    alpha = 0.5
    frobenius = 0.2
    nuclear = 0.1
    step = 0.01
    B = np.eye(3)
    values = []
    for _ in range(6):
        system = np.kron(B @ B.T, K) + alpha * np.eye(K.size // 9 * 3)
        A = np.linalg.solve(system, (R @ B.T).ravel(order="F")).reshape(
            R.shape, order="F"
        )
        P, _, Qt = np.linalg.svd(B)
        slope = 2 * (K @ A).T @ (K @ A @ B - R) + 2 * frobenius * B + nuclear * P @ Qt
        B = B - step * slope
        values.append(objective(K, R, A, B, alpha, frobenius, nuclear))
    result = solve(
        K, R, alpha, frobenius, nuclear, solver="paper", step=step, max_iter=6, tol=0.0
    )
    np.testing.assert_allclose(result.objective_path, values, rtol=1e-8)
    np.testing.assert_allclose(result.coef, A @ B, atol=1e-8)
    assert not result.converged


def test_paper_solver_ends_at_the_convex_optimum_and_notices_divergence() -> None:
    K, R = make(0)
    best = solve(K, R, 0.5, 0.5, tol=1e-8)
    result = solve(
        K, R, 0.5, 0.5, solver="paper", step=0.05, tol=1e-12, max_iter=20_000
    )
    assert result.converged
    assert result.objective_path[-1] == pytest.approx(best.objective_path[-1], rel=1e-8)
    with np.errstate(all="ignore"):
        wild = solve(K, R, 0.5, 0.5, solver="paper", step=1e3, max_iter=50)
    assert not wild.converged


def test_an_output_that_is_left_with_nothing_is_reported() -> None:
    K, R = make(0)
    R[:, 1] *= 1e-9
    assert solve(K, R, 0.5, 0.5).collapsed
    assert not solve(K, R[:, [0, 2]], 0.5, 0.5).collapsed


def test_the_smallest_frobenius_keeps_the_structure_finite() -> None:
    K, R = make(0)
    lam, U = scipy.linalg.eigh(K)
    floor = smallest_frobenius(lam, U.T @ R, 0.3)
    assert floor == pytest.approx(1e-10 * np.sum(R * (K @ R)) / 0.3)
    assert np.all(np.isfinite(solve(K, R, 0.3, floor).B))
    assert smallest_frobenius(lam, 0.0 * R, 0.3) == 1.0


def test_one_row_one_task_and_no_responses() -> None:
    one = np.ones((1, 1))
    result = solve_linear(np.ones(1), one, one, 0.1, 0.1)
    assert result.coef == pytest.approx(0.9)  # min (c - 1)^2 + 0.2 |c|
    assert result.objective_path[-1] == pytest.approx(0.19)
    K, R = make(0)
    for nuclear in (0.0, 0.5):
        nothing = solve(K, 0.0 * R, 0.1, 0.1, nuclear)
        assert nothing.collapsed
        assert nothing.converged
        np.testing.assert_allclose(nothing.coef, 0.0, atol=1e-12)
