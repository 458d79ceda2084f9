import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_limits

from manyone.solvers.morvr import (
    _Evidence,
    best_precisions,
    published_start,
    solve_morvr,
)

DATA = Path(
    os.environ.get("MANYONE_DATA", Path(__file__).parents[3] / "shared" / "data")
)


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """Thousands of small products: a second thread on a busy machine only waits."""
    with threadpool_limits(1, user_api="blas"):
        yield


def problem(seed=0, n=30, n_outputs=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 1))
    design = np.column_stack(
        [np.ones(n), np.exp(-euclidean_distances(X, squared=True))]
    )
    signal = np.sin(X * rng.uniform(0.5, 1.5, n_outputs) + rng.normal(size=n_outputs))
    return design, signal + 0.1 * rng.normal(size=(n, n_outputs))


def log_evidence(design, Y, alpha, noise):
    """Straight from the N x N covariance of the model."""
    n, n_outputs = Y.shape
    active = np.isfinite(alpha)
    C = np.eye(n) + (design[:, active] / alpha[active]) @ design[:, active].T
    misfit = np.trace(np.linalg.solve(noise, Y.T @ np.linalg.solve(C, Y)))
    dets = n_outputs * np.linalg.slogdet(C)[1] + n * np.linalg.slogdet(noise)[1]
    return -0.5 * (n * n_outputs * np.log(2 * np.pi) + dets + misfit)


def minus_log_prior(Y, noise, shrinkage):
    """Inverse Wishart, up to a constant."""
    guard = shrinkage * np.diag(np.sum(Y**2, axis=0))
    return (
        Y.shape[1] * np.linalg.slogdet(noise)[1]
        + np.trace(np.linalg.solve(noise, guard)) / 2
    )


def leave_one_basis_out(design, Y, alpha, noise):
    """Sparsity and quality of every basis from the definition."""
    sparsity = np.empty(len(alpha))
    quality = np.empty(len(alpha))
    for i, phi in enumerate(design.T):
        others = np.isfinite(alpha)
        others[i] = False
        C = np.eye(len(Y)) + (design[:, others] / alpha[others]) @ design[:, others].T
        q = phi @ np.linalg.solve(C, Y)
        sparsity[i] = phi @ np.linalg.solve(C, phi)
        quality[i] = q @ np.linalg.solve(noise, q)
    return sparsity, quality


def single_output_rvm(design, y, n_iter=3000):
    """Sequential relevance vector machine with its own noise variance and full refits.

    The textbook parametrisation: weights have variance 1 / a, not noise / a.
    """
    n = len(y)
    a = np.full(design.shape[1], np.inf)
    noise = 0.1 * y.var()
    for _ in range(n_iter):
        gains = np.full(len(a), -np.inf)
        news = np.full(len(a), np.inf)
        for i, phi in enumerate(design.T):
            others = np.isfinite(a)
            others[i] = False
            B = np.linalg.inv(
                noise * np.eye(n)
                + (design[:, others] / a[others]) @ design[:, others].T
            )
            s = phi @ B @ phi
            q = phi @ B @ y

            def value(x, s=s, q=q):
                return (
                    0.0 if np.isinf(x) else (np.log(x / (x + s)) + q**2 / (x + s)) / 2
                )

            if q**2 > s:
                news[i] = s**2 / (q**2 - s)
            gains[i] = value(news[i]) - value(a[i])
        best = gains.argmax()
        a[best] = news[best]
        used = np.isfinite(a)
        Phi = design[:, used]
        covariance = np.linalg.inv(np.diag(a[used]) + Phi.T @ Phi / noise)
        mean = covariance @ Phi.T @ y / noise
        # Exact maximiser over the noise when every a scales with 1 / noise.
        C = np.eye(n) + (Phi / (a[used] * noise)) @ Phi.T
        new_noise = y @ np.linalg.solve(C, y) / n
        a *= noise / new_noise
        done = gains[best] < 1e-12 and abs(new_noise / noise - 1) < 1e-10
        noise = new_noise
        if done:
            break
    return np.flatnonzero(used), mean, noise


@pytest.mark.parametrize("seed", range(3))
def test_every_evidence_change_equals_the_difference_of_evidences(seed):
    rng = np.random.default_rng(seed)
    design, Y = problem(seed)
    noise = np.cov(Y, rowvar=False) * 0.3
    # Some bases in, at precisions that call for all three actions.
    alpha = np.where(rng.uniform(size=31) < 0.4, 10 ** rng.uniform(-2, 3, 31), np.inf)
    best, gain = best_precisions(
        *leave_one_basis_out(design, Y, alpha, noise), alpha, 3
    )
    before = log_evidence(design, Y, alpha, noise)
    actions = set()
    for i in range(31):
        changed = alpha.copy()
        changed[i] = best[i]
        actions.add((bool(np.isfinite(alpha[i])), bool(np.isfinite(best[i]))))
        difference = log_evidence(design, Y, changed, noise) - before
        assert gain[i] == pytest.approx(difference, abs=1e-10)
        for factor in (0.9, 1.1):  # No precision does better.
            changed[i] = best[i] * factor
            assert log_evidence(design, Y, changed, noise) <= before + gain[i] + 1e-10
    assert {(False, True), (True, True), (True, False)} <= actions


def test_rank_one_changes_equal_recomputation():
    design, Y = problem(3)
    state, fresh = (_Evidence(design, Y, np.zeros((3, 3)), 30.0) for _ in range(2))
    noise = np.cov(Y, rowvar=False)
    # Add three bases, re-estimate one, delete another, add a fourth.
    for basis, precision in [
        (0, 0.5),
        (4, 2.0),
        (9, 0.1),
        (4, 30.0),
        (0, np.inf),
        (7, 1.0),
    ]:
        state.set_precision(basis, precision)
        fresh.alpha[basis] = precision
        fresh.refresh()
        for both in (state, fresh):
            both.set_noise(noise)
        assert sorted(state.active) == list(fresh.active)
        assert state.objective() == pytest.approx(fresh.objective(), abs=1e-10)
        expected = -log_evidence(design, Y, state.alpha, noise)
        assert state.objective() == pytest.approx(expected, abs=1e-10)
        np.testing.assert_allclose(state.statistics(), fresh.statistics(), rtol=1e-9)
        np.testing.assert_allclose(
            state.statistics(),
            leave_one_basis_out(design, Y, state.alpha, noise),
            rtol=1e-7,
        )


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e-3, 1e-1]), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_objective_is_the_penalised_evidence_and_never_increases(
    seed, shrinkage, n_outputs
):
    design, Y = problem(seed, n_outputs=n_outputs)
    solution = solve_morvr(design, Y, shrinkage=shrinkage)
    alpha = np.full(design.shape[1], np.inf)
    alpha[solution.active] = solution.alpha
    expected = -log_evidence(design, Y, alpha, solution.noise)
    if shrinkage:
        expected += minus_log_prior(Y, solution.noise, shrinkage)
    assert solution.converged
    assert solution.objective_path[-1] == pytest.approx(expected, rel=1e-8, abs=1e-7)
    assert np.all(np.diff(solution.objective_path) <= 1e-9)
    np.testing.assert_allclose(solution.noise, solution.noise.T, atol=1e-12)
    assert np.linalg.eigvalsh(solution.noise)[0] > 0


def test_converged_solution_is_stationary():
    design, Y = problem(1)
    solution = solve_morvr(design, Y, tol=1e-10)
    alpha = np.full(design.shape[1], np.inf)
    alpha[solution.active] = solution.alpha
    statistics = leave_one_basis_out(design, Y, alpha, solution.noise)
    _, gain = best_precisions(*statistics, alpha, 3)
    assert gain.max() < 1e-7
    Phi = design[:, solution.active]
    C = np.eye(30) + (Phi / solution.alpha) @ Phi.T
    guard = 1e-2 * np.diag(np.sum(Y**2, axis=0))
    expected = (Y.T @ np.linalg.solve(C, Y) + guard) / 36
    np.testing.assert_allclose(solution.noise, expected, rtol=1e-4)
    objective = [
        minus_log_prior(Y, noise, 1e-2) - log_evidence(design, Y, alpha, noise)
        for noise in (expected, 0.99 * expected, 1.01 * expected)
    ]
    assert objective[0] < min(objective[1:])


def test_posterior_is_that_of_the_active_bases():
    design, Y = problem(2)
    solution = solve_morvr(design, Y)
    Phi = design[:, solution.active]
    precision = Phi.T @ Phi + np.diag(solution.alpha)
    np.testing.assert_allclose(
        precision @ solution.covariance, np.eye(len(precision)), atol=1e-8
    )
    np.testing.assert_allclose(precision @ solution.mean, Phi.T @ Y, atol=1e-8)
    assert len(solution.active) < 20
    assert np.mean((Phi @ solution.mean - Y) ** 2) < 0.05


def test_predictive_covariance_covers_new_rows():
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(5, 2))
    design = rng.normal(size=(900, 5))
    mixing = np.array([[1.0, 0.0], [0.8, 0.3]])
    Y = design @ weights + rng.normal(size=(900, 2)) @ mixing.T
    solution = solve_morvr(design[:300], Y[:300], shrinkage=1e-4)
    new = design[300:, solution.active]
    scale = 1 + np.einsum("ij,ij->i", new @ solution.covariance, new)
    assert np.all(scale > 1)
    error = Y[300:] - new @ solution.mean
    distance2 = (
        np.sum(error * np.linalg.solve(solution.noise, error.T).T, axis=1) / scale
    )
    assert np.mean(distance2) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_single_output_equals_an_independent_relevance_vector_machine(seed):
    design, Y = problem(seed, n=20, n_outputs=1)
    active, mean, noise = single_output_rvm(design, Y[:, 0])
    solution = solve_morvr(
        design, Y, shrinkage=0.0, noise=published_start(Y), tol=1e-12
    )
    np.testing.assert_array_equal(solution.active, active)
    fitted = design[:, active] @ np.column_stack([solution.mean[:, 0], mean])
    np.testing.assert_allclose(fitted[:, 0], fitted[:, 1], atol=1e-4)
    np.testing.assert_allclose(solution.mean[:, 0], mean, rtol=1e-2)
    assert solution.noise[0, 0] == pytest.approx(noise, rel=1e-3)


def test_rank_one_updates_survive_many_iterations():
    """Changes beyond a refresh, against the evidence computed from scratch."""
    design, Y = problem(4, n=120)
    solution = solve_morvr(design, Y, shrinkage=1e-4, tol=1e-9)
    alpha = np.full(design.shape[1], np.inf)
    alpha[solution.active] = solution.alpha
    assert solution.n_iter > 250
    expected = minus_log_prior(Y, solution.noise, 1e-4)
    expected -= log_evidence(design, Y, alpha, solution.noise)
    assert solution.objective_path[-1] == pytest.approx(expected, rel=1e-8)


def test_duplicated_bases_are_not_both_needed():
    design, Y = problem(5)
    single = solve_morvr(design, Y)
    double = solve_morvr(np.hstack([design, design]), Y)
    assert double.converged
    assert len(double.active) == len(single.active)
    assert double.objective_path[-1] == pytest.approx(
        single.objective_path[-1], abs=1e-2
    )


def test_guard_keeps_one_hot_noise_positive_definite():
    rng = np.random.default_rng(6)
    labels = np.repeat(np.arange(5), 6)
    X = rng.normal(size=(5, 4))[labels] + 0.3 * rng.normal(size=(30, 4))
    design = np.column_stack(
        [np.ones(30), np.exp(-euclidean_distances(X, squared=True) / 4)]
    )
    Y = np.eye(5)[labels]
    assert np.linalg.matrix_rank(published_start(Y)) == 4
    guarded = solve_morvr(design, Y)
    assert guarded.converged
    assert np.linalg.eigvalsh(guarded.noise)[0] > 1e-5
    fitted = design[:, guarded.active] @ guarded.mean
    assert np.mean(fitted.argmax(axis=1) == labels) > 0.95


def test_noise_is_symmetric_positive_definite_throughout():
    labels = np.repeat(np.arange(5), 6)
    X = np.random.default_rng(6).normal(size=(5, 4))[labels]
    X += 0.3 * np.random.default_rng(7).normal(size=X.shape)
    design = np.column_stack(
        [np.ones(30), np.exp(-euclidean_distances(X, squared=True) / 4)]
    )
    whole = solve_morvr(design, np.eye(5)[labels])
    for max_iter in range(1, whole.n_iter + 1):
        noise = solve_morvr(design, np.eye(5)[labels], max_iter=max_iter).noise
        np.testing.assert_allclose(noise, noise.T, atol=1e-14)
        assert np.linalg.eigvalsh(noise)[0] > 0


def test_one_row_per_output_is_signal_and_not_noise():
    """The plain evidence is flat here: "all signal" and "all noise" tie."""
    Y = np.eye(4)
    design = 0.9 * np.eye(4) + 0.1
    solution = solve_morvr(design, Y)
    np.testing.assert_array_equal(solution.active, np.arange(4))
    assert np.all(np.diag(design @ solution.mean) > 0.9)


def test_published_start_on_one_hot_responses_stays_finite():
    labels = np.repeat(np.arange(4), 5)
    X = np.random.default_rng(7).normal(size=(4, 3))[labels]
    X += np.random.default_rng(8).normal(size=X.shape)
    design = np.column_stack(
        [np.ones(20), np.exp(-euclidean_distances(X, squared=True) / 6)]
    )
    Y = np.eye(4)[labels]
    solution = solve_morvr(
        design, Y, shrinkage=0.0, noise=published_start(Y), max_iter=200
    )
    assert np.isfinite(solution.mean).all()
    assert np.isfinite(solution.objective_path).all()


def test_integer_weights_equal_repetition():
    design, Y = problem(12)
    weight = np.random.default_rng(13).integers(0, 4, len(Y))
    weighted = solve_morvr(design, Y, weight=weight.astype(float))
    repeated = solve_morvr(
        np.repeat(design, weight, axis=0), np.repeat(Y, weight, axis=0)
    )
    np.testing.assert_array_equal(weighted.active, repeated.active)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(weighted.noise, repeated.noise, rtol=1e-8)
    np.testing.assert_allclose(
        weighted.objective_path, repeated.objective_path, rtol=1e-9
    )


def weighted_blobs(seed, ratio):
    """Kernel matrix and responses of two tasks, the first so much heavier."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 12)
    X = rng.normal(size=(24, 3)) + 3.0 * np.eye(2, 3)[labels]
    distances2 = euclidean_distances(X, squared=True)
    K = np.exp(-distances2 / distances2[np.triu_indices(24, 1)].mean())
    return K, np.eye(2)[labels], np.where(labels == 0, ratio, 1.0)


@pytest.mark.parametrize("ratio", [1.0, 1e2, 1e3, 1e4, 1e6, 1e17])
@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_does_not_matter_however_uneven_their_weights(seed, ratio):
    """Bases that only rounding tells apart do not enter the model."""
    design, Y, weight = weighted_blobs(seed, ratio)
    order = np.random.default_rng(seed).permutation(24)
    plain = solve_morvr(design, Y, shrinkage=0.03, weight=weight, tol=1e-6)
    moved = solve_morvr(
        design[np.ix_(order, order)],
        Y[order],
        shrinkage=0.03,
        weight=weight[order],
        tol=1e-6,
    )
    np.testing.assert_array_equal(np.sort(order[moved.active]), plain.active)
    fitted = design[:, plain.active] @ plain.mean
    again = design[np.ix_(order, order)][:, moved.active] @ moved.mean
    np.testing.assert_allclose(
        again, fitted[order], atol=1e-9 if ratio == 1.0 else 1e-4
    )


def test_light_rows_are_seen_beside_heavy_ones():
    design, Y, weight = weighted_blobs(0, 1e17)
    solution = solve_morvr(design, Y, shrinkage=0.03, weight=weight, tol=1e-12)
    fitted = design[:, solution.active] @ solution.mean
    assert np.all(fitted[12:, 1] > 0.2)
    assert np.median(fitted[12:, 1]) > 0.7
    assert np.all(np.abs(fitted[:12, 1]) < 1e-3)


@pytest.mark.parametrize(
    "Y",
    [np.ones((1, 1)), np.ones((4, 1)), np.zeros((4, 2)), np.eye(4), np.eye(4)[:, :1]],
)
def test_degenerate_responses(Y):
    design = np.column_stack([np.ones(len(Y)), np.eye(len(Y)) + 0.1])
    solution = solve_morvr(design, Y)
    assert solution.converged
    assert np.isfinite(solution.mean).all()


def test_too_few_iterations_are_reported():
    design, Y = problem(9)
    solution = solve_morvr(design, Y, max_iter=2)
    assert not solution.converged
    assert solution.n_iter == 2
    assert len(solution.active) <= 2


def test_responses_without_signal_leave_few_bases():
    design, Y = problem(10)
    noise = np.random.default_rng(11).normal(size=Y.shape)
    assert len(solve_morvr(design, noise).active) <= 8


def one_hot_auc(X, labels, new, new_labels):
    """Mean AUC of -abs(f_t - mean_t), trained on one-hot responses with a bias."""
    distances2 = euclidean_distances(X, squared=True)
    width = distances2[np.triu_indices(len(X), 1)].mean()
    design, new_design = (
        np.column_stack([np.ones(len(D)), np.exp(-D / width)])
        for D in (distances2, euclidean_distances(new, X, squared=True))
    )
    solution = solve_morvr(design, np.eye(labels.max() + 1)[labels])
    assert solution.converged
    fitted = design[:, solution.active] @ solution.mean
    predicted = new_design[:, solution.active] @ solution.mean
    return 100 * np.mean(
        [
            roc_auc_score(
                new_labels == t,
                -np.abs(predicted[:, t] - fitted[labels == t, t].mean()),
            )
            for t in range(labels.max() + 1)
        ]
    )


def split(X, y, classes, n_train, n_test, rng):
    train = []
    test = []
    for label in classes:
        rows = rng.permutation(np.flatnonzero(y == label))
        train.append(rows[:n_train])
        test.append(rows[n_train : n_train + n_test])
    codes = np.arange(len(classes))
    X = X.reshape(len(X), -1) / 255.0
    train = np.concatenate(train)
    test = np.concatenate(test)
    return X[train], np.repeat(codes, n_train), X[test], np.repeat(codes, n_test)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "keys", "n_classes", "sizes", "floor"),
    [
        ("mnist.npz", ("x_test", "y_test"), 10, (15, 150), 95.0),
        ("coil100_gray32.npz", ("X", "y"), 50, (7, 65), 95.0),
    ],
)
def test_guarded_start_on_images(name, keys, n_classes, sizes, floor):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in {DATA}; set MANYONE_DATA")
    with np.load(path) as data:
        X, y = (data[key] for key in keys)
    aucs = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        classes = rng.choice(np.unique(y), n_classes, replace=False)
        aucs.append(one_hot_auc(*split(X, y, classes, *sizes, rng)))
    assert np.mean(aucs) >= floor
