from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge

from manyone.solvers import nonlinear, two_layers
from manyone.solvers.nonlinear import (
    NonlinearSolution,
    reduced_objective,
    second_layer,
    solve_nonlinear,
)
from manyone.solvers.two_layers import (
    Descent,
    Evaluation,
    TwoLayerProblem,
    gram,
    in_units,
    respond,
    two_layer_problem,
)

Array = NDArray[np.float64]
ALPHA = 0.3
BETA = 0.2
THETA = 1.7


def make(seed: int, n: int = 16, T: int = 3) -> tuple[Array, Array, Array]:
    """Feature rows, responses with a known outlier, joint ridge weights."""
    rng = np.random.default_rng(seed)
    task = np.arange(n) % T
    X = rng.normal(size=(T, 4))[task] + 0.6 * rng.normal(size=(n, 4))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.exp(-squares / squares.mean())
    R = np.eye(T)[task]
    R[-1] = 0.0
    Phi = np.linalg.cholesky(K + 1e-12 * np.eye(n))
    return Phi, R, Phi.T @ np.linalg.solve(K + ALPHA * np.eye(n), R)


def numeric_gradient(f: Callable[[Array], float], x: Array, h: float = 1e-5) -> Array:
    steps = h * np.eye(len(x))
    return np.array([(f(x + step) - f(x - step)) / (2 * h) for step in steps])


def naive_gram(Y: Array, theta: float) -> Array:
    return np.exp(-theta * ((Y[:, None] - Y[None]) ** 2).sum(axis=2))


def full_objective(
    Phi: Array, R: Array, W: Array, B: Array, theta: float, weight: Array | float = 1.0
) -> float:
    J = naive_gram(Phi @ W, theta)
    fit = np.sum(np.broadcast_to(weight, len(R))[:, None] * (J @ B - R) ** 2)
    return float(fit + ALPHA * np.sum(W**2) + BETA * np.sum(B * (J @ B)))


def posed(
    Phi: Array,
    R: Array,
    W: Array,
    weight: Array | None = None,
    alpha: float = ALPHA,
    theta: float = THETA,
) -> TwoLayerProblem:
    weight = np.ones(len(R)) if weight is None else weight
    groups = np.zeros(len(R), dtype=np.intp)  # the ridge does not look at them
    return TwoLayerProblem(Phi, R, weight, groups, alpha, W, theta, 1.0)


def solve(
    Phi: Array, R: Array, W: Array, weight: Array | None = None, **options: Any
) -> NonlinearSolution:
    return solve_nonlinear(posed(Phi, R, W, weight), BETA, Descent(**options))


def objective(
    Phi: Array, R: Array, weight: Array | None = None, alpha: float = ALPHA
) -> Evaluation:
    """As a function of the first layer and theta."""
    problem = posed(Phi, R, np.zeros((Phi.shape[1], R.shape[1])), weight, alpha)
    return partial(reduced_objective, problem, BETA, np.empty((2, len(R), len(R))))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_reduced_gradient_in_weights_and_theta(seed: int, weighted: bool) -> None:
    Phi, R, W = make(seed)
    rng = np.random.default_rng(seed)
    W = W + 0.3 * rng.normal(size=W.shape)
    weight = rng.uniform(0.5, 3.0, size=len(R)) if weighted else np.ones(len(R))
    reduced = objective(Phi, R, weight)

    def value(x: Array) -> float:
        return reduced(x[:-1].reshape(W.shape), np.exp(x[-1]))[0]

    def gradient(x: Array) -> Array:
        _, by_weights, by_log_theta = reduced(x[:-1].reshape(W.shape), np.exp(x[-1]))
        return np.append(by_weights.ravel(), by_log_theta)

    x = np.append(W.ravel(), np.log(THETA))
    np.testing.assert_allclose(
        gradient(x), numeric_gradient(value, x), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("seed", range(3))
def test_gradient_in_dual_coefficients(seed: int) -> None:
    Phi, R, W = make(seed, n=10)
    K = Phi @ Phi.T
    reduced = objective(Phi, R)
    A = np.linalg.solve(Phi.T, W)
    numeric = numeric_gradient(
        lambda a: reduced(Phi.T @ a.reshape(A.shape), THETA)[0], A.ravel()
    )
    _, gradient, _ = reduced(W, THETA)
    by_dual = Phi @ gradient  # dQ/dA = K D, dQ/dW = Phi' D
    np.testing.assert_allclose(by_dual.ravel(), numeric, rtol=1e-6, atol=1e-6)
    by_response = np.linalg.solve(Phi.T, gradient)
    np.testing.assert_allclose(by_dual, K @ by_response, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_reduced_objective_is_the_full_one_at_the_best_second_layer(
    weighted: bool,
) -> None:
    Phi, R, W = make(1)
    weight = (
        np.random.default_rng(0).uniform(0.5, 3.0, size=len(R))
        if weighted
        else np.ones(len(R))
    )
    B = second_layer(Phi @ W, R, BETA / weight, THETA)
    value, _, _ = objective(Phi, R, weight)(W, THETA)
    assert value == pytest.approx(
        full_objective(Phi, R, W, B, THETA, weight), rel=1e-10
    )
    assert value == pytest.approx(
        BETA * np.sum(R * B) + ALPHA * np.sum(W**2), rel=1e-12
    )
    by_second = numeric_gradient(
        lambda b: full_objective(Phi, R, W, b.reshape(B.shape), THETA, weight),
        B.ravel(),
    )
    np.testing.assert_allclose(by_second, 0.0, atol=1e-6)


@pytest.mark.parametrize("block", [7, 10, 40])
def test_blocks_do_not_change_anything(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    for module in (nonlinear, two_layers):
        monkeypatch.setattr(module, "BLOCK", block)
    Phi, R, W = make(2, n=30, T=4)
    value, gradient, _ = objective(Phi, R)(W, THETA)
    Y = Phi @ W
    J = naive_gram(Y, THETA)
    B = np.linalg.solve(J + BETA * np.eye(len(J)), R)
    H = 2 * BETA * THETA * J * (B @ B.T)
    slope = 2 * (H.sum(axis=1)[:, None] * Y - H @ Y)
    assert value == pytest.approx(
        BETA * np.sum(R * B) + ALPHA * np.sum(W**2), rel=1e-10
    )
    np.testing.assert_allclose(gradient, Phi.T @ slope + 2 * ALPHA * W, atol=1e-9)
    np.testing.assert_allclose(gram(Y, Y, THETA), J, atol=1e-12)
    np.testing.assert_allclose(respond(Y, Y, B, THETA), J @ B, atol=1e-9)


def test_second_layer_is_kernel_ridge_on_the_responses() -> None:
    Phi, R, W = make(3)
    Y = Phi @ W
    ridge = KernelRidge(kernel="rbf", gamma=THETA, alpha=BETA).fit(Y, R)
    B = second_layer(Y, R, BETA, THETA)
    np.testing.assert_allclose(B, ridge.dual_coef_, atol=1e-10)
    new = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(
        respond(new, Y, B, THETA), ridge.predict(new), atol=1e-10
    )


@pytest.mark.parametrize("seed", range(3))
def test_descends_to_a_stationary_point(seed: int) -> None:
    Phi, R, W = make(seed)
    result = solve(Phi, R, W, tol=1e-14, max_iter=2000)
    assert result.converged
    assert result.theta == THETA
    assert np.all(np.diff(result.objective_path) <= 1e-12)
    assert len(result.objective_path) == result.n_iter + 1
    value, gradient, _ = objective(Phi, R)(result.W, THETA)
    assert value == pytest.approx(result.objective_path[-1], rel=1e-12)
    assert np.linalg.norm(gradient) <= 1e-4
    np.testing.assert_allclose(result.B, second_layer(Phi @ result.W, R, BETA, THETA))


def test_close_to_the_least_objective_it_descends_all_the_same() -> None:
    """With a tiny ridge the start is near the least: most gain is in small steps."""
    Phi, R, _ = make(0)
    alpha = 1e-4
    W = Phi.T @ np.linalg.solve(Phi @ Phi.T + alpha * np.eye(len(R)), R)
    problem = posed(Phi, R, W, alpha=alpha, theta=10.0)
    least = in_units(problem, BETA)[2]
    path, best = (
        solve_nonlinear(problem, BETA, Descent(tol, 5000)).objective_path
        for tol in (1e-4, 1e-13)
    )
    assert least < best[-1] < path[0] < 1.02 * least
    # The last step gained less than 1e-4 of this; hundreds like it may be left on any
    # machine.
    assert path[-1] - best[-1] < 0.05 * (path[0] - best[-1])


def test_no_iterations_leave_the_first_layer_alone() -> None:
    Phi, R, W = make(0)
    result = solve(Phi, R, W, max_iter=0)
    np.testing.assert_array_equal(result.W, W)
    np.testing.assert_allclose(result.B, second_layer(Phi @ W, R, BETA, THETA))
    assert not result.converged
    assert not solve(Phi, R, W, max_iter=2, tol=0.0).converged


def test_permuting_tasks_permutes_the_result() -> None:
    Phi, R, W = make(4)
    order = [2, 0, 1]
    result = solve(Phi, R, W, max_iter=15, tol=0.0)
    permuted = solve(Phi, R[:, order], W[:, order], max_iter=15, tol=0.0)
    np.testing.assert_allclose(permuted.W, result.W[:, order], atol=1e-7)
    np.testing.assert_allclose(permuted.B, result.B[:, order], atol=1e-7)


@pytest.mark.parametrize("solver", ["lbfgs", "paper"])
def test_integer_weights_are_repetitions(solver: str) -> None:
    Phi, R, W = make(5)
    weight = (np.arange(len(R)) % 3 + 1).astype(float)
    rows = np.repeat(np.arange(len(R)), weight.astype(int))
    options: dict[str, Any] = {
        "solver": solver,
        "max_iter": 12,
        "tol": 0.0,
        "learn_theta": True,
    }
    weighted = solve(Phi, R, W, weight=weight, **options)
    repeated = solve(Phi[rows], R[rows], W, **options)
    np.testing.assert_allclose(
        weighted.objective_path, repeated.objective_path, rtol=1e-8
    )
    np.testing.assert_allclose(weighted.W, repeated.W, atol=1e-6)
    merged = np.zeros_like(weighted.B)
    np.add.at(merged, rows, repeated.B)
    np.testing.assert_allclose(weighted.B, merged, atol=1e-6)


@pytest.mark.parametrize("c", [0.1, 3.0])
def test_scale_symmetry(c: float) -> None:
    Phi, R, W = make(6)
    free = objective(Phi, R, alpha=0.0)
    assert free(c * W, THETA / c**2)[0] == pytest.approx(free(W, THETA)[0], rel=1e-12)
    penalised = objective(Phi, R)
    shrunk = penalised(c * W, THETA / c**2)[0]
    fit = free(W, THETA)[0]
    assert shrunk - fit == pytest.approx(
        c**2 * (penalised(W, THETA)[0] - fit), rel=1e-9
    )


def test_only_alpha_over_theta_matters() -> None:
    Phi, R, W = make(6)
    options: dict[str, Any] = {"tol": 1e-13, "max_iter": 2000}
    one = solve(Phi, R, W, **options)
    scaled = posed(Phi, R, W / 2, alpha=4 * ALPHA, theta=4 * THETA)
    two = solve_nonlinear(scaled, BETA, Descent(**options))
    # responses may turn together: J, and so the second layer, does not see it
    np.testing.assert_allclose(4 * two.W @ two.W.T, one.W @ one.W.T, atol=1e-3)
    np.testing.assert_allclose(two.B, one.B, atol=1e-3)
    assert two.objective_path[-1] == pytest.approx(one.objective_path[-1], rel=1e-8)


def test_infimum_with_theta_free_is_approached_and_never_reached() -> None:
    Phi, _, _ = make(7, n=24, T=4)
    R = np.eye(4)[np.arange(24) % 4]
    infimum = 4 * BETA * 6 / (6 + BETA)
    values = []
    for c in (1e-2, 1e-3, 1e-4):
        W = c * np.linalg.solve(Phi, R)  # interpolates: Phi W = c R
        values.append(objective(Phi, R)(W, 50.0 / c**2)[0])
    assert np.all(np.diff(values) < 0)
    assert infimum < values[-1] == pytest.approx(infimum, rel=1e-4)
    start = Phi.T @ np.linalg.solve(Phi @ Phi.T + ALPHA * np.eye(24), R)
    fixed = solve(Phi, R, start, max_iter=400, tol=1e-12)
    learned = solve(Phi, R, start, max_iter=400, tol=1e-12, learn_theta=True)
    assert learned.theta > 10 * THETA
    assert infimum < learned.objective_path[-1] < fixed.objective_path[-1]


def test_paper_solver_is_algorithm_2() -> None:
    Phi, R, W = make(8, n=12)
    K = Phi @ Phi.T
    n = len(R)
    step_weights = 2e-3
    step_theta = 1e-2
    A = np.linalg.solve(Phi.T, W)
    theta = THETA
    block_ones = (R @ R.T > 0) * 1.0
    B = np.linalg.solve(block_ones + BETA * np.eye(n), R)
    J = naive_gram(K @ A, theta)
    values = []
    for _ in range(5):
        # the chain as printed in the paper: J -> E -> F -> Y -> A
        Y = K @ A
        F = Y @ Y.T
        E = np.diag(F)[:, None] + np.diag(F)[None] - 2 * F
        by_J = 2 * (J @ B - R) @ B.T + BETA * B @ B.T
        by_E = -theta * J * by_J
        by_F = np.diag((by_E + by_E.T).sum(axis=1)) - 2 * by_E
        by_A = K @ ((by_F + by_F.T) @ Y) + 2 * ALPHA * K @ A
        by_theta = np.sum(by_J * -J * E)
        A = A - step_weights * by_A
        theta = theta - step_theta * by_theta
        J = naive_gram(K @ A, theta)
        B = np.linalg.solve(J + BETA * np.eye(n), R)
        values.append(full_objective(Phi, R, Phi.T @ A, B, theta))
    result = solve(
        Phi,
        R,
        W,
        solver="paper",
        learn_theta=True,
        steps=(step_weights, step_theta),
        max_iter=5,
        tol=0.0,
    )
    np.testing.assert_allclose(result.objective_path, values, rtol=1e-9)
    np.testing.assert_allclose(result.W, Phi.T @ A, atol=1e-9)
    np.testing.assert_allclose(result.B, B, atol=1e-9)
    assert result.theta == pytest.approx(theta, rel=1e-10)
    stopped = solve(Phi, R, W, solver="paper", max_iter=500, tol=1e-2)
    assert stopped.converged
    assert stopped.theta == THETA
    assert stopped.n_iter < 500


def test_inputs_are_left_unchanged() -> None:
    Phi, R, W = make(0)
    copies = [a.copy() for a in (Phi, R, W)]
    for a in (Phi, R, W):
        a.flags.writeable = False
    solve(Phi, R, W, max_iter=3, learn_theta=True)
    for before, after in zip(copies, (Phi, R, W), strict=True):
        np.testing.assert_array_equal(before, after)


def test_one_row_one_task_and_no_responses() -> None:
    one = np.ones((1, 1))
    result = solve(one, one, 0.5 * one, tol=1e-12)
    assert result.objective_path[-1] == pytest.approx(BETA / (1 + BETA))
    Phi, R, W = make(0)
    nothing = solve(Phi, 0.0 * R, 0.0 * W)
    assert not nothing.B.any()


def test_the_problem_is_in_units_of_the_mean_weight_and_knows_the_origin() -> None:
    Phi, R, _ = make(0)
    codes = np.arange(16) % 3
    codes[15] = -1
    weight = np.random.default_rng(0).uniform(10.0, 30.0, 16)
    problem = two_layer_problem(Phi, np.ones(16), R, weight, codes, 2.0)
    unit = weight.mean()
    assert problem.unit == pytest.approx(unit)
    assert problem.alpha == pytest.approx(2.0 / unit)
    np.testing.assert_array_equal(problem.Phi[-1], 0.0)
    np.testing.assert_array_equal(problem.R[-1], 0.0)
    np.testing.assert_array_equal(problem.groups, [*codes[:15], 3, 3])
    np.testing.assert_allclose(problem.weight[:-1], weight / unit)
    assert problem.weight[-1] == pytest.approx(0.1 * weight[:15].sum() / 3 / unit)
    # It starts from the ridge regression of the first layer.
    W = Phi.T @ np.linalg.solve(Phi @ Phi.T + np.diag(2.0 / weight), R)
    np.testing.assert_allclose(problem.W, W, atol=1e-10)
    mean_square = weight @ np.sum((Phi @ W) ** 2, axis=1) / weight.sum()
    assert problem.theta == pytest.approx(10.0 / mean_square)
    bare = two_layer_problem(
        Phi, np.ones(16), R, weight, codes, 2.0, theta=3.0, anchor=False
    )
    assert bare.Phi is Phi and bare.theta == 3.0 and len(bare.groups) == 16
    # A ridge of the second layer beyond what a task weighs is brought back to that.
    at_once = Descent(max_iter=0)
    assert solve_nonlinear(bare, 1.5, at_once).beta == pytest.approx(1.5)
    assert solve_nonlinear(bare, 1e9, at_once).beta == pytest.approx(
        np.mean(weight @ R)
    )
    assert solve_nonlinear(bare, 0.0, at_once).beta > 0.0


def test_weights_are_capped_where_the_ridge_would_be_lost() -> None:
    weight = np.array([1.0, 1e6, 1e30])
    one = np.ones((3, 1))
    for alpha, largest in ((1e-9, 1e8), (0.1, 1.5e11)):
        codes = np.zeros(3, dtype=np.intp)
        problem = two_layer_problem(
            np.eye(3), np.ones(3), one, weight, codes, alpha, anchor=False
        )
        expected = [1.0, 1e6, largest]
        np.testing.assert_allclose(problem.weight * problem.unit, expected, rtol=0.01)
    Phi, R, W = make(0)
    heavy = np.where(np.arange(16) == 3, 1e30, 1.0)
    capped = np.minimum(heavy, 1e10 * BETA)
    a, b = (solve(Phi, R, W, weight=w, max_iter=3) for w in (heavy, capped))
    np.testing.assert_array_equal(a.B, b.B)
