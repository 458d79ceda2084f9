from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from manyone.solvers.sparse import (
    SparseObjective,
    SparseSolution,
    solve_sparse,
    sparse_problem,
    sparse_start,
    sparse_strengths,
)
from manyone.solvers.sparse_group_lasso import solve_sparse_group_lasso
from manyone.solvers.two_layers import Descent, TwoLayerProblem, two_layer_problem

Array = NDArray[np.float64]
Index = NDArray[np.intp]
ALPHA = 0.3
L1 = 0.1
GROUP = 0.2
THETA = 2.0


def make(seed: int, n: int = 18, T: int = 3) -> tuple[Array, Array, Index, Array]:
    """Feature rows, responses with an outlier, sources, joint ridge weights."""
    rng = np.random.default_rng(seed)
    task = np.arange(n) % T
    X = rng.normal(size=(T, 4))[task] + 0.6 * rng.normal(size=(n, 4))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.exp(-squares / squares.mean())
    R = np.eye(T)[task]
    R[-1] = 0.0
    Phi = np.linalg.cholesky(K + 1e-12 * np.eye(n))
    return Phi, R, task, Phi.T @ np.linalg.solve(K + ALPHA * np.eye(n), R)


def naive_gram(Y: Array, theta: float) -> Array:
    return np.exp(-theta * ((Y[:, None] - Y[None]) ** 2).sum(axis=2))


def full_objective(
    Phi: Array, R: Array, groups: Index, W: Array, B: Array, theta: float
) -> float:
    J = naive_gram(Phi @ W, theta)
    T = R.shape[1]
    norms = sum(np.linalg.norm(B[groups == s, t]) for s in range(T) for t in range(T))
    fit = np.sum((J @ B - R) ** 2)
    return float(fit + ALPHA * np.sum(W**2) + L1 * np.abs(B).sum() + GROUP * norms)


def posed(
    Phi: Array, R: Array, groups: Index, W: Array, weight: Array | None = None
) -> TwoLayerProblem:
    weight = np.ones(len(R)) if weight is None else weight
    return TwoLayerProblem(Phi, R, weight, groups, ALPHA, W, THETA, 1.0)


def solve(
    Phi: Array,
    R: Array,
    groups: Index,
    W: Array,
    weight: Array | None = None,
    **options: Any,
) -> SparseSolution:
    return solve_sparse(posed(Phi, R, groups, W, weight), L1, GROUP, Descent(**options))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_by_the_envelope_theorem(seed: int, weighted: bool) -> None:
    Phi, R, groups, W = make(seed, n=12)
    rng = np.random.default_rng(seed)
    W = W + 0.2 * rng.normal(size=W.shape)
    weight = rng.uniform(0.5, 2.0, size=len(R)) if weighted else None
    evaluate = SparseObjective(posed(Phi, R, groups, W, weight), L1, GROUP)
    _, gradient, by_log_theta = evaluate(W, THETA)
    h = 1e-4
    numeric = np.empty_like(W)
    for index in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[index] = h
        numeric[index] = (
            evaluate(W + step, THETA)[0] - evaluate(W - step, THETA)[0]
        ) / (2 * h)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)
    rise = evaluate(W, THETA * np.exp(h))[0] - evaluate(W, THETA * np.exp(-h))[0]
    assert by_log_theta == pytest.approx(rise / (2 * h), rel=1e-6, abs=1e-6)


def test_descends_and_agrees_with_the_full_objective() -> None:
    Phi, R, groups, W = make(0)
    result = solve(Phi, R, groups, W, tol=1e-9)
    assert result.converged
    assert result.theta == THETA
    assert result.duality_gap <= 1e-8
    assert np.all(np.diff(result.objective_path) <= 1e-7)
    assert len(result.objective_path) == result.n_iter + 1
    attained = full_objective(Phi, R, groups, result.W, result.B, THETA)
    assert attained == pytest.approx(result.objective_path[-1], rel=1e-7)
    J = naive_gram(Phi @ result.W, THETA)
    alone = solve_sparse_group_lasso(J, R, groups, L1, GROUP, tol=1e-8)
    np.testing.assert_allclose(result.B, alone.B, atol=1e-3)
    norms = [
        [np.linalg.norm(result.B[groups == s, t]) for t in range(3)] for s in range(3)
    ]
    np.testing.assert_allclose(result.structure, norms, atol=1e-12)
    gradient = SparseObjective(posed(Phi, R, groups, W), L1, GROUP)(result.W, THETA)[1]
    assert np.linalg.norm(gradient) <= 1e-2


def test_structure_has_exact_zeros_and_strong_penalties_empty_it() -> None:
    Phi, R, groups, W = make(1, n=24, T=4)
    result = solve(Phi, R, groups, W)
    zero = result.structure == 0.0
    assert 0 < zero.sum() < 16
    for s, t in zip(*np.nonzero(zero), strict=True):
        assert not result.B[groups == s, t].any()
    empty = solve_sparse(posed(Phi, R, groups, W), 1e3, 1e3, Descent())
    assert not empty.B.any()
    assert np.sum(empty.W**2) <= 1e-6 * np.sum(
        W**2
    )  # nothing left but the penalty on W


@pytest.mark.parametrize("solver", ["lbfgs", "paper"])
def test_integer_weights_are_repetitions(solver: str) -> None:
    Phi, R, groups, W = make(2)
    weight = (np.arange(len(R)) % 3 + 1).astype(float)
    rows = np.repeat(np.arange(len(R)), weight.astype(int))
    options: dict[str, Any] = {"solver": solver, "max_iter": 4, "tol": 0.0}
    weighted = solve(Phi, R, groups, W, weight=weight, **options)
    repeated = solve(Phi[rows], R[rows], groups[rows], W, **options)
    np.testing.assert_allclose(
        weighted.objective_path, repeated.objective_path, rtol=1e-6
    )
    np.testing.assert_allclose(weighted.W, repeated.W, atol=1e-3)
    np.testing.assert_allclose(weighted.structure, repeated.structure, atol=1e-3)
    merged = np.zeros_like(weighted.B)
    np.add.at(merged, rows, repeated.B)
    np.testing.assert_allclose(weighted.B, merged, atol=1e-3)


def test_permuting_tasks_permutes_the_result() -> None:
    Phi, R, groups, W = make(3)
    order = np.array([2, 0, 1])
    options: dict[str, Any] = {"max_iter": 4, "tol": 0.0}
    result = solve(Phi, R, groups, W, **options)
    permuted = solve(
        Phi, R[:, order], np.argsort(order)[groups], W[:, order], **options
    )
    np.testing.assert_allclose(permuted.B, result.B[:, order], atol=1e-4)
    np.testing.assert_allclose(
        permuted.structure, result.structure[np.ix_(order, order)], atol=1e-4
    )


def test_scale_symmetry_and_learned_theta() -> None:
    Phi, R, groups, W = make(4)
    evaluate = SparseObjective(posed(Phi, R, groups, W), L1, GROUP)
    penalty = ALPHA * np.sum(W**2)
    fit = evaluate(W, THETA)[0] - penalty
    assert evaluate(3 * W, THETA / 9)[0] - 9 * penalty == pytest.approx(fit, rel=1e-8)
    fixed = solve(Phi, R, groups, W, max_iter=40)
    learned = solve(Phi, R, groups, W, max_iter=40, learn_theta=True)
    assert learned.theta > THETA
    assert learned.objective_path[-1] < fixed.objective_path[-1]


def test_paper_solver_is_algorithm_3() -> None:
    Phi, R, groups, W = make(5)
    K = Phi @ Phi.T
    A = np.linalg.solve(Phi.T, W)
    theta = THETA
    steps = (1e-3, 1e-2)
    lasso: dict[str, Any] = {"tol": 1e-11}
    J = naive_gram(K @ A, theta)
    B = solve_sparse_group_lasso(J, R, groups, L1, GROUP, **lasso).B
    values = []
    for _ in range(4):
        Y = K @ A
        F = Y @ Y.T
        E = np.diag(F)[:, None] + np.diag(F)[None] - 2 * F
        by_J = 2 * (J @ B - R) @ B.T
        by_E = -theta * J * by_J
        by_F = np.diag((by_E + by_E.T).sum(axis=1)) - 2 * by_E
        by_A = K @ ((by_F + by_F.T) @ Y) + 2 * ALPHA * K @ A
        by_theta = np.sum(by_J * -J * E)
        A = A - steps[0] * by_A
        theta = theta - steps[1] * by_theta
        J = naive_gram(K @ A, theta)
        B = solve_sparse_group_lasso(J, R, groups, L1, GROUP, **lasso).B
        values.append(full_objective(Phi, R, groups, Phi.T @ A, B, theta))
    result = solve(
        Phi,
        R,
        groups,
        W,
        solver="paper",
        learn_theta=True,
        steps=steps,
        max_iter=4,
        tol=0.0,
    )
    np.testing.assert_allclose(result.objective_path, values, rtol=1e-8)
    np.testing.assert_allclose(result.W, Phi.T @ A, atol=1e-5)
    assert result.theta == pytest.approx(theta, rel=1e-5)
    assert not result.converged
    assert solve(Phi, R, groups, W, solver="paper", tol=1e-2).converged


def test_one_row_one_task_and_no_responses() -> None:
    one = np.ones((1, 1))
    result = solve(one, one, np.zeros(1, dtype=np.intp), one)
    expected = 1 - (L1 + GROUP) / 2  # min (b - 1)^2 + (L1 + GROUP) |b|
    np.testing.assert_allclose(result.B, expected, rtol=1e-6)
    Phi, R, groups, W = make(0)
    nothing = solve(Phi, 0.0 * R, groups, 0.0 * W)
    assert not nothing.B.any()


def test_strengths_stay_where_the_second_layer_is_neither_zero_nor_everything() -> None:
    Phi, R, codes, W = make(1)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(R))
    problem = two_layer_problem(
        Phi, np.ones(len(R)), R, weight, codes, ALPHA, anchor=False
    )
    problem = sparse_problem(problem)
    root = np.sqrt(problem.weight)
    J = naive_gram(Phi @ problem.W, problem.theta) * root[:, None] * root
    target = R * root[:, None]
    # At these an output would vanish: |2 J'R| per entry, and its length where there is
    # no l1.
    largest = np.abs(2 * J.T @ target / root[:, None]).max(axis=0).min()
    longest = np.linalg.norm(2 * J.T @ target * (R > 0), axis=0).min()
    l1, group = sparse_strengths(problem, "auto", "auto")
    assert l1 == pytest.approx(0.01 * largest)
    assert group == pytest.approx(0.01 * largest / np.sqrt(problem.unit))
    assert sparse_strengths(problem, 1e9, 1e9) == pytest.approx(
        (0.1 * largest, 0.1 * longest)
    )
    assert sparse_strengths(problem, 0.0, 0.0) == pytest.approx(
        (1e-5 * largest, 1e-5 * longest)
    )
    unit = problem.unit
    inside = sparse_strengths(
        problem, 0.02 * largest * unit, 0.02 * longest * unit**1.5
    )
    assert inside == pytest.approx((0.02 * largest, 0.02 * longest))


def test_a_lasso_starts_near_the_ridge_and_sees_no_empty_group() -> None:
    Phi, R, codes, W = make(2)
    weight = np.where(np.arange(len(R)) == 0, 1e20, 1.0)
    problem = two_layer_problem(Phi, np.ones(18), R, weight, 2 * codes, ALPHA)
    ready = sparse_problem(problem)
    assert sorted(set(ready.groups.tolist())) == [0, 1, 2, 3]
    assert ready.weight.max() == pytest.approx(1e8 * ready.weight.min())
    plain = sparse_problem(
        two_layer_problem(Phi, np.ones(18), R, np.ones(18), codes, ALPHA)
    )
    values = [
        solve_sparse(
            plain._replace(W=W), L1, GROUP, Descent(max_iter=0)
        ).objective_path[0]
        for W in (plain.W, sparse_start(plain, 50))
    ]
    assert values[1] < values[0]
