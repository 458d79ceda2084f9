"""Feature rows: K = Phi Phi' exactly, and from below with landmarks."""

import numpy as np
import pytest

from manyone.kernels import Gram, Kernel, Points, resolve_kernel
from manyone.kernels.landmarks import expanded, landmark_features


def exact_features(K):
    points = Points(Kernel("precomputed"), np.empty((len(K), 0)), np.arange(len(K)))
    return Gram(points, K).features()


def features_of(features, K):
    return np.linalg.solve(features.factor, K.T).T


@pytest.fixture
def X():
    rows = np.random.default_rng(0).normal(size=(80, 3))
    return np.vstack([rows, rows[:25]])  # duplicates are ordinary


def test_exact_features_reproduce_the_kernel_at_its_rank(X):
    kernel = resolve_kernel("laplacian", X)
    K = kernel.gram(X)
    Phi, features = exact_features(K)
    assert Phi.shape == (105, 80)
    np.testing.assert_allclose(Phi @ Phi.T, K, atol=1e-12)
    np.testing.assert_allclose(
        features_of(features, kernel(X, X[features.pivots])), Phi, atol=1e-9
    )
    W = np.random.default_rng(1).normal(size=(80, 2))
    responses = kernel(X, X[features.pivots]) @ expanded(features.factor, W)
    np.testing.assert_allclose(responses, Phi @ W, atol=1e-8)


@pytest.mark.parametrize(
    "K", [np.zeros((4, 4)), np.ones((4, 4)), np.eye(4), 1e-200 * np.eye(4)]
)
def test_exact_features_of_degenerate_matrices(K):
    Phi, _ = exact_features(K)
    assert Phi.shape[1] == max(
        1, np.linalg.matrix_rank(K)
    )  # an empty column for a zero kernel
    np.testing.assert_allclose(Phi @ Phi.T, K, atol=1e-12 * max(K.max(), 1e-300))


def test_near_singular_kernel(X):
    K = resolve_kernel("rbf", X, width=1e3).gram(X)
    Phi, _ = exact_features(K)
    assert Phi.shape[1] < 60
    np.testing.assert_allclose(Phi @ Phi.T, K, atol=1e-10)


def test_landmarks_approach_from_below(X):
    kernel = resolve_kernel("rbf", X)
    K = kernel.gram(X)
    traces = []
    for m in (5, 20, 60):
        Phi, features = landmark_features(kernel, X, m, np.random.RandomState(0))
        rest = K - Phi @ Phi.T
        assert np.linalg.eigvalsh(rest).min() > -1e-10
        traces.append(np.trace(rest))
        assert len(set(features.pivots)) == Phi.shape[1] == m
        np.testing.assert_allclose(
            features_of(features, kernel(X, X[features.pivots])), Phi, atol=1e-8
        )
    assert traces[0] > traces[1] > traces[2]


def test_all_landmarks_are_exact(X):
    kernel = resolve_kernel("rbf", X)
    Phi, _ = landmark_features(kernel, X, 500, np.random.RandomState(0))
    assert Phi.shape[1] == 80
    np.testing.assert_allclose(Phi @ Phi.T, kernel.gram(X), atol=1e-9)


def test_landmarks_find_small_clusters():
    rng = np.random.RandomState(0)
    X = np.vstack([rng.normal(size=(500, 2)), rng.normal(size=(3, 2)) + 50])
    kernel = resolve_kernel("rbf", X, gamma=0.05)
    found = [
        np.any(
            landmark_features(kernel, X, 12, np.random.RandomState(s))[1].pivots >= 500
        )
        for s in range(20)
    ]
    # Uniform choice of 12 rows would find the cluster in 7 % of the runs.
    assert np.mean(found) > 0.7
