"""The quadratic program behind the support vector methods, against Clarabel."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from manyone.solvers.box_qp import CachedRows, solve_box_qp


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_minimum_equals_cvxpy_in_every_group_and_box(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, rng.integers(1, 4))
    starts = np.cumsum([0, *sizes[:-1]])
    n = sizes.sum()
    factor = rng.normal(size=(n, rng.integers(1, n + 1)))
    K = factor @ factor.T
    linear = rng.normal(size=n)
    lower = -rng.uniform(0, 0.5, n) * (rng.uniform(size=n) < 0.3)
    upper = rng.uniform(1.1, 3.0, n) / np.repeat(sizes, sizes)
    ours = solve_box_qp(K, linear, lower, upper, starts, tol=1e-10)
    assert ours.converged
    assert np.all((ours.coef >= lower) & (ours.coef <= upper))
    np.testing.assert_allclose(np.add.reduceat(ours.coef, starts), 1.0, atol=1e-9)
    np.testing.assert_allclose(ours.gradient, K @ ours.coef - linear, atol=1e-8)
    b = cp.Variable(n)
    sums = [cp.sum(b[i : i + k]) == 1 for i, k in zip(starts, sizes, strict=True)]
    program = cp.Problem(
        cp.Minimize(cp.sum_squares(factor.T @ b) / 2 - linear @ b),
        [b >= lower, b <= upper, *sums],
    )
    program.solve(
        solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    assert ours.coef @ (K @ ours.coef) / 2 - linear @ ours.coef == pytest.approx(
        program.value, rel=1e-6, abs=1e-6
    )


def test_grouped_problem_decouples_over_a_block_diagonal_matrix():
    rng = np.random.default_rng(9)
    sizes = [1, 7, 20]
    starts = np.cumsum([0, *sizes[:-1]])
    K = np.zeros((28, 28))
    upper = np.repeat([1 / max(1, 0.3 * n) for n in sizes], sizes)
    for start, n in zip(starts, sizes, strict=True):
        K[start : start + n, start : start + n] = rbf_kernel(rng.normal(size=(n, 2)))
    linear = rng.normal(size=28)
    lower = np.zeros(28)
    joint = solve_box_qp(K, linear, lower, upper, starts)
    assert joint.converged
    for start, n, value in zip(starts, sizes, joint.multiplier, strict=True):
        rows = slice(start, start + n)
        alone = solve_box_qp(K[rows, rows], linear[rows], lower[rows], upper[rows])
        np.testing.assert_allclose(joint.coef[rows], alone.coef, atol=1e-7)
        assert alone.multiplier[0] == pytest.approx(value, abs=1e-7)


def test_rows_are_computed_once_and_only_when_asked_for():
    asked = []

    def compute(rows):
        asked.extend(rows.tolist())
        return rows[:, None] * np.ones(5)

    rows = CachedRows(compute, np.arange(5.0))
    np.testing.assert_array_equal(rows[3], np.full(5, 3.0))
    np.testing.assert_array_equal(rows[np.array([1, 3])], [[1.0] * 5, [3.0] * 5])
    assert asked == [3, 1]
    np.testing.assert_array_equal(rows.diagonal(), np.arange(5.0))


def test_copies_of_huge_rows_share_what_one_row_would_have():
    # Between copies curvature is rounding: a step along it must not overflow.
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(7, 5))
        copies = np.r_[:7, rng.integers(0, 7, 19)]
        K = X[copies] @ X[copies].T
        scale = np.sqrt(np.diag(K).max())
        bound = np.full(26, 1 / (0.9 * 26))
        qp = solve_box_qp(1e100 * K, 1e100 * np.diag(K) / 2, 0 * bound, bound)
        one = solve_box_qp(
            X @ X.T, (X**2).sum(axis=1) / 2, np.zeros(7), np.bincount(copies, bound)
        )
        assert qp.converged
        np.testing.assert_allclose(qp.coef @ X[copies], one.coef @ X, atol=1e-6 * scale)
