import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import OneClassSVM

from manyone.solvers.box_qp import CachedRows, Infeasible
from manyone.solvers.svdd import solve_svdd
from manyone.solvers.svdd_left_out import left_out_distances2, left_out_of_ball

KERNELS = {
    "rbf": lambda X: rbf_kernel(X, gamma=0.2),
    "polynomial": lambda X: polynomial_kernel(X, degree=3, coef0=1),
    "linear": linear_kernel,
}


def problem(seed, n=40, d=3, outliers=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    sign = np.ones(n)
    if outliers:
        sign[: n // 5] = -1
    return X, sign


def reference_dual(K, upper, sign):
    """The signed dual by Clarabel, through a factor that shows it is convex."""
    values, vectors = np.linalg.eigh(K)
    factor = vectors * np.sqrt(np.clip(values, 0, None))
    a = cp.Variable(len(K), nonneg=True)
    coef = cp.multiply(sign, a)
    objective = cp.sum_squares(factor.T @ coef) - np.diag(K) @ coef
    task = cp.Problem(cp.Minimize(objective), [cp.sum(coef) == 1, a <= upper])
    task.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return task.value


def distances2(K, solution):
    return np.diag(K) - 2 * K @ solution.coef + solution.centre_norm2


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("fraction", [0.03, 0.1, 0.4, 0.9])
def test_dual_equals_cvxpy_and_satisfies_kkt(kernel, outliers, fraction):
    X, sign = problem(seed=int(100 * fraction), outliers=outliers)
    K = KERNELS[kernel](X)
    C = 1 / (fraction * np.sum(sign > 0))
    solution = solve_svdd(K, C, sign)
    assert solution.converged
    assert solution.coef.sum() == pytest.approx(1, abs=1e-12)
    a = sign * solution.coef
    assert np.all(a >= 0)
    assert np.all(a <= C)
    expected = reference_dual(K, C, sign)
    assert solution.objective == pytest.approx(expected, rel=1e-6, abs=1e-6)
    # Complementary slackness: outside the ball (or inside, for an outlier) means a at
    # its bound.
    slack = sign * (distances2(K, solution) - solution.radius2) / np.abs(K).max()
    assert np.all(slack[a < C] <= 1e-7)
    assert np.all(slack[a > 0] >= -1e-7)
    np.testing.assert_array_equal(solution.support, solution.coef != 0)


def test_primal_value_equals_dual_value():
    X, sign = problem(0, outliers=True)
    K = KERNELS["polynomial"](X)
    C = 0.1
    solution = solve_svdd(K, C, sign)
    slack = np.clip(sign * (distances2(K, solution) - solution.radius2), 0, None)
    assert solution.radius2 + C * slack.sum() == pytest.approx(
        -solution.objective, rel=1e-8
    )


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
def test_constant_diagonal_ranks_as_one_class_svm(nu):
    X, _ = problem(1, n=150)
    K = rbf_kernel(X, gamma=0.3)
    rival = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-9).fit(K)
    new = rbf_kernel(np.random.default_rng(2).normal(size=(200, 3)), X, gamma=0.3)
    solution = solve_svdd(K, 1 / (nu * len(X)))
    ours = new @ solution.coef
    np.testing.assert_array_equal(
        np.argsort(ours), np.argsort(rival.score_samples(new))
    )
    inside = 1 - 2 * ours + solution.centre_norm2 <= solution.radius2
    np.testing.assert_array_equal(inside, rival.decision_function(new) >= 0)


@given(st.integers(0, 10_000), st.sampled_from(sorted(KERNELS)), st.booleans())
@settings(max_examples=40, deadline=None)
def test_integer_weights_equal_repetition(seed, kernel, outliers):
    X, sign = problem(seed, n=15, outliers=outliers)
    weight = np.random.default_rng(seed).integers(0, 4, len(X))
    weight[-1] = 2
    repeated = np.repeat(X, weight, axis=0)
    K = KERNELS[kernel](X)
    K_repeated = KERNELS[kernel](repeated)
    C = 1.3 / weight[sign > 0].sum()
    weighted = solve_svdd(K, C, sign, weight.astype(float))
    copied = solve_svdd(K_repeated, C, np.repeat(sign, weight))
    assert weighted.converged
    assert copied.converged
    assert weighted.objective == pytest.approx(copied.objective, rel=1e-7, abs=1e-7)
    assert weighted.radius2 == pytest.approx(copied.radius2, rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(
        np.repeat(distances2(K, weighted), weight),
        distances2(K_repeated, copied),
        atol=1e-4,
    )


def test_identical_rows_give_a_point():
    solution = solve_svdd(np.ones((6, 6)), 0.5)
    assert solution.converged
    assert solution.radius2 == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("C", [1.0, 5.0])
def test_one_row(C):
    solution = solve_svdd(np.array([[3.0]]), C)
    assert solution.converged
    assert solution.n_iter == 0
    np.testing.assert_array_equal(solution.coef, [1.0])
    assert solution.radius2 == 0


def test_zero_kernel_is_solved_at_the_origin():
    solution = solve_svdd(np.zeros((4, 4)), 1.0)
    assert solution.converged
    assert solution.radius2 == 0


def test_hard_ball_of_two_points_is_their_midpoint():
    K = linear_kernel([[0.0], [2.0]])
    solution = solve_svdd(K, 1.0)
    np.testing.assert_allclose(solution.coef, [0.5, 0.5], atol=1e-9)
    assert solution.radius2 == pytest.approx(1)
    assert solution.centre_norm2 == pytest.approx(1)


@pytest.mark.parametrize("C", [10.0, 1e10, np.inf])
def test_hard_ball_holds_every_row(C):
    X, _ = problem(2, n=80)
    K = KERNELS["rbf"](X)
    solution = solve_svdd(K, C)
    assert solution.converged
    assert solution.objective == pytest.approx(
        reference_dual(K, 2.0, np.ones(80)), abs=1e-7
    )
    assert np.all(distances2(K, solution) <= solution.radius2 + 1e-7)


def test_too_small_a_bound_is_refused_with_the_factor_it_lacks():
    X, sign = problem(3, outliers=True)
    smallest = 1 / np.sum(sign > 0)
    with pytest.raises(Infeasible, match=r"sum to 0\.8, but") as refused:
        solve_svdd(KERNELS["rbf"](X), 0.8 * smallest, sign)
    assert refused.value.factor == pytest.approx(1.25)
    assert solve_svdd(KERNELS["rbf"](X), 1.25 * 0.8 * smallest, sign).converged


def test_smallest_feasible_bound_is_the_mean():
    X, _ = problem(4)
    K = KERNELS["linear"](X)
    solution = solve_svdd(K, 1 / len(X))
    assert solution.converged
    np.testing.assert_allclose(solution.coef, 1 / len(X), rtol=1e-12)
    assert solution.radius2 <= distances2(K, solution).min() + 1e-12


@given(st.integers(0, 10_000), st.sampled_from([1e-12, 1.0, 1e12]))
@settings(max_examples=40, deadline=None)
def test_rank_deficient_kernels_converge_at_any_scale(seed, scale):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rng.integers(2, 60), rng.integers(1, 4)))
    X = X[rng.integers(0, len(X), len(X))]
    solution = solve_svdd(
        scale * linear_kernel(X), 1 / (rng.uniform(0.02, 1) * len(X)), tol=1e-7
    )
    assert solution.converged
    assert solution.n_iter < 2000


def test_vertices_are_left_even_where_rows_block_each_other():
    """C = 1 starts from one row at its bound: no free coefficient can trade."""
    for seed in (23, 34, 60, 96, 112):
        X = np.random.default_rng(seed).normal(size=(3, 3))
        solution = solve_svdd(linear_kernel(X), 1.0, max_iter=300)
        assert solution.converged
        assert np.sum(solution.coef > 0) > 1


def test_permuting_rows_permutes_the_solution():
    X, sign = problem(5, outliers=True)
    order = np.random.default_rng(0).permutation(len(X))
    K = KERNELS["rbf"](X)
    plain = solve_svdd(K, 0.1, sign)
    moved = solve_svdd(K[np.ix_(order, order)], 0.1, sign[order])
    np.testing.assert_allclose(plain.coef[order], moved.coef, atol=1e-6)


def test_rows_computed_on_demand_give_the_same_solution():
    X, _ = problem(6, n=300)
    K = KERNELS["rbf"](X)
    asked = []

    def compute(rows):
        asked.append(rows)
        return K[rows]

    lazy = solve_svdd(CachedRows(compute, np.ones(len(K))), 1 / 15)
    dense = solve_svdd(K, 1 / 15)
    np.testing.assert_array_equal(lazy.coef, dense.coef)
    asked = np.concatenate(asked)
    assert len(np.unique(asked)) == len(asked) < 200


def test_too_few_iterations_are_reported():
    X, _ = problem(7, n=60)
    K = KERNELS["rbf"](X)
    solution = solve_svdd(K, 0.1, max_iter=1)
    assert not solution.converged
    assert solution.coef.sum() == pytest.approx(1)


def test_inputs_are_unchanged():
    X, sign = problem(8)
    K = KERNELS["rbf"](X)
    weight = np.ones(len(X))
    for array in (K, sign, weight):
        array.setflags(write=False)
    assert solve_svdd(K, 0.1, sign, weight).converged


def test_distances_are_those_from_the_definition():
    X, sign = problem(9, outliers=True)
    K = KERNELS["polynomial"](X)
    solution = solve_svdd(K, 0.1, sign, tol=1e-10)
    np.testing.assert_allclose(solution.distance2, distances2(K, solution), rtol=1e-9)


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_left_out_distances_are_refits_while_the_free_rows_stay_free(kernel, outliers):
    """Refits with the same C; rows that change which are free are set aside."""
    compared = 0
    for seed in range(3):
        X, sign = problem(seed, n=60, d=12, outliers=outliers)
        K = rbf_kernel(X, gamma=0.06) if kernel == "rbf" else KERNELS[kernel](X)
        C = 1 / (0.3 * len(X))
        ball = solve_svdd(K, C, sign, tol=1e-12)
        free = (ball.coef != 0) & (np.abs(ball.coef) < C)
        rows = np.flatnonzero(ball.coef > 0)
        found = left_out_distances2(K, ball, rows, ball.coef[rows], free)
        for i, distance2 in zip(rows, found, strict=True):
            rest = np.delete(np.arange(len(K)), i)
            refit = solve_svdd(K[np.ix_(rest, rest)], C, sign[rest], tol=1e-12)
            still = (refit.coef != 0) & (np.abs(refit.coef) < C)
            if np.array_equal(still, free[rest]):
                expected = K[i, i] - 2 * refit.coef @ K[rest, i] + refit.centre_norm2
                assert distance2 == pytest.approx(expected, rel=1e-6)
                compared += 1
    assert compared >= 3


def test_left_out_distances_without_free_rows():
    """nu n rows are outside, none on the surface; the next two share the mass."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    K = linear_kernel(X)
    C = 1 / 5
    ball = solve_svdd(K, C, tol=1e-12)
    free = (ball.coef != 0) & (ball.coef < C)
    rows = np.flatnonzero(ball.coef)
    found = left_out_distances2(K, ball, rows, ball.coef[rows], np.zeros_like(free))
    assert np.all(np.isfinite(found))
    assert np.all(found >= ball.distance2[rows] - 1e-9)


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("n", [12, 40])
def test_left_out_scores_are_refits(n, outliers):
    X, sign = problem(1, n=n, outliers=outliers)
    K = KERNELS["rbf"](X)
    nu = 0.3
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 3, n).astype(float)

    def ball(weight):
        kept = np.flatnonzero(weight)
        share = weight[kept] / weight[sign > 0].sum()
        found = solve_svdd(K[np.ix_(kept, kept)], 1 / nu, sign[kept], share, tol=1e-12)
        return kept, found

    judged = left_out_of_ball(K, ball(weight)[1], sign, weight, nu, 1e-12, 10_000)
    scores = judged.scores
    np.testing.assert_array_equal(np.isnan(scores), sign < 0)
    for i in np.flatnonzero(sign > 0):
        fewer = weight.copy()
        fewer[i] -= 1
        kept, found = ball(fewer)
        distance2 = K[i, i] - 2 * found.coef @ K[kept, i] + found.centre_norm2
        assert scores[i] == pytest.approx(-distance2, abs=1e-7)


def test_left_out_scores_of_many_rows_follow_the_refits():
    X, sign = problem(2, n=130, d=2)
    K = KERNELS["rbf"](X)
    nu = 0.1
    weight = np.ones(130)
    ball = solve_svdd(K, 1 / (nu * 130), tol=1e-12)
    asked = CachedRows(lambda rows: K[rows], np.ones(130))
    scores, growth = left_out_of_ball(asked, ball, sign, weight, nu, 1e-12, 10_000)
    assert not growth.any()
    support = np.flatnonzero(ball.support)
    assert np.all(scores[support] <= -ball.distance2[support])
    refits = []
    for i in support:
        rest = np.delete(np.arange(130), i)
        found = solve_svdd(K[np.ix_(rest, rest)], 1 / (nu * 129), tol=1e-12)
        refits.append(K[i, i] - 2 * found.coef @ K[rest, i] + found.centre_norm2)
    np.testing.assert_allclose(-scores[support], refits, atol=0.1)
    inside = np.flatnonzero(~ball.support)
    np.testing.assert_allclose(scores[inside], -ball.distance2[inside], atol=1e-8)


@pytest.mark.parametrize("law", ["normal", "standard_cauchy"])
def test_growth_of_the_others_follows_balls_without_two_rows(law):
    n = 12
    X = getattr(np.random.default_rng(3), law)(size=(n, 3))
    K = KERNELS["rbf"](X)
    nu = 0.1

    def ball(kept):
        return solve_svdd(K[np.ix_(kept, kept)], 1 / (nu * len(kept)), tol=1e-12)

    def distance(row, *others):
        kept = np.delete(np.arange(n), [row, *others])
        found = ball(kept)
        distance2 = K[row, row] - 2 * found.coef @ K[kept, row] + found.centre_norm2
        return np.sqrt(distance2)

    whole = ball(np.arange(n))
    growth = left_out_of_ball(
        K, whole, np.ones(n), np.ones(n), nu, 1e-12, 10_000
    ).growth
    alone = np.array([distance(j) for j in range(n)])
    exact = [
        np.mean([distance(j, i) - alone[j] for j in range(n) if j != i])
        for i in range(n)
    ]
    np.testing.assert_allclose(growth, exact, atol=0.02)
    assert np.corrcoef(growth, exact)[0, 1] > 0.9
