from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from manyone.solvers.lasso_support import Penalty, finish, soft
from manyone.solvers.sparse_group_lasso import (
    SparseGroupLassoSolution,
    feasible_scale,
    solve_sparse_group_lasso,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def make(
    seed: int, n: int = 18, T: int = 3, theta: float = 3.0
) -> tuple[Array, Array, Index]:
    """A second-layer kernel, responses with an outlier, sources in mixed order."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(n) % T)
    R = np.eye(T)[groups]
    Y = R + 0.25 * rng.normal(size=(n, T))
    R[-1] = 0.0
    J = np.exp(-theta * ((Y[:, None] - Y[None]) ** 2).sum(axis=2))
    return J, R, groups


def l1_max(J: Array, R: Array) -> float:
    """Smallest l1, up to rounding, for which B = 0 is optimal by itself."""
    return (1.0 + 1e-14) * float(np.abs(2.0 * J.T @ R).max())


def group_max(J: Array, R: Array, groups: Index, l1: float) -> float:
    """Smallest group penalty (to rounding) for which B = 0 is optimal, given l1."""
    slope = soft(2.0 * J.T @ R, l1)
    norms = [
        np.linalg.norm(slope[groups == s], axis=0).max()
        for s in range(groups.max() + 1)
    ]
    return (1.0 + 1e-14) * float(max(norms))


def strengths(
    J: Array, R: Array, groups: Index, a: float, b: float
) -> tuple[float, float]:
    l1 = a * l1_max(J, R)
    return l1, b * group_max(J, R, groups, l1)


def objective(
    J: Array, R: Array, groups: Index, B: Array, l1: float, S: Array
) -> float:
    """Independent of the solver; S holds the strength of every block."""
    norms = [
        S[s, t] * np.linalg.norm(B[groups == s, t])
        for s in range(len(S))
        for t in range(B.shape[1])
    ]
    return float(np.sum((J @ B - R) ** 2) + l1 * np.abs(B).sum() + sum(norms))


def oracle(J: Array, R: Array, groups: Index, l1: float, S: Array) -> float:
    B = cp.Variable((J.shape[1], R.shape[1]))
    cost = cp.sum_squares(J @ B - R) + l1 * cp.norm1(B)
    for s in range(len(S)):
        for t in range(R.shape[1]):
            cost += S[s, t] * cp.norm(B[np.flatnonzero(groups == s), t], 2)
    return float(cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL))


def kkt_violation(
    J: Array, R: Array, groups: Index, B: Array, l1: float, S: Array
) -> float:
    """Largest distance of minus the gradient from the subdifferential."""
    slope = 2 * J.T @ (R - J @ B)
    worst = 0.0
    for s in range(len(S)):
        for t in range(B.shape[1]):
            b = B[groups == s, t]
            v = slope[groups == s, t]
            if not b.any():
                excess = np.linalg.norm(soft(v, l1)) - S[s, t]
            else:
                rest = v - S[s, t] * b / np.linalg.norm(b)
                excess = np.abs(
                    np.where(b != 0, rest - l1 * np.sign(b), soft(rest, l1))
                ).max()
            worst = max(worst, float(excess))
    return worst


@pytest.mark.parametrize("seed", range(24))
def test_equals_cvxpy(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    J, R, groups = make(
        seed, n=int(rng.integers(9, 20)), theta=float(rng.uniform(0.5, 6.0))
    )
    l1, group = strengths(J, R, groups, *rng.uniform(0.01, 0.5, size=2))
    S = np.full((3, 3), group)
    result = solve_sparse_group_lasso(J, R, groups, l1, group, tol=1e-8)
    attained = objective(J, R, groups, result.B, l1, S)
    assert result.converged
    assert attained == pytest.approx(result.objective_path[-1], rel=1e-10)
    assert attained == pytest.approx(oracle(J, R, groups, l1, S), rel=1e-6)
    assert kkt_violation(J, R, groups, result.B, l1, S) <= 1e-9 * max(l1, group)
    assert np.all(np.diff(result.objective_path) <= 0.0)
    expected = [
        [np.linalg.norm(result.B[groups == s, t]) for t in range(3)] for s in range(3)
    ]
    np.testing.assert_allclose(result.structure, expected, atol=1e-12)


@pytest.mark.parametrize("max_iter", [0, 1, 3, 6])
def test_gap_bounds_the_error_at_any_iterate(max_iter: int) -> None:
    J, R, groups = make(1)
    l1, group = strengths(J, R, groups, 0.05, 0.05)
    final = solve_sparse_group_lasso(J, R, groups, l1, group, tol=1e-9)
    early = solve_sparse_group_lasso(
        J, R, groups, l1, group, tol=1e-9, max_iter=max_iter
    )
    error = early.objective_path[-1] - final.objective_path[-1]
    assert -1e-9 <= error <= early.duality_gap * early.objective_path[-1] + 1e-12
    assert early.n_iter == max_iter
    assert not early.converged


@pytest.mark.parametrize("seed", range(5))
def test_kkt_to_high_accuracy(seed: int) -> None:
    J, R, groups = make(seed, n=30, T=5, theta=5.0)
    l1, group = strengths(J, R, groups, 0.02, 0.05)
    result = solve_sparse_group_lasso(J, R, groups, l1, group, tol=1e-10)
    assert (
        kkt_violation(J, R, groups, result.B, l1, np.full((5, 5), group)) <= 1e-9 * l1
    )
    assert 0 < np.count_nonzero(result.structure) < 25


@pytest.mark.parametrize("l1_share", [0.0, 0.3, 0.9])
def test_exactly_zero_at_the_largest_strengths(l1_share: float) -> None:
    J, R, groups = make(2)
    share = l1_share * l1_max(J, R)
    for l1, group in [
        (l1_max(J, R), 0.0),
        (share, group_max(J, R, groups, share)),
    ]:
        result = solve_sparse_group_lasso(J, R, groups, l1, group)
        assert not result.B.any()
        assert result.converged
        smaller = solve_sparse_group_lasso(J, R, groups, 0.98 * l1, 0.98 * group)
        assert smaller.B.any()


def test_groups_of_one_are_the_lasso() -> None:
    J, R, _ = make(3)
    n = len(J)
    total = 0.1 * l1_max(J, R)
    lasso = Lasso(
        alpha=total / (2 * n), fit_intercept=False, tol=1e-12, max_iter=1_000_000
    )
    expected = lasso.fit(J, R).coef_.T
    alone = np.arange(n)
    for l1, group in [(total, 0.0), (0.0, total), (0.4 * total, 0.6 * total)]:
        result = solve_sparse_group_lasso(J, R, alone, l1, group, tol=1e-11)
        np.testing.assert_allclose(result.B, expected, atol=1e-5)
        assert np.array_equal(result.B != 0, np.abs(expected) > 1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_without_l1_it_is_the_group_lasso(seed: int) -> None:
    J, R, groups = make(seed)
    _, group = strengths(J, R, groups, 0.0, 0.2)
    S = np.full((3, 3), group)
    result = solve_sparse_group_lasso(J, R, groups, 0.0, group, tol=1e-9)
    reference = oracle(J, R, groups, 0.0, S)
    assert result.objective_path[-1] == pytest.approx(reference, rel=1e-6)
    inside = result.structure[groups] > 0  # whole blocks in or out
    assert np.array_equal(result.B != 0, inside)


def test_entrywise_strengths_per_row() -> None:
    J, R, groups = make(5)
    l1, group = strengths(J, R, groups, 0.1, 0.1)
    factor = np.random.default_rng(0).uniform(0.5, 2.0, size=len(J))
    result = solve_sparse_group_lasso(J, R, groups, l1 * factor, group, tol=1e-8)
    B = cp.Variable(R.shape)
    cost = cp.sum_squares(J @ B - R) + l1 * cp.sum(
        cp.multiply(factor[:, None], cp.abs(B))
    )
    for s in range(3):
        for t in range(3):
            cost += group * cp.norm(B[np.flatnonzero(groups == s), t], 2)
    reference = cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    assert result.objective_path[-1] == pytest.approx(reference, rel=1e-6)


def solve(
    seed: int = 6, **options: Any
) -> tuple[SparseGroupLassoSolution, float, float]:
    J, R, groups = make(seed, n=40, T=5)
    l1, group = strengths(J, R, groups, 0.03, 0.05)
    return (
        solve_sparse_group_lasso(J, R, groups, l1, group, tol=1e-9, **options),
        l1,
        group,
    )


def test_warm_start_reaches_the_same_point_sooner() -> None:
    cold, _, _ = solve()
    warm, _, _ = solve(B=cold.B)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.B, cold.B, atol=1e-9)
    noisy, _, _ = solve(B=cold.B + 0.1)
    assert noisy.converged
    np.testing.assert_allclose(noisy.B, cold.B, atol=1e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("theta", [0.1, 1.0, 3.0])
def test_order_does_not_matter_whatever_the_gap_asked_for(
    tol: float, theta: float
) -> None:
    """A gap g leaves errors of sqrt(g); the support is solved exactly."""
    J, R, groups = make(7, n=40, T=5, theta=theta)
    l1, group = strengths(J, R, groups, 0.03, 0.05)
    result = solve_sparse_group_lasso(J, R, groups, l1, group, tol=tol)
    rng = np.random.default_rng(0)
    outputs = rng.permutation(5)
    rows = rng.permutation(40)
    again = solve_sparse_group_lasso(
        J[np.ix_(rows, rows)],
        R[np.ix_(rows, outputs)],
        groups[rows],
        l1,
        group,
        tol=tol,
    )
    assert result.duality_gap <= 1e-10
    np.testing.assert_array_equal(again.B != 0, result.B[np.ix_(rows, outputs)] != 0)
    np.testing.assert_allclose(again.B, result.B[np.ix_(rows, outputs)], atol=1e-10)
    np.testing.assert_allclose(
        again.structure, result.structure[:, outputs], atol=1e-10
    )


def test_a_finish_corrects_a_support_that_is_nearly_right() -> None:
    J, R, groups = make(3, n=40, T=5)
    order = np.argsort(groups, kind="stable")
    J = J[np.ix_(order, order)]
    R = R[order]
    groups = groups[order]
    l1, group = strengths(J, R, groups, 0.03, 0.05)
    exact = solve_sparse_group_lasso(J, R, groups, l1, group).B
    penalty = Penalty(np.full((40, 1), l1), group, np.bincount(groups))
    start = exact.copy()
    rng = np.random.default_rng(0)
    for column in start.T:  # one entry too few, one too many
        column[rng.choice(np.flatnonzero(column))] = 0.0
        column[rng.choice(np.flatnonzero(column == 0.0))] = 1e-3
    outputs = np.array([0, 2, 3])
    others = start[:, [1, 4]].copy()
    assert finish(J.T @ J, 2 * J.T @ R, penalty, start, outputs, rounds=50).all()
    np.testing.assert_allclose(start[:, outputs], exact[:, outputs], atol=1e-10)
    np.testing.assert_array_equal(start[:, [1, 4]], others)


def test_a_finish_that_does_not_end_leaves_its_start() -> None:
    J, R, groups = make(3, n=40, T=5)
    penalty = Penalty(
        np.full((40, 1), 0.01), 0.01, np.bincount(np.zeros(40, dtype=np.intp))
    )
    start = np.random.default_rng(0).normal(size=(40, 5))
    before = start.copy()
    assert not finish(
        J.T @ J, 2 * J.T @ R, penalty, start, np.arange(5), rounds=1
    ).any()
    np.testing.assert_array_equal(start, before)


def test_rectangular_designs_and_outputs_of_zeros() -> None:
    rng = np.random.default_rng(0)
    J = rng.normal(size=(15, 9))
    R = rng.normal(size=(15, 4))
    R[:, 2] = 0.0
    groups = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
    l1, group = strengths(J, R, groups, 0.1, 0.1)
    result = solve_sparse_group_lasso(J, R, groups, l1, group, tol=1e-8)
    assert result.structure.shape == (3, 4)
    assert not result.B[:, 2].any()
    reference = oracle(J, R, groups, l1, np.full((3, 4), group))
    assert result.objective_path[-1] == pytest.approx(reference, rel=1e-6)


def test_nearly_singular_kernel_still_converges() -> None:
    J, R, groups = make(8, n=60, T=4, theta=0.02)
    J = np.vstack([np.hstack([J, J]), np.hstack([J, J])])  # every row twice
    R = np.vstack([R, R])
    groups = np.concatenate([groups, groups])
    l1, group = strengths(J, R, groups, 0.001, 0.01)
    result = solve_sparse_group_lasso(J, R, groups, l1, group)
    assert result.converged
    assert result.duality_gap <= 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_scale_is_feasible_and_tight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(12, 4)) * 10.0 ** rng.uniform(-1, 2)
    l1 = rng.uniform(0.0, 1.0)
    strength = rng.uniform(0.1, 1.0)
    sizes = np.array([3, 5, 4])
    penalty = Penalty(np.full((12, 1), l1), strength, sizes)
    scale = feasible_scale(V, penalty)

    def feasible(c: Array) -> NDArray[np.bool_]:
        return (np.sqrt(penalty.blocks(soft(c * V, l1) ** 2)) <= strength).all(axis=0)

    assert feasible(scale).all()
    assert not feasible(1.01 * scale)[scale < 1.0].any()


@pytest.mark.parametrize("strength", [1e-9, 1e-18])
def test_feasible_scale_of_a_group_penalty_that_hardly_matters(strength: float) -> None:
    V = 1e3 * np.random.default_rng(0).normal(size=(6, 4))
    penalty = Penalty(np.ones((6, 1)), strength, np.array([2, 4]))
    np.testing.assert_allclose(
        feasible_scale(V, penalty), 1.0 / np.abs(V).max(axis=0), rtol=1e-9
    )


@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold_where_the_penalty_is_below_rounding_of_a_singular_design(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(5, 2))
    R = np.eye(2)[rng.integers(0, 2, 5)]
    J = np.exp(-1e-4 * ((Y[:, None] - Y) ** 2).sum(axis=2))
    found = solve_sparse_group_lasso(J, R, np.zeros(5, dtype=int), 1e-11, 0.0)
    free = np.linalg.lstsq(J, R)[0]
    bound = (1.0 - found.duality_gap) * found.objective_path[-1]
    assert bound <= np.sum((J @ free - R) ** 2) + 1e-11 * np.abs(free).sum()


def test_prox_beats_perturbations() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([2, 3])
    penalty = Penalty(np.full((5, 1), 0.4), 0.7, sizes)
    V = 2 * rng.normal(size=(5, 3))
    x, _, _ = penalty.prox(V)
    best = 0.5 * np.sum((x - V) ** 2) + penalty.values(x).sum()
    for _ in range(300):
        y = x + 10.0 ** rng.uniform(-4, 0) * rng.normal(size=V.shape)
        assert 0.5 * np.sum((y - V) ** 2) + penalty.values(y).sum() >= best


def test_inputs_are_left_unchanged() -> None:
    J, R, groups = make(0)
    B = np.ones_like(R)
    for a in (J, R, groups, B):
        a.flags.writeable = False
    solve_sparse_group_lasso(J, R, groups, 0.5, 0.5, B=B)
    assert np.all(B == 1.0)
